# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""Unbounded proofs that the stream blocks lose, double and reorder nothing, and never hang."""

import pytest
from amaranth.hdl import Cat, Module, Signal, Value, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from gen.yosys import YosysError
from hw.common.fifo import StreamFIFO, room_for
from hw.common.skid import SkidBuffer
from tests.hw.common.prover import assert_moore, ever, holds, nth


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
                "bad": Out(1), "cover_more_leave_than_it_holds_after_it_was_full": Out(1),
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
            Value.cast(block.i.payload).eq(self.data),
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
            block.o.valid & (Value.cast(block.o.payload) != queue[0]),
            push & (held == self.capacity),
            ~block.i.ready & (held < self.capacity),
            silent >= self.latency,
        ]
        if self.level is not None:
            problems.append(self.level != held)
        m.d.comb += self.bad.eq(Cat(*problems).any())
        m.d.comb += self.cover_more_leave_than_it_holds_after_it_was_full.eq(
            ever(m, held == self.capacity) & nth(m, pop, self.capacity + 2)
        )
        return m


class UnwrappedFIFO(StreamFIFO):
    """Planted bug: pointers run past the last row."""

    def _next(self, row, depth):
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


class OpenSkid(SkidBuffer):
    """Planted bug: ready passes through."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        m.d.comb += self.i.ready.eq(self.o.ready)
        return m


def fifo_harness(fifo):
    return QueueHarness(fifo, capacity=fifo.depth, latency=fifo.latency, level=fifo.level)


LATE_AND_EARLY = data.StructLayout({"late": 1, "early": 1})
FIFOS = [(1, False), (1, True), (2, False), (2, True), (3, False), (3, True), (4, True), (5, False)]


@pytest.mark.parametrize("depth, memory", FIFOS)
def test_fifo_is_a_queue_of_exactly_its_depth(depth, memory, tmp_path):
    assert holds(fifo_harness(StreamFIFO(2, depth, memory=memory)), tmp_path)


@pytest.mark.parametrize("depth", [3, 4, 5])
def test_so_is_a_fifo_whose_beats_are_kept_at_once(depth, tmp_path):
    assert holds(fifo_harness(StreamFIFO(2, depth, memory=False, kept=True)), tmp_path)


@pytest.mark.parametrize("kept", ["late", "early"])
@pytest.mark.parametrize("depth", [2, 3, 5])
def test_so_is_one_that_keeps_a_field(depth, kept, tmp_path):
    fifo = StreamFIFO(LATE_AND_EARLY, depth, memory=False, kept=(kept,))
    assert holds(fifo_harness(fifo), tmp_path)


@pytest.mark.parametrize(
    "fifo",
    [UnwrappedFIFO(2, 3), UnwrappedFIFO(2, 3, kept=True), OverrunFIFO(2, 4),
     OverrunFIFO(2, 4, memory=True), OverrunFIFO(2, 4, kept=True),
     OverrunFIFO(LATE_AND_EARLY, 4, kept=("late",))],
)
def test_fifo_with_a_planted_bug_is_refuted(fifo, tmp_path):
    assert not holds(fifo_harness(fifo), tmp_path)


def test_fifo_claimed_to_be_faster_than_it_is_is_refuted(tmp_path):
    fifo = StreamFIFO(2, 3, memory=True)

    assert not holds(QueueHarness(fifo, capacity=3, latency=1), tmp_path)


class RoomHarness(wiring.Component):
    """`bad`: what says that a FIFO has room for some beats is not what its level says."""

    def __init__(self, fifo, beats, *, off=0):
        self.fifo, self.beats, self.off = fifo, beats, off
        super().__init__({"data": In(1), "valid": In(1), "ready": In(1), "bad": Out(1),
                          "cover_room_comes_back": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.fifo = fifo = self.fifo
        room = room_for(m, fifo, self.beats, name="room")
        m.d.comb += [
            fifo.i.valid.eq(self.valid),
            fifo.i.payload.eq(self.data),
            fifo.o.ready.eq(self.ready),
            self.bad.eq(room != (fifo.level <= fifo.depth - self.beats - self.off)),
            self.cover_room_comes_back.eq(ever(m, ~room) & room),
        ]
        return m


@pytest.mark.parametrize("depth, beats", [(5, 2), (3, 2), (3, 1), (4, 3)])
def test_room_for_some_beats_is_what_the_level_says(depth, beats, tmp_path):
    assert holds(RoomHarness(StreamFIFO(1, depth, memory=False), beats), tmp_path)


def test_room_for_one_beat_more_is_refuted(tmp_path):
    assert not holds(RoomHarness(StreamFIFO(1, 5, memory=False), 2, off=1), tmp_path)


def test_skid_buffer_is_a_queue_of_two(tmp_path):
    assert holds(QueueHarness(SkidBuffer(2), capacity=2, latency=1), tmp_path)


def test_skid_buffer_with_a_planted_bug_is_refuted(tmp_path):
    assert not holds(QueueHarness(UnbufferedSkid(2), capacity=2, latency=1), tmp_path)


@pytest.mark.parametrize("depth, memory", FIFOS)
def test_fifo_has_no_combinational_path_through_it(depth, memory, tmp_path):
    assert_moore(StreamFIFO(2, depth, memory=memory), tmp_path)


def test_skid_buffer_has_no_combinational_path_through_it(tmp_path):
    assert_moore(SkidBuffer(8), tmp_path)


def test_a_combinational_path_is_found(tmp_path):
    with pytest.raises(YosysError, match="selection is not empty"):
        assert_moore(OpenSkid(8), tmp_path)
