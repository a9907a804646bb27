"""Rings on links that are not their own: through all nodes of a torus, and of groups of nodes."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from sim.fields import FieldError
from sim.network.dimension import DimensionKind
from sim.network.network import Network
from sim.network.ports import NetworkPort, Ports

__all__ = ["RingPlace", "embedding", "hamiltonian_cycle", "ring_through"]


@dataclass(frozen=True, kw_only=True)
class RingPlace:
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


def ring_through(ports: Ports, order: Sequence[int]) -> list[RingPlace]:
    """Nodes and ports of the ring through ``order``, by rank, which is the place in ``order``.

    Among parallel links a ring of two nodes uses two, longer rings the one with the lowest port.
    """
    if len(order) < 2:
        raise ValueError(f"a ring must have at least 2 nodes, not {len(order)}")
    if len(set(order)) != len(order):
        raise FieldError("order", f"must not hold a node twice: {order!r}")
    next_port: dict[int, int] = {}
    previous_port: dict[int, int] = {}
    used: set[NetworkPort] = set()
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
        return f"{label}, on the links of the {kind}"
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
