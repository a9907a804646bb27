# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""Proofs that packets cross the switch to each of their outputs once, and only with credit."""

import pytest
from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.switch.output_port import OutputPort
from hw.switch.send_buffer import SendBuffer
from hw.switch.sharing import Sharing
from tests.families import quick
from tests.hw.common.prover import assert_moore, ever, holds, nth

FLITS = 2
MOST_PASSED = 1
CYCLES = 10
"""From reset, under all inputs, where the unbounded proof takes too long."""


class ReplicationHarness(wiring.Component):
    """A buffer of one channel whose requests are granted at will; one packet at a time is marked,
    and one that comes after it.

    Packets are two flits or, at will, a header alone. With *kills* others than the marked ones are
    killed at will.

    `bad`: an output gets the marked packet that it is not for, or gets it twice, or not before the
    later one that is for it, too; the packet is in the buffer until all its outputs have it and no
    longer, and room comes back with its last flit; it does not leave although all outputs take what
    they are asked to; flits are not in order, or their number is not what was said when they were
    asked for.
    """

    def __init__(self, buffer, *, outputs, packets, kills=False, unicast=False):
        self.buffer = buffer
        self.kills, self.unicast = kills, unicast
        self.outputs = outputs
        self.patience = (FLITS + 2) * packets + 6
        super().__init__({"valid": In(1), "mark": In(1), "alone": In(1), "targets": In(outputs),
                          "available": In(outputs), "grant": In(outputs), "kill": In(1),
                          "lasting": In(1), "bad": Out(1),
                          "cover_third_packet_leaves_and_one_went_everywhere": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.buffer = buffer = self.buffer
        store = buffer.store
        inside = Signal()
        follow, later = Signal(), Signal()  # the marked packets that are in the buffer
        meant, got = Signal(self.outputs), Signal(self.outputs)
        marked, marked_later = Signal(), Signal()  # the packet that is being stored
        marks = self.mark & ~follow & ~later
        marks_later = self.mark & follow & ~later
        targets = Mux(self.targets == 0, 1, self.targets)
        if self.unicast:
            targets = targets & -targets
        m.d.comb += [
            store.valid.eq(self.valid & (inside | store.room[0])),
            store.first.eq(~inside),
            store.commit.eq(inside | self.alone),
            store.data.eq(Mux(inside, 0, Cat(marks, marks_later, self.alone))),
            store.targets.eq(targets >> 1 if self.unicast else targets),
            buffer.available[0].eq(self.available),
            buffer.grant.eq(buffer.request & self.grant),
        ]
        commit = store.valid & store.commit
        kill, discarded = Const(0), Const(0)
        if self.kills:
            kill, discarded = self.kill, buffer.discarded
            ours = Mux(inside, marked | marked_later, marks | marks_later)
            m.d.comb += [store.lasting.eq(self.lasting | ours), buffer.kill.eq(self.kill)]
        with m.If(store.valid):
            m.d.sync += inside.eq(~store.commit)
            with m.If(~inside):
                m.d.sync += [marked.eq(marks), marked_later.eq(marks_later)]

        reads, sends, hears = (Signal(self.outputs) for _ in range(3))
        second = Signal()
        with m.If(buffer.grant.any()):
            m.d.sync += reads.eq(buffer.grant)
        announced, read, short = Signal(), Signal(), Signal()
        m.d.sync += [
            sends.eq(reads), hears.eq(sends), announced.eq(buffer.length), read.eq(announced),
            short.eq(read),
        ]
        starts = buffer.valid & buffer.flit.first
        alone = buffer.flit.data[2]
        with m.If(buffer.valid):
            m.d.sync += second.eq(~second & ~alone)
        arrives, overtakes = starts & buffer.flit.data[0], starts & buffer.flit.data[1]
        within = Signal(2)  # which marked packet is being sent
        sent = Mux(starts, buffer.flit.data[:2], within)
        m.d.sync += within.eq(Mux(buffer.valid, sent, 0))
        reached = Signal(self.outputs)
        ends = buffer.valid & buffer.flit.last
        freed = buffer.freed[0]
        m.d.comb += reached.eq(got | Mux(arrives, hears, 0))
        m.d.sync += got.eq(reached)
        with m.If(commit & Mux(inside, marked, marks)):
            m.d.sync += [follow.eq(1), meant.eq(targets), got.eq(0)]
        with m.Elif(freed & ends & sent[0]):
            m.d.sync += follow.eq(0)
        with m.If(commit & Mux(inside, marked_later, marks_later)):
            m.d.sync += later.eq(1)
        with m.Elif(freed & ends & sent[1]):
            m.d.sync += later.eq(0)
        waited = Signal(range(self.patience + 1))
        with m.If(~follow | ~self.available.all() | ~self.grant.all() | kill):
            m.d.sync += waited.eq(0)
        with m.Elif(waited != self.patience):
            m.d.sync += waited.eq(waited + 1)
        m.d.comb += self.bad.eq(
            Cat(
                arrives & ~follow,
                arrives & ((hears & got) | (hears & ~meant)).any(),
                overtakes & follow & (hears & meant & ~got).any(),
                freed & ~ends & ~discarded,
                freed & ends & discarded,
                ends & sent[0] & (freed != (reached == meant)),
                follow & buffer.empty & ~(freed & ends),
                waited == self.patience,
                buffer.valid & (buffer.flit.first != ~second),
                buffer.valid & (buffer.flit.last != (second | alone)),
                starts & (short != alone),
            ).any()
        )
        m.d.comb += self.cover_third_packet_leaves_and_one_went_everywhere.eq(
            nth(m, freed, 3)
            & ever(m, freed & sent[0] & (meant.any() if self.unicast else meant.all()))
        )
        return m


class OneSlot(SendBuffer):
    """Planted bug: all packets lie in one slot."""

    def _row(self, slot):
        return Const(0, 8)


class Boundless(SendBuffer):
    """Planted bug: there is always room."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        m.d.comb += self.store.room.eq(~0)
        return m


class Leaky(SendBuffer):
    """Planted bug: room does not come back."""

    def _send(self, m, rows, reading, finishing, slot, row_of, gone):
        super()._send(m, rows, reading, [Const(0)] * len(finishing), slot, row_of, gone)


class Overtaking(SendBuffer):
    """Planted bug: of an output's packets the newest asks."""

    def _offer(self, m, line, asking, waits, available, name):
        chosen = Signal(len(asking))
        wanted = [each.rest & available for each in asking]
        for i, each in enumerate(wanted):
            with m.If(each.any()):
                m.d.comb += chosen.eq(1 << i)
        return chosen, Mux(chosen[-1], wanted[-1], wanted[0])  # of two


class Forgetful(SendBuffer):
    """Planted bug: a packet is forgotten when the first of its outputs has it."""

    def _advance(self, m, line, chosen, served, leaves, goes, *comes):
        super()._advance(m, line, chosen, served, leaves, served.any(), *comes)


class Gapped(SendBuffer):
    """Planted bug: whatever leaves, it is the oldest packet that is closed up to."""

    def _advance(self, m, line, chosen, served, leaves, *goes):
        super()._advance(m, line, chosen, served, Const(1, len(line.entries)), *goes)


class Hasty(SendBuffer):
    """Planted bug: packets that last are discarded like others."""

    def _judge(self, m, lines):
        for line in lines:
            for each in line.entries:
                each.lasting = Const(0)
        return super()._judge(m, lines)


class Restless(SendBuffer):
    """Planted bug: packets are discarded from places that others have."""

    def _judge(self, m, lines):
        return [Mux(each.any(), 1, 0) for each in super()._judge(m, lines)]


def replication(kind=SendBuffer, outputs=2, packets=2, passing=(0,), **how):
    """*how*: `kills`, `unicast` (of two outputs)."""
    buffer = kind(channels=1, outputs=outputs, packets=packets, flits=FLITS, passing=passing,
                  most_passed=MOST_PASSED, **how)
    return ReplicationHarness(buffer, outputs=outputs, packets=packets, **how)


@pytest.mark.parametrize("outputs, packets, passing", quick(1, [
    (2, 1, (0,)), (2, 1, ()), (2, 2, ()), (2, 2, (0,)), (3, 2, ()), (3, 2, (0,)),
]))
def test_every_output_gets_every_packet_once_and_in_order(outputs, packets, passing, tmp_path):
    buffer = replication(outputs=outputs, packets=packets, passing=passing)
    assert holds(buffer, tmp_path, twins=True)


@pytest.mark.full
@pytest.mark.parametrize("passing", [(), (0,)])
def test_so_it_does_where_every_packet_is_for_one_output(passing, tmp_path):
    assert holds(replication(passing=passing, unicast=True), tmp_path, twins=True)


@pytest.mark.parametrize("planted", [OneSlot, Boundless, Leaky, Gapped])
def test_a_planted_bug_of_the_unicast_buffer_is_refuted(planted, tmp_path):
    assert not holds(replication(planted, unicast=True), tmp_path, twins=True)


@pytest.mark.parametrize("passing", [(), (0,)])
def test_so_it_does_while_others_are_killed(passing, tmp_path):
    assert holds(replication(passing=passing, kills=True), tmp_path, twins=True, cycles=CYCLES)


@pytest.mark.parametrize("planted", [Hasty, Restless])
def test_a_planted_bug_of_what_is_killed_is_refuted(planted, tmp_path):
    assert not holds(replication(planted, kills=True), tmp_path, twins=True, cycles=CYCLES + 4)


def test_so_it_does_for_three_packets_in_the_first_cycles(tmp_path):
    assert holds(replication(packets=3), tmp_path, twins=True, cycles=CYCLES + 6)


@pytest.mark.parametrize(
    "planted", [OneSlot, Boundless, Leaky, Overtaking, Forgetful, Gapped]
)
def test_a_planted_bug_of_the_buffer_is_refuted(planted, tmp_path):
    assert not holds(replication(planted), tmp_path, twins=True)


class CreditHarness(wiring.Component):
    """An output with requests at will, and a receiver that gives back what it was given.

    `bad`: more packets of a class are out than there are credits, a packet starts before the one
    before has left, or two senders are granted.
    """

    def __init__(self, output, *, senders, classes, credits):
        self.output = output
        self.senders, self.classes, self.credits = senders, classes, credits
        super().__init__({"request": In(senders), "traffic": In(senders), "alone": In(senders),
                          "back": In(classes), "bad": Out(1),
                          "cover_packets_go_on_after_all_credits_were_out": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.output = output = self.output
        problems, emptied = [], []
        allowed = Signal(self.senders)
        for k in range(self.senders):
            m.d.comb += [
                output.traffic[k].eq(self.traffic[k]),
                allowed[k].eq(
                    self.request[k] & Mux(self.traffic[k], output.open[1], output.open[0])
                ),
            ]
        m.d.comb += output.request.eq(allowed)
        m.d.comb += [output.length[k].eq(self.alone[k]) for k in range(self.senders)]
        busy = Signal(range(FLITS))
        with m.If(output.grant.any()):
            m.d.sync += busy.eq(Mux((output.grant & self.alone).any(), 0, FLITS - 1))
        with m.Elif(busy != 0):
            m.d.sync += busy.eq(busy - 1)
        problems += [
            output.grant.any() & (busy != 0),
            (output.grant & (output.grant - 1)) != 0,
            (output.grant & ~output.request) != 0,
        ]
        for number in range(self.classes):
            out = Signal(range(self.credits + 3), name=f"out_{number}")
            starts = Cat(
                output.grant[k] & (self.traffic[k] == number) for k in range(self.senders)
            ).any()
            returns = Signal(name=f"returns_{number}")
            m.d.comb += [
                returns.eq(self.back[number] & (out != 0)),
                output.credit[number].eq(returns),
            ]
            m.d.sync += out.eq(out + starts - returns)
            problems.append(out > self.credits)
            emptied.append(out == self.credits)
        m.d.comb += self.bad.eq(Cat(*problems).any())
        m.d.comb += self.cover_packets_go_on_after_all_credits_were_out.eq(
            ever(m, Cat(emptied).all())
            & nth(m, output.grant.any(), 2 * self.credits * self.classes)
        )
        return m


def credit(credits, *, real=None):
    output = OutputPort(senders=2, classes=2, credits=real or credits, flits=FLITS)
    return CreditHarness(output, senders=2, classes=2, credits=credits)


@pytest.mark.parametrize("credits", [1, 2, 3])
def test_an_output_sends_only_with_credit_and_one_packet_at_a_time(credits, tmp_path):
    assert holds(credit(credits), tmp_path)


def test_an_output_with_a_credit_too_many_is_refuted(tmp_path):
    assert not holds(credit(1, real=2), tmp_path)


def test_flits_of_an_output_come_from_registers(tmp_path):
    output = OutputPort(senders=2, classes=2, credits=1, flits=FLITS)
    assert_moore(output, tmp_path, but="o:grant")


class SharingHarness(wiring.Component):
    """Users that begin at will when they offer and are not held, and are busy for a while.

    `bad`: two are at it, or the first is held although another has begun twice since; four times,
    if what begins is known a cycle *late*.
    """

    def __init__(self, sharing, users=2, late=False):
        self.sharing, self.users, self.late = sharing, users, late
        super().__init__(
            {"offers": In(users), "begins": In(users), "short": In(users), "bad": Out(1),
             "cover_each_begins_twice_while_all_offer": Out(1)}
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.sharing = sharing = self.sharing
        users = range(self.users)
        left = [Signal(range(FLITS + 1), name=f"left_{k}") for k in users]
        begins = Signal(self.users)
        passed = [Signal(3, name=f"passed_{k}") for k in users[1:]]  # begun while the first offered
        for k in users:
            free = left[k] == 0
            m.d.comb += [
                sharing.offers[k].eq(self.offers[k] & free),
                sharing.busy[k].eq(~free),
                begins[k].eq(sharing.offers[k] & self.begins[k] & ~sharing.hold[k]),
            ]
            with m.If(begins[k]):
                m.d.sync += left[k].eq(Mux(self.short[k], 0, FLITS))
            with m.Elif(~free):
                m.d.sync += left[k].eq(left[k] - 1)
        m.d["sync" if self.late else "comb"] += sharing.begins.eq(begins)
        for k, count in enumerate(passed, 1):
            with m.If(~self.offers[0] | begins[0]):
                m.d.sync += count.eq(0)
            with m.Elif(begins[k] & (count != 7)):
                m.d.sync += count.eq(count + 1)
        at_it = Cat(begins[k] | (left[k] != 0) for k in users)
        several = (at_it & (at_it - 1)).any()
        most = 3 if self.late else 1
        m.d.comb += self.bad.eq(several | Cat(count > most for count in passed).any())
        m.d.comb += self.cover_each_begins_twice_while_all_offer.eq(
            Cat(ever(m, nth(m, begins[k] & sharing.offers.all(), 2)) for k in users).all()
        )
        return m


class Greedy(Sharing):
    """Planted bug: the second always goes first."""

    def elaborate(self, platform):
        m = Module()
        m.d.comb += [
            self.hold[0].eq(self.busy[1] | self.offers[1]), self.hold[1].eq(self.busy[0])
        ]
        return m


class Rude(Sharing):
    """Planted bug: nobody waits for who is at it."""

    def elaborate(self, platform):
        m = Module()
        m.d.comb += [self.hold[0].eq(self.offers[1]), self.hold[1].eq(0)]
        return m


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("users", [2, 3])
def test_those_that_share_take_turns(users, late, tmp_path):
    assert holds(SharingHarness(Sharing(users=users), users, late), tmp_path)


@pytest.mark.parametrize("planted", [Greedy, Rude])
def test_a_planted_bug_of_sharing_is_refuted(planted, tmp_path):
    assert not holds(SharingHarness(planted()), tmp_path)
