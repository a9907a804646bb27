"""What the members of a group do in one phase of a collective: waits and sends, step by step."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from sim.network.network import Channel
from sim.workload.graph import CollectiveKind

__all__ = [
    "Phase",
    "Plan",
    "Program",
    "Receipt",
    "Relay",
    "RelayKind",
    "Segment",
    "Send",
    "Source",
    "Variant",
    "relays_of",
]


class Source(IntEnum):
    """Where the data of a send come from; it decides what the endpoint has to read and add."""

    FRESH = 0  # the node's own data
    REDUCED = 1  # what has just been received, added to the node's own
    FORWARD = 2  # what has just been received
    SUM = 3  # a sum that was made when the last of it arrived; as FORWARD if nothing else is said


class Receipt(IntEnum):
    """What becomes of a message that has arrived."""

    KEEP = 0  # stored; if it is to be added to something, the next send does it
    REDUCE = 1  # added to the node's own data, the last step of a reduction without a next send


class RelayKind(IntEnum):
    """What a relay does with entries of a reduction table."""

    PASS = 0  # nothing
    WAIT = 1  # takes one for what it sends on, and waits for it
    TRY = 2  # takes one if there is one, else sends on without
    ADD = 3  # adds what comes, one after the other, and gives the entry back with the sum
    OWN = 4  # at a member: an operand of its own is read and stored at home
    HOME = 5  # at a member: what has come is added at home, and the sum is read there
    STORE = 6  # adds in entries that it takes with the first message; the oldest ones give way


@dataclass(frozen=True, kw_only=True, eq=False)
class Send:
    """A message to each node's peer on a channel.

    ``fraction`` is its size over that of the whole chunk, ``slot`` the receiver's counter for it.
    ``blocks(i)``: what goes with the i-th step of this send, (members of the group, blocks), which
    matters to :mod:`sim.collectives.execute` only. ``relay``: what the peer does with it where that
    is a switch; ``blocks`` of what a switch sends has a row for each vertex. ``copies``: operands
    of so many members that a switch sends on without reducing them; ``fraction`` is of all.

    ``step``: what the sender does before, by a name that the endpoint's model knows; empty: what
    ``source`` asks for. ``reads``: an operand is read for it; those of a link are read one after
    the other, and wait until those before have left. ``asks``: size of the data that are asked for
    by headers alone, over that of the chunk. ``traffic``: the class whose credits it needs, -1 for
    none.
    """

    channel: Channel
    fraction: float
    slot: int = 0
    source: Source = Source.FRESH
    receipt: Receipt = Receipt.KEEP
    blocks: Callable[[int], NDArray[np.int64]] | None = None
    relay: "Relay | None" = None
    copies: int = 1
    step: str = ""
    reads: bool = False
    asks: float = 0.0
    traffic: int = -1


@dataclass(frozen=True, kw_only=True, eq=False)
class Relay:
    """What switches do with the messages of a step: they wait for some, reduce them, and send on.
    Members may do so, too; their sends say whether they send their own data (``source``).

    ``needs``: (vertices,), messages that a switch waits for, 0 where none come. ``sends`` are over
    single links. ``held``: size of what takes entries of its reduction table meanwhile, over that
    of the chunk. ``kind``: what becomes of entries; ``table``: (vertices,), the link at whose port
    the table is, or the number of links and that of the switch for all its ports, -1 for none.
    ``adds``: of a relay that takes entries, the one that gives them back.
    """

    needs: NDArray[np.int32]
    sends: tuple[Send, ...] = ()
    held: float = 0.0
    kind: RelayKind = RelayKind.PASS
    table: NDArray[np.int64] | None = None
    adds: "Relay | None" = None


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
    first send of the next phase finds. ``kind`` and ``group`` (its dimensions) say what it does to
    the data.
    """

    name: str
    dimension: int
    ring: int
    programs: tuple[Program, ...]
    data_in: float
    data_out: float
    leaves: Source = Source.FORWARD
    role: NDArray[np.int64] | None = None
    kind: CollectiveKind = CollectiveKind.ALL_REDUCE
    group: tuple[int, ...] = ()


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


def relays_of(phase: Phase) -> list[Relay]:
    """The relays behind all sends of a phase, each once and in one order."""
    found: dict[int, Relay] = {}
    todo = [
        send
        for program in phase.programs
        for segment in program.segments
        for step in segment.sends
        for send in step
    ]
    while todo:
        relay = todo.pop(0).relay
        if relay is not None and id(relay) not in found:
            found[id(relay)] = relay
            todo += relay.sends
    return list(found.values())
