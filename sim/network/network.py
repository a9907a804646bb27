# SPDX-License-Identifier: Apache-2.0
"""Dimensions composed into nodes, directed links, and channels over them."""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Self, cast, overload

import numpy as np

from sim.fields import FieldError, check, check_type
from sim.memory import available_bytes
from sim.network.dimension import Dimension, DimensionKind
from sim.network.graph import Graph
from sim.network.grid import Grid, Indices
from sim.network.link import Link, LinkFault
from sim.network.routes import Router
from sim.network.shapes import ShapePart, coarsest, parts_within, split_into
from sim.network.wiring import wire, with_faults
from sim.units import fs_per_byte

__all__ = ["Channel", "Network", "Ways"]

MOST_NODES = 1 << 26
LEAST_HOPS, MOST_HOPS = 1 << 24, 1 << 31
"""Range of the limit for the hops of all routes of a network together (8 bytes each)."""
HOP_SHARE, HOP_BYTES = 0.5, 24
"""Share of the spare memory for the routes of all channels, and bytes that a hop needs there."""


class Channel(NamedTuple):
    """The peer that each node sends to, and the links to it.

    ``peer``: (nodes,), the receiver of each node's messages, -1 for none.
    ``links``: (hops, nodes), the directed links in order, -1 where a route is shorter.
    """

    peer: Indices
    links: Indices


@dataclass
class _Channels:
    """Channels made so far for a network and all its views, the hops of their routes, and of a
    graph the ways between members of logical dimensions."""

    made: dict[tuple[object, ...], Channel] = field(default_factory=dict)
    hops: int = 0
    begun: dict[tuple[object, ...], tuple["Ways", float]] = field(default_factory=dict)


class Links(Sequence[Link]):
    """Links of a network, created when the first of them is accessed."""

    def __init__(self, network: "Network", numbers: Sequence[int]) -> None:
        self._network, self._numbers = network, numbers

    @cached_property
    def _made(self) -> list[Link]:
        return [self._network.link(number) for number in self._numbers]

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, place: int) -> Link: ...
    @overload
    def __getitem__(self, place: slice) -> list[Link]: ...
    def __getitem__(self, place: int | slice) -> Link | list[Link]:
        return self._made[place]


class Ways(NamedTuple):
    """The links that a logical dimension offers: ``kind`` of a dimension that has the like, and so
    many parallel ``lanes`` in so many ``directions``."""

    kind: DimensionKind
    lanes: int
    directions: int

    @property
    def rings(self) -> int:
        return self.lanes * self.directions


