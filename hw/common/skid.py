# SPDX-License-Identifier: Apache-2.0
"""A buffer that cuts the combinational paths of a stream."""

from typing import Any

from amaranth.hdl import Module, Mux, Shape, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["SkidBuffer"]


class SkidBuffer(wiring.Component):
    """Register stage for a stream in both directions.

    ``o.valid``, ``o.payload`` and ``i.ready`` are registers: nothing combinational passes through
    in either direction. Latency is 1 cycle; throughput is 1 beat per cycle. ``i`` stalls once two
    beats are held, that is one cycle after ``o`` began to stall.

    Parameters
    ----------
    shape : shape-like
        Shape of the payload.

    Members
    -------
    i : ``In(stream.Signature(shape))``
        Beats to pass on.
    o : ``Out(stream.Signature(shape))``
        The same beats in the same order.
    """

    i: stream.Interface
    o: stream.Interface

    def __init__(self, shape: Any) -> None:
        self._width = Shape.cast(shape).width
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        front = Signal(self._width)
        spare = Signal(self._width)
        spare_free = Signal(init=1)
        m.d.comb += [
            self.i.ready.eq(spare_free),
            Value.cast(self.o.payload).eq(front),
        ]
        with m.If(~self.o.valid | self.o.ready):
            # The front register is free or being freed. A beat set aside goes first; `i` is not
            # ready in that cycle, so no beat can arrive that would have to be set aside.
            m.d.sync += [
                self.o.valid.eq(self.i.valid | ~spare_free),
                spare_free.eq(1),
                front.eq(Mux(spare_free, self.i.payload, spare)),
            ]
        with m.Elif(self.i.valid & self.i.ready):
            m.d.sync += spare_free.eq(0)
        # Whatever is offered is set aside, needed or not: no enable of many bits comes late.
        with m.If(spare_free):
            m.d.sync += spare.eq(self.i.payload)
        return m
