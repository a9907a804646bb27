# SPDX-License-Identifier: Apache-2.0
"""Partitions by phase: chunks that move on from the FSMs of a phase to those of the next one."""

from typing import Any, NamedTuple

from amaranth.hdl import Array, Cat, Module, Mux, ResetInserter, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.ace.config import AceConfig
from hw.ace.layouts import admit_layout, places, store_job_layout, stored_layout
from hw.common.fifo import StreamFIFO
from hw.common.select import select
from hw.common.signature import ParametricSignature

__all__ = ["PartitionChain", "PhaseQueue", "StageSignature", "entering_layout"]


def entering_layout(c: AceConfig) -> data.StructLayout:
    """A chunk that enters a phase: its context in *fsm* of that phase, the slot that its results go
    to, which is that of a context of *next* in the phase after it, and its job for the RX DMA."""
    several = range(max(2, *c.fsms_by_phase))
    return data.StructLayout(
        {
            "fsm": several,
            "next": several,
            **places(c, "slot"),
            "admit": admit_layout(c),
            "job": store_job_layout(c),
        }
    )


class StageSignature(ParametricSignature):
    """An FSM, seen from the chain of phases.

    Members
    -------
    room, open : ``In(1)``, vacant_context : ``In(range(contexts))``
        A slot is free, that of this context; a chunk may be admitted.
    reserve : ``Out(1)``
        It is taken for results.
    barred : ``Out(contexts)``
        Contexts that have no slot; constant.
    leaving : ``Out(range(contexts))``
        A context that may be the next one to be handed over.
    finished, poisoned, tainted : ``In(1)``
        Its phase is over; its data could not all be read, here or at a peer; a packet said so.
    results : ``In(range(sram_beats))``
        Row of what it hands over.
    release : ``Out(1)``
        It has been handed over.
    """

    def __init__(self, c: AceConfig) -> None:
        context = range(max(2, c.contexts))
        asked = {"room": 1, "open": 1, "vacant_context": context}
        told = {"finished": 1, "poisoned": 1, "tainted": 1, "results": range(c.sram_beats)}
        given = {"reserve": 1, "barred": c.contexts, "leaving": context, "release": 1}
        members = {name: In(shape) for name, shape in (asked | told).items()}
        members |= {name: Out(shape) for name, shape in given.items()}
        super().__init__(members, config=c)


