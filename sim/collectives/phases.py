# SPDX-License-Identifier: Apache-2.0
"""Turns the rounds of an algorithm into a phase of the event kernel.

Sends that differ in nothing but their blocks become one send of several steps, and members that
do the same run the same program.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sim.collectives.algorithm import (
    Algorithm,
    Exchange,
    Group,
    Linked,
    Listed,
    Neighbour,
    Peer,
    Round,
    Shift,
)
from sim.collectives.outcome import check_outcome
from sim.collectives.program import Phase, Program, Receipt, Segment, Send, Source
from sim.network.network import Channel, Network
from sim.workload.graph import CollectiveKind

__all__ = ["group_ranks", "make_phase", "rings_of"]


def make_phase(
    network: Network,
    dimensions: Sequence[int],
    algorithm: Algorithm,
    kind: CollectiveKind,
    *,
    data: float,
    prior: Source,
    ring: int,
    number: int | None = None,
    backwards: bool = False,
    onward: bool = False,
) -> Phase:
    """A collective in the groups of one dimension, or of several at once.

    Parameters
    ----------
    network, dimensions
    algorithm, kind
    data : float
        Size of a node's data at the start of the phase over that of the chunk.
    prior : Source
        Source of the data of the first send.
    ring : int
        Index of the dimension's ring or switch that is used.
    number : int or None
        Number of the group; None: that of the ring. It decides how trees are mirrored.
    backwards : bool
        Neighbours go round the ring against its own direction.
    onward : bool
        A phase follows that reduces what this one leaves.

    Raises
    ------
    ValueError
        If the algorithm does not do that collective, or not in groups of that size.
    """
    lane, way = _lane_of(network, dimensions[0], ring)
    shape = tuple(network.shape[d] for d in dimensions)
    turn = -way if backwards else way
    group = Group(shape=shape, way=turn, number=ring if number is None else number)
    rounds = algorithm.rounds(kind, group)
    channel = partial(_channel, network, tuple(dimensions), lane, way, ring)
    spans = list(_spans(rounds, kind, group, data, onward, channel))
    table = any(isinstance(peer, Listed) for each in rounds for peer in each.peers)
    made = [_program(spans, rank, prior) for rank in range(group.size if table else 1)]
    programs = list(dict.fromkeys(made))
    role = None
    if table:
        role = np.array([programs.index(each) for each in made])[group_ranks(network, dimensions)]
    out = {
        CollectiveKind.REDUCE_SCATTER: data / group.size,
        CollectiveKind.ALL_GATHER: data * group.size,
    }
    what = f"{algorithm.name} {kind.value}".replace("_", "-")
    return Phase(
        name=f"{what} {network.label(dimensions[0])}" if len(dimensions) == 1 else what,
        dimension=dimensions[0],
        ring=ring,
        programs=tuple(programs),
        data_in=data,
        data_out=out.get(kind, data),
        leaves=Source.SUM if rounds[-1].reduce else Source.HELD,
        role=role,
        kind=kind,
        group=tuple(dimensions),
        judge=partial(check_outcome, algorithm, kind, group),
    )


def group_ranks(network: Network, dimensions: Sequence[int]) -> NDArray[np.int64]:
    """Each node's place in its group, the first dimension varying fastest."""
    rank = np.zeros(network.nodes, np.int64)
    for dimension in reversed(dimensions):
        rank = rank * network.shape[dimension] + network.coordinates[dimension]
    return rank


# ---- Rounds as sends.


class _Span(NamedTuple):
    """Steps of a round whose sends differ in nothing but the blocks.

    ``targets``: (peers, members), the receiver of each send; None where every member sends to all
    peers and receives as many messages. ``blocks``: of a message. ``sends``: for each peer, by
    source of the data.
    """

    steps: int
    slot: int
    cascade: bool
    reduce: bool
    receipt: Receipt
    targets: NDArray[np.int64] | None
    blocks: int
    sends: tuple[dict[Source, Send], ...]

    def source(self, before: "_Span | None", prior: Source) -> Source:
        """Source of these sends at a member to which *before* brought the last messages."""
        if before is None:
            return prior
        if before.receipt in (Receipt.PASS, Receipt.RESULT):
            return Source.REDUCED
        if before.receipt is Receipt.SPLIT:
            return Source.PART
        if before.reduce:
            return Source.FORWARD if self._carries(before) else Source.SUM
        # More than a message brings is data of several.
        return Source.FORWARD if self.blocks <= before.blocks else Source.HELD

    def _carries(self, before: "_Span") -> bool:
        """True if a message has the sum that the one message before has made."""
        alone = len(self.sends) == len(before.sends) == 1 and before.targets is None
        return alone and self.blocks == before.blocks


