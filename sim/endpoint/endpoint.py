# SPDX-License-Identifier: Apache-2.0
"""The interface between endpoint kinds and the simulator."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from sim.collectives.plan import AlgorithmChoice, plan_collective
from sim.collectives.program import Plan, Receipt, Source
from sim.fields import FieldError
from sim.network.network import Network
from sim.workload.graph import CollectiveKind

__all__ = [
    "ComputeShare",
    "Credits",
    "Endpoint",
    "EndpointModel",
    "HardwareRing",
    "Piece",
    "Polls",
    "Room",
    "Stage",
    "Tables",
    "Unit",
    "plan_of",
]


class Unit(NamedTuple):
    """A resource of every node that serves requests in order, with ``servers`` alike in parallel.
    ``per_ring``: each of the rings among which chunks are dealt out has one of its own.
    ``turns``: chunk n of a call has server n mod ``turns`` mod ``servers``; 0: any that is free."""

    name: str
    servers: int = 1
    per_ring: bool = False
    turns: int = 0


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A message (or chunk) of b bytes occupies a unit for ``fixed_s + b * s_per_byte`` and goes on
    ``latency_s`` later. Without a unit it is a delay. ``ahead_s``: time for which a unit without
    requests works ahead, as one that prefetches data into a buffer does. ``share``: bytes that the
    unit moves meanwhile, over b. ``outbox``: of what a server of the unit has made, one message
    waits for each link; the others are made when it has left, the most urgent one first."""

    unit: str | None
    s_per_byte: float = 0.0
    fixed_s: float = 0.0
    latency_s: float = 0.0
    ahead_s: float = 0.0
    share: float = 1.0
    outbox: bool = False


class Piece(NamedTuple):
    """A chunk of an engine's cut: variant of the plan, size, and the most that a message carries
    of it; None: as the model says."""

    variant: int
    size_bytes: float
    message_bytes: float | None = None


class Polls(NamedTuple):
    """Reads of a register by which a host learns that a call is over, from the start of the call
    on: the first ends after ``first_s``, the others follow every ``period_s``. The first that ends
    ``seen_s`` or more after the end of the call shows it."""

    period_s: float
    first_s: float
    seen_s: float


class Room(NamedTuple):
    """``size_bytes`` of buffer that a chunk holds in one phase (an SRAM partition)."""

    name: str
    size_bytes: float


class Credits(NamedTuple):
    """Places for messages in the buffer behind every link; one that goes there needs a free one. A
    place is taken for the latency of the link both ways, a full message, and ``handled_s``."""

    places: int
    handled_s: float


class Tables(NamedTuple):
    """Reduction tables and buffers of the switches around an endpoint, in packets.

    A link that is faster than those of members counts as several in parallel, and has as many
    times more of all this.

    Parameters
    ----------
    entries : int
        Entries of the table at a port, one packet each.
    packet_bytes : float
        Payload of a packet.
    ask_share : float
        Link time of the headers that ask for data, over that of the data.
    credits_up, credits_down : int
        Credits of a class at the sender of a link to a switch, and of one to an endpoint.
    credit_s : float
        Time for which a credit is away, beside the latencies of the link both ways.
    pass_s : float
        Part of the latency of a link to a switch that comes after the credit has been given.
    stopped_s, reopening_s : float
        A link from a switch that was without a credit for ``stopped_s`` sends nothing for
        ``reopening_s`` when one has come.
    reads : int
        Operands that an endpoint may be reading for a link.
    read_s : float
        Time for which the place of an operand is taken.
    contract : bool
        The contract with which a call begins uses the first credits of operands and of results.
    detour_s : float
        Delay of a result whose entry was evicted: its parts meet at a home endpoint.
    timeout_s : float
        Period; an entry to which nothing was added in all of one is evicted.
    """

    entries: int
    packet_bytes: float
    ask_share: float
    credits_up: int
    credits_down: int
    credit_s: float
    pass_s: float
    stopped_s: float
    reopening_s: float
    reads: int
    read_s: float
    contract: bool
    detour_s: float
    timeout_s: float


_SOURCE_AS = {
    Source.PART: Source.SUM, Source.SUM: Source.FORWARD, Source.HELD: Source.FORWARD,
    Source.AGAIN: Source.HELD,
}
_RECEIPT_AS = {
    Receipt.PASS: Receipt.KEEP, Receipt.RESULT: Receipt.KEEP,
    Receipt.SPLIT: Receipt.REDUCE, Receipt.OPERAND: Receipt.REDUCE,
}
"""As what a model handles a source, or a receipt, for which it states nothing."""


