"""RTL nodes among model nodes: both run window by window and exchange timestamped tokens."""

import time
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hw.ace.config import AceConfig
from hw.link.packet import FLIT_BYTES, PacketKind
from sim.cycles.ace.model import EngineModel
from sim.cycles.ring import Command, RingSettings
from sim.cycles.script import Step
from sim.rtl.ace_ring import AceRing
from sim.rtl.library import TOKEN
from sim.rtl.payload import Boundary
from sim.rtl.system import Node

__all__ = ["Exchange"]

_NAMES = 128  # of collectives, by which packets of the model tell them apart


class _Inbound:
    """What models send to one port of an RTL node."""

    def __init__(self, source: int, boundary: Boundary) -> None:
        self.source = source
        self.boundary = boundary
        self.flits: deque[tuple[bytes, bool]] = deque()
        self.tokens: deque[tuple[int, bytes, int]] = deque()  # cycle sent, beat, header marks
        self.credits: deque[int] = deque()

    def add_packet(self, packet: bytes) -> None:
        """The flits of a packet follow those before it."""
        for start in range(0, len(packet), FLIT_BYTES):
            self.flits.append((packet[start : start + FLIT_BYTES], start == 0))

    def add_beat(self, cycle: int, flits: int) -> None:
        """The next flits are a beat that the link takes in *cycle*."""
        taken = [self.flits.popleft() for _ in range(flits)]
        marks = sum(header << n for n, (_, header) in enumerate(taken))
        self.tokens.append((cycle, b"".join(flit for flit, _ in taken), marks))

    def take(self, before: int, latency: int) -> NDArray[np.void]:
        """Tokens sent before a cycle, with the cycles of their arrival."""
        rows: dict[int, list[object]] = {}
        while self.tokens and self.tokens[0][0] < before:
            cycle, data, marks = self.tokens.popleft()
            keep = (1 << len(data) // FLIT_BYTES) - 1
            beat = np.frombuffer(data.ljust(128, b"\0"), np.uint8)
            rows[cycle] = [cycle + latency, keep, marks, 0, 0, beat]
        while self.credits and self.credits[0] < before:
            cycle = self.credits.popleft()
            rows.setdefault(cycle, [cycle + latency, 0, 0, 0, 0, np.zeros(128, np.uint8)])[3] = 1
        tokens = np.zeros(len(rows), TOKEN)
        for number, row in enumerate(rows.values()):
            tokens[number] = tuple(row)
        return tokens


class _Outbound:
    """What one port of an RTL node sends to a model: flits become packets."""

    def __init__(self, boundary: Boundary) -> None:
        self.boundary = boundary
        self.header: dict[str, int] | None = None
        self.payload = b""

    def add_flit(self, flit: bytes) -> dict[str, int] | None:
        """The header of the packet that *flit* completes, once its payload has been compared."""
        if self.header is None:
            self.header = self.boundary.parse(flit)
            self.payload = b""
        else:
            self.payload += flit
        if len(self.payload) < self.header["length"]:
            return None
        header, self.header = self.header, None
        if header["kind"] == PacketKind.DATA.value:
            self.boundary.check(header, self.payload)
        return header


class Exchange:
    """A ring of which some ranks are compiled engines.

    Parameters
    ----------
    config, ring, commands, scripts, inputs
        As in ``sim.rtl.run``.
    rtl : sequence of int
        Ranks that are engines.
    window_cycles : int or None
    trace : bool
        Whether the model keeps every beat.
    options
        For the engines: those of ``AceRing``.

    Members
    -------
    cluster : AceRing
        The engines; ``nodes`` has those of its nodes by rank.
    model : EngineModel
    begin : int
        Cycle in which all scripts start.
    packets : int
        DATA packets of engines that were compared.
    """

    def __init__(
        self,
        config: AceConfig,
        ring: RingSettings,
        commands: Sequence[Command],
        scripts: Sequence[Sequence[Step]],
        inputs: Sequence[NDArray[Any]],
        *,
        rtl: Sequence[int],
        window_cycles: int | None = None,
        trace: bool = False,
        **options: Any,
    ) -> None:
        latency = ring.latency_cycles
        window = latency if window_cycles is None else window_cycles
        if not 1 <= window <= latency:
            raise ValueError(
                f"window_cycles must be from 1 to the {latency} cycles of a link, not {window!r}"
            )
        ranks = sorted(set(rtl))
        if not ranks or not 0 <= ranks[0] <= ranks[-1] < ring.nodes:
            raise ValueError(
                f"rtl must name ranks from 0 to {ring.nodes - 1}, at least one, not {rtl!r}"
            )
        if len(ranks) == ring.nodes:
            raise ValueError("rtl must leave at least one rank to the model")
        if len(commands) > _NAMES:
            raise ValueError(
                f"commands must be at most {_NAMES} among RTL and models, not {len(commands)}"
            )
        self._window, self._latency = window, latency
        self.cluster = AceRing(config, ring, ranks=ranks, window_cycles=window, **options)
        self.nodes: dict[int, Node] = dict(zip(ranks, self.cluster.system.nodes, strict=True))
        self.begin = self.cluster.system.cycle
        self.model = EngineModel(
            config, ring, commands, scripts, external=ranks, start_cycle=self.begin, trace=trace
        )
        self.packets = 0
        # By the model's end of each link: (rank, port) of the model node.
        self._inbound: dict[tuple[int, int], tuple[int, int, _Inbound]] = {}
        self._outbound: list[tuple[int, int, int, int, _Outbound]] = []
        for number, rank in enumerate(ranks):
            boundary = Boundary(config, ring, commands, inputs, rank)
            for port, step in ((0, 1), (1, -1)):
                other = (rank + step) % ring.nodes
                if other in self.nodes:
                    continue
                self._inbound[other, 1 - port] = number, port, _Inbound(other, boundary)
                self._outbound.append((number, port, other, 1 - port, _Outbound(boundary)))

    def run(self, max_cycles: int) -> float:
        """Run until all scripts have ended; returns the wall time in seconds."""
        began = time.perf_counter()
        now = self.begin
        while not (self.model.done and all(node.done for node in self.nodes.values())):
            if now - self.begin >= max_cycles:
                raise RuntimeError(f"the scripts have not ended after {max_cycles} cycles")
            end = now + self._window
            self.cluster.system.advance(end)
            self.model.run(end)
            self._to_model(now, end)
            self._to_rtl(end)
            now = end
        return time.perf_counter() - began

    def _to_model(self, begin: int, end: int) -> None:
        """What engines sent in a window."""
        flits = self.cluster.config.flits
        for number, port, rank, at, outbound in self._outbound:
            tokens = self.cluster.system.arrivals(
                number, port, begin + self._latency, end + self._latency
            )
            for token in tokens:
                cycle = int(token["cycle"])
                if token["credit"]:
                    self.model.inject_credit(rank, at, cycle)
                if not token["keep"]:
                    continue
                data = token["data"].tobytes()
                for n in range(flits):
                    if not int(token["keep"]) >> n & 1:
                        break
                    header = outbound.add_flit(data[n * FLIT_BYTES : (n + 1) * FLIT_BYTES])
                    if header is not None:
                        self.packets += header["kind"] == PacketKind.DATA.value
                        self.model.inject(rank, at, cycle, header, n + 1)

    def _to_rtl(self, now: int) -> None:
        """What models have sent, as far as it arrives soon enough for the wires to hold it."""
        for note in self.model.take_log():
            _, _, inbound = self._inbound[note.node, note.port]
            if note.packet is not None:
                packet = note.packet
                kind = inbound.boundary.data if packet.pop("data") else inbound.boundary.ready
                inbound.add_packet(kind(source=inbound.source, **packet))
            elif note.flits:
                inbound.add_beat(note.cycle, note.flits)
            else:
                inbound.credits.append(note.cycle)
        for number, port, inbound in self._inbound.values():
            tokens = inbound.take(now + self._latency, self._latency)
            if len(tokens):
                self.cluster.system.deliver(number, port, tokens)
