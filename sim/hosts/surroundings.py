# SPDX-License-Identifier: Apache-2.0
"""Surroundings of engines that work together, in RTL and as cycle models."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from gen.arguments import MOST_NUMBER
from hw.common.axi import MEMORY_ALIGNMENT
from hw.link.retry_frame import RetryConfig
from sim.collectives.algorithm import Algorithm
from sim.fields import FieldError, FoldError, check_integer
from sim.hosts.wiring import EngineWiring

__all__ = ["Surroundings", "check_wire"]

_SEED_END = 2**64
_OF_A_RANK = (
    "link_stalls", "memory_stalls", "host_stalls", "link_loss", "link_repetition", "link_damage",
)


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
class Surroundings:
    """Links, memories and hosts around the engines of a ring, in RTL and as cycle models.

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
    memory_beats_per_cycle : float
        Pace of every memory port, of reads and of writes each, at most 1 (ACE).
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
        True: every second round of FSMs runs its ring backwards (ACE).
    wiring : EngineWiring or None
        Links, with latency and pace of each, and rings or paths on them (ACE); None: one ring of
        links with *latency_cycles* and *beats_per_cycle*.
    algorithm : Algorithm or None
        Own algorithm of rings (ACE), for the collectives that it does; None: that of the ring.
    folded : bool
        One engine, rank 0, stands for all: what it sends to the next rank comes back as from the
        previous one, in each dimension (ACE on one ring, or on a torus by dimension; see
        `sim.collectives.fold` for the commands that may be).
    seed : int
        Draws all stalls, and losses, repetitions and damages of packets.

    Raises
    ------
    ValueError
        For a field that is not as above; a `FoldError` for one that makes ranks differ where
        *folded*.
    """

    nodes: int
    latency_cycles: int = 1
    beats_per_cycle: float = 1.0
    read_latency_cycles: int = 50
    write_latency_cycles: int = 4
    memory_beats_per_cycle: float = 1.0
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
    wiring: EngineWiring | None = None
    algorithm: Algorithm | None = None
    folded: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        check_integer("nodes", self.nodes, 2)
        for name in "latency_cycles", "read_latency_cycles", "write_latency_cycles":
            check_integer(name, getattr(self, name), 1)
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
        for name, value in (
            ("beats_per_cycle", pace), ("memory_beats_per_cycle", self.memory_beats_per_cycle),
        ):
            _number(name, value, "above 0 and at most 1", _is_number(value) and 0 < value <= 1)
        if bound is not None:
            fits = _is_number(bound) and 0 < bound < MOST_NUMBER
            _number("host_bytes_per_cycle", bound, "above 0 or None", fits)
        check_integer("memory_bytes", self.memory_bytes, MEMORY_ALIGNMENT)
        if self.memory_bytes % MEMORY_ALIGNMENT:
            raise FieldError(
                "memory_bytes",
                f"must be a multiple of {MEMORY_ALIGNMENT}, not {self.memory_bytes!r}"
            )
        if self.fsms is not None:
            check_integer("fsms", self.fsms, 1)
        if not isinstance(self.bidirectional, bool | np.bool_):
            raise FieldError("bidirectional", f"must be True or False, not {self.bidirectional!r}")
        self._check_wiring()
        if not isinstance(self.algorithm, Algorithm | None):
            what = f"must be an Algorithm or None, not {self.algorithm!r}"
            raise FieldError("algorithm", what)
        check_integer("seed", self.seed, 0, _SEED_END)
        if not isinstance(self.folded, bool | np.bool_):
            raise FieldError("folded", f"must be True or False, not {self.folded!r}")
        if self.folded:
            self._check_folded()

    def _check_wiring(self) -> None:
        if self.wiring is None:
            return
        if not isinstance(self.wiring, EngineWiring):
            raise FieldError("wiring", f"must be a EngineWiring or None, not {self.wiring!r}")
        if self.wiring.ranks != self.nodes:
            raise FieldError(
                "wiring", f"must have rings of {self.nodes} ranks, not {self.wiring.ranks}"
            )
        if self.wiring.alike and not self.folded:
            raise FieldError(
                "wiring", "must have the links of all ranks unless one engine stands for all"
            )

    def _check_folded(self) -> None:
        """Refuse what happens to ranks one by one."""
        for name in _OF_A_RANK:
            if value := getattr(self, name):
                what = f"must be 0 where one engine stands for all, not {value!r}"
                raise FoldError(name, f"{what}: it hits each rank in cycles of its own")
        if self.algorithm is not None:
            what = f"must be None where one engine stands for all, not {self.algorithm.name!r}"
            raise FoldError("algorithm", what)
        if self.wiring is not None:
            self.wiring.folded()

    def refuse_folded(self, engines: str) -> None:
        """Refuse *folded* for *engines*, by name, of which none can stand for others.

        Raises
        ------
        FoldError
        """
        if self.folded:
            what = f"needs ACE: {engines} do not stand for one another"
            raise FoldError("folded", what)

    @property
    def engines(self) -> int:
        """Engines that there are: one for each rank, or one for all."""
        return 1 if self.folded else self.nodes

    def wired(self) -> EngineWiring:
        """Links and rings, those of one ring if no others are given; of one engine where it stands
        for all, each port of which leads to its own port on the other side."""
        if self.folded and self.wiring is not None:
            return self.wiring.folded()
        return self.wiring or EngineWiring.ring(
            self.engines, latency_cycles=self.latency_cycles, beats_per_cycle=self.beats_per_cycle
        )

    @property
    def latencies(self) -> tuple[int, int]:
        """Shortest and longest latency of a link, in cycles."""
        if self.wiring is None:
            return self.latency_cycles, self.latency_cycles
        return self.wiring.latencies

    @property
    def bad_wires(self) -> bool:
        """True if links lose, repeat or damage packets."""
        return bool(self.link_loss or self.link_repetition or self.link_damage)
