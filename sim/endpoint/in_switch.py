# SPDX-License-Identifier: Apache-2.0
"""In-switch reduction: switches reduce and multicast what endpoints push, or pull through them.

Known in the field as NVLink SHARP, or UALink in-network collectives; after Klenk et al., ISCA 2020.
The endpoint is a DMA engine that limits the reductions in flight, in *waves*, to what the network's
tables hold.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from hw.switch.sizes import SwitchSizes
from sim.collectives.in_switch import MODES, PULL_TURNS, PULL_WHOLE, PUSH_HOME
from sim.collectives.program import Plan, Receipt, Source, relays_of
from sim.endpoint.endpoint import ComputeShare, EndpointModel, Room, Stage, Tables, Unit
from sim.fields import check, check_at_least, check_fields, check_positive
from sim.network.dimension import Dimension
from sim.network.network import Network
from sim.workload.graph import CollectiveKind

__all__ = ["FirstTurn", "InSwitchEndpoint", "SwitchTimes"]

WAVES = {"push": 16, "pull": 4}
"""Outstanding waves with which the paper's DGX-2 does best (Fig. 10)."""

PLACES = ("every", "home")

REDUCING = (CollectiveKind.ALL_REDUCE, CollectiveKind.REDUCE_SCATTER)

LEAST_CHUNKS = 4
"""Chunks in flight, at least. With fewer much of the window is unused; with more, waves end one by
one that end together in hardware. Fitted to the even draws of `bench levels`."""
MEMORY_BYTES = float(1 << 60)
MEMORY_BYTES_PER_S = 900e9
"""Memory bandwidth of the NPU: Volta's, as in ISCA 2021 Table V."""


@dataclass(frozen=True, kw_only=True)
class FirstTurn:
    """Time lost by a push between leaves while endpoints that begin together push to one home.

    Parameters
    ----------
    step_bytes : float
        Bytes of a vector that have their homes at one leaf.
    lost_s : sequence of float
        Time lost after 1, 2, ... such steps; the last holds for all longer vectors.
    """

    step_bytes: float
    lost_s: Sequence[float]

    def of(self, size_bytes: float) -> float:
        """Seconds that a vector of *size_bytes* loses."""
        steps = math.ceil(size_bytes / self.step_bytes)
        return self.lost_s[min(steps, len(self.lost_s)) - 1] if steps else 0.0


@dataclass(frozen=True, kw_only=True)
class SwitchTimes:
    """Tables, buffers and latencies of switches and endpoints that are hardware.

    Parameters
    ----------
    tables : Tables
    pauses_s : mapping of str to float
        Pauses before the sends of `sim.collectives.turns`, by step, beside links.
    start_s, packet_s : float
        Time once in a call, beside the way of the first operands and of the exchange before pull;
        and for each of the operands that meet there.
    first_turns : mapping of int to FirstTurn
        Time that a push loses, by dimension.
    writes : sequence of Stage
        Stages of the writes of results.
    later_s : callable
        Extra time for the last results of a vector of so many bytes to be written.
    """

    tables: Tables
    pauses_s: Mapping[str, float]
    start_s: float
    packet_s: float
    first_turns: Mapping[int, FirstTurn] = field(default_factory=dict)
    writes: tuple[Stage, ...] = ()
    later_s: Callable[[float], float] | None = None


