# SPDX-License-Identifier: Apache-2.0
"""Smart NICs in RTL among their cycle models: Ethernet frames."""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.cycles.smartnic.model import Beat, NicModel
from sim.cycles.smartnic.words import HEADER, TAIL
from sim.hosts.command import Command
from sim.hosts.surroundings import Surroundings
from sim.rtl.exchange import ExchangePort, MixedExchange, Vectors, beat_tokens
from sim.rtl.smartnic.payload import Frames, Golden
from sim.rtl.smartnic.ring import NicRing

__all__ = ["NicExchange"]


class _NicPort(ExchangePort):
    """One link of an engine, to the next rank (0) or to the previous one (1), which is a model."""

    def __init__(
        self, node: int, engine: int, link: int, model: NicModel, peer: int,
        ours: Frames, theirs: Frames,
    ) -> None:
        latency = model.ring.latency_cycles
        super().__init__(node, 2 * engine + link, away=latency, back=latency)
        self._engine, self._link = engine, link
        self._model, self._peer = model, peer
        self._ours, self._theirs = ours, theirs
        self._word = 0  # frame that the engine is sending
        self._frame = b""
        self._coming: deque[bytes] = deque()  # beats of the frame that the model is sending
        self._beats: list[tuple[int, int, int, int, bytes]] = []

    def outward(self, tokens: NDArray[np.void]) -> int:
        compared = 0
        width = self._model.config.bus_bytes
        for token in tokens:
            marks = int(token["user"])
            beat = token["data"][:width].tobytes()
            if marks & HEADER:
                self._frame = b""
                self._word = self._ours.word(beat)
            self._frame += beat
            if marks & TAIL:
                self._ours.check(self._frame)
                compared += 1
            self._model.inject(
                self._peer, 1 - self._link, int(token["cycle"]), self._word | marks,
                engine=self._engine,
            )
        return compared

    def add(self, beat: Beat) -> None:
        """Take a beat that the model sent."""
        width = self._model.config.bus_bytes
        if beat.token & HEADER:
            frame = self._theirs.frame(beat.token)
            self._coming.extend(frame[at : at + width] for at in range(0, len(frame), width))
        keep = (1 << self._model.flits) - 1
        arrives = beat.cycle + self.back
        marks = beat.token & (HEADER | TAIL)
        self._beats.append((arrives, keep, marks, 0, self._coming.popleft()))

    def inward(self, before: int) -> NDArray[np.void]:
        rows, self._beats = self._beats, []
        return beat_tokens(rows)


class NicExchange(MixedExchange):
    """A ring of smart NICs of which some ranks are RTL. Every frame of theirs is compared."""

    driver = NicRing
    model_kind = NicModel
    model: NicModel

    def ports(
        self, config: Any, ring: Surroundings, commands: Sequence[Command], inputs: Vectors
    ) -> list[ExchangePort]:
        golden = Golden(config, ring, commands, inputs)
        self._ends: dict[tuple[int, int, int], _NicPort] = {}
        for number, rank, step in self._crossings():
            link = 0 if step == 1 else 1
            peer = (rank + step) % ring.nodes
            for engine in range(config.engines):
                self._ends[peer, engine, 1 - link] = _NicPort(
                    number, engine, link, self.model, peer,
                    Frames(golden, rank=rank, engine=engine),
                    Frames(golden, rank=peer, engine=engine),
                )
        return list(self._ends.values())

    def _crossings(self) -> Iterable[tuple[int, int, int]]:
        """Number in the system, rank, and step to a neighbour, next (1) or previous (-1), that is
        a model."""
        nodes = self.cluster.settings.nodes
        for number, rank in enumerate(self.nodes):
            for step in (1, -1):
                if (rank + step) % nodes not in self.nodes:
                    yield number, rank, step

    def sort(self) -> None:
        for beat in self.model.take_log():
            self._ends[beat.rank, beat.engine, beat.link].add(beat)
