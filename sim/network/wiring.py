# SPDX-License-Identifier: Apache-2.0
"""The directed links of dimensions, and their faults."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sim.fields import FieldError
from sim.network.dimension import Dimension, DimensionKind
from sim.network.graph import Graph
from sim.network.grid import Grid, Indices
from sim.network.link import LinkFault
from sim.units import FS_PER_S, seconds_to_fs

__all__ = ["Wiring", "links_of", "members_by_group", "wire", "with_faults"]


@dataclass(frozen=True, kw_only=True)
class Wiring:
    """Arrays over directed links, those of dimension 0 first, within a dimension by node.

    A node's links of a dimension are in the order lane, direction (+ before -) in rings; lane, up
    and down at switches; distance, lane where all are connected. Those between the leaves and
    spines of a fat tree come last. ``first`` and ``trunk``: the first link of each dimension, and
    the first of these. ``down``: links that carry nothing.
    """

    vertices: int
    source: Indices
    target: Indices
    dimension: NDArray[np.int32]
    lane: NDArray[np.int32]
    fs_per_byte: NDArray[np.float64]
    latency_fs: Indices
    down: NDArray[np.bool_]
    first: tuple[int, ...]
    trunk: tuple[int, ...]


class _Part(NamedTuple):
    """Links of a dimension, all of one rate or each of its own; ``latency_s``, of link and router,
    where the dimension does not say it."""

    source: Indices
    target: Indices
    lane: Indices
    dimension: int
    bytes_per_s: float | NDArray[np.float64]
    latency_s: NDArray[np.float64] | None = None


def wire(dimensions: Sequence[Dimension], grid: Grid) -> Wiring:
    """Vertices are the nodes, then the switches of each dimension."""
    parts: list[_Part] = []
    first, trunk = [], []
    count, vertices = 0, grid.points
    for index, dim in enumerate(dimensions):
        first.append(count)
        trunk.append(count)
        if dim.size == 1:
            continue
        if dim.graph is not None:
            part = _joined(dim, dim.graph, grid, index, vertices)
            parts.append(part)
            count += part.source.size
            vertices += grid.points // dim.size * dim.graph.switches
            continue
        switch, switches = _switches(dim, grid, index)
        source, target, lane = _member_links(dim, grid, index, vertices + switch)
        parts.append(_Part(source, target, lane, index, dim.payload_bytes_per_s))
        count += source.size
        vertices += switches
        if dim.kind is DimensionKind.FAT_TREE:
            trunk[index] = count
            source, target, lane = _trunks(dim, grid.points // dim.size, vertices)
            parts.append(_Part(source, target, lane, index, dim.trunk_payload_bytes_per_s))
            count += source.size
            vertices += grid.points // dim.size * dim.lanes * dim.spine
    none = np.zeros(0, np.int64)
    sizes = [part.source.size for part in parts]
    rates = [
        np.broadcast_to(FS_PER_S / np.asarray(part.bytes_per_s), part.source.size)
        for part in parts
    ]
    link_fs = np.array([seconds_to_fs(dim.latency_s) for dim in dimensions], np.int64)
    router_fs = np.array([seconds_to_fs(dim.router_latency_s) for dim in dimensions], np.int64)
    dimension = np.repeat([part.dimension for part in parts], sizes).astype(np.int32)
    source = np.concatenate([none, *(part.source for part in parts)])
    target = np.concatenate([none, *(part.target for part in parts)])
    leaves_switch = (source >= grid.points) & (target < grid.points)
    return Wiring(
        vertices=vertices,
        source=source,
        target=target,
        dimension=dimension,
        lane=np.concatenate([none, *(part.lane for part in parts)]).astype(np.int32),
        fs_per_byte=np.concatenate([none.astype(np.float64), *rates]),
        latency_fs=_own_latencies(
            link_fs[dimension] + np.where(leaves_switch, 0, router_fs[dimension]), parts
        ),
        down=np.zeros(len(dimension), bool),
        first=tuple(first),
        trunk=tuple(trunk),
    )


def _own_latencies(latency_fs: Indices, parts: Sequence[_Part]) -> Indices:
    """*latency_fs* of all links, with those of the parts that state their own."""
    first = 0
    for part in parts:
        if part.latency_s is not None:
            own = [seconds_to_fs(each) for each in part.latency_s.tolist()]
            latency_fs[first : first + len(own)] = own
        first += part.source.size
    return latency_fs


def _joined(dim: Dimension, graph: Graph, grid: Grid, index: int, vertices: int) -> _Part:
    """The links of a graph in every group of a dimension; ``vertices``: number of those before its
    switches, which follow group by group."""
    of, joints = members_by_group(grid, index), graph.joints
    groups = np.arange(len(of))[:, None]
    source, target = (
        np.where(
            end < dim.size,
            of[groups, np.minimum(end, dim.size - 1)],
            vertices + groups * graph.switches + end - dim.size,
        ).ravel()
        for end in (joints.source, joints.target)
    )
    lane = np.tile(joints.lane, len(of))
    rates = np.tile(graph.rates(dim.bandwidth_bytes_per_s) * dim.efficiency, len(of))
    latencies = np.tile(graph.latencies(dim.latency_s, dim.router_latency_s), len(of))
    return _Part(source, target, lane, index, rates, latencies)


def members_by_group(grid: Grid, index: int) -> Indices:
    """The points of every group of a dimension, in the order of their coordinates."""
    order = np.lexsort((grid.coordinate(np.arange(grid.points), index), grid.group(index)))
    return order.reshape(-1, grid.sizes[index])


def _member_links(
    dim: Dimension, grid: Grid, index: int, switch: Indices
) -> tuple[Indices, Indices, Indices]:
    """Source, target and lane of the links of nodes; ``switch`` of each node and lane."""
    nodes = np.arange(grid.points)
    lanes = np.arange(dim.lanes)
    if dim.kind is DimensionKind.RING:
        steps = (1, -1)[: 1 if dim.single_link else dim.directions]
        ends = [grid.moved(nodes, index, step) for step in steps]
        target = np.stack([np.stack(ends, 1)] * dim.lanes, 1)  # node, lane, direction
        lane = lanes[None, :, None]
    elif dim.kind is DimensionKind.FULLY_CONNECTED:
        ends = [grid.moved(nodes, index, distance) for distance in range(1, dim.size)]
        target = np.stack([np.stack(ends, 1)] * dim.lanes, 2)  # node, distance, lane
        lane = lanes[None, None, :]
    else:
        here = np.broadcast_to(nodes[:, None], switch.shape)
        target = np.stack([switch, here], 2)  # node, lane, up/down
        lane = lanes[None, :, None]
        return np.stack([here, switch], 2).ravel(), target.ravel(), _like(lane, target)
    return _like(nodes[:, None, None], target), target.ravel(), _like(lane, target)


def _like(values: Indices, shape: Indices) -> Indices:
    return np.broadcast_to(values, shape.shape).ravel()


def _switches(dim: Dimension, grid: Grid, index: int) -> tuple[Indices, int]:
    """For each node and lane the number of its switch, and the number of switches."""
    if dim.kind not in (DimensionKind.SWITCH, DimensionKind.FAT_TREE):
        return np.zeros((grid.points, dim.lanes), np.int64), 0
    unit, units = grid.group(index), grid.points // dim.size
    if dim.kind is DimensionKind.FAT_TREE:
        leaves = dim.size // dim.group
        unit = unit * leaves + grid.coordinate(np.arange(grid.points), index) // dim.group
        units *= leaves
    return unit[:, None] * dim.lanes + np.arange(dim.lanes)[None, :], units * dim.lanes


def _trunks(dim: Dimension, groups: int, vertices: int) -> tuple[Indices, Indices, Indices]:
    """Source, target and lane of links among the switches of a fat tree: leaf up, leaf down.

    ``vertices``: number of those before the spines.
    """
    leaves = dim.size // dim.group
    group, leaf, lane = np.indices((groups, leaves, dim.lanes)).reshape(3, -1)
    first = vertices - groups * leaves * dim.lanes
    here = first + (group * leaves + leaf) * dim.lanes + lane
    if dim.spine:
        there = vertices + group * dim.lanes + lane
    else:
        there = first + (group * leaves + 1 - leaf) * dim.lanes + lane
    up, down = np.stack([here, there], 1), np.stack([there, here], 1)
    return up.ravel(), down.ravel(), np.repeat(lane, 2)


def links_of(wiring: Wiring, fault: LinkFault) -> NDArray[np.bool_]:
    """The links that a fault concerns.

    Raises
    ------
    ValueError
        There is none in one of its directions.
    """
    found = np.zeros(len(wiring.source), bool)
    for source, target in fault.ends:
        hit = (wiring.source == source) & (wiring.target == target)
        if fault.lane is not None:
            hit &= wiring.lane == fault.lane
        if not hit.any():
            on = "" if fault.lane is None else f" on lane {fault.lane}"
            raise FieldError("there", f"is no link from {source} to {target}{on}")
        found |= hit
    return found


def with_faults(wiring: Wiring, faults: Sequence[LinkFault]) -> Wiring:
    """The links with faults slower, or down."""
    times, down = wiring.fs_per_byte.copy(), wiring.down.copy()
    for fault in faults:
        hit = links_of(wiring, fault)
        if fault.bandwidth_factor == 0:
            down |= hit
        else:
            times[hit] /= fault.bandwidth_factor
    return replace(wiring, fs_per_byte=times, down=down)
