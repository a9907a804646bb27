# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""FP32 sums in fixed point: the same bits whatever comes first, and what has no place is told."""

from dataclasses import replace
from itertools import permutations

import bitwuzla
import numpy as np
import pytest
from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.fp.alu import ReduceLane
from hw.fp.ops import ReduceOp
from hw.switch import reduction_datapath
from hw.switch.config import preset as switch_preset
from hw.switch.packet import AbortCause, Kind, header_of
from hw.switch.reduction_unit import ReductionUnit
from hw.switch_dma.config import preset
from hw.switch_dma.fixed_point import FixedToFloat, FloatToFixed
from hw.switch_dma.registers import CommandError
from tb.switch_dma import fixed_point
from tb.switch_dma.fabric import AllReduce, flat, join, two_levels
from tb.switch_dma.orders import Adds, Orders, converted
from tests.hw.common.prover import holds
from tests.hw.switch.rig import PassingALU
from tests.hw.switch_dma.test_switch_dma import (
    QUIET,
    expect_abort,
    finish,
    recover,
    switch_count,
)

SWITCH = replace(switch_preset("test"), trace=True)
DMA = replace(preset("test"), trace=True, fixed_point=True, parts=True)

both_modes = pytest.mark.parametrize("mode", ["push", "pull"])


def summed(system, *, fixed=True):
    """Results of an all-reduce, in fixed point or not, which are the golden ones."""
    job = AllReduce(system, ReduceOp.SUM_F32, 333, seed=1, fixed=fixed)
    rng = np.random.default_rng(system.seed)
    for node in rng.permutation(len(system.nodes)):
        job.start([system.nodes[node]])
        system.step(rng.integers(400))
    system.settle(quiet=QUIET)
    job.check()
    return job.results()[0].tobytes()


@both_modes
def test_the_same_bits_for_every_order_table_and_time_out(mode):
    found, given_up, expired = set(), 0, 0
    for seed, (entries, timeout) in enumerate([(1, 1000), (2, 25), (3, 1000)]):
        switch = replace(SWITCH, entries=entries)
        make = two_levels if entries == 2 else flat
        system = join(make(switch, DMA, 4, mode=mode, stalls=0.3 * (seed % 2), seed=seed,
                           timeout=timeout, latency=1 + 3 * seed))
        found.add(summed(system))
        given_up += switch_count(system, "evicted", "bypassed", "stalled")
        expired += switch_count(system, "expired")

    assert len(found) == 1
    assert given_up > 0 and expired > 0


def test_plain_sums_depend_on_it():
    """Else the test above would show nothing."""
    found = set()
    for seed in range(3):
        system = join(flat(SWITCH, DMA, 4, stalls=0.3, seed=seed))
        found.add(summed(system, fixed=False))
    assert len(found) == 3


def test_other_operations_are_as_they_were():
    system = join(flat(SWITCH, DMA, 3, stalls=0.2))
    base = [0]
    for op in ReduceOp:
        base = finish(system, AllReduce(system, op, 77, seed=op.value), base=base)
        base = finish(system, AllReduce(system, ReduceOp.SUM_F32, 77, fixed=True), base=base)


@pytest.mark.parametrize("exponent", [1, 9, 254])
def test_windows_at_the_ends_of_the_format(exponent):
    system = join(flat(SWITCH, DMA, 4))
    job = AllReduce(system, ReduceOp.SUM_F32, 90, fixed=exponent)
    rng = np.random.default_rng(exponent)
    for node, words in zip(system.nodes, job.inputs):
        exponents = np.maximum(exponent - rng.integers(30, size=90), 0)
        bits = rng.integers(1 << 23, size=90) | exponents << 23
        words[:] = (bits | rng.integers(2, size=90) << 31).astype(np.uint32).view(np.float32)
        words[7] = np.uint32((exponent << 23) + 1234).view(np.float32)
        node.put(job.source, words)
    finish(system, job)
    assert np.isinf(job.results()[0]).any() == (exponent == 254)


