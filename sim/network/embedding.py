# SPDX-License-Identifier: Apache-2.0
"""Rings on links that are not their own: through all nodes of a torus, and of groups of nodes."""

import math
from collections.abc import Sequence
from itertools import combinations, count, pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sim.fields import FieldError, check_integer
from sim.network.dimension import DimensionKind
from sim.network.network import Network
from sim.network.ports import NetworkPort, Ports

if TYPE_CHECKING:
    from random import Random

__all__ = [
    "RingPlace", "embedding", "hamiltonian_cycle", "hamiltonian_cycles", "hamiltonian_rings",
    "ring_through",
]


MOST_NODES = 1 << 16
"""Nodes of a torus whose Hamiltonian cycles are searched: minutes."""


class RingPlace(NamedTuple):
    """The node of one rank of an embedded ring, and its ports."""

    node: int
    next_port: int
    previous_port: int


def hamiltonian_cycle(network: Network) -> list[int]:
    """The nodes of a torus in an order in which each is linked to the next, the last to the first.

    Every torus has one. It is built by adding one dimension at a time to the cycle of those
    before it. Node 0 comes first.
    """
    cycle = [0]
    for size, stride in zip(network.physical_shape, network.grid.strides):
        grid = _grid_cycle(len(cycle), size)
        cycle = [cycle[column] + row * stride for column, row in grid]
    return cycle


def hamiltonian_cycles(shape: Sequence[int]) -> list[list[int]]:
    """Cycles through all nodes of a torus, one for each dimension, that together use every link
    between neighbours once.

    Parameters
    ----------
    shape : sequence of int
        Nodes along each dimension, each 3 or more; the first varies fastest in their numbering.

    Returns
    -------
    list of lists of int
        Nodes in the order in which a cycle passes them, from node 0; the same for equal shapes.

    Raises
    ------
    ValueError
        For a dimension below 3, whose links make no rings of their own, or too many nodes.

    Notes
    -----
    Every torus has such cycles (Aubert and Schneider, 1982). They are found by search: each
    dimension begins with a colour of its own, its rings, and squares of two colours exchange them
    as long as that joins cycles, or else leaves as many.
    """
    sizes = tuple(shape)
    for each in sizes:
        check_integer("shape", each, 0)
    if not sizes or min(sizes) < 3:
        raise FieldError("shape", f"must be 3 or more in every dimension, not {sizes!r}")
    if math.prod(sizes) > MOST_NODES:
        raise FieldError("shape", f"must be of at most {MOST_NODES} nodes, not {sizes!r}")
    return _Colours(sizes).solved()


