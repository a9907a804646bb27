"""A ring of engines from outside: its settings, its commands, and the interface of cycle models."""

import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gen.arguments import MOST_INTEGER, MOST_NUMBER
from hw.common.axi import MEMORY_ALIGNMENT
from hw.fp.ops import ReduceOp
from hw.link.retry_frame import RetryConfig
from sim.cycles.activity import LinkActivity
from sim.fields import FieldError
from sim.workload.graph import CollectiveKind

__all__ = [
    "MOST_CYCLES",
    "MOST_IN_FLIGHT",
    "MOST_STEPS",
    "Command",
    "CycleModel",
    "RingSettings",
    "check_wire",
]

MOST_CYCLES = 1 << 30
"""Bound of a run of cycle models: ACE's packs a cycle and its event into one 64-bit number."""
MOST_STEPS = 1 << 32
"""Bound of a run of switches: every endpoint and switch takes a step in every cycle."""
MOST_IN_FLIGHT = 1 << 27
"""Beats that all links of NICs have room for."""
_SEED_END = 2**64
_WORD_END = 2**32


def _integer(name: str, value: Any, least: int, end: int | None = None) -> None:
    """Refuse a value that is not an integer from *least* to below *end*."""
    limits = f"at least {least}" if end is None else f"from {least} to {end - 1}"
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is not None and abs(number) > MOST_INTEGER and end is None:
        raise FieldError(name, f"must be an integer of at most 64 bits, not {value!r}")
    if number is None or number < least or (end is not None and number >= end):
        raise FieldError(name, f"must be an integer {limits}, not {value!r}")


