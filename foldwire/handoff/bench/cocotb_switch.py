# SPDX-License-Identifier: Apache-2.0
"""Endpoints at all links of a switch push operands; every one of them must get every sum.

The bench also programs the switch over AXI4-Lite. Packets to send and to expect are in the file
that `BENCH` names, in batches of no more addresses than the reduction tables hold. Every link has
gaps, and credits are returned late.
"""

import random
from collections import Counter
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge
from models import (
    ABOUT,
    OKAY,
    PATIENCE,
    Bus,
    Link,
    Registers,
    check_after_reset,
    perform,
    release_reset,
)

__all__ = [
    "every_member_gets_every_sum", "packets_that_are_wrong_are_dropped",
    "registers_show_their_values_after_reset",
]


class Endpoint:
    """An endpoint at a link of the switch."""

    def __init__(self, dut: Any, port: int, rng: random.Random) -> None:
        self.port = port
        self.link = Link(dut, f"link_{port}_", rng, self._take)
        self.expected: Counter[tuple[int, ...]] = Counter()

    @property
    def busy(self) -> bool:
        """True if there are packets to send or to expect, or credits to return."""
        return self.link.busy or bool(self.expected.total())

    def _take(self, packet: tuple[int, ...]) -> None:
        shown = " ".join(f"{each:#x}" for each in packet)
        assert self.expected[packet], f"link {self.port}: unexpected packet {shown}"
        self.expected[packet] -= 1


class Bench:
    """The switch out of reset and programmed, with everything around it."""

    def __init__(self, dut: Any) -> None:
        self._dut = dut
        self._rng = random.Random(cocotb.RANDOM_SEED)
        self.software = Registers(dut, "csr_", self._rng)
        self.endpoints = [Endpoint(dut, port, self._rng) for port in range(ABOUT["ports"])]

    async def start(self) -> None:
        """Start the clock, and release the reset."""
        Clock(self._dut.clk, 2, unit="ns").start()
        await release_reset(self._dut)

    async def run(self, batch: dict[str, Any]) -> None:
        """Send the packets of a batch, and wait for all packets expected, and no others."""
        parts = zip(self.endpoints, batch["send"], batch["expect"], strict=True)
        for endpoint, sent, expected in parts:
            for packet in self._rng.sample(sent, len(sent)):
                endpoint.link.send(packet)
            endpoint.expected.update(tuple(packet) for packet in expected)
        quiet = 0
        for _ in range(PATIENCE):
            await FallingEdge(self._dut.clk)
            for endpoint in self.endpoints:
                endpoint.link.step()
            quiet = 0 if any(each.busy for each in self.endpoints) else quiet + 1
            if quiet == 50:
                return
        missing = [each.port for each in self.endpoints if each.busy]
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
    """They are counted and reported; correct packets pass, and all credits are returned."""
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
