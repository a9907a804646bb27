# SPDX-License-Identifier: Apache-2.0
"""Programs of a group's members in one phase of a collective: waits and sends, step by step."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from sim.fields import FieldError
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
    """Source of the data of a send; it decides what the endpoint has to read and add."""

    FRESH = 0  # the node's own data
    REDUCED = 1  # all that has just been received, added to the node's own by this send
    FORWARD = 2  # data that have just been received
    SUM = 3  # a sum made when its last operand arrived; as FORWARD unless stated otherwise
    PART = 4  # of a sum made on arrival (SPLIT), what goes on at once; as SUM, likewise
    HELD = 5  # data of an earlier phase, or of several messages; as FORWARD, likewise
    AGAIN = 6  # the same, for a phase that reduces them; as HELD, likewise


class Receipt(IntEnum):
    """Handling of a message that has arrived.

    Every contribution to a sum is added once: on arrival (``REDUCE``), or by the next send, which
    carries exactly the data that it brings (``PASS``, ``RESULT``; the send is ``REDUCED``).
    """

    KEEP = 0  # stored
    REDUCE = 1  # added to the node's own data; the sum is stored
    PASS = 2  # added by the next send, with which the sum goes; as KEEP unless stated otherwise
    RESULT = 3  # the same, and the node stores the sum, too; as KEEP unless stated otherwise
    SPLIT = 4  # as REDUCE unless stated otherwise; the next send carries a part of the sum
    OPERAND = 5  # likewise; the next phase reduces what this one leaves, part by part


class RelayKind(IntEnum):
    """Use that a relay makes of entries of a reduction table."""

    PASS = 0  # none
    WAIT = 1  # waits for a free entry and takes it for the data that it sends on
    TRY = 2  # takes a free entry if there is one, else sends on without
    ADD = 3  # adds operands one after the other, and releases the entry with the sum
    OWN = 4  # at a member: reads an operand of its own and stores it at home
    HOME = 5  # at a member: adds arrived operands at home, and reads the sum there
    STORE = 6  # adds in entries that it takes with the first message; the oldest are evicted


@dataclass(frozen=True, kw_only=True, eq=False)
class Send:
    """A message to each node's peer on a channel.

    ``fraction`` is its size over that of the whole chunk, ``slot`` the receiver's counter for it.
    ``blocks(i)``: blocks of the i-th step of this send, (members of the group, blocks), used by
    :mod:`sim.collectives.execute` only. ``relay``: what the peer does with the message if it is a
    switch; ``blocks`` of a switch's send has a row for each vertex. ``copies``: number of members
    whose operands a switch sends on without reducing them; ``fraction`` is that of all together.

    ``step``: work of the sender beforehand, by a name that the endpoint's model knows; empty: as
    ``source`` requires. ``reads``: an operand is read for it; those of a link are read one after
    the other, each waiting until those before have left. ``asks``: size of the data that headers
    alone request, over that of the chunk. ``traffic``: the class whose credits it needs, -1 for
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
    """Work of switches on the messages of a step: they wait for some, reduce them, and send on.
    Members may do so, too; the ``source`` of their sends tells if they send their own data.

    ``needs``: (vertices,), messages that a switch waits for, 0 where none come. ``sends`` are over
    single links. ``held``: size of the data that occupy its reduction table meanwhile, over that
    of the chunk. ``kind``: use of table entries; ``table``: (vertices,), the link at whose port
    the table is, or for one table of all ports the number of links plus that of the switch, -1 for
    none. ``adds``: for a relay that takes entries, the relay that releases them.
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
    only one entry for all steps).
    """

    steps: int
    slot: int = 0
    slot_stride: int = 0
    count: int = 0
    count_stride: int = 0
    sends: tuple[tuple[Send, ...], ...] = ((),)

    def __post_init__(self) -> None:
        if len(self.sends) not in (1, self.steps):
            raise FieldError("sends", f"must have 1 or {self.steps} entries, not {len(self.sends)}")
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

    ``role`` gives each node's program; None where all run the first. ``ring``: index of the
    dimension's ring or switch that is used, for the scheduling queues. ``data_in``, ``data_out``:
    sizes of a node's data before and after, over that of the chunk. ``leaves``: source for the
    first send of the next phase, ``SUM`` or ``HELD``. ``kind`` and ``group`` (its dimensions)
    define its effect on the data. ``judge`` raises an error if the algorithm is wrong.
    """

    name: str
    dimension: int
    ring: int
    programs: tuple[Program, ...]
    data_in: float
    data_out: float
    leaves: Source = Source.HELD
    role: NDArray[np.int64] | None = None
    kind: CollectiveKind = CollectiveKind.ALL_REDUCE
    group: tuple[int, ...] = ()
    judge: Callable[[], None] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A chunk's path through the network: phases in order. ``weight``: its share of the data."""

    phases: tuple[Phase, ...]
    weight: float


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A collective on a network. Chunks take the variants in turn."""

    name: str
    variants: tuple[Variant, ...]

    def phase_names(self) -> list[str]:
        """Names of the phases of the first variant that has the most."""
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
