# SPDX-License-Identifier: Apache-2.0
"""Epochs: joining the region, and giving everything up."""

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.switch.packet import (
    EPOCH_BITS,
    FLIT,
    HEADER,
    NOTICE,
    AbortCause,
    Kind,
    notice_fields,
)
from hw.switch_dma.config import SwitchDmaConfig
from hw.switch_dma.interfaces import MemberSignature, RegionSignature, StateSignature
from hw.switch_dma.layouts import NODE, heard_layout

__all__ = ["Membership"]

FLUSH_CYCLES = 8
"""At least: what was begun in the cycle in which an epoch ended shows as held by then."""


class Membership(wiring.Component):
    """Brings all members to one epoch, and to a later one when all-reduces are given up.

    Every endpoint tells all others, by a notice on each of its links, to which epoch it has come,
    when nothing of an earlier one is left in it. It is *open* to a link when it has heard so from
    all others by this link. When it has told, and is open to all links, it tells that it is
    *settled*, which says the former, too. When it has heard that from all others, it is *ready*,
    and sends operands. So these exist only when nothing of an earlier epoch is left in any
    endpoint, nor on any way between two: a notice has gone along it, and switches pass on a notice
    when they hold nothing that is older.

    A later epoch than one's own is followed. An endpoint that joins may have sent operands that it
    does not remember. So it asks the switch at each link first, by a notice that is *fresh*; the
    answer, in its own name, is an epoch in which it has told nothing by this link. Until all have
    answered it hears nobody, but for later epochs. What the others told meanwhile they say again
    when they are settled: whoever was the first to listen misses nobody.

    Parameters
    ----------
    config : SwitchDmaConfig

    Members
    -------
    node : ``In(NODE)``
        This endpoint and its region.
    join : ``In(1)``
        Join the region, anew if need be.
    leave : ``In(1)``
        Be no member until the next `join`.
    give_up, stalled : ``In(1)``
        Reasons to begin a new epoch, beside those of links.
    heard : ``In(stream.Signature(heard_layout(config), always_ready=True))``
        What another endpoint tells.
    o : ``Out(stream.Signature(FLIT)).array(links)``
        Notices as packets without checksum; one that waits is the latest, or withdrawn if untrue.
    epoch : ``Out(32)``
        Present epoch; always valid.
    member : ``Out(MemberSignature())``, rank : ``Out(range(endpoints))``
        Who this is; members with lower numbers, valid while `state.ready`.
    lanes : ``Out(RegionSignature()).array(links)``
        The region on each link; open when all others have told the present epoch by it.
    state : ``Out(StateSignature())``
        Of the region.
    cause : ``Out(AbortCause)``, origin : ``Out(...)``
        Why the last epoch ended, and which endpoint ended it.
    """

    node: Any
    join: Signal
    leave: Signal
    give_up: Signal
    stalled: Signal
    epoch: Signal
    member: Any
    rank: Signal
    lanes: Any
    state: Any
    heard: stream.Interface
    o: Any
    cause: Any
    origin: Signal

    def __init__(self, config: SwitchDmaConfig) -> None:
        c = self._config = config
        super().__init__(
            {
                "node": In(NODE),
                **dict.fromkeys(("join", "leave", "give_up", "stalled"), In(1)),
                "heard": In(stream.Signature(heard_layout(c), always_ready=True)),
                "o": Out(stream.Signature(FLIT)).array(c.links),
                "epoch": Out(EPOCH_BITS),
                "member": Out(MemberSignature()),
                "rank": Out(range(c.endpoints)),
                "lanes": Out(RegionSignature()).array(c.links),
                "state": Out(StateSignature()),
                "cause": Out(AbortCause),
                "origin": Out(HEADER["source"].width),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        c = self._config
        state = self.state
        opened = Cat(lane.open for lane in self.lanes)
        m.d.comb += [
            self.member.node.eq(self.node),
            self.member.epoch.eq(self.epoch),
            *(lane.flush.eq(state.flush) for lane in self.lanes),
        ]
        disagreed, overflow, busy, unanswered = (
            Cat(getattr(lane, name) for lane in self.lanes).any()
            for name in ("disagreed", "overflow", "busy", "unanswered")
        )
        self._settles, self._first = Signal(name="settles"), Signal(name="first")
        call: Any = Signal(heard_layout(c))
        called, own = Signal(), Signal()
        m.d.sync += [
            called.eq(self.heard.valid & (self.heard.p.source < c.endpoints)),
            call.eq(self.heard.payload),
            own.eq(self.heard.p.source == self.node.endpoint),
        ]
        told = call.notice
        caller = call.source[: len(Signal(range(c.endpoints)))]
        here = [Signal(name=f"by_{k}") for k in range(c.links)]
        m.d.comb += [each.eq(call.link == k) for k, each in enumerate(here)]
        listens = called & state.joined
        later, same = told.epoch > self.epoch, told.epoch == self.epoch
        reasons = [
            (self.give_up, AbortCause.SOFTWARE),
            (disagreed, AbortCause.DISAGREEMENT),
            (overflow, AbortCause.OVERFLOW),
            (self.stalled, AbortCause.WATCHDOG),
        ]
        there = state.joined & ~state.flush
        follows, starts = Signal(), Signal()  # the former goes first
        # What is to be sent by each link, in this order.
        fresh, tell, say = Signal(c.links), Signal(c.links), Signal(c.links)
        asks = Signal(c.links)  # which switches are still to answer
        m.d.comb += [
            follows.eq(listens & later),
            starts.eq(there & Cat(event for event, _ in reasons).any()),
        ]
        changes = follows | starts | self.join | self.leave
        turns = _Turns(follows, starts, self.join | self.leave, same)
        hears = listens & ~own & ~asks.any()
        come = self._count(m, "come", hears, turns, caller, here)
        settled = self._count(m, "settled", hears & told.settled, turns, caller, here)
        m.d.comb += [
            opened.eq(Mux(there & ~asks.any(), come, 0)),
            state.ready.eq(self._settles & settled.all() & ~unanswered),
        ]
        settles, said = self._settles, Signal()
        m.d.comb += settles.eq(opened.all() & ~tell.any())
        taken = Signal(c.links)
        m.d.comb += taken.eq(
            Cat(each.valid for each in self.o) & Cat(each.ready for each in self.o)
        )
        m.d.sync += [
            fresh.eq(fresh & ~taken),
            tell.eq(tell & ~(taken & ~fresh)),
            say.eq((say & ~(taken & ~fresh & ~tell)) | (settles & ~said).replicate(c.links)),
            said.eq(settles),
        ]
        with m.If(listens & own):
            m.d.sync += asks.eq(asks & ~(Cat(here) & ~fresh))
        # Members with lower numbers, as they settle by the first link.
        lower = self._first & (caller < self.node.endpoint)
        m.d.sync += self.rank.eq(Mux(changes, 0, self.rank) + lower)
        with m.If(follows):
            m.d.sync += [
                self.epoch.eq(told.epoch), self.cause.eq(told.cause), self.origin.eq(told.origin),
            ]
        with m.Elif(starts):
            m.d.sync += [self.epoch.eq(self.epoch + 1), self.origin.eq(self.node.endpoint)]
            for event, cause in reversed(reasons):
                with m.If(event):
                    m.d.sync += self.cause.eq(cause)
        with m.If(changes):
            m.d.sync += [tell.eq(~0), say.eq(0), said.eq(0)]
        with m.If(self.join | self.leave):
            every = self.join.replicate(c.links)
            m.d.sync += [
                state.joined.eq(self.join), asks.eq(every), fresh.eq(every), tell.eq(every),
            ]
        # Who joins or leaves knows it, so that alone is no reason to tell software.
        m.d.comb += state.aborted.eq(
            ((follows | starts) & state.ready) | (changes & state.outstanding)
        )
        self._flush(m, changes, busy)
        speaks = fresh | Mux(asks.any(), 0, tell | say)
        self._send(m, Mux(there, speaks, 0), fresh, ~fresh & ~tell)
        return m

    def _flush(self, m: Module, changes: Value, busy: Value) -> None:
        """Flush when the epoch *changes*, until nothing is *busy*, `FLUSH_CYCLES` at least. They
        are counted from the second one on, since changes come late."""
        changed, wait = Signal(), Signal(range(FLUSH_CYCLES))
        m.d.sync += changed.eq(changes)
        with m.If(changed):
            m.d.sync += wait.eq(FLUSH_CYCLES - 1)
        with m.Elif(wait != 0):
            m.d.sync += wait.eq(wait - 1)
        with m.If(changes):
            m.d.sync += self.state.flush.eq(1)
        with m.Elif(~changed & (wait == 0) & ~busy):
            m.d.sync += self.state.flush.eq(0)

    def _count(
        self, m: Module, name: str, hears: Value, turns: "_Turns", caller: Value,
        here: list[Signal],
    ) -> Value:
        """Count the endpoints heard in this epoch, and in a later one that is followed. Returns a
        bit per link: all others were. What is compared with the epoch only chooses."""
        c = self._config
        every = []
        for k, by in enumerate(here):
            known = Signal(c.endpoints, name=f"{name}_{k}")
            count = Signal(range(c.endpoints + 1), name=f"{name}_count_{k}")
            heard = Signal(name=f"{name}_heard_{k}")
            bits = Signal.like(known, name=f"{name}_bits_{k}")
            news = Signal(name=f"{name}_news_{k}")  # unless the epoch changes
            m.d.comb += [
                heard.eq(hears & by),
                bits.eq(heard << caller),
                news.eq(heard & ~known.bit_select(caller, 1) & turns.same),
            ]
            all_others, members = Signal(name=f"{name}_all_{k}"), self.node.members
            m.d.sync += [
                known.eq(turns.choose(bits, known | Mux(turns.same, bits, 0))),
                count.eq(turns.choose(heard, (count + news)[: len(count)])),
                # All but this one, as of the count's next value.
                all_others.eq(
                    turns.choose(
                        Mux(heard, members == 2, members == 1),
                        Mux(news, count + 2 == members, count + 1 == members),
                        none=members == 1,
                    )
                ),
            ]
            every.append(all_others)
            if name == "settled" and k == 0:
                m.d.comb += self._first.eq(turns.choose(heard, news))
        return Cat(every)

    def _send(self, m: Module, wanted: Value, fresh: Value, settled: Value) -> None:
        """Notices as packets, on each link."""
        for k, o in enumerate(self.o):
            header: Any = Signal(HEADER, name=f"header_{k}")
            told: Any = Signal(NOTICE, name=f"told_{k}")
            m.d.comb += [
                told.epoch.eq(self.epoch),
                told.cause.eq(self.cause),
                told.origin.eq(self.origin),
                told.fresh.eq(fresh[k]),
                told.settled.eq(settled[k]),
                header.offload.eq(1),
                header.kind.eq(Kind.SYNC),
                header.region.eq(self.node.region),
                header.source.eq(self.node.endpoint),
                *(header[name].eq(bits) for name, bits in notice_fields(told).items()),
                o.valid.eq(wanted[k]),
                o.p.first.eq(1),
                o.p.last.eq(1),
                o.p.data.eq(header.as_value()),
            ]


@dataclass(frozen=True)
class _Turns:
    """Events of a cycle that decide on the epoch."""

    follows: Signal  # a later one is followed
    starts: Signal  # one is begun here
    resets: Value  # the endpoint joins or leaves, whatever else
    same: Value  # what is heard is of it

    def choose(self, followed: Any, kept: Any, *, none: Any = 0) -> Value:
        """*followed* or *kept*; *none* when the endpoint has heard nobody in the next epoch."""
        return Mux(self.resets, none, Mux(self.follows, followed, Mux(self.starts, none, kept)))
