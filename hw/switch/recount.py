# SPDX-License-Identifier: Apache-2.0
"""Credits of a link counted anew: after a reset of one end, or when some were lost."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.common.params import require_int
from hw.switch.layouts import AskedSignature
from hw.switch.packet import HEADER, Kind

__all__ = ["GUARD_CYCLES", "RETRY_CYCLES", "Recount", "Refunds", "give_credits"]

GUARD_CYCLES = 256
"""Cycles in which an end gives no credit before it answers, and again afterwards. Credits given
before must have arrived, and those given anew must not arrive before the answer, on whatever wires:
with retry, they travel in frames that take turns."""

RETRY_CYCLES = 4096
"""Cycles that an end waits for the answer before it asks again: more than the guard and a round
trip, or no answer would ever be the one to the last question."""


class Recount(wiring.Component):
    """One end of a link whose credits can be counted anew, for both directions.

    **The sender** of packets stops between two of them, forgets its credits, ignores those that
    come, and asks: COUNT with a number. Without an answer it asks again with the next number. With
    the answer to its last question it counts credits again, and goes on.

    **The receiver** of packets that is asked gives no credits for a while, until those that it gave
    before have arrived and were ignored; then it answers COUNTED, with the number, and some time
    later gives credits for all the room that it has. All that the sender sent before its question
    has arrived, since a link keeps the order; so credits at the sender, on their way, due, and
    packets held make up the size of the buffer again, whatever was lost before.

    Parameters
    ----------
    guard : int
        Cycles without credits before an answer, and behind it.
    retry : int
        Cycles until the question is repeated.

    Members
    -------
    start : ``In(1)``
        Count anew, in both directions.
    cancel : ``In(1)``
        Stop asking, and wait for nothing: the link is out of service.
    asked : ``In(AskedSignature())``
        The receiver's side: what has come, and when no credits may be given.
    quiet : ``In(1)``
        No packet is on its way to the wire.
    hold : ``Out(1)``
        No packet may be begun. A register.
    forget : ``Out(1)``
        Credits of the sender are 0, and those that come do not count.
    header : ``Out(HEADER)``, valid : ``Out(1)``
        A header to send, without checksum; high for one cycle, in which `quiet` is high.
    counting : ``Out(1)``
        An answer is awaited, or a question is.
    """

    start: Signal
    cancel: Signal
    asked: Any
    quiet: Signal
    hold: Signal
    forget: Signal
    header: Any
    valid: Signal
    counting: Signal

    def __init__(self, *, guard: int = GUARD_CYCLES, retry: int = RETRY_CYCLES) -> None:
        self._guard = require_int("Recount guard", guard)
        self._retry = require_int("Recount retry", retry, minimum=guard + 1)
        super().__init__(
            {
                **dict.fromkeys(("start", "cancel", "quiet"), In(1)),
                **dict.fromkeys(("hold", "forget", "valid", "counting"), Out(1)),
                "header": Out(HEADER),
                "asked": In(AskedSignature()),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        asked = self.asked
        asks = Signal()  # the question is to be sent
        both = Signal()  # the question asks the peer to count its own, too
        number, theirs = Signal.like(asked.nonce), Signal.like(asked.nonce)
        waits = Signal(range(self._retry + 1))
        since = Signal(range(self._guard + 1))
        over = Signal(init=1)  # that is 0
        said = Signal()  # the answer was sent
        due = asked.mute & ~said & over
        held = Signal()
        settled = Signal()  # nothing is begun, nor was in the cycle before
        asking, answering = Signal(), Signal()
        m.d.comb += [
            asking.eq(asks & self.quiet & settled),
            answering.eq(due & self.quiet & settled & ~asks),
            self.valid.eq(asking | answering),
            asked.regrant.eq(said & over),
            self.header.offload.eq(1),
            self.header.kind.eq(Mux(asking, Kind.COUNT, Kind.COUNTED)),
            self.header.tag.eq(Mux(asking, number, theirs)),
            self.header.poison.eq(asking & both),
            self.counting.eq(self.forget | asked.mute),
        ]
        m.d.sync += [self.hold.eq(self.forget | asks | due), held.eq(self.hold)]
        m.d.comb += settled.eq(self.hold & held)
        with m.If(asked.mute & ~over):
            m.d.sync += [since.eq(since - 1), over.eq(since == 1)]
        with m.If(answering):
            m.d.sync += [said.eq(1), since.eq(self._guard), over.eq(0)]
        with m.If(asked.regrant):
            m.d.sync += [said.eq(0), asked.mute.eq(0)]
        with m.If(asked.count):
            m.d.sync += [
                asked.mute.eq(1), said.eq(0), since.eq(self._guard), over.eq(0),
                theirs.eq(asked.nonce),
            ]
        with m.If(asking):
            m.d.sync += [asks.eq(0), self.forget.eq(1), waits.eq(self._retry)]
        with m.Elif(self.forget & ~asks):
            with m.If(waits != 0):
                m.d.sync += waits.eq(waits - 1)
            with m.Else():
                m.d.sync += [asks.eq(1), number.eq(number + 1)]
        with m.If(self.forget & ~asks & asked.counted & (asked.nonce == number)):
            m.d.sync += [self.forget.eq(0), asks.eq(0)]
        with m.If(self.start | (asked.count & asked.both)):
            # A peer that asks so counts its own already; asked again, both ends would for ever.
            m.d.sync += [asks.eq(1), number.eq(number + 1), both.eq(self.start)]
        with m.If(self.cancel):
            m.d.sync += [asks.eq(0), self.forget.eq(0)]
        return m


@dataclass(frozen=True, kw_only=True)
class Refunds:
    """Events of a class: a packet begins to be stored; one is dropped though a credit was paid for
    it; the number of packets begun that are given up."""

    begun: Value
    dropped: Value
    cut_off: Value


def give_credits(
    m: Module, refunds: Sequence[Refunds], *, freed: Value, credit: Value, mute: Value,
    regrant: Value, most: int,
) -> Value:
    """Give credits back at the receiver of a link: one per class and cycle, more that are due wait.

    Parameters
    ----------
    refunds:
        By class, what becomes of packets that come. Counted a cycle later, as a verdict on a packet
        comes late in its cycle; so is `regrant`, for the order to stay.
    freed:
        Bit by class: a packet that was stored has left.
    credit:
        Driven: bit by class.
    mute, regrant:
        Of the `Recount` of this end.
    most:
        Packets of a class for which there is room.

    Returns
    -------
    Value
        High if credits are due, or none may be given.
    """
    waiting = [mute]
    anew = Signal(name="regrants")
    m.d.sync += anew.eq(regrant)
    for number, of in enumerate(refunds):
        owed = Signal(range(most + 1), name=f"owed_{number}")
        occupied = Signal(range(most + 1), name=f"occupied_{number}")
        begun, dropped = (
            Signal(name=f"{name}_{number}") for name in ("packet_begun", "packet_dropped")
        )
        cut_off = Signal(len(of.cut_off), name=f"packets_cut_off_{number}")
        m.d.sync += [begun.eq(of.begun), dropped.eq(of.dropped), cut_off.eq(of.cut_off)]
        gives = (owed != 0) & ~(mute | anew)
        stays = Signal(range(most + 1), name=f"stays_{number}")
        due = Signal(range(most + 6), name=f"due_{number}")
        m.d.comb += [
            stays.eq(occupied + begun - freed[number] - cut_off),
            due.eq(owed + freed[number] + dropped + cut_off - gives),
        ]
        m.d.sync += [
            occupied.eq(stays),
            # A sender that pays for nothing cannot earn more than there is.
            owed.eq(Mux(anew, most - stays, Mux(due > most, most, due))),
            credit[number].eq(gives),
        ]
        waiting += [owed != 0, dropped, cut_off != 0]
    return Cat(*waiting, anew).any()
