# SPDX-License-Identifier: Apache-2.0
"""A wire that loses, repeats, damages and delays frames, cycle by cycle, and may be cut."""

import random
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Self

__all__ = ["Faults", "LossyWire", "bad_wires"]

_PAUSE = 6
"""Cycles without a flit after which a frame has ended."""


@dataclass
class Faults:
    """Probability of each fault of a frame, and counts of the faults so far.

    A damaged frame has one to three bits inverted, marks included, lacks a flit, or has an extra
    one; header and body are hit alike. ``late``: probability of a late copy, which arrives after a
    random number of cycles in ``delay``, or in ``control_delay`` if it has no sequence number.
    """

    loss: float = 0.0
    repetition: float = 0.0
    damage: float = 0.0
    late: float = 0.0
    delay: tuple[int, int] = (20, 100)
    control_delay: tuple[int, int] = (20, 400)
    copies: int = 0
    met: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("loss", "repetition", "damage"), 0)
    )

    @classmethod
    def all(cls, probability: float) -> Self:
        """Loss, repetition and damage with this probability each."""
        return cls(loss=probability, repetition=probability, damage=probability)

    def draw(self, rng: random.Random) -> str | None:
        """Draw the fault of a frame and count it; None for none."""
        place = rng.random()
        for name in self.met:
            place -= getattr(self, name)
            if place < 0:
                self.met[name] += 1
                return name
        return None


class LossyWire:
    """One direction of a link.

    Flits are integers: data, and above it marks, of which bit *start* tells that a frame begins. A
    flit taken in cycle t arrives in cycle t + latency, or later if a repeated frame precedes it.
    Order is kept, except for late copies. While the wire is ``cut``, everything on it is lost.

    Parameters
    ----------
    latency : int
        Cycles.
    rng : random.Random
    faults : Faults
    bits : int
        Width of a flit with its marks.
    start : int
        Number of the bit that marks the start of a frame.
    flits : int
        Length of the longest frame.
    """

    def __init__(
        self, latency: int, rng: random.Random, faults: Faults, *, bits: int, start: int, flits: int
    ) -> None:
        self.rng, self.faults = rng, faults
        self.bits, self.start, self.flits = bits, start, flits
        self.line: deque[int | None] = deque([None] * latency)
        self.queue: deque[int] = deque()
        self.fate: str | None = None
        self.place = 0
        self.hit = 0
        self.pause = 0
        self.copy: list[int] = []
        self.cut = False
        self.cycle = 0
        self.frame: list[int] = []
        self.later: list[tuple[int, list[int]]] = []  # (cycle, flits)

    @property
    def ready(self) -> bool:
        """True if the wire accepts a flit in this cycle."""
        return not self.queue

    def step(self, flit: int | None) -> int | None:
        """Run a cycle: take a flit or None; return the flit that arrives, or None."""
        self.cycle += 1
        if self.cut:
            self.queue.clear()
            self.copy, self.frame, self.later = [], [], []
            self.line.append(None)
            self.line[0] = None
            return self.line.popleft()
        if flit is not None:
            self.pause = 0
            self._take(flit)
        else:
            self.pause += 1
            if self.pause == _PAUSE and self.copy:
                self._again()
            if self.pause >= _PAUSE:
                self._come_late()
        self.line.append(self.queue.popleft() if self.queue else None)
        return self.line.popleft()

    def _again(self) -> None:
        self.queue.extend(self.copy)
        self.copy = []

    def _come_late(self) -> None:
        """Between two frames: draw a late copy of the last one, and send copies that are due."""
        if self.frame and self.rng.random() < self.faults.late:
            numbered = self.frame[0] & 15 or self.frame[0] >> 4 & 7 == 5
            delay = self.faults.delay if numbered else self.faults.control_delay
            self.later.append((self.cycle + self.rng.randint(*delay), self.frame))
        self.frame = []
        for copy in [copy for copy in self.later if copy[0] <= self.cycle]:
            self.later.remove(copy)
            self.queue.extend(copy[1])
            self.faults.copies += 1

    def _take(self, flit: int) -> None:
        if flit >> self.start & 1:
            if self.copy:
                self._again()
            self._come_late()
            self.fate = self.faults.draw(self.rng)
            self.place = 0
            # Hit the header half of the time: short frames have nothing else.
            self.hit = self.rng.choice((0, self.rng.randrange(self.flits)))
        elif self.fate == "repetition" and not self.copy:
            self.fate = None  # the copy has been sent after a pause within the frame
        self.frame.append(flit)
        sent = [flit]
        if self.fate == "loss":
            sent = []
        elif self.fate == "damage" and self.place == self.hit:
            sent = self._damage(flit)
        elif self.fate == "repetition":
            self.copy.append(flit)
        self.place += 1
        self.queue.extend(sent)

    def _damage(self, flit: int) -> list[int]:
        way = self.rng.randrange(4)
        if way == 0:
            return []
        if way == 1:
            return [flit, self.rng.getrandbits(self.bits)]
        for _ in range(self.rng.randint(1, 3)):
            places = [self.rng.randrange(self.bits), self.start]
            flit ^= 1 << self.rng.choices(places, (7, 1))[0]
        return [flit]


def bad_wires(probability: float) -> dict[str, Any]:
    """Settings of a ring whose frames are lost, repeated, and damaged with this probability
    each."""
    return dict.fromkeys(("link_loss", "link_repetition", "link_damage"), probability)
