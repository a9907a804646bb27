# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""Proofs that credits counted anew are as many as there is room, whatever was lost before."""

import pytest
from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.switch.packet import Kind
from hw.switch.recount import Recount, Refunds, give_credits
from tests.hw.common.prover import holds

MOST = 2
GUARD, RETRY = 4, 18
LATE_PACKETS, LATE_CREDITS = (4, 1), (1, 4)
"""Cycles that packets and credits of a link take: either may be late."""
LATER_CREDITS = (1, 6)
"""An answer has to wait for `Recount.hold`, too."""


class LinkHarness(wiring.Component):
    """A sender and a receiver of packets of one flit, of one class, with `Recount` at both ends.

    The sender sends at will, as far as it has credits, and has them counted at will; the receiver
    lets packets go at will. Packets, questions, answers and credits are lost at will.

    `bad`: a packet comes for which there is no room; or, when nothing was lost since credits were
    counted last, credits, what is on its way, what is due and what is held are not what there is
    room for.
    """

    def __init__(self, sender, receiver, latencies):
        self.sender, self.receiver = sender, receiver
        self.packets, self.credits = latencies
        super().__init__({
            **dict.fromkeys(("start", "send", "free", "lose", "lose_answer", "lose_credit"), In(1)),
            "bad": Out(1), "cover_again": Out(1), "cover_full": Out(1), "cover_lost": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.s, m.submodules.r = s, r = self.sender, self.receiver
        credits = Signal(range(MOST + 1), init=MOST)
        sends = Signal()
        # What is on the wires: whether there is a packet, and a header of the link's control.
        there = [Signal(name=f"there_{k}") for k in range(self.packets)]
        asks = [Signal(1 + len(s.asked.nonce), name=f"asks_{k}") for k in range(self.packets)]
        answers = [Signal(1 + len(s.asked.nonce), name=f"answers_{k}") for k in range(self.packets)]
        paid = [Signal(name=f"paid_{k}") for k in range(self.credits)]
        m.d.comb += [
            s.start.eq(self.start),
            s.quiet.eq(1),
            sends.eq(self.send & (credits != 0) & ~s.hold),
            r.quiet.eq(1),
            r.asked.count.eq(asks[-1][0]),
            r.asked.nonce.eq(asks[-1][1:]),
            s.asked.counted.eq(answers[-1][0]),
            s.asked.nonce.eq(answers[-1][1:]),
        ]
        asking = s.valid & (s.header.kind == Kind.COUNT)
        answering = r.valid & (r.header.kind == Kind.COUNTED)
        occupied = Signal(range(MOST + 1))
        arrives = there[-1]
        goes = self.free & (occupied != 0)
        m.d.sync += [
            occupied.eq(occupied + arrives - goes),
            there[0].eq(sends & ~self.lose),
            asks[0].eq(Mux(asking & ~self.lose, Cat(Const(1, 1), s.header.tag), 0)),
            answers[0].eq(Mux(answering & ~self.lose_answer, Cat(Const(1, 1), r.header.tag), 0)),
            *(line[k].eq(line[k - 1]) for line in (there, asks, answers)
              for k in range(1, self.packets)),
        ]
        given = Signal(1)
        due = give_credits(
            m, [Refunds(begun=arrives, dropped=Const(0), cut_off=Const(0))], freed=Cat(goes),
            credit=given, mute=r.asked.mute, regrant=r.asked.regrant, most=MOST,
        )
        m.d.sync += [
            paid[0].eq(given & ~self.lose_credit),
            *(paid[k].eq(paid[k - 1]) for k in range(1, len(paid))),
            credits.eq(Mux(s.forget, 0, credits - sends + (paid[-1] & ~s.forget))),
        ]
        lost = (sends & self.lose) | (given & self.lose_credit)
        clean, again, was_lost = Signal(init=1), Signal(), Signal()
        m.d.sync += clean.eq((clean | asking) & ~lost)
        with m.If(asking):
            m.d.sync += again.eq(was_lost)
        with m.If(lost):
            m.d.sync += was_lost.eq(1)
        # What is due is not seen from here: without any, and when nothing is given, there is none.
        sum_of = credits + occupied + sum(there) + sum(paid) + given
        settled = clean & ~s.counting & ~r.asked.mute & ~due
        m.d.comb += [
            self.bad.eq((arrives & (occupied == MOST) & ~goes) | (settled & (sum_of != MOST))),
            self.cover_again.eq(again & settled & (occupied != 0)),
            self.cover_full.eq(occupied == MOST),
            self.cover_lost.eq(was_lost & ~clean & (credits == 0) & (occupied == 0)),
        ]
        return m


class _AtOnce(Recount):
    """A receiver that gives credits anew with its answer."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        m.d.comb += self.asked.regrant.eq(self.valid)
        with m.If(self.valid):
            m.d.sync += self.asked.mute.eq(0)
        return m


def link(sender, receiver, latencies):
    return LinkHarness(Recount(**sender), receiver, latencies)


RIGHT = {"guard": GUARD, "retry": RETRY}


@pytest.mark.parametrize("latencies", [
    pytest.param(LATE_PACKETS, marks=pytest.mark.full), LATE_CREDITS,
])
def test_credits_counted_anew_are_those_for_which_there_is_room(latencies, tmp_path):
    assert holds(link(RIGHT, Recount(**RIGHT), latencies), tmp_path, cycles=44, timeout=400)


def test_a_guard_that_is_too_short_is_refuted(tmp_path):
    harness = link(RIGHT, Recount(guard=1, retry=RETRY), LATER_CREDITS)
    assert not holds(harness, tmp_path, cycles=34, timeout=200)


def test_credits_that_come_before_the_answer_are_refuted(tmp_path):
    harness = link(RIGHT, _AtOnce(**RIGHT), LATE_PACKETS)
    assert not holds(harness, tmp_path, cycles=34, timeout=200)
