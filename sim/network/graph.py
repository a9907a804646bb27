# SPDX-License-Identifier: Apache-2.0
"""A topology as a list of links between members and switches, and the shortest ways over them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from sim.fields import FieldError, check, check_fields, check_positive
from sim.network.grid import Indices
from sim.network.paths import Paths
from sim.units import MOST_TIME_S

__all__ = ["Graph", "GraphLink", "Joints"]

MOST_PAIRS, MOST_PARALLEL = 1 << 24, 1 << 12
"""Members times vertices, whose distances are kept; links between the same two vertices."""


@dataclass(frozen=True, kw_only=True)
class GraphLink:
    """``lanes`` equal links between two vertices: members from 0, then switches.

    ``bandwidth_bytes_per_s`` and ``latency_s`` of one link in one direction; None: those of the
    dimension. ``both_ways`` false: from ``source`` to ``target`` only.
    """

    source: int
    target: int
    lanes: int = 1
    bandwidth_bytes_per_s: float | None = None
    latency_s: float | None = None
    both_ways: bool = True

    def __post_init__(self) -> None:
        check_fields(self)
        check("source", self.source, "at least 0", self.source >= 0)
        check("target", self.target, "at least 0", self.target >= 0)
        check("target", self.target, "another vertex than source", self.target != self.source)
        check("lanes", self.lanes, f"from 1 to {MOST_PARALLEL}", 1 <= self.lanes <= MOST_PARALLEL)
        check_positive(self, "bandwidth_bytes_per_s", optional=True)
        late = self.latency_s
        allowed = f"from 0 to {MOST_TIME_S:g} s"
        check("latency_s", late, allowed, late is None or 0 <= late <= MOST_TIME_S)


class Joints(NamedTuple):
    """Directed links as arrays, in the order of the list, both directions of a link side by side.

    ``lane`` counts links from the same vertex to the same vertex. Rates and latencies are NaN
    where the list states none.
    """

    source: Indices
    target: Indices
    lane: Indices
    bytes_per_s: NDArray[np.float64]
    latency_s: NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Graph:
    """Members, switches and their links. ``names``: of the switches, in order; for messages.

    Every member must reach every other one.
    """

    members: int
    links: tuple[GraphLink, ...] = field(repr=False)
    switches: int = 0
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        vertices = self.vertices
        pairs = self.members * vertices
        allowed = f"so few that members x (members + switches) is at most {MOST_PAIRS}"
        check("members", self.members, allowed, 1 <= self.members and pairs <= MOST_PAIRS)
        for each in self.links:
            for name in ("source", "target"):
                end = getattr(each, name)
                check(name, end, f"a vertex from 0 to {vertices - 1}", end < vertices)
        lost = self.paths.unreached()
        if lost is not None:
            raise FieldError("links", f"must join all: there is no way {self.between(*lost)}")

    @property
    def vertices(self) -> int:
        return self.members + self.switches

    def name(self, vertex: int) -> str:
        """``node 3``, or the name of a switch."""
        if vertex < self.members:
            return f"node {vertex}"
        number = vertex - self.members
        return self.names[number] if number < len(self.names) else f"switch {number}"

    def between(self, source: int, target: int) -> str:
        return f"from {self.name(source)} to {self.name(target)}"

    def scaled(self, share: float) -> Self:
        """The graph with *share* of every rate that a link states."""
        return replace(self, links=tuple(
            each if each.bandwidth_bytes_per_s is None
            else replace(each, bandwidth_bytes_per_s=each.bandwidth_bytes_per_s * share)
            for each in self.links
        ))

    @cached_property
    def joints(self) -> Joints:
        """All directed links."""
        ends: list[tuple[int, int]] = []
        stated: list[tuple[float, float]] = []
        for each in self.links:
            ways = [(each.source, each.target), (each.target, each.source)]
            of = tuple(
                np.nan if value is None else value
                for value in (each.bandwidth_bytes_per_s, each.latency_s)
            )
            for _ in range(each.lanes):
                ends += ways if each.both_ways else ways[:1]
                stated += [(of[0], of[1])] * (2 if each.both_ways else 1)
        seen: dict[tuple[int, int], int] = {}
        lanes = []
        for end in ends:
            lanes.append(seen.get(end, 0))
            seen[end] = lanes[-1] + 1
        source, target = np.array(ends, np.int64).reshape(-1, 2).T
        rates, latencies = np.array(stated, np.float64).reshape(-1, 2).T
        return Joints(source, target, np.array(lanes, np.int64), rates, latencies)

    @cached_property
    def paths(self) -> Paths:
        """The shortest ways where no link is down."""
        joints = self.joints
        return Paths(self.members, self.vertices, joints.source, joints.target)

    def rates(self, bytes_per_s: float) -> NDArray[np.float64]:
        """Rate of every directed link, *bytes_per_s* where it states none."""
        stated = self.joints.bytes_per_s
        return np.where(np.isnan(stated), bytes_per_s, stated)

    def wires(self, latency_s: float) -> NDArray[np.float64]:
        """Latency of every directed link by itself, *latency_s* where it states none."""
        stated = self.joints.latency_s
        return np.where(np.isnan(stated), latency_s, stated)

    def latencies(self, latency_s: float, router_latency_s: float) -> NDArray[np.float64]:
        """Latency of every directed link and of the router that it leads to: none at members that
        a switch sends to."""
        joints = self.joints
        own = self.wires(latency_s)
        ends = (joints.source >= self.members) & (joints.target < self.members)
        return own + np.where(ends, 0.0, router_latency_s)

    def farthest_s(self, latency_s: float, router_latency_s: float) -> float:
        """Least latency between the two members that are farthest apart."""
        key = latency_s, router_latency_s
        if key not in self._farthest:
            self._farthest[key] = self.paths.farthest(self.latencies(*key))
        return self._farthest[key]

    @cached_property
    def _farthest(self) -> dict[tuple[float, float], float]:
        return {}

    def injection(self, bytes_per_s: float) -> float:
        """Bytes per second that a member can send, or receive if that is less; the mean."""
        rates = self.rates(bytes_per_s)
        found = []
        for end in (self.joints.source, self.joints.target):
            values, counts = np.unique(rates[end < self.members], return_counts=True)
            found.append(float(counts / self.members @ values))
        return min(found)

    @cached_property
    def is_even(self) -> bool:
        """True if all members have as many links, of equal rates."""
        joints = self.joints
        rates = np.nan_to_num(joints.bytes_per_s, nan=-1.0)
        for end in (joints.source, joints.target):
            mine = end < self.members
            order = np.lexsort((rates[mine], end[mine]))
            if mine.sum() % self.members:
                return False
            sets = rates[mine][order].reshape(self.members, -1)
            owners = end[mine][order].reshape(self.members, -1)
            if (owners != np.arange(self.members)[:, None]).any() or (sets != sets[0]).any():
                return False
        return True

    def groups(self, bytes_per_s: float) -> Mapping[str, Indices]:
        """Ways to part the vertices into groups that few links join, by name: a group for each
        vertex. Without the links between switches, and without the slowest links."""
        joints, rates = self.joints, self.rates(bytes_per_s)
        between = (joints.source >= self.members) & (joints.target >= self.members)
        found = {"links between switches": self._parts(~between)}
        for slow in np.unique(rates)[:-1]:
            found[f"links of up to {slow / 1e9:g} GB/s"] = self._parts(rates > slow)
        return found

    def _parts(self, kept: NDArray[np.bool_]) -> Indices:
        """The least vertex that each one is joined with by links that are kept."""
        part = np.arange(self.vertices)
        source, target = self.joints.source[kept], self.joints.target[kept]
        while True:
            least = part.copy()
            np.minimum.at(least, target, part[source])
            np.minimum.at(least, source, part[target])
            least = least[least]
            if (least == part).all():
                return part
            part = least

