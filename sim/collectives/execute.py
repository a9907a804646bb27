"""Carries out a plan on real data: what every node ends up with.

An interpreter of programs for tests and for readers; the simulator only counts messages. It does
what :class:`~sim.collectives.program.Source` and :class:`~sim.collectives.program.Receipt` say and
nothing else: a message that is kept waits until the next send adds it (``REDUCED``) or passes it on
(``FORWARD``). Messages of a pair of nodes arrive in order, everything else happens in any order
that the seed chooses. So a plan that yields the right numbers here waits for what it needs, adds
every contribution once, and tells the endpoint which reads and additions it takes.
"""

import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.collectives.program import Carry, Phase, Plan, Receipt, Send, Source
from sim.network.network import Network
from sim.workload.graph import CollectiveKind

__all__ = ["ExecutionError", "Outcome", "execute", "group_ranks"]

Mask = NDArray[np.bool_]


class ExecutionError(RuntimeError):
    """A plan that does not work; the text names phase and node."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """``has[node]``: the elements that a node holds, ``value[node]``: what they are.

    Shapes beyond the first axis: (elements) of a reduction or broadcast, (members, elements) of an
    all-gather by origin, (members, members, elements) of an all-to-all by origin and destination.
    """

    has: Mask
    value: NDArray[Any]


def group_ranks(network: Network, dimensions: Sequence[int]) -> NDArray[np.int64]:
    """Each node's place in its group, the first dimension varying fastest."""
    rank = np.zeros(network.nodes, np.int64)
    for dimension in reversed(dimensions):
        rank = rank * network.shape[dimension] + network.coordinates[dimension]
    return rank


def execute(
    network: Network,
    plan: Plan,
    kind: CollectiveKind,
    data: NDArray[Any],
    *,
    dimensions: Sequence[int] | None = None,
    seed: int = 0,
) -> Outcome:
    """Run *plan* on *data*.

    Parameters
    ----------
    data : array
        (nodes, elements); of an all-to-all (nodes, members, elements), the part for each member of
        the group.
    dimensions
        Those of the plan.

    Raises
    ------
    ExecutionError
        If nodes wait for ever, a message has not the size that it claims, or data are mistaken for
        others.
    """
    dims = list(range(len(network.shape))) if dimensions is None else list(dimensions)
    rank = group_ranks(network, dims)
    members = int(rank.max()) + 1
    nodes = np.arange(network.nodes)
    if kind is CollectiveKind.ALL_GATHER:
        value = np.zeros((network.nodes, members, data.shape[1]), data.dtype)
        value[nodes, rank] = data
    elif kind is CollectiveKind.ALL_TO_ALL:
        value = np.zeros((network.nodes, members, *data.shape[1:]), data.dtype)
        value[nodes, rank] = data
    else:
        value = data.copy()
    has = np.ones(value.shape, bool)
    if kind in (CollectiveKind.ALL_GATHER, CollectiveKind.ALL_TO_ALL):
        has[:] = False
        has[nodes, rank] = True
    weights = np.array([variant.weight for variant in plan.variants])
    ends = np.rint(np.cumsum(weights) / weights.sum() * data.shape[-1]).astype(int)
    for variant, begin, end in zip(plan.variants, [0, *ends[:-1]], ends):
        part = (..., slice(begin, end))
        shape = value[part].shape
        flat = (network.nodes, int(np.prod(shape[1:])))
        run = _Run(network, variant.phases, kind, dims, rank, shape, random.Random(seed))
        run.go(has[part].reshape(flat), value[part].reshape(flat))
        has[part] = np.reshape([node.has for node in run.nodes], shape)
        value[part] = np.reshape([node.value for node in run.nodes], shape)
    return Outcome(has=has, value=value)


@dataclass(kw_only=True)
class _Message:
    phase: int
    send: Send
    what: Mask
    values: NDArray[Any]


@dataclass(kw_only=True)
class _Node:
    has: Mask
    value: NDArray[Any]
    phase: int = 0
    segment: int = 0
    step: int = 0
    # Kept messages that are waited for, and the elements of the last of them.
    mail: list[_Message] = field(default_factory=list)
    turn: Mask | None = None
    # At the start of the phase, and what has gone since.
    held: Mask | None = None
    sent: Mask | None = None
    # By phase and slot: kept messages that have arrived, how many have, how many were waited for.
    kept: dict[tuple[int, int], list[_Message | None]] = field(default_factory=dict)
    taken: dict[tuple[int, int], int] = field(default_factory=dict)
    early: list[_Message] = field(default_factory=list)


