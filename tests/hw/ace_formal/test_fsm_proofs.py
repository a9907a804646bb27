# amaranth: UnusedElaboratable=no
"""Proofs about the parts of an FSM: no READY is lost, no peer waited for, no chunk ends early."""

from itertools import pairwise

import pytest
from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.ace.config import AceConfig
from hw.ace.contexts import ContextTable
from hw.ace.isa import instruction_layout
from hw.ace.lookup import LOOKUP_LATENCY
from hw.ace.ready_table import ReadyTable
from hw.ace.send_generator import SendGenerator, Source
from tests.hw.common.prover import ever, holds, nth


def small(contexts):
    return AceConfig(
        ports=2, bus_bytes=16, packet_bytes=16, sram_bytes=64 * contexts, banks=1, alus=1,
        alu_stages=2, fsms=1, contexts=contexts, program_words=64, memory_ports=1, rx_packets=2,
        tx_packets=2, max_nodes=2, address_bits=24, commands=1,
    )  # fmt: skip


class ReadyHarness(wiring.Component):
    """Peers that send READYs for chunks 0 to 3 as they like, and contexts that take these chunks.

    One READY (chunk, port, context of the peer) is watched, any one. Rules of the protocol: a peer
    does not use its context for another READY while the watched one waits, and has one context for
    a chunk; contexts that are assigned have different chunks; nothing is admitted during a sweep or
    a search.

    `bad`: the search for a chunk ends without the grant of a READY that came before; or a context
    is granted a peer that has not said that it is ready.
    """

    def __init__(self, table):
        self.table = table
        super().__init__(
            {
                "valid": In(2),
                "chunk": In(4),
                "slot": In(2),
                "admit": In(1),
                "admit_chunk": In(2),
                "admit_context": In(1),
                "free": In(2),
                "wait": In(1),
                "abort": In(1),
                "watch": In(4),
                "bad": Out(1), "cover_a_ready_that_waited_is_granted_after_an_abort": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.table = table = self.table
        chosen, started = Signal(data.StructLayout({"chunk": 2, "port": 1, "slot": 1})), Signal()
        m.d.sync += started.eq(1)
        with m.If(~started):
            m.d.sync += chosen.eq(self.watch)

        assigned, keys = Signal(2), [Signal(2, name=f"key_{n}") for n in range(2)]
        setup, newest = Signal(), Signal(1)
        taken = Cat(assigned[n] & (keys[n] == self.admit_chunk) for n in range(2)).any()
        admit = Signal()
        m.d.comb += admit.eq(
            started & self.admit & ~setup & ~table.sweeping & ~taken & ~self.abort
            & ~assigned.bit_select(self.admit_context, 1)
        )  # fmt: skip
        for n in range(2):
            with m.If(admit & (self.admit_context == n)):
                m.d.sync += [assigned[n].eq(1), keys[n].eq(self.admit_chunk)]
            with m.If(self.free[n] & assigned[n] & ~(setup & (newest == n))):
                m.d.sync += assigned[n].eq(0)
            m.d.comb += table.contexts.key[n].chunk.eq(keys[n])
        done = setup & table.searched & ~self.wait
        with m.If(admit):
            m.d.sync += [setup.eq(1), newest.eq(self.admit_context)]
        with m.Elif(done):
            m.d.sync += setup.eq(0)
        newest_key = Mux(newest, keys[1], keys[0])
        m.d.comb += [
            table.contexts.assigned.eq(assigned),
            table.contexts.setup.eq(setup),
            table.contexts.newest.context.eq(newest),
            table.contexts.newest.key.chunk.eq(newest_key),
            table.admit.valid.eq(admit),
            table.admit.p.context.eq(self.admit_context),
            table.forget.eq(self.abort),
        ]

        kept, known_of = Signal(), Signal()  # the watched READY waits; one of its port has come
        elsewhere = Signal()  # that port has said so for another of its contexts, too
        comes = Signal()
        for p in range(2):
            slot, chunk = self.slot[p], self.chunk.word_select(p, 2)
            watched = (chosen.port == p) & (chosen.slot == slot)
            m.d.comb += [
                table.ready[p].valid.eq(started & self.valid[p] & ~(watched & kept)),
                table.ready[p].p.context.eq(slot),
                table.ready[p].p.key.chunk.eq(chunk),
            ]
            with m.If(table.ready[p].valid & table.ready[p].ready & (chosen.port == p)):
                with m.If(chunk == chosen.chunk):
                    m.d.sync += [known_of.eq(1), elsewhere.eq(elsewhere | ~watched)]
                    m.d.comb += comes.eq(watched)
        has_context = Cat(assigned[n] & (keys[n] == chosen.chunk) for n in range(2)).any()
        found = done & (newest_key == chosen.chunk)
        with m.If(found):
            m.d.sync += kept.eq(0)
        with m.If(comes & ~has_context):
            m.d.sync += kept.eq(1)
        with m.If(self.abort):
            m.d.sync += [kept.eq(0), known_of.eq(0), elsewhere.eq(0), assigned.eq(0), setup.eq(0)]

        port, bad, served = chosen.port, [], []
        for n in range(2):
            granted = table.grants.granted[n].bit_select(port, 1)
            remote = Mux(port, table.grants.remote[n][1], table.grants.remote[n][0])
            known = granted & (elsewhere | (remote == chosen.slot))
            served.append(kept & found & (newest == n) & granted & (remote == chosen.slot))
            bad += [
                kept & found & (newest == n) & ~known,
                assigned[n] & (keys[n] == chosen.chunk) & granted & ~known_of,
            ]
        m.d.comb += self.bad.eq(started & Cat(bad).any())
        m.d.comb += self.cover_a_ready_that_waited_is_granted_after_an_abort.eq(
            started & ever(m, self.abort) & Cat(served).any()
        )
        return m


class HastyTable(ReadyTable):
    """Planted bug: takes a READY while the write port is in use."""

    def _arbitrate(self, m, wait):
        return super()._arbitrate(m, Const(0))


class StaleTable(ReadyTable):
    """Planted bug: an admission does not revoke the grants of the last chunk."""

    def _grant(self, m, which, port, remote):
        super()._grant(m, which, port, remote)
        for granted in self.grants.granted:
            with m.If(self.admit.valid):
                m.d.sync += granted.eq(granted)


class SendHarness(wiring.Component):
    """One context, lookups that answer what they like and peers that are ready when they like.

    `bad`: a READY goes to a port to which none is due, or twice; a packet is sent without the
    grant of its peer; or, while nobody stalls, READYs that are due are not all sent within the time
    of one packet.
    """

    def __init__(self, generator):
        self.generator = generator
        super().__init__(
            {
                "start": In(1),
                "ports": In(2),
                "live": In(1),
                "parked": In(1),
                "stall": In(2),
                "op": In(4),
                "granted": In(1),
                "bad": Out(1), "cover_packets_follow_both_readies": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.generator = generator = self.generator
        sent = generator.send.valid & generator.send.ready
        send = generator.send.p
        parked = Signal(2)  # at most 3
        park = self.parked & (parked != 3)
        started = Signal()
        response = generator.response
        valid = [Signal(name=f"asked_{n}") for n in range(LOOKUP_LATENCY + 1)]
        m.d.comb += valid[0].eq(generator.request.valid & generator.request.ready)
        for before, after in pairwise(valid):
            m.d.sync += after.eq(before)
        word = Signal(instruction_layout)
        m.d.comb += [
            started.eq(self.start & ~generator.sending.any() & ~generator.send.valid),
            generator.start.eq(started),
            generator.contexts.entry[0].ready_ports.eq(self.ports),
            generator.contexts.live.eq(self.live),
            generator.contexts.packets[0].eq(1),
            generator.request.ready.eq(~self.stall[0]),
            generator.send.ready.eq(~self.stall[1]),
            generator.event.valid.eq(park),
            generator.event.p.parked.eq(1),
            word.op.eq(self.op),
            response.valid.eq(valid[-1]),
            response.p.word.eq(word),
            response.p.resolved.granted.eq(self.granted),
        ]
        m.d.sync += parked.eq(parked + park - (sent & ~send.ready & (parked != 0)))

        due = Signal(2)
        with m.If(started):
            m.d.sync += due.eq(self.ports)
        with m.If(sent & send.ready):
            m.d.sync += due.eq(due & ~(1 << send.port))
        allowed = Signal()
        with m.If(response.valid):
            m.d.sync += allowed.eq(self.granted)
        late = Signal(5)
        with m.If((due == 0) | self.stall.any()):
            m.d.sync += late.eq(0)
        with m.Elif(late != 31):
            m.d.sync += late.eq(late + 1)
        m.d.comb += self.bad.eq(
            Cat(
                generator.send.valid & send.ready & ~due.bit_select(send.port, 1),
                generator.send.valid & ~send.ready & ~allowed,
                late == LOOKUP_LATENCY + 10,
            ).any()
        )
        m.d.comb += self.cover_packets_follow_both_readies.eq(
            Cat(ever(m, sent & send.ready & (send.port == k)) for k in range(2)).all()
            & nth(m, sent & ~send.ready, 2)
        )
        return m


class WaitingGenerator(SendGenerator):
    """Planted bug: asks about a fresh packet until its peer is ready."""

    def _answered(self, m, command, fresh):
        super()._answered(m, command, fresh)
        with m.If((self._source == Source.FRESH) & ~self.response.p.resolved.granted):
            m.next = "ASK"


class UngrantedGenerator(SendGenerator):
    """Planted bug: sends a parked packet though its peer is not ready."""

    def _answered(self, m, command, fresh):
        super()._answered(m, command, fresh)
        with m.If(self._source == Source.PARKED):
            m.d.sync += self.send.valid.eq(1)
            m.next = "SEND"


class ContextHarness(wiring.Component):
    """Two contexts, chunks of one packet per block and up to 3 receives and sends.

    Rules: a chunk is admitted when there is room, to where the table says, after an abort when all
    is quiet; units report no more than the program has; the DMA stores each job once.

    `bad`: a chunk leaves its context with something left to arrive, to leave or to send, or gets a
    result slot that is in use.
    """

    def __init__(self, table):
        self.table = table
        super().__init__(
            {
                "admit": In(1),
                "receives": In(2),
                "sends": In(2),
                "answer": In(1),
                "searched": In(1),
                "loaded": In(2),
                "event": In(1),
                "event_context": In(1),
                "received": In(1),
                "sent": In(1),
                "sending": In(2),
                "take": In(1),
                "stored": In(2),
                "abort": In(1),
                "bad": Out(1), "cover_third_chunk_is_stored_after_an_abort": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.table = table = self.table
        state = table.state
        admit, asked = Signal(), Signal()
        in_use, handed = Signal(2), Signal(2)  # result slots: of a chunk; the DMA has the job
        aborted = Signal()
        with m.If(self.abort):
            m.d.sync += aborted.eq(1)
        with m.Elif(~table.busy & (handed == 0)):
            m.d.sync += aborted.eq(0)
        m.d.comb += [
            admit.eq(self.admit & table.vacant & ~self.abort & ~aborted),
            table.admit.valid.eq(admit),
            table.admit.p.context.eq(table.vacant_context),
            table.admit.p.result.eq(table.vacant_result),
            table.admit.p.packets.eq(1),
            table.job.slot.eq(table.vacant_result),
            table.entry_request.ready.eq(~asked),
            table.entry.valid.eq(asked & self.answer),
            table.entry.p.context.eq(state.newest.context),
            table.entry.p.entry.receives.eq(self.receives),
            table.entry.p.entry.sends.eq(self.sends),
            table.searched.eq(self.searched),
            table.sending.eq(self.sending),
            table.store.ready.eq(self.take),
            table.forget.eq(self.abort),
        ]
        with m.If(table.entry_request.valid & table.entry_request.ready):
            m.d.sync += asked.eq(1)
        with m.If(table.entry.valid):
            m.d.sync += asked.eq(0)
        with m.If(admit | self.abort):
            m.d.sync += asked.eq(0)

        bad = []
        owner = [Signal(name=f"owner_{n}") for n in range(2)]  # result slot of the context
        loaded = Signal(2)
        one_load = Mux(self.loaded[0], 1, self.loaded & 2)
        m.d.comb += [
            loaded.eq(one_load & state.assigned & ~state.live),
            table.loaded.valid.eq(loaded.any()),
            table.loaded.p.slot.eq(loaded[1]),
        ]
        one_store = Mux((self.stored & handed)[0], 1, self.stored & handed & 2)
        m.d.comb += [table.stored.valid.eq(one_store.any()), table.stored.p.slot.eq(one_store[1])]
        counts = []
        for n in range(2):
            receives, sends = Signal(2, name=f"receives_{n}"), Signal(2, name=f"sends_{n}")
            counts.append((receives, sends))
            before = Signal(name=f"before_{n}")
            with m.If(admit & (table.vacant_context == n)):
                m.d.sync += owner[n].eq(table.vacant_result)
            mine = table.entry.valid & (state.newest.context == n)
            with m.If(mine):
                m.d.sync += [receives.eq(self.receives), sends.eq(self.sends)]
            with m.Elif(table.event.valid & (self.event_context == n)):
                m.d.sync += [
                    receives.eq(receives - table.event.p.received),
                    sends.eq(sends - table.event.p.sent),
                ]
            left = (receives != 0) | (sends != 0) | self.sending[n]
            idle = Signal(name=f"idle_{n}")
            m.d.sync += [before.eq(state.live[n] & ~self.abort), idle.eq(~left)]
            bad.append(before & ~state.live[n] & ~idle)
        receives = Mux(self.event_context, counts[1][0], counts[0][0])
        sends = Mux(self.event_context, counts[1][1], counts[0][1])
        m.d.comb += [
            table.event.valid.eq(self.event & state.live.bit_select(self.event_context, 1)),
            table.event.p.context.eq(self.event_context),
            table.event.p.received.eq(self.received & (receives != 0)),
            table.event.p.sent.eq(self.sent & (sends != 0)),
        ]
        jobs = table.store.valid & table.store.ready
        for r in range(2):
            given = Signal(name=f"given_{r}")
            m.d.comb += given.eq(jobs & (table.store.p.slot == r))
            with m.If(given):
                m.d.sync += handed[r].eq(1)
            with m.If(one_store[r]):
                m.d.sync += [handed[r].eq(0), in_use[r].eq(0)]
            with m.If(admit & (table.vacant_result == r)):
                m.d.sync += in_use[r].eq(1)
            for n in range(2):
                with m.If(self.abort & state.assigned[n] & (owner[n] == r)):
                    m.d.sync += in_use[r].eq(0)
        bad.append(admit & in_use.bit_select(table.vacant_result, 1))
        m.d.comb += self.bad.eq(Cat(bad).any())
        m.d.comb += self.cover_third_chunk_is_stored_after_an_abort.eq(
            ever(m, self.abort) & nth(m, one_store.any() & ~aborted, 3)
        )
        return m


class EarlyTable(ContextTable):
    """Planted bug: a chunk is finished when everything has arrived, whatever is left to leave."""

    def _count(self, m, entry_known, tainted):
        finished = super()._count(m, entry_known, tainted)
        early = Signal.like(finished)
        m.d.comb += early.eq(self.state.live & ~self.sending)
        return early


class SlotlessTable(ContextTable):
    """Planted bug: a result slot is free when its job is handed over."""

    def _complete(self, m, finished, result_busy, tainted):
        super()._complete(m, finished, result_busy, tainted)
        with m.If(self.store.valid & self.store.ready):
            m.d.sync += result_busy.bit_select(self.store.p.slot, 1).eq(0)


def test_ready_packets_reach_their_contexts_however_early_they_come(tmp_path):
    assert holds(ReadyHarness(ReadyTable(small(2))), tmp_path)


@pytest.mark.parametrize("planted", [HastyTable, StaleTable])
def test_broken_ready_table_is_refuted(planted, tmp_path):
    assert not holds(ReadyHarness(planted(small(2))), tmp_path)


def test_generator_sends_what_is_granted_and_waits_for_no_peer(tmp_path):
    assert holds(SendHarness(SendGenerator(small(1))), tmp_path)


@pytest.mark.parametrize("planted", [WaitingGenerator, UngrantedGenerator])
def test_broken_generator_is_refuted(planted, tmp_path):
    assert not holds(SendHarness(planted(small(1))), tmp_path)


def test_chunks_end_when_nothing_is_left_and_result_slots_when_they_are_stored(tmp_path):
    assert holds(ContextHarness(ContextTable(small(2))), tmp_path)


@pytest.mark.parametrize("planted", [EarlyTable, SlotlessTable])
def test_broken_context_table_is_refuted(planted, tmp_path):
    assert not holds(ContextHarness(planted(small(2))), tmp_path)
