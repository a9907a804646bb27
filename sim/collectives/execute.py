# SPDX-License-Identifier: Apache-2.0
"""Carries out a plan on real data: takes a vector per node, returns every node's final data.

It follows the programs of the event kernel, waits included: a contribution to a sum is added when
it has been waited for (``REDUCE``), or by the next send, which must then carry the whole of it and
nothing else. Messages of a pair of nodes arrive in order, everything else happens in any order that
the seed chooses. So a plan that yields the right numbers here waits for what it needs, adds every
contribution once, and tells the endpoint which reads, writes and additions it takes: a sum that is
not to be stored is gone when it has been sent.

Order of additions: a partial sum that arrives is added to the node's own data; several that end
the same wait are added in the order of their senders' numbers. So a result depends on the plan
alone, bit for bit, and not on the order of events.
"""

import random
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.collectives.layout import Layout
from sim.collectives.phases import group_ranks
from sim.collectives.program import Phase, Plan, Receipt, Relay, Send, Source
from sim.network.network import Network
from sim.workload.graph import CollectiveKind

__all__ = ["ExecutionError", "Outcome", "execute", "expected_of", "what_is_wrong"]

Rows = NDArray[np.int64]
Add = Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]]


class ExecutionError(RuntimeError):
    """A plan that does not work; the text names phase and node."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """``value[node]``: final data of a node; ``has``: True for elements it holds, same shape.

    Shapes beyond the first axis: (elements) for a reduction or broadcast, of which a node has its
    share or all; (members, elements) for an all-gather or all-to-all, by origin.
    """

    has: NDArray[np.bool_]
    value: NDArray[Any]


def execute(
    network: Network,
    plan: Plan,
    kind: CollectiveKind,
    data: NDArray[Any],
    *,
    dimensions: Sequence[int] | None = None,
    seed: int = 0,
    add: Add = np.add,
) -> Outcome:
    """Run *plan* on *data*.

    Parameters
    ----------
    network, plan, kind
    data : array
        (nodes, elements); for an all-to-all (nodes, members, elements), the part for each member of
        the group.
    dimensions
        Those of the plan, None for all.
    seed : int
        Chooses the order in which messages arrive and nodes work.
    add
        Adds received data and the node's own.

    Raises
    ------
    ExecutionError
        If nodes wait for ever, a message differs from its claimed size, or a node sends data that
        it does not have.
    """
    dims = list(range(len(network.shape))) if dimensions is None else list(dimensions)
    rank = group_ranks(network, dims)
    members = int(rank.max()) + 1
    shape = data.shape
    if kind is CollectiveKind.ALL_GATHER:
        shape = (network.nodes, members, data.shape[-1])
    value, has = np.zeros(shape, data.dtype), np.zeros(shape, bool)
    weights = np.array([variant.weight for variant in plan.variants])
    ends = np.rint(np.cumsum(weights) / weights.sum() * data.shape[-1]).astype(int)
    for variant, begin, end in zip(plan.variants, [0, *ends[:-1]], ends):
        layout = Layout(network, variant.phases, kind, dims, rank, end - begin)
        own = [layout.pieces(node, data[node, ..., begin:end]) for node in range(network.nodes)]
        run = _Run(layout, random.Random(seed), add)
        for node, state in enumerate(run.go(own)):
            for piece, values in state.data.items():
                place = layout.place(piece)
                value[node, ..., begin:end][place], has[node, ..., begin:end][place] = values, True
    return Outcome(has=has, value=value)


def what_is_wrong(
    network: Network,
    plan: Plan,
    kind: CollectiveKind,
    *,
    elements: int,
    dimensions: Sequence[int] | None = None,
    seed: int = 0,
) -> str | None:
    """Run a plan on small whole numbers, whose sums are exact in any order, and compare with numpy.

    Parameters
    ----------
    elements : int
        Elements of a node's vector; for an all-to-all, those for each member.

    Returns
    -------
    str or None
        None if all is right, otherwise the first error.
    """
    dims = list(range(len(network.shape))) if dimensions is None else list(dimensions)
    rank = group_ranks(network, dims)
    members = int(rank.max()) + 1
    shape = (members, elements) if kind is CollectiveKind.ALL_TO_ALL else (elements,)
    random_numbers = np.random.default_rng(seed)
    data = random_numbers.integers(-99, 100, (network.nodes, *shape)).astype(np.float32)
    try:
        made = execute(network, plan, kind, data, dimensions=dims, seed=seed)
    except ExecutionError as error:
        return str(error)
    others = [d for d in range(len(network.shape)) if d not in dims]
    group = group_ranks(network, others)
    for number in range(int(group.max()) + 1):
        nodes = np.flatnonzero(group == number)
        nodes = nodes[np.argsort(rank[nodes])]
        has, value, expected = made.has[nodes], made.value[nodes], expected_of(kind, data[nodes])
        # After a reduce-scatter exactly one member has each element.
        there = has.sum(axis=0) == 1 if kind is CollectiveKind.REDUCE_SCATTER else has
        right = there & (np.where(has, value, expected) == expected)
        if not right.all():
            place = tuple(np.argwhere(~right)[0])
            found = f"{value[place]:g}" if has[place] else "missing"
            return (
                f"{plan.name}: element {place[-1]} of node {nodes[place[0]]} is {found}, "
                f"not {expected[place]:g}"
            )
    return None


def expected_of(kind: CollectiveKind, data: NDArray[Any]) -> NDArray[Any]:
    """Final data of the members of a group by rank, computed by numpy."""
    members = len(data)
    if kind is CollectiveKind.ALL_TO_ALL:
        return data.swapaxes(0, 1)
    if kind is CollectiveKind.ALL_GATHER:
        return np.broadcast_to(data, (members, *data.shape))
    whole = data[0] if kind is CollectiveKind.BROADCAST else data.sum(axis=0)
    return np.broadcast_to(whole, data.shape)


# ---- The nodes at work.


@dataclass(kw_only=True)
class _Message:
    phase: int
    sender: int
    send: Send
    what: dict[int, NDArray[Any]]
    origin: int  # a node of the group


@dataclass(kw_only=True)
class _Node:
    data: dict[int, NDArray[Any]]
    phase: int = 0
    segment: int = 0
    step: int = 0
    # Contributions that have been waited for and that the next send adds.
    mail: list[_Message] = field(default_factory=list)
    # By phase and slot: messages that have arrived, how many were waited for.
    arrived: dict[tuple[int, int], list[_Message]] = field(default_factory=dict)
    taken: dict[tuple[int, int], int] = field(default_factory=dict)


class _Run:
    """One chunk."""

    def __init__(self, layout: Layout, choose: random.Random, add: Add) -> None:
        self.phases = layout.phases
        self.layout = layout
        self.choose = choose
        self.add = add
        self.nodes: list[_Node] = []
        # Nodes that may be able to advance, and (sender, receiver) pairs with messages in flight.
        self.todo: list[int | tuple[int, int]] = []
        self.ways: dict[tuple[int, int], deque[_Message]] = {}
        self.sent: dict[tuple[Send, int], Rows] = {}
        self.merging: dict[tuple[Relay, int], list[_Message]] = {}  # at switches
        # Elements of a fraction of 1; blocks differ in size where it does not divide evenly.
        parts = layout.members if layout.kind is CollectiveKind.ALL_TO_ALL else 1
        self.whole = layout.elements * parts
        self.rounding = 1e-6 + (layout.members if self.whole % layout.members else 0)

    def go(self, own: Sequence[dict[int, NDArray[Any]]]) -> list[_Node]:
        """Run the nodes until none of them can advance."""
        self.nodes = [_Node(data=data) for data in own]
        self.todo = list(range(len(self.nodes)))
        while self.todo:
            pick = self.choose.randrange(len(self.todo))
            self.todo[pick], self.todo[-1] = self.todo[-1], self.todo[pick]
            now = self.todo.pop()
            if isinstance(now, tuple):
                message = self.ways[now].popleft()
                if self.ways[now]:
                    self.todo.append(now)
                now = now[1]
                if message.send.relay is not None:
                    self.merge(now, message.send.relay, message)
                    continue
                self.arrive(now, message)
            if self.advance(now):
                self.todo.append(now)
        for number, node in enumerate(self.nodes):
            if node.phase < len(self.phases):
                name = self.phases[node.phase].name
                raise ExecutionError(f"{name}: node {number} waits for ever")
        return self.nodes

    def arrive(self, number: int, message: _Message) -> None:
        node = self.nodes[number]
        if message.phase < node.phase:
            name = self.phases[message.phase].name
            raise ExecutionError(f"{name}: node {number} gets a message when it has finished")
        node.arrived.setdefault((message.phase, message.send.slot), []).append(message)

    def merge(self, switch: int, relay: Relay, message: _Message) -> None:
        """Add a relay's messages at a switch, or a member, once all are there, and send on."""
        got = self.merging.setdefault((relay, switch), [])
        got.append(message)
        if len(got) < relay.needs[switch]:
            return
        del self.merging[relay, switch]
        what: dict[int, NDArray[Any]] = {}
        for each in sorted(got, key=lambda each: each.sender):
            for piece, values in each.what.items():
                what[piece] = self.add(values, what[piece]) if piece in what else values
        phase = self.phases[message.phase]
        for send in relay.sends:
            peer = int(send.channel.peer[switch])
            if peer >= 0:
                assert send.blocks is not None
                blocks = self.layout.blocks[message.phase][message.origin]
                pieces = [p for block in send.blocks(0)[switch] for p in blocks[block]]
                self.dispatch(
                    f"{phase.name}: switch {switch}", self.passed(switch, send, what), pieces,
                    _Message(
                        phase=message.phase, sender=switch, send=send, what={},
                        origin=message.origin,
                    ),
                    peer,
                )

    def passed(
        self, vertex: int, send: Send, what: dict[int, NDArray[Any]]
    ) -> dict[int, NDArray[Any]]:
        """Data to send on: those merged, or for a member also its own data or the sum of both."""
        if send.source is Source.FORWARD or vertex >= len(self.nodes):
            return what
        own = self.nodes[vertex].data
        if send.source is Source.FRESH:
            return own
        return {piece: self.add(values, own[piece]) for piece, values in what.items()}

    def advance(self, number: int) -> bool:
        """Take the node's next step if it is ready; return True if it did."""
        node = self.nodes[number]
        if node.phase == len(self.phases):
            return False
        phase = self.phases[node.phase]
        program = phase.programs[0 if phase.role is None else int(phase.role[number])]
        segment = program.segments[node.segment]
        at = node.phase, segment.slot + node.step * segment.slot_stride
        need = segment.count + node.step * segment.count_stride
        here = node.arrived.get(at, [])
        if len(here) < need:
            return False
        taken = node.taken.get(at, 0)
        for message in sorted(here[taken:need], key=lambda message: message.sender):
            receipt = message.send.receipt
            if receipt is Receipt.KEEP:
                node.data.update(message.what)
            elif receipt in (Receipt.PASS, Receipt.RESULT):
                node.mail.append(message)
            else:
                self.reduce(node, message)
        node.taken[at] = max(need, taken)
        several = len(segment.sends) > 1
        for send in segment.sends[node.step if several else 0]:
            peer = int(send.channel.peer[number])
            if peer >= 0:
                self.send(number, peer, phase, send, 0 if several else node.step)
        node.step += 1
        if node.step == segment.steps:
            node.segment, node.step = node.segment + 1, 0
        if node.segment == len(program.segments):
            self.leave(number, phase)
        return True

    def send(self, number: int, peer: int, phase: Phase, send: Send, step: int) -> None:
        node, who = self.nodes[number], f"{phase.name}: node {number}"
        pieces = list(self.pieces(number, node, send, step))
        if (send.source is Source.REDUCED) != bool(node.mail):
            much = "what it has to add" if node.mail else "a sum of nothing"
            raise ExecutionError(f"{who} sends {much} as {send.source.name}")
        for message in node.mail:
            if sorted(message.what) != sorted(pieces):
                raise ExecutionError(f"{who} adds other data than it sends")
            self.reduce(node, message)
        made = _Message(phase=node.phase, sender=number, send=send, what={}, origin=number)
        self.dispatch(who, node.data, pieces, made, peer)
        for message in node.mail:
            if message.send.receipt is Receipt.PASS:
                for piece in message.what:
                    del node.data[piece]
        node.mail.clear()

    def dispatch(
        self,
        who: str,
        data: dict[int, NDArray[Any]],
        pieces: Iterable[int],
        message: _Message,
        peer: int,
    ) -> None:
        """Fill a message with pieces of the sender's data, and put it in flight."""
        try:
            message.what = {piece: data[piece] for piece in pieces}
        except KeyError:
            raise ExecutionError(f"{who} sends what it does not have") from None
        size = sum(len(part) for part in message.what.values())
        claimed = message.send.fraction * self.whole / message.send.copies
        if abs(size - claimed) > self.rounding:
            raise ExecutionError(f"{who} sends {size} elements, not {claimed:g}")
        way = message.sender, peer
        if not self.ways.setdefault(way, deque()):
            self.todo.append(way)
        self.ways[way].append(message)

    def pieces(self, number: int, node: _Node, send: Send, step: int) -> Iterable[int]:
        if send.blocks is None:
            return list(node.data)
        key = send, step
        if key not in self.sent:
            self.sent[key] = send.blocks(step)
        blocks = self.layout.blocks[node.phase][number]
        numbers = self.sent[key][self.layout.ranks[node.phase][number]]
        return [piece for block in numbers for piece in blocks[block]]

    def reduce(self, node: _Node, message: _Message) -> None:
        for piece, values in message.what.items():
            node.data[piece] = self.add(values, node.data[piece])

    def leave(self, number: int, phase: Phase) -> None:
        """Finish the phase, and drop pieces that belong to others by now."""
        node = self.nodes[number]
        if node.mail:
            raise ExecutionError(f"{phase.name}: node {number} never adds what it received")
        final = self.layout.final[node.phase][number]
        if not final <= node.data.keys():
            raise ExecutionError(f"{phase.name}: node {number} lacks a part of what it should have")
        node.data = {piece: values for piece, values in node.data.items() if piece in final}
        node.phase, node.segment, node.step = node.phase + 1, 0, 0
