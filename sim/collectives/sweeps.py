# SPDX-License-Identifier: Apache-2.0
"""Sends and relays of one plane of switches that reduce, from which its collectives are made."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sim.collectives.phases import group_ranks
from sim.collectives.program import (
    Receipt,
    Relay,
    RelayKind,
    Send,
    Source,
)
from sim.network.dimension import DimensionKind
from sim.network.network import Channel, Network

__all__ = ["PARTIAL", "REQUEST", "RESULT", "Hop", "Sweeps"]

Indices = NDArray[np.int64]

REQUEST, PARTIAL, RESULT = range(3)
"""Classes of traffic, each with credits of its own."""


class Hop(NamedTuple):
    """Single links: ``peer`` and ``link`` of each vertex, -1 for those that have none."""

    peer: Indices
    link: Indices


class Sweeps:
    """Sends through the tree of a plane, with the messages that switches on the way wait for."""

    def __init__(self, network: Network, dimension: int, plane: int) -> None:
        dim = network.dimensions[dimension]
        self.network = network
        self.dimension = dimension
        self.size = dim.size
        self.rank = group_ranks(network, [dimension])
        lane = plane % dim.lanes
        ours = (network.link_dimension == dimension) & (network.link_lane == lane)
        if (ours & network.wiring.down).any():
            raise ValueError(
                f"switches that reduce need all links of dimension {dimension}; one of plane "
                f"{lane} is down"
            )
        source, target = network.link_source, network.link_target
        member = ours & ((source < network.nodes) | (target < network.nodes))
        ups = np.flatnonzero(member & (source < network.nodes))
        trunks = np.flatnonzero(ours & ~member)
        self.up = self._hop(ups)
        self.leaf = self.up.peer[: network.nodes]
        self.down = self._fan(np.flatnonzero(member & (target < network.nodes)))
        self.leaves = np.unique(self.leaf)
        self.group = self.size
        self.spines = np.zeros(0, np.int64)
        if dim.kind is DimensionKind.FAT_TREE and dim.group < dim.size:
            self.group = dim.group
            # Links come in pairs: up from a leaf, down to it. Without a spine each of the two
            # leaves has a link of its own to the other.
            self.out = self._hop(trunks[::2])
            self.into = self._fan(trunks[1::2]) if dim.spine else []
            self.spines = np.unique(target[trunks[::2]]) if dim.spine else self.spines
        self.two_levels = self.group < self.size
        # Ranks of the members at each leaf, and of all members at spines.
        at_leaf = np.zeros((network.vertices, self.group), np.int64)
        for leaf in self.leaves.tolist():
            at_leaf[leaf] = np.sort(self.rank[self.leaf == leaf])
        self.at_leaf = at_leaf
        self.home = plane % 2

    # ---- Links as channels.

    def _hop(self, links: Indices) -> Hop:
        hop = self._none()
        hop.peer[self.network.link_source[links]] = self.network.link_target[links]
        hop.link[self.network.link_source[links]] = links
        return hop

    def _fan(self, links: Indices) -> list[Hop]:
        """Links that leave switches: the first one of each, the second one, ..."""
        links = links[np.argsort(self.network.link_source[links], kind="stable")]
        source = self.network.link_source[links]
        place = np.arange(len(links)) - np.searchsorted(source, source)
        return [self._hop(links[place == number]) for number in range(int(place.max()) + 1)]

    def _none(self) -> Hop:
        gaps = np.full((2, self.network.vertices), -1)
        return Hop(gaps[0], gaps[1])

    def stay(self, chosen: Indices) -> Channel:
        """A channel from a switch to itself: its partial result joins those that others send it."""
        peer = np.full(self.network.vertices, -1)
        peer[chosen] = chosen
        return Channel(peer=peer, links=np.zeros((0, self.network.vertices), np.int64))

    def send(
        self,
        hop: Hop,
        fraction: float,
        blocks: Callable[[int], Indices],
        *,
        relay: Relay | None = None,
        slot: int = 0,
        source: Source = Source.FORWARD,
        receipt: Receipt = Receipt.KEEP,
        only: Indices | None = None,
        **options: Any,
    ) -> Send:
        peer, link = hop.peer, hop.link
        if only is not None:
            peer, link = np.full_like(peer, -1), np.full_like(link, -1)
            peer[only], link[only] = hop.peer[only], hop.link[only]
        return Send(
            channel=Channel(peer=peer, links=link[None, :]),
            fraction=fraction,
            slot=slot,
            source=source,
            receipt=receipt,
            blocks=blocks,
            relay=relay,
            **options,
        )

    def relay(self, at: Indices, need: int, *sends: Send, **options: Any) -> Relay:
        needs = np.zeros(self.network.vertices, np.int32)
        needs[at] = need
        return Relay(needs=needs, sends=sends, **options)

    # ---- Blocks, by rank of the member that they belong to.

    def _everything(self, step: int) -> Indices:
        return np.broadcast_to(np.arange(self.size), (self.network.vertices, self.size))

    def nothing(self, step: int) -> Indices:
        return np.zeros((self.network.vertices, 0), np.int64)

    def _others(self, step: int) -> Indices:
        """All blocks but the member's own, by rank."""
        return _without(np.arange(self.size)[:, None], self.size)

    def _own(self, step: int) -> Indices:
        return np.arange(self.size)[:, None]

    def _inside(self, step: int) -> Indices:
        return self.at_leaf

    def _outside(self, step: int) -> Indices:
        return _without(self.at_leaf, self.size)

    def _of_peer(self, hop: Hop, *, own: bool, level: str) -> Callable[[int], Indices]:
        """Blocks of the members behind a link of a switch, or (not *own*) all other blocks."""
        if level == "member":
            peer = np.where(hop.peer < 0, 0, hop.peer)
            ranks = self.rank[np.minimum(peer, self.network.nodes - 1)][:, None]
        else:
            ranks = self.at_leaf[hop.peer]
        rows = ranks if own else _without(ranks, self.size)
        return lambda step: rows

    # ---- Sweeps.

    def whole(self, data: float, source: Source) -> Send:
        """All operands up, the result down."""
        all_of_it = self._everything
        down = tuple(self.send(hop, data, all_of_it, traffic=RESULT) for hop in self.down)
        if not self.two_levels:
            root = self.relay(self.leaves, self.size, *down, held=data, **self._tables())
            return self.send(
                self.up, data, all_of_it, relay=root, source=source, traffic=PARTIAL, reads=True
            )
        if len(self.spines):
            last = self.relay(self.leaves, 1, *down)
            into = tuple(self.send(hop, data, all_of_it, relay=last) for hop in self.into)
            top = self.relay(self.spines, self.size // self.group, *into, held=data)
            climb = self.send(self.out, data, all_of_it, relay=top)
            first = self.relay(self.leaves, self.group, climb, held=data)
            return self.send(self.up, data, all_of_it, relay=first, source=source)
        # Two leaves: the home's leaf adds the partial result of the other.
        homes, away = self.leaves[self.home :: 2], self.leaves[1 - self.home :: 2]
        last = self.relay(away, 1, *down)
        back = self.send(self.out, data, all_of_it, relay=last, only=homes)
        top = self.relay(homes, 2, back, *down, held=data)
        there = self.send(self.out, data, all_of_it, relay=top, only=away)
        stay = Send(channel=self.stay(homes), fraction=data, blocks=all_of_it, relay=top)
        first = self.relay(self.leaves, self.group, there, stay, held=data)
        return self.send(self.up, data, all_of_it, relay=first, source=source)

    def _tables(self) -> dict[str, Any]:
        """The leaves' tables, those of all ports as one: blocks have homes at ports in turn."""
        table = np.full(self.network.vertices, -1)
        table[self.leaves] = len(self.network.link_source) + self.leaves
        return {"kind": RelayKind.STORE, "table": table}

    def home_push(self, data: float, source: Source) -> Send:
        """As `whole`, but each leaf reduces the blocks whose homes are its own members."""
        if not self.two_levels:
            return self.whole(data, source)
        leaves = self.size // self.group
        share, others = data / leaves, data * (leaves - 1) / leaves
        inside, outside = self._inside, self._outside
        down = tuple(self.send(hop, data, self._everything, traffic=RESULT) for hop in self.down)
        last = self.relay(self.leaves, 2, *down)
        results = self._between(share, others, inside, False, last)
        kept = Send(
            channel=self.stay(self.leaves), fraction=share, blocks=inside, relay=last
        )
        reduced = self.relay(self.leaves, 2, results, kept, held=share, **self._tables())
        operands = self._between(others, share, outside, True, reduced, copies=self.group)
        own = Send(
            channel=self.stay(self.leaves), fraction=share, blocks=inside, relay=reduced
        )
        first = self.relay(self.leaves, self.group, operands, own, held=data)
        return self.send(
            self.up, data, self._everything, relay=first, source=source, traffic=PARTIAL, reads=True
        )

    def _between(
        self,
        out: float,
        into: float,
        passed: Callable[[int], Indices],
        own: bool,
        goal: Relay,
        *,
        copies: int = 1,
    ) -> Send:
        """Send from every leaf to the others: blocks of their members, or (not *own*) of its own.

        *out* and *into* are the sizes of one of the *copies* that a leaf sends; blocks of a leaf's
        members come from each of the other leaves.
        """
        if not len(self.spines):
            return self.send(self.out, copies * out, passed, relay=goal, copies=copies)
        leaves = self.size // self.group
        down = copies * (leaves - 1) if own else 1
        drops = tuple(
            self.send(
                hop, down * into, self._of_peer(hop, own=own, level="leaf"), relay=goal,
                copies=down,
            )
            for hop in self.into
        )
        top = self.relay(self.spines, leaves, *drops)
        return self.send(self.out, copies * out, passed, relay=top, copies=copies)

    def requests(self, source: Source) -> Send:
        """Messages without payload, from all to all."""
        nothing = self.nothing
        down = tuple(
            self.send(hop, 0.0, nothing, receipt=Receipt.REDUCE) for hop in self.down
        )
        return self._two_way(0.0, 0.0, 0.0, nothing, nothing, nothing, None, down, source)

    def scatter(self, block: float, source: Source, *, slot: int, own: bool) -> Send:
        """Operands up; down to each member the sum of its block, without its own operand if that
        has not been sent."""
        down = tuple(
            self.send(
                hop,
                block,
                self._of_peer(hop, own=True, level="member"),
                slot=slot,
                receipt=Receipt.KEEP if own else Receipt.REDUCE,
            )
            for hop in self.down
        )
        return self._two_way(
            block * (self.size if own else self.size - 1),
            block * (self.size - self.group),
            block * self.group,
            self._everything if own else self._others,
            self._outside,
            self._inside,
            True,
            down,
            source,
            held=block * self.group,
        )

    def gather(self, block: float, source: Source, *, slot: int) -> Send:
        """Every member's block up, and down to each member those of the others."""
        down = tuple(
            self.send(
                hop,
                block * (self.size - 1),
                self._of_peer(hop, own=False, level="member"),
                slot=slot,
            )
            for hop in self.down
        )
        return self._two_way(
            block,
            block * self.group,
            block * (self.size - self.group),
            self._own,
            self._inside,
            self._inside,
            False,
            down,
            source,
        )

    def _two_way(
        self,
        up: float,
        out: float,
        into: float,
        sent: Callable[[int], Indices],
        passed: Callable[[int], Indices],
        kept: Callable[[int], Indices],
        own: bool | None,
        down: tuple[Send, ...],
        source: Source,
        *,
        held: float = 0.0,
    ) -> Send:
        """Send from members to leaves, between leaves, and from leaves to members.

        ``own``: a leaf gets from a spine the blocks of its own members (True), all other blocks
        (False), or nothing (None).
        """
        if not self.two_levels:
            root = self.relay(self.leaves, self.size, *down, held=held)
            return self.send(self.up, up, sent, relay=root, source=source)
        last = self.relay(self.leaves, 2, *down, held=held)
        stay = Send(
            channel=self.stay(self.leaves),
            fraction=0.0 if own is None else into if own else out,
            blocks=kept,
            relay=last,
        )
        if len(self.spines):
            drops = tuple(
                self.send(
                    hop,
                    into,
                    self.nothing
                    if own is None
                    else self._of_peer(hop, own=own, level="leaf"),
                    relay=last,
                )
                for hop in self.into
            )
            top = self.relay(self.spines, self.size // self.group, *drops)
            climb = self.send(self.out, out, passed, relay=top)
        else:
            climb = self.send(self.out, out, passed, relay=last)
        first = self.relay(self.leaves, self.group, climb, stay)
        return self.send(self.up, up, sent, relay=first, source=source)

    def broadcast(self, data: float, source: Source) -> Send:
        """From the member of rank 0 to all others."""
        nodes = np.arange(self.network.nodes)
        roots = nodes[self.rank == 0]
        everything = self._everything
        others = []
        for hop in self.down:
            peer = np.where(hop.peer < 0, 0, hop.peer)
            to_others = (hop.peer >= 0) & (self.rank[np.minimum(peer, nodes[-1])] > 0)
            others.append(
                self.send(hop, data, everything, only=np.flatnonzero(to_others))
            )
        last = self.relay(self.leaves, 1, *others)
        if self.two_levels:
            first_leaf = np.unique(self.leaf[roots])
            far = np.setdiff1d(self.leaves, first_leaf)
            stay = Send(
                channel=self.stay(first_leaf), fraction=data, blocks=everything, relay=last
            )
            climb = self.send(self.out, data, everything, relay=last, only=first_leaf)
            if len(self.spines):
                drops = [
                    self.send(
                        hop, data, everything, relay=last,
                        only=np.flatnonzero(np.isin(hop.peer, far)),
                    )
                    for hop in self.into
                ]
                top = self.relay(self.spines, 1, *drops)
                climb = self.send(self.out, data, everything, relay=top, only=first_leaf)
            last = self.relay(first_leaf, 1, climb, stay)
        return self.send(self.up, data, everything, relay=last, source=source, only=roots)


def _without(ranks: Indices, size: int) -> Indices:
    """For each row of ranks, all others."""
    left = np.ones((len(ranks), size), bool)
    np.put_along_axis(left, ranks, False, axis=1)
    # Rows of vertices that take no part may hold a rank twice; they are cut to the same length.
    rows = [np.flatnonzero(row)[: size - ranks.shape[1]] for row in left]
    return np.array(rows, np.int64).reshape(len(ranks), size - ranks.shape[1])
