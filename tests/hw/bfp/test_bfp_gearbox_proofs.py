# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""Unbounded proofs that the gearbox keeps every unit in order and never idles."""

from pathlib import Path

import pytest
from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.bfp.gearbox import Gearbox
from tests.hw.common.prover import ever, holds, nth

SIZES = [(1, 2), (2, 3), (2, 5), (3, 2), (3, 4), (4, 3), (5, 2)]


class Harness(wiring.Component):
    """Compares a gearbox, whose units are single bits, with an ideal queue of bits.

    Vectors of any length are allowed, with gaps anywhere. `bad` is high when a
    unit is lost, doubled or out of order; when a vector does not end where it should; when a beat
    is not full before the end; when padding is not zero; when nothing is offered although a beat
    could be; or when the narrower side waits for no reason.
    """

    def __init__(self, i_units: int, o_units: int, *, whole: bool) -> None:
        self.gearbox = Gearbox(i_width=i_units, o_width=o_units, whole=whole)
        self.whole = whole
        super().__init__(
            {
                "data": In(i_units),
                "units": In(range(i_units + 1)),
                "last": In(1),
                "valid": In(1),
                "ready": In(1),
                "bad": Out(1), "cover_third_vector_ends": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.gearbox = gearbox = self.gearbox
        i, o = gearbox.i, gearbox.o
        i_units, o_units = len(i.p.data), len(o.p.data)
        arriving = Signal(range(i_units + 1))
        m.d.comb += [
            # Any number of units at the end of a vector, all before it.
            arriving.eq(
                Mux(~self.last | (self.units == 0) | (self.units > i_units), i_units, self.units)
            ),
            i.valid.eq(self.valid),
            i.p.data.eq(self.data & ((1 << arriving) - 1)),
            i.p.units.eq(arriving),
            i.p.last.eq(self.last),
            o.ready.eq(self.ready),
        ]
        push, pop = i.valid & i.ready, o.valid & o.ready

        # The queue: units, and which of them end a vector.
        room = i_units + 3 * o_units
        bits, ends = Signal(room), Signal(room)
        held = Signal(range(room + 1))
        popped_bits, popped_ends, popped = (Signal.like(x) for x in (bits, ends, held))
        leaving = Mux(pop, o.p.units, 0)
        m.d.comb += [
            popped_bits.eq(bits >> leaving),
            popped_ends.eq(ends >> leaving),
            popped.eq(held - leaving),
        ]
        arrived_bits, arrived = Signal(room), Signal.like(held)
        m.d.comb += [
            arrived_bits.eq(popped_bits | (i.p.data << popped)),
            arrived.eq(popped + arriving),
        ]
        final = Signal(room)  # the unit that ends the arriving vector
        kept = Signal.like(held)
        if self.whole:
            # Units of the arriving vector that do not make a whole beat yet.
            before, total, rest = (Signal(range(room + 1)) for _ in range(3))
            m.d.comb += [
                total.eq(before + arriving),
                rest.eq(total % o_units),
                kept.eq(Mux(self.last, arrived - rest, arrived)),
                final.eq(Mux(self.last & (kept > popped), (1 << kept) >> 1, 0)),
            ]
            with m.If(push):
                m.d.sync += before.eq(Mux(self.last, 0, rest))
        else:
            m.d.comb += [kept.eq(arrived), final.eq(Mux(self.last, (1 << kept) >> 1, 0))]
        m.d.sync += [bits.eq(popped_bits), ends.eq(popped_ends), held.eq(popped)]
        with m.If(push):
            m.d.sync += [
                bits.eq(arrived_bits & ((1 << kept) - 1)),
                ends.eq(popped_ends | final),
                held.eq(kept),
            ]

        shown, first = o.p.units, Signal(range(o_units + 1))
        m.d.comb += first.eq(shown - 1)
        due = (held >= o_units) | ends.any()
        problems = [
            o.valid & ((shown == 0) | (shown > held) | (shown > o_units)),
            o.valid & (o.p.data != (bits & ((1 << shown) - 1))),
            o.valid & (o.p.last != (ends >> first)[0]),
            o.valid & (ends & ((1 << shown) - 1) & ~((1 << shown) >> 1)).any(),
            o.valid & ~o.p.last & (shown != o_units),
            o.valid != due,
        ]
        if self.whole:
            problems.append(o.valid & (shown != o_units))
        if i_units <= o_units:
            problems.append(self.ready & ~i.ready)
        m.d.comb += self.bad.eq(Cat(*(problem != 0 for problem in problems)).any())
        m.d.comb += self.cover_third_vector_ends.eq(
            ever(m, push & ~self.last) & nth(m, pop & o.p.last, 3)
        )
        return m


@pytest.mark.parametrize("whole", [False, True], ids=["padded", "whole"])
@pytest.mark.parametrize(("i_units", "o_units"), SIZES)
def test_gearbox_is_a_queue_of_units(
    i_units: int, o_units: int, whole: bool, tmp_path: Path
) -> None:
    assert holds(Harness(i_units, o_units, whole=whole), tmp_path)


class Leaky(Gearbox):
    """A gearbox with the mistake of taking a beat that it has no room for."""

    def elaborate(self, platform: object) -> Module:
        m = super().elaborate(platform)
        m.d.comb += self.i.ready.eq(~self.o.valid | self.o.ready)
        return m


@pytest.mark.parametrize("whole", [False, True], ids=["padded", "whole"])
def test_beat_that_is_taken_without_room_is_found(whole: bool, tmp_path: Path) -> None:
    harness = Harness(3, 2, whole=whole)
    harness.gearbox = Leaky(i_width=3, o_width=2, whole=whole)

    assert not holds(harness, tmp_path)