def _spans(
    rounds: Sequence[Round],
    kind: CollectiveKind,
    group: Group,
    data: float,
    onward: bool,
    channel: Callable[[Peer], Channel],
) -> Iterator[_Span]:
    slot, before = -1, None
    for each, begin, steps, then in _cut(rounds):
        # Messages to and from a neighbour keep their order; others may overtake each other and
        # need counters of their own.
        if each.to != before or not isinstance(each.to, Neighbour):
            slot += 1
        before = each.to
        blocks = [partial(_sent, each, group, peer, begin) for peer in each.peers]
        count = each.count(group)
        if kind is CollectiveKind.ALL_GATHER:
            fraction = data * count
        else:
            fraction = data if count == group.size else data * count / group.size
        receipt = _receipt(each, then, group, onward)
        sends = tuple(
            {
                source: Send(
                    channel=channel(peer),
                    fraction=fraction,
                    slot=slot,
                    source=source,
                    receipt=receipt,
                    blocks=blocks[number],
                )
                for source in Source
            }
            for number, peer in enumerate(each.peers)
        )
        listed = any(isinstance(peer, Listed) for peer in each.peers)
        yield _Span(
            steps=steps,
            slot=slot,
            cascade=each.cascade,
            reduce=each.reduce,
            receipt=receipt,
            targets=np.stack([peer.ranks(group) for peer in each.peers]) if listed else None,
            blocks=count,
            sends=sends,
        )


def _receipt(each: Round, then: Round | None, group: Group, onward: bool) -> Receipt:
    """Handling of a round's messages after which a member sends those of *then*.

    A send can add what a message brings if that is all of what it carries; if it is not, the sum is
    made on arrival, or parts would be added never, or twice.
    """
    if not each.reduce:
        return Receipt.KEEP
    if each.on_arrival or (then is None and not onward):
        return Receipt.REDUCE
    if then is None:
        return Receipt.OPERAND
    if len(each.peers) > 1 or len(then.peers) > 1:
        return Receipt.REDUCE
    comes, goes = each.count(group), then.count(group)
    if comes != goes:
        return Receipt.SPLIT if comes > goes else Receipt.REDUCE
    return Receipt.PASS if then.reduce else Receipt.RESULT


def _sent(each: Round, group: Group, peer: Peer, begin: int, step: int) -> NDArray[np.int64]:
    return each.blocks(group, peer, begin + step)


def _cut(rounds: Sequence[Round]) -> Iterator[tuple[Round, int, int, Round | None]]:
    """Rounds cut into spans: round, first step, number of steps, and the round of the step behind
    each of these; None if there is none.

    The first step of a round sends the data that the round before has left, what the last one of a
    reduction brings may be handled differently; repetitions with peers other than a neighbour are
    steps of their own.
    """
    for each, then in zip(rounds, [*rounds[1:], None]):
        if isinstance(each.to, Neighbour):
            cuts = sorted({0, 1, each.times - 1 if each.reduce else 1, each.times})
        else:
            cuts = list(range(each.times + 1))
        for begin, end in pairwise(cuts):
            yield each, begin, end - begin, then if end == each.times else each


class _Line(NamedTuple):
    """Steps of a program: wait for a count, which grows by ``stride``, and send."""

    slot: int
    need: int
    stride: int
    steps: int
    sends: tuple[Send, ...]


def _program(spans: Sequence[_Span], rank: int, prior: Source) -> Program:
    """The program of a member."""
    lines: list[_Line] = []
    received: dict[int, int] = {}
    unseen: list[int] = []  # slots in which messages have come since the member last waited
    before: _Span | None = None  # brought the last messages

    def waits() -> list[tuple[int, int]]:
        found = [(slot, received[slot]) for slot in unseen]
        unseen.clear()
        return found

    for span in spans:
        coming, mine = len(span.sends), list(span.sends)
        if span.targets is not None:
            coming = int((span.targets == rank).sum())
            mine = [sends for sends, to in zip(span.sends, span.targets[:, rank]) if to >= 0]
        for sending in (False, True) if span.cascade else (True, False):
            if sending and mine:
                *others, (slot, count) = waits() or [(0, 0)]
                lines += [_Line(*each, 0, 1, ()) for each in others]
                source = span.source(before, prior)
                sent = tuple(sends[source] for sends in mine)
                lines.append(_Line(slot, count, coming, span.steps, sent))
            elif not sending and coming:
                received[span.slot] = received.get(span.slot, 0) + coming * span.steps
                unseen[:] = [slot for slot in unseen if slot != span.slot] + [span.slot]
                before = span
    lines += [_Line(*each, 0, 1, ()) for each in waits()]
    slots = 1 + max(span.slot for span in spans)
    return Program(segments=tuple(_segments(lines)), slots=slots)


