"""An output of the crossbar: whose packet it takes, and when."""

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.common.arbiter import RoundRobinArbiter
from hw.common.params import require_int
from hw.link.packet import FLIT_BITS, checksum_of
from hw.switch.formats import length_shape, rest_of
from hw.switch.packet import HEADER
from hw.switch.recount import Recount

__all__ = ["OutputPort", "count_anew", "to_wire"]


class OutputPort(wiring.Component):
    """Takes packets of several senders one after the other, each with a credit of its class.

    A grant answers in the same cycle. The sender's flits come two cycles later, one per cycle, to a
    column of the crossbar, and leave that a cycle later. The next packet is granted so that its
    flits follow without a gap.

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

    Members
    -------
    available : ``Out(classes)``
        No packet is under way, and there is a credit of the class.
    request : ``In(senders)``
        Who has a packet, only of an available class.
    traffic : ``In(range(classes)).array(senders)``
        Of which class.
    length : ``In(length_shape(short)).array(senders)``
        The codes of their packets' lengths, see `hw.switch.formats`.
    grant : ``Out(senders)``
        Whose is taken.
    listens : ``Out(1)``
        A flit comes from its sender.
    valid, first, last : ``Out(1)``
        A flit leaves the column, the first or the last of its packet.
    credit : ``In(classes)``
        Room for a packet has become free.
    busy : ``Out(1)``
        Nothing is available, since a packet is under way.
    credited : ``Out(classes)``
        There is a credit of the class.
    empty : ``Out(1)``
        No packet is under way.
    hold : ``In(1)``, only with *recounts*
        Nothing is available.
    forget : ``In(1)``, only with *recounts*
        Credits become none, and those that come do not count.
    home : ``Out(1)``, only with *recounts*
        All credits are here: what is behind this output holds nothing.
    """

    available: Signal
    request: Signal
    traffic: Any
    length: Any
    grant: Signal
    listens: Signal
    valid: Signal
    first: Signal
    last: Signal
    credit: Signal
    busy: Signal
    credited: Signal
    empty: Signal
    hold: Signal
    forget: Signal
    home: Signal

    def __init__(
        self, *, senders: int, classes: int, credits: int, flits: int, short: Sequence[int] = (),
        recounts: bool = False,
    ) -> None:
        self._senders = require_int("OutputPort senders", senders)
        self._classes = require_int("OutputPort classes", classes)
        self._credits = require_int("OutputPort credits", credits)
        self._flits = require_int("OutputPort flits", flits, minimum=2)
        self._short = tuple(short)
        self._recounts = recounts
        super().__init__(
            {
                **({"hold": In(1), "forget": In(1), "home": Out(1)} if recounts else {}),
                "available": Out(classes),
                "request": In(senders),
                "traffic": In(range(max(2, classes))).array(senders),
                "length": In(length_shape(self._short)).array(senders),
                "grant": Out(senders),
                **dict.fromkeys(("listens", "valid", "first", "last"), Out(1)),
                "credit": In(classes),
                "busy": Out(1),
                "credited": Out(classes),
                "empty": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.turns = turns = RoundRobinArbiter(self._senders)
        left = Signal(range(self._flits))
        m.d.comb += [
            turns.requests.eq(self.request),
            turns.advance.eq(1),
            self.grant.eq(turns.grant),
        ]

        def of_granted(members: Any) -> Value:
            """The member of the sender whose packet is taken."""
            return reduce(or_, (Mux(turns.grant[k], members[k], 0) for k in range(self._senders)))

        m.d.comb += self.busy.eq(left != 0)
        taken = self.request.any()
        reads, starts, begins, ends = (Signal() for _ in range(4))  # flits are read at the sender
        with m.If(taken):
            m.d.sync += [
                left.eq(rest_of(of_granted(self.length), self._flits, self._short)), reads.eq(1),
            ]
        with m.Elif(left != 0):
            m.d.sync += left.eq(left - 1)
        with m.Else():
            m.d.sync += reads.eq(0)
        m.d.sync += [
            starts.eq(taken),
            self.listens.eq(reads), begins.eq(starts), ends.eq(reads & (left == 0)),
            self.valid.eq(self.listens), self.first.eq(begins), self.last.eq(ends),
        ]

        which = of_granted(self.traffic)
        counts = []
        for number in range(self._classes):
            count = Signal(range(self._credits + 1), init=self._credits, name=f"credits_{number}")
            paid = taken & (which == number)
            # A credit too many, after damage on a link, is not counted.
            extra = (count == self._credits) & ~paid
            m.d.sync += count.eq(count - paid + (self.credit[number] & ~extra))
            available = (left == 0) & (count != 0)
            if self._recounts:
                with m.If(self.forget):
                    m.d.sync += count.eq(0)
                available = available & ~self.hold
            m.d.comb += [
                self.available[number].eq(available),
                self.credited[number].eq(count != 0),
            ]
            counts.append(count)
        if self._recounts:
            m.d.comb += self.home.eq(Cat(count == self._credits for count in counts).all())
        m.d.comb += self.empty.eq(~(reads | self.listens | self.valid))
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
    """The *bits* of flits, or the *header* of a `Recount`, to ``tx`` of a link, a cycle later.

    Headers get the checksum of what they have become.
    """
    sent, whole = Signal(FLIT_BITS), Signal(HEADER)
    begins = first | recounts
    m.d.comb += [
        sent.eq(Mux(recounts, header.as_value(), bits)),
        Value.cast(whole).eq(sent),
        whole.checksum.eq(checksum_of(sent)),
    ]
    m.d.sync += [
        tx.valid.eq(valid | recounts),
        tx.p.start.eq(begins),
        tx.p.data.eq(Mux(begins, whole.as_value(), bits)),
    ]
