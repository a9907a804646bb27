# SPDX-License-Identifier: Apache-2.0
"""Models of a design's surroundings: reset, a host that accesses registers, a memory, a link.

They need nothing but cocotb, so that the folder can be used on its own.
"""

import json
import os
import random
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cocotb.triggers import ClockCycles, RisingEdge

__all__ = [
    "ABOUT", "DECERR", "OKAY", "PATIENCE", "PAUSE", "Bus", "Link", "Memory", "Registers",
    "check_after_reset", "number", "perform", "release_reset",
]

ABOUT: dict[str, Any] = json.loads(Path(os.environ["BENCH"]).read_text("utf-8"))
"""Data of the bench; offsets and words come from the description of the design."""

OKAY, DECERR = 0, 3
PAUSE = 0.3
"""Probability that a channel or link stalls in a cycle."""
PATIENCE = 40_000
"""Cycles to wait for an event before the bench fails."""
_START = 1 << 128
"""Mark of the first flit of a packet on a link."""


def number(signal: Any) -> int:
    """Value of a port as a number."""
    value = signal.value
    return int(value) if len(signal) == 1 else value.to_unsigned()


class Bus:
    """Ports of the design whose names begin with a prefix."""

    def __init__(self, dut: Any, prefix: str) -> None:
        self._dut, self._prefix = dut, prefix

    def get(self, name: str) -> int:
        """Value of a port."""
        return number(getattr(self._dut, self._prefix + name))

    def set(self, **values: int) -> None:
        """Drive ports."""
        for name, value in values.items():
            getattr(self._dut, self._prefix + name).value = value


class Registers:
    """AXI4-Lite master of the ports whose names begin with `prefix`."""

    def __init__(self, dut: Any, prefix: str, rng: random.Random) -> None:
        self._clk, self._bus, self._rng = dut.clk, Bus(dut, prefix), rng
        self._bus.set(
            awvalid=0, awaddr=0, awprot=0, wvalid=0, wdata=0, wstrb=15, bready=0,
            arvalid=0, araddr=0, arprot=0, rready=0,
        )

    async def _wait(self) -> None:
        while self._rng.random() < PAUSE:
            await RisingEdge(self._clk)

    async def _until(self, name: str) -> None:
        for _ in range(PATIENCE):
            await RisingEdge(self._clk)
            if self._bus.get(name):
                return
        raise AssertionError(f"csr_{name} stays low")

    async def _offer(self, channel: str, **payload: int) -> None:
        await self._wait()
        self._bus.set(**payload, **{f"{channel}valid": 1})
        await self._until(f"{channel}ready")
        self._bus.set(**{f"{channel}valid": 0})

    async def _answer(self, channel: str) -> int:
        await self._wait()
        self._bus.set(**{f"{channel}ready": 1})
        await self._until(f"{channel}valid")
        self._bus.set(**{f"{channel}ready": 0})
        return self._bus.get(f"{channel}resp")

    async def write(self, offset: int, word: int) -> int:
        """Write a register; returns the response."""
        await self._offer("aw", awaddr=offset)
        await self._offer("w", wdata=word)
        return await self._answer("b")

    async def read(self, offset: int) -> int:
        """Read a register; returns its value."""
        await self._offer("ar", araddr=offset)
        assert await self._answer("r") == OKAY, f"reading {offset:#x} is refused"
        return self._bus.get("rdata")