@dataclass(frozen=True, kw_only=True)
class InSwitchEndpoint:
    """A DMA engine beside every NPU, and switches with reduction tables.

    All-reduce, reduce-scatter, all-gather and broadcast go through the tables of dimensions with
    switches (``switch``, ``fat_tree``); rings and fully connected dimensions reduce at the
    endpoints, and all-to-alls and single messages travel as ordinary ones.

    Parameters
    ----------
    mode : str
        ``push``: operands are written into the network; ``pull``: they are fetched through it.
    switch : SwitchSizes
        Packets of the switch. The share of payload of all links follows from the packet.
    wave_bytes : float
        Bytes that one endpoint pushes, or asks for, in a wave. A wave of pulls covers as many bytes
        of a vector for every endpoint.
    waves : int or None
        Waves outstanding at an endpoint; None: 16 (push) or 4 (pull), the best in the paper's
        DGX-2.
    message_bytes : float
        Size of the messages that events simulate, instead of packets.
    memory_latency_s : float
        Latency of a local read: 240 ns of a round trip of 840 ns in the paper's DGX-2.
    lost_memory_bytes_per_s : float
        Bandwidth that training loses: 120 GB/s each way, a GPU's links full of payload.
    reduce_at : str
        Switches that reduce what is pushed: ``every`` one on the way, or that of the ``home``
        endpoint of an address, as in our RTL.
    own_travels : bool
        True: the operand of the one that pulls travels to the switch, too, as with NVLink SHARP;
        False: it is added at the endpoint.
    overlaps : bool
        False: collectives of gradients wait for the end of back-propagation.
    times : SwitchTimes or None
        Times and tables of switches that are hardware; members then take turns to load blocks.
    """

    mode: str = "push"
    switch: SwitchSizes = field(default_factory=SwitchSizes)
    wave_bytes: float = 8192
    waves: int | None = None
    message_bytes: float = 2048
    memory_latency_s: float = 240e-9
    lost_memory_bytes_per_s: float = 240e9
    reduce_at: str = "every"
    own_travels: bool = False
    overlaps: bool = True
    times: SwitchTimes | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        check("mode", self.mode, f"one of {', '.join(MODES)}", self.mode in MODES)
        check_positive(self, "wave_bytes")
        allowed = f"one of {', '.join(PLACES)}"
        check("reduce_at", self.reduce_at, allowed, self.reduce_at in PLACES)
        if self.own_travels:
            check("mode", self.mode, "'pull' where own_travels", self.mode == "pull")
        check_at_least(self, 1, "message_bytes")
        check_at_least(self, 1, "waves", optional=True)
        check_at_least(self, 0, "memory_latency_s", "lost_memory_bytes_per_s")

    @property
    def in_switch(self) -> str:
        """Mode in which switches reduce; plans are made for it."""
        if self.mode == "pull":
            if self.times is not None:
                return PULL_TURNS
            return PULL_WHOLE if self.own_travels else "pull"
        return PUSH_HOME if self.reduce_at == "home" else "push"

    @property
    def outstanding(self) -> int:
        """Waves outstanding at an endpoint."""
        return WAVES[self.mode] if self.waves is None else self.waves

    def wave_of(self, dimensions: Sequence[Dimension]) -> float:
        """Bytes of a vector in a wave, for groups over *dimensions*: those that all members pull at
        once, unless they take turns."""
        all_at_once = self.in_switch in ("pull", PULL_WHOLE)
        return self.wave_bytes * (_members(dimensions) if all_at_once else 1)

    def concurrency_of(self, dimensions: Sequence[Dimension]) -> int:
        """Chunks in flight."""
        if self.in_switch != PULL_TURNS:
            return self.outstanding
        limit = self.outstanding * self.wave_of(dimensions)
        planes = max(each.lanes for each in dimensions if each.has_switches)
        return max(1, int(limit / planes / self.chunk_of(dimensions)))

    def chunk_of(self, dimensions: Sequence[Dimension]) -> float:
        """Bytes of a wave that pass through one plane: addresses are spread over all of them."""
        planes = max(each.lanes for each in dimensions if each.has_switches)
        wave = self.wave_of(dimensions) / planes
        if self.in_switch == PULL_TURNS:
            # Whole turns of all members, of about a wave, if several may be under way.
            turn = self.message_bytes * _members(dimensions)
            limit = wave * self.outstanding
            turns = min(round(wave / turn), int(limit / turn / LEAST_CHUNKS))
            wave = min(turn * max(1, turns), limit)
        return max(1.0, wave)

    def model(self, network: Network, kind: CollectiveKind, plan: Plan) -> EndpointModel:
        read = (Stage(unit=None, latency_s=self.memory_latency_s),)
        writes = () if self.times is None else self.times.writes
        rooms: list[Room] = []
        start_s = 0.0 if self.times is None else self.times.start_s
        later: list[Callable[[float], float]] = []
        deepest = max((len(variant.phases) for variant in plan.variants), default=0)
        reduced = {
            phase.dimension
            for variant in plan.variants
            for phase in variant.phases
            if relays_of(phase)
        }
        if reduced:
            dimensions = [network.dimensions[dimension] for dimension in sorted(reduced)]
            limit = self.outstanding * self.wave_of(dimensions)
            waves_of = Room(name=f"waves of {limit:g} bytes", size_bytes=limit)
            rooms = [waves_of] * deepest + [Room(name="memory", size_bytes=MEMORY_BYTES)]
            if self.mode == "pull" and kind in REDUCING:
                start_s += self._barrier_s(dimensions)
            elif self.times is not None and kind in REDUCING:
                # Operands of the first block meet at its home; later ones come one by one.
                start_s += self.times.packet_s * max(each.group or each.size for each in dimensions)
            if kind is CollectiveKind.ALL_REDUCE and self.times is not None:
                known = self.times.first_turns
                later = [known[dimension].of for dimension in reduced if dimension in known]
                if self.times.writes and self.times.later_s is not None:
                    later.append(self.times.later_s)
        return EndpointModel(
            units=tuple(Unit(name=each.unit, per_ring=True) for each in writes if each.unit),
            before=dict.fromkeys((Source.FRESH, Source.REDUCED, Source.SUM, Source.HELD), read),
            after={Receipt.KEEP: writes},
            rooms=tuple(rooms),
            message_bytes=self.message_bytes,
            start_s=start_s,
            start_of=partial(_later_s, later) if later else None,
            steps=self._steps(),
            tables=None if self.times is None else self.times.tables,
        )

    def _barrier_s(self, dimensions: Sequence[Dimension]) -> float:
        """Seconds of the barrier, without which data might be fetched before they are written: an
        empty message from every member through the tree to all, on links that are free; in hardware
        a block that all push."""
        once = sum(each.farthest_s for each in dimensions)
        if self.times is None:
            return once
        operands_s = self.times.packet_s * _members(dimensions)
        # Operands meet at a home and results leave from there: between leaves both take time.
        further = sum(each.farthest_s - each.hop_s for each in dimensions)
        return once + further + operands_s

    def _steps(self) -> dict[str, tuple[Stage, ...]]:
        if self.times is None:
            return {}
        return {
            step: (Stage(unit=None, latency_s=pause_s),)
            for step, pause_s in self.times.pauses_s.items()
        }

    def share(self) -> ComputeShare:
        """DMA takes no compute units."""
        left = max(0.0, MEMORY_BYTES_PER_S - self.lost_memory_bytes_per_s)
        return ComputeShare(compute=1.0, memory_bytes_per_s=left)


def _later_s(later: Sequence[Callable[[float], float]], size_bytes: float) -> float:
    return sum(each(size_bytes) for each in later)


def _members(dimensions: Sequence[Dimension]) -> int:
    return math.prod(each.size for each in dimensions if each.has_switches)
