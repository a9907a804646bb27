# SPDX-License-Identifier: Apache-2.0
"""Pull as the hardware does it: each block has its requester, and members take turns.

The requester of a block loads it. At its first switch the load waits for an entry of the table of
the requester's port; further on it takes one if there is one. Every other member answers with its
operand when the load has come and it has begun itself; the answers are added in the entries, and
the sum comes to the requester, which adds its own operand and multicasts the result.

A message is a block of each member, so each send here is of one requester alone.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.collectives.program import Relay, RelayKind, Send, Source
from sim.collectives.sweeps import PARTIAL, REQUEST, RESULT, Hop, Sweeps

__all__ = ["turns"]

Indices = NDArray[np.int64]

def turns(sweeps: Sweeps, block: float, prior: Source) -> tuple[Send, ...]:
    """The first sends of members: a load of the own block, and permission to answer others.

    Parameters
    ----------
    sweeps
        Those of the plane.
    block : float
        Size of the data that one member requests, over that of the chunk.
    prior : Source
        Source of the data.
    """
    made = [_Turn(sweeps, requester, block) for requester in range(sweeps.size)]
    return tuple(replace(send, source=prior) for turn in made for send in turn.sends())


class _Turn:
    """The block of one requester, given by its rank."""

    def __init__(self, sweeps: Sweeps, requester: int, block: float) -> None:
        self.s, self.block = sweeps, block
        nodes = np.arange(sweeps.network.nodes)
        self.asker = nodes[sweeps.rank == requester]
        self.others = nodes[sweeps.rank != requester]
        self.home = sweeps.leaf[self.asker]
        self.away = np.setdiff1d(sweeps.leaves, self.home)
        rows = np.full((sweeps.network.vertices, 1), requester)
        self.blocks = lambda step: rows

    def sends(self) -> tuple[Send, ...]:
        """Sends of members: the load of the requester, and sends that let others answer."""
        there, back = self._answers()
        asked = self._answering(there, back)
        load = self._send(
            self.s.up, self._loads(asked, there, back), only=self.asker, asks=True, step="load"
        )
        begin = Send(
            channel=self.s.stay(self.others), fraction=0.0, blocks=self.s.nothing, relay=asked,
            step="begin",
        )
        own = Send(
            channel=self.s.stay(self.asker), fraction=0.0, blocks=self.s.nothing,
            relay=self.own, step="own",
        )
        return load, begin, own

    # ---- Sends of this block.

    def _send(
        self, hop: Hop, relay: Relay | None, *, only: Indices, asks: bool = False, **more: Any
    ) -> Send:
        if asks:
            return self.s.send(
                hop, 0.0, self.s.nothing, relay=relay, only=only, asks=self.block,
                traffic=REQUEST, **more,
            )
        return self.s.send(hop, self.block, self.blocks, relay=relay, only=only, **more)

    def _down(
        self, at: Indices, chosen: Indices, relay: Relay | None, **more: Any
    ) -> list[Send]:
        """Sends from leaves to the chosen ones of their members."""
        sends = []
        for hop in self.s.down:
            only = at[np.isin(hop.peer[at], chosen)]
            if len(only):
                sends.append(self._send(hop, relay, only=only, **more))
        return sends

    def _between(
        self, source: Indices, target: Indices, at_spine: Relay | None, goal: Relay, **more: Any
    ) -> tuple[Send, ...]:
        """The send from leaves to other leaves, or to spines, whose relay is *at_spine*."""
        if not self.s.two_levels:
            return ()
        relay = goal if at_spine is None else at_spine
        return (self._send(self.s.out, relay, only=source, **more),)

    def _from_spines(self, target: Indices, goal: Relay, **more: Any) -> list[Send]:
        sends = []
        for hop in self.s.into:
            only = self.s.spines[np.isin(hop.peer[self.s.spines], target)]
            if len(only):
                sends.append(self._send(hop, goal, only=only, **more))
        return sends

    # ---- Tables, each at the port that leads to the requester.

    def _table(self, at: Indices) -> Indices:
        s = self.s
        table = np.full(s.network.vertices, -1)
        table[self.home] = s.up.link[self.asker]
        if not s.two_levels:
            return table
        # The links by which the load comes from the requester's leaf.
        if not len(s.spines):
            table[s.out.peer[self.home]] = s.out.link[self.home]
            return table
        table[s.out.peer[self.home]] = s.out.link[self.home]
        for hop in s.into:
            here = s.spines[np.isin(hop.peer[s.spines], self.away)]
            table[hop.peer[here]] = hop.link[here]
        return table

    # ---- Steps of a turn, the last one first.

    def _results(self) -> Relay:
        """At the requester's leaf: the result goes to all others."""
        s = self.s
        traffic: dict[str, Any] = {"traffic": RESULT}
        last = s.relay(self.away, 1, *self._down(self.away, self.others, None, **traffic))
        spine = None
        if len(s.spines):
            spine = s.relay(s.spines, 1, *self._from_spines(self.away, last, **traffic))
        return s.relay(
            self.home,
            1,
            *self._between(self.home, self.away, spine, last, **traffic),
            *self._down(self.home, self.others, None, **traffic),
        )

    def _answers(self) -> tuple[Relay, Relay | None]:
        """Relays that add the answers: at the requester's leaf, and at the others."""
        s = self.s
        adds = {"kind": RelayKind.ADD, "table": self._table(self.home), "held": self.block}
        result = self._send(
            s.up, self._results(), only=self.asker, source=Source.REDUCED, step="result",
            traffic=RESULT,
        )
        kept = Send(
            channel=s.stay(self.asker), fraction=self.block, blocks=self.blocks,
            source=Source.REDUCED, step="own result",
        )
        store = np.full(s.network.vertices, -1)
        store[self.asker] = s.up.link[self.asker]
        added = s.relay(self.asker, 2, result, kept, kind=RelayKind.HOME, table=store,
                        held=self.block)
        own = Send(
            channel=s.stay(self.asker), fraction=0.0, blocks=s.nothing, relay=added
        )
        self.own = s.relay(self.asker, 1, own, kind=RelayKind.OWN, table=store, held=self.block)
        more: dict[str, Any] = {"traffic": PARTIAL, "step": "sum"}
        home = s.relay(
            self.home,
            s.group - 1 + s.two_levels,
            *self._down(self.home, self.asker, added, **more),
            **adds,
        )
        if not s.two_levels:
            return home, None
        spine = None
        if len(s.spines):
            spine = s.relay(
                s.spines, s.size // s.group - 1, *self._from_spines(self.home, home, **more), **adds
            )
        up = self._between(self.away, self.home, spine, home, **more)
        return home, s.relay(self.away, s.group, *up, **adds)

    def _answering(self, home: Relay, away: Relay | None) -> Relay:
        """At each other member: it answers once the load has come and it has begun itself."""
        s = self.s
        more: dict[str, Any] = {
            "source": Source.FRESH, "step": "answer", "reads": True, "traffic": PARTIAL,
        }
        near = self.others[np.isin(s.leaf[self.others], self.home)]
        sends = [self._send(s.up, home, only=near, **more)] if len(near) else []
        if away is not None:
            far = np.setdiff1d(self.others, near)
            sends.append(self._send(s.up, away, only=far, **more))
        return s.relay(self.others, 2, *sends)

    def _loads(self, asked: Relay, home: Relay, away: Relay | None) -> Relay:
        """At the requester's leaf: the load goes to all others."""
        s = self.s
        more: dict[str, Any] = {"asks": True, "step": "load on"}
        table = self._table(self.home)
        takes = {"table": table, "held": self.block}
        spine = last = None
        if away is not None:
            last = s.relay(
                self.away, 1, *self._down(self.away, self.others, asked, **more),
                kind=RelayKind.TRY, adds=away, **takes,
            )
            if len(s.spines):
                adds = _next_relay(away)
                spine = s.relay(
                    s.spines, 1, *self._from_spines(self.away, last, **more),
                    kind=RelayKind.TRY, adds=adds, **takes,
                )
        far: Sequence[Send] = ()
        if last is not None:
            far = self._between(self.home, self.away, spine, last, **more)
        near = self._down(self.home, self.others, asked, **more)
        return s.relay(
            self.home, 1, *far, *near, kind=RelayKind.WAIT, adds=home, **takes
        )


def _next_relay(relay: Relay) -> Relay:
    """The relay that the only send of *relay* goes to."""
    (send,) = relay.sends
    assert send.relay is not None
    return send.relay
