# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""Proofs: reception drops whole frames, transmission obeys credits, flows round a ring never stop.

The first two are unbounded, about the hardware; the third is about the rules that it follows.
"""

import random
from itertools import product

import pytest
from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.common.testing import simulate
from hw.smartnic import transmit
from hw.smartnic.config import SmartNicConfig
from hw.smartnic.layouts import FrameKind, HeaderLayout
from hw.smartnic.receive import ReceiveBuffer
from hw.smartnic.transmit import FrameBuilder, Transmit
from tests.hw.common.prover import ever, holds, nth

PATIENCE = 4


class BufferHarness(wiring.Component):
    """Any writer, any reader. `bad` when

    a beat is shown that was not committed, or not the next one, or committed beats are not shown,
    or `full` is wrong.
    """

    def __init__(self, buffer, *, depth):
        self.buffer = buffer
        self.depth = depth
        inputs = {name: In(1) for name in ("bit", "write", "commit", "drop", "ready")}
        super().__init__({**inputs, "bad": Out(1),
                          "cover_more_leave_than_it_holds_after_a_frame_was_dropped": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.buffer = buffer = self.buffer
        depth = self.depth
        rows = Signal(data.ArrayLayout(unsigned(1), depth + 1))
        total = Signal(range(depth + 2))
        good = Signal(range(depth + 2))
        waited = Signal(range(PATIENCE + 1))
        m.d.comb += [
            buffer.beat.eq(self.bit),
            buffer.write.eq(self.write),
            buffer.commit.eq(self.commit),
            buffer.drop.eq(self.drop),
            buffer.o.ready.eq(self.ready),
        ]
        pop = buffer.o.valid & self.ready
        wrote = self.write & (total != depth)
        kept = Signal(range(depth + 2))
        grown = Signal(range(depth + 2))
        m.d.comb += [kept.eq(total - pop), grown.eq(kept + wrote)]
        with m.If(pop):
            m.d.sync += rows.eq(rows.as_value() >> 1)
        with m.If(wrote):
            m.d.sync += rows[kept].eq(self.bit)
        m.d.sync += [total.eq(grown), good.eq(good - pop)]
        with m.If(self.commit):
            m.d.sync += good.eq(grown)
        with m.Elif(self.drop):
            m.d.sync += total.eq(good - pop)
        with m.If((good == 0) | buffer.o.valid):
            m.d.sync += waited.eq(0)
        with m.Elif(waited != PATIENCE):
            m.d.sync += waited.eq(waited + 1)
        m.d.comb += self.bad.eq(
            (buffer.o.valid & ((good == 0) | (buffer.o.payload != rows[0])))
            | (buffer.full != (total == depth))
            | (waited == PATIENCE)
        )
        m.d.comb += self.cover_more_leave_than_it_holds_after_a_frame_was_dropped.eq(
            ever(m, self.drop & ~self.commit & (total != good)) & nth(m, pop, depth + 2)
        )
        return m


class ForgetfulBuffer(ReceiveBuffer):
    """Planted bug: a dropped frame keeps its place."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        with m.If(self.drop):
            m.d.sync += self.late.eq(~self.late)
        with m.If(self.late):
            m.d.comb += self.full.eq(1)
        return m

    def __init__(self, shape, depth):
        super().__init__(shape, depth)
        self.late = Signal()


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_only_committed_frames_leave_the_receive_buffer_each_once_and_in_order(depth, tmp_path):
    assert holds(BufferHarness(ReceiveBuffer(unsigned(1), depth), depth=depth), tmp_path)


def test_planted_bug_of_the_receive_buffer_is_refuted(tmp_path):
    assert not holds(BufferHarness(ForgetfulBuffer(unsigned(1), 2), depth=2), tmp_path)


SMALL = SmartNicConfig(
    bus_bytes=64,
    block_beats=2,
    frame_beats=2,
    compressed_frame_beats=1,
    receive_beats=5,
    credit_beats=1,
    ethernet=False,
    codec="none",
)


