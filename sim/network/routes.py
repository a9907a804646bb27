# SPDX-License-Identifier: Apache-2.0
"""Routes over the links of dimensions: dimension-ordered, avoiding links that are down.

Those over the links of a graph are its shortest ways (`sim.network.paths`), by links that are up.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sim.network.dimension import Dimension, DimensionKind
from sim.network.grid import Grid, Indices
from sim.network.paths import UNREACHED, Paths
from sim.network.wiring import Wiring

__all__ = ["Router"]

_NONE = -1


class Router:
    """Finds routes over the links that are not down."""

    def __init__(self, dimensions: Sequence[Dimension], grid: Grid, wiring: Wiring) -> None:
        self._dimensions = tuple(dimensions)
        self._grid = grid
        self._wiring = wiring
        self._any_down = bool(wiring.down.any())
        self._around: dict[tuple[int, int], Paths] = {}

    def routes(
        self, source: Indices, target: Indices, *, lane: int, direction: int, tie: int, lanes: int
    ) -> Indices:
        """See :meth:`sim.network.network.Network.routes`."""
        hops: list[Indices] = []
        here = source.copy()
        for index, dim in enumerate(self._dimensions):
            if dim.size == 1:
                continue
            a, b = self._grid.coordinate(here, index), self._grid.coordinate(target, index)
            goal = here + (b - a) * self._grid.strides[index]
            if dim.graph is not None:
                hops += self._graph_hops(here, goal, index, (lane, tie, lanes))
            elif dim.kind is DimensionKind.RING and not dim.single_link:
                hops += self._ring_hops(here, (b - a) % dim.size, index, lane, direction, tie)
            else:
                hops += self._lane_hops(here, goal, index, lane)
            here = goal
        return _packed(hops, len(source))

    def _ring_hops(
        self, here: Indices, ahead: Indices, index: int, lane: int, direction: int, tie: int
    ) -> list[Indices]:
        dim = self._dimensions[index]
        size, lane = dim.size, lane % dim.lanes
        backward = np.full(len(ahead), direction < 0)
        if direction == 0:
            further = 2 * ahead - size
            backward = (further > 0) | ((further == 0) & (tie < 0))
        if dim.directions == 1:
            backward = np.zeros(len(ahead), bool)
        hops = self._walk(here, ahead, backward, index, lane)
        blocked = self._blocked(hops, len(here))
        if not blocked.any():
            return hops
        if dim.directions == 1:
            raise ValueError(f"no route along dimension {index}: a link of a one-way ring is down")
        hops = self._walk(here, ahead, backward ^ blocked, index, lane)
        stuck = self._blocked(hops, len(here))
        if stuck.any():
            raise ValueError(
                f"no route from node {int(here[stuck][0])} along dimension {index}: links are "
                "down in both directions"
            )
        return hops

    def _graph_hops(
        self, here: Indices, goal: Indices, index: int, choice: tuple[int, int, int]
    ) -> list[Indices]:
        """Hops over the links of a graph, which each group has; ``choice``: lane, tie, lanes."""
        lane, tie, lanes = choice
        graph = self._dimensions[index].graph
        assert graph is not None
        number = self._grid.group(index)
        numbers, place = np.unique(number, return_inverse=True)
        group = place[here]
        ends = [self._grid.coordinate(each, index) for each in (here, goal)]
        length = len(graph.joints.source)
        hops: list[Indices] = []
        for each in range(len(numbers)) if self._any_down else [-1]:
            mine = np.flatnonzero(group == each) if each >= 0 else np.arange(len(here))
            paths = self._paths(index, each)
            a, b = (end[mine] for end in ends)
            lost = paths.cost[a, b] >= UNREACHED
            if lost.any():
                one = mine[lost][0]
                raise ValueError(
                    f"no route from node {int(here[one])} to node {int(goal[one])} along dimension "
                    f"{index}: links are down on every way"
                )
            first = self._wiring.first[index] + group[mine] * length
            ways = paths.hops(a, b, lane=lane, tie=tie, lanes=lanes)
            for hop, taken in enumerate(ways):
                if hop == len(hops):
                    hops.append(np.full(len(here), _NONE))
                hops[hop][mine] = np.where(taken < 0, _NONE, first + taken)
        return hops

    def _paths(self, index: int, group: int) -> Paths:
        """The shortest ways of a group of a dimension, or of all (-1), where no link is down."""
        graph = self._dimensions[index].graph
        assert graph is not None
        if group < 0:
            return graph.paths
        if (index, group) not in self._around:
            joints, links = graph.joints, len(graph.joints.source)
            first = self._wiring.first[index] + group * links
            down = self._wiring.down[first : first + links]
            self._around[index, group] = Paths(
                graph.members, graph.vertices, joints.source, joints.target, down
            )
        return self._around[index, group]

    def _blocked(self, hops: list[Indices], nodes: int) -> NDArray[np.bool_]:
        """For each of *nodes* routes, True if one of its links is down."""
        down = np.zeros(nodes, bool)
        if self._any_down:
            for links in hops:
                down |= self._wiring.down[links] & (links >= 0)
        return down

    def _walk(
        self, here: Indices, ahead: Indices, backward: NDArray[np.bool_], index: int, lane: int
    ) -> list[Indices]:
        dim = self._dimensions[index]
        count = np.where(ahead == 0, 0, np.where(backward, dim.size - ahead, ahead))
        step = np.where(backward, -1, 1)
        hops = []
        for hop in range(int(count.max(initial=0))):
            link = (here * dim.lanes + lane) * dim.directions + backward
            hops.append(np.where(hop < count, self._wiring.first[index] + link, _NONE))
            here = self._grid.moved(here, index, step)
        return hops

    def _lane_hops(self, here: Indices, goal: Indices, index: int, lane: int) -> list[Indices]:
        """Hops on the requested lane, or where one of its links is down, on the next lane."""
        dim = self._dimensions[index]
        direct = dim.kind in (DimensionKind.RING, DimensionKind.FULLY_CONNECTED)
        hops_on = self._direct_hops if direct else self._switch_hops
        hops = hops_on(here, goal, index, lane)
        blocked = self._blocked(hops, len(here))
        for other in range(lane + 1, lane + dim.lanes):
            if not blocked.any():
                break
            others = hops_on(here, goal, index, other)
            hops = [np.where(blocked, *ways) for ways in zip(others, hops)]
            blocked = self._blocked(hops, len(here))
        if blocked.any():
            raise ValueError(
                f"no route from node {int(here[blocked][0])} to node {int(goal[blocked][0])} along "
                f"dimension {index}: a link is down on every lane, and only rings have another way"
            )
        return hops

    def _direct_hops(self, here: Indices, goal: Indices, index: int, lane: int) -> list[Indices]:
        """Hops over the only link of a lane: full connection, or a ring of two with one link."""
        dim = self._dimensions[index]
        a, b = self._grid.coordinate(here, index), self._grid.coordinate(goal, index)
        distance = (b - a) % dim.size
        link = (here * (dim.size - 1) + distance - 1) * dim.lanes + lane % dim.lanes
        return [np.where(distance == 0, _NONE, self._wiring.first[index] + link)]

    def _switch_hops(self, here: Indices, goal: Indices, index: int, lane: int) -> list[Indices]:
        dim = self._dimensions[index]
        first = self._wiring.first[index]
        way = np.full(len(here), lane % dim.lanes)
        same = here == goal
        up = np.where(same, _NONE, first + (here * dim.lanes + way) * 2)
        down = np.where(same, _NONE, first + (goal * dim.lanes + way) * 2 + 1)
        if dim.kind is DimensionKind.SWITCH:
            return [up, down]
        a = self._grid.coordinate(here, index) // dim.group
        b = self._grid.coordinate(goal, index) // dim.group
        leaves = dim.size // dim.group
        trunk = self._wiring.trunk[index]
        unit = self._grid.group(index)[here] * leaves
        climb = trunk + ((unit + a) * dim.lanes + way) * 2
        drop = trunk + ((unit + b) * dim.lanes + way) * 2 + 1
        near = a == b
        hops = [up, np.where(near, _NONE, climb)]
        if dim.spine:
            hops.append(np.where(near, _NONE, drop))
        return [*hops, down]


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
