# SPDX-License-Identifier: Apache-2.0
"""An output of the crossbar: whose packet it takes, and when."""

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.common.arbiter import granted
from hw.common.params import require_int
from hw.link.packet import FLIT_BITS, checksum_of
from hw.switch.formats import length_shape, rest_of
from hw.switch.packet import HEADER
from hw.switch.recount import Recount

__all__ = ["OutputPort", "count_anew", "to_wire"]

_READ_CYCLES = 2
"""Cycles from the one after a grant to a flit at the column."""


class OutputPort(wiring.Component):
    """Takes packets of several senders one after the other, each with a credit of its class.

    A sender finds an output `available` in one cycle and requests it in the next, if it is `open`
    then. A grant answers in the same cycle. The sender's flits come three cycles later, one per
    cycle, to a column of the crossbar, and leave that a cycle later. The next packet is granted so
    that its flits follow without a gap.

    Parameters
    ----------
    senders : int
        Inputs of the crossbar.
    classes : int
        Classes, each with credits of its own.
    credits : int
        Credits per class at first: packets that the buffer behind this output holds.
    flits : int
        Flits of a packet with data, at least 2; other packets are one flit.
    short : sequence of int
        Flits of packets with less data.
    recounts : bool
        Whether credits can be counted anew, see `hw.switch.recount`.
    held : int
        Senders, the first ones, whose requests may be held back.

    Members
    -------
    available : ``Out(classes)``
        There is a credit of the class, and no packet is under way in the next cycle, unless one is
        taken in this. Depends on registers only.
    ready : ``Out(classes)``
        There is a credit of the class, or was before a packet was taken in the cycle before; with
        that and not `occupied` it is as good as available, unless it was `shut`. A register.
    shut : ``In(classes)``
        The class is not ready in the next cycle, for other reasons.
    open : ``Out(classes)``
        There is a credit of the class, and no packet is under way. Likewise.
    request : ``In(senders)``
        Who has a packet, only of an open class.
    hold_back : ``In(1)``, only with *held*
        Requests of those that may be held back do not count. May come late in the cycle.
    traffic : ``In(range(classes)).array(senders)``
        Of which class.
    length : ``In(length_shape(short)).array(senders)``
        The codes of their packets' lengths, see `hw.switch.formats`.
    grant : ``Out(senders)``
        Whose is taken.
    granted : ``Out(senders)``
        Whose was taken in the cycle before: from then on its turn is over. A register.
    listens : ``Out(1)``
        A flit comes from its sender.
    valid, first, last : ``Out(1)``
        A flit leaves the column, the first or the last of its packet.
    credit : ``In(classes)``
        Room for a packet has become free.
    busy : ``Out(1)``
        Nothing is open, since a packet is under way.
    occupied : ``Out(1)``
        Nothing is available, since one is.
    credited : ``Out(classes)``
        There is a credit of the class.
    empty : ``Out(1)``
        No packet is under way.
    hold : ``In(1)``, only with *recounts*
        Nothing is available or open.
    forget : ``In(1)``, only with *recounts*
        Credits become none, and those that come do not count.
    home : ``Out(1)``, only with *recounts*
        All credits are here: what is behind this output holds nothing.
    """

    available: Signal
    ready: Signal
    shut: Signal
    open: Signal
    request: Signal
    hold_back: Signal
    traffic: Any
    length: Any
    grant: Signal
    granted: Signal
    listens: Signal
    valid: Signal
    first: Signal
    last: Signal
    credit: Signal
    busy: Signal
    occupied: Signal
    credited: Signal
    empty: Signal
    hold: Signal
    forget: Signal
    home: Signal

    def __init__(
        self, *, senders: int, classes: int, credits: int, flits: int, short: Sequence[int] = (),
        recounts: bool = False, held: int = 0,
    ) -> None:
        self._senders = require_int("OutputPort senders", senders)
        self._classes = require_int("OutputPort classes", classes)
        self._credits = require_int("OutputPort credits", credits)
        self._flits = require_int("OutputPort flits", flits, minimum=2)
        self._short = tuple(short)
        self._recounts = recounts
        self._held = require_int("OutputPort held", held, minimum=0, maximum=senders)
        super().__init__(
            {
                **({"hold": In(1), "forget": In(1), "home": Out(1)} if recounts else {}),
                "available": Out(classes),
                "ready": Out(classes),
                "shut": In(classes),
                "open": Out(classes),
                "request": In(senders),
                **({"hold_back": In(1)} if held else {}),
                "traffic": In(range(max(2, classes))).array(senders),
                "length": In(length_shape(self._short)).array(senders),
                "grant": Out(senders),
                "granted": Out(senders),
                **dict.fromkeys(("listens", "valid", "first", "last"), Out(1)),
                "credit": In(classes),
                "busy": Out(1),
                "occupied": Out(1),
                "credited": Out(classes),
                "empty": Out(1),
            }
        )

    def admits(self, traffic: Value) -> Value:
        """High if a packet of this class may be taken."""
        return Cat(self.open[k] & (traffic == k) for k in range(self._classes)).any()

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        left = Signal(range(self._flits))
        taken = Signal()  # one is
        starts = Signal()  # one was, in the cycle before
        m.d.sync += [starts.eq(taken), self.granted.eq(self.grant)]
        takes: Value = self.request.any()
        grant = granted(m, "turns", self.request, advance=starts, served=self.granted)
        if not self._held:
            m.d.comb += self.grant.eq(grant)
        elif self._held == self._senders:
            m.d.comb += self.grant.eq(Mux(self.hold_back, 0, grant))
            takes = takes & ~self.hold_back
        else:
            # Both choices are made before it is known who may take part.
            rest = self.request[self._held :]
            others = granted(
                m, "others", Cat(Const(0, self._held), rest), advance=starts, served=self.granted
            )
            m.d.comb += self.grant.eq(Mux(self.hold_back, others, grant))
            takes = Mux(self.hold_back, rest.any(), takes)
        m.d.comb += taken.eq(takes)

        def of_granted(values: Sequence[Value]) -> Value:
            """The value of the sender whose packet is taken; 0 if none is."""
            return reduce(or_, (Mux(self.grant[k], each, 0) for k, each in enumerate(values)))

        follow = [
            rest_of(self.length[k], self._flits, self._short) for k in range(self._senders)
        ]
        # What depends on grants comes last; much of the crossbar begins at these registers.
        m.d.sync += [
            left.eq(of_granted(follow) | Mux(taken | (left == 0), 0, left - 1)),
            self.busy.eq(of_granted([each != 0 for each in follow]) | (~taken & (left > 1))),
            self.occupied.eq(of_granted([each > 1 for each in follow]) | (~taken & (left > 2))),
        ]
        reads = Signal()
        with m.If(taken | ~self.busy):
            m.d.sync += reads.eq(taken)
        # The flit that is read now: whether there is one, the first, the last.
        flit = Cat(reads, starts, reads & ~self.busy)
        sent = [Signal.like(flit, name=f"flit_{k}") for k in range(_READ_CYCLES)]
        for before, after in zip((flit, *sent), sent):
            m.d.sync += after.eq(before)
        m.d.comb += self.listens.eq(sent[-1][0])
        m.d.sync += Cat(self.valid, self.first, self.last).eq(sent[-1])

        counts = []
        for number in range(self._classes):
            count = Signal(range(self._credits + 1), init=self._credits, name=f"credits_{number}")
            paid = of_granted([self.traffic[k] == number for k in range(self._senders)])
            # Grants come late: they are counted a cycle later, and only choose what is `credited`.
            came, spent = Signal(name=f"came_{number}"), Signal(name=f"spent_{number}")
            now = Signal.like(count, name=f"now_{number}")
            # A credit too many, after damage on a link, is not counted.
            kept = Mux(came & (count != self._credits), count + 1, count)
            credited = Signal(init=1, name=f"credited_{number}")  # there are some
            m.d.comb += now.eq(Mux(spent, Mux(came, count, count - 1), kept))
            m.d.sync += [
                came.eq(self.credit[number]), spent.eq(paid), count.eq(now),
                credited.eq(self.credit[number] | Mux(paid, now > 1, now != 0)),
            ]
            # What is paid in this cycle comes too late to be known.
            ready = Signal(init=1, name=f"ready_{number}")
            remains = (self.credit[number] | (now != 0)) & ~self.shut[number]
            allowed: Value = credited
            if self._recounts:
                remains = remains & ~self.hold
                allowed = credited & ~self.hold
            m.d.sync += ready.eq(remains)
            if self._recounts:
                with m.If(self.forget):
                    m.d.sync += [each.eq(0) for each in (came, spent, count, credited, ready)]
            m.d.comb += [
                self.available[number].eq(allowed & ~self.occupied),
                self.open[number].eq(allowed & ~self.busy),
                self.credited[number].eq(credited),
                self.ready[number].eq(ready),
            ]
            counts.append(now)
        if self._recounts:
            m.d.comb += self.home.eq(Cat(now == self._credits for now in counts).all())
        free = Signal(init=1)  # known a cycle early: `Recount` begins with it
        m.d.sync += free.eq(~Cat(taken, reads, *(each[0] for each in sent)).any())
        m.d.comb += self.empty.eq(free)
        return m


def count_anew(m: Module, output: OutputPort, recount: Recount) -> None:
    """Let *recount* count the credits of *output* anew."""
    m.d.comb += [
        output.hold.eq(recount.hold),
        output.forget.eq(recount.forget),
        recount.quiet.eq(output.empty),
    ]


def to_wire(
    m: Module, bits: Value, *, valid: Value, first: Value, recounts: Value, header: Any, tx: Any
) -> None:
    """The *bits* of flits, a cycle later, or the *header* of a `Recount`, another one later when
    nothing comes yet, to ``tx`` of a link.

    Headers get the checksum of what they have become.
    """
    sent, whole = Signal(FLIT_BITS), Signal(HEADER)
    told, tells = Signal(HEADER), Signal()
    m.d.sync += [told.eq(header), tells.eq(recounts)]
    begins = first | tells
    m.d.comb += [
        sent.eq(Mux(tells, told.as_value(), bits)),
        Value.cast(whole).eq(sent),
    ]
    with m.If(begins):
        m.d.comb += whole.checksum.eq(checksum_of(sent))
    m.d.sync += [
        tx.valid.eq(valid | tells),
        tx.p.start.eq(begins),
        tx.p.data.eq(whole.as_value()),
    ]
