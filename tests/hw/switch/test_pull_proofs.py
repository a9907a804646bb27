# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""Proofs about loads in a reduction unit: answers are counted once and never wait, loads end."""

import pytest
from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.switch import reduction_datapath, reduction_unit
from hw.switch.packet import Kind, header_of
from hw.switch.reduction_loads import take_loads
from hw.switch.reduction_table import ReductionTable
from hw.switch.reduction_unit import ReductionUnit
from tests.hw.common.prover import ever, holds, nth
from tests.hw.switch.rig import PassingALU

FLITS = 2
EXPECTED = 2
CYCLES = 18
"""From reset, under all inputs, where an unbounded proof is out of reach."""
WAIT = 20
"""Cycles in which a load is answered, with one entry: another's answer may come before."""
STALL = 8
"""Cycles that an operand waits at most while packets leave: for entries that give way."""


@pytest.fixture(autouse=True)
def no_arithmetic(monkeypatch):
    monkeypatch.setattr(reduction_datapath, "ReduceALU", PassingALU)


def unit(entries):
    return ReductionUnit(entries=entries, payload_flits=FLITS, alu_stages=0, queue_packets=1,
                         timeout_bits=2)


class Harness(wiring.Component):
    """A unit with loads of two tags, and operands: answers to them, or pushed ones."""

    def __init__(self, unit, *, inputs, cover):
        self.unit = unit
        super().__init__({**inputs, "bad": Out(1), cover: Out(1)})

    def feed(self, m, *, valid, tag, push):
        """Offer operands; returns whether the header of one is accepted."""
        i = self.unit.i
        place = Signal(range(FLITS + 1))
        header = header_of(i.p.flit)
        m.d.comb += [
            i.valid.eq(valid | (place != 0)),
            i.p.flit.first.eq(place == 0),
            i.p.flit.last.eq(place == FLITS),
            i.p.expected.eq(EXPECTED),
        ]
        with m.If(place == 0):
            m.d.comb += [header.kind.eq(Mux(push, Kind.PUSH, Kind.RESPONSE)), header.count.eq(1),
                         header.tag.eq(tag)]
        with m.If(i.valid & i.ready):
            m.d.sync += place.eq(Mux(place == FLITS, 0, place + 1))
        return i.valid & i.ready & (place == 0)

    def ask(self, m, *, valid, tag, first):
        load = self.unit.load
        m.d.comb += [
            load.valid.eq(valid),
            load.p.kind.eq(Kind.LOAD),
            load.p.tag.eq(tag),
            load.p.expected.eq(EXPECTED),
            load.p.first.eq(first),
        ]
        return load.valid & load.ready


class CountHarness(Harness):
    """`bad`: more answers with tag 0 have left than came, or fewer and nothing is held; a packet of
    them has none, or more than a load asks for; more loads are sent on, or fewer, than came."""

    def __init__(self, unit):
        super().__init__(unit, inputs={
            "valid": In(1), "tag": In(1), "push": In(1), "load": In(1), "load_tag": In(1),
            "first": In(1), "timeout": In(2), "partial": In(1), "result": In(1), "request": In(1),
        }, cover="cover_second_answer_leaves")

    def elaborate(self, platform):
        m = Module()
        m.submodules.unit = unit = self.unit
        came = self.feed(m, valid=self.valid, tag=self.tag, push=self.push)
        loaded = self.ask(m, valid=self.load, tag=self.load_tag, first=self.first)
        m.d.comb += [
            unit.timeout.eq(self.timeout),
            unit.partial.ready.eq(self.partial),
            unit.result.ready.eq(self.result),
            unit.request.ready.eq(self.request),
        ]
        counted = came & ~self.push & (self.tag == 0)
        out = header_of(unit.partial.p)
        leaves = unit.partial.valid & unit.partial.p.first
        answer = leaves & (out.kind == Kind.RESPONSE)
        left = Mux(answer & unit.partial.ready & (out.tag == 0), out.count, 0)
        held, after = Signal(5), Signal(6)
        waiting = Signal(3)
        sent = unit.request.valid & unit.request.ready
        wrong = Signal()
        m.d.comb += after.eq(held + counted - left)
        m.d.sync += [held.eq(after), waiting.eq(waiting + loaded - sent - unit.duplicate)]
        with m.If(after[5] | waiting[2]):
            m.d.sync += wrong.eq(1)
        m.d.comb += self.bad.eq(
            Cat(
                wrong,
                answer & ((out.count == 0) | (out.count > EXPECTED)),
                unit.idle & (held != 0),
                unit.idle & (waiting != 0) & ~unit.duplicate,
                sent & (waiting == 0),
            ).any()
        )
        m.d.comb += self.cover_second_answer_leaves.eq(
            nth(m, answer & unit.partial.ready & (out.count == EXPECTED), 2)
        )
        return m


