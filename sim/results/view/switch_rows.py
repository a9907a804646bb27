# SPDX-License-Identifier: Apache-2.0
"""Places for drawing: NPUs in groups under their switches, switches in rows above."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from sim.network.grid import Indices

__all__ = ["MOST_NODES", "Place", "rises", "switch_rows"]

Place = tuple[float, float]

MOST_NODES = 256
MOST_ACROSS = 40.0
"""Width of the groups beside one another from which each takes several rows."""
BESIDE, APART = 0.85, 1.25
"""Between NPUs of a group, and between groups."""
LEAST_UP, MOST_UP = 1.8, 4.0
"""Between rows, which lie further apart the wider they are."""
MOST_RISE = 5.0


def switch_rows(
    nodes: int, source: Indices, target: Indices, fs_per_byte: NDArray[np.float64]
) -> dict[int, Place]:
    """Places of the first NPUs, in groups under the switch that each hangs on, and of all switches
    that lead to them: first those of groups, then in rows by distance from the NPUs.

    Of several switches an NPU hangs on the one with the fastest link, the first of equal ones.
    """
    first = min(nodes, MOST_NODES)
    groups = _groups(first, nodes, source, target, fs_per_byte)
    places = _blocks(list(groups.values()))
    right = max(x for x, _ in places.values())
    top = 0.0
    beside = _beside(source, target)
    above = _above(groups, nodes, beside, places)
    rows = [list(above)] if above else []
    rows += _by_distance(range(first), nodes, beside, set(above))
    for level in rows:
        wanted = {
            switch: above[switch] if switch in above
            else fmean(places[each][0] for each in beside[switch] if each in places)
            for switch in level
        }
        ordered = sorted(level, key=lambda switch: (wanted[switch], switch))
        fit = max(1, int(right / BESIDE))
        for begin in range(0, len(ordered), fit):
            row = ordered[begin : begin + fit]
            top -= min(MOST_UP, max(LEAST_UP, right / 10))
            for number, switch in enumerate(row):
                even = right * (number + 0.5) / len(row)
                places[switch] = above.get(switch, even), top
            joined = [(each, other) for each in row for other in beside[each] if other in row]
            top -= max(rises(places, nodes, joined), default=0.0)
    return places


def rises(
    places: Mapping[int, Place], nodes: int, ends: Sequence[tuple[int, int]]
) -> list[float]:
    """Heights of the arcs by which links within a row pass over what is between their ends; below
    zero for those that hang from NPUs, 0 for links that are straight."""
    rows = defaultdict[float, list[float]](list)
    for x, y in places.values():
        rows[y].append(x)
    order = {y: {x: number for number, x in enumerate(sorted(row))} for y, row in rows.items()}
    lowest = max(rows)
    found = []
    for source, target in ends:
        (x, y), (other_x, other_y) = places[source], places[target]
        row = order[y]
        rise = 0.0
        if y == other_y and abs(row[x] - row[other_x]) > 1:
            rise = round(min(MOST_RISE, 0.4 + 0.12 * abs(x - other_x)), 3)
        if source < nodes:
            rise = -rise if y == lowest else 0.0
        found.append(rise)
    return found


def _groups(
    first: int, nodes: int, source: Indices, target: Indices, fs_per_byte: NDArray[np.float64]
) -> dict[int, list[int]]:
    """NPUs by the switch that they hang on; -1 for those that hang on none."""
    up = np.flatnonzero((source < first) & (target >= nodes))
    hung = dict.fromkeys(range(first), -1)
    # Of each node the best comes last.
    for link in up[np.lexsort((-target[up], -fs_per_byte[up]))].tolist():
        hung[int(source[link])] = int(target[link])
    groups = defaultdict[int, list[int]](list)
    for node, switch in hung.items():
        groups[switch].append(node)
    return groups


def _blocks(groups: Sequence[Sequence[int]]) -> dict[int, Place]:
    """Groups beside one another, each as a row, or as several where they are too wide."""
    across = sum((len(group) - 1) * BESIDE + APART for group in groups) - APART
    places: dict[int, Place] = {}
    left = 0.0
    for group in groups:
        rows = 1 if across <= MOST_ACROSS else math.ceil(math.sqrt(len(group) / 2))
        columns = math.ceil(len(group) / rows)
        for number, node in enumerate(group):
            places[node] = left + number % columns * BESIDE, number // columns * BESIDE
        left += (columns - 1) * BESIDE + APART
    return places


def _above(
    groups: Mapping[int, Sequence[int]], nodes: int, beside: Mapping[int, Sequence[int]],
    places: Mapping[int, Place],
) -> dict[int, float]:
    """Where the switches of each group are in the row above it: the one that it hangs on, and as
    many as have room of those that have links with its NPUs alone, as of other planes."""
    found: dict[int, float] = {}
    for home, group in groups.items():
        own = {each for node in group for each in beside[node] if each >= nodes}
        alone = sorted(
            switch for switch in own - {home}
            if all(other in group or other not in places for other in beside[switch])
        )
        xs = [places[node][0] for node in group]
        left, wide = min(xs), max(xs) - min(xs)
        row = sorted([home, *alone[: max(1, int(wide / BESIDE)) - 1]]) if home >= 0 else []
        found |= {
            switch: left + wide * (number + 0.5) / len(row) for number, switch in enumerate(row)
        }
    return found


def _beside(source: Indices, target: Indices) -> dict[int, list[int]]:
    """Vertices that have links with each."""
    ends = np.stack([np.concatenate([source, target]), np.concatenate([target, source])], 1)
    beside = defaultdict[int, list[int]](list)
    for vertex, other in np.unique(ends, axis=0).tolist():
        beside[vertex].append(other)
    return beside


def _by_distance(
    begin: Iterable[int], nodes: int, beside: Mapping[int, Sequence[int]], placed: set[int]
) -> list[list[int]]:
    """Switches that are not *placed*, in rows by their distance from the vertices of *begin*."""
    seen, edge = set(begin), list(begin)
    rows = []
    while edge:
        edge = sorted({
            other for vertex in edge for other in beside.get(vertex, ())
            if other >= nodes and other not in seen
        })
        seen.update(edge)
        rows.append([switch for switch in edge if switch not in placed])
    return [row for row in rows if row]