class PhaseQueue(wiring.Component):
    """Chunks of one phase in the order in which they have entered it. The oldest one is offered
    when its phase is over, with the row of its results and what was wrong with its data.

    Timing: a chunk is offered a cycle after its context has finished, or 2 after the one before has
    gone. One chunk in 2 cycles. Stalls: ``o``.

    Members
    -------
    enter : ``In(stream.Signature(entering_layout(config), always_ready=True))``
        A chunk that enters.
    leaving : ``Out(range(contexts))``
        The context of the oldest chunk.
    finished, poisoned, tainted : ``In(fsms of the phase)``, results : ``In(...).array(...)``
        Of the context of this number in each FSM of the phase, see `StageSignature`.
    release : ``Out(fsms of the phase)``
        The FSM whose context is free again.
    o : ``Out(stream.Signature(entering_layout(config)))``
        A chunk that leaves.
    """

    enter: stream.Interface
    leaving: Signal
    finished: Signal
    poisoned: Signal
    tainted: Signal
    results: Any
    release: Signal
    o: stream.Interface

    def __init__(self, config: AceConfig, phase: int) -> None:
        c = self._config = config
        self._fsms = c.fsms_of(phase)
        self._depth = len(self._fsms) * c.slots_of(self._fsms[0]).number
        entering, count = entering_layout(c), len(self._fsms)
        super().__init__(
            {
                "enter": In(stream.Signature(entering, always_ready=True)),
                "leaving": Out(range(max(2, c.contexts))),
                "finished": In(count),
                "poisoned": In(count),
                "tainted": In(count),
                "results": In(range(c.sram_beats)).array(count),
                "release": Out(count),
                "o": Out(stream.Signature(entering)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.chunks = chunks = StreamFIFO(
            entering_layout(self._config), self._depth, memory=False
        )
        head = chunks.o.p
        done = Signal()
        leaves = Signal()
        m.d.comb += [
            self.leaving.eq(head.admit.context),
            chunks.i.valid.eq(self.enter.valid),
            chunks.i.p.eq(self.enter.p),
            leaves.eq(self.o.valid & self.o.ready),
            chunks.o.ready.eq(leaves),
            self.o.valid.eq(done),
            self.o.p.eq(head),
            self.o.p.admit.row.eq(select(head.fsm, self.results)),
            self.o.p.admit.poisoned.eq(self.poisoned.bit_select(head.fsm, 1)),
            self.o.p.job.poisoned.eq(
                head.job.poisoned | self.tainted.bit_select(head.fsm, 1)
            ),
            self.release.eq(leaves << head.fsm),
        ]
        m.d.sync += done.eq(chunks.o.valid & self.finished.bit_select(head.fsm, 1) & ~leaves)
        return m


class _Place(NamedTuple):
    """The slot for the results of the next chunk that enters a phase: whether it is free, its FSM
    in the next phase, its number there, its row."""

    free: Value
    fsm: Value
    slot: Value
    row: Value


class PartitionChain(wiring.Component):
    """Hands chunks over from phase to phase, in the order in which they were dispatched.

    A chunk enters a phase together with the slot that its results go to, in the partition of the
    next phase: that of a context there, which is kept for it. When every packet of the phase has
    arrived and left, it moves to that context, and its own slot is free. It moves only if there
    is a slot for the results of the next phase as well, and after all chunks before it.

    So each partition gives its slots to chunks in one order, which is that of all nodes: the oldest
    chunk that is not complete has slots wherever it goes, and no chunks wait for each other in a
    circle (docs/reference/ace-protocol.md). From the last phase a chunk goes to the RX DMA.

    Chunk ``n`` goes to FSM ``n`` modulo their number in each phase (ISCA 2021, section 4.3: FSMs
    are divided between phases).

    Timing: a chunk moves a cycle after its phase is over, if it is the oldest one there; one in
    2 cycles moves on from each phase. Stalls: no slot, an admission that is under way, the RX DMA.

    Members
    -------
    dispatched : ``In(stream.Signature(admit_layout(config), always_ready=True)).array(...)``
        A chunk enters an FSM of the first phase; ``results`` are filled in here.
    job : ``In(store_job_layout(config))``
        Its job for the RX DMA.
    first : ``In(1)``
        The next chunk to enter is the first one of its collective.
    room : ``Out(1)``
        There is a slot for the results of the next chunk to enter.
    stage : ``Out(StageSignature(config)).array(fsms)``
        The FSMs, phase by phase.
    admit : ``Out(stream.Signature(admit_layout(config), always_ready=True)).array(fsms)``
        A chunk comes from the dispatcher, or from the phase before with its data.
    store : ``Out(stream.Signature(store_job_layout(config))).array(memory_ports)``
        Results for the RX DMAs.
    stored : ``In(stream.Signature(stored_layout(config), always_ready=True))``
        A result is in memory.
    forget : ``In(1)``
        Forget all chunks but those that the RX DMAs have.
    busy : ``Out(1)``
        A slot for results of the last phase is in use.
    """

    dispatched: list
    job: data.View
    first: Signal
    room: Signal
    stage: list
    admit: list
    store: list
    stored: stream.Interface
    forget: Signal
    busy: Signal

    def __init__(self, config: AceConfig) -> None:
        c = self._config = config
        always = {"always_ready": True}
        super().__init__(
            {
                "dispatched": In(stream.Signature(admit_layout(c), **always)).array(c.first_fsms),
                "job": In(store_job_layout(c)),
                "first": In(1),
                "room": Out(1),
                "stage": Out(StageSignature(c)).array(c.fsms),
                "admit": Out(stream.Signature(admit_layout(c), **always)).array(c.fsms),
                "store": Out(stream.Signature(store_job_layout(c))).array(c.memory_ports),
                "stored": In(stream.Signature(stored_layout(c), **always)),
                "forget": In(1),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        c = self._config
        queues = []
        for p in range(c.phases):
            queue = PhaseQueue(c, p)
            m.submodules[f"phase_{p}"] = ResetInserter(self.forget)(queue)
            queues.append(queue)
            for n, f in enumerate(c.fsms_of(p)):
                stage = self.stage[f]
                m.d.comb += [
                    stage.leaving.eq(queue.leaving),
                    queue.finished[n].eq(stage.finished),
                    queue.poisoned[n].eq(stage.poisoned),
                    queue.tainted[n].eq(stage.tainted),
                    queue.results[n].eq(stage.results),
                    stage.release.eq(queue.release[n]),
                ]
        for f, stage in enumerate(self.stage):
            m.d.comb += stage.barred.eq((1 << c.contexts) - (1 << c.slots_of(f).number))
        for f in c.fsms_of(0):
            m.d.comb += self.stage[f].reserve.eq(0)  # the dispatcher takes their slots
        moves = [Signal(name=f"moves_{p}") for p in range(c.phases)]  # from this phase
        for p, queue in enumerate(queues):
            m.d.comb += queue.o.ready.eq(moves[p])

        last = queues[-1].o
        enters = Signal()
        m.d.comb += enters.eq(Cat(each.valid for each in self.dispatched).any())
        entered = [enters, *moves[:-1]]
        firsts = [self.first, *(queue.o.p.admit.key.chunk == 0 for queue in queues[:-1])]
        for p, queue in enumerate(queues):
            taken = entered[p] & ~self.forget
            place = self._place(m, p, taken, firsts[p], moves[-1], last.p)
            if p == 0:
                m.d.comb += self.room.eq(place.free)
                self._dispatch(m, queue.enter, place)
            else:
                self._hand_over(m, p, queues[p - 1].o, queue.enter, moves[p - 1], place)
            m.d.comb += [
                queue.enter.valid.eq(taken),
                queue.enter.p.next.eq(place.fsm),
                queue.enter.p.slot.eq(place.slot),
            ]
        self._store(m, last, moves[-1])
        return m

    def _dispatch(self, m, entering, place):
        """A chunk enters the first phase."""
        m.d.comb += entering.p.job.eq(self.job)
        for f, each in enumerate(self.dispatched):
            admit = self.admit[f]
            m.d.comb += [
                admit.valid.eq(each.valid & ~self.forget),
                admit.p.eq(each.p),
                admit.p.results.eq(place.row),
            ]
            with m.If(each.valid):
                m.d.comb += [entering.p.admit.eq(each.p), entering.p.fsm.eq(f)]

    def _hand_over(self, m, p, leaving, entering, moves, place):
        """The chunk that is *leaving* the phase before phase *p* moves on if it may."""
        following = [self.stage[f].open for f in self._config.fsms_of(p)]
        admit = entering.p.admit
        m.d.comb += [
            moves.eq(leaving.valid & place.free & select(leaving.p.next, following) & ~self.forget),
            entering.p.eq(leaving.p),
            entering.p.fsm.eq(leaving.p.next),
            admit.context.eq(leaving.p.slot),
            admit.results.eq(place.row),
            admit.loaded.eq(1),
        ]
        for n, f in enumerate(self._config.fsms_of(p)):
            m.d.comb += [
                self.admit[f].valid.eq(moves & (leaving.p.next == n)),
                self.admit[f].p.eq(admit),
            ]

    def _place(self, m, p, taken, first, stores, leaving):
        """The slot for results of the next chunk that enters phase *p*, which takes it when one
        has."""
        c = self._config
        last = p + 1 == c.phases
        fsms = c.fsms_of(p if last else p + 1)
        slots = [(c.results_of if last else c.slots_of)(f) for f in fsms]
        turn = Signal(range(max(2, len(fsms))), name=f"turn_{p}")
        fsm = Signal.like(turn, name=f"next_{p}")
        slot = Signal(range(max(2, c.contexts)), name=f"slot_{p}")
        row = Signal(range(c.sram_beats), name=f"row_{p}")
        if last:
            free, vacant = self._final_slots(m, taken, fsm, slot, stores, leaving)
        else:
            free = [self.stage[f].room for f in fsms]
            vacant = [self.stage[f].vacant_context for f in fsms]
            for n, f in enumerate(fsms):
                m.d.comb += self.stage[f].reserve.eq(taken & (fsm == n))
        begin = Array([each.row for each in slots])[fsm]
        m.d.comb += [
            fsm.eq(Mux(first, 0, turn)),
            slot.eq(select(fsm, vacant)),
            row.eq(begin + slot * slots[0].beats),
        ]
        with m.If(taken):
            m.d.sync += turn.eq(Mux(fsm + 1 == len(fsms), 0, fsm + 1))
        return _Place(select(fsm, free), fsm, slot, row)

    def _final_slots(self, m, taken, fsm, slot, stores, leaving):
        """Slots of the last partition, by FSM of the last phase: whether one is free, and which.
        They are taken when a chunk enters that phase, and free when its result is in memory."""
        c = self._config
        fsms = c.fsms_of(c.phases - 1)
        free, vacant, busy = [], [], []
        for n, f in enumerate(fsms):
            count = c.results_of(f).number
            held = Signal(count, name=f"held_{n}")
            given = Signal(count, name=f"given_{n}")  # to the RX DMA
            gives = Signal(count, name=f"gives_{n}")
            number = Signal(range(max(2, c.contexts)), name=f"vacant_{n}")
            for each in reversed(range(count)):
                with m.If(~held[each]):
                    m.d.comb += number.eq(each)
            m.d.comb += gives.eq((stores & (leaving.next == n)) << leaving.slot)
            m.d.sync += given.eq(given | gives)
            with m.If(taken & (fsm == n)):
                m.d.sync += held.bit_select(slot, 1).eq(1)
            with m.If(self.forget):
                m.d.sync += held.eq(held & (given | gives))
            # Whose store ends in this very cycle is free as well.
            with m.If(self.stored.valid & (self.stored.p.fsm == f)):
                m.d.sync += [
                    held.bit_select(self.stored.p.slot, 1).eq(0),
                    given.bit_select(self.stored.p.slot, 1).eq(0),
                ]
            free.append(~held.all())
            vacant.append(number)
            busy.append(held.any())
        m.d.comb += self.busy.eq(Value.cast(sum(busy)) != 0)
        return free, vacant

    def _store(self, m, leaving, moves):
        """The chunk that is *leaving* the last phase goes to its RX DMA."""
        c = self._config
        chunk = leaving.p
        fsms = c.fsms_of(c.phases - 1)
        ports = Array([f % c.memory_ports for f in fsms])[chunk.next]
        m.d.comb += moves.eq(leaving.valid & Array(each.ready for each in self.store)[ports])
        for n, each in enumerate(self.store):
            m.d.comb += [
                each.valid.eq(leaving.valid & (ports == n)),
                each.p.eq(chunk.job),
                each.p.walk.row.eq(chunk.job.walk.row + chunk.admit.row),
                each.p.fsm.eq(Array([*fsms])[chunk.next]),
                each.p.slot.eq(chunk.slot),
            ]
