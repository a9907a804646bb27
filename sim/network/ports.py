# SPDX-License-Identifier: Apache-2.0
"""A network of point-to-point links, seen by the ports of its nodes."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from sim.fields import FieldError
from sim.network.dimension import DimensionKind
from sim.network.grid import Indices
from sim.network.link import Link
from sim.network.network import Network

__all__ = ["NetworkPort", "Ports"]


class NetworkPort(NamedTuple):
    """One port of one node."""

    node: int
    port: int


class Ports:
    """A port for each link that leaves a node, with the opposite link; equally many at all nodes.

    Numbered as the links are: by dimension, those of size 1 having none. Rings take two ports per
    lane, + (to the next coordinate) before -, so the port + of dimension d of a torus without
    lanes is 2 d. The single link of a ring of two takes one, and where all are connected each
    other member, in the order of distance.

    Raises
    ------
    ValueError
        A dimension has switches or one-way rings.
    """

    def __init__(self, network: Network) -> None:
        self.network = network
        self.nodes = network.nodes
        self.per_node = sum(dim.links_per_node for dim in network.dimensions)
        self._first: list[int] = []
        links, opposite = [], []
        count = 0
        for index, dim in enumerate(network.dimensions):
            if dim.has_switches or dim.kind is DimensionKind.LINKS:
                kind = DimensionKind(dim.kind).value
                what = kind if dim.graph is not None else f"a {kind}"
                raise ValueError(f"dimension {index} must have links between nodes, not {what}")
            if dim.size > 1 and not dim.bidirectional:
                raise ValueError(f"dimension {index} must have links both ways, not one-way rings")
            self._first.append(count)
            here = network.wiring.first[index] + np.arange(network.nodes * dim.links_per_node)
            links.append(here.reshape(network.nodes, dim.links_per_node))
            opposite.append(count + self._opposite(index))
            count += dim.links_per_node
        self._link = np.concatenate(links, axis=1)  # node, port
        self._opposite_port = np.concatenate(opposite)

    def link(self, node: int, port: int) -> Link:
        """The link that leaves *node* through *port*."""
        return self.network.link(self.number(node, port))

    def number(self, node: int, port: int) -> int:
        """The number of that link in the network."""
        if not 0 <= node < self.nodes:
            raise FieldError("node", f"must be in 0 to {self.nodes - 1}, not {node!r}")
        if not 0 <= port < self.per_node:
            raise FieldError("port", f"must be in 0 to {self.per_node - 1}, not {port!r}")
        return int(self._link[node, port])

    def peer(self, node: int, port: int) -> NetworkPort | None:
        """The port at the other end; None where the link is down, one way or the other."""
        number = self.number(node, port)
        end = NetworkPort(int(self.network.link_target[number]), int(self._opposite_port[port]))
        down = self.network.wiring.down
        return None if down[number] or down[self._link[end]] else end

    def neighbours(self, node: int) -> dict[int, NetworkPort]:
        """For each of the node's ports whose link is not down, the port at the other end."""
        ends = {port: self.peer(node, port) for port in range(self.per_node)}
        return {port: end for port, end in ends.items() if end is not None}

    def pairs(
        self, nodes: Iterable[int] | None = None
    ) -> Iterator[tuple[NetworkPort, NetworkPort]]:
        """The ends of every full-duplex link that is not down, once: by dimension and node, in
        rings from the port + to the port -; of those that begin at *nodes*, None for all."""
        chosen = range(self.nodes) if nodes is None else list(nodes)
        for index, dim in enumerate(self.network.dimensions):
            first = self._first[index]
            for node in chosen:
                for port in range(first, first + dim.links_per_node):
                    here, end = NetworkPort(node, port), self.peer(node, port)
                    if end is not None and (here.port, here.node) < (end.port, end.node):
                        yield here, end

    @property
    def alike(self) -> bool:
        """True if no link is down and each port has the same link at all nodes."""
        network = self.network
        return not network.wiring.down.any() and all(
            bool((of[self._link] == of[self._link[0]]).all())
            for of in (network.link_fs_per_byte, network.link_latency_fs)
        )

    def _opposite(self, index: int) -> Indices:
        """For each port of a dimension the port at the other end, both from 0."""
        dim = self.network.dimensions[index]
        ports = np.arange(dim.links_per_node)
        if dim.kind is DimensionKind.FULLY_CONNECTED:
            distance, lane = ports // dim.lanes + 1, ports % dim.lanes
            return (dim.size - distance - 1) * dim.lanes + lane
        return ports if dim.single_link else ports ^ 1
