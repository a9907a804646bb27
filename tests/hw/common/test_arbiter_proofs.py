# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""Unbounded proofs that arbiters grant one requester, in turn or by age, keep packets whole and
starve nobody."""

import pytest
from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.common.arbiter import AgeArbiter, RoundRobinArbiter, StreamArbiter
from tests.hw.common.prover import assert_moore, ever, holds

BEAT = data.StructLayout({"value": 1, "last": 1})


def one_hot_or_zero(value):
    return (value & (value - 1)) == 0


def not_one(requests, grant):
    """High when it is not exactly one requester that is granted, if there is any."""
    return Cat(
        ~one_hot_or_zero(grant), (grant & ~requests).any(), requests.any() & ~grant.any()
    ).any()


def longest_wait(m, n, waits, served, by_another):
    """High when one of *n* that waits has seen n others served before it."""
    starved = Signal()
    for k in range(n):
        others = Signal(range(n + 1), name=f"others_{k}")
        with m.If(~waits[k] | served[k]):
            m.d.sync += others.eq(0)
        with m.Elif(by_another & (others < n)):
            m.d.sync += others.eq(others + 1)
        with m.If(others == n):
            m.d.comb += starved.eq(1)
    return starved


class GrantHarness(wiring.Component):
    """`bad`: not exactly one requester is granted, or one has waited for n grants to others."""

    def __init__(self, arbiter, n):
        self.arbiter = arbiter
        self.n = n
        super().__init__({"requests": In(n), "advance": In(1), "bad": Out(1),
                          "cover_each_is_granted_while_all_ask": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.arbiter = arbiter = self.arbiter
        grant = arbiter.grant
        m.d.comb += [
            arbiter.requests.eq(self.requests),
            arbiter.advance.eq(self.advance),
        ]
        used = self.advance & grant.any()
        starved = longest_wait(
            m, self.n, self.requests, grant & self.advance.replicate(self.n), used
        )
        m.d.comb += self.bad.eq(not_one(self.requests, grant) | starved)
        m.d.comb += self.cover_each_is_granted_while_all_ask.eq(
            Cat(ever(m, grant[k] & self.advance & self.requests.all()) for k in range(self.n)).all()
        )
        return m


class AgeHarness(wiring.Component):
    """Watches any two requesters, ``one`` with the lower number.

    `bad`: not exactly one requester is granted, or one of the two is while the other one asks, too,
    and was renewed before it.
    """

    def __init__(self, arbiter, n):
        self.arbiter = arbiter
        self.n = n
        super().__init__({"requests": In(n), "renew": In(range(n + 1)), "watch_one": In(range(n)),
                          "watch_other": In(range(n)), "bad": Out(1),
                          "cover_both_are_granted_before_each_other": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.arbiter = arbiter = self.arbiter
        one, other = Signal(range(self.n)), Signal(range(self.n))
        started, one_is_younger, rule = Signal(), Signal(), Signal()
        with m.If(~started):
            m.d.sync += [started.eq(1), one.eq(self.watch_one), other.eq(self.watch_other)]
        m.d.comb += [
            rule.eq(started & (one < other) & (other < self.n)),
            arbiter.requests.eq(self.requests),
            # Number n renews nobody.
            arbiter.renew.eq((started << self.renew)[: self.n]),
        ]
        with m.If(started & (self.renew == one)):
            m.d.sync += one_is_younger.eq(1)
        with m.Elif(started & (self.renew == other)):
            m.d.sync += one_is_younger.eq(0)
        grant = arbiter.grant
        asks = Cat(self.requests.bit_select(each, 1) for each in (one, other)).all()
        wins = [asks & grant.bit_select(each, 1) for each in (one, other)]
        m.d.comb += [
            self.bad.eq(
                not_one(self.requests, grant)
                | rule & Mux(one_is_younger, wins[0], wins[1])
            ),
            self.cover_both_are_granted_before_each_other.eq(
                Cat(ever(m, rule & each) for each in wins).all()
            ),
        ]
        return m


class MergeHarness(wiring.Component):
    """Compares a stream arbiter with one register that a single input fills at a time.

    `bad` is high when a beat is lost, doubled or changed, when two inputs move at once, when none
    moves though one could, when a packet is interrupted, or when an input waits for n others.
    """

    def __init__(self, arbiter, n, *, packets):
        self.arbiter = arbiter
        self.n = n
        self.packets = packets
        super().__init__(
            {
                "values": In(n),
                "lasts": In(n),
                "valids": In(n),
                "ready": In(1),
                "bad": Out(1), "cover_each_input_ends_a_packet_while_all_offer": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.arbiter = arbiter = self.arbiter
        o = arbiter.o
        for k, port in enumerate(arbiter.i):
            m.d.comb += [
                port.valid.eq(self.valids[k]),
                port.p.value.eq(self.values[k]),
                port.p.last.eq(self.lasts[k]),
            ]
        m.d.comb += o.ready.eq(self.ready)

        taken = Signal(self.n)
        held = Signal()
        value = Signal()
        last = Signal()
        within = Signal()
        owner = Signal(self.n)
        m.d.comb += taken.eq(Cat(port.valid & port.ready for port in arbiter.i))
        with m.If(taken.any()):
            m.d.sync += [
                held.eq(1),
                value.eq((taken & self.values).any()),
                last.eq((taken & self.lasts).any()),
            ]
            if self.packets:
                m.d.sync += [within.eq(~(taken & self.lasts).any()), owner.eq(taken)]
        with m.Elif(self.ready):
            m.d.sync += held.eq(0)

        may_move = Mux(within, (self.valids & owner).any(), self.valids.any())
        begins = taken & (~within).replicate(self.n)
        starved = longest_wait(m, self.n, self.valids, taken, begins.any())
        m.d.comb += self.bad.eq(
            Cat(
                ~one_hot_or_zero(taken),
                taken.any() & held & ~self.ready,
                o.valid != held,
                held & ((o.p.value != value) | (o.p.last != last)),
                (~held | self.ready) & may_move & ~taken.any(),
                within & (taken & ~owner).any(),
                starved,
            ).any()
        )
        whole = within if self.packets else Const(1)
        ended = [taken[k] & self.lasts[k] & whole & self.valids.all() for k in range(self.n)]
        m.d.comb += self.cover_each_input_ends_a_packet_while_all_offer.eq(
            Cat(ever(m, each) for each in ended).all()
        )
        return m


class FixedPriority(RoundRobinArbiter):
    """Planted bug: the lowest requester always wins."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        m.d.comb += self.grant.eq(self.requests & -self.requests)
        return m