class Memory:
    """AXI4 slave of the ports whose names begin with `prefix`; answers in order."""

    def __init__(self, dut: Any, prefix: str, image: bytearray, rng: random.Random) -> None:
        self._clk, self._bus, self._image, self._rng = dut.clk, Bus(dut, prefix), image, rng
        self._bytes = ABOUT["bus_bytes"]
        self._bus.set(
            awready=0, wready=0, bvalid=0, bresp=0, bid=0,
            arready=0, rvalid=0, rdata=0, rresp=0, rlast=0, rid=0,
        )

    def _go(self) -> int:
        return int(self._rng.random() >= PAUSE)

    def _burst(self, channel: str) -> list[int]:
        get = self._bus.get
        address, beats = get(f"{channel}addr"), get(f"{channel}len") + 1
        assert 1 << get(f"{channel}size") == self._bytes and get(f"{channel}burst") == 1
        last = address + beats * self._bytes - 1
        assert address // 4096 == last // 4096, f"a burst from {address:#x} crosses 4 KiB"
        assert last < len(self._image), f"{address:#x} lies beyond memory"
        for name, value in ABOUT["attributes"].items():
            assert get(channel + name) == value, f"{channel}{name} is not {value}"
        return [address + index * self._bytes for index in range(beats)]

    async def serve_reads(self) -> None:
        """Answer reads for ever."""
        bus = self._bus
        queue: list[tuple[int, int]] = []
        valid = ready = 0
        while True:
            await RisingEdge(self._clk)
            if ready and bus.get("arvalid"):
                burst = self._burst("ar")
                queue += [(address, int(address == burst[-1])) for address in burst]
            if valid and bus.get("rready"):
                queue.pop(0)
                valid = 0
            ready = self._go()
            bus.set(arready=ready)
            if not valid and queue and self._go():
                address, last = queue[0]
                row = self._image[address : address + self._bytes]
                bus.set(rdata=int.from_bytes(row, "little"), rlast=last)
                valid = 1
            bus.set(rvalid=valid)

    async def serve_writes(self) -> None:
        """Answer writes for ever."""
        bus = self._bus
        bursts: list[list[int]] = []
        beats: list[tuple[int, int, int]] = []
        answers = address_ready = data_ready = valid = 0
        while True:
            await RisingEdge(self._clk)
            if address_ready and bus.get("awvalid"):
                bursts.append(self._burst("aw"))
            if data_ready and bus.get("wvalid"):
                beats.append((bus.get("wdata"), bus.get("wstrb"), bus.get("wlast")))
            if valid and bus.get("bready"):
                answers, valid = answers - 1, 0
            while bursts and beats:
                word, strobe, last = beats.pop(0)
                address = bursts[0].pop(0)
                assert last == (not bursts[0]), f"wlast is wrong at {address:#x}"
                for lane, byte in enumerate(word.to_bytes(self._bytes, "little")):
                    if strobe >> lane & 1:
                        self._image[address + lane] = byte
                if last:
                    bursts.pop(0)
                    answers += 1
            address_ready, data_ready = self._go(), self._go()
            valid = valid or int(answers > 0 and self._go())
            bus.set(awready=address_ready, wready=data_ready, bvalid=valid)


_ANSWER_AHEAD = 16
"""Cycles from an answer until the credits that were counted anew follow."""