class _Colours:
    """Links of a torus in as many colours as dimensions; every node has two links of each."""

    def __init__(self, shape: Sequence[int]) -> None:
        self._nodes = nodes = int(np.prod(shape))
        number = np.arange(nodes).reshape(shape[::-1])
        axes = range(len(shape) - 1, -1, -1)
        self._next = [np.roll(number, -1, axis).ravel().tolist() for axis in axes]
        self._colour = [[way] * nodes for way in range(len(shape))]  # of the link to the next node
        self._linked: list[list[set[int]]] = [
            [set() for _ in range(nodes)] for _ in range(len(shape))
        ]
        for here, following in zip(self._linked, self._next):
            for a, b in enumerate(following):
                here[a].add(b)
                here[b].add(a)
        self._cycle = [[-1] * nodes for _ in shape]  # by colour: number of the cycle of each node
        self._place = [[0] * nodes for _ in shape]  # and its place in that cycle
        self._count = [0] * len(shape)
        self._numbers = count()
        for colour in range(len(shape)):
            self._count[colour] = self._number(colour, range(nodes))

    def solved(self) -> list[list[int]]:
        """One cycle of each colour."""
        from random import Random

        draw = Random(1)
        pairs = list(combinations(range(len(self._count)), 2))
        squares = [(a, i, j) for a in range(self._nodes) for i, j in pairs]
        while max(self._count) > 1:
            draw.shuffle(squares)
            if not self._join(squares):
                self._vary(squares, draw)
        return [self._walk(colour, 0) for colour in range(len(self._count))]

    def _join(self, squares: Sequence[tuple[int, int, int]]) -> bool:
        """Exchange the colours of squares where that joins two cycles of either; False if there is
        no such square."""
        joined = False
        for a, i, j in squares:
            found = self._square(a, i, j)
            if found is not None:
                b, d, x, y = found
                if (self._cycle[x][a] != self._cycle[x][d]
                        and self._cycle[y][a] != self._cycle[y][b]):
                    self._exchange(a, i, j)
                    joined = True
        return joined

    def _vary(self, squares: Sequence[tuple[int, int, int]], draw: "Random") -> None:
        """Exchange a square that leaves no more cycles than there were; any, if there is none."""
        possible = [square for square in squares if self._square(*square) is not None]
        for square in possible:
            more = self._more(*square)
            if more < 0 or (more == 0 and draw.random() < 0.5):
                self._exchange(*square)
                return
        self._exchange(*draw.choice(possible))

    def _square(self, a: int, i: int, j: int) -> tuple[int, int, int, int] | None:
        """The nodes after *a* in dimensions *i* and *j*, and the colours of the links to them,
        where those opposite have the same and the two differ."""
        b, d = self._next[i][a], self._next[j][a]
        x, y = self._colour[i][a], self._colour[j][a]
        if x == y or self._colour[i][d] != x or self._colour[j][b] != y:
            return None
        return b, d, x, y

    def _more(self, a: int, i: int, j: int) -> int:
        """Cycles that an exchange adds."""
        found = self._square(a, i, j)
        assert found is not None
        b, d, x, y = found
        c = self._next[j][b]
        return self._cut(x, (a, b), (d, c)) + self._cut(y, (a, d), (b, c))

    def _cut(self, colour: int, link: tuple[int, int], other: tuple[int, int]) -> int:
        """Cycles that a colour gains where the links between two opposite ones replace them."""
        cycle, place = self._cycle[colour], self._place[colour]
        if cycle[link[0]] != cycle[other[0]]:
            return -1
        steps = [place[end] - place[start] for start, end in (link, other)]
        ahead = [step == 1 or step < -1 for step in steps]  # cycles have 3 nodes or more
        return int(ahead[0] != ahead[1])

    def _exchange(self, a: int, i: int, j: int) -> None:
        found = self._square(a, i, j)
        assert found is not None
        b, d, x, y = found
        c = self._next[j][b]
        counts = [len({self._cycle[x][a], self._cycle[x][d]}),
                  len({self._cycle[y][a], self._cycle[y][b]})]
        for old, new, way, links in ((x, y, i, ((a, b), (d, c))), (y, x, j, ((a, d), (b, c)))):
            for start, end in links:
                self._colour[way][start] = new
                for u, v in ((start, end), (end, start)):
                    self._linked[old][u].discard(v)
                    self._linked[new][u].add(v)
        for colour, before in zip((x, y), counts):
            for each in (a, b, c, d):
                self._cycle[colour][each] = -1
            self._count[colour] += self._number(colour, (a, b, c, d)) - before

    def _number(self, colour: int, nodes: Sequence[int]) -> int:
        """Number the cycles of a colour through those *nodes* that have no number, and their
        places; returns how many."""
        cycle, place, found = self._cycle[colour], self._place[colour], 0
        for node in nodes:
            if cycle[node] < 0:
                number = next(self._numbers)
                for index, each in enumerate(self._walk(colour, node)):
                    cycle[each], place[each] = number, index
                found += 1
        return found

    def _walk(self, colour: int, start: int) -> list[int]:
        """Nodes of the cycle through *start*."""
        linked, path = self._linked[colour], [start]
        before, here = start, min(linked[start])
        while here != start:
            path.append(here)
            before, here = here, next(each for each in linked[here] if each != before)
        return path


def hamiltonian_rings(network: Network) -> list[list[RingPlace]]:
    """Rings through all nodes of a torus that share no link: one for each dimension and lane.

    Ranks are nodes. Dimensions of size 1 have no links and no ring.

    Raises
    ------
    ValueError
        For a dimension of size 2, or lanes that differ, whose links these rings do not all use, and
        for dimensions that are no rings.
    """
    wide = [each for each in network.dimensions if each.size > 1]
    if any(each.kind is not DimensionKind.RING for each in wide):
        raise ValueError(f"dimensions must be rings, not {network.describe()}")
    if len({each.lanes for each in wide}) > 1:
        lanes = ", ".join(str(each.lanes) for each in wide)
        raise FieldError("lanes", f"must be alike in all dimensions, not {lanes}")
    ports, used = Ports(network), set[NetworkPort]()
    cycles = hamiltonian_cycles([each.size for each in wide])
    return [ring_through(ports, cycle, used) for _ in range(wide[0].lanes) for cycle in cycles]


