"""What an endpoint kind tells the simulator."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from sim.collectives.program import Plan, Receipt, Source
from sim.network.network import Network
from sim.workload.graph import CollectiveKind

__all__ = [
    "ComputeShare",
    "Endpoint",
    "EndpointModel",
    "HardwareRing",
    "Room",
    "Stage",
    "Tables",
    "Unit",
]


@dataclass(frozen=True, kw_only=True)
class Unit:
    """A resource of every node, serving requests in their order; ``servers`` alike in parallel.
    ``per_ring``: there is one for each ring, by which chunks take turns."""

    name: str
    servers: int = 1
    per_ring: bool = False


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A message (or chunk) of b bytes occupies a unit for ``fixed_s + b * s_per_byte`` and goes on
    ``latency_s`` later. Without a unit it is a delay. ``ahead_s``: a unit without requests works on
    for so long, in advance: what fetches data before they are wanted, into a buffer."""

    unit: str | None
    s_per_byte: float = 0.0
    fixed_s: float = 0.0
    latency_s: float = 0.0
    ahead_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Room:
    """``size_bytes`` of buffer that a chunk holds in one phase (an SRAM partition)."""

    name: str
    size_bytes: float


@dataclass(frozen=True, kw_only=True)
class Tables:
    """Reduction tables and buffers of the switches around an endpoint, in packets.

    Of links that are faster than those of members, as of several links in parallel, there are as
    many times more.

    Parameters
    ----------
    entries : int
        Of the table at a port, each for a packet.
    packet_bytes : float
        Payload of a packet.
    ask_share : float
        Time of a link for the headers that ask for data, over that for the data.
    credits_up, credits_down : int
        Of a class, at the sender of a link to a switch, and of one to an endpoint.
    credit_s : float
        For which a credit is away, beside the latencies of the link both ways.
    pass_s : float
        Of the latency of a link to a switch, what comes after the credit has been given.
    stopped_s, reopening_s : float
        A link from a switch that has been without a credit for so long sends nothing for a while
        when one has come.
    reads : int
        Operands that an endpoint may be reading for a link.
    read_s : float
        For which the place of an operand is taken.
    contract : bool
        The first credits of operands and of results are used for what says that a call begins.
    detour_s : float
        By which a result is later whose entry has given way: its parts meet at a home endpoint.
    timeout_s : float
        Period after which an entry to which nothing was added in all of it gives way.
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


@dataclass(frozen=True, kw_only=True)
class EndpointModel:
    """Stages by where the data come from and what becomes of them; all may be empty.

    ``load`` and ``store`` are passed once by each chunk, before its first and after its last
    phase. ``rooms`` has one more than the plan has phases: phase i holds room i and needs space in
    room i + 1 to start. ``contexts`` bounds the chunks in each phase (FSMs). ``message_bytes`` is
    the unit in which the data of a step travel and are chained. ``receive_delay_s`` passes after
    every message, ``start_s`` once in every call, beside what ``start_of`` says for a call of so
    many bytes. ``wire_factor`` is the size of data on the links over that in memory, for endpoints
    that compress; it must be the same for all collectives of a run. ``steps``: stages of the sends
    that name them. ``tables``: what switches that reduce hold. ``cut``: how an engine cuts a call
    of so many bytes, (variant of the plan, bytes) of each chunk in their order; None: as the
    scheduler says. ``moves``: load and store of such a call, instead of the same of all.
    ``cut_through``: switches send on what comes in at once; else they store each message whole.
    """

    units: tuple[Unit, ...] = ()
    before: Mapping[Source, tuple[Stage, ...]] = field(default_factory=dict)
    after: Mapping[Receipt, tuple[Stage, ...]] = field(default_factory=dict)
    load: tuple[Stage, ...] = ()
    store: tuple[Stage, ...] = ()
    rooms: tuple[Room, ...] = ()
    contexts: tuple[int, ...] | None = None
    message_bytes: float | None = None
    receive_delay_s: float = 0.0
    start_s: float = 0.0
    start_of: Callable[[float], float] | None = None
    wire_factor: float = 1.0
    steps: Mapping[str, tuple[Stage, ...]] = field(default_factory=dict)
    tables: Tables | None = None
    cut: Callable[[float], Sequence[tuple[int, float]]] | None = None
    moves: Callable[[float], tuple[tuple[Stage, ...], tuple[Stage, ...]]] | None = None
    cut_through: bool = False

    def moved(self, size_bytes: float) -> tuple[tuple[Stage, ...], tuple[Stage, ...]]:
        """Load and store of a call of so many bytes."""
        return (self.load, self.store) if self.moves is None else self.moves(size_bytes)

    def stages_before(self, source: Source) -> tuple[Stage, ...]:
        """Those of a send whose data come from *source*."""
        if source is Source.SUM and source not in self.before:
            source = Source.FORWARD
        return self.before.get(source, ())

    def __post_init__(self) -> None:
        if not self.wire_factor > 0:
            raise ValueError(f"wire_factor must be above 0, not {self.wire_factor!r}")


class HardwareRing(ABC):
    """An engine that is hardware, in a ring of one dimension."""

    @abstractmethod
    def model(self, kind: CollectiveKind) -> EndpointModel:
        """What messages of a collective occupy."""


@dataclass(frozen=True, kw_only=True)
class ComputeShare:
    """What communication leaves to training: shares of the compute units and bytes/s of memory."""

    compute: float
    memory_bytes_per_s: float


class Endpoint(Protocol):
    """A kind of endpoint.

    An engine that computes within the network (a switch) is one that offers plans of its own; one
    that sits beside the node (NIC, ACE) changes what messages occupy.
    """

    @property
    def overlaps(self) -> bool:
        """Whether communication runs beside back-propagation."""

    def model(self, network: Network, kind: CollectiveKind, plan: Plan) -> EndpointModel:
        """What messages of a collective occupy. Units must be the same for all collectives."""

    def share(self) -> ComputeShare:
        """What is left to training."""
