# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""Proofs that an endpoint adds each operand once: what waves say of blocks, for ever, and the home
store that relies on it, for the first cycles.

Numbers of blocks have few bits here, so they wrap around.
"""

import pytest
from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect

from hw.switch.packet import HEADER, Kind, header_of
from hw.switch_dma import home
from hw.switch_dma.config import SwitchDmaConfig
from hw.switch_dma.home import HomeStore
from hw.switch_dma.layouts import address_of, number_of
from hw.switch_dma.waves import WaveControl
from tests.hw.common.prover import ever, holds, nth
from tests.hw.switch.rig import PassingALU

BITS = 4
FLITS = 2
CYCLES = 20
"""From reset, of both together."""

QUIET = 6
"""Cycles that a result takes at most from the store to its output."""


class FewNumbers(SwitchDmaConfig):
    """A configuration whose blocks have numbers of few bits."""

    @property
    def number_bits(self):
        return BITS


def config(waves, wave_blocks):
    return FewNumbers(payload_flits=FLITS, alu_stages=0, endpoints=2, waves=waves,
                      wave_blocks=wave_blocks, buffer_packets=1, credits=1)


class WaveHarness(wiring.Component):
    """A wave control of any window that does not change, whose user keeps its rules, beside a list
    of what is under way: a bit for each number.

    `bad`: it says something else of a block, more are under way than the window has, or a number
    comes again while blocks are under way that are too far behind it.
    """

    def __init__(self, control, c):
        self.control, self.config = control, c
        super().__init__({
            "size_log2": In(len(control.window.size_log2)),
            "outstanding": In(len(control.window.outstanding)),
            **{name: In(1) for name in ("first", "take", "done", "answer", "sent", "clear")},
            **{name: In(BITS) for name in ("asked", "over", "loaded", "sending", "part")},
            "bad": Out(1),
            "cover_a_number_comes_again": Out(1),
            "cover_blocks_are_done_out_of_order": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        c = self.config
        m.submodules.control = control = self.control
        started, size, most = Signal(), Signal.like(self.size_log2), Signal.like(self.outstanding)
        m.d.sync += started.eq(1)
        with m.If(~started):
            m.d.sync += [
                size.eq(Mux(self.size_log2 > (c.wave_blocks - 1).bit_length(), 0, self.size_log2)),
                most.eq(Mux((self.outstanding == 0) | (self.outstanding > c.waves), 1,
                            self.outstanding)),
            ]
        live, answered, went = (Signal(1 << BITS, name=name) for name in ("live", "done", "went"))
        number, since = Signal(BITS), Signal(BITS)

        def of(bits, where):
            return bits.bit_select(where, 1)

        take = started & self.take & control.begin.ready
        first = self.first & ~live.any()
        done = self.done & of(live, self.over) & ~(self.sent & (self.sending == self.over))
        sent = self.sent & of(live, self.sending)
        # Due in the cycle before, while its block may be done and its slot be taken in this one.
        was_due, was_loaded = Signal(), Signal(BITS)
        m.d.sync += [
            was_due.eq(of(live, self.loaded) & (since < c.slots) & ~self.clear),
            was_loaded.eq(self.loaded),
        ]
        answer = (
            self.answer & was_due & (was_loaded == self.loaded) & ~of(answered, self.loaded)
        )
        m.d.comb += [
            control.window.size_log2.eq(size),
            control.window.outstanding.eq(most),
            control.begin.first.eq(first),
            control.begin.take.eq(take),
            control.waited.number.eq(self.asked),
            control.waited.over.eq(self.over),
            control.waited.done.eq(done),
            control.answer.number.eq(self.loaded),
            control.answer.answered.eq(answer),
            control.sent.valid.eq(sent),
            control.sent.payload.eq(self.sending),
            control.part.number.eq(self.part),
            control.clear.eq(self.clear),
        ]
        with m.If(sent):
            m.d.sync += of(went, self.sending).eq(1)
        with m.If(answer & of(live, self.loaded)):
            m.d.sync += of(answered, self.loaded).eq(1)
        with m.If(done):
            m.d.sync += [of(each, self.over).eq(0) for each in (live, answered, went)]
        with m.If(take):
            m.d.sync += [
                of(live, number).eq(1), of(answered, number).eq(first), number.eq(number + 1),
            ]
        with m.If(self.clear):
            m.d.sync += [each.eq(0) for each in (live, answered, went, number)]
        lead = Signal(BITS)
        m.d.comb += lead.eq(self.part - number)
        ahead = ~lead[-1]
        # Of those under way the one that was begun first.
        behind = Signal(BITS)
        m.d.comb += [behind.eq(number - self.asked), since.eq(number - self.loaded - 1)]
        m.d.comb += self.bad.eq(started & Cat(
            control.begin.number != number,
            control.waited.known != of(live, self.asked),
            (since < c.slots)
            & (control.answer.due != (of(live, self.loaded) & ~of(answered, self.loaded))),
            control.part.ahead != ahead,
            control.part.near != Mux(ahead, lead < c.slots, of(live, self.part)),
            control.part.asked_for != (~ahead & of(live, self.part) & of(went, self.part)),
            control.idle != ~live.any(),
            of(live, self.asked) & (behind > (c.waves << size)),
            take & of(live, number),
        ).any())
        wrapped = ever(m, take & (number == (1 << BITS) - 1))
        m.d.comb += [
            self.cover_a_number_comes_again.eq(wrapped & nth(m, done, (1 << BITS) + 1)),
            self.cover_blocks_are_done_out_of_order.eq(
                done & (self.over == self.asked) & (behind == 1)
                & of(live, (self.asked - 1)[:BITS])
            ),
        ]
        return m


class Unbounded(WaveControl):
    """Planted bug: a wave begins although its counter is in use."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        m.d.comb += self.begin.ready.eq(1)
        return m