class Network:
    """A product of dimensions. Dimension 0 varies fastest in the numbering of nodes.

    Vertices are the nodes, then the switches. Routes are dimension-ordered; in a ring they take
    the shorter way, forwards where both are equal, in a graph the ways of `sim.network.paths`. The
    arrays ``link_*`` are those of ``wiring``.

    Parameters
    ----------
    dimensions : Dimension or sequence of Dimension
        The physical network.
    logical_shape : sequence of int or None
        Sizes that the collectives see, None for those of the dimensions.
    placement : sequence of int or None
        Node on which each logical rank lies, None for rank = node.
    faults : sequence of LinkFault

    A job whose groups cover parts of a dimension splits the logical shape further (:meth:`split`);
    each of its collectives has a :meth:`view` in which only its own groups split dimensions.
    """

    def __init__(
        self,
        dimensions: Dimension | Sequence[Dimension],
        *,
        logical_shape: Sequence[int] | None = None,
        placement: Sequence[int] | None = None,
        faults: Sequence[LinkFault] = (),
    ) -> None:
        self.dimensions = _dimensions(dimensions)
        _check_integers("logical_shape", logical_shape)
        _check_integers("placement", placement)
        listed = isinstance(faults, Sequence) and all(isinstance(x, LinkFault) for x in faults)
        listed = listed and not isinstance(faults, str)
        check_type("faults", faults, "a sequence of LinkFault", listed)
        self.grid = Grid([d.size for d in self.dimensions])
        self.physical_shape, self.nodes = self.grid.sizes, self.grid.points
        check("dimensions", self.nodes, f"of at most {MOST_NODES} nodes", self.nodes <= MOST_NODES)
        self.shape = tuple(logical_shape) if logical_shape is not None else self.physical_shape
        self._ranks = Grid(self.shape)
        if self._ranks.points != self.nodes or any(k < 1 for k in self.shape):
            raise FieldError(
                "logical_shape", f"must multiply to the {self.nodes} nodes of the network, "
                f"not {self.shape!r}"
            )
        self.placement = None if placement is None else np.asarray(placement, np.int64)
        if self.placement is not None and not np.array_equal(
            np.sort(self.placement), np.arange(self.nodes)
        ):
            raise FieldError("placement", f"must be a permutation of 0 to {self.nodes - 1}")
        self.whole_shape = self.shape
        self.origins = tuple(range(len(self.shape)))
        self.faults = tuple(faults)
        wiring = self.wiring = with_faults(wire(self.dimensions, self.grid), self.faults)
        self.vertices = wiring.vertices
        self.link_source = wiring.source
        self.link_target = wiring.target
        self.link_dimension = wiring.dimension
        self.link_lane = wiring.lane
        self.link_fs_per_byte = wiring.fs_per_byte
        self.link_latency_fs = wiring.latency_fs
        self._router = Router(self.dimensions, self.grid, wiring)
        self._channels = _Channels()
        self._views: dict[tuple[int, ...] | None, tuple[Network, tuple[int, ...] | None]] = {}

    def __repr__(self) -> str:
        return f"<Network {self.describe()}: {self.nodes} nodes, {len(self.link_source)} links>"

    @classmethod
    def ring(
        cls, size: int, bandwidth_bytes_per_s: float, latency_s: float = 0.0, **options: Any
    ) -> Self:
        """A ring; *options* as of :meth:`torus`."""
        return cls.torus(
            [size], bandwidth_bytes_per_s=bandwidth_bytes_per_s, latency_s=latency_s, **options
        )

    @classmethod
    def torus(
        cls,
        sizes: Sequence[int],
        *,
        bandwidth_bytes_per_s: float | Sequence[float],
        latency_s: float | Sequence[float] = 0.0,
        logical_shape: Sequence[int] | None = None,
        placement: Sequence[int] | None = None,
        faults: Sequence[LinkFault] = (),
        **options: Any,
    ) -> Self:
        """A ring in every dimension.

        Bandwidth and latency are those of all dimensions, or one for each; *options* are other
        fields of :class:`~sim.network.dimension.Dimension`, for all.
        """
        listed = isinstance(sizes, Sequence) and not isinstance(sizes, str | bytes) and sizes
        if not listed or not all(isinstance(each, int) for each in sizes):
            raise TypeError(f"sizes must be a sequence of integers, not {sizes!r}")
        rates = _for_each("bandwidth_bytes_per_s", bandwidth_bytes_per_s, len(sizes))
        latencies = _for_each("latency_s", latency_s, len(sizes))
        rings = [Dimension.ring(*fields, **options) for fields in zip(sizes, rates, latencies)]
        return cls(rings, logical_shape=logical_shape, placement=placement, faults=faults)

    # ---- Groups of a job.

    def split(self, shape: Sequence[int]) -> "Network":
        """The same network for a job whose dimensions are those of *shape*, parts of these: its
        groups cover parts of a dimension. ``whole_shape`` keeps the dimensions, ``origins`` has
        the one that each of *shape* is a part of.

        Raises
        ------
        ValueError
            If *shape* does not split the dimensions.
        """
        _check_integers("shape", shape)
        check_type("shape", shape, "a sequence of integers, one at least", bool(len(shape or ())))
        sizes = tuple(shape)
        if sizes == self.shape:
            return self
        parts = split_into(self.whole_shape, sizes)
        origins = tuple(origin for origin, of in enumerate(parts) for _ in of)
        return self._seen_as(sizes, origins)

    def view(
        self, dimensions: Sequence[int] | None
    ) -> tuple["Network", tuple[int, ...] | None]:
        """The network as a collective over *dimensions* (None for all) sees it, and its dimensions
        there: one that it covers as a whole, or leaves out, is not split even if others do."""
        _check_integers("dimensions", dimensions)
        key = None if dimensions is None else tuple(dimensions)
        if self.shape == self.whole_shape:
            return self, key
        if key not in self._views:
            chosen = range(len(self.shape)) if key is None else key
            for each in chosen:
                if not 0 <= each < len(self.shape):
                    raise FieldError(
                        "dimension", f"must be from 0 to {len(self.shape) - 1}, not {each!r}"
                    )
            parts = split_into(self.whole_shape, self.shape)
            shape, origins, inside = coarsest(self.shape, parts, chosen)
            view = self._seen_as(shape, origins)
            self._views[key] = view, None if key is None else inside
        return self._views[key]

    def _seen_as(self, shape: tuple[int, ...], origins: tuple[int, ...]) -> "Network":
        """A copy with another shape, over the same links and with the same channels."""
        seen = copy.copy(self)
        for name in ("coordinates", "_parts"):
            seen.__dict__.pop(name, None)
        seen.shape, seen.origins = shape, origins
        seen._ranks, seen._views = Grid(shape), {}
        return seen

    # ---- Logical dimensions and the physical ones.

    @property
    def mapped(self) -> bool:
        """True if logical dimensions are not the physical ones."""
        return self.shape != self.physical_shape or self.placement is not None

    @cached_property
    def _parts(self) -> tuple[ShapePart | None, ...]:
        if self._graph is not None:  # of which all that collectives see is a part
            return tuple(
                ShapePart(within=0, whole=size == self.nodes and self.placement is None)
                for size in self.shape
            )
        if self.placement is not None:
            return (None,) * len(self.shape)
        return parts_within(self.shape, self.physical_shape)

    def is_physical(self, dimension: int) -> bool:
        """True if a logical dimension is a physical one."""
        part = self._parts[dimension]
        return part is not None and part.whole

    def physical(self, dimension: int) -> Dimension | None:
        """The physical dimension that a logical one is, or is a part of; None for none."""
        part = self._parts[dimension]
        return None if part is None else self.dimensions[part.within]

    @property
    def _graph(self) -> Graph | None:
        """The graph of a network that is nothing else."""
        return self.dimensions[0].graph if len(self.dimensions) == 1 else None

    @property
    def switch_names(self) -> tuple[str, ...]:
        """Names of the switches, in order; empty where they have none."""
        return () if self._graph is None else self._graph.names

    def ways(self, dimension: int) -> Ways:
        """The links that a logical dimension offers. Those of a graph that routes between its
        members take are like those of a ring where each member has a link to the next one and to
        the one before it, all connected where each of more than three has one to every other, else
        like those of a switch; with as many lanes as links begin shortest ways between any two."""
        dim = self.physical(dimension)
        if dim is None:
            return Ways(kind=DimensionKind.RING, lanes=1, directions=2)
        if dim.graph is None:
            kind = DimensionKind(dim.kind)
            return Ways(kind=kind, lanes=dim.lanes, directions=dim.directions)
        return self._begun(dimension)[0]

    def _begun(self, dimension: int) -> tuple[Ways, float]:
        """The ways between members of a graph, and the rate at which all send to all others over
        the links that begin them, the mean over members."""
        key = self.shape, dimension
        if key not in self._channels.begun:
            self._channels.begun[key] = self._begin(dimension)
        return self._channels.begun[key]

    def _begin(self, dimension: int) -> tuple[Ways, float]:
        dim, size = self.dimensions[0], self.shape[dimension]
        assert dim.graph is not None
        paths, nodes = dim.graph.paths, np.arange(self.nodes)
        leaving = paths.leaving[0][: self.nodes]
        leaving = leaving[:, (leaving >= 0).any(axis=0)]
        used = np.zeros(leaving.shape, bool)
        lanes, direct = MOST_HOPS, []
        for distance in range(1, size):
            coordinates = list(self.coordinates)
            coordinates[dimension] = (coordinates[dimension] + distance) % size
            goal = np.empty(self.nodes, np.int64)
            goal[nodes] = self.members(coordinates)
            begins = paths.begins(leaving, nodes, goal)
            used |= begins
            lanes = min(lanes, int(begins.sum(axis=1).min()))
            ends = begins & (self.link_target[leaving] == goal[:, None])
            direct.append(bool(ends.any(axis=1).all()))
        rates = dim.graph.rates(dim.bandwidth_bytes_per_s) * dim.efficiency
        # Each rate times a number, as of equal links: a sum of as many differs in its last digit.
        values, counts = np.unique(rates[leaving[used]], return_counts=True)
        rate = float(counts / self.nodes @ values)
        kind, directions = DimensionKind.SWITCH, 1
        if size > 3 and all(direct):
            kind = DimensionKind.FULLY_CONNECTED
        elif direct and direct[0] and direct[-1]:
            # Two members have a ring for each of their links.
            kind, directions = DimensionKind.RING, min(2, len(direct))
        return Ways(kind=kind, lanes=max(1, min(lanes, MOST_HOPS)), directions=directions), rate

    def label(self, dimension: int) -> str:
        """``dim 1``; for a part, ``dim 1 (4 of 8)``, or ``dim 1 (2 of 8, 4 apart)``."""
        origin = self.origins[dimension]
        stride, size = self.place(dimension)
        whole = self.whole_shape[origin]
        if size == whole:
            return f"dim {origin}"
        apart = stride // math.prod(self.whole_shape[:origin])
        return f"dim {origin} ({size} of {whole}{f', {apart} apart' if apart > 1 else ''})"

    def place(self, dimension: int) -> tuple[int, int]:
        """Stride and size of a logical dimension in the numbering of ranks, which identify it
        however the others are split."""
        return self._ranks.strides[dimension], self.shape[dimension]

    def injection_bytes_per_s(self, dimension: int) -> float:
        """Payload that one member can send into a logical dimension while all others do so too.

        Rings of parts of a dimension share its links: those that meet on a link divide its rate.
        """
        if self.shape[dimension] == 1:
            return 0.0
        if self._graph is not None and self.ways(dimension).kind is not DimensionKind.RING:
            return self._begun(dimension)[1]
        whole = self.physical(dimension)
        if whole is not None and self.is_physical(dimension) and whole.graph is None:
            return whole.injection_bytes_per_s
        ways = self.ways(dimension)
        if whole is not None and ways.kind is not DimensionKind.RING:
            if whole.kind is not DimensionKind.FULLY_CONNECTED:
                return whole.injection_bytes_per_s
            return (self.shape[dimension] - 1) * whole.lanes * whole.payload_bytes_per_s
        turns = (1, -1) if ways.directions == 2 else (1,)
        needed_s = np.zeros(len(self.link_source))
        payload = np.array([each.payload_bytes_per_s for each in self.dimensions])
        for way in turns:
            links = self.shift(dimension, way, direction=way, tie=way).links
            np.add.at(needed_s, links[links >= 0], 1.0)
        rates = payload[self.link_dimension]
        if whole is not None and whole.graph is not None:
            rates = whole.graph.rates(whole.bandwidth_bytes_per_s) * whole.efficiency
        needed_s /= rates
        return ways.rings / float(needed_s.max())

    # ---- Logical coordinates.

    @cached_property
    def coordinates(self) -> list[Indices]:
        """Logical coordinates of all nodes."""
        ranks = np.arange(self.nodes)
        return self._ranks.coordinates(
            ranks if self.placement is None else np.argsort(self.placement)
        )

    def members(self, coordinates: Sequence[Indices]) -> Indices:
        """Nodes at logical coordinates."""
        ranks = self._ranks.at(coordinates)
        return ranks if self.placement is None else self.placement[ranks]

    # ---- Links.

    def link(self, number: int) -> Link:
        """A directed link."""
        return Link(
            source=int(self.link_source[number]),
            target=int(self.link_target[number]),
            dimension=int(self.link_dimension[number]),
            lane=int(self.link_lane[number]),
            bytes_per_s=fs_per_byte(float(self.link_fs_per_byte[number])),
            latency_fs=int(self.link_latency_fs[number]),
        )

    def links(self, numbers: Sequence[int] | None = None) -> Sequence[Link]:
        """All directed links, by number, or those of *numbers*."""
        return Links(self, range(len(self.link_source)) if numbers is None else numbers)

    def link_classes(self) -> tuple[Indices, Indices]:
        """For each link the node that it belongs to, and its class, which is common to the links in
        the same position at all nodes; for a switch the node is the one at the other end. Classes
        are 0, 1, ... in the order of the first node's links. Fat trees and graphs have no such
        order.

        Raises
        ------
        ValueError
            If there is one of them.
        """
        owner = np.where(self.link_source < self.nodes, self.link_source, self.link_target)
        kind = np.empty(len(owner), np.int64)
        first = 0
        for index, dim in enumerate(self.dimensions):
            if dim.size == 1:
                continue
            if dim.kind in (DimensionKind.FAT_TREE, DimensionKind.LINKS):
                raise ValueError("a fat tree or graph has no classes of links")
            here = np.flatnonzero(self.link_dimension == index)
            per_node = len(here) // self.nodes
            kind[here] = first + (here - here[0]) % per_node
            first += per_node
        return owner, kind

    # ---- Routes and channels.

    def routes(
        self, source: Indices, target: Indices, *,
        lane: int = 0, direction: int = 0, tie: int = 1, lanes: int = 1,
    ) -> Indices:
        """Links from each source to its target: (hops, nodes), -1 after the last one.

        ``lane`` is taken modulo the lanes of each dimension. ``direction`` 1 or -1 forces the way
        round the rings, 0 takes the shorter one, and ``tie`` the way where both are equally long.
        ``lanes``: number of those among which traffic over the links of a graph is cut.
        """
        return self._router.routes(
            source, target, lane=lane, direction=direction, tie=tie, lanes=lanes
        )

    def shift(
        self,
        dimension: int,
        distance: int,
        *,
        lane: int = 0,
        direction: int = 0,
        tie: int = 1,
    ) -> Channel:
        """Each node sends to the one ``distance`` further in a logical dimension (wrapping)."""
        size = self.shape[dimension]
        coordinates = list(self.coordinates)
        coordinates[dimension] = (coordinates[dimension] + distance) % size
        # A forced direction has a meaning only on a physical ring.
        way = direction if self.is_physical(dimension) else 0
        key = ("shift", dimension, distance, lane, way, tie)
        lanes = self.ways(dimension).lanes
        return self._channel(key, self.members(coordinates), lane, way, tie, lanes)

    def exchange(self, dimension: int, mask: int, *, lane: int = 0) -> Channel:
        """Each node swaps with the one whose logical coordinate differs in the bits of *mask*."""
        coordinates = list(self.coordinates)
        coordinates[dimension] = coordinates[dimension] ^ mask
        if (coordinates[dimension] >= self.shape[dimension]).any():
            raise FieldError(
                "size", f"of dimension {dimension} must be a power of two for an exchange, not "
                f"{self.shape[dimension]}"
            )
        key = ("exchange", dimension, mask, lane)
        lanes = self.ways(dimension).lanes
        return self._channel(key, self.members(coordinates), lane, 0, lanes=lanes)

    def table(
        self, name: object, peer: Indices, *, lane: int = 0, tie: int = 1, dimension: int = 0
    ) -> Channel:
        """Any pattern; -1 for nodes that send nothing. *name* identifies the pattern, *dimension*
        is the one of which *lane* is a lane."""
        lanes = self.ways(dimension).lanes
        return self._channel(("table", name, lane, tie, lanes), peer, lane, 0, tie, lanes)

    def _channel(
        self,
        key: tuple[object, ...],
        peer: Indices,
        lane: int,
        direction: int,
        tie: int = 1,
        lanes: int = 1,
    ) -> Channel:
        key = (self.shape, *key)
        channel = self._channels.made.get(key)
        if channel is None:
            nodes = np.arange(self.nodes)
            goal = np.where(peer < 0, nodes, peer)
            links = self.routes(
                nodes, goal, lane=lane, direction=direction, tie=tie, lanes=lanes
            )
            self._channels.hops += links.size
            hops = self._channels.hops
            if hops > LEAST_HOPS and hops > (most := _most_hops()):
                raise ValueError(
                    f"routes over {self.describe()} need more than the {most} hops for which this "
                    "machine has memory: too many nodes send to each other directly; allowed are "
                    "fewer nodes, more dimensions, one phase per dimension "
                    "(algorithm.all_to_all_span), or algorithms whose nodes send to their "
                    "neighbours (ring)"
                )
            channel = Channel(peer=peer, links=links)
            self._channels.made[key] = channel
        return channel

    def describe(self) -> str:
        """For titles and messages: ``4x4x4 ring.ring.ring``."""
        sizes = "x".join(str(size) for size in self.physical_shape)
        kinds = ".".join(DimensionKind(d.kind).value for d in self.dimensions)
        return f"{sizes} {kinds}"


