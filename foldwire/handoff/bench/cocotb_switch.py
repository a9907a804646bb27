"""Endpoints at all links of a switch push operands; every one of them must get every sum.

It is the software that programs the switch over AXI4-Lite, too. Packets and what they must become
stand in the file that `BENCH` names, a batch at a time: as many addresses as the reduction tables
hold. Every link has gaps, and credits come back late.
"""

import random
from collections import Counter, deque
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge
from models import (
    ABOUT,
    OKAY,
    PATIENCE,
    PAUSE,
    Bus,
    Registers,
    check_after_reset,
    perform,
    release_reset,
)

__all__ = [
    "every_member_gets_every_sum", "packets_that_are_wrong_are_dropped",
    "registers_show_their_values_after_reset",
]

CLASSES = 3
START = 1 << 128
"""Mark of the first flit of a packet."""


class Link:
    """An endpoint at a link of the switch."""

    def __init__(self, dut: Any, port: int, rng: random.Random) -> None:
        self.port, self._bus, self._rng = port, Bus(dut, f"link_{port}_"), rng
        self.credits = [ABOUT["credits"]] * CLASSES
        self.packets: deque[list[int]] = deque()
        self.expected: Counter[tuple[int, ...]] = Counter()
        self._sending: deque[int] = deque()
        self._receiving: list[int] = []
        self._held = [0] * CLASSES
        self._bus.set(rx_valid=0, rx_payload=0, tx_credit=0)

    @property
    def busy(self) -> bool:
        """Whether there is something to send, to get, or to give back."""
        waiting = self.packets or self._sending or self._receiving or any(self._held)
        return bool(waiting or self.expected.total() or min(self.credits) < ABOUT["credits"])

    def step(self) -> None:
        """Between two edges: take what the switch shows, and drive what it sees next."""
        if self._bus.get("tx_valid"):
            self._receive(self._bus.get("tx_payload"))
        returned = self._bus.get("rx_credit")
        for each in range(CLASSES):
            self.credits[each] += returned >> each & 1
            assert self.credits[each] <= ABOUT["credits"], f"link {self.port}: a credit too many"
        if not self._sending and self.packets and self.credits[0]:
            self.credits[0] -= 1
            self._sending.extend(self.packets.popleft())
        flit = self._sending.popleft() if self._sending and self._rng.random() >= PAUSE else None
        freed = 0
        for each, held in enumerate(self._held):
            if held and self._rng.random() >= PAUSE:
                self._held[each] -= 1
                freed |= 1 << each
        self._bus.set(rx_valid=int(flit is not None), rx_payload=flit or 0, tx_credit=freed)

    def _receive(self, flit: int) -> None:
        first = bool(flit & START)
        assert first == (not self._receiving), f"link {self.port}: packets are not whole"
        self._receiving.append(flit)
        if len(self._receiving) < ABOUT["packet_flits"]:
            return
        packet = tuple(self._receiving)
        shown = " ".join(f"{each:#x}" for each in packet)
        assert self.expected[packet], f"link {self.port}: unexpected packet {shown}"
        self.expected[packet] -= 1
        self._held[ABOUT["result_class"]] += 1
        self._receiving = []


class Bench:
    """The switch out of reset and programmed, with everything around it."""

    def __init__(self, dut: Any) -> None:
        self._dut = dut
        self._rng = random.Random(cocotb.RANDOM_SEED)
        self.software = Registers(dut, "csr_", self._rng)
        self.links = [Link(dut, port, self._rng) for port in range(ABOUT["ports"])]

    async def start(self) -> None:
        """Clock, reset, software."""
        Clock(self._dut.clk, 2, unit="ns").start()
        await release_reset(self._dut)

    async def run(self, batch: dict[str, Any]) -> None:
        """Send the packets of a batch and see all of what they must become, and no more."""
        for link, sent, expected in zip(self.links, batch["send"], batch["expect"], strict=True):
            link.packets.extend(self._rng.sample(sent, len(sent)))
            link.expected.update(tuple(packet) for packet in expected)
        quiet = 0
        for _ in range(PATIENCE):
            await FallingEdge(self._dut.clk)
            for link in self.links:
                link.step()
            quiet = 0 if any(link.busy for link in self.links) else quiet + 1
            if quiet == 50:
                return
        missing = [link.port for link in self.links if link.busy]
        raise AssertionError(f"packets or credits are missing at links {missing}")

    async def check(self, values: list[list[int]]) -> None:
        """Compare registers."""
        for offset, value in values:
            found = await self.software.read(offset)
            assert found == value, f"register {offset:#x} is {found:#x}, not {value:#x}"


@cocotb.test()
async def registers_show_their_values_after_reset(dut: Any) -> None:
    """Every register that can be read, and an address at which there is none."""
    bench = Bench(dut)
    await bench.start()
    await check_after_reset(bench.software)


@cocotb.test()
async def every_member_gets_every_sum(dut: Any) -> None:
    """Batches of sums and maxima, one after the other."""
    bench = Bench(dut)
    await bench.start()
    await perform(bench.software, ABOUT["set_up"])
    for batch in ABOUT["batches"]:
        await bench.run(batch)
    await ClockCycles(dut.clk, 20)
    await bench.check(ABOUT["after_batches"])
    assert Bus(dut, "").get("irq") == 0


@cocotb.test()
async def packets_that_are_wrong_are_dropped(dut: Any) -> None:
    """They are counted and reported; what is right passes, and all credits come home."""
    bench = Bench(dut)
    await bench.start()
    await perform(bench.software, ABOUT["set_up"])
    await bench.run(ABOUT["wrong"])
    await bench.check(ABOUT["after_wrong"])
    assert Bus(dut, "").get("irq") == 1
    offset, word = ABOUT["acknowledge"]
    assert await bench.software.write(offset, word) == OKAY
    await ClockCycles(dut.clk, 4)
    assert Bus(dut, "").get("irq") == 0