class AnswerHarness(Harness):
    """Loads of a first switch only, and answers when they were sent on, as many as they ask for, in
    any order; nothing is timed out, what leaves is taken.

    `bad`: an answer is not whole, or a load or answer had no entry; or, with *within*, a load is
    not answered after that many cycles although operands come at once.
    """

    def __init__(self, unit, *, within=0):
        self.within = within
        super().__init__(unit, inputs={
            "choice": In(1), "pause": In(1), "load": In(1), "load_tag": In(1),
        }, cover="cover_second_load_is_answered_whole")

    def elaborate(self, platform):
        m = Module()
        m.submodules.unit = unit = self.unit
        due = [Signal(range(EXPECTED + 1), name=f"due_{k}") for k in range(2)]
        tag = Signal()
        m.d.comb += tag.eq(Mux(due[0] == 0, 1, Mux(due[1] == 0, 0, self.choice)))
        pauses = Const(0) if self.within else self.pause
        came = self.feed(m, valid=(due[0] + due[1] != 0) & ~pauses, tag=tag, push=0)
        # A tag is used again when its load is answered.
        busy = Signal(2)
        offered, offers = Signal(), Signal()
        kept = Signal()
        out = header_of(unit.partial.p)
        answer = unit.partial.valid & unit.partial.p.first
        m.d.comb += [
            offers.eq(offered | (self.load & ~busy.bit_select(self.load_tag, 1))),
            unit.partial.ready.eq(1),
            unit.result.ready.eq(1),
            unit.request.ready.eq(1),
        ]
        load_tag = Mux(offered, kept, self.load_tag)
        taken = self.ask(m, valid=offers, tag=load_tag, first=1)
        m.d.sync += [offered.eq(offers & ~taken), kept.eq(load_tag)]
        for k in range(2):
            sent = unit.request.valid & (unit.request.p.tag == k)
            m.d.sync += due[k].eq(due[k] + Mux(sent, EXPECTED, 0) - (came & (tag == k)))
            with m.If(offers & (load_tag == k)):
                m.d.sync += busy[k].eq(1)
            with m.If(answer & (out.tag == k)):
                m.d.sync += busy[k].eq(0)
        waited = Signal(range(self.within + 2))
        with m.If(busy[0]):
            m.d.sync += waited.eq(Mux(waited > self.within, waited, waited + 1))
        with m.Else():
            m.d.sync += waited.eq(0)
        late = (waited > self.within) if self.within else Const(0)
        lost = unit.duplicate | unit.bypassed | unit.passed
        m.d.comb += self.bad.eq((answer & (out.count != EXPECTED)) | lost | late)
        m.d.comb += self.cover_second_load_is_answered_whole.eq(
            nth(m, answer & (out.count == EXPECTED), 2)
        )
        return m


class DrainHarness(Harness):
    """Partials and results are taken, requests and loads come and go or not, entries are given up.

    `bad`: an operand has waited longer than *within* cycles.
    """

    def __init__(self, unit, *, within):
        self.within = within
        super().__init__(unit, inputs={
            "valid": In(1), "tag": In(1), "push": In(1), "load": In(1), "load_tag": In(1),
            "first": In(1), "timeout": In(2), "request": In(1),
        }, cover="cover_third_operand_comes_after_one_waited_and_an_entry_gave_way")

    def elaborate(self, platform):
        m = Module()
        m.submodules.unit = unit = self.unit
        came = self.feed(m, valid=self.valid, tag=self.tag, push=self.push)
        self.ask(m, valid=self.load, tag=self.load_tag, first=self.first)
        m.d.comb += [
            unit.timeout.eq(self.timeout),
            unit.partial.ready.eq(1),
            unit.result.ready.eq(1),
            unit.request.ready.eq(self.request),
        ]
        waited = Signal(range(self.within + 2))
        with m.If(unit.i.valid & ~unit.i.ready):
            m.d.sync += waited.eq(Mux(waited > self.within, waited, waited + 1))
        with m.Else():
            m.d.sync += waited.eq(0)
        m.d.comb += self.bad.eq(waited > self.within)
        gave_way = ever(m, unit.evicted | unit.expired)
        m.d.comb += self.cover_third_operand_comes_after_one_waited_and_an_entry_gave_way.eq(
            gave_way & ever(m, waited > 2) & nth(m, came, 3)
        )
        return m


