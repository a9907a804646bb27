"""Epochs: joining the region, and giving everything up."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.switch.packet import FLIT, HEADER, Kind
from hw.switch_dma.config import SwitchDmaConfig
from hw.switch_dma.layouts import EPOCH_BITS, NODE, NOTICE, AbortCause

__all__ = ["Membership"]

FLUSH_CYCLES = 4


class Membership(wiring.Component):
    """Brings all members to one epoch, and to a later one when all-reduces are given up.

    Every endpoint tells all others, by a notice through the network, to which epoch it has come,
    and sends operands only when it has heard from each of them that they are there too. Packets of
    other epochs are dropped. So whatever was under way before does not meet what comes after.

    A later epoch than one's own is followed. An endpoint that joins says so: whoever has heard from
    it in the present epoch begins the next one, since it may have sent operands that it does not
    remember; the others tell it where they are.

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
    notice : ``In(stream.Signature(NOTICE, always_ready=True))``, sender : ``In(...)``
        What another endpoint tells.
    o : ``Out(stream.Signature(FLIT))``
        Notices to the others, as packets without checksum.
    busy : ``In(1)``
        Something of the epoch before is under way.
    epoch : ``Out(32)``
    rank : ``Out(range(endpoints))``
        Members with lower numbers, once `ready`.
    flush : ``Out(1)``
        Forget everything.
    joined : ``Out(1)``
        `join` was given.
    ready : ``Out(1)``
        All members have come to this epoch.
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
    notice: stream.Interface
    sender: Signal
    o: stream.Interface
    busy: Signal
    epoch: Signal
    rank: Signal
    flush: Signal
    joined: Signal
    ready: Signal
    aborted: Signal
    cause: Any
    origin: Signal

    def __init__(self, config: SwitchDmaConfig) -> None:
        c = self._config = config
        inputs = ("join", "leave", "give_up", "disagreed", "overflow", "stalled", "outstanding",
                  "busy")
        super().__init__(
            {
                "node": In(NODE),
                **dict.fromkeys(inputs, In(1)),
                "notice": In(stream.Signature(NOTICE, always_ready=True)),
                "sender": In(HEADER["source"].width),
                "o": Out(stream.Signature(FLIT)),
                "epoch": Out(EPOCH_BITS),
                "rank": Out(range(c.endpoints)),
                "flush": Out(1),
                "joined": Out(1),
                "ready": Out(1),
                "aborted": Out(1),
                "cause": Out(AbortCause),
                "origin": Out(HEADER["source"].width),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        c = self._config
        call: Any = Signal(NOTICE)
        caller = Signal(range(c.endpoints))
        called = Signal()
        m.d.sync += [
            called.eq(self.notice.valid & (self.sender < c.endpoints)
                      & (self.sender != self.node.endpoint)),
            call.eq(self.notice.p),
            caller.eq(self.sender),
        ]
        heard = Signal(c.endpoints)
        count = Signal(range(c.endpoints + 1))
        tell, fresh = Signal(), Signal()
        later, same = Signal(), Signal()
        known = heard.bit_select(caller, 1)
        m.d.comb += [
            later.eq(call.epoch > self.epoch),
            same.eq(call.epoch == self.epoch),
            self.ready.eq(self.joined & ~self.flush & (count + 1 == self.node.members)),
        ]
        listens = called & self.joined
        returned = listens & call.fresh & known  # it has been reset and does not remember
        own = [
            (self.give_up, AbortCause.SOFTWARE),
            (self.disagreed, AbortCause.DISAGREEMENT),
            (self.overflow, AbortCause.OVERFLOW),
            (self.stalled, AbortCause.WATCHDOG),
        ]
        ends = self.joined & ~self.flush & Cat(event for event, _ in own).any()
        starts = Signal()  # a new epoch here
        m.d.comb += starts.eq(ends | returned)
        follows = listens & later & ~returned
        lower = caller < self.node.endpoint

        with m.If(self._sent):
            m.d.sync += [tell.eq(0), fresh.eq(0)]
        with m.If(follows):
            m.d.sync += [
                self.epoch.eq(call.epoch), self.cause.eq(call.cause), self.origin.eq(call.origin),
                heard.eq(1 << caller), count.eq(1), self.rank.eq(lower), tell.eq(1),
            ]
        with m.Elif(starts):
            latest = Mux(returned & later, call.epoch, self.epoch)
            m.d.sync += [
                self.epoch.eq(latest + 1), heard.eq(0), count.eq(0), self.rank.eq(0), tell.eq(1),
                self.cause.eq(AbortCause.RESET),
                self.origin.eq(Mux(returned, caller, self.node.endpoint)),
            ]
            for event, cause in reversed(own):
                with m.If(event & ~returned):
                    m.d.sync += self.cause.eq(cause)
        with m.Elif(listens):
            with m.If(same & ~known):
                m.d.sync += [
                    heard.bit_select(caller, 1).eq(1), count.eq(count + 1),
                    self.rank.eq(self.rank + lower),
                ]
            with m.If(call.fresh):
                m.d.sync += tell.eq(1)
        with m.If(self.join | self.leave):
            m.d.sync += [
                self.joined.eq(self.join), heard.eq(0), count.eq(0), self.rank.eq(0),
                tell.eq(self.join), fresh.eq(self.join),
            ]
        changes = follows | starts | self.join | self.leave
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
        self._send(m, tell & ~self.flush, fresh)
        return m

    @property
    def _sent(self) -> Value:
        """The header of a notice is taken."""
        return self.o.valid & self.o.ready & self.o.p.first

    def _send(self, m: Module, wanted: Value, fresh: Signal) -> None:
        """Notices as packets; a header that was shown stays until it is taken."""
        c = self._config
        place = Signal(range(c.packet_flits))
        shown = Signal()
        new = Signal()
        header: Any = Signal(HEADER)
        told: Any = Signal(NOTICE)
        m.d.comb += [
            header.offload.eq(1),
            header.kind.eq(Kind.RESULT),
            header.region.eq(self.node.region),
            header.source.eq(self.node.endpoint),
            header.destination.eq(self.node.endpoint),
            header.poison.eq(1),
            told.epoch.eq(self.epoch),
            told.cause.eq(self.cause),
            told.origin.eq(self.origin),
            told.fresh.eq(new),
            self.o.valid.eq(shown),
            self.o.p.first.eq(place == 0),
            self.o.p.last.eq(place == c.payload_flits),
            self.o.p.data.eq(
                Mux(place == 0, header.as_value(), Mux(place == 1, told.as_value(), 0))
            ),
        ]
        with m.If(~shown):
            m.d.sync += shown.eq(wanted)
        with m.Elif(self.o.ready):
            m.d.sync += place.eq(Mux(place == c.payload_flits, 0, place + 1))
            with m.If(place == 0):
                m.d.sync += new.eq(fresh)
            with m.If(place == c.payload_flits):
                m.d.sync += shown.eq(0)
