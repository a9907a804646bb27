# SPDX-License-Identifier: Apache-2.0
"""Shortest ways over the links of a graph.

A way is shortest that passes through the fewest other members, and among these over the fewest
links: switches forward, members should not have to. Where several links begin shortest ways, they
are ordered by the number of the vertex that they lead to (between members counted on from the one
where they begin, so that a ring is walked forwards; backwards with ``tie`` -1), then by their place
in the list. Lane *l* takes the *l*-th, modulo their number. So that traffic spreads over equal
ways, the number of the destination is added to *l* at a switch, and at a member that sends to
switches that number times ``lanes``, those among which the traffic is cut anyway: all that goes to
one destination on one lane takes the same way.
"""

from collections.abc import Iterator
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sim.network.grid import Indices

__all__ = ["UNREACHED", "Paths"]

FORWARDED = 1 << 16
"""Cost of passing through a member, above that of any number of links."""
UNREACHED = 1 << 30
MOST_RELAXED = 1 << 21
"""Links times destinations that are looked at together."""


class Paths:
    """Shortest ways from all vertices to all members, over links that are not ``down``."""

    def __init__(
        self,
        members: int,
        vertices: int,
        source: Indices,
        target: Indices,
        down: NDArray[np.bool_] | None = None,
    ) -> None:
        self._members, self._vertices = members, vertices
        self._source, self._target = source, target
        self._up = np.arange(len(source)) if down is None else np.flatnonzero(~down)

    @cached_property
    def cost(self) -> NDArray[np.int32]:
        """By vertex and destination: members on the way, the destination included, times
        `FORWARDED`, plus links; `UNREACHED` where there is no way."""
        weights = np.where(self._target < self._members, FORWARDED + 1, 1)
        return self._least(weights, UNREACHED).astype(np.int32)

    def unreached(self) -> tuple[int, int] | None:
        """Two members without a way from the first to the second; None if there are none."""
        lost = np.argwhere(self.cost[: self._members] >= UNREACHED)
        return (int(lost[0][0]), int(lost[0][1])) if len(lost) else None

    def farthest(self, lengths: NDArray[np.float64]) -> float:
        """The least length of a way between the two members for which it is largest."""
        return float(self._least(lengths, np.inf)[: self._members].max())

    @cached_property
    def mean_hops(self) -> float:
        """Links that leave a member on the shortest way, averaged over all pairs of members, a
        member with itself included."""
        return float((self.cost[: self._members] // FORWARDED).mean())

    def hops(
        self, here: Indices, goal: Indices, *, lane: int, tie: int, lanes: int = 1
    ) -> Iterator[Indices]:
        """The links of ways from members to members: for every hop, one for each way, -1 where it
        is shorter."""
        here = here.copy()
        while (here != goal).any():
            away = np.flatnonzero(here != goal)
            links = np.full(len(here), -1)
            links[away] = self._chosen(here[away], goal[away], lane, tie, lanes)
            here[away] = self._target[links[away]]
            yield links

    def begins(self, links: Indices, here: Indices, goal: Indices) -> NDArray[np.bool_]:
        """Which *links* (-1: none) that leave *here*, a row for each way, begin shortest ways."""
        onward = self._target[links]
        step = np.where(onward < self._members, FORWARDED + 1, 1)
        nearer = self.cost[onward, goal[:, None]] + step == self.cost[here, goal][:, None]
        good: NDArray[np.bool_] = nearer & (links >= 0)
        return good

    @cached_property
    def leaving(self) -> tuple[Indices, Indices]:
        """Links that leave each vertex, -1 in places that are left over: in the order of the
        module's text, and in that for ``tie`` -1."""
        source, target = self._source[self._up], self._target[self._up]
        direct = (source < self._members) & (target < self._members)
        ahead = np.where(direct, (target - source) % self._members, self._members + target)
        return self._table(source, ahead), self._table(source, -ahead)

    def _table(self, source: Indices, rank: Indices) -> Indices:
        order = np.lexsort((self._up, rank, source))
        owner = source[order]
        place = np.arange(len(order)) - np.searchsorted(owner, owner)
        table = np.full((self._vertices, int(place.max(initial=0)) + 1), -1)
        table[owner, place] = self._up[order]
        return table

    def _chosen(
        self, here: Indices, goal: Indices, lane: int, tie: int, lanes: int
    ) -> Indices:
        table = self.leaving[0 if tie > 0 else 1][here]
        good = self.begins(table, here, goal)
        row = np.arange(len(here))
        first = self._target[table[row, good.argmax(axis=1)]]
        by_member = np.where(first < self._members, 0, lanes)
        turn = (lane + goal * np.where(here < self._members, by_member, 1)) % good.sum(axis=1)
        taken = (np.cumsum(good, axis=1) > turn[:, None]).argmax(axis=1)
        links: Indices = table[row, taken]
        return links

    def _least(self, weights: NDArray[np.generic], never: float) -> NDArray[np.generic]:
        """The least sum of weights of a way from every vertex to every member."""
        entering = self._up[np.argsort(self._target[self._up], kind="stable")]
        ends = self._target[entering]
        first = np.searchsorted(ends, np.arange(self._vertices + 1))
        block = max(1, MOST_RELAXED // max(1, len(entering)))
        found = np.full((self._vertices, self._members), never, weights.dtype)
        for begin in range(0, self._members, block):
            goals = np.arange(begin, min(begin + block, self._members))
            part = np.full((self._vertices, len(goals)), never, weights.dtype)
            part[goals, np.arange(len(goals))] = 0
            flat, changed = part.reshape(-1), goals * len(goals) + np.arange(len(goals))
            while len(changed):
                vertex, goal = np.divmod(changed, len(goals))
                count = first[vertex + 1] - first[vertex]
                start = np.repeat(first[vertex] - (np.cumsum(count) - count), count)
                links = entering[start + np.arange(count.sum())]
                cost = np.repeat(flat[changed], count) + weights[links]
                to = self._source[links] * len(goals) + np.repeat(goal, count)
                better = cost < flat[to]
                np.minimum.at(flat, to[better], cost[better])
                changed = _distinct(to[better], len(flat))
            found[:, goals] = part
        return found


def _distinct(numbers: Indices, end: int) -> Indices:
    """The different ones of *numbers* below *end*: by a table where they are many, else sorted."""
    if len(numbers) * 32 < end:
        return np.unique(numbers)
    found = np.zeros(end, bool)
    found[numbers] = True
    return np.flatnonzero(found)
