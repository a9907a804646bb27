# SPDX-License-Identifier: Apache-2.0
"""The language of collective algorithms: who sends which blocks to whom, round by round.

An algorithm is written once, for a group of members numbered from 0. From it come the phases of
the event kernel (:mod:`sim.collectives.phases`), the programs of ACE's FSMs
(:mod:`sim.collectives.fsm_program`) and the order of additions that numpy follows
(:mod:`sim.collectives.golden`).

The meaning of a *block* depends on the collective. In a group of k:

* reduce-scatter, all-reduce, broadcast: vectors are cut into k blocks, and all members have all of
  them. Member b ends with the sum of block b, with all sums, or with the blocks of member 0.
* all-gather: block b is the data that member b begins with. All members end with all blocks.
* all-to-all: block ``a * k + b`` is the data that member a has for member b.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sim.collectives.own import checked, is_own
from sim.fields import FieldError
from sim.workload.graph import CollectiveKind

__all__ = [
    "Algorithm",
    "At",
    "Exchange",
    "Group",
    "Linked",
    "Listed",
    "Messages",
    "Neighbour",
    "Peer",
    "Round",
    "Shift",
    "block_count",
    "held_at_start",
    "messages",
    "places_among_equals",
]

Indices = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Group:
    """The members that take part.

    ``shape``: members along each of the dimensions that the group spans, the first varying fastest
    in their numbering. ``way``: 1 or -1, the direction of the ring that is used; ``number``: the
    index of that ring or switch in its dimension.
    """

    shape: tuple[int, ...]
    way: int = 1
    number: int = 0

    @property
    def size(self) -> int:
        return math.prod(self.shape)


# ---- Peers to send to.


@dataclass(frozen=True)
class Neighbour:
    """The next member round the ring (``way`` 1) or the one before it (-1), over the ring's own
    link."""

    way: int

    def ranks(self, group: Group) -> Indices:
        return (np.arange(group.size) + self.way) % group.size


@dataclass(frozen=True)
class Linked(Neighbour):
    """The next member (``way`` 1) or the one before it (-1) of a ring whose links lie in several
    dimensions.

    ``members``: by member, the one that it sends to; ``steps``: the dimension, from 0 in the group,
    and the direction of the link to it.
    """

    members: tuple[int, ...]
    steps: tuple[tuple[int, int], ...]

    def ranks(self, group: Group) -> Indices:
        return np.array(self.members)


@dataclass(frozen=True)
class Shift:
    """The member that is so many further on along each dimension of the group, over the
    network's route."""

    offsets: tuple[int, ...]

    def ranks(self, group: Group) -> Indices:
        rank, left, stride = np.zeros(group.size, np.int64), np.arange(group.size), 1
        for size, offset in zip(group.shape, self.offsets, strict=True):
            rank += (left + offset) % size * stride
            left, stride = left // size, stride * size
        return rank


@dataclass(frozen=True)
class Exchange:
    """The member whose number differs in the bits of ``mask``."""

    mask: int

    def ranks(self, group: Group) -> Indices:
        return np.arange(group.size) ^ self.mask


@dataclass(frozen=True)
class Listed:
    """The member that a list names as the peer of each, -1 for members that send nothing."""

    members: tuple[int, ...]

    def ranks(self, group: Group) -> Indices:
        return np.asarray(self.members, np.int64)


Peer: TypeAlias = Neighbour | Shift | Exchange | Listed


# ---- Blocks to send.


class At(NamedTuple):
    """Sender and receiver of blocks: all members at once, as columns, so that expressions in them
    yield a row of blocks for each member.

    ``rank`` and ``peer``: sender and receiver; ``to``: the entry of the round's peers; ``step``:
    repetitions of the round so far.
    """

    rank: Indices
    peer: Indices
    to: Peer
    step: int


@dataclass(frozen=True, kw_only=True)
class Round:
    """Every member sends blocks to its peers, all at the same time, and receives theirs.

    A member begins once it has received all messages of earlier rounds.

    Parameters
    ----------
    to : Peer or a tuple of them
    send : function of At
        The blocks: a number, a column (one per member) or a row of them per member. Every step
        sends the same number of blocks.
    reduce : bool
        Receivers add the blocks to their own; otherwise they replace their own.
    times : int
        Repetitions ("steps" of the round).
    on_arrival : bool
        Sums are made when a message arrives, not by the receiver's next send: where several
        messages meet. Where the next send does not carry just the data that have come, they are
        made on arrival anyway.
    cascade : bool
        A member sends only after it has received this round's messages itself, so that data run
        along a tree or a chain.
    """

    to: Peer | tuple[Peer, ...]
    send: Callable[[At], Any]
    reduce: bool = False
    times: int = 1
    on_arrival: bool = False
    cascade: bool = False

    @property
    def peers(self) -> tuple[Peer, ...]:
        return self.to if isinstance(self.to, tuple) else (self.to,)

    def blocks(self, group: Group, peer: Peer, step: int) -> Indices:
        """Blocks that every member sends to a peer in a step: (members, blocks)."""
        rows = self._blocks(peer, np.arange(group.size), peer.ranks(group), step)
        return np.broadcast_to(rows, (group.size, rows.shape[1]))

    def count(self, group: Group) -> int:
        """Blocks per message; all members send as many as member 0."""
        peer = self.peers[0]
        return len(self._blocks(peer, np.zeros(1, np.int64), peer.ranks(group)[:1], 0)[0])

    def _blocks(self, to: Peer, rank: Indices, peer: Indices, step: int) -> Indices:
        sent = self.send(At(rank=rank[:, None], peer=peer[:, None], to=to, step=step))
        return np.atleast_2d(np.asarray(sent, np.int64))


