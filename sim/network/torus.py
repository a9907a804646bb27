"""Rings and tori of any number of dimensions."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from sim.network.graph import IMMEDIATE, Link, LinkTiming, Topology

__all__ = ["Dimension", "Torus", "ring"]


@dataclass(frozen=True, kw_only=True)
class Dimension:
    """One dimension of a torus: a ring of ``size`` nodes, every link alike in both directions.

    A ring of two has two parallel links, so that each node has a port in either direction, as in
    longer rings. With ``parallel_links=False`` it has one, from the + port of the node at
    coordinate 0 to the - port of the other. A ring of one has no link and no ports.
    """

    size: int
    timing: LinkTiming = IMMEDIATE
    parallel_links: bool = True

    def __post_init__(self) -> None:
        if isinstance(self.size, bool) or not isinstance(self.size, int):
            raise TypeError(f"size must be an integer, not {self.size!r}")
        if self.size < 1:
            raise ValueError(f"size must be at least 1, not {self.size!r}")
        if not self.parallel_links and self.size != 2:
            raise ValueError(
                f"parallel_links=False is for a dimension of size 2, not of size {self.size!r}"
            )


class Torus(Topology):
    """A k-dimensional torus.

    Dimension 0 varies fastest in the numbering of nodes. The dimensions that have links take two
    ports each, in order: + (to the next coordinate) first, then -.

    Parameters
    ----------
    dimensions : sequence of :class:`Dimension` or int
        A number stands for a dimension of that size with default timing.
    """

    def __init__(self, dimensions: Sequence[Dimension | int]) -> None:
        if not dimensions:
            raise ValueError("dimensions must hold at least one dimension")
        self.dimensions = tuple(
            d if isinstance(d, Dimension) else Dimension(size=d) for d in dimensions
        )
        self.shape = tuple(dimension.size for dimension in self.dimensions)
        linked = [i for i, size in enumerate(self.shape) if size > 1]
        self._first_port = {dimension: 2 * rank for rank, dimension in enumerate(linked)}
        nodes = math.prod(self.shape)
        super().__init__(nodes=nodes, ports=2 * len(linked), links=self._make_links(nodes))

    def coordinates(self, node: int) -> tuple[int, ...]:
        self._check_node(node)
        position = []
        for size in self.shape:
            node, coordinate = divmod(node, size)
            position.append(coordinate)
        return tuple(position)

    def node_at(self, coordinates: Sequence[int]) -> int:
        """The node at a position; coordinates wrap around."""
        if len(coordinates) != len(self.shape):
            raise ValueError(
                f"coordinates must have {len(self.shape)} entries, not {tuple(coordinates)!r}"
            )
        node = 0
        for size, coordinate in zip(self.shape[::-1], tuple(coordinates)[::-1]):
            node = node * size + coordinate % size
        return node

    def neighbour(self, node: int, dimension: int, step: int) -> int:
        """The node ``step`` places further along a dimension."""
        position = list(self.coordinates(node))
        self._check_dimension(dimension)
        position[dimension] += step
        return self.node_at(position)

    def port(self, dimension: int, direction: int) -> int:
        """The port towards the next (``direction`` +1) or previous (-1) coordinate."""
        self._check_dimension(dimension)
        if direction not in (1, -1):
            raise ValueError(f"direction must be 1 or -1, not {direction!r}")
        if dimension not in self._first_port:
            raise ValueError(f"dimension {dimension} has size 1 and so no ports")
        return self._first_port[dimension] + (direction == -1)

    def _check_dimension(self, dimension: int) -> None:
        if not 0 <= dimension < len(self.shape):
            raise ValueError(f"dimension must be in 0 to {len(self.shape) - 1}, not {dimension!r}")

    def _make_links(self, nodes: int) -> list[Link]:
        links = []
        self.nodes = nodes
        for index, dimension in enumerate(self.dimensions):
            if dimension.size == 1:
                continue
            for node in range(nodes):
                if not dimension.parallel_links and self.coordinates(node)[index] == 1:
                    continue
                links.append(
                    Link(
                        node_a=node,
                        port_a=self.port(index, 1),
                        node_b=self.neighbour(node, index, 1),
                        port_b=self.port(index, -1),
                        forward=dimension.timing,
                        backward=dimension.timing,
                    )
                )
        return links


def ring(nodes: int, *, timing: LinkTiming = IMMEDIATE) -> Torus:
    """A ring: port 0 leads to the next node, port 1 to the previous one."""
    if isinstance(nodes, int) and nodes < 2:
        raise ValueError(f"nodes of a ring must be at least 2, not {nodes!r}")
    return Torus([Dimension(size=nodes, timing=timing)])