def _segments(lines: Sequence[_Line]) -> Iterator[Segment]:
    """Join single steps whose waits form an arithmetic progression."""
    runs: list[list[_Line]] = []
    for line in lines:
        if runs and _continues(runs[-1], line):
            runs[-1].append(line)
        else:
            runs.append([line])
    for run in runs:
        first, second = run[0], run[1] if len(run) > 1 else None
        yield Segment(
            steps=sum(line.steps for line in run),
            slot=first.slot,
            slot_stride=second.slot - first.slot if second else 0,
            count=first.need,
            count_stride=second.need - first.need if second else first.stride,
            sends=tuple(line.sends for line in run),
        )


def _continues(run: Sequence[_Line], line: _Line) -> bool:
    *_, last = run
    if last.steps > 1 or line.steps > 1 or not line.sends or len(last.sends) != len(line.sends):
        return False
    move = line.slot - last.slot, line.need - last.need
    return len(run) == 1 or move == (last.slot - run[-2].slot, last.need - run[-2].need)


# ---- Peers as channels of the network.


def _channel(
    network: Network, dimensions: tuple[int, ...], lane: int, tie: int, ring: int, peer: Peer
) -> Channel:
    dimension = dimensions[0]
    if isinstance(peer, Linked):
        return _linked(network, dimensions, lane, peer)
    if len(dimensions) > 1:
        if not isinstance(peer, Shift):
            raise ValueError(f"peers in {len(dimensions)} dimensions must be Shift, not {peer}")
        goals = list(network.coordinates)
        for each, offset in zip(dimensions, peer.offsets):
            goals[each] = (goals[each] + offset) % network.shape[each]
        name = ("span", dimensions, peer.offsets)
        return network.table(
            name, network.members(goals), lane=ring, tie=1 - 2 * (ring % 2), dimension=dimension
        )
    match peer:
        case Neighbour(way=way):
            return network.shift(dimension, way, lane=lane, direction=way, tie=way)
        case Shift(offsets=(offset,)):
            # Where both ways are equally long, the rings share them.
            return network.shift(dimension, offset, lane=lane, tie=tie)
        case Exchange(mask=mask):
            return network.exchange(dimension, mask, lane=lane)
        case Listed(members=members):
            goal = np.asarray(members)[network.coordinates[dimension]]
            goals = list(network.coordinates)
            goals[dimension] = np.maximum(goal, 0)
            peers = np.where(goal < 0, -1, network.members(goals))
            return network.table(
                ("listed", dimension, members), peers, lane=lane, dimension=dimension
            )
    raise ValueError(f"peers in one dimension cannot be {peer}")


def _linked(
    network: Network, dimensions: Sequence[int], lane: int, peer: Linked
) -> Channel:
    """A channel whose messages take one link each, of the dimension that *peer* says."""
    steps = np.array(peer.steps)[group_ranks(network, dimensions)]
    to, links = np.empty(network.nodes, np.int64), np.empty((1, network.nodes), np.int64)
    for place, dimension in enumerate(dimensions):
        for way in (1, -1):
            here = (steps == (place, way)).all(axis=1)
            hop = network.shift(dimension, way, lane=lane, direction=way, tie=way)
            to[here], links[0, here] = hop.peer[here], hop.links[0, here]
    return Channel(peer=to, links=links)


def _lane_of(network: Network, dimension: int, ring: int) -> tuple[int, int]:
    """Lane and direction of a dimension's n-th ring; only the direction where it has no links of
    its own."""
    if network.physical(dimension) is None:
        return ring // 2, 1 - 2 * (ring % 2)
    ways = network.ways(dimension)
    lane, way = divmod(ring, ways.directions)
    return lane % ways.lanes, 1 - 2 * way


def rings_of(network: Network, dimension: int) -> int:
    """Number of rings (or switches) that a logical dimension offers."""
    return network.ways(dimension).rings