class _Run:
    """One chunk."""

    def __init__(
        self,
        network: Network,
        phases: Sequence[Phase],
        kind: CollectiveKind,
        dimensions: Sequence[int],
        rank: NDArray[np.int64],
        shape: tuple[int, ...],
        choose: random.Random,
    ) -> None:
        self.network = network
        self.phases = phases
        self.personal = kind is CollectiveKind.ALL_TO_ALL
        self.rank = rank
        self.choose = choose
        self.nodes: list[_Node] = []
        self.ways: dict[tuple[int, int], deque[_Message]] = {}
        size = int(np.prod(shape[1:]))
        # What a fraction of 1 stands for, and where each element goes to.
        self.whole = size / shape[1] if len(shape) > 2 else float(size)
        # Blocks of a size that does not divide differ.
        self.rounding = 1e-6 + (len(set(rank)) if self.whole % len(set(rank)) else 0)
        self.goal = np.arange(size) // max(1, shape[-1]) % shape[-2] if self.personal else None
        place = {int(r): n for n, r in reversed(list(enumerate(rank)))}
        self.goal_at = [
            np.array([network.coordinates[d][place[r]] for r in range(len(place))])
            for d in range(len(network.shape))
        ]
        self.dimensions = dimensions

    def go(self, has: Mask, value: NDArray[Any]) -> None:
        self.nodes = [_Node(has=h.copy(), value=v.copy()) for h, v in zip(has, value)]
        for node in range(len(self.nodes)):
            self.enter(node)
        ready = list(range(len(self.nodes)))
        while ready or self.ways:
            pick = self.choose.randrange(len(ready) + len(self.ways))
            if pick < len(ready):
                ready[pick], ready[-1] = ready[-1], ready[pick]
                node = ready.pop()
            else:
                way = list(self.ways)[pick - len(ready)]
                message = self.ways[way].popleft()
                if not self.ways[way]:
                    del self.ways[way]
                node = way[1]
                self.arrive(node, message)
            if self.advance(node):
                ready.append(node)
        for number, node_state in enumerate(self.nodes):
            if node_state.phase < len(self.phases):
                name = self.phases[node_state.phase].name
                raise ExecutionError(f"{name}: node {number} waits for ever")

    # ---- A node.

    def enter(self, number: int) -> None:
        """Start the node's next phase."""
        node = self.nodes[number]
        node.segment = node.step = 0
        node.turn = None
        node.held, node.sent = node.has.copy(), np.zeros_like(node.has)
        waiting, node.early = node.early, []
        for message in waiting:
            self.arrive(number, message)

    def arrive(self, number: int, message: _Message) -> None:
        node = self.nodes[number]
        if message.phase < node.phase:
            name = self.phases[message.phase].name
            raise ExecutionError(f"{name}: node {number} gets a message when it has finished")
        if message.phase > node.phase:
            node.early.append(message)
            return
        box = node.kept.setdefault((message.phase, message.send.slot), [])
        if message.send.receipt is Receipt.REDUCE:
            node.value[message.what] = node.value[message.what] + message.values
            box.append(None)
        else:
            box.append(message)

    def advance(self, number: int) -> bool:
        """Make the node's next step if it may; returns whether it did."""
        node = self.nodes[number]
        if node.phase == len(self.phases):
            return False
        phase = self.phases[node.phase]
        program = phase.programs[0 if phase.role is None else int(phase.role[number])]
        segment = program.segments[node.segment]
        at = node.phase, segment.slot + node.step * segment.slot_stride
        need = segment.count + node.step * segment.count_stride
        box = node.kept.get(at, [])
        if len(box) < need:
            return False
        for message in box[node.taken.get(at, 0) : need]:
            if message is not None:
                node.mail.append(message)
        node.taken[at] = max(need, node.taken.get(at, 0))
        for send in segment.sends[node.step if len(segment.sends) > 1 else 0]:
            peer = int(send.channel.peer[number])
            if peer >= 0:
                self.send(number, peer, phase, send)
        node.step += 1
        if node.step == segment.steps:
            node.segment, node.step = node.segment + 1, 0
        if node.segment == len(program.segments):
            self.leave(number, phase)
        return True

    def send(self, number: int, peer: int, phase: Phase, send: Send) -> None:
        node = self.nodes[number]
        if node.mail and send.source is Source.FRESH:
            raise ExecutionError(f"{phase.name}: node {number} sends its own data before it adds")
        for message in node.mail:
            if send.source is Source.REDUCED:
                node.value[message.what] = node.value[message.what] + message.values
            else:
                self.store(node, message)
            if message.phase == node.phase:
                node.turn = message.what
        node.mail.clear()
        what = self.choice(number, peer, phase, send)
        claimed = send.fraction * self.whole
        if abs(what.sum() - claimed) > self.rounding:
            raise ExecutionError(
                f"{phase.name}: node {number} sends {what.sum()} elements, not {claimed:g}"
            )
        if (what & ~node.has).any():
            raise ExecutionError(f"{phase.name}: node {number} sends what it does not have")
        message = _Message(phase=node.phase, send=send, what=what, values=node.value[what].copy())
        self.ways.setdefault((number, peer), deque()).append(message)
        assert node.sent is not None
        node.sent |= what
        if send.carry in (Carry.PEER, Carry.SIDE):
            node.has = node.has & ~what

    def leave(self, number: int, phase: Phase) -> None:
        """Finish the phase and start the next one."""
        node = self.nodes[number]
        assert node.sent is not None
        if phase.data_out < phase.data_in or self.personal:
            node.has = node.has & ~node.sent
        if phase.leaves is not Source.REDUCED:
            for message in node.mail:
                self.store(node, message)
            node.mail.clear()
        node.phase += 1
        if node.phase < len(self.phases):
            self.enter(number)
        elif node.mail:
            raise ExecutionError(f"{phase.name}: node {number} never adds what it received")

    def store(self, node: _Node, message: _Message) -> None:
        node.value[message.what] = message.values
        # What is only passing through an all-to-all is not the node's.
        node.has = node.has | message.what

    # ---- What a send carries.

    def choice(self, number: int, peer: int, phase: Phase, send: Send) -> Mask:
        node = self.nodes[number]
        if send.carry is Carry.ALL:
            return node.has.copy()
        if send.carry is Carry.TURN and node.turn is not None:
            beyond = self.personal and phase.dimension >= 0
            return node.turn & ~self.block(number, phase, number) if beyond else node.turn
        assert node.held is not None
        if send.carry in (Carry.OWN, Carry.TURN):
            if self.personal:
                return node.held & ~self.block(number, phase, number)
            if phase.data_out > phase.data_in:
                return node.held
            return self.block(number, phase, number)
        if send.carry is Carry.PEER:
            return self.block(number, phase, peer)
        # Halving: the blocks on the other side of the exchange.
        here = self.network.coordinates[phase.dimension]
        mask = int(here[number] ^ here[peer])
        side = np.zeros_like(node.has)
        for other in range(self.network.shape[phase.dimension]):
            if (other ^ int(here[number])) & mask:
                side |= self.numbered(number, phase, other)
        return side & node.has

    def block(self, number: int, phase: Phase, member: int) -> Mask:
        """The block that a member of the group ends up with."""
        if self.goal is None:
            here = self.network.coordinates[phase.dimension]
            return self.numbered(number, phase, int(here[member]))
        node = self.nodes[number]
        dims = self.dimensions if len(self.phases) == 1 else [phase.dimension]
        assert node.held is not None
        mine = np.ones_like(node.has)
        for dimension in dims:
            at = self.network.coordinates[dimension][member]
            mine &= self.goal_at[dimension][self.goal] == at
        return mine & (node.has if member == number else node.held)

    def numbered(self, number: int, phase: Phase, block: int) -> Mask:
        """A block of what the node held at the start of a reduction."""
        held = self.nodes[number].held
        assert held is not None
        parts = np.array_split(np.flatnonzero(held), self.network.shape[phase.dimension])
        mask = np.zeros_like(held)
        mask[parts[block]] = True
        return mask
