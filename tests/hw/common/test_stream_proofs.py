# amaranth: UnusedElaboratable=no
"""Unbounded proofs that the stream blocks lose, double and reorder nothing, and never hang."""

import pytest
from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from gen.yosys import YosysError
from hw.common.fifo import StreamFIFO
from hw.common.skid import SkidBuffer
from hw.common.width import WidthAdapter
from tests.hw.common.prover import assert_moore, holds


class QueueHarness(wiring.Component):
    """Compares a one-in-one-out block with an ideal queue.

    `bad` is high when a beat at the output is not the oldest one accepted, when more than
    *capacity* beats are held, when the block stalls with fewer, or when it holds beats and has
    offered none for *latency* cycles.
    """

    def __init__(self, block, *, capacity, latency, level=None, width=2):
        self.block = block
        self.capacity = capacity
        self.latency = latency
        self.level = level
        super().__init__(
            {
                "data": In(width),
                "valid": In(1),
                "ready": In(1),
                "bad": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.block = block = self.block
        width = len(self.data)
        queue = Signal(data.ArrayLayout(unsigned(width), self.capacity + 1))
        held = Signal(range(self.capacity + 2))
        silent = Signal(range(self.latency + 2))
        push = block.i.valid & block.i.ready
        pop = block.o.valid & block.o.ready
        m.d.comb += [
            block.i.valid.eq(self.valid),
            block.i.payload.eq(self.data),
            block.o.ready.eq(self.ready),
        ]
        after_pop = Signal.like(held)
        m.d.comb += after_pop.eq(held - pop)
        m.d.sync += [held.eq(after_pop + push), silent.eq(0)]
        with m.If(pop):
            m.d.sync += queue.eq(queue.as_value() >> width)
        with m.If(push):
            m.d.sync += queue[after_pop].eq(self.data)
        with m.If((held != 0) & ~block.o.valid & (silent <= self.latency)):
            m.d.sync += silent.eq(silent + 1)

        problems = [
            block.o.valid & (held == 0),
            block.o.valid & (block.o.payload != queue[0]),
            push & (held == self.capacity),
            ~block.i.ready & (held < self.capacity),
            silent >= self.latency,
        ]
        if self.level is not None:
            problems.append(self.level != held)
        m.d.comb += self.bad.eq(Cat(*problems).any())
        return m


class WidthHarness(wiring.Component):
    """Compares a width adapter of one-bit units with an ideal queue of units.

    Packets are dense: all beats full but the last, which has at least one unit. `bad` is high when
    a unit is lost, doubled or out of order, when a packet ends elsewhere than it did, when a beat
    that could be full is not, or when the adapter holds a beat and does not offer it.
    """

    def __init__(self, adapter):
        self.adapter = adapter
        units = len(adapter.i.p.keep)
        super().__init__(
            {
                "data": In(units),
                "empty": In(range(units)),
                "last": In(1),
                "valid": In(1),
                "ready": In(1),
                "bad": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.adapter = adapter = self.adapter
        i, o = adapter.i, adapter.o
        i_units, o_units = len(i.p.keep), len(o.p.keep)
        capacity = max(i_units, o_units)
        arriving = Signal(range(i_units + 1))
        m.d.comb += [
            i.valid.eq(self.valid),
            o.ready.eq(self.ready),
            i.p.data.eq(self.data),
            i.p.last.eq(self.last),
            # An `empty` past the range counts as none.
            arriving.eq(Mux(self.last & (self.empty < i_units), i_units - self.empty, i_units)),
            i.p.keep.eq((1 << arriving) - 1),
        ]

        unit = data.StructLayout({"bit": 1, "end": 1})
        queue = Signal(data.ArrayLayout(unit, capacity))
        held = Signal(range(capacity + 1))
        leaving = Signal(range(o_units + 1))
        kept = sum((o.p.keep[k] for k in range(o_units)), start=Signal(1))
        m.d.comb += leaving.eq(kept)
        push = i.valid & i.ready
        pop = o.valid & o.ready
        entries = Cat(
            Mux(k < arriving, Cat(self.data[k], self.last & (k == arriving - 1)), 0)
            for k in range(i_units)
        )
        remaining = Signal.like(held)
        m.d.comb += remaining.eq(Mux(pop, held - leaving, held))
        rest = Mux(pop, queue.as_value() >> leaving * 2, queue.as_value())
        m.d.sync += [
            queue.eq(rest | Mux(push, entries << remaining * 2, 0)),
            held.eq(remaining + Mux(push, arriving, 0)),
        ]

        complete = (held == o_units) | Cat(queue[k].end for k in range(capacity)).any()
        due = complete if i_units < o_units else held != 0
        problems = [
            o.valid != due,
            push & (remaining + arriving > capacity),
            pop & (leaving > held),
            o.valid & (leaving == 0),
            o.valid & (leaving != o_units) & ~o.p.last,
        ]
        for k in range(o_units):
            final = leaving == k + 1
            problems += [
                o.valid & (o.p.keep[k] != (k < leaving)),
                o.valid & (k < leaving) & (o.p.data[k] != queue[k].bit),
                o.valid & (k < leaving) & (queue[k].end != (final & o.p.last)),
            ]
        m.d.comb += self.bad.eq(Cat(*problems).any())
        return m


class UnwrappedFIFO(StreamFIFO):
    """Planted bug: pointers run past the last row."""

    def _next(self, row):
        return row + 1


class OverrunFIFO(StreamFIFO):
    """Planted bug: takes a beat while it is full."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        m.d.comb += self.i.ready.eq(self.level <= self.depth)
        return m


class UnbufferedSkid(SkidBuffer):
    """Planted bug: ready stays high while the spare register is taken."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        m.d.comb += self.i.ready.eq(1)
        return m


class HastyWidthAdapter(WidthAdapter):
    """Planted bug: takes the next wide beat before all parts of this one have left."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        m.d.comb += self.i.ready.eq(~self.o.valid | self.o.ready)
        return m


def fifo_harness(fifo):
    return QueueHarness(fifo, capacity=fifo.depth, latency=fifo.latency, level=fifo.level)


FIFOS = [(1, False), (1, True), (2, False), (2, True), (3, False), (3, True), (4, True), (5, False)]
WIDTHS = [(1, 3), (3, 1), (2, 4), (4, 2), (2, 2)]


@pytest.mark.parametrize("depth, memory", FIFOS)
def test_fifo_is_a_queue_of_exactly_its_depth(depth, memory, tmp_path):
    assert holds(fifo_harness(StreamFIFO(2, depth, memory=memory)), tmp_path)


@pytest.mark.parametrize(
    "fifo", [UnwrappedFIFO(2, 3), OverrunFIFO(2, 4), OverrunFIFO(2, 4, memory=True)]
)
def test_fifo_with_a_planted_bug_is_refuted(fifo, tmp_path):
    assert not holds(fifo_harness(fifo), tmp_path)


def test_fifo_claimed_to_be_faster_than_it_is_is_refuted(tmp_path):
    fifo = StreamFIFO(2, 3, memory=True)

    assert not holds(QueueHarness(fifo, capacity=3, latency=1), tmp_path)


def test_skid_buffer_is_a_queue_of_two(tmp_path):
    assert holds(QueueHarness(SkidBuffer(2), capacity=2, latency=1), tmp_path)


def test_skid_buffer_with_a_planted_bug_is_refuted(tmp_path):
    assert not holds(QueueHarness(UnbufferedSkid(2), capacity=2, latency=1), tmp_path)


@pytest.mark.parametrize("i_units, o_units", WIDTHS)
def test_width_adapter_keeps_every_unit_of_dense_packets(i_units, o_units, tmp_path):
    adapter = WidthAdapter(i_width=i_units, o_width=o_units, unit=1)

    assert holds(WidthHarness(adapter), tmp_path)


def test_width_adapter_with_a_planted_bug_is_refuted(tmp_path):
    adapter = HastyWidthAdapter(i_width=4, o_width=2, unit=1)

    assert not holds(WidthHarness(adapter), tmp_path)


@pytest.mark.parametrize("depth, memory", FIFOS)
def test_fifo_has_no_combinational_path_through_it(depth, memory, tmp_path):
    assert_moore(StreamFIFO(2, depth, memory=memory), tmp_path)


def test_skid_buffer_has_no_combinational_path_through_it(tmp_path):
    assert_moore(SkidBuffer(8), tmp_path)


def test_width_adapter_lets_only_ready_through(tmp_path):
    assert_moore(WidthAdapter(i_width=32, o_width=8), tmp_path, but="o:i_ready")
    with pytest.raises(YosysError, match="selection is not empty"):
        assert_moore(WidthAdapter(i_width=32, o_width=8), tmp_path)
