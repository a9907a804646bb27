# SPDX-License-Identifier: Apache-2.0
"""The contexts of an FSM: admission, what is left to arrive and to leave, completion."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.ace.agreement import DIGEST_BITS
from hw.ace.config import AceConfig
from hw.ace.isa import PHASE_FIELDS, TABLE_WORDS, placement_layout, program_entry_layout
from hw.ace.layouts import (
    admit_layout,
    context_key_layout,
    loaded_layout,
    packet_count,
    report_layout,
    store_job_layout,
    stored_layout,
)
from hw.ace.phase_counts import PhaseCounts, product_bits
from hw.common.arbiter import RoundRobinArbiter
from hw.common.signature import ParametricSignature
from hw.fp.ops import ReduceOp

__all__ = [
    "ContextSignature",
    "ContextTable",
    "context_entry_layout",
    "entry_request_layout",
    "next_phase_layout",
]


class ContextSignature(ParametricSignature):
    """State of the contexts, seen from their table.

    Members
    -------
    assigned : ``Out(contexts)``
        Contexts that hold a chunk.
    live : ``Out(contexts)``
        Contexts that expect packets.
    settled : ``Out(contexts)``
        Contexts of which every packet of the phase has arrived and left; valid while they are live.
    poisoned : ``Out(contexts)``
        Contexts with data that could not be read, here or at a peer.
    key : ``Out(context_key_layout(config)).array(contexts)``
        The chunk of each context; valid while it is assigned.
    operator, digest : ``Out(ReduceOp).array(contexts)``, ``Out(DIGEST_BITS).array(contexts)``
        What peers must agree on, of each assigned context.
    odd : ``Out(contexts)``
        Live contexts in a phase of odd number.
    span : ``Out(range(slot_beats + 1)).array(contexts, 2)``
        Beats of a run of blocks of each live context, in its phase and in the one ahead: that of
        even number, then that of odd number. 0 if no packet of the one ahead may come.
    packets : ``Out(range(block_packets + 1)).array(contexts, 2)``
        Packets of such runs.
    entry : ``Out(program_entry_layout).array(contexts)``
        Program table entry of each context; valid when it is live.
    setup : ``Out(1)``
        The admission of ``newest`` is being completed.
    newest : ``Out(admit_layout(config))``
        The context admitted last; valid during ``setup``.
    results : ``Out(range(sram_beats)).array(contexts)``, with partitions by phase
        Row of the first block of the chunk of each live context in the next partition, if it were
        all there.
    """

    def __init__(self, c: AceConfig) -> None:
        super().__init__(
            {
                "assigned": Out(c.contexts),
                "live": Out(c.contexts),
                "settled": Out(c.contexts),
                "poisoned": Out(c.contexts),
                "key": Out(context_key_layout(c)).array(c.contexts),
                "operator": Out(ReduceOp).array(c.contexts),
                "digest": Out(DIGEST_BITS).array(c.contexts),
                "odd": Out(c.contexts),
                "span": Out(range(c.slot_beats + 1)).array(c.contexts, 2),
                "packets": Out(range(c.block_packets + 1)).array(c.contexts, 2),
                "entry": Out(program_entry_layout).array(c.contexts),
                "setup": Out(1),
                "newest": Out(admit_layout(c)),
                **({"results": Out(range(c.sram_beats)).array(c.contexts)} if c.phased else {}),
            },
            config=c,
        )


def entry_request_layout(c: AceConfig) -> data.StructLayout:
    """A context asks for the table entry of its program; with partitions by phase, for a word
    behind the table first."""
    words = TABLE_WORDS << c.phased
    return data.StructLayout({"context": range(max(2, c.contexts)), "program": range(words)})


def context_entry_layout(c: AceConfig) -> data.StructLayout:
    """The table entry of the program of a context."""
    return data.StructLayout({"context": range(max(2, c.contexts)), "entry": program_entry_layout})


def next_phase_layout(c: AceConfig) -> data.StructLayout:
    """The next phase of a context begins: runs that arrive and leave in it, and their blocks; and
    how many of them are a run of the phase after it, if that is told now."""
    counts = {name: PHASE_FIELDS[name][0] for name in ("receives", "sends", "run", "ahead")}
    return data.StructLayout({"context": range(max(2, c.contexts)), **counts})


class ContextTable(wiring.Component):
    """Follows each chunk from its admission to the moment its result is in memory.

    A context is *assigned* by an admission. It goes *live* when its data is loaded, its table entry
    is known and the search for early READY packets has ended. It is *settled* when every packet
    of its phase has arrived and left; then its program may open the next phase. Packets of that one
    may have come before: each phase is counted for itself, down from its number of packets, which
    is added when the phase begins. A context is *finished*
    when it is settled and its sends are over: its job goes to the RX DMA. Context and slot are free
    when that reports it stored.

    Timing: ``loaded`` to live is 2 cycles, the last event to ``store`` 2 cycles; one context
    finishes per cycle, of all in turn, unless ``store`` stalls. The length of runs of a phase is
    there 3 cycles after ``phase``, its counts after 6, ``settled`` and the length of runs of the
    one ahead after 7.
    Nothing else stalls. Between two admissions there are as many cycles as the search takes, or the
    entry and 5 more (``vacant`` stays low), and up to 6 more if a phase begins in the last of them.

    Members
    -------
    vacant : ``Out(1)``
        There is a free context.
    vacant_context : ``Out(range(contexts))``
        A free one, if ``vacant``.
    admit : ``In(stream.Signature(admit_layout(config), always_ready=True))``
        A chunk takes the context that was vacant.
    room, open : ``Out(1)``, reserve : ``In(1)``, barred : ``In(contexts)``
        With partitions by phase, the slot of a context is free; a context may be admitted; the free
        one is taken for the results of the phase before, with which a chunk is admitted there
        later; contexts that have no slot.
    departing : ``In(range(contexts))``, finished, tainted : ``Out(1)``, release : ``In(1)``
        With partitions by phase, a context; its phase is over; a packet came poisoned for it; it
        and its slot are free. There is no ``job``, ``store`` and ``stored`` then.
    job : ``In(store_job_layout(config))``
        Its job for the RX DMA; valid with ``admit``.
    entry_request : ``Out(stream.Signature(entry_request_layout(config)))``
        For the send generator, which looks it up.
    entry : ``In(stream.Signature(context_entry_layout(config), always_ready=True))``
        What it has found.
    phase : ``In(stream.Signature(next_phase_layout(config), always_ready=True))``
        A context that is settled begins its next phase; at most one in 6 cycles, and neither
        together with ``entry`` nor in the 4 cycles before it or the 2 after it.
    searched : ``In(1)``
        See `ReadyTable`.
    loaded, stored : ``In(stream)``
        Reports of the DMAs.
    event : ``In(stream.Signature(report_layout(config), always_ready=True))``
        A packet was received or sent.
    start : ``Out(contexts)``
        High in the cycle before a context is live.
    sending : ``In(contexts)``
        The send generator has instructions or READY packets of the context left.
    store : ``Out(stream.Signature(store_job_layout(config)))``
        Finished chunks.
    forget : ``In(1)``
        Forget all chunks but those whose job has been handed over.
    busy : ``Out(1)``
        A slot is in use.
    occupied, has_data : ``Out(contexts)``, arriving, leaving : ``Out(...).array(contexts)``
        For software: contexts from admission to the end of the store; those whose load is over;
        packets of the phase of each that have yet to arrive and to leave.
    state : ``Out(ContextSignature(config))``
        State of the contexts.
    """

    vacant: Signal
    vacant_context: Signal
    admit: stream.Interface
    entry_request: stream.Interface
    entry: stream.Interface
    phase: stream.Interface
    searched: Signal
    loaded: stream.Interface
    stored: stream.Interface
    event: stream.Interface
    start: Signal
    sending: Signal
    store: stream.Interface
    forget: Signal
    busy: Signal
    occupied: Signal
    has_data: Signal
    arriving: list
    leaving: list

    def __init__(self, config: AceConfig) -> None:
        c = self._config = config
        always = {"always_ready": True}
        job = store_job_layout(c)
        leaves = {
            "job": In(job),
            "stored": In(stream.Signature(stored_layout(c), **always)),
            "store": Out(stream.Signature(job)),
        }
        if c.phased:
            leaves = {
                "room": Out(1),
                "open": Out(1),
                "reserve": In(1),
                "barred": In(c.contexts),
                "departing": In(range(max(2, c.contexts))),
                "finished": Out(1),
                "tainted": Out(1),
                "release": In(1),
            }
        super().__init__(
            {
                "vacant": Out(1),
                "vacant_context": Out(range(max(2, c.contexts))),
                "admit": In(stream.Signature(admit_layout(c), **always)),
                "entry_request": Out(stream.Signature(entry_request_layout(c))),
                "entry": In(stream.Signature(context_entry_layout(c), **always)),
                "phase": In(stream.Signature(next_phase_layout(c), **always)),
                "searched": In(1),
                "loaded": In(stream.Signature(loaded_layout(c), **always)),
                "event": In(stream.Signature(report_layout(c), **always)),
                "start": Out(c.contexts),
                "sending": In(c.contexts),
                "forget": In(1),
                "busy": Out(1),
                "occupied": Out(c.contexts),
                "has_data": Out(c.contexts),
                "arriving": Out(packet_count(c)).array(c.contexts),
                "leaving": Out(packet_count(c)).array(c.contexts),
                "state": Out(ContextSignature(c)),
                **leaves,
            }
        )

    def elaborate(self, platform):
        m = Module()
        c = self._config
        # In the order of precedence: what comes later wins.
        occupied = Signal(c.contexts)  # the slot of this number is in use
        loaded = Signal(c.contexts)
        entry_known = Signal()  # and the length of its runs
        tainted = Signal(c.contexts)  # a poisoned packet has come
        entry = self._admit(m, occupied, loaded, entry_known, tainted)
        self._go_live(m, loaded)
        finished = self._count(m, entry, entry_known, tainted)
        if c.phased:
            self._hand_over(m, finished, occupied, tainted)
            m.d.comb += self.busy.eq(occupied.any())
        else:
            self._complete(m, finished, occupied, tainted)
            self._abort(m, occupied)
            m.d.comb += self.busy.eq(occupied.any() | self.store.valid)
        m.d.comb += [self.occupied.eq(occupied), self.has_data.eq(loaded)]
        return m

    def _admit(self, m, occupied, loaded, entry_known, tainted):
        """A chunk takes a context and its slot; its table entry is asked for. Returns whether it
        comes."""
        c, state, admit = self._config, self.state, self.admit.p
        taken = occupied | self.barred if c.phased else occupied
        m.d.comb += self.vacant.eq(~taken.all() & ~state.setup)
        for n in reversed(range(c.contexts)):
            with m.If(~taken[n]):
                m.d.comb += self.vacant_context.eq(n)

        entry_asked = Signal()
        with m.If(self.admit.valid):
            m.d.sync += [
                state.setup.eq(1),
                entry_asked.eq(0),
                entry_known.eq(0),
                state.newest.eq(admit),
                occupied.bit_select(admit.context, 1).eq(1),
            ]
        for n in range(c.contexts):
            with m.If(self.admit.valid & (admit.context == n)):
                m.d.sync += [
                    state.assigned[n].eq(1),
                    state.key[n].eq(admit.key),
                    state.operator[n].eq(admit.op),
                    state.digest[n].eq(admit.digest),
                    loaded[n].eq(admit.loaded if c.phased else 0),
                    tainted[n].eq(0),
                    state.poisoned[n].eq(admit.poisoned if c.phased else 0),
                ]

        m.d.comb += [
            self.entry_request.valid.eq(state.setup & ~entry_asked),
            self.entry_request.p.context.eq(state.newest.context),
            self.entry_request.p.program.eq(state.newest.program),
        ]
        with m.If(self.entry_request.valid & self.entry_request.ready):
            m.d.sync += entry_asked.eq(1)
        entry = self.entry.valid
        if c.phased:
            placed = Signal()  # the place of results is known
            entry = self.entry.valid & placed
            with m.If(self.admit.valid):
                m.d.sync += placed.eq(0)
            with m.Elif(self.entry.valid):
                m.d.sync += placed.eq(1)
            with m.If(self.entry.valid & ~placed):
                m.d.sync += entry_asked.eq(0)
            with m.If(~placed):
                m.d.comb += self.entry_request.p.program.eq(TABLE_WORDS + state.newest.program)
        for n in range(c.contexts):
            with m.If(self.entry.valid & (self.entry.p.context == n)):
                m.d.sync += state.entry[n].eq(self.entry.p.entry)
        return entry

    def _go_live(self, m, loaded):
        """The data is in its slot and nothing of the admission is left."""
        state = self.state
        with m.If(self.loaded.valid):
            slot = self.loaded.p.slot
            m.d.sync += [
                loaded.bit_select(slot, 1).eq(1),
                state.poisoned.bit_select(slot, 1).eq(self.loaded.p.error),
            ]
        for n in range(self._config.contexts):
            in_setup = state.setup & (state.newest.context == n)
            m.d.comb += self.start[n].eq(
                state.assigned[n] & loaded[n] & ~state.live[n] & ~in_setup
            )
            with m.If(self.start[n]):
                m.d.sync += state.live[n].eq(1)

    def _count(self, m, entry, entry_known, tainted):
        """Count packets of the phase that have yet to arrive and to leave, once the *entry* is
        there; return which contexts are done."""
        c, state = self._config, self.state
        finished = Signal(c.contexts)
        # One multiplier between registers: beats of a run, then packets that arrive, then those
        # that leave, then beats of a run ahead. Of an admission it makes the first when the entry
        # comes, the last from five cycles later on; its runs ahead are as long as those of its
        # first phase.
        beats = [Signal(range(c.slot_beats + 1), name=f"beats_{n}") for n in range(c.contexts)]
        receives_due = Signal(packet_count(c))
        newest = state.newest.context
        first = Array(entry.as_value() for entry in state.entry)[newest]
        first = data.View(program_entry_layout, first)
        phase = Signal(next_phase_layout(c))
        opening = Signal(6)  # cycles since the phase came
        entering = Signal(4)  # cycles since the entry came
        count = Signal(PHASE_FIELDS["run"][0])
        length = Signal(range(max(c.slot_beats, c.block_packets) + 1))
        product = Signal(product_bits(c))
        run = Signal(range(c.slot_beats + 1))  # beats of the run that was measured last
        packets = (product + (c.packet_beats - 1)) >> (c.packet_beats - 1).bit_length()
        m.d.sync += [product.eq(count * length), count.eq(first.sends)]
        with m.If(opening[1] | entering[1]):
            m.d.sync += [run.eq(product), length.eq(packets)]
        with m.If(opening[1]):
            m.d.sync += count.eq(phase.receives)
        with m.Elif(opening[2]):
            m.d.sync += count.eq(phase.sends)
        with m.Elif(opening[3]):
            m.d.sync += [count.eq(phase.ahead), length.eq(run)]
        with m.Elif(opening[4]):
            # Back to what an admission may wait for.
            m.d.sync += length.eq(Array(each[0] for each in state.packets)[newest])
        with m.If(entering[1]):
            m.d.sync += count.eq(first.receives)
        with m.If(entering[3]):
            m.d.sync += [receives_due.eq(product), entry_known.eq(1)]
        with m.If(self.entry.valid):
            m.d.sync += [count.eq(self.entry.p.entry.run), length.eq(state.newest.beats)]
        with m.If(self.phase.valid):  # never with an entry; it comes late
            m.d.sync += [
                count.eq(self.phase.p.run), length.eq(Array(beats)[self.phase.p.context])
            ]
        if c.phased:
            self._place_results(m, self.entry.valid & ~entry, count, product)
        m.d.sync += [opening.eq(opening << 1), entering.eq(Cat(entry, entering))]
        with m.If(self.phase.valid):
            m.d.sync += [
                phase.eq(self.phase.p),
                opening.eq(1),
                state.odd.eq(state.odd ^ (1 << self.phase.p.context)),
            ]
        # A cycle later: a phase that begins as it is forgotten has not been counted yet. What one
        # that began before sets is set anew for the next chunk.
        forgotten = Signal()
        m.d.sync += forgotten.eq(self.forget)
        with m.If(forgotten):
            m.d.sync += [opening.eq(0), entering.eq(0)]
        for n in range(c.contexts):
            with m.If(self.admit.valid & (self.admit.p.context == n)):
                m.d.sync += [beats[n].eq(self.admit.p.beats), state.odd[n].eq(0)]
            in_setup = state.setup & (newest == n)
            admitted = in_setup & entry_known & self.searched & ~opening.any()
            with m.If(admitted):
                m.d.sync += state.setup.eq(0)
            event = self.event.valid & (self.event.p.context == n)
            m.submodules[f"counts_{n}"] = counts = PhaseCounts(c)
            m.d.comb += [
                counts.product.eq(product),
                counts.due.eq(receives_due),
                counts.admitted.eq(admitted),
                counts.entry.eq(entering[1] & (newest == n)),
                counts.opening.eq(
                    Mux(phase.context == n, Cat(opening[1], opening[3:]), 0)
                ),
                counts.odd.eq(state.odd[n]),
                counts.received.eq(event & self.event.p.received),
                counts.sent.eq(event & self.event.p.sent),
                counts.parity.eq(self.event.p.odd),
                *(seen.eq(span) for seen, span in zip(state.span[n], counts.span)),
                *(seen.eq(count) for seen, count in zip(state.packets[n], counts.packets)),
                self.arriving[n].eq(counts.receives),
                self.leaving[n].eq(counts.sends),
                state.settled[n].eq(counts.settled),
                finished[n].eq(state.live[n] & ~self.sending[n] & state.settled[n]),
            ]
            with m.If(event & self.event.p.poisoned):
                m.d.sync += [tainted[n].eq(1), state.poisoned[n].eq(1)]
        return finished

    def _place_results(self, m, placement, count, product):
        """The word behind the table has come: with *count* of blocks the multiplier makes the
        *product* that the results begin before their slot."""
        state = self.state
        made = Signal(2, name="placement_made")  # cycles since it has come
        m.d.sync += made.eq(Cat(placement, made))
        with m.If(placement):
            word = data.View(placement_layout, self.entry.p.entry.as_value())
            m.d.sync += count.eq(word.first)
        for n, results in enumerate(state.results):
            with m.If(made[1] & (state.newest.context == n)):
                m.d.sync += results.eq(state.newest.results - product)

    def _complete(self, m, finished, occupied, tainted):
        """One finished context at a time gives its job to the RX DMA."""
        c, state = self._config, self.state
        jobs: Memory = Memory(shape=store_job_layout(c), depth=max(2, c.contexts), init=[])
        m.submodules.jobs = jobs
        write, read = jobs.write_port(), jobs.read_port(domain="comb")
        m.submodules.completion_arbiter = arbiter = RoundRobinArbiter(c.contexts)
        completed = Signal(range(max(2, c.contexts)))
        storing = Signal.like(completed)  # whose job is at ``store``
        poisoned = Signal()  # that job is
        for n in range(c.contexts):
            with m.If(arbiter.grant[n]):
                m.d.comb += completed.eq(n)
        m.d.comb += [
            write.addr.eq(self.admit.p.context),
            write.data.eq(self.job),
            write.en.eq(self.admit.valid),
            arbiter.requests.eq(finished),
            arbiter.advance.eq(~self.store.valid | self.store.ready),
            # Which one is known late. Its job stays where it is until it has been stored.
            read.addr.eq(storing),
            self.store.p.eq(read.data),
            self.store.p.poisoned.eq(poisoned),
        ]
        with m.If(arbiter.advance):
            m.d.sync += [
                self.store.valid.eq(finished.any()),
                storing.eq(completed),
                poisoned.eq(tainted.bit_select(completed, 1)),
            ]
            with m.If(finished.any()):
                m.d.sync += [
                    state.assigned.bit_select(completed, 1).eq(0),
                    state.live.bit_select(completed, 1).eq(0),
                ]

    def _hand_over(self, m, finished, occupied, tainted):
        """Tell which contexts have results to be handed over, and forget those that have been."""
        state = self.state
        m.d.comb += [
            self.room.eq(~(occupied | self.barred).all()),
            self.open.eq(~state.setup),
            self.finished.eq(finished.bit_select(self.departing, 1)),
            self.tainted.eq(tainted.bit_select(self.departing, 1)),
        ]
        with m.If(self.reserve):
            m.d.sync += occupied.bit_select(self.vacant_context, 1).eq(1)
        for n in range(len(finished)):
            with m.If((self.release & (self.departing == n)) | self.forget):
                m.d.sync += [state.assigned[n].eq(0), state.live[n].eq(0), occupied[n].eq(0)]
        with m.If(self.forget):
            m.d.sync += state.setup.eq(0)

    def _abort(self, m, occupied):
        """Forget all chunks but those whose job the RX DMA already has; these are still stored."""
        state = self.state
        with m.If(self.forget):
            m.d.sync += [state.assigned.eq(0), state.live.eq(0), state.setup.eq(0)]
            m.d.sync += occupied.eq(occupied & ~state.assigned)
        # Whose store ends in this very cycle is free as well.
        with m.If(self.stored.valid):
            m.d.sync += occupied.bit_select(self.stored.p.slot, 1).eq(0)
