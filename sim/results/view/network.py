# SPDX-License-Identifier: Apache-2.0
"""The drawing of a network: places of NPUs and switches, and the use of every link."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sim.events.record import RunRecord
from sim.network.dimension import DimensionKind
from sim.network.network import Network
from sim.results.network import vertex_name
from sim.results.view.switch_rows import MOST_NODES, Place, rises, switch_rows

__all__ = ["network_data"]

MOST_LINKS = 3000
AROUND = 40
"""Most NPUs of a ring that is drawn as a circle."""
GAP = 1.4
_OF_SWITCHES = DimensionKind.SWITCH, DimensionKind.FAT_TREE, DimensionKind.LINKS


def network_data(record: RunRecord, network: Network) -> tuple[dict[str, Any], str]:
    """Data of the chart ``network``, and a caption that names the busiest links; the data are empty
    where no link was recorded."""
    places = _places(network)
    links = _links(record, network, places)
    if not links:
        return {}, "The run has no links."
    shown = [link for link in links if link[0] in places and link[1] in places]
    drawn = sorted(shown, key=lambda link: -link[3])[:MOST_LINKS]
    caption = _busiest(links, network.nodes)
    nodes = sum(vertex < network.nodes for vertex in places)
    if nodes < network.nodes or len(drawn) < len(shown):
        which = f", and the {len(drawn)} busiest links" if len(drawn) < len(shown) else ""
        caption += f" Drawn: {nodes} of {network.nodes} NPUs{which}."
    numbers = {vertex: number for number, vertex in enumerate(places)}
    ways = [_way_out(network, source, target) for source, target, *_ in drawn]
    arcs = rises(places, network.nodes, [(source, target) for source, target, *_ in drawn])
    if any(ways):
        caption += " Links between grids are short strokes."
    data = {
        "places": [
            [round(x, 3), round(y, 3), vertex_name(vertex, network.nodes), vertex >= network.nodes]
            for vertex, (x, y) in places.items()
        ],
        "links": [
            [numbers[source], numbers[target], dimension, round(busy, 2), lanes, rise, way]
            for (source, target, dimension, busy, lanes), rise, way in zip(drawn, arcs, ways)
        ],
    }
    return data, caption


_Link = tuple[int, int, int, float, int]
"""Source, target, dimension, percent busy, lanes."""


def _grid(network: Network) -> tuple[list[int], int]:
    """Sizes of the dimensions that are drawn, and the NPUs of one grid."""
    sizes = [each.size for each in network.dimensions if each.size > 1] or [1]
    return sizes, sizes[0] * (sizes[1] if len(sizes) > 1 else network.nodes)


def _way_out(network: Network, source: int, target: int) -> int:
    """1 or -1 for a link to another grid, up or down; 0 for all others."""
    sizes, grid = _grid(network)
    if len(sizes) < 3 or max(source, target) >= network.nodes or source // grid == target // grid:
        return 0
    up = (target // grid - source // grid) % (network.nodes // grid)
    return 1 if up <= network.nodes // grid // 2 else -1


def _links(
    record: RunRecord, network: Network, places: Mapping[int, Place]
) -> list[_Link]:
    """Links with the share of time that the busiest lane is busy; of a run in which one node stands
    for all, those between *places*."""
    end = max(1, record.end_fs)
    busy = [100 * each / end for each in record.link_busy_fs.tolist()]
    pairs = list(zip(record.links, busy))
    if record.folded and record.call_phases is not None:
        # A class of links for each of the node that stands for all.
        _, kind = network.link_classes()
        of = {number: index for index, number in enumerate(np.unique(kind).tolist())}
        if len(of) == len(busy):
            here = np.array(sorted(places))
            inside = np.isin(network.link_source, here) & np.isin(network.link_target, here)
            chosen = np.flatnonzero(inside).tolist()
            pairs = [
                (link, busy[of[number]])
                for link, number in zip(network.links(chosen), kind[chosen].tolist())
            ]
    most: dict[tuple[int, int, int], float] = {}
    lanes: Counter[tuple[int, int, int]] = Counter()
    for link, share in pairs:
        key = (link.source, link.target, link.dimension)
        lanes[key] += 1
        most[key] = max(most.get(key, 0.0), share)
    return [(*key, share, lanes[key]) for key, share in most.items()]


def _busiest(links: Sequence[_Link], nodes: int) -> str:
    source, target, dimension, busy, _ = max(links, key=lambda link: (link[3], -link[0], -link[1]))
    same = sum(link[3] >= busy - 0.005 for link in links)
    name = f"{vertex_name(source, nodes)} → {vertex_name(target, nodes)}, dimension {dimension}"
    others = f", and {same - 1} more as busy" if same > 1 else ""
    return f"Busiest: {name}, {busy:.1f} % of the time{others}."


def _places(network: Network) -> dict[int, Place]:
    """Places of vertices: NPUs that only switches join below these, tori as grids."""
    sizes, _ = _grid(network)
    kinds = [each.kind for each in network.dimensions if each.size > 1]
    if network.vertices > network.nodes and all(kind in _OF_SWITCHES for kind in kinds):
        return switch_rows(network.nodes, network.link_source, network.link_target,
                           network.link_fs_per_byte)
    if len(sizes) == 1 and network.vertices == network.nodes <= AROUND:
        places = _circle(network.nodes)
    else:
        places = _grids(sizes, network.nodes)
    if network.vertices > network.nodes:
        places |= _switches(network, places)
    return places


def _circle(nodes: int) -> dict[int, Place]:
    radius = max(1.0, nodes / 5)
    turns = [2 * math.pi * number / nodes for number in range(nodes)]
    return {
        number: (radius * math.sin(turn), -radius * math.cos(turn))
        for number, turn in enumerate(turns)
    }


def _grids(sizes: Sequence[int], nodes: int) -> dict[int, Place]:
    """NPUs as grids of the first two dimensions, beside one another for the others."""
    across, down = sizes[0], sizes[1] if len(sizes) > 1 else 1
    if len(sizes) == 1 and nodes > 16:
        across = math.ceil(math.sqrt(2 * nodes))
        down = math.ceil(nodes / across)
    grid = across * down
    few = max(1, min(nodes, MOST_NODES) // grid * grid) if grid <= MOST_NODES else MOST_NODES
    planes = math.ceil(few / grid)
    # As many grids beside one another as make equal rows, about twice as wide as high.
    wanted = math.sqrt(2 * planes * down / across)
    wide = min(
        (each for each in range(1, planes + 1) if planes % each == 0),
        key=lambda each: abs(math.log(each / wanted)),
    )
    places = {}
    for node in range(min(nodes, few)):
        plane, inside = divmod(node, grid)
        x = inside % across + plane % wide * (across + GAP)
        y = inside // across + plane // wide * (down + GAP)
        places[node] = (float(x), float(y))
    return places


def _switches(network: Network, places: Mapping[int, Place]) -> dict[int, Place]:
    """Switches in rows above the NPUs: those that NPUs have a link to, and above these the rest."""
    first, above = set[int](), set[int]()
    for link in network.links():
        if link.source >= network.nodes:
            (first if link.target < network.nodes else above).add(link.source)
    levels = [sorted(first), sorted(above - first)]
    left = min(x for x, _ in places.values())
    width = max(x for x, _ in places.values()) - left
    top = min(y for _, y in places.values())
    found: dict[int, Place] = {}
    fit = max(1, int(width) + 1)
    for level in levels:
        top -= 0.8
        for begin in range(0, len(level), fit):
            row = level[begin : begin + fit]
            top -= 1.0
            for number, vertex in enumerate(row):
                found[vertex] = (left + width * (number + 0.5) / len(row), top)
    return found
