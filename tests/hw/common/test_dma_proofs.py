# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""Unbounded proofs that the AXI4 engines keep their promises to any memory that keeps AXI's."""

import pytest
from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.common.axi_read import AXI4Reader
from hw.common.axi_write import AXI4Writer
from tests.hw.common.prover import holds, nth

SMALL = {"addr_width": 13, "data_width": 16, "max_burst": 2, "beats_width": 2}
PATIENCE = 4


class Ideal:
    """A queue inside a harness, deeper than it ever needs to be; `bad` if it is not."""

    def __init__(self, m, width, depth, name):
        self._m = m
        self._width = width
        self._depth = depth
        self._rows = Signal(data.ArrayLayout(unsigned(width), depth), name=f"{name}_rows")
        self.held = Signal(range(depth + 1), name=f"{name}_held")
        self.first = Signal(width, name=f"{name}_first")
        self.problems = []
        m.d.comb += self.first.eq(self._rows[0])

    def drive(self, *, push, entry, pop):
        m = self._m
        rest = Signal.like(self.held, name=f"{self.held.name}_rest")
        m.d.comb += rest.eq(self.held - pop)
        m.d.sync += self.held.eq(rest + push)
        with m.If(pop):
            m.d.sync += self._rows.eq(self._rows.as_value() >> self._width)
        with m.If(push):
            m.d.sync += self._rows[rest].eq(entry)
        self.problems += [pop & (self.held == 0), push & ~pop & (self.held == self._depth)]


def changed_while_stalled(m, valid, ready, payload, name):
    """High when a beat that was not taken falls or changes."""
    stalled = Signal(name=f"{name}_stalled")
    before = Signal(len(payload), name=f"{name}_before")
    m.d.sync += [stalled.eq(valid & ~ready), before.eq(payload)]
    return stalled & (~valid | (payload != before))


def lasts_for_ever(m, condition):
    """High when *condition* has been true for `PATIENCE` cycles."""
    cycles = Signal(range(PATIENCE + 1))
    with m.If(~condition):
        m.d.sync += cycles.eq(0)
    with m.Elif(cycles < PATIENCE):
        m.d.sync += cycles.eq(cycles + 1)
    return cycles == PATIENCE


