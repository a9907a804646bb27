# amaranth: UnusedElaboratable=no
"""Proofs about joining and giving up: who is ready has heard so from all others, and nobody works
on with an endpoint that has been reset.

Epochs are of a few bits here, and nothing is claimed once they are used up.
"""

import pytest
from amaranth.hdl import Cat, Module, Mux, ResetInserter, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.switch_dma import membership
from hw.switch_dma.config import SwitchDmaConfig
from hw.switch_dma.layouts import AbortCause
from hw.switch_dma.membership import Membership
from tests.hw.common.prover import ever, holds, nth

BITS = 3
LAST = (1 << BITS) - 1
MEMBERS = 3
CONFIG = SwitchDmaConfig(payload_flits=2, alu_stages=0, endpoints=4)
PATIENCE = 12
"""Cycles without a flush and with room at the output after which an epoch is told."""


@pytest.fixture(autouse=True)
def few_epochs(monkeypatch):
    source = membership.NOTICE["origin"].width
    monkeypatch.setattr(membership, "EPOCH_BITS", BITS)
    monkeypatch.setattr(membership, "FLUSH_CYCLES", 1)
    monkeypatch.setattr(membership, "NOTICE", data.StructLayout(
        {"epoch": BITS, "cause": AbortCause, "origin": source, "fresh": 1}
    ))


