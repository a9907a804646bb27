"""The protocol between ACE engines as a transition system, running the real ring programs.

One step of the model is one decision that the hardware makes: a chunk is admitted, a load is done,
a send generator commits itself to a packet, a packet enters a transmit queue, crosses a link, or is
consumed. Time is left out: each step may come at any time or wait as long as it likes, which stands
for memory, SRAM banks, ALUs, link latency, credits under way, clocks, and commands given at
different times. Where the hardware picks one of several (arbiters, a packet parked because the
forward queue was taken a moment too long), the model tries every choice.

Blocks are one packet long. A payload is the set of ranks that it contains.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

from sim.collectives.fsm_program import FsmProgram, ring_program
from sim.workload.graph import CollectiveKind
from tests.hw.ace_formal.explorer import Exploration, Violation, explore

__all__ = ["RingModel"]

RECEIVE, SEND, STORE, REDUCE = 8, 4, 2, 1
NEXT, PREVIOUS = 0, 1  # ports


class Packet(NamedTuple):
    """A DATA packet, or a READY one (``step`` is None)."""

    fsm: int
    context: int
    chunk: int
    step: int | None
    ranks: int = 0  # ghost: set of ranks in the payload

    def __str__(self) -> str:
        kind = "READY" if self.step is None else f"DATA step {self.step}"
        return f"{kind} chunk {self.chunk} -> FSM {self.fsm} context {self.context}"


class Context(NamedTuple):
    """A chunk in an FSM."""

    chunk: int
    live: bool = False
    announce: bool = False  # READY is still to be sent
    fresh: bool = False  # the SEND at the start is still to be done
    remote: int | None = None  # context of the next node, once its READY is here
    received: int = 0  # ghost: set of steps
    receives_left: int = 0
    sends_left: int = 0
    parked: frozenset[tuple[int, int]] = frozenset()  # step, payload


class Fsm(NamedTuple):
    """One programmable FSM."""

    contexts: tuple[Context | None, ...]
    early: tuple[int | None, ...]  # chunk whose READY came early, by context of the peer
    storing: int = 0  # result slots that the RX DMA works on
    command: tuple[int, Packet] | None = None  # port and packet the send generator waits to queue


class Node(NamedTuple):
    """One engine with its two transmit queues per port."""

    admitted: tuple[int, ...]  # next chunk, or (planted) the set of chunks
    fsms: tuple[Fsm, ...]
    forward: tuple[tuple[Packet, ...], ...]
    own: tuple[tuple[Packet, ...], ...]


@dataclass(frozen=True, kw_only=True)
class RingModel:
    """A ring of engines with one command.

    Parameters
    ----------
    nodes, chunks, contexts : int
        Ranks, chunks of the command, contexts (and result slots) of an FSM.
    fsms : int
        FSM 0 runs the ring forwards, FSM 1 backwards; chunk ``n`` goes to FSM ``n % fsms``.
    rx_packets, tx_packets : int
        Packets of a receive buffer, and of each of the two transmit queues of a port.
    collective : CollectiveKind
    planted : str
        Leaves out one rule of the protocol: ``"packet waits for output"``, ``"send without
        READY"``, ``"admission in any order"``, ``"generator waits for grant"``, ``"early READY
        forgotten"``, ``"READY before load"``, ``"no credits"``.
    """

    nodes: int = 2
    chunks: int = 2
    contexts: int = 1
    fsms: int = 1
    rx_packets: int = 1
    tx_packets: int = 1
    collective: CollectiveKind = CollectiveKind.ALL_REDUCE
    planted: str = ""

    def without(self, rule: str) -> "RingModel":
        """The same without a rule."""
        return replace(self, planted=rule)

    def explore(self) -> Exploration:
        """Check all runs."""
        return _Run(self).explore()


class _Run:
    """Successor function, with what a node does remembered: nodes meet only at their links."""

    def __init__(self, model: RingModel) -> None:
        self.m = m = model
        self.programs: list[list[FsmProgram]] = [
            [
                ring_program(
                    m.collective,
                    rank=rank,
                    nodes=m.nodes,
                    direction=-1 if f % 2 else 1,
                    to_port=PREVIOUS if f % 2 else NEXT,
                    from_port=NEXT if f % 2 else PREVIOUS,
                )
                for f in range(m.fsms)
            ]
            for rank in range(m.nodes)
        ]
        # Nodes and link contents are numbered, so that a state is a short tuple of numbers.
        self.node_ids: dict[Node, int] = {}
        self.node_list: list[Node] = []
        self.link_ids: dict[tuple[Packet, ...], int] = {}
        self.link_list: list[tuple[Packet, ...]] = []
        self.within = cache(self._within)
        self.consume = cache(self._consume)
        self.leave = cache(self._leave)

    def node_id(self, node: Node) -> int:
        if node not in self.node_ids:
            self.node_ids[node] = len(self.node_list)
            self.node_list.append(node)
        return self.node_ids[node]

    def link_id(self, link: tuple[Packet, ...]) -> int:
        if link not in self.link_ids:
            self.link_ids[link] = len(self.link_list)
            self.link_list.append(link)
        return self.link_ids[link]

    def explore(self) -> Exploration:
        m = self.m
        idle = Fsm((None,) * m.contexts, (None,) * m.contexts)
        node = self.node_id(Node((), (idle,) * m.fsms, ((), ()), ((), ())))
        # Link (rank, port) is the receive buffer of that port and what is on its way to it.
        initial = (node,) * m.nodes + (self.link_id(()),) * (2 * m.nodes)
        return explore(initial, self.successors, self.is_final)

    def is_final(self, state: tuple[int, ...]) -> bool:
        """Every chunk is in memory on all nodes and nothing is left anywhere."""
        m = self.m
        return all(
            len(node.admitted) == m.chunks
            and not any(node.forward)
            and not any(node.own)
            and all(f == Fsm((None,) * m.contexts, (None,) * m.contexts) for f in node.fsms)
            for node in (self.node_list[i] for i in state[: m.nodes])
        ) and all(not self.link_list[i] for i in state[m.nodes :])

    def successors(self, state: tuple[int, ...]) -> Iterator[tuple[str, tuple[int, ...]]]:
        m = self.m
        n = m.nodes
        for rank in range(n):
            here = state[rank]
            for action, after in self.within(rank, here):
                yield action, state[:rank] + (after,) + state[rank + 1 :]
            for port in (NEXT, PREVIOUS):
                at = n + 2 * rank + port
                link = self.link_list[state[at]]
                if link:
                    rest = self.link_id(link[1:])
                    for action, after in self.consume(rank, here, port, link[0]):
                        new = list(state)
                        new[rank], new[at] = after, rest
                        yield action, tuple(new)
                peer = (rank + (1 if port == NEXT else -1)) % n
                to = n + 2 * peer + (PREVIOUS if port == NEXT else NEXT)
                for action, after, packet in self.leave(rank, here, port):
                    ahead = self.link_list[state[to]]
                    if len(ahead) < m.rx_packets or m.planted == "no credits":
                        if len(ahead) == m.rx_packets:
                            raise Violation(f"receive buffer of node {peer} overflows")
                        new = list(state)
                        new[rank], new[to] = after, self.link_id((*ahead, packet))
                        yield action, tuple(new)

    # ---- What a node does by itself.

    def _within(self, rank: int, number: int) -> list[tuple[str, int]]:
        node = self.node_list[number]
        return [
            (f"node {rank}: {action}", self.node_id(new)) for action, new in self._acts(rank, node)
        ]

    def _acts(self, rank: int, node: Node) -> Iterator[tuple[str, Node]]:
        m = self.m
        # Admission, in order of chunks: the next one waits for its own FSM.
        done = len(node.admitted)
        if m.planted == "admission in any order":
            candidates = [c for c in range(m.chunks) if c not in node.admitted]
        else:
            candidates = [done] if done < m.chunks else []
        for chunk in candidates:
            f = chunk % m.fsms
            fsm = node.fsms[f]
            held = sum(x is not None for x in fsm.contexts)
            # A chunk holds its result slot from admission until it is stored.
            if held < m.contexts and held + fsm.storing < m.contexts:
                slot = fsm.contexts.index(None)
                program = self.programs[rank][f]
                remote = None
                early = fsm.early
                if chunk in early:
                    remote = early.index(chunk)
                    early = _put(early, remote, None)
                context = Context(
                    chunk,
                    remote=remote,
                    receives_left=program.receives,
                    sends_left=program.sends,
                    announce=m.planted == "READY before load",
                )
                fsm = fsm._replace(contexts=_put(fsm.contexts, slot, context), early=early)
                yield (
                    f"admit chunk {chunk} in slot {slot}",
                    self._with(
                        node._replace(admitted=tuple(sorted((*node.admitted, chunk)))), f, fsm
                    ),
                )
        for f, fsm in enumerate(node.fsms):
            for slot, x in enumerate(fsm.contexts):
                if x is None:
                    continue
                if not x.live:
                    announce = bool(self.programs[rank][f].ready_ports)
                    if m.planted == "READY before load":
                        announce = x.announce
                    ready = x._replace(live=True, announce=announce, fresh=True)
                    yield f"chunk {x.chunk} is loaded", self._context(node, f, slot, ready)
                elif not (x.fresh or x.announce or x.receives_left or x.sends_left):
                    self._check_complete(rank, f, x)
                    done_fsm = fsm._replace(
                        contexts=_put(fsm.contexts, slot, None), storing=fsm.storing + 1
                    )
                    yield f"chunk {x.chunk} is complete", self._with(node, f, done_fsm)
            if fsm.storing:
                yield (
                    "a result is stored",
                    self._with(node, f, fsm._replace(storing=fsm.storing - 1)),
                )
            yield from self._generate(rank, node, f)

    def _generate(self, rank: int, node: Node, f: int) -> Iterator[tuple[str, Node]]:
        """The send generator: commits itself to one packet, waits for its queue."""
        m = self.m
        fsm = node.fsms[f]
        program = self.programs[rank][f]
        if fsm.command is not None:
            port, packet = fsm.command
            if packet.context < 0:  # planted: not granted when it was picked
                context = next(
                    (x for x in fsm.contexts if x is not None and x.chunk == packet.chunk), None
                )
                if context is None or context.remote is None:
                    return
                packet = packet._replace(context=context.remote)
            if len(node.own[port]) < m.tx_packets:
                new = node._replace(own=_put(node.own, port, (*node.own[port], packet)))
                yield (
                    f"queue {packet} on port {port}",
                    self._with(new, f, fsm._replace(command=None)),
                )
            return
        for slot, x in enumerate(fsm.contexts):
            if x is None:
                continue
            if x.announce:
                (port,) = program.ready_ports
                command = (port, Packet(f, slot, x.chunk, None))
                # In this packet `context` is the own context: it tells the peer where to send to.
                yield (
                    f"pick {command[1]}",
                    self._context(node, f, slot, x._replace(announce=False), command),
                )
            if not x.live:
                continue
            remote = x.remote
            if remote is None and m.planted == "send without READY":
                remote = 0
            if remote is None and m.planted == "generator waits for grant":
                remote = -1
            if remote is None:
                continue
            if x.fresh:
                first = program.instructions[0]
                ranks = 1 << rank
                packet = Packet(f, remote, x.chunk, first.peer_step, ranks)
                yield (
                    f"pick {packet}",
                    self._context(
                        node,
                        f,
                        slot,
                        x._replace(fresh=False, sends_left=x.sends_left - 1),
                        (first.port, packet),
                    ),
                )
            for step, ranks in x.parked:
                i = program.instructions[step]
                packet = Packet(f, remote, x.chunk, i.peer_step, ranks)
                left = x._replace(parked=x.parked - {(step, ranks)}, sends_left=x.sends_left - 1)
                yield f"pick parked {packet}", self._context(node, f, slot, left, (i.port, packet))

    def _check_complete(self, rank: int, f: int, x: Context) -> None:
        program = self.programs[rank][f]
        steps = sum(1 << n for n, i in enumerate(program.instructions) if i.op.value & RECEIVE)
        if x.received != steps or x.parked:
            raise Violation(f"node {rank} completes chunk {x.chunk} too early")

    # ---- Links.

    def _leave(self, rank: int, number: int, port: int) -> list[tuple[str, int, Packet]]:
        """Packets that may start on a link: forwarded ones go first, as in `TransmitPort`."""
        node = self.node_list[number]
        name = "forward" if node.forward[port] else "own"
        queue = getattr(node, name)
        if not queue[port]:
            return []
        packet = queue[port][0]
        new = node._replace(**{name: _put(queue, port, queue[port][1:])})
        return [(f"node {rank}: {packet} leaves on port {port}", self.node_id(new), packet)]

    def _consume(self, rank: int, number: int, port: int, packet: Packet) -> list[tuple[str, int]]:
        """What the receive unit may do with the packet at the head of its buffer."""
        node = self.node_list[number]
        new = self._ready(node, packet) if packet.step is None else self._data(rank, node, packet)
        return [
            (f"node {rank}: {verb} {packet} of port {port}", self.node_id(after))
            for verb, after in new
        ]

    def _ready(self, node: Node, packet: Packet) -> Iterator[tuple[str, Node]]:
        fsm = node.fsms[packet.fsm]
        for slot, x in enumerate(fsm.contexts):
            if x is not None and x.chunk == packet.chunk:
                noted = x._replace(remote=packet.context)
                yield "note", self._context(node, packet.fsm, slot, noted)
                return
        if self.m.planted == "early READY forgotten":
            yield "forget", node
            return
        if fsm.early[packet.context] is not None:
            raise Violation(f"early {packet} overwrites chunk {fsm.early[packet.context]}")
        early = _put(fsm.early, packet.context, packet.chunk)
        yield "keep early", self._with(node, packet.fsm, fsm._replace(early=early))

    def _data(self, rank: int, node: Node, packet: Packet) -> Iterator[tuple[str, Node]]:
        m = self.m
        f, slot, step = packet.fsm, packet.context, packet.step
        x = node.fsms[f].contexts[slot]
        if x is None or not x.live or x.chunk != packet.chunk:
            raise Violation(f"{packet} arrives at node {rank}, which does not expect it")
        program = self.programs[rank][f]
        i = program.instructions[step]
        op = i.op.value
        if not op & RECEIVE or x.received >> step & 1:
            raise Violation(f"node {rank} receives {packet} twice")
        ranks = packet.ranks
        if op & REDUCE:
            if ranks >> rank & 1:
                raise Violation(f"{packet} already contains the data of node {rank}")
            ranks |= 1 << rank
        sent = i.contributions if op & SEND or op & REDUCE else ranks.bit_count()
        whole = 1 << i.block if m.collective is CollectiveKind.ALL_GATHER else (1 << m.nodes) - 1
        if ranks.bit_count() != sent or (op & STORE and ranks != whole):
            raise Violation(f"{packet} holds the wrong ranks {ranks:b} at node {rank}")
        x = x._replace(received=x.received | 1 << step, receives_left=x.receives_left - 1)
        if not op & SEND:
            yield "store", self._context(node, f, slot, x)
            return
        if x.remote is not None and len(node.forward[i.port]) < m.tx_packets:
            onward = Packet(f, x.remote, x.chunk, i.peer_step, ranks)
            forward = _put(node.forward, i.port, (*node.forward[i.port], onward))
            yield (
                "forward",
                self._context(
                    node._replace(forward=forward), f, slot, x._replace(sends_left=x.sends_left - 1)
                ),
            )
        # Also with room and grant: the lookup may have been answered before the READY came, and
        # another receive unit may own the queue.
        if m.planted != "packet waits for output":
            yield (
                "park",
                self._context(node, f, slot, x._replace(parked=x.parked | {(step, ranks)})),
            )

    # ---- Copies with something changed.

    def _with(self, node: Node, f: int, fsm: Fsm) -> Node:
        return node._replace(fsms=_put(node.fsms, f, fsm))

    def _context(
        self, node: Node, f: int, slot: int, x: Context, command: tuple[int, Packet] | None = None
    ) -> Node:
        fsm = node.fsms[f]
        fsm = fsm._replace(
            contexts=_put(fsm.contexts, slot, x),
            command=fsm.command if command is None else command,
        )
        return self._with(node, f, fsm)


def _put(items: tuple, index: int, value: object) -> tuple:
    return (*items[:index], value, *items[index + 1 :])