class Link:
    """The other end of a link with credits: it sends with gaps, and returns credits late.

    Either end may have the credits of its direction counted anew, by a packet without a class; it
    then has none until the answer, after which it gets credits for all the room there is.

    Parameters
    ----------
    dut, prefix :
        The ports of the design whose names begin with `prefix`.
    take :
        Called with every packet that comes, a tuple of flits.
    """

    def __init__(
        self, dut: Any, prefix: str, rng: random.Random,
        take: Callable[[tuple[int, ...]], None],
    ) -> None:
        self._prefix, self._bus, self._rng, self._take = prefix, Bus(dut, prefix), rng, take
        self._about: dict[str, int] = ABOUT["link"]
        classes = self._about["classes"]
        self._credits = [self._about["buffer_packets"]] * classes
        self._packets: list[deque[list[int]]] = [deque() for _ in range(classes)]
        self._sending: deque[int] = deque()
        self._receiving: list[int] = []
        self._held = [0] * classes
        self._counting = False  # the answer of the design is awaited
        self._due = [0] * classes  # credits behind an answer to the design
        self._wait = 0  # cycles until they may follow
        self._bus.set(rx_valid=0, rx_payload=0, tx_credit=0)

    @property
    def busy(self) -> bool:
        """True if there are packets to send or to receive, or credits to return."""
        whole = self._about["buffer_packets"]
        under_way = self._sending or self._receiving or any(self._packets) or any(self._held)
        return bool(under_way or any(self._due) or min(self._credits) < whole)

    def send(self, packet: list[int]) -> None:
        """Queue a packet, which waits for a credit of its class; one without a class is sent
        next."""
        kind = self._kind_of(packet[0])
        if kind & 3 < len(self._credits):
            self._packets[kind & 3].append(packet)
            return
        self._sending.extend(packet)
        if kind == self._about["count"]:
            self._credits, self._counting = [0] * len(self._credits), True
        else:
            self._due = [self._about["credits"] - held for held in self._held]
            self._wait = _ANSWER_AHEAD

    def step(self) -> None:
        """Sample the outputs of the design and drive its inputs, between two edges."""
        if self._bus.get("tx_valid"):
            self._receive(self._bus.get("tx_payload"))
        returned = self._bus.get("rx_credit")
        for each in range(len(self._credits)):
            self._credits[each] += returned >> each & 1 & (not self._counting)
            most = self._about["buffer_packets"]
            assert self._credits[each] <= most, f"{self._prefix}: a credit too many"
        if not self._sending:
            self._begin()
        flit = self._sending.popleft() if self._sending and self._rng.random() >= PAUSE else None
        freed = 0
        self._wait -= self._wait > 0 and not self._sending
        for each, held in enumerate(self._held):
            if self._wait:
                continue
            if held and self._rng.random() >= PAUSE:
                self._held[each] -= 1
                freed |= 1 << each
            elif self._due[each] and self._rng.random() >= PAUSE:
                self._due[each] -= 1
                freed |= 1 << each
        self._bus.set(rx_valid=int(flit is not None), rx_payload=flit or 0, tx_credit=freed)

    def _kind_of(self, header: int) -> int:
        return header >> self._about["class_lsb"] & 15

    def _begin(self) -> None:
        ready = [k for k, queue in enumerate(self._packets) if queue and self._credits[k]]
        if ready:
            chosen = self._rng.choice(ready)
            self._credits[chosen] -= 1
            self._sending.extend(self._packets[chosen].popleft())

    def _receive(self, flit: int) -> None:
        first = bool(flit & _START)
        assert first == (not self._receiving), f"{self._prefix}: packets are not whole"
        self._receiving.append(flit)
        kind = self._kind_of(self._receiving[0])
        if len(self._receiving) < (self._about["packet_flits"] if kind & 4 else 1):
            return
        packet, self._receiving = tuple(self._receiving), []
        each = kind & 3
        if each == len(self._held):
            self._counting &= kind == self._about["count"]
            self._take(packet)
            return
        self._held[each] += 1
        most = self._about["credits"]
        assert self._held[each] <= most, f"{self._prefix}: sent without a credit"
        self._take(packet)


async def release_reset(dut: Any) -> None:
    """Hold the reset for some cycles of the clock, which runs already."""
    reset = getattr(dut, ABOUT["reset"]["port"])
    reset.value = int(ABOUT["reset"]["active"] == "high")
    await ClockCycles(dut.clk, 4)
    reset.value = int(ABOUT["reset"]["active"] == "low")
    await ClockCycles(dut.clk, 4)


async def perform(node: Registers, writes: list[list[int]]) -> None:
    """Perform register writes, each of which must be accepted."""
    for offset, word in writes:
        assert await node.write(offset, word) == OKAY, f"writing {offset:#x} is refused"


async def check_after_reset(node: Registers) -> None:
    """Check every register that can be read, and an address at which there is none."""
    for offset, value in ABOUT["after_reset"]:
        found = await node.read(offset)
        assert found == value, f"register {offset:#x} is {found:#x} after reset, not {value:#x}"
    assert await node.write(ABOUT["no_register"], 1) == DECERR