class MemberHarness(wiring.Component):
    """An endpoint of three, and two others that tell whatever they like: epochs that do not go
    back, but for those of an endpoint that says that it is fresh.

    `bad`: it is ready although the last that it heard of another since it joined is another epoch,
    or with another rank than its own; its epoch goes back, or changes without a flush, or takes
    commands without a word; a flush ends while something is busy; it does not tell its epoch.
    """

    def __init__(self, member):
        self.member = member
        ones = ("join", "leave", "give_up", "stalled", "outstanding", "busy", "valid", "sender",
                "fresh", "ready", "own")
        super().__init__({**{name: In(1) for name in ones}, "epoch": In(BITS), "bad": Out(1),
                          "cover_ready_in_the_fourth_epoch": Out(1),
                          "cover_a_command_is_given_up_before_all_are_ready": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.member = member = self.member
        started, endpoint = Signal(), Signal(2)
        m.d.sync += started.eq(1)
        with m.If(~started):
            m.d.sync += endpoint.eq(Cat(self.own, self.epoch[0] & ~self.own))
        number = Signal(2)  # of who tells
        m.d.comb += number.eq(Mux(self.sender, Mux(endpoint == 2, 1, 2), Mux(endpoint == 0, 1, 0)))
        said = [Signal(BITS, name=f"said_{k}") for k in range(MEMBERS)]
        heard = Signal(MEMBERS)
        before = Signal(BITS)
        for k, each in enumerate(said):
            with m.If(number == k):
                m.d.comb += before.eq(each)
        valid = Signal()
        m.d.comb += [
            valid.eq(started & self.valid & (self.fresh | (self.epoch >= before))),
            member.node.endpoint.eq(endpoint),
            member.node.members.eq(MEMBERS),
            member.join.eq(started & self.join),
            member.leave.eq(started & self.leave & ~self.join),
            *(getattr(member, name).eq(started & getattr(self, name))
              for name in ("give_up", "stalled", "outstanding", "busy")),
            member.notice.valid.eq(valid),
            member.notice.p.epoch.eq(self.epoch),
            member.notice.p.fresh.eq(self.fresh),
            member.sender.eq(number),
            member.o.ready.eq(self.ready),
        ]
        # What came is looked at a cycle later.
        came, who, what = Signal(), Signal(2), Signal(BITS)
        m.d.sync += [came.eq(valid), who.eq(number), what.eq(self.epoch)]
        with m.If(valid):
            for k, each in enumerate(said):
                with m.If(number == k):
                    m.d.sync += each.eq(self.epoch)
        known = [Signal(BITS, name=f"known_{k}") for k in range(MEMBERS)]
        with m.If(came & member.joined):
            for k, each in enumerate(known):
                with m.If(who == k):
                    m.d.sync += [each.eq(what), heard[k].eq(1)]
        exits = member.join | member.leave
        with m.If(exits):
            m.d.sync += heard.eq(0)
        agreed = Cat(
            (endpoint == k) | (heard[k] & (each == member.epoch)) for k, each in enumerate(known)
        ).all()
        used_up = ever(m, (member.epoch == LAST) | (valid & (self.epoch == LAST)))
        earlier, held, told_of = Signal(BITS), Signal(), Signal()
        m.d.sync += [earlier.eq(member.epoch), held.eq(member.outstanding),
                     told_of.eq(member.aborted)]
        changed = member.epoch != earlier
        flushed, was_busy = Signal(), Signal()
        m.d.sync += [flushed.eq(member.flush), was_busy.eq(member.busy)]
        # Told: the header's successor carries the epoch.
        untold, waited = Signal(), Signal(range(PATIENCE + 1))
        place = Signal(2)
        moves = member.o.valid & member.o.ready
        with m.If(moves):
            m.d.sync += place.eq(Mux(member.o.p.last, 0, place + 1))
        tells = moves & (place == 1) & (member.o.p.data[:BITS] == member.epoch)
        with m.If(changed & member.joined):
            m.d.sync += untold.eq(1)
        with m.Elif(tells | ~member.joined):
            m.d.sync += untold.eq(0)
        with m.If(~untold | member.flush | tells):
            m.d.sync += waited.eq(0)
        with m.Elif(self.ready & (waited != PATIENCE)):
            m.d.sync += waited.eq(waited + 1)
        m.d.comb += self.bad.eq(started & ~used_up & Cat(
            member.ready & ~agreed,
            member.ready & (member.rank != endpoint),
            member.ready & member.flush,
            member.epoch < earlier,
            changed & ~member.flush,
            changed & held & ~told_of,
            flushed & ~member.flush & was_busy,
            waited == PATIENCE,
        ).any())
        m.d.comb += [
            self.cover_ready_in_the_fourth_epoch.eq(
                started & ~used_up & member.ready & (member.epoch == 3)
                & nth(m, member.aborted, 2)
            ),
            self.cover_a_command_is_given_up_before_all_are_ready.eq(
                started & member.aborted & ~member.ready & member.joined & ~exits
            ),
        ]
        return m


class Deaf(Membership):
    """Planted bug: an endpoint is ready one too early."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        early = Signal()
        m.d.sync += early.eq(self.notice.valid & self.joined & ~self.flush)
        with m.If(early):
            m.d.comb += self.ready.eq(1)
        return m


class Silent(Membership):
    """Planted bug: what was lost before all were ready is told to nobody."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        with m.If(~self.ready):
            m.d.comb += self.aborted.eq(0)
        return m


class Hasty(Membership):
    """Planted bug: a flush does not wait for what is under way."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        self._idle = Signal()
        waited = Signal(3)
        m.d.sync += waited.eq(Mux(self.flush, waited + 1, 0))
        with m.If(waited == 4):
            m.d.sync += self.flush.eq(0)
        return m


def test_who_is_ready_has_heard_so_from_all_others(tmp_path):
    assert holds(MemberHarness(Membership(CONFIG)), tmp_path)


@pytest.mark.parametrize("planted", [Deaf, Silent, Hasty])
def test_a_planted_bug_of_a_member_is_refuted(planted, tmp_path):
    assert not holds(MemberHarness(planted(CONFIG)), tmp_path)


CYCLES = 26
"""From reset, in which both are ready, one is reset and joins anew, and both are ready again."""
LIVES = 2


class PairHarness(wiring.Component):
    """Two endpoints that hear each other in order, after any time; the second is reset at will.

    Each notice says, beside what endpoints see, in which life of its sender it was sent. What was
    on its way to an endpoint arrives although that was reset meanwhile. With *deaf* nobody hears
    that another one is fresh.

    `bad`: both are ready in one epoch, the first has heard so from an earlier life of the second
    alone, and nothing that would tell it otherwise is on its way: operands that the second sent
    before its reset would meet others of the same epoch.
    """

    def __init__(self, *, deaf=False):
        self.members = [Membership(CONFIG) for _ in range(2)]
        self.deaf = deaf
        super().__init__({"join": In(2), "give_up": In(2), "hear": In(2), "restart": In(1),
                          "bad": Out(1), "cover_both_are_ready_again_after_a_reset": Out(1)})

    def elaborate(self, platform):
        m = Module()
        near, far = self.members
        restart, life = Signal(), Signal(range(LIVES + 1))
        m.d.comb += restart.eq(self.restart & (life != LIVES))
        m.d.sync += life.eq(life + restart)
        m.submodules.near = near
        m.submodules.far = ResetInserter(restart)(far)
        agreed_life = Signal.like(life)  # of the second, when the first counted it in this epoch
        fresh_news = Signal()
        layout = data.StructLayout({"epoch": BITS, "fresh": 1, "life": len(life)})
        for k, (sender, receiver) in enumerate(((near, far), (far, near))):
            m.d.comb += [
                sender.node.endpoint.eq(k), sender.node.members.eq(2),
                sender.join.eq(self.join[k]), sender.give_up.eq(self.give_up[k]),
            ]
            rows = [Signal(layout, name=f"row_{k}_{n}") for n in range(2)]  # on the wire
            held = Signal(range(3), name=f"held_{k}")
            place = Signal(2, name=f"place_{k}")
            told = Signal(membership.NOTICE, name=f"told_{k}")
            comes, goes = Signal(name=f"comes_{k}"), Signal(name=f"goes_{k}")
            moves = sender.o.valid & sender.o.ready
            m.d.sync += place.eq(Mux(sender.o.p.first, moves, 0))
            m.d.comb += [
                told.eq(sender.o.p.data),
                sender.o.ready.eq((held != 2) | ~sender.o.p.first),
                comes.eq(moves & (place == 1)),
                goes.eq(self.hear[k] & (held != 0)),
                receiver.notice.valid.eq(goes),
                receiver.notice.p.epoch.eq(rows[0].epoch),
                receiver.notice.p.fresh.eq(rows[0].fresh & ~self.deaf),
                receiver.sender.eq(k),
            ]
            with m.If(goes):
                m.d.sync += rows[0].eq(rows[1])
            for n, row in enumerate(rows):
                with m.If(comes & (held - goes == n)):
                    m.d.sync += [row.epoch.eq(told.epoch), row.fresh.eq(told.fresh),
                                 row.life.eq(life)]
            m.d.sync += held.eq(held + comes - goes)
            if k == 1:
                under_way = Signal()
                told_since = Signal()  # in this life it has told
                with m.If(restart):
                    m.d.sync += told_since.eq(0)
                with m.Elif(comes):
                    m.d.sync += told_since.eq(1)
                m.d.comb += under_way.eq(sender.o.valid | (held != 0) | ~told_since)
                self._agree(m, near, goes, rows[0], agreed_life, fresh_news)
        used_up = ever(m, (near.epoch == LAST) | (far.epoch == LAST))
        both = near.ready & far.ready & (near.epoch == far.epoch) & ~used_up
        again = both & (life == 1) & ever(m, both & (life == 0))
        m.d.comb += [
            self.bad.eq(both & (agreed_life != life) & ~under_way & ~fresh_news),
            self.cover_both_are_ready_again_after_a_reset.eq(again),
        ]
        return m

    @staticmethod
    def _agree(m, near, goes, row, agreed_life, news):
        """Follow what the first endpoint hears: it looks at it a cycle later, and shows the epoch
        that it has come to by that in the next one."""
        looked, known = (Signal(row.shape(), name=name) for name in ("looked", "known"))
        looks, knows = Signal(), Signal()
        earlier, joined, counted = Signal(BITS), Signal(), Signal()
        m.d.sync += [looks.eq(goes), looked.eq(row), knows.eq(looks & near.joined),
                     known.eq(looked), earlier.eq(near.epoch), joined.eq(near.join)]
        same = knows & (known.epoch == near.epoch)
        with m.If(joined):
            m.d.sync += counted.eq(0)
        with m.Elif((near.epoch != earlier) | ~counted):
            m.d.sync += [counted.eq(same), agreed_life.eq(known.life)]
        m.d.comb += news.eq(looks | knows)


def test_nobody_works_on_with_an_endpoint_that_was_reset(tmp_path):
    assert holds(PairHarness(), tmp_path, cycles=CYCLES)


def test_an_endpoint_that_does_not_say_that_it_is_fresh_is_refuted(tmp_path):
    assert not holds(PairHarness(deaf=True), tmp_path, cycles=CYCLES)
