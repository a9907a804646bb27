# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""Proofs about joining and giving up: who is open or ready has heard from all others what that
stands on, in this epoch and in this life; it tells what is true, and gives nothing up silently.

Epochs are of a few bits here, and nothing is claimed once they are used up. That it is enough what
endpoints hear from each other is explored in `test_epoch_protocol`.
"""

import inspect

import pytest
from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.switch.packet import HEADER, AbortCause, Kind
from hw.switch_dma import layouts, membership
from hw.switch_dma.config import SwitchDmaConfig
from hw.switch_dma.membership import Membership
from tests.families import quick
from tests.hw.common.prover import ever, holds

BITS = 3
LAST = (1 << BITS) - 1
MEMBERS = 3
FLUSH = 2
REASONS = ("give_up", "disagreed", "overflow", "stalled")
OF_LANES = ("disagreed", "overflow", "busy", "unanswered")
CAUSES = (AbortCause.SOFTWARE, AbortCause.DISAGREEMENT, AbortCause.OVERFLOW, AbortCause.WATCHDOG)
NOTICE_FIELDS = ("address", "tag", "destination", "count")
"""Of a header, those that hold a notice."""


def config(links):
    return SwitchDmaConfig(payload_flits=2, alu_stages=0, endpoints=4, links=links)


@pytest.fixture(autouse=True)
def few_epochs(monkeypatch):
    shapes = {name: field.shape for name, field in membership.NOTICE}
    notice = data.StructLayout(shapes | {"epoch": BITS})
    monkeypatch.setattr(membership, "EPOCH_BITS", BITS)
    monkeypatch.setattr(membership, "FLUSH_CYCLES", FLUSH)
    for module in (membership, layouts):
        monkeypatch.setattr(module, "NOTICE", notice)


def _first(bits):
    """The number of the lowest bit that is 1."""
    return Mux(bits[0], 0, Mux(bits[1], 1, Mux(bits[2], 2, 3)))


class MemberHarness(wiring.Component):
    """An endpoint of three, of any number, and whatever may come: notices of all members, itself
    among them, and of endpoints that do not exist, of any epoch, by any link, in any order.

    Kept beside it, for each link: of which epochs each of the others has told since the endpoint
    was answered after its last `join`, and that it is settled in them; of which epochs the endpoint
    has told, and said that it is settled; whether it has asked, and was answered.

    `bad`: it is not open to a link just when it has heard from all others by it, or not ready just
    when it has told on all links, and heard that all others are settled; its rank is wrong then;
    its epoch changes for no reason, goes back, or changes without a flush; a flush ends while
    something is busy, or too early; what is given up is not told, or told without a cause; a notice
    is not true, or not due; or one that is due is not offered.
    """

    def __init__(self, member, links):
        self.member, self.links = member, links
        ones = (*REASONS, "join", "leave", "outstanding", "busy", "unanswered", "valid", "settled",
                "fresh")
        super().__init__({
            **{name: In(1) for name in ones}, "epoch": In(BITS), "source": In(3),
            "cause": In(AbortCause), "origin": In(2), "number": In(2),
            "by": In(range(max(2, links))), "ready": In(links), "bad": Out(1),
            "cover_ready_in_the_third_epoch": Out(1),
            "cover_ready_again_after_it_left": Out(1),
            "cover_a_command_is_given_up_before_all_are_ready": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.member = member = self.member
        state = member.state
        links = self.links
        said_by = {name: Cat(getattr(lane, name) for lane in member.lanes).any()
                   for name in OF_LANES}
        reasons_now = Cat(member.give_up, said_by["disagreed"], said_by["overflow"],
                          member.stalled)
        opened = Cat(lane.open for lane in member.lanes)
        started, number = Signal(), Signal(2)
        m.d.sync += started.eq(1)
        with m.If(~started):
            m.d.sync += number.eq(Mux(self.number < MEMBERS, self.number, 0))
        exits = Signal()
        valid = Signal()
        m.d.comb += [
            valid.eq(started & self.valid & (self.source != MEMBERS) & (self.by < links)),
            member.node.endpoint.eq(number),
            member.node.members.eq(MEMBERS),
            member.join.eq(started & self.join),
            member.leave.eq(started & self.leave & ~self.join),
            exits.eq(member.join | member.leave),
            member.give_up.eq(started & self.give_up),
            member.stalled.eq(started & self.stalled),
            state.outstanding.eq(started & self.outstanding),
            # On one of the links.
            *(getattr(lane, name).eq(started & getattr(self, name) & (self.by == k))
              for k, lane in enumerate(member.lanes) for name in OF_LANES),
            member.heard.valid.eq(valid),
            member.heard.p.notice.epoch.eq(self.epoch),
            member.heard.p.notice.cause.eq(self.cause),
            member.heard.p.notice.origin.eq(self.origin),
            member.heard.p.notice.settled.eq(self.settled),
            member.heard.p.notice.fresh.eq(self.fresh),
            member.heard.p.source.eq(self.source),
            member.heard.p.link.eq(self.by),
            *(o.ready.eq(ready) for o, ready in zip(member.o, self.ready)),
        ]
        used_up = ever(m, (member.epoch == LAST) | (valid & (self.epoch == LAST)))
        # What came is looked at a cycle later.
        came = Signal()
        told, who, settled, link = (
            Signal.like(each, name=f"looked_{name}") for name, each in
            (("epoch", self.epoch), ("who", self.source), ("settled", self.settled),
             ("link", self.by))
        )
        m.d.sync += [came.eq(valid), told.eq(self.epoch), who.eq(self.source),
                     settled.eq(self.settled), link.eq(self.by)]
        listens = came & state.joined & (who < MEMBERS)
        waiting = Signal(links)  # for the answer to its question
        asked = Signal(links)
        answered = state.joined & ~waiting.any()
        opens, knows, tells, says, untrue, silent = [], [], [], [], [], []
        for k, o in enumerate(member.o):
            here = listens & (link == k)
            header = Signal(HEADER, name=f"header_{k}")
            notice = Signal(membership.NOTICE, name=f"notice_{k}")
            m.d.comb += [
                header.eq(o.p.data),
                notice.eq(Cat(header[name] for name in NOTICE_FIELDS)),
            ]
            goes = o.valid & o.ready
            has_told, has_said = (Signal(1 << BITS, name=f"{n}_{k}") for n in ("told", "said"))
            with m.If(here & (who == number) & asked[k]):
                m.d.sync += waiting[k].eq(0)
            with m.If(goes & notice.fresh):
                m.d.sync += asked[k].eq(1)
            with m.If(goes & ~notice.fresh):
                m.d.sync += has_told.bit_select(notice.epoch, 1).eq(1)
                with m.If(notice.settled):
                    m.d.sync += has_said.bit_select(notice.epoch, 1).eq(1)
            come, all_settled = [], []
            for j in range(MEMBERS):
                by_epoch = [Signal(1 << BITS, name=f"{n}_{k}_{j}") for n in ("come", "settled")]
                with m.If(here & answered & (who == j)):
                    m.d.sync += by_epoch[0].bit_select(told, 1).eq(1)
                    with m.If(settled):
                        m.d.sync += by_epoch[1].bit_select(told, 1).eq(1)
                with m.If(exits):
                    m.d.sync += [each.eq(0) for each in by_epoch]
                own = number == j
                come.append(own | by_epoch[0].bit_select(member.epoch, 1))
                all_settled.append(own | by_epoch[1].bit_select(member.epoch, 1))
                if k == 0:
                    knows.append(by_epoch[1].bit_select(member.epoch, 1) & (j < number))
            with m.If(exits):
                m.d.sync += [has_told.eq(0), has_said.eq(0), asked[k].eq(0),
                             waiting[k].eq(member.join)]
            opens.append(Cat(come).all())
            tells.append((has_told.bit_select(member.epoch, 1), Cat(all_settled).all()))
            untrue.append(o.valid & Cat(
                ~state.joined | state.flush,
                notice.epoch != member.epoch,
                header.source != number,
                header.kind != Kind.SYNC,
                notice.fresh & (asked[k] | notice.settled),
                ~notice.fresh & ~answered,
                notice.settled & ~(tells[k][0] & opened.all()),
                ~notice.fresh & ~notice.settled & tells[k][0],
                ~o.p.first | ~o.p.last,
            ).any())
            due = Mux(answered, ~tells[k][0], ~asked[k])
            silent.append(state.joined & ~state.flush & due & ~o.valid)
            says.append(has_said.bit_select(member.epoch, 1))
        there = answered & ~state.flush
        settles = Signal()
        m.d.comb += settles.eq(there & Cat(opens).all() & Cat(each for each, _ in tells).all())
        ready = settles & Cat(each for _, each in tells).all() & ~said_by["unanswered"]
        rank = sum(knows)
        settled_long = Signal(2)
        m.d.sync += settled_long.eq(Mux(settles, Cat(1, settled_long[0]), 0))
        silent += [
            settles & settled_long.all() & ~said & ~o.valid for said, o in zip(says, member.o)
        ]

        # In the cycle before.
        earlier = Signal(BITS)
        before = {name: Signal(name=f"{name}_before") for name in
                  ("ready", "outstanding", "flush", "busy", "aborted", "exits", "reason", "later")}
        later = listens & (told > member.epoch)
        m.d.sync += earlier.eq(member.epoch)
        m.d.sync += [
            before["reason"].eq(reasons_now.any() & state.joined & ~state.flush),
            before["exits"].eq(exits), before["later"].eq(later),
            before["busy"].eq(said_by["busy"]),
            *(before[name].eq(getattr(state, name))
              for name in ("ready", "outstanding", "flush", "aborted")),
        ]
        seen = [Signal.like(member.heard.payload, name=f"seen_{k}") for k in range(2)]
        reasons = Signal(len(REASONS))
        m.d.sync += [
            seen[0].eq(member.heard.payload), seen[1].eq(seen[0]),
            reasons.eq(reasons_now),
        ]
        last = seen[1].notice
        changed = member.epoch != earlier
        follows = before["later"] & (member.epoch == last.epoch) & (member.cause == last.cause) & (
            member.origin == last.origin
        )
        starts = before["reason"] & (member.epoch == earlier + 1) & (member.origin == number) & Cat(
            member.cause == cause for cause in CAUSES
        ).bit_select(_first(reasons), 1)
        ends = changed | before["exits"]
        since = Signal(range(FLUSH + 1))
        m.d.sync += since.eq(Mux(ends, 0, Mux(since == FLUSH, FLUSH, since + 1)))
        tells_of_it = (changed & before["ready"]) | (ends & before["outstanding"])
        m.d.comb += self.bad.eq(started & ~used_up & Cat(
            *(opened[k] != (there & each) for k, each in enumerate(opens)),
            state.ready != ready,
            state.ready & (member.rank != rank),
            changed & ~follows & ~starts,
            (before["later"] | before["reason"]) & ~changed,
            ends & ~state.flush,
            before["flush"] & ~state.flush & (before["busy"] | (since < FLUSH)),
            before["aborted"] != tells_of_it,
            *untrue,
            *silent,
        ).any())
        m.d.comb += [
            self.cover_ready_in_the_third_epoch.eq(
                started & ~used_up & state.ready & (member.epoch == 2)
            ),
            self.cover_ready_again_after_it_left.eq(
                started & ~used_up & state.ready & ever(m, state.ready & member.leave)
            ),
            self.cover_a_command_is_given_up_before_all_are_ready.eq(
                started & ~used_up & state.aborted & ~state.ready & ~exits
            ),
        ]
        return m


@pytest.mark.parametrize("links", [1, 2])
def test_what_an_endpoint_says_is_what_it_has_heard(links, tmp_path):
    assert holds(MemberHarness(Membership(config(links)), links), tmp_path)


PLANTED = {
    "it is ready before the others are settled": (
        "self._settles & settled.all() &", "self._settles &"),
    "it is ready when others are settled by one link": ("settled.all()", "settled.any()"),
    "it counts a member twice": (" & ~known.bit_select(caller, 1)", ""),
    "it keeps what it has heard in the epoch before": (
        "known.eq(turns.choose(bits, known", "known.eq((known"),
    "it keeps how many it has heard in the epoch before": (
        "count.eq(turns.choose(heard, (count", "count.eq(((count"),
    "it forgets who told it of the epoch": (
        "known.eq(turns.choose(bits,", "known.eq(turns.choose(0,"),
    "it hears others before it is answered": ("~own & ~asks.any()", "~own"),
    "it takes an old notice of its own for the answer": ("(Cat(here) & ~fresh)", "Cat(here)"),
    "it follows who does not exist": (" & (self.heard.p.source < c.endpoints)", ""),
    "it is settled when it is open to one link": (
        "opened.all() & ~tell", "opened.any() & ~tell"),
    "it is settled before it has told": ("opened.all() & ~tell.any()", "opened.all()"),
    "it tells before it is answered": ("Mux(asks.any(), 0, tell | say)", "(tell | say)"),
    "it does not tell of an epoch": ("[tell.eq(~0), say.eq(0)", "[say.eq(0)"),
    "it does not say that it is settled": (
        "| (settles & ~said).replicate(c.links)", "& (settles & ~said).replicate(c.links)"),
    "it speaks while it forgets": ("Mux(there, speaks, 0)", "Mux(state.joined, speaks, 0)"),
    "its rank is that of the epoch before": ("Mux(changes, 0, self.rank)", "self.rank"),
    "commands are given up without a word": (" | (changes & state.outstanding)", ""),
    "an epoch of all ends without a word": (
        "((follows | starts) & state.ready) | (changes", "(changes"),
    "a flush does not wait": ("(wait == 0) & ~busy", "(wait == 0)"),
    "a flush is short": ("wait.eq(FLUSH_CYCLES - 1)", "wait.eq(0)"),
    "it gives up for itself what another began": (
        "_Turns(follows, starts,", "_Turns(starts, follows,"),
    "it works while memory is to answer": (" & ~unanswered", ""),
}
"""Bugs, as changes of the text."""


def planted(old, new):
    """The component with a change of its text."""
    text = inspect.getsource(Membership)
    assert text.count(old) == 1, old
    names = dict(vars(membership))
    exec(text.replace(old, new), names)
    return names["Membership"]


@pytest.mark.parametrize("bug", quick(3, PLANTED))
def test_a_planted_bug_of_a_member_is_refuted(bug, tmp_path):
    changed = planted(*PLANTED[bug])
    assert not holds(MemberHarness(changed(config(2)), 2), tmp_path)
