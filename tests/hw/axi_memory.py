# SPDX-License-Identifier: Apache-2.0
"""AXI4 memory for the Amaranth simulator, which also checks that the master keeps the rules."""

import random
from collections import deque
from collections.abc import Collection
from typing import Any

from hw.common.axi import ATTRIBUTES, BOUNDARY_BYTES, AXIBurst, AXIResponse

__all__ = ["AXIMemory"]


class AXIMemory:
    """Memory behind half of an AXI4 bus; add :meth:`serve` to the simulator as a process.

    Answers in order, *latency* cycles after the request, and stalls every channel at random. Fails
    when a burst crosses a 4 KiB boundary, is not of the full width and incrementing, has other
    attributes than `hw.common.axi.ATTRIBUTES`, when `wlast` is wrong, or when a valid signal falls
    or its payload changes before it is accepted.

    Parameters
    ----------
    bus : interface of ``AXIReadSignature`` or ``AXIWriteSignature``
        Master to serve.
    size : int
        Bytes of memory, from address 0.
    latency : int
        Cycles from a request to its first answer, at least 1.
    stall : float
        Probability that a channel stalls in a cycle.
    seed : int
        Seed of the stalls.
    bad_pages : collection of int
        4 KiB pages that answer SLVERR and are not written. Past *size*, the answer is DECERR.
    data_before_address : bool
        Accept a write address only once data has been offered, as a slave may.
    """

    def __init__(
        self,
        bus: Any,
        *,
        size: int,
        latency: int = 1,
        stall: float = 0.0,
        seed: int = 0,
        bad_pages: Collection[int] = (),
        data_before_address: bool = False,
    ) -> None:
        self.bus = bus
        self.data = bytearray(size)
        self.bursts: list[tuple[str, int, int]] = []
        self.most_reads = 0
        self.most_writes = 0
        self.data_beats: list[int] = []
        self._latency = latency
        self._stall = stall
        self._rng = random.Random(seed)
        self._bad_pages = bad_pages
        self._data_before_address = data_before_address
        self._lanes = bus.signature.data_width // 8
        self._reads: deque[tuple[int, int, bool]] = deque()  # due, address, last
        self._read_bursts = 0
        self._write_addresses: deque[tuple[int, int]] = deque()
        self._write_beats: deque[tuple[int, int, int]] = deque()  # data, strobe, last
        self._written = 0  # beats of the current burst
        self._write_error = AXIResponse.OKAY
        self._responses: deque[tuple[int, AXIResponse]] = deque()
        self._write_bursts = 0

    def _go(self) -> bool:
        return self._rng.random() >= self._stall

    def _response(self, address: int) -> AXIResponse:
        if address >= len(self.data):
            return AXIResponse.DECERR
        bad = address // BOUNDARY_BYTES in self._bad_pages
        return AXIResponse.SLVERR if bad else AXIResponse.OKAY

    def _accept(self, kind: str, s: dict[str, int]) -> None:
        channel = {"read": "ar", "write": "aw"}[kind]
        address, beats = s[f"{channel}addr"], s[f"{channel}len"] + 1
        last = address + beats * self._lanes - 1
        assert address // BOUNDARY_BYTES == last // BOUNDARY_BYTES, (
            f"{kind} burst of {beats} beats from {address:#x} crosses a 4 KiB boundary"
        )
        assert 1 << s[f"{channel}size"] == self._lanes
        assert s[f"{channel}burst"] == AXIBurst.INCR.value
        for name, (_, value) in ATTRIBUTES.items():
            said = s[f"{channel}{name}"]
            assert said == value, f"{channel}{name} is {said:#b}, not {value:#b}"
        self.bursts.append((kind, address, beats))

    async def serve(self, ctx: Any) -> None:
        """Answer the master for ever."""
        bus = self.bus
        names = list(bus.signature.members)
        channels = self._write_channels if "awvalid" in names else self._read_channels
        before: dict[str, int] = {}
        now = 0
        async for _, _, *values in ctx.tick().sample(*(getattr(bus, name) for name in names)):
            now += 1
            s = dict(zip(names, values))
            self._check_stable(before, s)
            before = s
            channels(ctx, now, s)

    @staticmethod
    def _check_stable(before: dict[str, int], s: dict[str, int]) -> None:
        for channel, payload in {
            "ar": ["araddr", "arlen", "arsize", "arburst"],
            "aw": ["awaddr", "awlen", "awsize", "awburst"],
            "w": ["wdata", "wstrb", "wlast"],
        }.items():
            if before.get(f"{channel}valid") and not before[f"{channel}ready"]:
                for name in [f"{channel}valid", *payload]:
                    assert s[name] == before[name], f"{name} changed while {channel} was stalled"

    def _read_channels(self, ctx: Any, now: int, s: dict[str, int]) -> None:
        bus = self.bus
        if s["arvalid"] and s["arready"]:
            self._accept("read", s)
            for beat in range(s["arlen"] + 1):
                address = s["araddr"] + beat * self._lanes
                self._reads.append((now + self._latency - 1, address, beat == s["arlen"]))
            self._read_bursts += 1
            self.most_reads = max(self.most_reads, self._read_bursts)
        if s["rvalid"] and s["rready"]:
            _, _, last = self._reads.popleft()
            self._read_bursts -= last
            self.data_beats.append(now)
        ctx.set(bus.arready, self._go())
        waiting = s["rvalid"] and not s["rready"]
        due = bool(self._reads) and self._reads[0][0] <= now
        offer = waiting or (due and self._go())
        ctx.set(bus.rvalid, offer)
        if offer:
            _, address, last = self._reads[0]
            response = self._response(address)
            row = self.data[address : address + self._lanes]
            ctx.set(bus.rdata, 0 if response.value else int.from_bytes(row, "little"))
            ctx.set(bus.rresp, response.value)
            ctx.set(bus.rlast, last)

    def _write_channels(self, ctx: Any, now: int, s: dict[str, int]) -> None:
        bus = self.bus
        if s["awvalid"] and s["awready"]:
            self._accept("write", s)
            self._write_addresses.append((s["awaddr"], s["awlen"]))
            self._write_bursts += 1
            self.most_writes = max(self.most_writes, self._write_bursts)
        if s["wvalid"] and s["wready"]:
            self._write_beats.append((s["wdata"], s["wstrb"], s["wlast"]))
            self.data_beats.append(now)
        while self._write_addresses and self._write_beats:
            self._write_beat(now)
        if s["bvalid"] and s["bready"]:
            self._responses.popleft()
            self._write_bursts -= 1
        data_offered = bool(self._write_beats) or (s["wvalid"] and not s["wready"])
        address_may_go = data_offered or not self._data_before_address
        ctx.set(bus.awready, address_may_go and self._go())
        ctx.set(bus.wready, self._go())
        waiting = s["bvalid"] and not s["bready"]
        due = bool(self._responses) and self._responses[0][0] <= now
        offer = waiting or (due and self._go())
        ctx.set(bus.bvalid, offer)
        if offer:
            ctx.set(bus.bresp, self._responses[0][1].value)

    def _write_beat(self, now: int) -> None:
        address, length = self._write_addresses[0]
        word, strobe, last = self._write_beats.popleft()
        assert last == (self._written == length), f"wlast is wrong in the burst to {address:#x}"
        address += self._written * self._lanes
        response = self._response(address)
        if response.value:
            self._write_error = response
        else:
            for lane in range(self._lanes):
                if strobe >> lane & 1:
                    self.data[address + lane] = word >> 8 * lane & 0xFF
        self._written += 1
        if last:
            self._write_addresses.popleft()
            self._responses.append((now + self._latency - 1, self._write_error))
            self._written = 0
            self._write_error = AXIResponse.OKAY