def _dimensions(given: Dimension | Sequence[Dimension]) -> tuple[Dimension, ...]:
    if isinstance(given, Dimension):
        return (given,)
    if not isinstance(given, Sequence) or not all(isinstance(each, Dimension) for each in given):
        raise TypeError(f"dimensions must be one Dimension or a sequence of them, not {given!r}")
    if not given:
        raise FieldError("dimensions", "must hold at least one dimension")
    return tuple(given)


def _check_integers(name: str, given: object) -> None:
    ok = isinstance(given, Sequence | np.ndarray) and not isinstance(given, str | bytes)
    ok = ok and all(isinstance(each, int | np.integer) for each in cast(Sequence[object], given))
    check_type(name, given, "a sequence of integers or None", given is None or ok)


def _for_each(name: str, given: float | Sequence[float], dimensions: int) -> Sequence[float]:
    """One value for each dimension."""
    if not isinstance(given, Sequence) or isinstance(given, str | bytes):
        return [cast(float, given)] * dimensions
    if len(given) != dimensions:
        raise FieldError(
            name, f"must be one value or one for each of {dimensions} dimensions, "
            f"not {len(given)}"
        )
    return given


def _most_hops() -> int:
    return max(LEAST_HOPS, min(MOST_HOPS, int(HOP_SHARE * available_bytes() / HOP_BYTES)))
