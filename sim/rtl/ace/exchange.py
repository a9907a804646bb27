# SPDX-License-Identifier: Apache-2.0
"""ACE engines in RTL among their cycle models: packets and credits."""

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hw.link.packet import FLIT_BYTES, PacketKind
from sim.cycles.ace.model import EngineModel, Note
from sim.fields import FieldError
from sim.hosts.command import Command
from sim.hosts.surroundings import Surroundings
from sim.hosts.wiring import Wire
from sim.rtl.ace.payload import Boundary
from sim.rtl.ace.ring import AceRing
from sim.rtl.exchange import ExchangePort, MixedExchange, Vectors, beat_tokens

__all__ = ["AceExchange"]

_NAMES = 128  # collectives that packets of the model can tell apart


class _AcePort(ExchangePort):
    """A port of an engine: *wire* leads from it to the model, a wire of *back* cycles to it."""

    def __init__(
        self, node: int, model: EngineModel, wire: Wire, back: int, boundary: Boundary
    ) -> None:
        super().__init__(node, wire.port, away=wire.latency_cycles, back=back)
        self._model = model
        self._peer, self._peer_port = wire.peer, wire.peer_port
        self._boundary = boundary
        # A packet that the engine is sending.
        self._header: dict[str, int] | None = None
        self._payload = b""
        # Sent by the model: flits of packets, each with True for a header; beats; credits.
        self._flits: deque[tuple[bytes, bool]] = deque()
        self._sequence = 0
        self._beats: deque[tuple[int, bytes, int]] = deque()
        self._credits: deque[int] = deque()

    def outward(self, tokens: NDArray[np.void]) -> int:
        compared = 0
        for token in tokens:
            cycle = int(token["cycle"])
            if token["credit"]:
                self._model.inject_credit(self._peer, self._peer_port, cycle)
            data = token["data"].tobytes()
            for n in range(int(token["keep"]).bit_count()):
                header = self._add_flit(data[n * FLIT_BYTES : (n + 1) * FLIT_BYTES])
                if header is not None:
                    compared += header["kind"] == PacketKind.DATA.value
                    self._model.inject(self._peer, self._peer_port, cycle, header, n + 1)
        return compared

    def _add_flit(self, flit: bytes) -> dict[str, int] | None:
        """The header of the packet that *flit* completes, once its payload has been compared."""
        if self._header is None:
            self._header = self._boundary.parse(flit)
            self._payload = b""
        else:
            self._payload += flit
        if len(self._payload) < self._header["length"]:
            return None
        header, self._header = self._header, None
        if header["kind"] == PacketKind.DATA.value:
            self._boundary.check(header, self._payload, to=self._peer)
        return header

    def add(self, note: Note) -> None:
        """Take a packet, a beat or a credit that the model sent."""
        if note.packet is not None:
            packet = note.packet
            kind = self._boundary.data if packet.pop("data") else self._boundary.ready
            flits = kind(source=self._peer, sequence=self._sequence, **packet)
            self._sequence = (self._sequence + 1) % (1 << self._model.config.format.sequence)
            for start in range(0, len(flits), FLIT_BYTES):
                self._flits.append((flits[start : start + FLIT_BYTES], start == 0))
        elif note.flits:
            taken = [self._flits.popleft() for _ in range(note.flits)]
            marks = sum(header << n for n, (_, header) in enumerate(taken))
            self._beats.append((note.cycle, b"".join(flit for flit, _ in taken), marks))
        else:
            self._credits.append(note.cycle)

    def inward(self, before: int) -> NDArray[np.void]:
        beats: dict[int, tuple[bytes, int]] = {}
        credits = set()
        while self._beats and self._beats[0][0] < before:
            cycle, data, marks = self._beats.popleft()
            beats[cycle] = data, marks
        while self._credits and self._credits[0] < before:
            credits.add(self._credits.popleft())
        rows = []
        for cycle in [*beats, *sorted(credits - beats.keys())]:
            data, marks = beats.get(cycle, (b"", 0))
            keep = (1 << len(data) // FLIT_BYTES) - 1
            rows.append((cycle + self.back, keep, marks, int(cycle in credits), data))
        return beat_tokens(rows)


class AceExchange(MixedExchange):
    """ACE engines of which some ranks are RTL."""

    driver = AceRing
    model_kind = EngineModel
    model: EngineModel

    def ports(
        self, config: Any, ring: Surroundings, commands: Sequence[Command], inputs: Vectors
    ) -> list[ExchangePort]:
        if len(commands) > _NAMES:
            raise FieldError(
                "commands", f"must be at most {_NAMES} among RTL and models, not {len(commands)}"
            )
        boundaries = {
            rank: Boundary(config, ring, commands, inputs, rank) for rank in self.nodes
        }
        self._ends: dict[tuple[int, int], _AcePort] = {}
        place = {rank: number for number, rank in enumerate(self.nodes)}
        for here, there in ring.wired().links:
            for wire, opposite in ((here, there), (there, here)):
                if wire.rank in place and wire.peer not in place:
                    self._ends[wire.peer, wire.peer_port] = _AcePort(
                        place[wire.rank], self.model, wire, opposite.latency_cycles,
                        boundaries[wire.rank],
                    )
        return list(self._ends.values())

    def sort(self) -> None:
        for note in self.model.take_log():
            self._ends[note.node, note.port].add(note)
