"""What the members of a group do in one phase of a collective: waits and sends, step by step."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from sim.network.network import Channel

__all__ = ["Carry", "Phase", "Plan", "Program", "Receipt", "Segment", "Send", "Source", "Variant"]


class Source(IntEnum):
    """Where the data of a send come from; it decides what the endpoint has to read and add."""

    FRESH = 0  # the node's own data
    REDUCED = 1  # what has just been received, added to the node's own
    FORWARD = 2  # what has just been received


class Receipt(IntEnum):
    """What becomes of a message that has arrived."""

    KEEP = 0  # stored; if it is to be added to something, the next send does it
    REDUCE = 1  # added to the node's own data, the last step of a reduction without a next send


class Carry(IntEnum):
    """Which part of a node's data a send takes. The data are cut into a block for each member of
    the group, where they are to be reduced or exchanged."""

    ALL = 0  # all that it has by now
    OWN = 1  # the node's own block; of an all-gather, what it began with
    TURN = 2  # at first its own block, later what has been received last
    PEER = 3  # the block of the receiver
    SIDE = 4  # the blocks of all members on the receiver's side of an exchange


@dataclass(frozen=True, kw_only=True)
class Send:
    """A message to each node's peer on a channel.

    ``fraction`` is its size over that of the whole chunk, ``slot`` the receiver's counter for it.
    What it takes with it matters to :mod:`sim.collectives.execute` only.
    """

    channel: Channel
    fraction: float
    slot: int = 0
    source: Source = Source.FRESH
    receipt: Receipt = Receipt.KEEP
    carry: Carry = Carry.ALL


@dataclass(frozen=True, kw_only=True)
class Segment:
    """``steps`` steps; step i waits until counter ``slot + i * slot_stride`` has reached
    ``count + i * count_stride``, then makes the sends ``sends[i]`` (or ``sends[0]``, if there is
    but one entry for all steps).
    """

    steps: int
    slot: int = 0
    slot_stride: int = 0
    count: int = 0
    count_stride: int = 0
    sends: tuple[tuple[Send, ...], ...] = ((),)

    def __post_init__(self) -> None:
        if len(self.sends) not in (1, self.steps):
            raise ValueError(f"sends must have 1 or {self.steps} entries, not {len(self.sends)}")
        if len({len(step) for step in self.sends}) != 1:
            raise ValueError("all steps of a segment must have the same number of sends")


@dataclass(frozen=True, kw_only=True)
class Program:
    """The segments of one role; a node has finished after the last step's wait and sends."""

    segments: tuple[Segment, ...]
    slots: int = 1


@dataclass(frozen=True, kw_only=True)
class Phase:
    """One algorithm in one logical dimension.

    ``role`` gives each node's program; None where all run the first. ``ring`` tells which of the
    dimension's rings or switches is used, for the scheduling queues. ``data_in`` and ``data_out``
    are the sizes of a node's data before and after, over that of the chunk. ``leaves``: what the
    first send of the next phase finds.
    """

    name: str
    dimension: int
    ring: int
    programs: tuple[Program, ...]
    data_in: float
    data_out: float
    leaves: Source = Source.FORWARD
    role: NDArray[np.int64] | None = None


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A way of a chunk through the network: phases in order. ``weight``: its share of the data."""

    phases: tuple[Phase, ...]
    weight: float


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A collective on a network. Chunks take the variants in turn."""

    name: str
    variants: tuple[Variant, ...]

    def phase_names(self) -> list[str]:
        """Of the first variant that has most phases."""
        longest: Sequence[Phase] = max((v.phases for v in self.variants), key=len, default=())
        return [phase.name for phase in longest]