class WriteHarness(Harness):
    """Everything comes and goes, or not. *writes*: conditions under which the table is written, for
    each place that says so, filled in as the unit is elaborated.

    `bad`: two of them hold in one cycle.
    """

    def __init__(self, unit, writes):
        self.writes = writes
        super().__init__(unit, inputs={
            "valid": In(1), "tag": In(1), "push": In(1), "load": In(1), "load_tag": In(1),
            "first": In(1), "timeout": In(2), "purging": In(1), "readies": In(3),
        }, cover="cover_an_operand_and_two_loads_have_written")

    def elaborate(self, platform):
        m = Module()
        unit = self.unit
        self.feed(m, valid=self.valid, tag=self.tag, push=self.push)
        self.ask(m, valid=self.load, tag=self.load_tag, first=self.first)
        m.submodules.unit = unit.elaborate(platform)
        of_load, of_operand = self.writes
        m.d.comb += [
            unit.timeout.eq(self.timeout),
            unit.purging.eq(self.purging),
            Cat(unit.partial.ready, unit.result.ready, unit.request.ready).eq(self.readies),
            self.bad.eq(of_load & of_operand),
            self.cover_an_operand_and_two_loads_have_written.eq(
                ever(m, of_operand) & nth(m, of_load, 2)
            ),
        ]
        return m


@pytest.fixture
def writes(monkeypatch):
    """Conditions of all writes to a table that is elaborated from now on."""
    found, keep = [], ReductionTable.keep

    def noted(self, where, meta, count):
        found.append(Signal(name=f"writes_{len(found)}"))
        self._m.d.comb += found[-1].eq(1)
        keep(self, where, meta, count)

    monkeypatch.setattr(ReductionTable, "keep", noted)
    return found


@pytest.mark.parametrize("entries", [1, 2])
def test_a_table_is_written_once_in_a_cycle(entries, writes, tmp_path):
    harness = WriteHarness(unit(entries), writes)
    assert holds(harness, tmp_path, twins=True, cycles=CYCLES)


def test_a_load_that_looks_within_a_packet_is_refuted(writes, tmp_path, monkeypatch):
    """Planted bug: loads take entries whatever is at the input."""
    def hasty(m, i, o, table, *, between, **others):
        return take_loads(m, i, o, table, between=Const(1), **others)

    monkeypatch.setattr(reduction_unit, "take_loads", hasty)
    assert not holds(WriteHarness(unit(2), writes), tmp_path, twins=True, cycles=CYCLES)


@pytest.mark.parametrize("entries", [1, pytest.param(2, marks=pytest.mark.full)])
def test_every_answer_is_counted_once(entries, tmp_path):
    cycles = CYCLES + 2 // entries
    assert holds(CountHarness(unit(entries)), tmp_path, twins=True, cycles=cycles)


@pytest.mark.parametrize("entries", [1, 2])
def test_a_load_of_the_first_switch_is_answered_whole(entries, tmp_path):
    cycles = CYCLES + 4 // entries
    assert holds(AnswerHarness(unit(entries)), tmp_path, twins=True, cycles=cycles)


def test_a_load_never_waits_for_ever_for_the_only_entry(tmp_path):
    assert holds(AnswerHarness(unit(1), within=WAIT), tmp_path, twins=True, cycles=WAIT + 12)


@pytest.mark.parametrize("entries", [1, 2])
def test_operands_are_drained_whatever_loads_wait_for(entries, tmp_path):
    assert holds(DrainHarness(unit(entries), within=STALL), tmp_path, twins=True, cycles=CYCLES + 4)


PLANTED = {
    # The entry of a complete answer stays.
    "forget": lambda self, where: None,
    # A load takes an entry that is in use.
    "free": lambda self: Const(1, self._entries),
    # Answers to different loads are one.
    "match": lambda self, key: Cat(
        valid & (meta.address == key.address) for valid, meta in zip(self.valid, self._meta)
    ),
    # An answer gives way to a load that waits.
    "oldest_sum": lambda self: self.oldest(),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_bug_is_refuted(planted, tmp_path, monkeypatch):
    monkeypatch.setattr(ReductionTable, planted, PLANTED[planted])

    harness = AnswerHarness(unit(2 if planted == "match" else 1))
    assert not holds(harness, tmp_path, twins=True, cycles=CYCLES + 8)


ENDLESS = {
    # No entry is ever free.
    "free": lambda self: Const(0, self._entries),
    # An entry never has an operand.
    "count": lambda self, where: Const(0, 9),
}


@pytest.mark.parametrize("planted", ENDLESS)
def test_a_load_without_end_is_refuted(planted, tmp_path, monkeypatch):
    monkeypatch.setattr(ReductionTable, planted, ENDLESS[planted])

    assert not holds(AnswerHarness(unit(1), within=WAIT), tmp_path, twins=True, cycles=WAIT + 12)


class Blocking(ReductionUnit):
    """Planted bug: while a load waits, operands do."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        with m.If(~self.load.ready):
            m.d.comb += self.i.ready.eq(0)
        return m


def test_operands_that_wait_for_loads_are_refuted(tmp_path):
    planted = Blocking(entries=1, payload_flits=FLITS, alu_stages=0, queue_packets=1,
                       timeout_bits=2)
    harness = DrainHarness(planted, within=STALL)
    assert not holds(harness, tmp_path, twins=True, cycles=CYCLES + 4)