class CreditHarness(wiring.Component):
    """Any of *flows*, any network, any receiver that frees no more than it has got. `bad` when

    more beats of a flow are on the way or in the receiver's buffer than that holds; when a frame
    has not as many beats as its header says; or when a beat changes while it is stalled.
    """

    def __init__(self, dut, *, room, flows=(0, 1)):
        self.dut = dut
        self.room = room
        self.flows = flows
        inputs = {name: In(2) for name in ("valid", "last", "free")}
        super().__init__({**inputs, "ready": In(1), "bad": Out(1),
                          "cover_third_frame_leaves_after_the_room_was_used": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.dut = dut = self.dut
        net = dut.net
        header = data.View(HeaderLayout, net.p.data[: HeaderLayout.as_shape().size])
        left = Signal(range(SMALL.frame_beats + 1))
        away = [Signal(range(SMALL.receive_beats + 4), name=f"away_{f}") for f in range(2)]
        moved = net.valid & self.ready
        start = moved & (left == 0)
        beats = Signal(range(8))
        m.d.comb += [net.ready.eq(self.ready), beats.eq(header.payload_bytes >> 6)]
        problems = []
        for f, port in enumerate((dut.reduce, dut.gather)):
            m.d.comb += [
                port.valid.eq(self.valid[f] if f in self.flows else 0),
                port.p.last.eq(self.last[f]),
            ]
            mine = start & (header.kind.as_value() == (FrameKind.REDUCE, FrameKind.GATHER)[f].value)
            freed = self.free[f] & (away[f] != 0)
            m.d.sync += [
                away[f].eq(away[f] + Mux(mine, beats, 0) - freed),
                dut.peer_freed[f].eq(dut.peer_freed[f] + freed),
            ]
            problems.append(away[f] > self.room)
        with m.If(start):
            m.d.sync += left.eq(beats)
        with m.Elif(moved):
            m.d.sync += left.eq(left - 1)
        stalled = Signal()
        before = Signal(len(header.kind.as_value()) + 1)
        now = Cat(header.kind.as_value(), net.p.last)
        m.d.sync += [stalled.eq(net.valid & ~self.ready), before.eq(now)]
        problems += [
            moved & (net.p.last != Mux(left == 0, beats == 0, left == 1)),
            stalled & (~net.valid | (before != now)),
        ]
        m.d.comb += self.bad.eq(Cat(*problems).any())
        m.d.comb += self.cover_third_frame_leaves_after_the_room_was_used.eq(
            ever(m, Cat(each == self.room for each in away).any()) & nth(m, start, 3)
        )
        return m


@pytest.fixture
def short_counts(monkeypatch):
    """Running counts of 4 bits: differences stay below 8, so they are as good as 16."""
    monkeypatch.setattr(transmit, "COUNT_BITS", 4)
    monkeypatch.setattr(transmit, "SEQUENCE_BITS", 1)


@pytest.mark.full
@pytest.mark.parametrize("flow", [0, 1])
def test_transmission_never_sends_more_than_the_next_node_has_room_for(
    flow, short_counts, tmp_path
):
    # The flows share only the choice, so each is proved with the other at rest.
    harness = CreditHarness(Transmit(SMALL), room=SMALL.receive_beats, flows=(flow,))
    assert holds(harness, tmp_path, timeout=600)


class FrameHarness(wiring.Component):
    """Any beats come; frames are taken, and their beats, as anybody likes.

    `bad`: a beat of a frame that was taken is not there.
    """

    def __init__(self, builder):
        self.builder = builder
        super().__init__({**{name: In(1) for name in ("comes", "last", "take", "pop")},
                          "bad": Out(1), "cover_five_beats_leave_with_one_frame_of_two": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.builder = builder = self.builder
        owed = Signal(range(64))
        taken, pops = Signal(), Signal()
        m.d.comb += [
            builder.i.valid.eq(self.comes),
            builder.i.p.last.eq(self.last),
            builder.frame.ready.eq(self.take & (owed < 32)),
            taken.eq(builder.frame.valid & builder.frame.ready),
            builder.o.ready.eq(self.pop & (owed != 0)),
            pops.eq(builder.o.valid & builder.o.ready),
            self.bad.eq((owed != 0) & ~builder.o.valid),
            self.cover_five_beats_leave_with_one_frame_of_two.eq(
                nth(m, pops, 5) & ever(m, taken & (builder.frame.p.beats == 2))
            ),
        ]
        m.d.sync += owed.eq(owed + Mux(taken, builder.frame.p.beats, 0) - pops)
        return m


@pytest.mark.full
def test_the_beats_of_a_complete_frame_come_without_a_gap(tmp_path):
    assert holds(FrameHarness(FrameBuilder(SMALL)), tmp_path, twins=True, cycles=14)


def test_a_frame_that_is_offered_too_soon_is_refuted(tmp_path):
    class Hasty(FrameBuilder):
        """Planted bug: with its first beat a frame is said to be whole."""

        def elaborate(self, platform):
            m = super().elaborate(platform)
            m.d.comb += self.frame.p.beats.eq(2)
            return m

    assert not holds(FrameHarness(Hasty(SMALL)), tmp_path, twins=True, cycles=14)


@pytest.mark.parametrize("less", [0, 1])
def test_at_random_the_room_is_used_to_the_last_beat_and_no_further(less):
    harness = CreditHarness(Transmit(SMALL), room=SMALL.receive_beats - less)
    rng = random.Random(1)
    seen = []

    async def run(ctx):
        for _ in range(1500):
            for name in ("valid", "last", "free"):
                ctx.set(getattr(harness, name), rng.getrandbits(2))
            ctx.set(harness.free, rng.getrandbits(2) & rng.getrandbits(2) & rng.getrandbits(2))
            ctx.set(harness.ready, rng.random() < 0.8)
            await ctx.tick()
            seen.append(ctx.get(harness.bad))

    simulate(harness, run)

    assert any(seen) == (less == 1)


class Flows:
    """A ring in which every step, once it may be taken, may be taken until it is.

    So all schedules end in the same state, and one run decides for all whether the ring can stand
    still. Beats of both flows, frames, credits told as late as allowed, the FIFO of complete
    blocks; host memory always takes and gives in the end, and does not appear.
    """

    def __init__(self, nodes, *, block, frame, room, late, rounds, result=None):
        self.nodes, self.block, self.frame, self.room, self.late = nodes, block, frame, room, late
        self.total = rounds * nodes * block  # beats of each flow at each node
        self.result = block if result is None else result
        self.moved = [[0, 0] for _ in range(nodes)]  # beats through each path
        self.sent = [[0, 0] for _ in range(nodes)]  # in frames that have left

    def place(self, node, flow):
        """Block within the round that the next beat belongs to."""
        return self.moved[node][flow] // self.block % self.nodes

    def produced(self, node, flow):
        """Beats for the next node among those that have passed: all but the last of each round."""
        whole, part = divmod(self.moved[node][flow], self.block * self.nodes)
        return whole * self.block * (self.nodes - 1) + min(part, self.block * (self.nodes - 1))

    def consumed(self, node, flow):
        """Received beats among those that have passed: all but the first block of each round."""
        whole, part = divmod(self.moved[node][flow], self.block * self.nodes)
        return whole * self.block * (self.nodes - 1) + max(0, part - self.block)

    def completed(self, node):
        whole, part = divmod(self.moved[node][0], self.block * self.nodes)
        return whole * self.block + max(0, part - self.block * (self.nodes - 1))

    def fetched(self, node):
        whole, part = divmod(self.moved[node][1], self.block * self.nodes)
        return whole * self.block + min(part, self.block)

    def step(self, node, flow):
        """Move a beat along a path, and send a frame, if either is possible."""
        acted = False
        if self.moved[node][flow] < self.total:
            place = self.place(node, flow)
            own, last = place == 0, place == self.nodes - 1
            before = (node - 1) % self.nodes
            there = own or self.sent[before][flow] > self.consumed(node, flow)
            if flow == 1 and own:
                there = self.completed(node) > self.fetched(node)
            queue = self.produced(node, flow) - self.sent[node][flow]
            fits = last or queue < 2 * self.frame
            if flow == 0 and last:
                fits = self.completed(node) - self.fetched(node) < self.result
            if there and fits:
                self.moved[node][flow] += 1
                acted = True
        queue = self.produced(node, flow) - self.sent[node][flow]
        whole = queue if self.produced(node, flow) % self.block == 0 else 0
        length = self.frame if queue >= self.frame else whole
        length = min(length, self.block - self.sent[node][flow] % self.block)
        if 0 < length <= queue:
            following = (node + 1) % self.nodes
            told = max(0, self.consumed(following, flow) - self.late)
            if self.sent[node][flow] + length - told <= self.room:
                self.sent[node][flow] += length
                acted = True
        return acted

    def ends(self):
        """Whether everything gets through."""
        pairs = list(product(range(self.nodes), range(2)))
        while sum(self.step(node, flow) for node, flow in pairs):
            pass
        return all(moved == self.total for pair in self.moved for moved in pair)


@pytest.mark.parametrize("nodes", range(2, 9))
def test_ring_never_stands_still_with_room_for_a_block_a_frame_and_a_credit_interval(nodes):
    for block, frame, credit in product((1, 2, 4, 8), (1, 2, 4), (1, 2, 5)):
        if frame <= block:
            room = block + frame + credit
            flows = Flows(nodes, block=block, frame=frame, room=room, late=credit - 1, rounds=3)
            assert flows.ends(), (block, frame, credit)


@pytest.mark.parametrize("nodes", [3, 5])
def test_ring_without_room_for_more_than_a_block_stands_still(nodes):
    # Two frames more have a place in the transmit queue.
    assert not Flows(nodes, block=8, frame=1, room=6, late=0, rounds=2).ends()
    assert Flows(nodes, block=8, frame=1, room=7, late=0, rounds=2).ends()
    assert not Flows(nodes, block=8, frame=1, room=9, late=3, rounds=2).ends()