def _number(name: str, value: Any, allowed: str, fits: bool) -> None:
    if not fits:
        raise FieldError(name, f"must be {allowed}, not {value!r}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def check_wire(**shares: float) -> None:
    """Refuse values that cannot be the shares of packets that a wire loses, repeats and damages.

    Raises
    ------
    ValueError
    """
    for name, value in shares.items():
        _number(name, value, "from 0 to 1", _is_number(value) and 0 <= value <= 1)
    total = sum(shares.values())
    if total > 1 + 1e-9:
        raise ValueError(f"{' + '.join(shares)} must be at most 1, not {total:g}")


@dataclass(frozen=True, kw_only=True)
class RingSettings:
    """Surroundings of the engines of a ring, in RTL and as cycle models.

    Parameters
    ----------
    nodes : int
        Ranks, 2 or more; engines have limits of their own.
    latency_cycles : int
        Latency of every link, in both directions; for NICs from port to port, with cables and
        switch.
    beats_per_cycle : float
        Pace of every link, at most 1.
    read_latency_cycles, write_latency_cycles : int
        Latencies of every memory.
    link_stalls, memory_stalls, host_stalls : float
        Probability that a link, a channel of a memory port, or the host's acceptance of a response
        stalls in a cycle. Models draw what the RTL draws for the same *seed*; they have no stalls
        of hosts.
    link_loss, link_repetition, link_damage : float
        Probability that a packet on a link is lost, arrives twice, or is damaged (RTL; engines
        without *retry* do not get over it).
    retry : RetryConfig or None
        Retry at both ends of every link, for packets that wires lose or damage (RTL); None: none.
    host_bytes_per_cycle : float or None
        Bounds reads plus writes of a node's memory, not in ACE's model; None: the width of its
        ports.
    memory_bytes : int
        Memory of each node, a multiple of 128.
    fsms : int or None
        FSMs of an ACE in use, None for all.
    bidirectional : bool
        True: FSMs with odd numbers run the ring backwards (ACE).
    seed : int
        Draws all stalls, and losses, repetitions and damages of packets.

    Raises
    ------
    ValueError
        For a field that is not as above.
    """

    nodes: int
    latency_cycles: int = 1
    beats_per_cycle: float = 1.0
    read_latency_cycles: int = 50
    write_latency_cycles: int = 4
    link_stalls: float = 0.0
    memory_stalls: float = 0.0
    host_stalls: float = 0.0
    link_loss: float = 0.0
    link_repetition: float = 0.0
    link_damage: float = 0.0
    retry: RetryConfig | None = None
    host_bytes_per_cycle: float | None = None
    memory_bytes: int = 4 << 20
    fsms: int | None = None
    bidirectional: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        _integer("nodes", self.nodes, 2)
        for name in "latency_cycles", "read_latency_cycles", "write_latency_cycles":
            _integer(name, getattr(self, name), 1)
        for name in "link_stalls", "memory_stalls", "host_stalls":
            value = getattr(self, name)
            fits = _is_number(value) and 0 <= value < 1
            _number(name, value, "at least 0 and below 1", fits)
        check_wire(
            link_loss=self.link_loss,
            link_repetition=self.link_repetition,
            link_damage=self.link_damage,
        )
        if not isinstance(self.retry, RetryConfig | None):
            raise FieldError("retry", f"must be a RetryConfig or None, not {self.retry!r}")
        pace, bound = self.beats_per_cycle, self.host_bytes_per_cycle
        _number(
            "beats_per_cycle", pace, "above 0 and at most 1", _is_number(pace) and 0 < pace <= 1
        )
        if bound is not None:
            fits = _is_number(bound) and 0 < bound < MOST_NUMBER
            _number("host_bytes_per_cycle", bound, "above 0 or None", fits)
        _integer("memory_bytes", self.memory_bytes, MEMORY_ALIGNMENT)
        if self.memory_bytes % MEMORY_ALIGNMENT:
            raise FieldError(
                "memory_bytes",
                f"must be a multiple of {MEMORY_ALIGNMENT}, not {self.memory_bytes!r}"
            )
        if self.fsms is not None:
            _integer("fsms", self.fsms, 1)
        if not isinstance(self.bidirectional, bool | np.bool_):
            raise FieldError("bidirectional", f"must be True or False, not {self.bidirectional!r}")
        _integer("seed", self.seed, 0, _SEED_END)

    @property
    def bad_wires(self) -> bool:
        """True if links lose, repeat or damage packets."""
        return bool(self.link_loss or self.link_repetition or self.link_damage)


@dataclass(frozen=True, kw_only=True)
class Command:
    """A collective of a ring, the same on every node.

    Parameters
    ----------
    collective : CollectiveKind
    elements : int
        4-byte elements of the whole vector.
    op : ReduceOp
    compress : bool
        Compress data on links (NIC).
    block : int or None
        Elements of a block (ACE); None: chosen, see ``Partition.plan``.
    source, destination : int
        Addresses of the local vector or shard, and of the result.

    Raises
    ------
    ValueError
        For a field that no engine takes.
    """

    collective: CollectiveKind = CollectiveKind.ALL_REDUCE
    elements: int
    op: ReduceOp = ReduceOp.SUM_F32
    compress: bool = False
    block: int | None = None
    source: int = 0
    destination: int = 0

    def __post_init__(self) -> None:
        for name, kind in ("collective", CollectiveKind), ("op", ReduceOp):
            if not isinstance(getattr(self, name), kind):
                names = ", ".join(f"{kind.__name__}.{member.name}" for member in kind)
                raise FieldError(name, f"must be one of {names}, not {getattr(self, name)!r}")
        _integer("elements", self.elements, 1, _WORD_END)
        for name in "source", "destination":
            _integer(name, getattr(self, name), 0, _SEED_END)

    @property
    def end(self) -> int:
        """Byte behind the last one that the command reads or writes, on any rank."""
        return max(self.source, self.destination) + 4 * self.elements


class CycleModel(Protocol):
    """Interface that the cycle model of every engine offers to those who run it.

    A model is made by ``Model(config, ring, commands, scripts, *, external=(), start_cycle=0,
    trace=False)``: *scripts* has the steps (``sim.cycles.script``) of each rank's host, *external*
    names ranks that are simulated elsewhere, *trace* keeps every beat.
    """

    @property
    def done(self) -> bool:
        """True when every script has been completed."""

    def run(self, until: int = ...) -> float:
        """Simulate all cycles before *until* (default: all); returns the wall time in seconds."""

    def steps(self, rank: int) -> NDArray[np.int64]:
        """Cycle in which each step of a rank's script was completed, -1 if it was not."""

    def completions(self) -> NDArray[np.int64]:
        """Cycle in which each engine completed each command, -1 if not: ranks x commands."""

    def counts(self) -> Mapping[str, int]:
        """Events by name, of models that count any."""

    def link_activity(self, rank: int, port: int, *, bucket_cycles: int = 0) -> LinkActivity:
        """Traffic that a port has sent; series and single beats are empty without *trace*."""
