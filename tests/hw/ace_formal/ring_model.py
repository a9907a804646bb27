# SPDX-License-Identifier: Apache-2.0
"""The protocol between ACE engines as a transition system, running the real programs.

One step of the model is one decision that the hardware makes: a chunk is admitted, a load is done,
a send generator commits itself to a packet or opens a phase, a packet takes its place in a transmit
queue, is read from its slot, crosses a link, or is consumed. Time is left out: each step may come
at any time or wait as long as it likes, which stands for memory, SRAM banks, ALUs, link latency,
credits under way, clocks, and commands given at different times. Where the hardware picks one of
several (arbiters, a packet parked because the forward queue was taken a moment too long), the model
tries every choice.

A run of blocks is one packet. Data are sets of ranks: those whose vectors were added. A slot has
one cell for each block; those of a run are read when a packet leaves and written when one is kept,
in place.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from math import prod
from typing import NamedTuple

from hw.ace.isa import Opcode
from sim.collectives.fsm_program import FsmProgram, Instruction, PhaseStart, ring_program
from sim.hosts.wiring import EngineWiring
from sim.network.network import Network
from sim.workload.graph import CollectiveKind
from tests.hw.ace_formal.explorer import Exploration, Violation, explore, wander

__all__ = ["Context", "Fsm", "Node", "Packet", "RingModel", "Run", "Unread", "put", "put_run"]

RECEIVE, SEND, STORE, REDUCE = 8, 4, 2, 1
NEXT, PREVIOUS = 0, 1  # ports of a ring


class Packet(NamedTuple):
    """A DATA packet, or a READY one (``step`` is None)."""

    fsm: int
    context: int
    chunk: int
    step: int | None
    contributions: int = 0
    ranks: tuple[int, ...] = ()  # ghost: set of ranks in each block of the payload

    def __str__(self) -> str:
        kind = "READY" if self.step is None else f"DATA step {self.step}"
        return f"{kind} chunk {self.chunk} -> FSM {self.fsm} context {self.context}"


class Unread(NamedTuple):
    """A place in a transmit queue whose packet has still to be read from its slot."""

    fsm: int
    slot: int
    at: int  # its instruction
    packet: Packet

    def __str__(self) -> str:
        return str(self.packet)


class Context(NamedTuple):
    """A chunk in an FSM, and its slot."""

    chunk: int
    live: bool = False
    announce: tuple[int, ...] = ()  # ports that a READY is still to be sent to
    at: int = 0  # the instruction that is next of those that start by themselves
    phase: int = 0
    readies: tuple[tuple[int, int], ...] = ()  # by port: READYs of the peer, its context
    received: int = 0  # ghost: set of steps
    receives_left: tuple[int, ...] = (0, 0)  # by parity of the phase
    sends_left: tuple[int, ...] = (0, 0)
    parked: frozenset[int] = frozenset()  # steps
    cells: tuple[int, ...] = ()  # data of each block; 0: of no use any more
    results: tuple[int, ...] = ()  # with partitions by phase, those in the next one
    after: int = -1  # and their slot there


class Fsm(NamedTuple):
    """One programmable FSM."""

    contexts: tuple[Context | None, ...]
    early: tuple[tuple[int | None, ...], ...]  # by port and context of the peer: chunk of a READY
    storing: frozenset[int] = frozenset()  # slots that the RX DMA works on
    command: tuple[int, Packet | Unread | None] | None = None
    """Port and packet that the send generator waits to queue; None: planted, the end of a phase."""
    kept: frozenset[int] = frozenset()  # with partitions by phase, slots for results of others
    finals: frozenset[int] = frozenset()  # and those for its own, of the last phase
    entered: frozenset[int] = frozenset()  # and chunks that have come


class Node(NamedTuple):
    """One engine with its two transmit queues per port."""

    admitted: tuple[int, ...]  # chunks
    fsms: tuple[Fsm, ...]
    forward: tuple[tuple[Packet, ...], ...]
    own: tuple[tuple[Packet | Unread, ...], ...]


@dataclass(frozen=True, kw_only=True)
class RingModel:
    """Engines on rings, one or several after another, with one command.

    Parameters
    ----------
    shape : tuple of int
        Nodes along each dimension of a torus.
    style : str
        Of `TorusPaths`: phases of a chunk. Empty: one ring, without phases.
    chunks, contexts : int
        Chunks of the command, contexts (and slots) of an FSM. Chunk ``n`` goes to FSM ``n % fsms``.
    fsms : int
        FSM 0 runs its rings forwards. FSM 1 runs them backwards or, with *colours*, forwards in
        another order of the dimensions.
    rx_packets, tx_packets : int
        Packets of a receive buffer, and of each of the two transmit queues of a port.
    collective : CollectiveKind
    at_once : bool
        Of steps that nothing can prevent or undo, and that commute with all others, one is done
        before anything else: loads, completions, stores, READYs at the head of a link and, with one
        FSM, taking a place in a queue. Every deadlock and every violation of the complete system is
        one of this one, so long as READYs follow loads and loads stores, by which they commute.
    planted : str
        Leaves out one rule of the protocol: ``"packet waits for output"``, ``"send without
        READY"``, ``"admission in any order"``, ``"generator waits for grant"``, ``"early READY
        forgotten"``, ``"READY before load"``, ``"no credits"``; of phases, ``"READY of all phases
        at once"``, ``"READYs are not counted"``, ``"generator waits for phase"``, ``"phase waits
        for no packet"`` (that arrives), ``"phase waits for no send"``, ``"phase forgets sends"``,
        ``"operands may come ahead"``, ``"one count for all phases"``;
        of slots, ``"slot free before store"``, ``"sent before it is read"``. A phase that does not
        wait adds what the next one has to what is left of it, but for the one that forgets it.
    """

    shape: tuple[int, ...] = (2,)
    style: str = ""
    chunks: int = 2
    contexts: int = 1
    fsms: int = 1
    colours: bool = False
    rx_packets: int = 1
    tx_packets: int = 1
    collective: CollectiveKind = CollectiveKind.ALL_REDUCE
    at_once: bool = False
    planted: str = ""

    def __str__(self) -> str:
        """Its name in reports of tests."""
        shape = "x".join(map(str, self.shape))
        return (
            f"{self.collective.name.lower()}-{self.style or 'ring'}-{shape}-nodes-{self.chunks}-"
            f"chunks-{self.contexts}-contexts-{self.fsms}-fsms-rx-{self.rx_packets}-tx-"
            f"{self.tx_packets}{'-at-once' if self.at_once else ''}"
        )

    @property
    def nodes(self) -> int:
        """Ranks."""
        return prod(self.shape)

    def without(self, rule: str) -> "RingModel":
        """The same without a rule."""
        return replace(self, planted=rule)

    def run(self) -> "Run":
        """Its successor function."""
        return Run(self)

    def explore(self) -> Exploration:
        """Check all runs."""
        run = self.run()
        return explore(run.initial, run.successors, run.is_final)

    def wander(self, runs: int) -> Exploration:
        """Check random runs."""
        run = self.run()
        return wander(run.initial, run.successors, run.is_final, runs=runs)


def _programs(m: RingModel) -> tuple[list[list[FsmProgram]], dict[tuple[int, int], int]]:
    """Programs by rank and FSM, and links: rank and port to number of the link at the other end."""
    if not m.style:
        wiring = EngineWiring.ring(m.nodes, latency_cycles=1, beats_per_cycle=1.0)
        programs = [
            [
                ring_program(
                    m.collective, rank=rank, nodes=m.nodes, direction=-1 if f % 2 else 1,
                    to_port=PREVIOUS if f % 2 else NEXT, from_port=NEXT if f % 2 else PREVIOUS,
                )
                for f in range(m.fsms)
            ]
            for rank in range(m.nodes)
        ]
    else:
        wiring = EngineWiring.by_dimension(
            Network.torus(m.shape, bandwidth_bytes_per_s=16e9, latency_s=1e-8), style=m.style,
            fsms=m.fsms, clock_hz=1e9, bus_bytes=16, bidirectional=m.fsms > 1 and not m.colours,
        )
        paths = wiring.torus
        assert paths is not None
        programs = [
            [
                paths.code(m.collective, path=f % len(paths.paths), rank=rank)
                for f in range(m.fsms)
            ]
            for rank in range(m.nodes)
        ]
    if m.planted == "operands may come ahead":
        programs = [[_all_ahead(each) for each in of_rank] for of_rank in programs]
    ports = 2 * len(m.shape)
    ends = {(w.rank, w.port): m.nodes + ports * w.peer + w.peer_port for w in wiring.wires}
    return programs, ends


def _all_ahead(program: FsmProgram) -> FsmProgram:
    """The same program, with READY a phase earlier for reductions, too."""
    starts = list(program.phases)
    for n in range(1, len(starts)):
        before, start = starts[n - 1], starts[n]
        if not before.from_ports & start.from_ports:
            told = before.ready_ports | start.from_ports
            starts[n - 1] = replace(before, ready_ports=told, ahead=max(1, start.run // before.run))
            starts[n] = replace(start, ready_ports=start.ready_ports - start.from_ports)
    first, *later = starts
    following = iter(later)
    code = (next(following) if isinstance(i, PhaseStart) else i for i in program.instructions)
    return FsmProgram(instructions=tuple(code), first=first)


class Run:
    """Successor function, with what a node does remembered: nodes meet only at their links."""

    def __init__(self, model: RingModel) -> None:
        self.m = m = model
        self.ports = 2 * len(m.shape)
        self.fsms, self.targets = m.fsms, self.ports
        self.programs, self.ends = _programs(m)
        # Nodes and link contents are numbered, so that a state is a short tuple of numbers.
        self.node_ids: dict[Node, int] = {}
        self.node_list: list[Node] = []
        self.link_ids: dict[tuple[Packet, ...], int] = {}
        self.link_list: list[tuple[Packet, ...]] = []
        self.within = cache(self._within)
        self.soon = cache(self._soon)
        self.consume = cache(self._consume)
        self.leave = cache(self._leave)
        self.done = cache(self._done)
        no_row = (None,) * m.contexts
        self.idle = Fsm(no_row, (no_row,) * self.ports)

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

    @property
    def initial(self) -> tuple[int, ...]:
        m = self.m
        queues = ((),) * self.targets
        node = self.node_id(Node((), (self.idle,) * self.fsms, queues, queues))
        # Link (rank, port) is the receive buffer of that port and what is on its way to it.
        return (node,) * m.nodes + (self.link_id(()),) * (self.ports * m.nodes)

    def is_final(self, state: tuple[int, ...]) -> bool:
        """Every chunk is in memory on all nodes and nothing is left anywhere."""
        n = self.m.nodes
        return all(map(self.done, state[:n])) and not any(self.link_list[i] for i in state[n:])

    def _done(self, number: int) -> bool:
        node = self.node_list[number]
        return (
            len(node.admitted) == self.m.chunks
            and not any(node.forward)
            and not any(node.own)
            and all(fsm._replace(entered=frozenset()) == self.idle for fsm in node.fsms)
        )

    def successors(self, state: tuple[int, ...]) -> Iterator[tuple[str, tuple[int, ...]]]:
        steps = self._steps_from(state)
        return (self._at_once(*step) for step in steps) if self.m.at_once else steps

    def _steps_from(self, state: tuple[int, ...]) -> Iterator[tuple[str, tuple[int, ...]]]:
        m, n = self.m, self.m.nodes
        for rank in range(n):
            here = state[rank]
            for action, after in self.within(rank, here):
                yield action, state[:rank] + (after,) + state[rank + 1 :]
            for port in range(self.ports):
                at = n + self.ports * rank + port
                link = self.link_list[state[at]]
                if link:
                    rest = self.link_id(link[1:])
                    for action, after in self.consume(rank, here, port, link[0]):
                        new = list(state)
                        new[rank], new[at] = after, rest
                        yield action, tuple(new)
                for action, after, packet in self.leave(rank, here, port):
                    to = self.ends[rank, port]
                    ahead = self.link_list[state[to]]
                    if len(ahead) < m.rx_packets or m.planted == "no credits":
                        if len(ahead) == m.rx_packets:
                            raise Violation(f"receive buffer of node {self._peer(to)} overflows")
                        new = list(state)
                        new[rank], new[to] = after, self.link_id((*ahead, packet))
                        yield action, tuple(new)

    def _at_once(self, action: str, state: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
        """A step and all those that are done *at_once* after it."""
        n = self.m.nodes
        new = list(state)
        again = True
        while again:
            again = False
            for rank in range(n):
                while steps := self.soon(rank, new[rank]):
                    step, new[rank] = steps[0]
                    action += f"; {step}"
                    again = True
                for port in range(self.ports):
                    at = n + self.ports * rank + port
                    link = self.link_list[new[at]]
                    if link and link[0].step is None:
                        ((step, new[rank]),) = self.consume(rank, new[rank], port, link[0])
                        new[at] = self.link_id(link[1:])
                        action += f"; {step}"
                        again = True
        return action, tuple(new)

    def _peer(self, link: int) -> int:
        return (link - self.m.nodes) // self.ports

    # ---- What a node does by itself.

    def _within(self, rank: int, number: int) -> list[tuple[str, int]]:
        node = self.node_list[number]
        found = list(self.soon(rank, number))
        for action, new in self._acts(rank, node):
            found.append((f"node {rank}: {action}", self.node_id(new)))
        return found

    def _soon(self, rank: int, number: int) -> list[tuple[str, int]]:
        node = self.node_list[number]
        found = [act for f in range(self.fsms) for act in self._slots(rank, node, f)]
        command = node.fsms[0].command
        if self.m.at_once and self.fsms == 1 and command is not None:
            found += self._queue(rank, node, 0, *command)
        return [(f"node {rank}: {action}", self.node_id(new)) for action, new in found]

    def _slots(self, rank: int, node: Node, f: int) -> Iterator[tuple[str, Node]]:
        """Slots that are loaded, complete or stored."""
        fsm, program = node.fsms[f], self.programs[rank][f]
        for slot, x in enumerate(fsm.contexts):
            if x is None:
                continue
            if not x.live:
                yield f"chunk {x.chunk} is loaded", self._loaded(rank, node, f, slot, x)
            elif program.instructions[x.at].op is Opcode.END and not (
                x.announce or x.receives_left[x.phase % 2] or x.sends_left[x.phase % 2]
            ):
                self._check_complete(rank, x)
                done = fsm._replace(
                    contexts=put(fsm.contexts, slot, None), storing=fsm.storing | {slot}
                )
                yield f"chunk {x.chunk} is complete", self._with(node, f, done)
        for slot in fsm.storing:
            stored = fsm._replace(storing=fsm.storing - {slot})
            yield f"slot {slot} of FSM {f} is stored", self._with(node, f, stored)

    def _acts(self, rank: int, node: Node) -> Iterator[tuple[str, Node]]:
        yield from self._admit(rank, node)
        for f in range(self.fsms):
            yield from self._generate(rank, node, f)
        for port, queue in enumerate(node.own):
            if queue and isinstance(queue[-1], Unread):
                yield from self._read(rank, node, port, queue[-1])

    def _admit(self, rank: int, node: Node) -> Iterator[tuple[str, Node]]:
        """Admission, in order of chunks: the next one waits for its own FSM."""
        m = self.m
        done = len(node.admitted)
        if m.planted == "admission in any order":
            candidates = [c for c in range(m.chunks) if c not in node.admitted]
        else:
            candidates = [done] if done < m.chunks else []
        for chunk in candidates:
            f = chunk % m.fsms
            fsm, program = node.fsms[f], self.programs[rank][f]
            free = [
                n for n, x in enumerate(fsm.contexts)
                if x is None and (n not in fsm.storing or m.planted == "slot free before store")
            ]
            if not free:
                continue
            slot = free[0]
            announce = _ports(program.first) if m.planted == "READY before load" else ()
            fsm = self._seated(fsm, slot, Context(chunk, announce=announce))
            admitted = tuple(sorted((*node.admitted, chunk)))
            yield (
                f"admit chunk {chunk} in slot {slot}",
                self._with(node._replace(admitted=admitted), f, fsm),
            )

    def _seated(self, fsm: Fsm, slot: int, context: Context) -> Fsm:
        """The FSM with a new chunk, which learns of the READYs that have come early."""
        readies, early = [], []
        for row in fsm.early:
            found = row.index(context.chunk) if context.chunk in row else None
            readies.append((0, 0) if found is None else (1, found))
            early.append(row if found is None else put(row, found, None))
        context = context._replace(readies=tuple(readies))
        return fsm._replace(contexts=put(fsm.contexts, slot, context), early=tuple(early))

    def _loaded(self, rank: int, node: Node, f: int, slot: int, x: Context) -> Node:
        m, program = self.m, self.programs[rank][f]
        if slot in node.fsms[f].storing:
            raise Violation(f"node {rank} loads chunk {x.chunk} over a result that is not stored")
        phases = (
            program.phases if m.planted == "READY of all phases at once" else (program.first,)
        )
        announce = tuple(port for phase in phases for port in _ports(phase))
        if m.planted == "READY before load":
            announce = x.announce
        gathers = m.collective is CollectiveKind.ALL_GATHER
        return self._context(
            node, f, slot,
            x._replace(
                live=True, announce=announce, receives_left=(program.first.receives, 0),
                sends_left=(program.first.sends, 0),
                cells=tuple(
                    1 << rank if not gathers or block == rank else 0 for block in range(m.nodes)
                ),
            ),
        )

    def _generate(self, rank: int, node: Node, f: int) -> Iterator[tuple[str, Node]]:
        """The send generator: commits itself to one packet, waits for its queue."""
        m = self.m
        fsm = node.fsms[f]
        if fsm.command is not None:
            yield from self._queue(rank, node, f, *fsm.command)
            return
        for slot, x in enumerate(fsm.contexts):
            if x is None:
                continue
            for port in dict.fromkeys(x.announce):
                command = (port, Packet(f, slot, x.chunk, None))
                # In this packet `context` is the own context: it tells the peer where to send to.
                rest = list(x.announce)
                rest.remove(port)
                yield (
                    f"pick {command[1]}",
                    self._context(node, f, slot, x._replace(announce=tuple(rest)), command),
                )
            if not x.live:
                continue
            instruction = self.programs[rank][f].instructions[x.at]
            if isinstance(instruction, PhaseStart):
                if self._over(x):
                    yield self._open(rank, node, f, slot, x, instruction)
                elif m.planted == "generator waits for phase":
                    yield "wait for a phase", self._context(node, f, slot, x, (slot, None))
            elif instruction.op in (Opcode.SEND, Opcode.COPY):
                yield from self._pick(rank, node, f, slot, x, x.at)
            for step in x.parked:
                yield from self._pick(rank, node, f, slot, x, step)

    def _pick(
        self, rank: int, node: Node, f: int, slot: int, x: Context, at: int
    ) -> Iterator[tuple[str, Node]]:
        """A packet, fresh or parked, whose peer is ready."""
        i = self._instruction(rank, f, at)
        remote = self._granted(x, i)
        if remote is None:
            if self.m.planted == "send without READY":
                remote = 0
            elif self.m.planted == "generator waits for grant":
                remote = -1
            else:
                return
        packet = Unread(f, slot, at, Packet(f, remote, x.chunk, i.peer_step, i.contributions))
        fresh = not i.op.value & RECEIVE
        left = x._replace(at=at + 1) if fresh else x._replace(parked=x.parked - {at})
        yield (
            f"pick {'' if fresh else 'parked '}{packet}",
            self._context(node, f, slot, left, (self._port(i), packet)),
        )

    def _port(self, i: Instruction) -> int:
        """Link that an instruction sends on; behind the last one is the copy unit."""
        return self.ports if i.op is Opcode.COPY else i.port

    def _over(self, x: Context) -> bool:
        """Every packet of the phase has arrived and left."""
        planted, odd = self.m.planted, x.phase % 2
        return (x.receives_left[odd] == 0 or planted == "phase waits for no packet") and (
            x.sends_left[odd] == 0 or planted in ("phase waits for no send", "phase forgets sends")
        )

    def _open(
        self, rank: int, node: Node, f: int, slot: int, x: Context, start: PhaseStart
    ) -> tuple[str, Node]:
        if set(x.announce).intersection(start.ready_ports) and not self.m.planted:
            raise Violation(f"node {rank} forgets a READY of chunk {x.chunk}")
        planted, odd = self.m.planted, (x.phase + 1) % 2
        if planted.startswith("phase waits"):  # what is left is counted in the next one
            x = x._replace(**{
                name: put((0, 0), odd, sum(getattr(x, name)))
                for name in ("receives_left", "sends_left")
            })
        elif planted == "phase forgets sends":
            x = x._replace(sends_left=put(x.sends_left, 1 - odd, 0))
        opened = x._replace(
            at=x.at + 1,
            phase=x.phase + 1,
            announce=(
                x.announce if planted == "READY of all phases at once"
                else tuple(sorted({*x.announce, *start.ready_ports}))
            ),
            receives_left=_add(x.receives_left, odd, start.receives),
            sends_left=_add(x.sends_left, odd, start.sends),
        )
        return f"phase {opened.phase} of chunk {x.chunk}", self._context(node, f, slot, opened)

    def _queue(
        self, rank: int, node: Node, f: int, port: int, packet: Packet | Unread | None
    ) -> Iterator[tuple[str, Node]]:
        m, fsm = self.m, node.fsms[f]
        free = fsm._replace(command=None)
        if packet is None:  # planted: the end of a phase, of the context of that number
            x = fsm.contexts[port]
            if x is not None and self._over(x):
                yield "go on", self._with(node, f, free)
            return
        queue = node.own[port]
        # The send unit works on one packet at a time.
        if len(queue) == m.tx_packets or (queue and isinstance(queue[-1], Unread)):
            return
        if isinstance(packet, Unread):
            x = fsm.contexts[packet.slot]
            assert x is not None
            if packet.packet.context < 0:  # planted: not granted when it was picked
                remote = self._granted(x, self._instruction(rank, f, packet.at))
                if remote is None:
                    return
                packet = packet._replace(packet=packet.packet._replace(context=remote))
            if m.planted == "sent before it is read":
                x = self._sent(x, self._instruction(rank, f, packet.at))
                free = free._replace(contexts=put(free.contexts, packet.slot, x))
        new = node._replace(own=put(node.own, port, (*queue, packet)))
        yield f"queue {packet} on port {port}", self._with(new, f, free)

    def _read(self, rank: int, node: Node, port: int, unread: Unread) -> Iterator[tuple[str, Node]]:
        """The send unit reads a packet from its slot; only then it has left."""
        f, slot, at, packet = unread
        x = node.fsms[f].contexts[slot]
        if x is None or x.chunk != packet.chunk or not x.live:
            raise Violation(f"node {rank} reads {packet} from a slot that was given back")
        i = self._instruction(rank, f, at)
        run = self._run(rank, f, at)
        ranks = tuple(self._cells(x, i)[block] for block in run)
        if any(each.bit_count() != i.contributions for each in ranks):
            raise Violation(f"{packet} leaves node {rank} with the wrong ranks {ranks}")
        if i.op.value & RECEIVE and not i.op.value & STORE:
            x = x._replace(cells=put_run(x.cells, run, (0,) * len(run)))
        if self.m.planted != "sent before it is read":
            x = self._sent(x, i)
        queue = (*node.own[port][:-1], packet._replace(ranks=ranks))
        new = node._replace(own=put(node.own, port, queue))
        yield f"read {packet}", self._context(new, f, slot, self._counted(rank, f, x))

    def _cells(self, x: Context, i: Instruction) -> tuple[int, ...]:
        """Data that a packet is read from."""
        return x.cells

    def _keep(self, x: Context, run: range, ranks: tuple[int, ...], i: Instruction) -> Context:
        """The outcome of a received packet is stored, or parked."""
        return x._replace(cells=put_run(x.cells, run, ranks))

    def _odd(self, x: Context, i: Instruction) -> int:
        """Parity of the phase in which a packet for an instruction is counted."""
        as_open = self.m.planted.startswith(("one count", "phase waits"))
        return x.phase % 2 if as_open else i.odd

    def _sent(self, x: Context, i: Instruction) -> Context:
        return x._replace(sends_left=_add(x.sends_left, self._odd(x, i), -1))

    def _counted(self, rank: int, f: int, x: Context) -> Context:
        """Counts of the phase, and of the one ahead, whose packets are still to be added."""
        phases = self.programs[rank][f].phases
        told = phases[x.phase].ahead and phases[x.phase + 1]
        for left, most in (
            (x.receives_left, told.receives if told else 0),
            (x.sends_left, told.sends if told else 0),
        ):
            if left[x.phase % 2] < 0 or not -most <= left[(x.phase + 1) % 2] <= 0:
                raise Violation(f"node {rank} counts a packet of chunk {x.chunk} in another phase")
        return x

    def _check_complete(self, rank: int, x: Context) -> None:
        m = self.m
        full = (1 << m.nodes) - 1
        for block, ranks in enumerate(x.cells):
            if m.collective is CollectiveKind.ALL_GATHER:
                whole = 1 << block
            elif m.collective is CollectiveKind.ALL_REDUCE or block == rank:
                whole = full
            else:
                continue
            if ranks != whole:
                raise Violation(f"node {rank} completes chunk {x.chunk} without block {block}")
        if x.parked:
            raise Violation(f"node {rank} completes chunk {x.chunk} too early")

    # ---- Links.

    def _leave(self, rank: int, number: int, port: int) -> list[tuple[str, int, Packet]]:
        """Packets that may start on a link: forwarded ones go first, as in `TransmitPort`."""
        node = self.node_list[number]
        name = "forward" if node.forward[port] else "own"
        queue = getattr(node, name)
        if not queue[port] or isinstance(queue[port][0], Unread):
            return []
        packet = queue[port][0]
        new = node._replace(**{name: put(queue, port, queue[port][1:])})
        return [(f"node {rank}: {packet} leaves on port {port}", self.node_id(new), packet)]

    def _consume(self, rank: int, number: int, port: int, packet: Packet) -> list[tuple[str, int]]:
        """What the receive unit may do with the packet at the head of its buffer."""
        node = self.node_list[number]
        if packet.step is None:
            new = self._ready(rank, node, port, packet)
        else:
            new = self._data(rank, node, packet)
        return [
            (f"node {rank}: {verb} {packet} of port {port}", self.node_id(after))
            for verb, after in new
        ]

    def _ready(
        self, rank: int, node: Node, port: int, packet: Packet
    ) -> Iterator[tuple[str, Node]]:
        fsm = node.fsms[packet.fsm]
        for slot, x in enumerate(fsm.contexts):
            if x is not None and x.chunk == packet.chunk:
                noted = (x.readies[port][0] + 1, packet.context)
                x = x._replace(readies=put(x.readies, port, noted))
                yield "note", self._context(node, packet.fsm, slot, x)
                return
        if self._was_here(node, packet):
            raise Violation(f"{packet} comes to node {rank} too late")
        if self.m.planted == "early READY forgotten":
            yield "forget", node
            return
        row = fsm.early[port]
        if row[packet.context] is not None:
            raise Violation(f"early {packet} overwrites chunk {row[packet.context]}")
        early = put(fsm.early, port, put(row, packet.context, packet.chunk))
        yield "keep early", self._with(node, packet.fsm, fsm._replace(early=early))

    def _was_here(self, node: Node, packet: Packet) -> bool:
        """A chunk has been in the FSM of a READY."""
        return packet.chunk in node.admitted

    def _data(self, rank: int, node: Node, packet: Packet) -> Iterator[tuple[str, Node]]:
        m = self.m
        f, slot, step = packet.fsm, packet.context, packet.step
        assert step is not None
        x = node.fsms[f].contexts[slot]
        if x is None or not x.live or x.chunk != packet.chunk:
            raise Violation(f"{packet} arrives at node {rank}, which does not expect it")
        i = self._instruction(rank, f, step)
        op = i.op.value
        if not op & RECEIVE or x.received >> step & 1:
            raise Violation(f"node {rank} receives {packet} twice")
        run, ranks = self._run(rank, f, step), packet.ranks
        if len(run) != len(ranks):
            raise Violation(f"{packet} arrives at node {rank} with {len(ranks)} blocks")
        if any(not each.bit_count() == packet.contributions == i.arriving for each in ranks):
            raise Violation(f"{packet} arrives at node {rank} with the wrong ranks {ranks}")
        if op & REDUCE:
            own = tuple(x.cells[block] for block in run)
            if any(new & old or not old for new, old in zip(ranks, own)):
                raise Violation(f"node {rank} adds {packet} to {own}")
            ranks = tuple(new | old for new, old in zip(ranks, own))
        if any(each.bit_count() != i.contributions for each in ranks):
            raise Violation(f"{packet} makes the wrong ranks {ranks} at node {rank}")
        ahead = self.programs[rank][f].phases[x.phase].ahead > 0
        if not m.planted and not any(
            step in self._steps(rank, f, phase) for phase in range(x.phase, x.phase + ahead + 1)
        ):
            raise Violation(f"{packet} arrives at node {rank} in phase {x.phase}")
        left = _add(x.receives_left, self._odd(x, i), -1)
        x = x._replace(received=x.received | 1 << step, receives_left=left)
        kept = self._keep(x, run, ranks, i)
        if op & STORE:
            self._check_left(rank, node, f, slot, x, run)
            x = kept
        if not op & SEND:
            yield "store", self._context(node, f, slot, self._counted(rank, f, x))
            return
        remote = self._granted(x, i)
        if remote is not None and len(node.forward[i.port]) < m.tx_packets:
            onward = Packet(f, remote, x.chunk, i.peer_step, i.contributions, ranks)
            forward = put(node.forward, i.port, (*node.forward[i.port], onward))
            sent = self._sent(x, i)
            if not op & STORE:
                sent = sent._replace(cells=put_run(x.cells, run, (0,) * len(run)))
            yield (
                "forward",
                self._context(
                    node._replace(forward=forward), f, slot, self._counted(rank, f, sent)
                ),
            )
        # Also with room and grant: the lookup may have been answered before the READY came, and
        # another receive unit may own the queue.
        if m.planted != "packet waits for output":
            self._check_left(rank, node, f, slot, x, run)
            parked = kept._replace(parked=x.parked | {step})
            yield "park", self._context(node, f, slot, self._counted(rank, f, parked))

    def _check_left(self, rank: int, node: Node, f: int, slot: int, x: Context, run: range) -> None:
        """Blocks that are written anew have left, if they had to in this phase."""
        fsm = node.fsms[f]
        waiting = [fsm.command[1]] if fsm.command is not None else []
        waiting += [packet for queue in node.own for packet in queue]
        pending = [
            each.at for each in waiting
            if isinstance(each, Unread) and (each.fsm, each.slot) == (f, slot)
        ]
        pending += x.parked
        at = x.at
        while self.programs[rank][f].instructions[at].op is Opcode.SEND:
            pending.append(at)
            at += 1
        left = {block for each in pending for block in self._run(rank, f, each)}
        for block in left.intersection(run):
            raise Violation(f"node {rank} replaces block {block} of chunk {x.chunk}, which has "
                            "not left")

    # ---- Programs.

    def _instruction(self, rank: int, f: int, at: int) -> Instruction:
        found = self.programs[rank][f].instructions[at]
        assert isinstance(found, Instruction)
        return found

    def _run(self, rank: int, f: int, at: int) -> range:
        """Blocks of an instruction."""
        first = self._instruction(rank, f, at).block
        return range(first, first + self.programs[rank][f].run_of(at))

    def _steps(self, rank: int, f: int, phase: int) -> range:
        """Receive instructions of a phase; they follow each other."""
        program = self.programs[rank][f]
        first = next(
            n for n, each in enumerate(program.instructions)
            if isinstance(each, Instruction) and each.op.value & RECEIVE
        )
        first += sum(each.receives for each in program.phases[:phase])
        return range(first, first + program.phases[phase].receives)

    def _granted(self, x: Context, i: Instruction) -> int | None:
        """Context of the peer that an instruction sends to, if the peer is ready."""
        if i.op is Opcode.COPY:
            return 0
        count, remote = x.readies[i.port]
        needed = 0 if self.m.planted == "READYs are not counted" else i.readies
        return remote if count > needed else None

    # ---- Copies with something changed.

    def _with(self, node: Node, f: int, fsm: Fsm) -> Node:
        return node._replace(fsms=put(node.fsms, f, fsm))

    def _context(
        self,
        node: Node,
        f: int,
        slot: int,
        x: Context,
        command: tuple[int, Packet | Unread | None] | None = None,
    ) -> Node:
        fsm = node.fsms[f]
        fsm = fsm._replace(
            contexts=put(fsm.contexts, slot, x),
            command=fsm.command if command is None else command,
        )
        return self._with(node, f, fsm)


def _ports(phase: PhaseStart) -> tuple[int, ...]:
    return tuple(sorted(phase.ready_ports))


def _add(counts: tuple[int, ...], at: int, more: int) -> tuple[int, ...]:
    return put(counts, at, counts[at] + more)


def put_run(items: tuple, run: range, values: tuple) -> tuple:
    return (*items[: run.start], *values, *items[run.stop :])


def put(items: tuple, index: int, value: object) -> tuple:
    return (*items[:index], value, *items[index + 1 :])
