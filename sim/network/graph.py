"""Nodes, ports and links, whatever their shape."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

__all__ = ["IMMEDIATE", "Link", "LinkTiming", "PortRef", "Topology"]


@dataclass(frozen=True, kw_only=True)
class LinkTiming:
    """One direction of a link. A bandwidth of None means: as much as the ports can carry."""

    latency_ps: int = 0
    bandwidth_bytes_per_s: float | None = None

    def __post_init__(self) -> None:
        if isinstance(self.latency_ps, bool) or not isinstance(self.latency_ps, int):
            raise TypeError(f"latency_ps must be an integer, not {self.latency_ps!r}")
        if self.latency_ps < 0:
            raise ValueError(f"latency_ps must be at least 0, not {self.latency_ps!r}")
        if self.bandwidth_bytes_per_s is not None and not self.bandwidth_bytes_per_s > 0:
            raise ValueError(
                f"bandwidth_bytes_per_s must be above 0 or None, not {self.bandwidth_bytes_per_s!r}"
            )


IMMEDIATE = LinkTiming()
"""No latency of its own and no bound on the bandwidth."""


@dataclass(frozen=True, order=True)
class PortRef:
    """One port of one node."""

    node: int
    port: int


@dataclass(frozen=True, kw_only=True)
class Link:
    """A full-duplex link; ``forward`` is the direction from a to b."""

    node_a: int
    port_a: int
    node_b: int
    port_b: int
    forward: LinkTiming = IMMEDIATE
    backward: LinkTiming = IMMEDIATE

    @property
    def ends(self) -> tuple[PortRef, PortRef]:
        return PortRef(self.node_a, self.port_a), PortRef(self.node_b, self.port_b)


class Topology:
    """Numbered nodes with numbered ports, joined by links; at most one link a port.

    Parameters
    ----------
    nodes : int
        Number of nodes.
    ports : int
        Ports of each node. Not every port needs a link.
    links : iterable of :class:`Link`
    """

    def __init__(self, *, nodes: int, ports: int, links: Iterable[Link]) -> None:
        for name, value, least in (("nodes", nodes, 1), ("ports", ports, 0)):
            if isinstance(value, bool) or not isinstance(value, int):
                raise TypeError(f"{name} must be an integer, not {value!r}")
            if value < least:
                raise ValueError(f"{name} must be at least {least}, not {value!r}")
        self.nodes = nodes
        self.ports = ports
        self.links = tuple(links)
        self._check_links()

    @cached_property
    def _peers(self) -> dict[PortRef, tuple[PortRef, LinkTiming]]:
        peers = {}
        for link in self.links:
            a, b = link.ends
            peers[a] = b, link.forward
            peers[b] = a, link.backward
        return peers

    def peer(self, node: int, port: int) -> PortRef | None:
        """The port at the other end of the link, None where there is no link."""
        self._check_node(node)
        if not 0 <= port < self.ports:
            raise ValueError(f"port must be in 0 to {self.ports - 1}, not {port!r}")
        entry = self._peers.get(PortRef(node, port))
        return None if entry is None else entry[0]

    def timing(self, node: int, port: int) -> LinkTiming:
        """Of the direction that leaves ``node`` through ``port``."""
        if self.peer(node, port) is None:
            raise ValueError(f"port {port} of node {node} has no link")
        return self._peers[PortRef(node, port)][1]

    def neighbours(self, node: int) -> dict[int, PortRef]:
        """For each of the node's ports with a link, the port at the other end."""
        self._check_node(node)
        ends = {port: self.peer(node, port) for port in range(self.ports)}
        return {port: end for port, end in ends.items() if end is not None}

    def _check_node(self, node: int) -> None:
        if not 0 <= node < self.nodes:
            raise ValueError(f"node must be in 0 to {self.nodes - 1}, not {node!r}")

    def _check_links(self) -> None:
        taken: set[PortRef] = set()
        for link in self.links:
            for end in link.ends:
                self._check_node(end.node)
                if not 0 <= end.port < self.ports:
                    raise ValueError(
                        f"port of node {end.node} must be in 0 to {self.ports - 1}, "
                        f"not {end.port!r}"
                    )
                if end in taken:
                    raise ValueError(f"port {end.port} of node {end.node} has two links")
                taken.add(end)
