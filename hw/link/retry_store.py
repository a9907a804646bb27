# SPDX-License-Identifier: Apache-2.0
"""Frames in numbered slots: written flit by flit, read as a stream."""

from collections.abc import Callable
from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.params import require_int
from hw.common.sram import SRAMBank

__all__ = ["FrameStore", "stored_layout"]


def stored_layout(header: int, width: int) -> data.StructLayout:
    """A beat that leaves a `FrameStore`: the header (``first``), then the flits up to ``last``."""
    return data.StructLayout({"first": 1, "last": 1, "header": header, "data": width})


class FrameStore(wiring.Component):
    """Slots for a header and body flits each.

    A frame that is asked for comes at ``o`` a cycle later, header first, without a gap while ``o``
    is taken; the next one follows without a gap, too. Writes are seen by what is asked for in later
    cycles.

    Parameters
    ----------
    slots : int
        A power of two, at least 2.
    flits : int
        Body flits of a frame, at most.
    width, header : int
        Bits of a flit and of a header.
    length : callable
        Body flits of a frame, from its header, in hardware.

    Members
    -------
    write : ``In(1)``, slot : ``In(range(slots))``, place : ``In(range(flits))``, data : ``In``
        Write a body flit.
    enter : ``In(1)``, header : ``In``
        Write the header of the same slot.
    ask : ``In(1)``, which : ``In(range(slots))``, taken : ``Out(1)``
        Read a slot; that begins now.
    flush : ``In(1)``
        Read no further.
    o : ``Out(stream.Signature(stored_layout(header, width)))``
        The frame that is read.
    """

    write: Signal
    slot: Signal
    place: Signal
    data: Signal
    enter: Signal
    header: Signal
    ask: Signal
    which: Signal
    taken: Signal
    flush: Signal
    o: Any

    def __init__(
        self, *, slots: int, flits: int, width: int, header: int,
        length: Callable[[Value], Value],
    ) -> None:
        self._slots = require_int("FrameStore slots", slots, minimum=2, power_of_two=True)
        self._flits = require_int("FrameStore flits", flits)
        self._length = length
        super().__init__(
            {
                "write": In(1),
                "slot": In(range(slots)),
                "place": In(range(max(2, flits))),
                "data": In(width),
                "enter": In(1),
                "header": In(header),
                "ask": In(1),
                "which": In(range(slots)),
                "taken": Out(1),
                "flush": In(1),
                "o": Out(stream.Signature(stored_layout(header, width))),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        rows = self._slots * self._flits
        m.submodules.bodies = bodies = SRAMBank(depth=rows, width=len(self.data))
        m.submodules.headers = headers = SRAMBank(depth=self._slots, width=len(self.header))
        reading = Signal()  # something is at `o`
        first = Signal()  # a header
        left = Signal(range(self._flits + 1))  # flits behind what is at `o`
        kept = Signal.like(left)
        row = Signal(range(rows))  # the next one's
        more = Signal()
        advance = Signal()
        m.d.comb += [
            left.eq(Mux(first, self._length(headers.r_data), kept)),
            more.eq(reading & (left != 0)),
            advance.eq(~reading | self.o.ready),
            self.taken.eq(self.ask & advance & ~more & ~self.flush),
            bodies.w_en.eq(self.write),
            bodies.w_addr.eq(self.slot * self._flits + self.place),
            bodies.w_data.eq(self.data),
            bodies.r_en.eq(advance & more),
            bodies.r_addr.eq(row),
            headers.w_en.eq(self.enter),
            headers.w_addr.eq(self.slot),
            headers.w_data.eq(self.header),
            headers.r_en.eq(self.taken),
            headers.r_addr.eq(self.which),
            self.o.valid.eq(reading),
            self.o.p.first.eq(first),
            self.o.p.last.eq(left == 0),
            self.o.p.header.eq(headers.r_data),
            self.o.p.data.eq(bodies.r_data),
        ]
        with m.If(self.taken):
            m.d.sync += row.eq(self.which * self._flits)
        with m.Elif(advance & more):
            m.d.sync += row.eq(row + 1)
        with m.If(advance):
            m.d.sync += [first.eq(self.taken), kept.eq(left - more)]
        m.d.sync += reading.eq((self.taken | more | ~advance) & ~self.flush)
        return m