@dataclass(frozen=True, kw_only=True)
class EndpointModel:
    """Stages by the source of the data and by what becomes of them; all may be empty.

    ``credits``: what messages on links wait for; None: for nothing. ``load`` and ``store`` are
    passed once by each chunk, before its first and after its last phase. ``rooms`` has one more
    than the plan has phases: phase i holds room i and needs space in room i + 1 to start.
    ``contexts`` bounds the chunks in each phase (FSMs). ``message_bytes`` is the unit in which the
    data of a step travel and are chained. A message is a number of whole ``grain_bytes`` and, on
    links, has a header: the efficiency of links has those of messages of ``message_bytes``, and
    shorter ones take ``header_bytes`` all the same. ``receive_delay_s`` passes after every message,
    ``start_s`` once in every call, and ``start_of`` by the bytes of the call on top.
    ``wire_factor`` is the size of data on the links over that in memory, for endpoints that
    compress; it must be the same for all collectives of a run. ``steps``: stages of sends by the
    name of their step. ``tables``: resources of switches that reduce. ``cut``: the chunks into
    which an engine cuts a call of so many bytes, in order; None: the scheduler cuts. ``moves``:
    load and store by the bytes of a call, instead of the same for all. ``oldest_first``: what a
    node sends on goes over a link first, then its own messages of the chunk that comes first in its
    call; else those of a chunk with most phases to go. ``cut_through``: switches forward a message
    as it comes in; else they store it whole. ``polls``: when the host learns of the end of a call;
    None: at once.
    """

    units: tuple[Unit, ...] = ()
    before: Mapping[Source, tuple[Stage, ...]] = field(default_factory=dict)
    after: Mapping[Receipt, tuple[Stage, ...]] = field(default_factory=dict)
    credits: Credits | None = None
    load: tuple[Stage, ...] = ()
    store: tuple[Stage, ...] = ()
    rooms: tuple[Room, ...] = ()
    contexts: tuple[int, ...] | None = None
    message_bytes: float | None = None
    grain_bytes: int = 1
    header_bytes: float = 0.0
    receive_delay_s: float = 0.0
    start_s: float = 0.0
    start_of: Callable[[float], float] | None = None
    wire_factor: float = 1.0
    steps: Mapping[str, tuple[Stage, ...]] = field(default_factory=dict)
    tables: Tables | None = None
    cut: Callable[[float], Sequence[Piece]] | None = None
    moves: Callable[[float], tuple[tuple[Stage, ...], tuple[Stage, ...]]] | None = None
    oldest_first: bool = False
    cut_through: bool = False
    polls: Polls | None = None

    def moved(self, size_bytes: float) -> tuple[tuple[Stage, ...], tuple[Stage, ...]]:
        """Load and store stages of a call of *size_bytes*."""
        return (self.load, self.store) if self.moves is None else self.moves(size_bytes)

    def stages_before(self, source: Source) -> tuple[Stage, ...]:
        """Stages before a send whose data come from *source*."""
        while source not in self.before and source in _SOURCE_AS:
            source = _SOURCE_AS[source]
        return self.before.get(source, ())

    def stages_after(self, receipt: Receipt) -> tuple[Stage, ...]:
        """Stages of a message that has arrived."""
        if receipt not in self.after:
            receipt = _RECEIPT_AS.get(receipt, receipt)
        return self.after.get(receipt, ())

    def __post_init__(self) -> None:
        if not self.wire_factor > 0:
            raise FieldError("wire_factor", f"must be above 0, not {self.wire_factor!r}")


class HardwareRing(ABC):
    """A hardware engine on a one-dimensional ring."""

    def of(self, network: Network, plan: Plan) -> "HardwareRing | None":
        """The engine as it performs a plan; None if that is no ring of it."""
        return self

    def planned(
        self, network: Network, kind: CollectiveKind, choice: AlgorithmChoice, plan: Plan
    ) -> Plan:
        """*plan* as the engine carries it out."""
        return plan

    @property
    def credits(self) -> Credits | None:
        """Places that messages on links wait for, also where another plan than its own is run."""
        return None

    @property
    def polls(self) -> Polls | None:
        """When the host learns of the end of a call; None: a mean is in its other times."""
        return None

    @abstractmethod
    def model(self, kind: CollectiveKind) -> EndpointModel:
        """The units and stages that messages of a collective occupy."""


class ComputeShare(NamedTuple):
    """Resources that communication leaves to training: share of compute units, memory bytes/s."""

    compute: float
    memory_bytes_per_s: float


class Endpoint(Protocol):
    """A kind of endpoint.

    An engine within the network (a switch) offers plans of its own; one beside the node (NIC, ACE)
    changes what messages occupy.
    """

    @property
    def overlaps(self) -> bool:
        """True if communication runs beside back-propagation."""

    def model(self, network: Network, kind: CollectiveKind, plan: Plan) -> EndpointModel:
        """Units and stages that messages of a collective occupy; the same units for all kinds."""

    def share(self) -> ComputeShare:
        """Resources left to training."""


def plan_of(
    endpoint: Endpoint,
    network: Network,
    kind: CollectiveKind,
    choice: AlgorithmChoice,
    dimensions: Sequence[int] | None,
) -> Plan:
    """The plan of a collective as an endpoint carries it out: see `plan_collective`.

    Raises
    ------
    ValueError
        For an algorithm of a user that is wrong, too.
    """
    mode = getattr(endpoint, "in_switch", None)
    made = plan_collective(network, kind, choice, dimensions, in_switch=mode)
    for phase in (each for variant in made.variants for each in variant.phases):
        if phase.judge is not None:
            phase.judge()
    planned = getattr(endpoint, "planned", None)
    return made if planned is None else planned(network, kind, choice, made)
