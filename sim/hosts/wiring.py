# SPDX-License-Identifier: Apache-2.0
"""Links between engines, in cycles and beats, and the rings that lie in them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from sim.collectives.path_choice import torus_paths
from sim.collectives.torus_paths import TorusPaths
from sim.fields import FieldError, FoldError, check_integer, check_number, check_type
from sim.network.embedding import RingPlace, hamiltonian_cycle, hamiltonian_rings, ring_through
from sim.network.network import Network
from sim.network.ports import NetworkPort, Ports
from sim.units import FS_PER_S, beats_per_cycle, seconds_to_cycles

__all__ = ["EngineWiring", "Wire", "network_links"]


@dataclass(frozen=True, kw_only=True)
class Wire:
    """One direction of a link, from a port of a rank to a port of its peer.

    Parameters
    ----------
    rank, port, peer, peer_port : int
    latency_cycles : int
        At least 1.
    beats_per_cycle : float
        Above 0, at most 1.
    """

    rank: int
    port: int
    peer: int
    peer_port: int
    latency_cycles: int = 1
    beats_per_cycle: float = 1.0

    def __post_init__(self) -> None:
        for name in "rank", "port", "peer", "peer_port":
            check_integer(name, getattr(self, name), 0)
        check_integer("latency_cycles", self.latency_cycles, 1)
        pace = self.beats_per_cycle
        check_number("beats_per_cycle", pace)
        if not 0 < pace <= 1:
            raise FieldError("beats_per_cycle", f"must be above 0 and at most 1, not {pace!r}")


@dataclass(frozen=True, kw_only=True)
class EngineWiring:
    """Links of engines, and rings through all of them.

    Parameters
    ----------
    links : tuple of (Wire, Wire)
        Both directions of every link.
    rings : tuple of tuples of RingPlace
        By place, with ranks for nodes, each through all ranks, from 0 on. Rings may share links.
    torus : TorusPaths or None
        Phases dimension by dimension, in place of rings.
    alike : bool
        ``links`` are those of rank 0 alone; the others have the same, in their places of the torus.

    Raises
    ------
    ValueError
        For links without their opposite or with a port of another, and rings that are not as above
        or go over links that there are not.
    """

    links: tuple[tuple[Wire, Wire], ...]
    rings: tuple[tuple[RingPlace, ...], ...] = ()
    torus: TorusPaths | None = None
    alike: bool = False

    def __post_init__(self) -> None:
        check_type("alike", self.alike, "True or False", isinstance(self.alike, bool))
        if self.alike and self.torus is None:
            raise FieldError("alike", "must be False for rings")
        for name, of in (("links", "pairs of Wire"), ("rings", "tuples of RingPlace")):
            found = getattr(self, name)
            check_type(name, found, f"a tuple of {of}", isinstance(found, tuple))
            if not found and (name == "links" or self.torus is None):
                raise FieldError(name, "must be at least one")
        torus = self.torus
        check_type("torus", torus, "TorusPaths or None", isinstance(torus, TorusPaths | None))
        if torus is not None and self.rings:
            raise FieldError("rings", "must be none beside the paths of a torus")
        pairs = all(
            isinstance(link, tuple) and len(link) == 2 and all(isinstance(w, Wire) for w in link)
            for link in self.links
        )
        check_type("links", self.links, "pairs of Wire", pairs)
        for there, back in self.links:
            if (there.rank, there.port, there.peer, there.peer_port) != (
                back.peer, back.peer_port, back.rank, back.port
            ):
                raise FieldError("links", f"must be both directions of a link, not {there}, {back}")
        places = all(
            isinstance(ring, tuple) and ring and all(isinstance(each, RingPlace) for each in ring)
            for ring in self.rings
        )
        check_type("rings", self.rings, "tuples of RingPlace", places)
        if self.alike and (other := next((a.rank for a, _ in self.links if a.rank), None)):
            raise FieldError("links", f"must begin at rank 0 where all are alike, not at {other}")
        ranks = self.ranks
        ends = {(each.rank, each.port): (each.peer, each.peer_port) for each in self.wires}
        if len(ends) < len(self.wires):
            raise FieldError("links", "must have ports of their own")
        if (most := max(rank for rank, _ in ends)) >= ranks:
            raise FieldError("links", f"must be between ranks below {ranks}, not to {most}")
        for ring in self.rings:
            order = [each.node for each in ring]
            if sorted(order) != list(range(ranks)):
                raise FieldError("rings", f"must go once through {ranks} ranks, not {order!r}")
            for here, following in pairwise([*ring, ring[0]]):
                end = following.node, following.previous_port
                if ends.get((here.node, here.next_port)) != end:
                    raise FieldError(
                        "rings", f"must go over links; there is none from port {here.next_port} of "
                        f"rank {here.node} to port {end[1]} of rank {end[0]}"
                    )

        self._check_paths(ends)

    def _check_paths(self, ends: Mapping[tuple[int, int], tuple[int, int]]) -> None:
        """Every path goes over links, in each dimension to the next coordinate and back."""
        torus = self.torus
        if torus is None:
            return
        for path in torus.paths:
            for dimension in path.order:
                ahead, behind = path.ports[dimension]
                places = np.arange(torus.nodes).reshape(torus.shape, order="F")
                following = torus.ranks[np.roll(places, -1, axis=dimension).ravel(order="F")]
                seen = 1 if self.alike else torus.nodes
                for rank, peer in zip(torus.ranks[:seen].tolist(), following[:seen].tolist()):
                    if ends.get((rank, ahead)) != (peer, behind):
                        raise FieldError(
                            "torus", f"must have paths over links; there is none from port {ahead} "
                            f"of rank {rank} to port {behind} of rank {peer}"
                        )

    @property
    def ranks(self) -> int:
        """Ranks that the rings or paths go through."""
        return len(self.rings[0]) if self.torus is None else self.torus.nodes

    @classmethod
    def ring(cls, ranks: int, *, latency_cycles: int, beats_per_cycle: float) -> "EngineWiring":
        """Links of one ring: port 0 of a rank to port 1 of the next, of one rank to its own."""
        links = []
        for rank in range(ranks):
            there = Wire(
                rank=rank, port=0, peer=(rank + 1) % ranks, peer_port=1,
                latency_cycles=latency_cycles, beats_per_cycle=beats_per_cycle,
            )
            links.append((there, _reversed(there)))
        places = (RingPlace(node=rank, next_port=0, previous_port=1) for rank in range(ranks))
        return cls(links=tuple(links), rings=(tuple(places),))

    @classmethod
    def through(cls, network: Network, *, clock_hz: float, bus_bytes: int) -> "EngineWiring":
        """All links of a torus, and one ring through its nodes, or through its ``placement`` where
        it has one; ranks are places of the ring."""
        order = hamiltonian_cycle(network)
        if network.placement is not None and len(network.shape) == 1:
            order = network.placement.tolist()
        ring = ring_through(Ports(network), order)
        return cls.of(network, [ring], clock_hz=clock_hz, bus_bytes=bus_bytes, order=order)

    @classmethod
    def hamiltonian(cls, network: Network, *, clock_hz: float, bus_bytes: int) -> "EngineWiring":
        """All links of a torus, and rings that together use each of them, see
        :func:`~sim.network.embedding.hamiltonian_rings`; ranks are nodes, or places in the
        ``placement`` of the network.

        Raises
        ------
        ValueError
            For a dimension of size 2, or lanes that differ.
        """
        order = None if network.placement is None else network.placement.tolist()
        return cls.of(
            network, hamiltonian_rings(network), clock_hz=clock_hz, bus_bytes=bus_bytes, order=order
        )

    @classmethod
    def by_dimension(
        cls,
        network: Network,
        *,
        style: str,
        fsms: int,
        clock_hz: float,
        bus_bytes: int,
        gather_backwards: bool = False,
        bidirectional: bool = True,
        alike: bool = False,
    ) -> "EngineWiring":
        """All links of a torus, and paths of *fsms* FSMs through it, dimension by dimension; ranks
        are nodes, or places in the ``placement`` of the network.

        Paths take the orders of dimensions that *style* has (those of ``multi_colour`` as often as
        loads all links most alike), both directions and all lanes in turn. With *alike* only rank 0
        gets links, if all nodes have the same.

        Raises
        ------
        ValueError
            For dimensions that are no rings of links both ways, or fewer FSMs than paths.
        """
        check_type("alike", alike, "True or False", isinstance(alike, bool))
        order = None if network.placement is None else network.placement.tolist()
        paths = torus_paths(network, style=style, fsms=fsms, bidirectional=bidirectional)
        torus = TorusPaths(
            shape=network.shape, style=style, paths=paths, gather_backwards=gather_backwards,
            members=() if order is None else tuple(np.argsort(order).tolist()),
        )
        alike = alike and order is None and Ports(network).alike
        return cls(
            links=network_links(
                network, clock_hz=clock_hz, bus_bytes=bus_bytes, order=order,
                nodes=[0] if alike else None,
            ),
            torus=torus, alike=alike,
        )

    @classmethod
    def of(
        cls,
        network: Network,
        rings: Sequence[Sequence[RingPlace]],
        *,
        clock_hz: float,
        bus_bytes: int,
        order: Sequence[int] | None = None,
    ) -> "EngineWiring":
        """The links of a network and *rings* of its nodes.

        Parameters
        ----------
        network : Network
            One of links between nodes, whose ports are those of
            :class:`~sim.network.ports.Ports`; links that are down are left out.
        rings : sequence of sequences of RingPlace
        clock_hz : float
        bus_bytes : int
            Bytes of a beat.
        order : sequence of int or None
            Node of each rank, None for the nodes themselves.

        Raises
        ------
        ValueError
            A link is faster than the bus.
        """
        rank = _ranks(network, order)
        return cls(
            links=network_links(network, clock_hz=clock_hz, bus_bytes=bus_bytes, order=order),
            rings=tuple(
                tuple(
                    RingPlace(
                        node=rank[place.node], next_port=place.next_port,
                        previous_port=place.previous_port,
                    )
                    for place in ring
                )
                for ring in rings
            ),
        )

    def folded(self) -> "EngineWiring":
        """The same of one engine, rank 0: each of its links leads to its own port at the other end.

        Raises
        ------
        FoldError
            Ranks differ: the wiring has rings, in which they have places of their own, or links
            unlike.
        """
        if self.torus is None:
            raise FoldError(
                "wiring", "must be one ring of links alike, or paths by dimension, where one "
                f"engine stands for all, not rings in {len(self.links)} links of their own: ranks "
                "have other places in each ring"
            )
        ports: dict[int, dict[int, tuple[int, int, float]]] = {}
        for wire in self.wires:
            end = wire.peer_port, wire.latency_cycles, wire.beats_per_cycle
            ports.setdefault(wire.rank, {})[wire.port] = end
        for rank, found in [] if self.alike else ports.items():
            if unlike := [port for port in {*ports[0], *found}
                          if ports[0].get(port) != found.get(port)]:
                raise FoldError(
                    "wiring", "must have links alike at all ranks where one engine stands for all, "
                    f"not another at port {min(unlike)} of rank {rank}"
                )
        links = tuple(
            (replace(there, peer=0), replace(back, rank=0))
            for there, back in self.links if there.rank == 0
        )
        first = links[0][0]
        place = RingPlace(node=0, next_port=first.port, previous_port=first.peer_port)
        return EngineWiring(links=links, rings=((place,),))

    @property
    def wires(self) -> list[Wire]:
        """Both directions of all links."""
        return [wire for link in self.links for wire in link]

    @property
    def latencies(self) -> tuple[int, int]:
        """Shortest and longest latency, in cycles."""
        found = [wire.latency_cycles for wire in self.wires]
        return min(found), max(found)


def network_links(
    network: Network,
    *,
    clock_hz: float,
    bus_bytes: int,
    order: Sequence[int] | None = None,
    nodes: Sequence[int] | None = None,
) -> tuple[tuple[Wire, Wire], ...]:
    """Both directions of each link of a network, or of those that begin at *nodes*; parameters and
    errors as of `EngineWiring.of`.

    Latencies are rounded up to whole cycles, at least 1.
    """
    check_number("clock_hz", clock_hz)
    if not clock_hz > 0:
        raise FieldError("clock_hz", f"must be above 0, not {clock_hz!r}")
    check_integer("bus_bytes", bus_bytes, 1)
    ports = Ports(network)
    rank = _ranks(network, order)

    def wire(a: NetworkPort, b: NetworkPort) -> Wire:
        link = ports.link(*a)
        # The rate of a link is one of payload: engines send the headers themselves.
        rate = link.bytes_per_s / network.dimensions[link.dimension].efficiency
        return Wire(
            rank=rank[a.node], port=a.port, peer=rank[b.node], peer_port=b.port,
            latency_cycles=seconds_to_cycles(link.latency_fs / FS_PER_S, clock_hz),
            beats_per_cycle=beats_per_cycle(rate, clock_hz=clock_hz, bus_bytes=bus_bytes),
        )

    return tuple((wire(a, b), wire(b, a)) for a, b in ports.pairs(nodes))


def _ranks(network: Network, order: Sequence[int] | None) -> dict[int, int]:
    """Rank of each node."""
    nodes = range(network.nodes)
    chosen = list(nodes if order is None else order)
    if sorted(chosen) != list(nodes):
        raise FieldError("order", f"must have every node below {len(nodes)} once, not {chosen!r}")
    return {node: rank for rank, node in enumerate(chosen)}


def _reversed(wire: Wire) -> Wire:
    return Wire(
        rank=wire.peer, port=wire.peer_port, peer=wire.rank, peer_port=wire.port,
        latency_cycles=wire.latency_cycles, beats_per_cycle=wire.beats_per_cycle,
    )