def ring_through(
    ports: Ports, order: Sequence[int], used: set[NetworkPort] | None = None
) -> list[RingPlace]:
    """Nodes and ports of the ring through ``order``, by rank, which is the place in ``order``.

    Among parallel links a ring of two nodes uses two, longer rings the one with the lowest port
    that is not *used*; the ring's own are added to these.
    """
    if len(order) < 2:
        raise ValueError(f"a ring must have at least 2 nodes, not {len(order)}")
    if len(set(order)) != len(order):
        raise FieldError("order", f"must not hold a node twice: {order!r}")
    next_port: dict[int, int] = {}
    previous_port: dict[int, int] = {}
    used = set() if used is None else used
    for node, following in pairwise([*order, order[0]]):
        for port, end in ports.neighbours(node).items():
            if end.node == following and NetworkPort(node, port) not in used:
                break
        else:
            raise ValueError(f"node {node} has no unused link to node {following}")
        used |= {NetworkPort(node, port), end}
        next_port[node] = port
        previous_port[following] = end.port
    return [
        RingPlace(node=node, next_port=next_port[node], previous_port=previous_port[node])
        for node in order
    ]


def embedding(network: Network, dimensions: Sequence[int]) -> str:
    """Text on the links that groups over *dimensions* of a job's view use, where they cover parts
    of a dimension; empty where they do not."""
    parts = [
        _embedded(network, each)
        for each in dimensions
        if network.shape[each] < network.whole_shape[network.origins[each]]
    ]
    return f"groups have rings of their own: {'; '.join(parts)}" if parts else ""


def _embedded(network: Network, dimension: int) -> str:
    """One dimension: its links from a member to the next, and the number of rings on a link."""
    label = network.label(dimension)
    physical = network.physical(dimension)
    if physical is not None and physical.kind is not DimensionKind.RING:
        kind = DimensionKind(physical.kind).value.replace("_", " ")
        return f"{label}, on the links of the {'list' if physical.graph is not None else kind}"
    ways = (1, -1) if physical is None or physical.directions == 2 else (1,)
    carried = np.zeros(len(network.link_source), np.int64)
    hops = 0
    for way in ways:
        links = network.shift(dimension, way, direction=way, tie=way).links
        hops = max(hops, len(links))
        np.add.at(carried, links[links >= 0], 1)
    far = f"up to {hops} link{'s' * (hops > 1)} to the next member"
    return f"{label}, {far}, up to {carried.max()} rings on a link"


def _grid_cycle(columns: int, rows: int) -> list[tuple[int, int]]:
    """Hamiltonian cycle of a grid whose columns and rows wrap around, as (column, row)."""
    if columns == 1 or rows == 1:
        return [(column, row) for row in range(rows) for column in range(columns)]
    if rows % 2 == 0:
        return _serpentine(columns, rows)
    if columns % 2 == 0:
        return [(column, row) for row, column in _serpentine(rows, columns)]
    if columns > rows:
        return [(column, row) for row, column in _helix(rows, columns)]
    return _helix(columns, rows)


def _serpentine(columns: int, rows: int) -> list[tuple[int, int]]:
    """Even rows: to and fro through all columns but the first, which is the way back."""
    there = [
        (column, row)
        for row in range(rows)
        for column in (range(1, columns) if row % 2 == 0 else range(columns - 1, 0, -1))
    ]
    return [(0, 0), *there, *((0, row) for row in range(rows - 1, 0, -1))]


def _helix(columns: int, rows: int) -> list[tuple[int, int]]:
    """Both odd, columns <= rows: once round each row, which moves by one column either way.

    The moves of all rows must add up to a multiple of ``columns``: with (rows + columns) / 2
    rows one way and the others the other way they add up to ``columns`` itself.
    """
    cycle = []
    column = 0
    for row in range(rows):
        step = 1 if row < (rows + columns) // 2 else -1
        for _ in range(columns):
            cycle.append((column % columns, row))
            column += step
        column -= step
    return cycle
