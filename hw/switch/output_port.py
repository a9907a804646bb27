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
from hw.switch.packet import FLIT, HEADER
from hw.switch.recount import Recount

__all__ = ["OutputPort", "drive_link"]

_SELECTED_BITS = 4
_SELECTED = 1 << _SELECTED_BITS
"""Senders among which one is selected before a register: a LUT of six inputs takes four, so these
are five LUTs a bit. The registers of two such groups are joined behind them, in another."""


class OutputPort(wiring.Component):
    """Takes packets of several senders one after the other, each with a credit of its class.

    A grant answers in the same cycle. The sender's flits come two cycles later, one per cycle; they
    leave a cycle after that. The next packet is granted so that its flits follow without a gap.

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
    flits : ``In(FLIT).array(senders)``, ``valids`` : ``In(senders)``
        What the senders send.
    flit : ``Out(FLIT)``, ``valid`` : ``Out(1)``
        What leaves.
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
    flits: Any
    valids: Signal
    flit: Any
    valid: Signal
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
                "flits": In(FLIT).array(senders),
                "valids": In(senders),
                "flit": Out(FLIT),
                "valid": Out(1),
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
        source, listens = Signal(), Signal()  # flits are read now, they come now
        # From whom: a number, since that selects with fewer LUTs than a bit for each.
        giver = Signal(range(max(2, self._senders)))
        giver_now = Signal.like(giver)
        with m.If(taken):
            m.d.sync += [
                left.eq(rest_of(of_granted(self.length), self._flits, self._short)),
                source.eq(1),
                giver.eq(_number_of(turns.grant)),
            ]
        with m.Elif(left != 0):
            m.d.sync += left.eq(left - 1)
        with m.Else():
            m.d.sync += source.eq(0)
        m.d.sync += [listens.eq(source), giver_now.eq(giver)]

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
        sent = [
            Cat(Value.cast(self.flits[k]), self.valids[k]) for k in range(self._senders)
        ]
        halves = []
        for first in range(0, self._senders, _SELECTED):
            heard = Signal(len(sent[0]), name=f"heard_{first}")
            of_these = listens & (giver_now[_SELECTED_BITS:] == first // _SELECTED)
            low = giver_now[:_SELECTED_BITS]
            m.d.sync += heard.eq(
                Mux(of_these, _select(low, sent[first : first + _SELECTED]), 0)
            )
            halves.append(heard)
        m.d.comb += Cat(Value.cast(self.flit), self.valid).eq(reduce(or_, halves))
        m.d.comb += self.empty.eq(~(source | listens | self.valid))
        return m


def _select(number: Value, values: Sequence[Value]) -> Value:
    """The value with this number: a balanced tree, of which two levels are a LUT of six inputs."""
    level, rest = list(values), list(number)
    while len(level) > 1:
        bit = rest.pop(0)
        pairs = [level[k : k + 2] for k in range(0, len(level), 2)]
        level = [Mux(bit, each[1], each[0]) if each[1:] else each[0] for each in pairs]
    return level[0]


def _number_of(which: Value) -> Value:
    """The number of the bit that is set."""
    bits = range(max(1, (len(which) - 1).bit_length()))
    return Cat(
        Cat(which[k] for k in range(len(which)) if k >> bit & 1).any() for bit in bits
    )


def drive_link(
    m: Module, output: OutputPort, *, tx: Any, credit: Any, recount: Recount | None = None
) -> None:
    """What leaves *output* to ``tx`` of a link, a cycle later, and between packets what *recount*
    says to the neighbour.

    Headers get the checksum of what they have become.
    """
    header: Any = Signal(HEADER)
    valid: Value = output.valid
    first: Value = output.flit.first
    bits: Value = output.flit.data
    if recount is not None:
        valid, first = valid | recount.valid, first | recount.valid
        bits = Signal(FLIT_BITS)
        m.d.comb += [
            bits.eq(Mux(recount.valid, recount.header.as_value(), output.flit.data)),
            output.hold.eq(recount.hold),
            output.forget.eq(recount.forget),
            recount.quiet.eq(output.empty),
        ]
    m.d.comb += [Value.cast(header).eq(bits), header.checksum.eq(checksum_of(bits))]
    m.d.sync += [
        tx.valid.eq(valid),
        tx.p.start.eq(first),
        tx.p.data.eq(Mux(first, header.as_value(), output.flit.data)),
        output.credit.eq(credit),
    ]
