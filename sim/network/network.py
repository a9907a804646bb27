"""Dimensions composed into nodes, directed links, and channels over them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sim.network.dimension import Dimension, DimensionKind
from sim.network.link import LinkInfo
from sim.units import FS_PER_S

__all__ = ["Channel", "LinkFault", "Network"]

Indices = NDArray[np.int64]
_NONE = -1
MOST_HOPS = 1 << 28
"""Of all routes of a network together; eight bytes each."""


@dataclass(frozen=True, kw_only=True)
class LinkFault:
    """What is wrong with the directed link from ``source`` to ``target``, on one lane or on all.

    ``bandwidth_factor`` 0 means that the link is down: routes go the other way round the ring, and
    elsewhere over the next lane. Where there is none, whoever asks for the route gets an error.
    """

    source: int
    target: int
    bandwidth_factor: float = 0.0
    lane: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.bandwidth_factor <= 1:
            raise ValueError(f"bandwidth_factor must be from 0 to 1, not {self.bandwidth_factor!r}")


@dataclass(frozen=True, kw_only=True)
class Channel:
    """Who each node sends to, and over which links.

    ``peer``: (nodes,), the receiver of each node's messages, -1 for none.
    ``links``: (hops, nodes), the directed links in order, -1 where a route is shorter.
    """

    peer: Indices
    links: Indices


class Network:
    """A product of dimensions. Dimension 0 varies fastest in the numbering of nodes.

    Vertices are the nodes, then the switches. Routes are dimension-ordered; in a ring they take
    the shorter way, forwards where both are equal.

    Parameters
    ----------
    dimensions : sequence of Dimension
        The physical network.
    logical_shape : sequence of int or None
        Sizes that the collectives see, None for those of the dimensions.
    placement : sequence of int or None
        Node on which each logical rank lies, None for rank = node.
    faults : sequence of LinkFault
    """

    def __init__(
        self,
        dimensions: Sequence[Dimension],
        *,
        logical_shape: Sequence[int] | None = None,
        placement: Sequence[int] | None = None,
        faults: Sequence[LinkFault] = (),
    ) -> None:
        if not dimensions:
            raise ValueError("dimensions must hold at least one dimension")
        self.dimensions = tuple(dimensions)
        self.physical_shape = tuple(d.size for d in self.dimensions)
        self.nodes = math.prod(self.physical_shape)
        self.shape = tuple(logical_shape) if logical_shape is not None else self.physical_shape
        if math.prod(self.shape) != self.nodes or any(k < 1 for k in self.shape):
            raise ValueError(
                f"logical_shape must multiply to the {self.nodes} nodes of the network, "
                f"not {self.shape!r}"
            )
        self.placement = None if placement is None else np.asarray(placement, np.int64)
        if self.placement is not None and not np.array_equal(
            np.sort(self.placement), np.arange(self.nodes)
        ):
            raise ValueError(f"placement must be a permutation of 0 to {self.nodes - 1}")
        self.mapped = self.shape != self.physical_shape or self.placement is not None
        self._channels: dict[tuple[object, ...], Channel] = {}
        self._hops = 0
        self._build_links()
        self.faults = tuple(faults)
        self._apply_faults()

    # ---- Coordinates.

    @cached_property
    def strides(self) -> tuple[int, ...]:
        """Of the physical dimensions."""
        return tuple(math.prod(self.physical_shape[:d]) for d in range(len(self.physical_shape)))

    def coordinate(self, node: Indices | int, dimension: int) -> Indices:
        """Physical coordinate of nodes."""
        return np.asarray(node) // self.strides[dimension] % self.physical_shape[dimension]

    def _logical(self, ranks: Indices) -> list[Indices]:
        coordinates = []
        for size in self.shape:
            ranks, coordinate = np.divmod(ranks, size)
            coordinates.append(coordinate)
        return coordinates

    @cached_property
    def _rank_of(self) -> Indices:
        ranks = np.arange(self.nodes)
        if self.placement is None:
            return ranks
        inverse = np.empty_like(ranks)
        inverse[self.placement] = ranks
        return inverse

    @cached_property
    def coordinates(self) -> list[Indices]:
        """Logical coordinates of all nodes."""
        return self._logical(self._rank_of)

    def members(self, coordinates: Sequence[Indices]) -> Indices:
        """Nodes at logical coordinates."""
        rank = np.zeros_like(coordinates[0])
        for size, coordinate in zip(self.shape[::-1], list(coordinates)[::-1]):
            rank = rank * size + coordinate
        return rank if self.placement is None else self.placement[rank]

    # ---- Links.

    def _build_links(self) -> None:
        nodes = np.arange(self.nodes)
        parts: list[tuple[Indices, Indices, int, Indices, float, float]] = []
        self._first_link: list[int] = []
        self._trunk_link: list[int] = []
        count, vertices = 0, self.nodes
        for index, dim in enumerate(self.dimensions):
            self._first_link.append(count)
            self._trunk_link.append(count)
            if dim.size == 1:
                continue
            rate = FS_PER_S / dim.payload_bytes_per_s
            latency = round((dim.latency_s + dim.router_latency_s) * FS_PER_S)
            if dim.kind is DimensionKind.RING:
                ways = 1 if dim.single_link else dim.directions
                ends = []
                for way in range(ways):
                    step = 1 - 2 * way
                    ends.append(self._moved(nodes, index, step))
                target = np.stack([np.stack(ends, 1)] * dim.lanes, 1)  # node, lane, way
                source = np.broadcast_to(nodes[:, None, None], target.shape)
                lane = np.broadcast_to(np.arange(dim.lanes)[None, :, None], target.shape)
            elif dim.kind is DimensionKind.FULLY_CONNECTED:
                ends = [self._moved(nodes, index, j) for j in range(1, dim.size)]
                target = np.stack([np.stack(ends, 1)] * dim.lanes, 2)  # node, distance, lane
                source = np.broadcast_to(nodes[:, None, None], target.shape)
                lane = np.broadcast_to(np.arange(dim.lanes)[None, None, :], target.shape)
            else:
                switch, switches = self._switches(index)
                up = vertices + switch  # node, lane
                source = np.stack([np.broadcast_to(nodes[:, None], up.shape), up], 2)
                target = source[:, :, ::-1]  # node, lane, up/down
                lane = np.broadcast_to(np.arange(dim.lanes)[None, :, None], target.shape)
                vertices += switches
            parts.append((source.ravel(), target.ravel(), index, lane.ravel(), rate, latency))
            count += target.size
            if dim.kind is DimensionKind.FAT_TREE:
                self._trunk_link[index] = count
                trunk = self._trunks(index, vertices)
                parts.append((*trunk, latency))
                count += len(trunk[0])
            if dim.kind is DimensionKind.FAT_TREE and dim.spine:
                vertices += self.nodes // dim.size * dim.lanes
        self.vertices = vertices
        self.link_source = np.concatenate([p[0] for p in parts] or [nodes[:0]])
        self.link_target = np.concatenate([p[1] for p in parts] or [nodes[:0]])
        sizes = [len(p[0]) for p in parts]
        self.link_dimension = np.repeat([p[2] for p in parts], sizes).astype(np.int32)
        self.link_lane = np.concatenate([p[3] for p in parts] or [nodes[:0]]).astype(np.int32)
        self.link_fs_per_byte = np.repeat([p[4] for p in parts], sizes).astype(np.float64)
        self.link_latency_fs = np.repeat([p[5] for p in parts], sizes).astype(np.int64)

    def _moved(self, nodes: Indices, dimension: int, step: int) -> Indices:
        stride, size = self.strides[dimension], self.physical_shape[dimension]
        here = nodes // stride % size
        return nodes + ((here + step) % size - here) * stride

    def _group(self, dimension: int) -> Indices:
        """A number for each node, equal for those that differ only in a dimension."""
        nodes = np.arange(self.nodes)
        stride, size = self.strides[dimension], self.physical_shape[dimension]
        return nodes // (stride * size) * stride + nodes % stride

    def _switches(self, dimension: int) -> tuple[Indices, int]:
        """For each node and lane the number of its switch, and how many there are."""
        dim = self.dimensions[dimension]
        unit = self._group(dimension)
        units = self.nodes // dim.size
        if dim.kind is DimensionKind.FAT_TREE:
            leaves = dim.size // dim.group
            unit = unit * leaves + self.coordinate(np.arange(self.nodes), dimension) // dim.group
            units *= leaves
        lanes = np.arange(dim.lanes)
        return unit[:, None] * dim.lanes + lanes[None, :], units * dim.lanes

    def _trunks(
        self, dimension: int, vertices: int
    ) -> tuple[Indices, Indices, int, Indices, float]:
        """Links among the switches of a fat tree, one set per lane: leaf up, leaf down."""
        dim = self.dimensions[dimension]
        leaves = dim.size // dim.group
        first = vertices - self.nodes // dim.size * leaves * dim.lanes
        source, target, lane = [], [], []
        for group in range(self.nodes // dim.size):
            for leaf in range(leaves):
                for way in range(dim.lanes):
                    here = first + (group * leaves + leaf) * dim.lanes + way
                    if dim.spine:
                        there = vertices + group * dim.lanes + way
                    else:
                        there = first + (group * leaves + 1 - leaf) * dim.lanes + way
                    source += [here, there]
                    target += [there, here]
                    lane += [way, way]
        ends = np.asarray(source), np.asarray(target)
        rate = FS_PER_S / dim.trunk_payload_bytes_per_s
        return ends[0], ends[1], dimension, np.asarray(lane), rate

    def _apply_faults(self) -> None:
        self._down = np.zeros(len(self.link_source), bool)
        for fault in self.faults:
            hit = (self.link_source == fault.source) & (self.link_target == fault.target)
            if fault.lane is not None:
                hit &= self.link_lane == fault.lane
            if not hit.any():
                raise ValueError(
                    f"there is no link from {fault.source} to {fault.target}"
                    + (f" on lane {fault.lane}" if fault.lane is not None else "")
                )
            if fault.bandwidth_factor == 0:
                self._down |= hit
            else:
                self.link_fs_per_byte[hit] /= fault.bandwidth_factor

    def link_classes(self) -> tuple[Indices, Indices]:
        """For each link the node that it belongs to, and a number that the links of all nodes that
        lie alike have in common; for switches the node is the one at the other end. Classes are
        0, 1, ... in the order of the first node's links. Fat trees have no such order.

        Raises
        ------
        ValueError
            If there is a fat tree.
        """
        owner = np.where(self.link_source < self.nodes, self.link_source, self.link_target)
        kind = np.empty(len(owner), np.int64)
        first = 0
        for index, dim in enumerate(self.dimensions):
            if dim.size == 1:
                continue
            if dim.kind is DimensionKind.FAT_TREE:
                raise ValueError("a fat tree has no classes of links")
            here = np.flatnonzero(self.link_dimension == index)
            per_node = len(here) // self.nodes
            kind[here] = first + (here - here[0]) % per_node
            first += per_node
        return owner, kind

    @property
    def uniform(self) -> bool:
        """Whether no link differs from the others of its dimension."""
        return not self.faults

    def link_infos(self) -> list[LinkInfo]:
        """All directed links, by number."""
        return [
            LinkInfo(
                source=int(self.link_source[i]),
                target=int(self.link_target[i]),
                dimension=int(self.link_dimension[i]),
                lane=int(self.link_lane[i]),
                bytes_per_s=FS_PER_S / float(self.link_fs_per_byte[i]),
                latency_fs=int(self.link_latency_fs[i]),
            )
            for i in range(len(self.link_source))
        ]

    # ---- Routes.

    def routes(
        self,
        source: Indices,
        target: Indices,
        *,
        lane: int = 0,
        direction: int = 0,
        tie: int = 1,
    ) -> Indices:
        """Links from each source to its target: (hops, nodes), -1 after the last one.

        ``lane`` is taken modulo the lanes of each dimension. ``direction`` 1 or -1 forces the way
        round the rings, 0 takes the shorter one, and ``tie`` the way where both are equally long.
        """
        hops: list[Indices] = []
        here = source.copy()
        for index, dim in enumerate(self.dimensions):
            if dim.size == 1:
                continue
            a, b = self.coordinate(here, index), self.coordinate(target, index)
            goal = here + (b - a) * self.strides[index]
            if dim.kind is DimensionKind.RING and not dim.single_link:
                hops += self._ring_hops(here, (b - a) % dim.size, index, lane, direction, tie)
            else:
                hops += self._lane_hops(here, goal, index, lane)
            here = goal
        return _packed(hops, len(source))

    def _ring_hops(
        self, here: Indices, ahead: Indices, index: int, lane: int, direction: int, tie: int
    ) -> list[Indices]:
        dim = self.dimensions[index]
        size, lane = dim.size, lane % dim.lanes
        backward = np.full(len(ahead), direction < 0)
        if direction == 0:
            further = 2 * ahead - size
            backward = (further > 0) | ((further == 0) & (tie < 0))
        if dim.directions == 1:
            backward = np.zeros(len(ahead), bool)
        if self._down.any() and dim.directions == 2:
            chosen = self._walk(here, ahead, backward, index, lane)
            blocked = self._any_down(chosen, len(here))
            turned = self._walk(here, ahead, backward ^ blocked, index, lane)
            stuck = self._any_down(turned, len(here))
            if stuck.any():
                raise ValueError(
                    f"no route from node {int(here[stuck][0])} along dimension {index}: links are "
                    "down in both directions"
                )
            return turned
        hops = self._walk(here, ahead, backward, index, lane)
        if self._any_down(hops, len(here)).any():
            raise ValueError(f"no route along dimension {index}: a link of a one-way ring is down")
        return hops

    def _any_down(self, hops: list[Indices], nodes: int) -> NDArray[np.bool_]:
        """Of each of *nodes* routes, whether a link is down."""
        down = np.zeros(nodes, bool)
        for links in hops:
            down |= self._down[links] & (links >= 0)
        return down

    def _walk(
        self, here: Indices, ahead: Indices, backward: NDArray[np.bool_], index: int, lane: int
    ) -> list[Indices]:
        dim = self.dimensions[index]
        count = np.where(ahead == 0, 0, np.where(backward, dim.size - ahead, ahead))
        step = np.where(backward, -1, 1)
        stride = self.strides[index]
        hops = []
        for hop in range(int(count.max(initial=0))):
            position = here // stride % dim.size
            link = (here * dim.lanes + lane) * dim.directions + backward
            hops.append(np.where(hop < count, self._first_link[index] + link, _NONE))
            here = here + ((position + step) % dim.size - position) * stride
        return hops

    def _lane_hops(self, here: Indices, goal: Indices, index: int, lane: int) -> list[Indices]:
        """On the lane that was asked for; where a link of it is down, on the next one."""
        dim = self.dimensions[index]
        direct = dim.kind in (DimensionKind.RING, DimensionKind.FULLY_CONNECTED)
        made = self._direct_hops if direct else self._switch_hops
        hops = made(here, goal, index, lane)
        if not self._down.any():
            return hops
        for other in range(lane + 1, lane + dim.lanes):
            blocked = self._any_down(hops, len(here))
            hops = [np.where(blocked, *ways) for ways in zip(made(here, goal, index, other), hops)]
        blocked = self._any_down(hops, len(here))
        if blocked.any():
            raise ValueError(
                f"no route from node {int(here[blocked][0])} to node {int(goal[blocked][0])} along "
                f"dimension {index}: a link is down on every lane, and only rings have another way"
            )
        return hops

    def _direct_hops(self, here: Indices, goal: Indices, index: int, lane: int) -> list[Indices]:
        """Over the only link of a lane: fully connected, or a ring of two with a single link."""
        dim = self.dimensions[index]
        a, b = self.coordinate(here, index), self.coordinate(goal, index)
        distance = (b - a) % dim.size
        link = (here * (dim.size - 1) + distance - 1) * dim.lanes + lane % dim.lanes
        return [np.where(distance == 0, _NONE, self._first_link[index] + link)]

    def _switch_hops(self, here: Indices, goal: Indices, index: int, lane: int) -> list[Indices]:
        dim = self.dimensions[index]
        first = self._first_link[index]
        way = np.full(len(here), lane % dim.lanes)
        same = here == goal
        up = np.where(same, _NONE, first + (here * dim.lanes + way) * 2)
        down = np.where(same, _NONE, first + (goal * dim.lanes + way) * 2 + 1)
        if dim.kind is DimensionKind.SWITCH:
            return [up, down]
        a = self.coordinate(here, index) // dim.group
        b = self.coordinate(goal, index) // dim.group
        leaves = dim.size // dim.group
        trunk = self._trunk_link[index]
        unit = self._group(index)[here] * leaves
        climb = trunk + ((unit + a) * dim.lanes + way) * 2
        drop = trunk + ((unit + b) * dim.lanes + way) * 2 + 1
        near = a == b
        hops = [up, np.where(near, _NONE, climb)]
        if dim.spine:
            hops.append(np.where(near, _NONE, drop))
        return [*hops, down]

    # ---- Channels.

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
        key = ("shift", dimension, distance, lane, direction, tie)
        return self._channel(key, self.members(coordinates), lane, direction, tie)

    def exchange(self, dimension: int, mask: int, *, lane: int = 0) -> Channel:
        """Each node swaps with the one whose logical coordinate differs in the bits of *mask*."""
        coordinates = list(self.coordinates)
        coordinates[dimension] = coordinates[dimension] ^ mask
        if (coordinates[dimension] >= self.shape[dimension]).any():
            raise ValueError(
                f"size of dimension {dimension} must be a power of two for an exchange, not "
                f"{self.shape[dimension]}"
            )
        key = ("exchange", dimension, mask, lane)
        return self._channel(key, self.members(coordinates), lane, 0)

    def table(self, name: object, peer: Indices, *, lane: int = 0, tie: int = 1) -> Channel:
        """Any pattern; -1 for nodes that send nothing. *name* identifies the pattern."""
        return self._channel(("table", name, lane, tie), peer, lane, 0, tie)

    def _channel(
        self, key: tuple[object, ...], peer: Indices, lane: int, direction: int, tie: int = 1
    ) -> Channel:
        found = self._channels.get(key)
        if found is None:
            nodes = np.arange(self.nodes)
            goal = np.where(peer < 0, nodes, peer)
            # On a network that is not the logical one the forced way has no meaning.
            way = 0 if self.mapped else direction
            links = self.routes(nodes, goal, lane=lane, direction=way, tie=tie)
            self._hops += links.size
            if self._hops > MOST_HOPS:
                raise ValueError(
                    f"routes over {self.describe()} need more than {MOST_HOPS} hops: too many "
                    "nodes send to each other directly; allowed are fewer nodes, more dimensions, "
                    "or algorithms whose nodes send to their neighbours (ring)"
                )
            found = Channel(peer=peer, links=links)
            self._channels[key] = found
        return found

    def describe(self) -> str:
        """For titles and messages: ``4x4x4 ring.ring.ring``."""
        sizes = "x".join(str(size) for size in self.physical_shape)
        kinds = ".".join(DimensionKind(d.kind).value for d in self.dimensions)
        return f"{sizes} {kinds}"


def _packed(hops: list[Indices], nodes: int) -> Indices:
    """Moves the gaps of routes to their ends and drops rows that are empty for all."""
    if not hops:
        return np.full((0, nodes), _NONE)
    links = np.stack(hops)
    gaps = links < 0
    if gaps.any():
        order = np.argsort(gaps, axis=0, kind="stable")
        links = np.take_along_axis(links, order, axis=0)
        links = links[~(links < 0).all(axis=1)]
    return links
