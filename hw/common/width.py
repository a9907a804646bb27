"""Conversion of streams between widths."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.params import require_int

__all__ = ["WidthAdapter", "beat_layout"]


def beat_layout(width: int, unit: int = 8) -> data.StructLayout:
    """Beat of *width* bits in units of *unit* bits, each with a bit in ``keep`` that it counts."""
    return data.StructLayout({"data": width, "keep": width // unit, "last": 1})


class WidthAdapter(wiring.Component):
    """Packs narrow beats into wide ones, or cuts wide beats into narrow ones.

    One width must be a multiple of the other. The units of a packet keep their order, and a packet
    ends with the same unit as before; ``last`` is set on its last beat.

    *Wider*: a wide beat leaves when it is full or its packet ends; the parts that are missing then
    have ``keep`` zero. Latency is 1 cycle from its last narrow beat.
    *Narrower*: a wide beat is cut from the low end; narrow beats after the last kept unit are left
    out, but at least one is sent. Latency is 1 cycle to the first narrow beat.

    Throughput is 1 beat per cycle on the narrow side, without a bubble between beats or packets.
    ``o`` depends on registers only; ``o.ready`` acts on ``i.ready`` in the same cycle.

    Parameters
    ----------
    i_width, o_width : int
        Bits of data in a beat.
    unit : int
        Bits of data that a bit of ``keep`` stands for; must divide both widths.

    Members
    -------
    i : ``In(stream.Signature(beat_layout(i_width, unit)))``
        Beats to convert.
    o : ``Out(stream.Signature(beat_layout(o_width, unit)))``
        Converted beats.
    """

    i: stream.Interface
    o: stream.Interface

    def __init__(self, *, i_width: int, o_width: int, unit: int = 8) -> None:
        require_int("WidthAdapter unit", unit)
        for name, width in {"i_width": i_width, "o_width": o_width}.items():
            require_int(f"WidthAdapter {name}", width)
            if width % unit:
                raise ValueError(
                    f"WidthAdapter {name} must be a multiple of the unit of {unit}, not {width!r}"
                )
        narrow, wide = sorted([i_width, o_width])
        if wide % narrow:
            raise ValueError(
                f"WidthAdapter i_width and o_width must be one a multiple of the other, "
                f"not {i_width!r} and {o_width!r}"
            )
        self._parts = wide // narrow
        self._widen = o_width >= i_width
        super().__init__(
            {
                "i": In(stream.Signature(beat_layout(i_width, unit))),
                "o": Out(stream.Signature(beat_layout(o_width, unit))),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        if self._widen:
            self._pack(m)
        else:
            self._cut(m)
        return m

    def _pack(self, m: Module) -> None:
        i, o = self.i, self.o
        part = Signal(range(self._parts))  # where the next narrow beat goes
        m.d.comb += i.ready.eq(~o.valid | o.ready)
        with m.If(o.ready):
            m.d.sync += o.valid.eq(0)
        with m.If(i.valid & i.ready):
            full = part == self._parts - 1
            m.d.sync += [
                o.valid.eq(full | i.p.last),
                o.p.last.eq(i.p.last),
                part.eq(Mux(full | i.p.last, 0, part + 1)),
            ]
            with m.If(part == 0):
                m.d.sync += o.p.keep.eq(0)
            for index in range(self._parts):
                with m.If(part == index):
                    m.d.sync += [
                        o.p.data.word_select(index, len(i.p.data)).eq(i.p.data),
                        o.p.keep.word_select(index, len(i.p.keep)).eq(i.p.keep),
                    ]

    def _cut(self, m: Module) -> None:
        i, o = self.i, self.o
        beat = Signal.like(i.payload)  # what has not been sent, moved to the low end
        valid = Signal()
        final = Signal()  # nothing to send after the part at the low end
        m.d.comb += [
            final.eq(~beat.keep[len(o.p.keep) :].any()),
            o.valid.eq(valid),
            o.p.data.eq(beat.data),
            o.p.keep.eq(beat.keep),
            o.p.last.eq(beat.last & final),
            i.ready.eq(~valid | (o.ready & final)),
        ]
        with m.If(i.ready):
            m.d.sync += valid.eq(i.valid)
            with m.If(i.valid):
                m.d.sync += beat.eq(i.payload)
        with m.Elif(o.ready):
            m.d.sync += [
                beat.data.eq(beat.data[len(o.p.data) :]),
                beat.keep.eq(beat.keep[len(o.p.keep) :]),
            ]