class Twice(WaveControl):
    """Planted bug: a load that was answered is due again."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        m.d.comb += self.answer.due.eq(
            self.waited.known & (self.waited.number == self.answer.number)
        )
        return m


WINDOWS = [(2, 1), (2, 2), (1, 2), (4, 1)]


@pytest.mark.parametrize("waves, wave_blocks", WINDOWS)
def test_waves_know_what_is_under_way_whatever_comes(waves, wave_blocks, tmp_path):
    c = config(waves, wave_blocks)
    assert holds(WaveHarness(WaveControl(c), c), tmp_path)


@pytest.mark.parametrize("planted", [Unbounded, Twice])
def test_a_planted_bug_of_waves_is_refuted(planted, tmp_path):
    c = config(2, 2)
    assert not holds(WaveHarness(planted(c), c), tmp_path)


class MarkingALU(PassingALU):
    """The same, and says when it is done."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        m.d.comb += self.o_valid.eq(self.i_valid)
        return m


@pytest.fixture(autouse=True)
def no_arithmetic(monkeypatch):
    monkeypatch.setattr(home, "ReduceALU", MarkingALU)


class StoreHarness(wiring.Component):
    """A home store with its waves; operands of this endpoint and of another one, each one's in
    order as its own waves permit, which both end with the result; one operand at a time is marked.

    `bad`: a packet is dropped; a result is not of both operands, or comes twice, or its block was
    not begun; the mark leaves twice, or without having come, or in another block's result; or the
    store is empty and the mark has not left.
    """

    def __init__(self, store, waves, c):
        self.store, self.waves, self.config = store, waves, c
        super().__init__({
            **{name: In(1) for name in ("offer", "whose", "mark", "take", "ready")},
            "bad": Out(1),
            "cover_a_slot_is_used_again": Out(1),
            "cover_the_mark_leaves": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        c = self.config
        m.submodules.store, m.submodules.waves = store, waves = self.store, self.waves
        # Blocks that have been sent, by this endpoint and by the other one, and those that are
        # done: both learn it from the same result. Numbers do not wrap around so early.
        sent = [Signal(BITS, name=f"sent_{k}") for k in range(2)]
        finished = Signal(1 << BITS)
        out, out_number = Signal(HEADER), Signal(BITS)
        place, number, source = Signal(range(FLITS + 1)), Signal(BITS), Signal()
        connect(m, store.part, waves.part)
        head = store.o.valid & store.o.p.first
        leaves = head & store.o.ready
        m.d.comb += [
            out.eq(store.o.p.data), out_number.eq(number_of(c, out.address)),
            waves.window.size_log2.eq(0), waves.window.outstanding.eq(c.waves),
            waves.begin.take.eq(self.take & waves.begin.ready),
            waves.waited.number.eq(out_number), waves.waited.over.eq(out_number),
            waves.waited.done.eq(leaves & waves.waited.known),
            store.member.node.endpoint.eq(0), store.member.node.members.eq(2),
            store.o.ready.eq(self.ready),
        ]
        with m.If(leaves):
            m.d.sync += finished.bit_select(out_number, 1).eq(1)
        # The other endpoint has as many under way; this one sends what it has begun.
        behind = Signal(BITS)
        m.d.comb += behind.eq(sent[1] - c.slots)
        may = [
            sent[0] != waves.begin.number,
            (sent[1] < c.slots) | finished.bit_select(behind, 1),
        ]
        offers, begun = Signal(), Signal()
        chosen = Mux(place == 0, Mux(begun, source, self.whose), source)
        m.d.comb += offers.eq(
            (place != 0) | begun | (self.offer & Mux(self.whose, may[1], may[0]))
        )
        with m.If((place == 0) & offers):
            m.d.sync += [begun.eq(~store.i.ready), source.eq(chosen)]
        header = header_of(store.i.p)
        m.d.comb += number.eq(Mux(chosen, sent[1], sent[0]))
        moves = store.i.valid & store.i.ready
        inside, of_block, marks = Signal(), Signal(BITS), Signal()
        m.d.comb += [
            store.i.valid.eq(offers),
            store.i.p.first.eq(place == 0),
            store.i.p.last.eq(place == FLITS),
            marks.eq((place == 1) & self.mark & ~inside),
        ]
        with m.If(place == 0):
            m.d.comb += [
                header.kind.eq(Kind.PARTIAL), header.count.eq(1), header.source.eq(chosen),
                header.address.eq(address_of(c, Const(0, 3), number)),
            ]
        with m.Else():
            m.d.comb += store.i.p.data.eq(marks)
        with m.If(moves):
            m.d.sync += place.eq(Mux(place == FLITS, 0, place + 1))
            for k, each in enumerate(sent):
                with m.If((place == FLITS) & (chosen == k)):
                    m.d.sync += each.eq(each + 1)
        # The mark, in the first flit of data.
        out_block, first_data = Signal(BITS), Signal()
        marked = store.o.valid & store.o.ready & first_data & store.o.p.data[0]
        with m.If(store.o.valid & store.o.ready):
            m.d.sync += first_data.eq(store.o.p.first)
            with m.If(store.o.p.first):
                m.d.sync += out_block.eq(out_number)
        with m.If(moves & marks):
            m.d.sync += [inside.eq(1), of_block.eq(number)]
        with m.Elif(marked):
            m.d.sync += inside.eq(0)
        quiet = Signal(range(QUIET + 1))  # a result that leaves is no sum any more
        with m.If(~store.empty | store.busy | store.o.valid | moves):
            m.d.sync += quiet.eq(0)
        with m.Elif(quiet != QUIET):
            m.d.sync += quiet.eq(quiet + 1)
        m.d.comb += self.bad.eq(Cat(
            store.stale, store.misled, store.unknown, store.excess,
            store.mismatch.any(), store.overflow.any(),
            leaves & ((out.count != 2) | ~waves.waited.known),
            leaves & finished.bit_select(out_number, 1),
            marked & (~inside | (out_block != of_block)),
            inside & (quiet == QUIET),
        ).any())
        m.d.comb += [
            self.cover_a_slot_is_used_again.eq(store.added & (number == c.slots)),
            self.cover_the_mark_leaves.eq(marked & (out_block == 1)),
        ]
        return m


class Forgets(HomeStore):
    """Planted bug: the count of a sum is that of its last packet."""

    def _judge(self, m, *packet):
        judged = super()._judge(m, *packet)
        m.d.sync += judged.finishes.eq(1)
        return judged


class Never(HomeStore):
    """Planted bug: a sum is begun anew with every packet."""

    def _judge(self, m, *packet):
        judged = super()._judge(m, *packet)
        m.d.sync += judged.fresh.eq(1)
        return judged


def store_of(kind=HomeStore, waves=WaveControl, blocks=(2, 1)):
    c = config(*blocks)
    return StoreHarness(kind(c), waves(c), c)


def test_each_operand_is_in_one_result(tmp_path):
    assert holds(store_of(), tmp_path, twins=True, cycles=CYCLES)


@pytest.mark.parametrize("planted", [{"kind": Forgets}, {"kind": Never}, {"waves": Unbounded}])
def test_a_planted_bug_of_the_home_store_is_refuted(planted, tmp_path):
    assert not holds(store_of(**planted), tmp_path, twins=True, cycles=CYCLES)
