"""Epochs: joining the region, and giving everything up."""

from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value
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
from hw.switch_dma.layouts import NODE, heard_layout

__all__ = ["Membership"]

FLUSH_CYCLES = 8
"""At least: what was begun in the cycle in which an epoch ended shows as held by then."""


class Membership(wiring.Component):
    """Brings all members to one epoch, and to a later one when all-reduces are given up.

    Every endpoint tells all others, by a notice on each of its links, to which epoch it has come,
    when nothing of an earlier one is left in it. It is *open* to a link when it has heard so from
    all others by this link. When it is open to all links, it tells that it is *settled*. When it
    has heard that from all others, it is *ready*, and sends operands. So these exist only when
    nothing of an earlier epoch is left in any endpoint, nor on any way between two: a notice has
    gone along it, and switches pass on a notice when they hold nothing that is older.

    A later epoch than one's own is followed. An endpoint that joins says so: whoever has heard from
    it in the present epoch begins the next one, since it may have sent operands that it does not
    remember; the others tell it where they are. A switch that knows more than its notice says
    answers in the endpoint's own name, and is followed, too.

    Parameters
    ----------
    config : SwitchDmaConfig

    Members
    -------
    node : ``In(NODE)``
    join : ``In(1)``
        Join the region, anew if need be.
    leave : ``In(1)``
        Be no member until the next `join`.
    give_up, disagreed, overflow, stalled : ``In(1)``
        Reasons to begin a new epoch.
    outstanding : ``In(1)``
        There are all-reduces to be given up.
    heard : ``In(stream.Signature(heard_layout(config), always_ready=True))``
        What another endpoint tells.
    o : ``Out(stream.Signature(FLIT)).array(links)``
        Notices to the others, as packets without checksum. One that waits is the latest, or none,
        if it is not true any more.
    busy : ``In(1)``
        Something of the epoch before may still leave, or be taken.
    unanswered : ``In(1)``
        Memory has still to answer something of the epoch before.
    epoch : ``Out(32)``
    rank : ``Out(range(endpoints))``
        Members with lower numbers, once `ready`.
    flush : ``Out(1)``
        Forget everything.
    joined : ``Out(1)``
        `join` was given.
    open : ``Out(links)``
        All others have come to this epoch, and said so by this link.
    ready : ``Out(1)``
        All others have heard from all.
    aborted : ``Out(1)``
        High for one cycle when an epoch ends in which this endpoint had commands, or was ready and
        does not end it by `join` or `leave`.
    cause : ``Out(AbortCause)``, origin : ``Out(...)``
        Why the last epoch ended, and which endpoint ended it.
    """

    node: Any
    join: Signal
    leave: Signal
    give_up: Signal
    disagreed: Signal
    overflow: Signal
    stalled: Signal
    outstanding: Signal
    heard: stream.Interface
    o: Any
    busy: Signal
    unanswered: Signal
    epoch: Signal
    rank: Signal
    flush: Signal
    joined: Signal
    open: Signal
    ready: Signal
    aborted: Signal
    cause: Any
    origin: Signal

    def __init__(self, config: SwitchDmaConfig) -> None:
        c = self._config = config
        inputs = ("join", "leave", "give_up", "disagreed", "overflow", "stalled", "outstanding",
                  "busy", "unanswered")
        super().__init__(
            {
                "node": In(NODE),
                **dict.fromkeys(inputs, In(1)),
                "heard": In(stream.Signature(heard_layout(c), always_ready=True)),
                "o": Out(stream.Signature(FLIT)).array(c.links),
                "epoch": Out(EPOCH_BITS),
                "rank": Out(range(c.endpoints)),
                "flush": Out(1),
                "joined": Out(1),
                "open": Out(c.links),
                "ready": Out(1),
                "aborted": Out(1),
                "cause": Out(AbortCause),
                "origin": Out(HEADER["source"].width),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        c = self._config
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
        # By link, who has come to this epoch, and by any link, who is settled in it.
        come = [Signal(c.endpoints, name=f"come_{k}") for k in range(c.links)]
        counts = [Signal(range(c.endpoints + 1), name=f"count_{k}") for k in range(c.links)]
        settled = Signal(c.endpoints)
        resting = Signal(range(c.endpoints + 1))  # how many they are
        tell, fresh = Signal(c.links), Signal(c.links)
        newcomer = Signal()  # has not settled since it joined
        settles, said = Signal(), Signal()
        known = Array(come)[call.link].bit_select(caller, 1)
        there = self.joined & ~self.flush
        m.d.comb += [
            self.open.eq(
                Mux(there, Cat(count + 1 == self.node.members for count in counts), 0)
            ),
            settles.eq(self.open.all()),
            self.ready.eq(settles & (resting + 1 == self.node.members) & ~self.unanswered),
        ]
        listens = called & self.joined
        later = told.epoch > self.epoch
        same = told.epoch == self.epoch
        returned = listens & ~own & told.fresh & known  # it was reset and does not remember
        reasons = [
            (self.give_up, AbortCause.SOFTWARE),
            (self.disagreed, AbortCause.DISAGREEMENT),
            (self.overflow, AbortCause.OVERFLOW),
            (self.stalled, AbortCause.WATCHDOG),
        ]
        ends = there & Cat(event for event, _ in reasons).any()
        follows, starts, hears = Signal(), Signal(), Signal()  # one of them, or none
        changes = follows | starts | self.join | self.leave
        m.d.comb += [
            follows.eq(listens & later & ~returned),
            starts.eq((ends | returned) & ~follows),
            hears.eq(listens & ~own & same & ~starts),
        ]
        taken = Cat(each.valid & each.ready for each in self.o)
        asked = Mux(listens & ~own & told.fresh, Cat(here), 0)
        m.d.sync += [
            fresh.eq(fresh & ~taken),
            tell.eq(((tell | (settles & ~said).replicate(c.links)) & ~taken) | asked),
            said.eq(settles),
            newcomer.eq(newcomer & ~settles),
        ]
        with m.If(hears | follows):
            lower = caller < self.node.endpoint
            first = follows & ~own
            for k, (each, count) in enumerate(zip(come, counts)):
                news = here[k] & hears & ~known
                m.d.sync += [
                    each.eq(Mux(follows, (first & here[k]) << caller, each | (news << caller))),
                    count.eq(Mux(follows, first & here[k], count + news)),
                ]
            rests = Mux(follows, first, ~settled.bit_select(caller, 1)) & told.settled
            m.d.sync += [
                settled.eq(Mux(follows, 0, settled) | (rests << caller)),
                resting.eq(Mux(follows, 0, resting) + rests),
                self.rank.eq(Mux(follows, 0, self.rank) + (rests & lower)),
            ]
        with m.If(follows):
            m.d.sync += [
                self.epoch.eq(told.epoch), self.cause.eq(told.cause), self.origin.eq(told.origin),
            ]
        with m.Elif(starts):
            latest = Mux(returned & later, told.epoch, self.epoch)
            m.d.sync += [
                self.epoch.eq(latest + 1),
                self.cause.eq(AbortCause.RESET),
                self.origin.eq(Mux(returned, caller, self.node.endpoint)),
            ]
            for event, cause in reversed(reasons):
                with m.If(event & ~returned):
                    m.d.sync += self.cause.eq(cause)
        with m.If(starts | self.join | self.leave):
            m.d.sync += [
                *(each.eq(0) for each in (*come, *counts)),
                settled.eq(0), resting.eq(0), self.rank.eq(0),
            ]
        with m.If(follows | starts):
            m.d.sync += tell.eq(~0)
        with m.If(follows & newcomer):  # others may have told before, when nobody was here to hear
            m.d.sync += fresh.eq(~0)
        with m.If(self.join | self.leave):
            every = self.join.replicate(c.links)
            m.d.sync += [
                self.joined.eq(self.join), tell.eq(every), fresh.eq(every), newcomer.eq(self.join),
            ]
        # Who joins or leaves knows it, so that alone is no reason to tell software.
        m.d.comb += self.aborted.eq(
            ((follows | starts) & self.ready) | (changes & self.outstanding)
        )
        wait = Signal(range(FLUSH_CYCLES + 1))
        with m.If(changes):
            m.d.sync += [self.flush.eq(1), wait.eq(FLUSH_CYCLES)]
        with m.Elif(wait != 0):
            m.d.sync += wait.eq(wait - 1)
        with m.Elif(~self.busy):
            m.d.sync += self.flush.eq(0)
        self._send(m, tell & ~self.flush.replicate(c.links), fresh, settles)
        return m

    def _send(self, m: Module, wanted: Value, fresh: Signal, settled: Value) -> None:
        """Notices as packets, on each link."""
        for k, o in enumerate(self.o):
            header: Any = Signal(HEADER, name=f"header_{k}")
            told: Any = Signal(NOTICE, name=f"told_{k}")
            m.d.comb += [
                told.epoch.eq(self.epoch),
                told.cause.eq(self.cause),
                told.origin.eq(self.origin),
                told.fresh.eq(fresh[k]),
                told.settled.eq(settled),
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