@both_modes
@pytest.mark.parametrize("value", [np.float32(np.nan), np.float32(-np.inf), np.float32(2.0)])
def test_an_operand_outside_its_window_is_known_to_all(value, mode):
    system = join(flat(SWITCH, DMA, 4, mode=mode))
    exponent = 127  # less than 2
    job = AllReduce(system, ReduceOp.SUM_F32, 99, fixed=exponent)
    for node, words in zip(system.nodes, job.inputs):
        words[:] = np.clip(words, -1.5, 1.5)
        node.put(job.source, words)
        node.put(job.source + 4 * 99, np.full(4, np.nan, np.float32))  # beyond the vector
    bad = job.inputs[2].copy()
    bad[97] = value
    system.nodes[2].put(job.source, bad)
    job.start()
    system.settle(quiet=QUIET)

    for answer in system.ask("interrupt"):
        assert answer["done"] and answer["invalid"] and not answer["memory"]
    assert all(each["read"] and not each["write"] for each in system.ask("invalid"))
    assert [each["count"] for each in system.ask("outside", 0)] == [0, 0, 1, 0]

    for node in system.nodes:
        node.write("interrupt", done=1, invalid=1)
    job = AllReduce(system, ReduceOp.SUM_F32, 300, seed=8, fixed=True)
    finish(system, job, base=[1 + 4])
    assert not any(each["invalid"] for each in system.ask("interrupt"))


@both_modes
@pytest.mark.parametrize(
    "changes", [{"exponent": 131}, {"fixed": 0}, {"op": ReduceOp.SUM_I32, "fixed": 0}]
)
def test_another_window_is_a_disagreement(changes, mode):
    system = join(flat(SWITCH, DMA, 3, mode=mode))
    job = AllReduce(system, ReduceOp.SUM_F32, 200, fixed=130)
    job.start(system.nodes[1:])
    job.start(system.nodes[:1], **changes)
    system.settle(quiet=QUIET)

    expect_abort(system, AbortCause.DISAGREEMENT)
    recover(system)


@pytest.mark.parametrize("changes", [{"exponent": 0}, {"exponent": 255},
                                     {"op": ReduceOp.MAX_F32}, {"op": ReduceOp.SUM_I32}])
def test_a_window_that_cannot_be_is_refused(changes):
    system = join(flat(SWITCH, DMA, 2))
    AllReduce(system, ReduceOp.SUM_F32, 64, fixed=130).start(**changes)
    system.settle(quiet=20)
    assert {each["error"] for each in system.ask("refusal")} == {CommandError.WINDOW.value}


def test_thousands_of_orders_through_a_table_and_its_home():
    """Converters, table and home store, RTL: with evictions, and with time-outs beside them."""
    rng = np.random.default_rng(5)
    operands = (rng.standard_normal((8, 8)) * 10.0 ** rng.integers(-6, 7, (8, 8))).astype("f4")
    unit = fixed_point.unit_of(fixed_point.largest_exponent(operands), 8)
    given = converted(FloatToFixed, operands, unit=unit, members=8).view(np.int32)
    for timeout in (0, 30):
        with Adds.model(Orders(entries=1, members=8)).instance() as instance:
            ran = Adds.run(instance, given, 2000, rng=rng, timeout=timeout)
        results = converted(FixedToFloat, ran["sums"], unit=unit, members=8).view(np.float32)
        assert (results == fixed_point.total(operands, unit)).all()
        assert ran["at_home"] >= 2000, "with one entry nothing is complete in the table"
        assert ran["evicted"] > 2000 and (ran["expired"] > 500) == (timeout > 0)


# ---- Proofs.