class EveryoneAtOnce(RoundRobinArbiter):
    """Planted bug: grants all."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        m.d.comb += self.grant.eq(self.requests)
        return m


class Ageless(AgeArbiter):
    """Planted bug: the lowest requester always wins."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        m.d.comb += self.grant.eq(self.requests & -self.requests)
        return m


class Forgetful(AgeArbiter):
    """Planted bug: is not told when the last one is renewed while requester 0 asks."""

    def elaborate(self, platform):
        m = Module()
        m.submodules.told = told = AgeArbiter(self._n)
        m.d.comb += [
            told.requests.eq(self.requests),
            self.grant.eq(told.grant),
            told.renew.eq(Mux(self.requests[0], self.renew[:-1], self.renew)),
        ]
        return m


class Twins(AgeArbiter):
    """Planted bug: two that are neighbours are granted together."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        m.d.comb += self.grant[1].eq(self.requests[1])
        return m


class Overwriting(StreamArbiter):
    """Planted bug: input 0 is taken although the output is stalled."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        m.d.comb += self.i[0].ready.eq(1)
        return m


@pytest.mark.parametrize("n", [1, 2, 3, 4, 6])
def test_one_requester_is_granted_within_n_turns(n, tmp_path):
    assert holds(GrantHarness(RoundRobinArbiter(n), n), tmp_path)


@pytest.mark.parametrize("planted", [FixedPriority, EveryoneAtOnce])
def test_unfair_or_double_grant_is_refuted(planted, tmp_path):
    assert not holds(GrantHarness(planted(3), 3), tmp_path)


@pytest.mark.parametrize("n", [2, 3, 4, 6])
def test_one_requester_is_granted_and_none_before_an_older_one(n, tmp_path):
    assert holds(AgeHarness(AgeArbiter(n), n), tmp_path)


@pytest.mark.parametrize("planted", [Ageless, Forgetful, Twins])
def test_a_grant_to_a_younger_one_or_to_two_is_refuted(planted, tmp_path):
    assert not holds(AgeHarness(planted(3), 3), tmp_path)


@pytest.mark.parametrize("last", [None, "last"])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_stream_arbiter_keeps_beats_and_packets(n, last, tmp_path):
    arbiter = StreamArbiter(BEAT, n, last=last)

    assert holds(MergeHarness(arbiter, n, packets=last is not None), tmp_path)


def test_lost_beat_is_refuted(tmp_path):
    assert not holds(MergeHarness(Overwriting(BEAT, 2), 2, packets=False), tmp_path)


def test_interleaved_packets_are_refuted(tmp_path):
    assert not holds(MergeHarness(StreamArbiter(BEAT, 2), 2, packets=True), tmp_path)


def test_output_of_stream_arbiter_is_a_register(tmp_path):
    assert_moore(StreamArbiter(BEAT, 3), tmp_path, but="o:i_*_ready")