@dataclass(frozen=True, kw_only=True, eq=False)
class Algorithm:
    """A name, and the rounds of each collective that it does, as functions of the group.

    If no all-reduce is given, it is the reduce-scatter followed by the all-gather.
    """

    name: str
    collectives: Mapping[CollectiveKind, Callable[[Group], Sequence[Round]]]

    def does(self, kind: CollectiveKind) -> bool:
        halves = {CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALL_GATHER}
        both = kind is CollectiveKind.ALL_REDUCE and halves <= set(self.collectives)
        return both or kind in self.collectives

    def rounds(self, kind: CollectiveKind, group: Group) -> tuple[Round, ...]:
        """The rounds of a collective.

        Raises
        ------
        ValueError
            If the algorithm does not do that collective, or not in groups of this size. One of a
            user names the line of the function that fails, or returns what is not allowed.
        """
        if not self.does(kind):
            known = ", ".join(each.value for each in CollectiveKind if self.does(each))
            raise ValueError(f"algorithm {self.name} does {known} only, not {kind.value}")
        blocks = block_count(kind, group.size)
        what = f"algorithm {self.name}, {kind.value}"
        return tuple(
            each
            for function in self.functions(kind)
            for each in (
                checked(function, group, what=what, blocks=blocks)
                if is_own(function)
                else function(group)
            )
        )

    def functions(self, kind: CollectiveKind) -> Sequence[Callable[[Group], Sequence[Round]]]:
        """The functions whose rounds make up a collective that it does."""
        if kind in self.collectives:
            return [self.collectives[kind]]
        halves = CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALL_GATHER
        return [self.collectives[half] for half in halves]


def block_count(kind: CollectiveKind, size: int) -> int:
    """Blocks of a collective of a group."""
    return size * size if kind is CollectiveKind.ALL_TO_ALL else size


def held_at_start(kind: CollectiveKind, size: int) -> NDArray[np.bool_]:
    """Which blocks each member begins with: (members, blocks)."""
    held = np.ones((size, block_count(kind, size)), bool)
    if kind is CollectiveKind.ALL_GATHER:
        held = np.eye(size, dtype=bool)
    elif kind is CollectiveKind.ALL_TO_ALL:
        held = np.arange(size * size) // size == np.arange(size)[:, None]
    return held


# ---- Rounds as messages.


class Messages(NamedTuple):
    """Blocks that are sent at the same time, one entry of the arrays for each, ordered by source.

    ``phase`` counts the algorithms that follow each other in a program; ``number`` is the index of
    the block's peer in the round's ``peers``; ``reduce``: the target adds the block to its own.
    ``alone``: no member sends or receives more than one block.
    """

    phase: int
    source: Indices
    target: Indices
    block: Indices
    number: Indices
    peers: tuple[Peer, ...]
    reduce: bool
    alone: bool


def messages(rounds: Sequence[Round], group: Group, *, phase: int = 0) -> Iterator[Messages]:
    """All messages in a feasible order; those yielded together are all sent before any of them
    arrives."""
    for each in rounds:
        count = each.count(group)
        alone = count == 1 and len(each.peers) == 1 and not isinstance(each.to, Listed)
        goals = [peer.ranks(group) for peer in each.peers]
        senders = [np.flatnonzero(goal >= 0) for goal in goals]
        source = np.concatenate([np.repeat(part, count) for part in senders])
        target = np.concatenate(
            [np.repeat(goal[part], count) for goal, part in zip(goals, senders)]
        )
        number = np.repeat(np.arange(len(goals)), [count * len(part) for part in senders])
        order = np.argsort(source, kind="stable")
        waves = list(_waves(source, target, order)) if each.cascade else [order]
        for step in range(each.times):
            sent = [each.blocks(group, peer, step) for peer in each.peers]
            block = np.concatenate([part[who].ravel() for part, who in zip(sent, senders)])
            for now in waves:
                yield Messages(
                    phase, source[now], target[now], block[now], number[now], each.peers,
                    each.reduce, alone,
                )


def _waves(source: Indices, target: Indices, order: Indices) -> Iterator[Indices]:
    """Split a cascade into waves, starting with senders that wait for nothing; all messages to one
    member are in the same wave."""
    while len(order):
        waiting = np.isin(source[order], target[order])
        ready = ~np.isin(target[order], target[order[waiting]])
        if not ready.any():
            raise FieldError("cascade", f"of member {source[order[0]]} waits for itself")
        yield order[ready]
        order = order[~ready]


def places_among_equals(keys: Indices) -> Indices:
    """For each key, the number of equal keys before it."""
    order = np.argsort(keys, kind="stable")
    sorted_keys = keys[order]
    first = np.searchsorted(sorted_keys, sorted_keys)
    places = np.empty_like(order)
    places[order] = np.arange(len(keys)) - first
    return places