class IntegerLane(wiring.Component):
    """A lane of the tables that adds integers. `bad`: it does not."""

    def __init__(self, lane=ReduceLane):
        self.lane = lane
        super().__init__({"a": In(32), "b": In(32), "bad": Out(1),
                          "cover_a_sum_wraps_around": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.lane = lane = self.lane(stages=0)
        m.d.comb += [lane.op.eq(ReduceOp.SUM_I32), lane.a.eq(self.a), lane.b.eq(self.b)]
        m.d.sync += self.bad.eq(lane.o != (self.a + self.b)[:32])
        m.d.sync += self.cover_a_sum_wraps_around.eq(
            self.a[31] & self.b[31] & lane.o.any()
        )
        return m


class Rounds(ReduceLane):
    """Planted bug: very large sums lose their lowest bit, as floating point does."""

    def elaborate(self, platform):
        m = Module()
        m.submodules.lane = lane = ReduceLane(stages=0)
        m.d.comb += [lane.op.eq(self.op), lane.a.eq(self.a), lane.b.eq(self.b),
                     self.o.eq(Cat(lane.o[0] & ~lane.o[30], lane.o[1:]))]
        return m


@pytest.mark.parametrize("lane, adds", [(ReduceLane, True), (Rounds, False)])
def test_a_lane_adds_integers_whatever_they_are(lane, adds, tmp_path):
    assert holds(IntegerLane(lane), tmp_path, cycles=2) is adds


def trees(leaves):
    """Every way to add *leaves* in this order."""
    if len(leaves) == 1:
        return [leaves[0]]
    return [f"(bvadd {left} {right})" for cut in range(1, len(leaves))
            for left in trees(leaves[:cut]) for right in trees(leaves[cut:])]


def test_four_operands_have_one_sum_in_every_order_and_tree():
    every = [tree for order in permutations("abcd") for tree in trees(order)]
    assert len(every) == 24 * 5
    terms = bitwuzla.TermManager()
    parser = bitwuzla.Parser(terms, bitwuzla.Options())
    declared = "".join(f"(declare-const {name} (_ BitVec 32))" for name in "abcd")
    others = " ".join(f"(= {tree} {every[0]})" for tree in every[1:])
    parser.parse(f"(set-logic QF_BV){declared}(assert (not (and {others})))", True, False)
    assert parser.bitwuzla().check_sat() == bitwuzla.Result.UNSAT


FLITS, BITS, CYCLES = 2, 2, 18


class Adder(PassingALU):
    """Stands for the lanes, which add so, as is shown above; headers pass."""

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o.eq(Mux(self.keep, self.b, Cat((self.a + self.b)[:BITS], self.b[BITS:])))
        return m


class SumHarness(wiring.Component):
    """A unit that gets operands of two addresses, four of each, in any order, at any time.

    `bad`: all operands of address 0 that came have left, in results or partials, and the sum of
    what left is another than of what came.
    """

    def __init__(self, unit):
        self.unit = unit
        super().__init__({"valid": In(1), "address": In(1), "word": In(BITS), "timeout": In(2),
                          "partial_ready": In(1), "result_ready": In(1), "bad": Out(1),
                          "cover_three_operands_have_left": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.unit = unit = self.unit
        place, here = Signal(range(FLITS + 1)), Signal()
        header = header_of(unit.i.p.flit)
        m.d.comb += [
            unit.i.valid.eq(self.valid),
            unit.i.p.flit.first.eq(place == 0),
            unit.i.p.flit.last.eq(place == FLITS),
            unit.i.p.expected.eq(4),
            unit.timeout.eq(self.timeout),
            unit.partial.ready.eq(self.partial_ready),
            unit.result.ready.eq(self.result_ready),
        ]
        with m.If(place == 0):
            m.d.comb += [header.kind.eq(Kind.PUSH), header.count.eq(1),
                         header.op.eq(ReduceOp.SUM_I32.value), header.address.eq(self.address)]
        with m.Else():
            m.d.comb += unit.i.p.flit.data.eq(self.word)
        moves = unit.i.valid & unit.i.ready
        came, left = Signal(5), Signal(5)
        given, got = Signal(BITS), Signal(BITS)
        with m.If(moves):
            m.d.sync += place.eq(Mux(place == FLITS, 0, place + 1))
            with m.If(place == 0):
                m.d.sync += [here.eq(self.address == 0), came.eq(came + (self.address == 0))]
            with m.Elif((place == 1) & here):
                m.d.sync += given.eq(given + self.word)
        counts, sums = Const(0), Const(0)
        whole = place == 0
        for stream in (unit.partial, unit.result):
            of, second = Signal(), Signal()
            with m.If(stream.valid & stream.ready):
                m.d.sync += second.eq(stream.p.first)
                with m.If(stream.p.first):
                    m.d.sync += of.eq(header_of(stream.p).address == 0)
            shown = stream.valid & stream.ready
            about = header_of(stream.p)
            counts += Mux(shown & stream.p.first & (about.address == 0), about.count, 0)
            sums += Mux(shown & second & of, stream.p.data[:BITS], 0)
            whole &= ~second
        m.d.sync += [left.eq(left + counts), got.eq(got + sums)]
        m.d.comb += self.bad.eq(whole & (came == left) & (given != got))
        m.d.comb += self.cover_three_operands_have_left.eq(
            whole & (came == left) & (left >= 3)
        )
        return m


def unit():
    return ReductionUnit(entries=1, payload_flits=FLITS, alu_stages=0, queue_packets=1,
                         timeout_bits=2)


@pytest.mark.parametrize("cycles", [CYCLES, pytest.param(20, marks=pytest.mark.full)])
def test_what_leaves_a_table_adds_up_to_what_came(cycles, tmp_path, monkeypatch):
    monkeypatch.setattr(reduction_datapath, "ReduceALU", Adder)
    assert holds(SumHarness(unit()), tmp_path, twins=True, cycles=cycles)


def test_an_adder_that_forgets_is_refuted(tmp_path, monkeypatch):
    monkeypatch.setattr(reduction_datapath, "ReduceALU", PassingALU)  # a | b
    assert not holds(SumHarness(unit()), tmp_path, twins=True, cycles=CYCLES)
