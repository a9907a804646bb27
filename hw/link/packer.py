# SPDX-License-Identifier: Apache-2.0
"""Packs packets densely onto a link."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.params import require_choice, require_int
from hw.link.packet import FLIT_BITS, link_beat_layout

__all__ = ["LinkPacker", "packet_beat_layout"]


def packet_beat_layout(flits: int, *, flit_bits: int = FLIT_BITS) -> data.StructLayout:
    """A beat of one packet: payload flits, aligned, and the header beside the first of them.

    ``count`` is the number of payload flits that exist, a prefix of ``data``. Every beat of a
    packet but the last has all of them; only a packet without payload has a beat with none. A
    ``first`` beat says beside, earlier, whether it is ``full``: whether all of them exist.
    """
    return data.StructLayout(
        {
            "first": 1,
            "full": 1,
            "header": flit_bits,
            "count": range(flits + 1),
            "data": data.ArrayLayout(flit_bits, flits),
        }
    )


class LinkPacker(wiring.Component):
    """Gearbox from aligned packet beats to gapless link beats.

    Latency is 1 cycle; throughput is one link beat per cycle. A header and a full payload beat are
    one flit more than a link beat, so ``i`` pauses for one cycle in every ``flits`` such pairs; the
    wire does not. A beat that is not full waits for ``flush_after`` cycles without an offer at
    ``i``, then it is sent as it is. ``i.ready`` depends on ``o.ready`` and on what ``i`` offers.

    Parameters
    ----------
    flits : int
        Flits per beat: 1, 2, 4 or 8.
    flush_after : int
        Idle cycles before an incomplete beat is sent, at least 1.
    flit_bits : int
        Bits per flit.

    Members
    -------
    i : ``In(stream.Signature(packet_beat_layout(flits)))``
        Packets; beats of a packet follow each other.
    o : ``Out(stream.Signature(link_beat_layout(flits)))``
        The wire. ``o.valid`` comes from a register.
    empty : ``Out(1)``
        Nothing is held.
    """

    i: stream.Interface
    o: stream.Interface
    empty: Signal

    def __init__(self, flits: int, *, flush_after: int = 8, flit_bits: int = FLIT_BITS) -> None:
        self._flits = require_choice("flits per beat", flits, (1, 2, 4, 8))
        self._flush_after = require_int("flush_after", flush_after)
        self._flit_bits = require_int("flit_bits", flit_bits)
        super().__init__(
            {
                "i": In(stream.Signature(packet_beat_layout(flits, flit_bits=flit_bits))),
                "o": Out(stream.Signature(link_beat_layout(flits, flit_bits=flit_bits))),
                "empty": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        flits = self._flits
        flit = data.StructLayout({"bits": self._flit_bits, "start": 1})
        held = Signal(data.ArrayLayout(flit, flits))
        level = Signal(range(flits + 1))

        advance = Signal()
        arriving = Signal(range(flits + 2))
        accept = Signal()
        m.d.comb += [
            advance.eq(~self.o.valid | self.o.ready),
            arriving.eq(self.i.p.first + self.i.p.count),
            # What is held and what comes are at most one flit too many.
            accept.eq((level != flits) | ~self.i.p.first | ~self.i.p.full),
            self.i.ready.eq(advance & accept),
        ]

        # The window is what is held, followed by what arrives.
        header = Signal(flit)
        m.d.comb += [header.bits.eq(self.i.p.header), header.start.eq(1)]
        payload = [Cat(self.i.p.data[n], Const(0, 1)) for n in range(flits)]
        incoming = Cat(
            Mux(self.i.p.first, header.as_value(), payload[0]),
            *(Mux(self.i.p.first, payload[n - 1], payload[n]) for n in range(1, flits)),
            payload[flits - 1],
        )
        taken = Signal(range(flits + 2))
        total = Signal(range(2 * flits + 1))
        window = Signal(2 * flits * flit.size)
        m.d.comb += [
            taken.eq(Mux(self.i.valid & accept, arriving, 0)),
            total.eq(level + taken),
        ]
        with m.Switch(level):
            for count in range(flits + 1):
                with m.Case(count):
                    m.d.comb += window.eq(Cat(held.as_value()[: count * flit.size], incoming))

        patience = Signal(range(self._flush_after + 1), init=self._flush_after)
        flush = Signal()
        emit = Signal()
        m.d.comb += [
            flush.eq((patience == 0) & (total != 0)),
            emit.eq((total >= flits) | flush),
            self.empty.eq((level == 0) & ~self.o.valid),
        ]
        # Counting stops at zero and restarts with the next flits: an idle packer changes nothing.
        with m.If(self.i.valid | (level == 0)):
            m.d.sync += patience.eq(self._flush_after)
        with m.Elif(patience != 0):
            m.d.sync += patience.eq(patience - 1)

        # Beats, and what is held, change whenever a beat may leave; only whether there is one, and
        # how much is held, depend on what came.
        rest = window[flits * flit.size :]
        if flits > 1:
            rest = Mux(emit, rest, window[: flits * flit.size])
        out = self.o.p
        with m.If(advance):
            m.d.sync += [self.o.valid.eq(emit), held.eq(rest)]
            with m.If(emit):
                m.d.sync += level.eq(Mux(total >= flits, total - flits, 0))
            with m.Else():
                m.d.sync += level.eq(total)
            for n in range(flits):
                entry = data.View(flit, window[n * flit.size : (n + 1) * flit.size])
                m.d.sync += [
                    out.data[n].eq(entry.bits),
                    out.keep[n].eq(total > n),
                    out.start[n].eq((total > n) & entry.start),
                ]
        return m