class ReaderHarness(wiring.Component):
    """Any memory, any user. `bad` when

    an address changes while it waits, more than *outstanding* bursts are under way, a beat is lost,
    changed or marked wrongly, or nothing happens though a command is not complete.
    """

    def __init__(self, engine, *, outstanding):
        self.engine = engine
        self.outstanding = outstanding
        super().__init__(
            {
                "address": In(13),
                "beats": In(2),
                "command": In(1),
                "ready": In(1),
                "arready": In(1),
                "offer": In(1),
                "word": In(1),
                "refuse": In(1),
                "bad": Out(1),
                "cover_third_command_is_delivered": Out(1),
                "cover_refused_beat_is_delivered": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.engine = engine = self.engine
        cmd, beats, bus = engine.cmd, engine.data, engine.bus
        commands = Ideal(m, 2, self.outstanding + 4, "commands")
        bursts = Ideal(m, 1, self.outstanding + 1, "bursts")
        words = Ideal(m, 2, 3, "words")
        received = Signal(1)  # beats of the first burst
        delivered = Signal(2)  # beats of the first command
        final = delivered + 1 == commands.first
        m.d.comb += [
            cmd.valid.eq(self.command),
            cmd.p.address.eq(self.address),
            cmd.p.beats.eq(self.beats),
            beats.ready.eq(self.ready),
            bus.arready.eq(self.arready),
            bus.rvalid.eq(self.offer & (bursts.held != 0)),
            bus.rlast.eq(received == bursts.first),
            bus.rdata.eq(self.word),
            bus.rresp.eq(Cat(0, self.refuse)),
        ]
        taken = bus.rvalid & bus.rready
        moved = beats.valid & beats.ready
        commands.drive(
            push=cmd.valid & cmd.ready & (self.beats != 0), entry=self.beats, pop=moved & final
        )
        bursts.drive(push=bus.arvalid & bus.arready, entry=bus.arlen, pop=taken & bus.rlast)
        words.drive(push=taken, entry=Cat(self.word, self.refuse), pop=moved)
        with m.If(taken):
            m.d.sync += received.eq(Mux(bus.rlast, 0, received + 1))
        with m.If(moved):
            m.d.sync += delivered.eq(Mux(final, 0, delivered + 1))
        m.d.comb += self.bad.eq(
            Cat(
                *commands.problems,
                *bursts.problems,
                *words.problems,
                changed_while_stalled(
                    m, bus.arvalid, bus.arready, Cat(bus.araddr, bus.arlen), "ar"
                ),
                bursts.held + bus.arvalid > self.outstanding,
                beats.valid & (Cat(beats.p.data[0], beats.p.error) != words.first),
                beats.valid & (beats.p.last != final),
                lasts_for_ever(
                    m, (commands.held != 0) & ~bus.arvalid & (bursts.held == 0) & ~beats.valid
                ),
            ).any()
        )
        m.d.comb += [
            self.cover_third_command_is_delivered.eq(nth(m, moved & final, 3)),
            self.cover_refused_beat_is_delivered.eq(moved & beats.p.error),
        ]
        return m


class WriterHarness(wiring.Component):
    """Any memory, any user. `bad` when

    an address or a beat changes while it waits, more than *outstanding* bursts are under way, a
    beat is lost, changed, ends a burst or is enabled wrongly, `done` comes at the wrong time or
    with the wrong outcome, or nothing happens though there is data for an incomplete command.
    """

    def __init__(self, engine, *, outstanding):
        self.engine = engine
        self.outstanding = outstanding
        super().__init__(
            {
                "address": In(13),
                "beats": In(2),
                "strobe": In(2),
                "command": In(1),
                "word": In(1),
                "valid": In(1),
                "ready": In(1),
                "awready": In(1),
                "wready": In(1),
                "answer": In(1),
                "refuse": In(1),
                "bad": Out(1),
                "cover_third_command_is_done": Out(1),
                "cover_refused_command_is_done": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.engine = engine = self.engine
        cmd, words, done, bus = engine.cmd, engine.data, engine.done, engine.bus
        most = self.outstanding + 3
        unsent = Ideal(m, 4, most, "unsent")  # commands whose data is not all sent
        unanswered = Ideal(m, 2, most, "unanswered")
        outcomes = Ideal(m, 1, 3, "outcomes")
        unsent_bursts = Ideal(m, 1, most, "unsent_bursts")
        unanswered_bursts = Ideal(m, 1, most, "unanswered_bursts")
        passing = Ideal(m, 1, 3, "passing")
        addressed = Signal(range(most + 1))  # bursts whose address is accepted
        complete = Signal(range(most + 1))  # bursts whose data is accepted
        in_burst = Signal(1)
        in_command = Signal(2)
        acknowledged = Signal(2)
        failed = Signal()
        waited = Signal()
        may_answer = (addressed != 0) & (complete != 0)
        m.d.comb += [
            cmd.valid.eq(self.command),
            cmd.p.address.eq(self.address),
            cmd.p.beats.eq(self.beats),
            cmd.p.last_strobe.eq(self.strobe),
            words.valid.eq(self.valid),
            words.payload.eq(self.word),
            done.ready.eq(self.ready),
            bus.awready.eq(self.awready),
            bus.wready.eq(self.wready),
            bus.bvalid.eq(self.answer & may_answer),
            bus.bresp.eq(Cat(0, self.refuse)),
        ]
        shown = bus.awvalid & ~waited  # the first cycle of an address
        sent = bus.wvalid & bus.wready
        answered = bus.bvalid & bus.bready
        m.d.sync += waited.eq(bus.awvalid & ~bus.awready)

        command = cmd.valid & cmd.ready & (self.beats != 0)
        last_beat = in_command + 1 == unsent.first[:2]
        after_answer = Signal(3)
        m.d.comb += after_answer.eq(acknowledged + unanswered_bursts.first + 1)
        last_answer = after_answer == unanswered.first
        error = failed | self.refuse
        unsent.drive(push=command, entry=Cat(self.beats, self.strobe), pop=sent & last_beat)
        unanswered.drive(push=command, entry=self.beats, pop=answered & last_answer)
        outcomes.drive(push=answered & last_answer, entry=error, pop=done.valid & done.ready)
        unsent_bursts.drive(push=shown, entry=bus.awlen, pop=sent & bus.wlast)
        unanswered_bursts.drive(push=shown, entry=bus.awlen, pop=answered)
        passing.drive(push=words.valid & words.ready, entry=self.word, pop=sent)
        m.d.sync += [
            addressed.eq(addressed + (bus.awvalid & bus.awready) - answered),
            complete.eq(complete + (sent & bus.wlast) - answered),
        ]
        with m.If(sent):
            m.d.sync += [
                in_burst.eq(Mux(bus.wlast, 0, in_burst + 1)),
                in_command.eq(Mux(last_beat, 0, in_command + 1)),
            ]
        with m.If(answered):
            m.d.sync += [
                acknowledged.eq(Mux(last_answer, 0, after_answer)),
                failed.eq(error & ~last_answer),
            ]
        queues = [unsent, unanswered, outcomes, unsent_bursts, unanswered_bursts, passing]
        idle = ~bus.awvalid & ~bus.wvalid & ~may_answer & ~done.valid
        beat = Cat(bus.wdata, bus.wstrb, bus.wlast)
        m.d.comb += self.bad.eq(
            Cat(
                *(problem for queue in queues for problem in queue.problems),
                changed_while_stalled(
                    m, bus.awvalid, bus.awready, Cat(bus.awaddr, bus.awlen), "aw"
                ),
                changed_while_stalled(m, bus.wvalid, bus.wready, beat, "w"),
                unanswered_bursts.held + shown > self.outstanding,
                bus.wvalid & (bus.wdata != passing.first),
                bus.wvalid & (bus.wlast != (in_burst == unsent_bursts.first)),
                bus.wvalid & (bus.wstrb != Mux(last_beat, unsent.first[2:], 0b11)),
                done.valid & ((outcomes.held == 0) | (done.p.error != outcomes.first)),
                lasts_for_ever(m, (unanswered.held != 0) & idle & self.valid),
            ).any()
        )
        m.d.comb += [
            self.cover_third_command_is_done.eq(nth(m, done.valid & done.ready, 3)),
            self.cover_refused_command_is_done.eq(done.valid & done.ready & done.p.error),
        ]
        return m


class DeafReader(AXI4Reader):
    """Planted bug: takes data without having room for it."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        m.d.comb += self.bus.rready.eq(1)
        return m


class StuckWriter(AXI4Writer):
    """Planted bug: never takes data."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        m.d.comb += self.data.ready.eq(0)
        return m


class CarelessWriter(AXI4Writer):
    """Planted bug: enables all bytes of every beat."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        m.d.comb += self.bus.wstrb.eq(-1)
        return m


ENGINES = [(AXI4Reader, ReaderHarness), (AXI4Writer, WriterHarness)]


@pytest.mark.parametrize("outstanding", [1, pytest.param(2, marks=pytest.mark.full)])
@pytest.mark.parametrize("engine, harness", ENGINES)
def test_engine_keeps_its_promises_to_any_memory(engine, harness, outstanding, tmp_path):
    dut = engine(**SMALL, outstanding=outstanding)

    assert holds(harness(dut, outstanding=outstanding), tmp_path)


@pytest.mark.parametrize("engine, harness", ENGINES)
def test_more_bursts_than_claimed_are_refuted(engine, harness, tmp_path):
    assert not holds(harness(engine(**SMALL, outstanding=2), outstanding=1), tmp_path)


@pytest.mark.parametrize(
    "planted, harness",
    [(DeafReader, ReaderHarness), (StuckWriter, WriterHarness), (CarelessWriter, WriterHarness)],
)
def test_planted_bug_is_refuted(planted, harness, tmp_path):
    assert not holds(harness(planted(**SMALL, outstanding=1), outstanding=1), tmp_path)
