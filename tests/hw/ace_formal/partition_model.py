# SPDX-License-Identifier: Apache-2.0
"""The protocol between ACE engines with partitions by phase, as a transition system.

Chunks go from the FSM of a phase to that of the next one. What `RingModel` says of a phase holds
for each; a node has more steps: a chunk moves on, and data are copied to the next partition.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from hw.ace.config import AceConfig
from hw.ace.isa import Opcode
from sim.collectives.ace_program import AceProgram
from sim.collectives.fsm_program import FsmProgram, Instruction
from sim.hosts.wiring import EngineWiring
from sim.network.network import Network
from tests.hw.ace_formal.explorer import Violation
from tests.hw.ace_formal.ring_model import (
    RECEIVE,
    STORE,
    Context,
    Node,
    Packet,
    RingModel,
    Run,
    Unread,
    put,
    put_run,
)

__all__ = ["PartitionModel"]


@dataclass(frozen=True, kw_only=True)
class PartitionModel(RingModel):
    """Engines whose FSMs do one phase each.

    Parameters
    ----------
    phases : int
        Phases that there are FSMs for.
    slots : tuple of int
        Slots of an FSM in each partition, that of results the last one; at most ``contexts``.
    planted
        Leaves out one rule: ``"chunks move on in any order"``, ``"slots are not kept"`` (for
        results), ``"copies are not counted"``, or one of `RingModel`.
    """

    phases: int = 2
    slots: tuple[int, ...] = (1, 1, 1)

    def __str__(self) -> str:
        return f"{super().__str__()}-slots-{'-'.join(map(str, self.slots))}"

    def run(self) -> Run:
        return _PartitionRun(self)


def _programs(m: PartitionModel) -> tuple[list[list[FsmProgram]], dict[tuple[int, int], int]]:
    """Programs by rank and FSM, and links, as for `RingModel`."""
    config = AceConfig(
        ports=2 * len(m.shape), alus=1, partitions="phase", phases=m.phases,
        fsms=m.phases * m.fsms, memory_ports=1,
    )
    if not m.style:
        wiring = EngineWiring.ring(m.nodes, latency_cycles=1, beats_per_cycle=1.0)
    else:
        wiring = EngineWiring.by_dimension(
            Network.torus(m.shape, bandwidth_bytes_per_s=16e9, latency_s=1e-8), style=m.style,
            fsms=m.fsms, clock_hz=1e9, bus_bytes=16, bidirectional=m.fsms > 1,
        )
    program = AceProgram(
        config=config, nodes=m.nodes, queues=m.fsms, bidirectional=m.fsms > 1, torus=wiring.torus
    )
    ports = 2 * len(m.shape)
    ends = {(w.rank, w.port): m.nodes + ports * w.peer + w.peer_port for w in wiring.wires}
    return [
        [program.code(m.collective, fsm=f, rank=rank) for f in range(config.fsms)]
        for rank in range(m.nodes)
    ], ends


class _PartitionRun(Run):
    m: PartitionModel

    def __init__(self, model: PartitionModel) -> None:
        super().__init__(model)
        self.fsms, self.targets = model.fsms * model.phases, self.ports + 1
        self.programs, self.ends = _programs(model)

    # ---- From phase to phase.

    def _admit(self, rank: int, node: Node) -> Iterator[tuple[str, Node]]:
        m, chunk = self.m, len(node.admitted)
        if chunk < m.chunks:
            f = chunk % m.fsms
            free = [n for n in range(m.slots[0]) if node.fsms[f].contexts[n] is None]
            if free and (placed := self._place(node, f)) is not None:
                new, after = placed
                fsm = self._seated(new.fsms[f], free[0], Context(chunk, after=after))
                new = new._replace(admitted=(*node.admitted, chunk))
                yield f"admit chunk {chunk} in slot {free[0]}", self._with(new, f, fsm)
        for f in range(self.fsms):
            for slot, x in enumerate(node.fsms[f].contexts):
                if x is not None and x.live and self._finished(rank, f, x):
                    yield from self._move(rank, node, f, slot, x)

    def _place(self, node: Node, f: int) -> tuple[Node, int] | None:
        """The node with a slot taken for results of FSM *f*, and its number."""
        m = self.m
        phase = f // m.fsms
        last = phase + 1 == m.phases
        g = f if last else f + m.fsms
        fsm = node.fsms[g]
        taken = fsm.finals if last else fsm.kept | {
            n for n, x in enumerate(fsm.contexts) if x is not None
        }
        free = [n for n in range(m.slots[phase + 1]) if n not in taken]
        if not free:
            return None
        if m.planted != "slots are not kept":
            name = "finals" if last else "kept"
            fsm = fsm._replace(**{name: getattr(fsm, name) | {free[0]}})
        return self._with(node, g, fsm), free[0]

    def _finished(self, rank: int, f: int, x: Context) -> bool:
        over = self.programs[rank][f].instructions[x.at].op is Opcode.END
        return over and not (x.announce or x.receives_left[0] or x.sends_left[0])

    def _move(
        self, rank: int, node: Node, f: int, slot: int, x: Context
    ) -> Iterator[tuple[str, Node]]:
        """A chunk leaves its phase: for the next one, or for the RX DMA."""
        m = self.m
        before = [
            y for each in node.fsms[: (f // m.fsms + 1) * m.fsms] for y in each.contexts
            if y is not None and y.chunk < x.chunk
        ]
        if before and m.planted != "chunks move on in any order":
            return
        left = node.fsms[f]._replace(contexts=put(node.fsms[f].contexts, slot, None))
        if f + m.fsms >= self.fsms:
            self._check_complete(rank, x._replace(cells=x.results))
            left = left._replace(storing=left.storing | {x.after})
            yield f"chunk {x.chunk} is complete", self._with(node, f, left)
            return
        g = f + m.fsms
        placed = self._place(self._with(node, f, left), g)
        if placed is None:
            return
        node, after = placed
        fsm = node.fsms[g]
        if fsm.contexts[x.after] is not None:
            raise Violation(f"node {rank} moves chunk {x.chunk} to a slot that is in use")
        fsm = fsm._replace(kept=fsm.kept - {x.after}, entered=fsm.entered | {x.chunk})
        context = Context(x.chunk, after=after, cells=x.results)
        yield (
            f"chunk {x.chunk} moves on to FSM {g}",
            self._with(node, g, self._seated(fsm, x.after, context)),
        )

    def _slots(self, rank: int, node: Node, f: int) -> Iterator[tuple[str, Node]]:
        fsm = node.fsms[f]
        for slot, x in enumerate(fsm.contexts):
            if x is not None and not x.live:
                yield f"chunk {x.chunk} is loaded", self._loaded(rank, node, f, slot, x)
        for slot in fsm.storing:
            stored = fsm._replace(storing=fsm.storing - {slot}, finals=fsm.finals - {slot})
            yield f"result {slot} of FSM {f} is stored", self._with(node, f, stored)

    def _loaded(self, rank: int, node: Node, f: int, slot: int, x: Context) -> Node:
        storing = node.fsms[f].storing  # slots of results
        apart = self._with(node, f, node.fsms[f]._replace(storing=frozenset()))
        new = super()._loaded(rank, apart, f, slot, x)
        new = self._with(new, f, new.fsms[f]._replace(storing=storing))
        live = new.fsms[f].contexts[slot]
        assert live is not None
        cells = live.cells if f < self.m.fsms else x.cells
        return self._context(
            new, f, slot, live._replace(cells=cells, results=(0,) * self.m.nodes)
        )

    def _was_here(self, node: Node, packet: Packet) -> bool:
        if packet.fsm < self.m.fsms:
            return super()._was_here(node, packet)
        return packet.chunk in node.fsms[packet.fsm].entered

    # ---- What is where.

    def _cells(self, x: Context, i: Instruction) -> tuple[int, ...]:
        stored = i.op.value & RECEIVE and i.op.value & STORE
        return x.results if stored else x.cells

    def _keep(self, x: Context, run: range, ranks: tuple[int, ...], i: Instruction) -> Context:
        if i.op.value & STORE:
            return x._replace(results=put_run(x.results, run, ranks))
        return super()._keep(x, run, ranks, i)

    def _check_left(self, rank: int, node: Node, f: int, slot: int, x: Context, run: range) -> None:
        """Results have a slot of their own, where nothing has to leave."""

    def _read(self, rank: int, node: Node, port: int, unread: Unread) -> Iterator[tuple[str, Node]]:
        if port != self.ports:
            yield from super()._read(rank, node, port, unread)
            return
        f, slot, at, packet = unread
        x = node.fsms[f].contexts[slot]
        if x is None or x.chunk != packet.chunk:
            raise Violation(f"node {rank} copies from a slot that was given back")
        run = self._run(rank, f, at)
        ranks = tuple(x.cells[block] for block in run)
        if not all(ranks):
            raise Violation(f"node {rank} copies {packet}, which is not there")
        x = x._replace(results=put_run(x.results, run, ranks))
        if self.m.planted != "copies are not counted":
            x = self._sent(x, self._instruction(rank, f, at))
        new = node._replace(own=put(node.own, port, node.own[port][:-1]))
        yield f"copy {packet}", self._context(new, f, slot, self._counted(rank, f, x))
