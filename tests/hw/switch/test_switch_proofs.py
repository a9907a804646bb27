# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""Proofs, for the first cycles from reset, that a reduction unit counts every operand once."""

import pytest
from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.switch import reduction_datapath, reduction_unit
from hw.switch.packet import Kind, header_of
from hw.switch.packet_queue import PacketQueue
from hw.switch.reduction_table import ReductionTable
from hw.switch.reduction_unit import ReductionUnit
from tests.families import quick
from tests.hw.common.prover import assert_moore, ever, holds, nth
from tests.hw.switch.rig import PassingALU

FLITS = 2
EXPECTED = 2
CYCLES = 18
"""From reset, under all inputs: the sums of counts are beyond unbounded proof."""


class UnitHarness(wiring.Component):
    """A unit with operands of two addresses; those of address 0 are followed.

    `bad`: more operands have left than came, or none is held and fewer have left; a result does not
    hold all operands, or a partial does, or one is not where it is sent from; a packet that leaves
    has another number of flits.
    """

    def __init__(self, unit):
        self.unit = unit
        super().__init__({"valid": In(1), "address": In(1), "timeout": In(2),
                          "partial_ready": In(1), "result_ready": In(1), "bad": Out(1),
                          "cover_a_result_leaves": Out(1),
                          "cover_an_address_comes_again_after_it_gave_way": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.unit = unit = self.unit
        place = Signal(range(FLITS + 1))
        header = header_of(unit.i.p.flit)
        m.d.comb += [
            unit.i.valid.eq(self.valid),
            unit.i.p.flit.first.eq(place == 0),
            unit.i.p.flit.last.eq(place == FLITS),
            unit.i.p.expected.eq(EXPECTED),
            unit.timeout.eq(self.timeout),
            unit.partial.ready.eq(self.partial_ready),
            unit.result.ready.eq(self.result_ready),
        ]
        with m.If(place == 0):
            m.d.comb += [header.kind.eq(Kind.PUSH), header.count.eq(1),
                         header.address.eq(self.address)]
        with m.If(unit.i.valid & unit.i.ready):
            m.d.sync += place.eq(Mux(place == FLITS, 0, place + 1))

        came = unit.i.valid & unit.i.ready & (place == 0) & (self.address == 0)
        problems = []
        left = Const(0)
        for stream, full in ((unit.partial, 0), (unit.result, 1)):
            number = Signal(range(FLITS + 1), name=f"number_{full}")
            out = header_of(stream.p)
            moves = stream.valid & stream.ready
            with m.If(moves):
                m.d.sync += number.eq(Mux(number == FLITS, 0, number + 1))
            left += Mux(moves & stream.p.first & (out.address == 0), out.count, 0)
            whole = out.kind == Kind.RESULT
            known = whole if full else Const(0)
            if full == unit.multicast_partials:  # here are those that are not complete, too
                known |= out.kind == (Kind.SUBTOTAL if full else Kind.PARTIAL)
            problems += [
                stream.valid & stream.p.first & ~known,
                stream.valid & (stream.p.first != (number == 0)),
                stream.valid & (stream.p.last != (number == FLITS)),
                stream.valid & stream.p.first & ((out.count == EXPECTED) != whole),
                stream.valid & stream.p.first & (out.count == 0),
            ]
        held = Signal(5)
        after = Signal(6)
        wrong = Signal()
        m.d.comb += after.eq(held + came - left)
        m.d.sync += held.eq(after)
        with m.If(after[5]):
            m.d.sync += wrong.eq(1)
        m.d.comb += self.bad.eq(Cat(*problems, wrong, unit.idle & (held != 0)).any())
        m.d.comb += [
            self.cover_a_result_leaves.eq(
                unit.result.valid & unit.result.ready
                & (header_of(unit.result.p).count == EXPECTED)
            ),
            self.cover_an_address_comes_again_after_it_gave_way.eq(
                ever(m, unit.evicted | unit.expired) & nth(m, came, 2)
            ),
        ]
        return m


class MarkHarness(wiring.Component):
    """A unit of which one operand at a time is marked in its data; sums keep the mark.

    `bad`: the mark leaves twice, without having come, or never: the unit is idle and it has not.
    """

    def __init__(self, unit):
        self.unit = unit
        super().__init__({"valid": In(1), "address": In(1), "mark": In(1), "timeout": In(2),
                          "partial_ready": In(1), "result_ready": In(1), "bad": Out(1),
                          "cover_second_mark_leaves": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.unit = unit = self.unit
        place = Signal(range(FLITS + 1))
        inside = Signal()
        marks = Signal()
        header = header_of(unit.i.p.flit)
        m.d.comb += [
            marks.eq((place == 1) & self.mark & ~inside),
            unit.i.valid.eq(self.valid),
            unit.i.p.flit.first.eq(place == 0),
            unit.i.p.flit.last.eq(place == FLITS),
            unit.i.p.expected.eq(EXPECTED),
            unit.timeout.eq(self.timeout),
            unit.partial.ready.eq(self.partial_ready),
            unit.result.ready.eq(self.result_ready),
        ]
        with m.If(place == 0):
            m.d.comb += [header.kind.eq(Kind.PUSH), header.count.eq(1),
                         header.address.eq(self.address)]
        with m.Else():
            m.d.comb += unit.i.p.flit.data.eq(marks)
        moves = unit.i.valid & unit.i.ready
        with m.If(moves):
            m.d.sync += place.eq(Mux(place == FLITS, 0, place + 1))
        left = Cat(
            stream.valid & stream.ready & ~stream.p.first & stream.p.data[0]
            for stream in (unit.partial, unit.result)
        )
        with m.If(moves & marks):
            m.d.sync += inside.eq(1)
        with m.Elif(left.any()):
            m.d.sync += inside.eq(0)
        m.d.comb += self.bad.eq(
            Cat(left.any() & ~inside, left.all(), inside & unit.idle).any()
        )
        m.d.comb += self.cover_second_mark_leaves.eq(
            nth(m, left.any() & inside, 2)
        )
        return m


@pytest.fixture(autouse=True)
def no_arithmetic(monkeypatch):
    monkeypatch.setattr(reduction_datapath, "ReduceALU", PassingALU)


def unit(entries, packets=1, multicast=False):
    return ReductionUnit(entries=entries, payload_flits=FLITS, alu_stages=0, queue_packets=packets,
                         timeout_bits=2, multicast_partials=multicast)


multicast = pytest.mark.parametrize("multicast", [False, True])


@multicast
@pytest.mark.parametrize("entries, packets", [(1, 1), (2, 1)])
def test_every_operand_is_counted_once(entries, packets, multicast, tmp_path):
    harness = UnitHarness(unit(entries, packets, multicast))
    assert holds(harness, tmp_path, twins=True, cycles=CYCLES)


@multicast
@pytest.mark.parametrize("entries", [1, 2])
def test_every_operand_is_in_one_packet_that_leaves(entries, multicast, tmp_path):
    harness = MarkHarness(unit(entries, multicast=multicast))
    assert holds(harness, tmp_path, twins=True, cycles=CYCLES)


class Overrun(PacketQueue):
    """Planted bug: room is promised that there is not."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        m.d.comb += self.room.eq(1)
        return m


PLANTED = {
    # The entry of a complete sum stays.
    "forget": lambda self, where: None,
    # An operand does not add to the count.
    "count": lambda self, where: Const(0, 9),
    # An entry that is free still matches.
    "match": lambda self, key: Cat(meta.address == key.address for meta in self._meta),
    # A free entry is passed over.
    "place": lambda self: Const(1, self._entries),
}


@multicast
@pytest.mark.parametrize("planted", quick(2, PLANTED))
def test_a_planted_bug_of_the_table_is_refuted(planted, multicast, tmp_path, monkeypatch):
    monkeypatch.setattr(ReductionTable, planted, PLANTED[planted])

    harness = UnitHarness(unit(2 if planted == "place" else 1, multicast=multicast))
    assert not holds(harness, tmp_path, twins=True, cycles=CYCLES)


@multicast
def test_a_queue_without_room_is_refuted(multicast, tmp_path, monkeypatch):
    monkeypatch.setattr(reduction_unit, "PacketQueue", Overrun)

    harness = UnitHarness(unit(1, multicast=multicast))
    assert not holds(harness, tmp_path, twins=True, cycles=CYCLES)


def test_no_output_depends_on_an_input_in_the_same_cycle(tmp_path):
    assert_moore(unit(2), tmp_path)
