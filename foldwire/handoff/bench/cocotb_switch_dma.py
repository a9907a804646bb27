# SPDX-License-Identifier: Apache-2.0
"""All-reduces of an endpoint, with a table in place of its switch and the other members.

The table has the packets that it must send, each once, and the replies to each: sums, or partials
that it has to add itself. It is in the file that `BENCH` names, stage by stage, with register
writes, memory, and the values expected in both after the stage. Memory and links stall at random.
"""

import random
from functools import partial
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge
from models import (
    ABOUT,
    PATIENCE,
    Bus,
    Link,
    Memory,
    Registers,
    check_after_reset,
    perform,
    release_reset,
)

__all__ = [
    "an_all_reduce_is_given_up", "registers_show_their_values_after_reset",
    "vectors_are_reduced", "wrong_packets_are_dropped",
]


class Bench:
    """The endpoint out of reset, with everything around it."""

    def __init__(self, dut: Any) -> None:
        self._dut, self._pins = dut, Bus(dut, "")
        rng = random.Random(cocotb.RANDOM_SEED)
        self.software = Registers(dut, "csr_", rng)
        self._image = bytearray(rng.randbytes(ABOUT["memory_bytes"]))
        self._memories = [
            Memory(dut, f"{port}_", self._image, random.Random(rng.random()))
            for port in ABOUT["memory_ports"]
        ]
        self._links = [
            Link(dut, f"link_{k}_", rng, partial(self._take, k)) for k in range(ABOUT["links"])
        ]
        self._answers: list[dict[tuple[int, ...], list[list[int]]]] = [{} for _ in self._links]

    @classmethod
    async def ready(cls, dut: Any) -> "Bench":
        """A bench after reset."""
        bench = cls(dut)
        for memory in bench._memories:
            cocotb.start_soon(memory.serve_reads())
            cocotb.start_soon(memory.serve_writes())
        Clock(dut.clk, 2, unit="ns").start()
        await release_reset(dut)
        cocotb.start_soon(bench._serve_links())
        return bench

    async def _serve_links(self) -> None:
        while True:
            await FallingEdge(self._dut.clk)
            for link in self._links:
                link.step()

    def _take(self, number: int, packet: tuple[int, ...]) -> None:
        shown = " ".join(f"{each:#x}" for each in packet)
        assert packet in self._answers[number], f"link {number}: unexpected packet {shown}"
        for reply in self._answers[number].pop(packet):
            self._links[number].send(reply)

    async def run(self, stage: dict[str, Any]) -> None:
        """Run a stage until all is quiet; compare memory and registers."""
        for address, content in stage["put"]:
            self._put(self._image, address, content)
        for answers, exchanges in zip(self._answers, stage["answers"], strict=True):
            answers.update((tuple(sent), replies) for sent, replies in exchanges)
        for link, packets in zip(self._links, stage["send"], strict=True):
            for packet in packets:
                link.send(packet)
        wanted = bytearray(self._image)
        for address, content in stage["expect"]:
            self._put(wanted, address, content)
        await perform(self.software, stage["writes"])
        await self._quiet(stage["idle"])
        wrong = [at for at in range(0, len(wanted), 4)
                 if self._image[at : at + 4] != wanted[at : at + 4]]
        assert not wrong, f"{len(wrong)} words of memory are wrong, first {wrong[0]:#x}"
        for offset, value in stage["registers"]:
            found = await self.software.read(offset)
            assert found == value, f"register {offset:#x} is {found:#x}, not {value:#x}"
        await self._acknowledge(stage["interrupt"])

    @staticmethod
    def _put(image: bytearray, address: int, content: str) -> None:
        data = bytes.fromhex(content)
        image[address : address + len(data)] = data

    async def _quiet(self, idle: int) -> None:
        """Wait until all packets have come and nothing is in flight."""
        quiet = 0
        for _ in range(PATIENCE):
            await FallingEdge(self._dut.clk)
            busy = any(self._answers) or any(link.busy for link in self._links)
            quiet = 0 if busy or self._pins.get("idle") != idle else quiet + 1
            if quiet == 50:
                return
        missing = [sum(len(replies) > 0 for replies in each.values()) for each in self._answers]
        raise AssertionError(f"the endpoint does not come to rest; operands missing: {missing}")

    async def _acknowledge(self, causes: int) -> None:
        found = await self.software.read(ABOUT["interrupt"])
        assert found == causes, f"interrupts {found:#x}, not {causes:#x}"
        assert self._pins.get("irq") == int(causes != 0)
        await perform(self.software, [[ABOUT["interrupt"], causes]])
        assert await self.software.read(ABOUT["interrupt"]) == 0
        assert self._pins.get("irq") == 0


@cocotb.test()
async def registers_show_their_values_after_reset(dut: Any) -> None:
    """Every register that can be read, and an address at which there is none."""
    bench = await Bench.ready(dut)
    await check_after_reset(bench.software)


async def follow(dut: Any, course: str) -> None:
    """Run the stages of *course* in order, from a reset on."""
    bench = await Bench.ready(dut)
    for stage in ABOUT[course]:
        await bench.run(stage)


@cocotb.test()
async def vectors_are_reduced(dut: Any) -> None:
    """All-reduces of several operations and lengths, one after the other."""
    await follow(dut, "sums")


@cocotb.test()
async def wrong_packets_are_dropped(dut: Any) -> None:
    """They are counted and reported, their credits returned, and the next vector is reduced."""
    await follow(dut, "drops")


@cocotb.test()
async def an_all_reduce_is_given_up(dut: Any) -> None:
    """An all-reduce whose packets are lost is given up; all members go on in the next epoch."""
    await follow(dut, "aborts")
