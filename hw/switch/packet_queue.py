# SPDX-License-Identifier: Apache-2.0
"""A FIFO in which room for whole packets is reserved."""

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.fifo import StreamFIFO
from hw.common.params import require_int
from hw.switch.packet import FLIT

__all__ = ["PacketQueue"]


class PacketQueue(wiring.Component):
    """FIFO for flits, or beats, in which room for whole packets is reserved before they are
    written.

    ``o.valid`` and ``o.payload`` are registers. Latency is a cycle more than that of a `StreamFIFO`
    of ``packets * flits`` flits. ``i`` never stalls, since its writer has reserved room. A packet
    may be read while it is being written.

    Parameters
    ----------
    packets : int
        Packets that fit.
    flits : int
        Flits of the longest packet.
    layout : data.StructLayout
        Of a flit.

    Members
    -------
    room : ``Out(1)``
        There is room for another packet.
    reserve : ``In(1)``
        It is taken; only with ``room``.
    i : ``In(stream.Signature(layout, always_ready=True))``
        Flits of packets for which room was reserved.
    o : ``Out(stream.Signature(layout))``
        The same flits.
    empty : ``Out(1)``
        Nothing is held or reserved.
    """

    room: Signal
    reserve: Signal
    i: stream.Interface
    o: stream.Interface
    empty: Signal

    def __init__(
        self, *, packets: int, flits: int, layout: data.StructLayout = FLIT
    ) -> None:
        self._packets = require_int("PacketQueue packets", packets)
        self._flits = require_int("PacketQueue flits", flits)
        self._layout = layout
        super().__init__(
            {
                "room": Out(1),
                "reserve": In(1),
                "i": In(stream.Signature(layout, always_ready=True)),
                "o": Out(stream.Signature(layout)),
                "empty": Out(1),
            }
        )

    @property
    def latency(self) -> int:
        """Cycles from the acceptance of a flit by an empty queue to its presence at ``o``."""
        return StreamFIFO(self._layout, self._packets * self._flits).latency + 1

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.flits = flits = StreamFIFO(
            self._layout, self._packets * self._flits, kept=True
        )
        moves = Signal()
        m.d.comb += [moves.eq(~self.o.valid | self.o.ready), flits.o.ready.eq(moves)]
        with m.If(moves):
            m.d.sync += [self.o.valid.eq(flits.o.valid), self.o.payload.eq(flits.o.payload)]
        left = self.o.valid & self.o.ready & self.o.p.last
        taken = Signal(range(self._packets + 1))
        m.d.sync += taken.eq(taken + self.reserve - left)
        m.d.comb += [
            flits.i.valid.eq(self.i.valid),
            flits.i.payload.eq(self.i.payload),
            self.room.eq(taken != self._packets),
            self.empty.eq(taken == 0),
        ]
        return m
