# SPDX-License-Identifier: Apache-2.0
"""One dimension of a network: how the nodes that differ only in it are joined."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from numbers import Real
from typing import Any, Self

from sim.fields import FieldError, check, check_size
from sim.network.graph import Graph
from sim.units import MOST_TIME_S

__all__ = ["Dimension", "DimensionKind"]


class DimensionKind(Enum):
    """The topology by which the members of a group are joined.

    * ``ring``: each to the next one.
    * ``switch``: each to every one of ``lanes`` non-blocking switches.
    * ``fully_connected``: each to each.
    * ``fat_tree``: leaves of ``group`` members each, joined by ``lanes`` spines (or directly,
      where there are only two leaves and ``spine`` is False: the DGX-2).
    * ``links``: as the links of ``graph`` say.
    """

    RING = "ring"
    SWITCH = "switch"
    FULLY_CONNECTED = "fully_connected"
    FAT_TREE = "fat_tree"
    LINKS = "links"


MOST_MEMBERS, MOST_LANES = 1 << 24, 1 << 12
"""Most members of a group; most lanes between two of them."""


@dataclass(frozen=True, kw_only=True)
class Dimension:
    """Groups of ``size`` nodes and their links, all alike.

    Parameters
    ----------
    kind : DimensionKind or its name
    size : int
        Members of a group.
    bandwidth_bytes_per_s : float
        Bandwidth of one link in one direction.
    latency_s : float
        Latency of one link.
    lanes : int
        Parallel rings, switches, or links between two members. Bandwidth is per link, so lanes
        multiply it.
    bidirectional : bool
        Every ring has links in both directions (rings only).
    single_link : bool
        A ring of two with one full-duplex link instead of two.
    efficiency : float
        Share of the link's time that carries payload (headers take the rest).
    router_latency_s : float
        Latency of every router on the way: each switch, and each node that a link of a ring or a
        direct link enters. A link from a switch to a node adds none.
    group : int
        Members of a leaf (fat tree only).
    trunk_bandwidth_bytes_per_s : float or None
        Bandwidth of a link between leaf and spine; None for that of the members' links times
        ``group`` (no oversubscription) (fat tree only).
    spine : bool
        See :class:`DimensionKind` (fat tree only).
    graph : Graph or None
        Links between the members and switches of their own, which may state other bandwidths and
        latencies (kind links only).
    """

    kind: DimensionKind | str
    size: int
    bandwidth_bytes_per_s: float
    latency_s: float = 0.0
    lanes: int = 1
    bidirectional: bool = True
    single_link: bool = False
    efficiency: float = 1.0
    router_latency_s: float = 0.0
    group: int = 0
    trunk_bandwidth_bytes_per_s: float | None = None
    spine: bool = True
    graph: Graph | None = None

    def __post_init__(self) -> None:
        known = {kind.value: kind for kind in DimensionKind}
        named = known.get(self.kind) if isinstance(self.kind, str) else None
        kind = self.kind if isinstance(self.kind, DimensionKind) else named
        if not isinstance(kind, DimensionKind):
            raise FieldError("kind", f"must be one of {', '.join(known)}, not {self.kind!r}")
        object.__setattr__(self, "kind", kind)
        for name, least, most in (
            ("size", 1, MOST_MEMBERS), ("lanes", 1, MOST_LANES), ("group", 0, MOST_MEMBERS),
        ):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int):
                raise TypeError(f"{name} must be an integer, not {value!r}")
            if value < least:
                raise FieldError(name, f"must be at least {least}, not {value!r}")
            check(name, value, f"at most {most}", value <= most)
        for name in ("bidirectional", "single_link", "spine"):
            value = getattr(self, name)
            check(name, value, "True or False", isinstance(value, bool))
        for name in ("bandwidth_bytes_per_s", "latency_s", "router_latency_s", "efficiency"):
            _check_number(name, getattr(self, name))
        if not self.bandwidth_bytes_per_s > 0:
            raise FieldError(
                "bandwidth_bytes_per_s", f"must be above 0, not {self.bandwidth_bytes_per_s!r}"
            )
        for name in ("latency_s", "router_latency_s"):
            if not getattr(self, name) >= 0:
                raise FieldError(name, f"must be at least 0, not {getattr(self, name)!r}")
            most = getattr(self, name) <= MOST_TIME_S
            check(name, getattr(self, name), f"at most {MOST_TIME_S:g} s", most)
        if not 0 < self.efficiency <= 1:
            raise FieldError(
                "efficiency", f"must be above 0 and at most 1, not {self.efficiency!r}"
            )
        if self.single_link and (kind is not DimensionKind.RING or self.size != 2):
            raise FieldError("single_link", "is for a ring of size 2 only")
        self._check_fat_tree(kind)
        self._check_graph(kind)
        if kind is not DimensionKind.RING and not self.bidirectional:
            raise ValueError(f"bidirectional=False is for rings only, not {kind.value}")

    def _check_fat_tree(self, kind: DimensionKind) -> None:
        trunk = self.trunk_bandwidth_bytes_per_s
        if trunk is not None:
            _check_number("trunk_bandwidth_bytes_per_s", trunk)
            if not trunk > 0:
                raise FieldError("trunk_bandwidth_bytes_per_s", f"must be above 0, not {trunk!r}")
        if kind is DimensionKind.FAT_TREE:
            if self.group < 1 or self.size % self.group:
                raise FieldError(
                    "group", f"must divide the size {self.size} of the fat tree, not {self.group!r}"
                )
            if not self.spine and self.size // self.group != 2:
                raise ValueError("spine=False needs exactly two leaves")
        elif self.group:
            raise FieldError("group", f"is for a fat tree only, not {kind.value}")
        elif trunk is not None:
            raise FieldError(
                "trunk_bandwidth_bytes_per_s", f"is for a fat tree only, not {kind.value}"
            )
        elif not self.spine:
            raise ValueError(f"spine=False is for a fat tree only, not {kind.value}")

    def _check_graph(self, kind: DimensionKind) -> None:
        graph, linked = self.graph, kind is DimensionKind.LINKS
        check("graph", graph, "a Graph", graph is None or isinstance(graph, Graph))
        if graph is None or not linked:
            allowed = "given for links" if linked else f"absent for {kind.value}"
            check("graph", graph, allowed, linked == (graph is not None))
            return
        check("size", self.size, f"the graph's {graph.members} members", self.size == graph.members)
        check("lanes", self.lanes, "1: the graph says how many links there are", self.lanes == 1)

    @classmethod
    def _of(
        cls,
        kind: DimensionKind,
        size: int,
        links: tuple[float, float],
        options: Mapping[str, Any],
    ) -> Self:
        rate, latency = links
        return cls(
            kind=kind, size=size, bandwidth_bytes_per_s=rate, latency_s=latency, **options
        )

    @classmethod
    def ring(
        cls, size: int, bandwidth_bytes_per_s: float, latency_s: float = 0.0, **options: Any
    ) -> Self:
        """Rings; *options* are other fields."""
        return cls._of(DimensionKind.RING, size, (bandwidth_bytes_per_s, latency_s), options)

    @classmethod
    def switch(
        cls, size: int, bandwidth_bytes_per_s: float, latency_s: float = 0.0, **options: Any
    ) -> Self:
        """Groups at ``lanes`` switches; *options* are other fields."""
        return cls._of(DimensionKind.SWITCH, size, (bandwidth_bytes_per_s, latency_s), options)

    @classmethod
    def fully_connected(
        cls, size: int, bandwidth_bytes_per_s: float, latency_s: float = 0.0, **options: Any
    ) -> Self:
        """Groups with links from each member to each; *options* are other fields."""
        links = bandwidth_bytes_per_s, latency_s
        return cls._of(DimensionKind.FULLY_CONNECTED, size, links, options)

    @classmethod
    def fat_tree(
        cls,
        size: int,
        group: int,
        bandwidth_bytes_per_s: float,
        latency_s: float = 0.0,
        **options: Any,
    ) -> Self:
        """Fat trees with leaves of ``group`` members; *options* are other fields."""
        links = bandwidth_bytes_per_s, latency_s
        return cls._of(DimensionKind.FAT_TREE, size, links, {"group": group, **options})

    @classmethod
    def linked(
        cls, graph: Graph, bandwidth_bytes_per_s: float, latency_s: float = 0.0, **options: Any
    ) -> Self:
        """Groups joined by the links of *graph*; *options* are other fields."""
        links = bandwidth_bytes_per_s, latency_s
        options = {"graph": graph, **options}
        return cls._of(DimensionKind.LINKS, graph.members, links, options)

    @property
    def directions(self) -> int:
        """Directions in which a lane of a ring can be used."""
        both = self.kind is DimensionKind.RING and self.bidirectional
        return 2 if both else 1

    @property
    def payload_bytes_per_s(self) -> float:
        """Rate of one link in one direction, headers deducted; of the slowest one of a graph."""
        rate = self.bandwidth_bytes_per_s
        if self.graph is not None:
            rate = float(self.graph.rates(rate).min(initial=rate))
        return rate * self.efficiency

    @property
    def trunk_payload_bytes_per_s(self) -> float:
        """Rate of one link between leaf and spine in one direction, headers deducted."""
        trunk = self.trunk_bandwidth_bytes_per_s
        if trunk is None:
            trunk = self.bandwidth_bytes_per_s * self.group
        return trunk * self.efficiency

    @property
    def links_per_node(self) -> int:
        """Outgoing links of one member; of a graph, all its links over the number of members."""
        if self.size == 1:
            return 0
        if self.graph is not None:
            return -(-len(self.graph.joints.source) // self.size)
        if self.kind is DimensionKind.FULLY_CONNECTED:
            return (self.size - 1) * self.lanes
        if self.single_link:
            return self.lanes
        return self.lanes * self.directions

    @property
    def hop_s(self) -> float:
        """Latency between neighbours; those at one switch are two links apart. A graph says nothing
        of neighbours: that between the members that are farthest apart."""
        if self.graph is not None:
            return self.farthest_s
        links = 2 if self.has_switches else 1
        return links * self.latency_s + self.router_latency_s

    @property
    def farthest_s(self) -> float:
        """Latency between the two members that are farthest apart."""
        if self.size == 1:
            return 0.0
        if self.graph is not None:
            return self.graph.farthest_s(self.latency_s, self.router_latency_s)
        if self.kind is DimensionKind.RING:
            links = self.size - 1 if self.directions == 1 else self.size // 2
            return links * self.hop_s
        if self.kind is DimensionKind.FAT_TREE and self.group < self.size:
            switches = 3 if self.spine else 2
            return (switches + 1) * self.latency_s + switches * self.router_latency_s
        return self.hop_s

    @property
    def has_switches(self) -> bool:
        """True if members are joined by switches; those of a graph only forward."""
        return self.kind in (DimensionKind.SWITCH, DimensionKind.FAT_TREE)

    @property
    def injection_bytes_per_s(self) -> float:
        """Payload that one member can send into this dimension; on a graph the mean of all."""
        if self.graph is not None:
            return self.graph.injection(self.bandwidth_bytes_per_s) * self.efficiency
        return self.links_per_node * self.payload_bytes_per_s


def _check_number(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, not {value!r}")
    check_size(name, value)
