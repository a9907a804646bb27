# SPDX-License-Identifier: Apache-2.0
"""Drivers of ready/valid streams for cocotb, with gaps and stalls drawn at random."""

import random
from collections.abc import Iterable, Iterator
from typing import Any

from cocotb.triggers import RisingEdge
from cocotb.types import Logic, LogicArray

__all__ = ["StreamSink", "StreamSource", "number", "pause_channels", "pauses", "reset"]


def pauses(chance: float, rng: random.Random) -> Iterator[bool]:
    """Endless sequence that is true with probability *chance*."""
    while True:
        yield rng.random() < chance


def pause_channels(bus: Any, chance: float, rng: random.Random) -> None:
    """Make every channel of an AXI master or slave pause in a cycle with probability *chance*."""
    for channel in (
        bus.write_if.aw_channel,
        bus.write_if.w_channel,
        bus.write_if.b_channel,
        bus.read_if.ar_channel,
        bus.read_if.r_channel,
    ):
        channel.set_pause_generator(pauses(chance, random.Random(rng.randrange(1 << 32))))


async def reset(dut: Any) -> None:
    """Hold the reset for two cycles."""
    dut.rst.value = 1
    await RisingEdge(dut.clk)
    await RisingEdge(dut.clk)
    dut.rst.value = 0
    await RisingEdge(dut.clk)


def number(value: Logic | LogicArray) -> int:
    """Value of a port; one of a single bit has no `to_unsigned`."""
    return value.to_unsigned() if isinstance(value, LogicArray) else int(value)


class StreamSource:
    """Offers payloads at an input stream; one that was offered stays until it is taken.

    Parameters
    ----------
    dut
        Design under test, with a clock `clk`.
    name
        Prefix of the stream's ports, for example ``"i"``.
    gaps
        True in the cycles in which no new payload is offered.
    """

    def __init__(self, dut: Any, name: str, gaps: Iterator[bool]) -> None:
        self._clk = dut.clk
        self._payload = getattr(dut, f"{name}_payload")
        self._valid = getattr(dut, f"{name}_valid")
        self._ready = getattr(dut, f"{name}_ready")
        self._gaps = gaps
        self._valid.value = 0

    async def send(self, payloads: Iterable[int]) -> None:
        """Offer all *payloads*; return when the last one has been taken."""
        for payload in payloads:
            while next(self._gaps):
                await RisingEdge(self._clk)
            self._payload.value = payload
            self._valid.value = 1
            await RisingEdge(self._clk)
            while not self._ready.value:
                await RisingEdge(self._clk)
            self._valid.value = 0


class StreamSink:
    """Takes payloads from an output stream and sees that a stalled one does not change.

    Parameters
    ----------
    dut
        Design under test, with a clock `clk`.
    name
        Prefix of the stream's ports, for example ``"o"``.
    stalls
        True in the cycles in which nothing is taken, whether or not something is offered.
    """

    def __init__(self, dut: Any, name: str, stalls: Iterator[bool]) -> None:
        self._clk = dut.clk
        self._name = name
        self._payload = getattr(dut, f"{name}_payload")
        self._valid = getattr(dut, f"{name}_valid")
        self._ready = getattr(dut, f"{name}_ready")
        self._stalls = stalls
        self._stalled: int | None = None
        self._ready.value = 0

    async def take(self, count: int) -> list[int]:
        """The next *count* payloads."""
        got: list[int] = []
        while len(got) < count:
            ready = not next(self._stalls)
            self._ready.value = int(ready)
            await RisingEdge(self._clk)
            offered = number(self._payload.value) if self._valid.value else None
            if self._stalled is not None:
                assert offered == self._stalled, (
                    f"{self._name}: {self._stalled:#x} became {offered} while stalled"
                )
            self._stalled = None if ready else offered
            if ready and offered is not None:
                got.append(offered)
        self._ready.value = 0
        return got

    async def expect_nothing(self, cycles: int = 20) -> None:
        """Fail if a payload is offered within *cycles* cycles."""
        for _ in range(cycles):
            await RisingEdge(self._clk)
            assert not self._valid.value, f"{self._name}: an unexpected payload is offered"
