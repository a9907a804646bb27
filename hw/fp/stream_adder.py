"""Floating-point adder between two streams."""

from typing import Any

from amaranth.hdl import EnableInserter, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.fp.adder import FPAdder, check_stages
from hw.fp.formats import BINARY32, Flags, FloatFormat, check_format

__all__ = ["StreamAdder", "operands_layout", "sum_layout"]


def operands_layout(fmt: FloatFormat) -> data.StructLayout:
    """Return the payload of the input stream: two addends."""
    return data.StructLayout({"a": fmt.width, "b": fmt.width})


def sum_layout(fmt: FloatFormat) -> data.StructLayout:
    """Return the payload of the output stream: a sum and its exceptions."""
    return data.StructLayout({"sum": fmt.width, "flags": Flags})


class StreamAdder(wiring.Component):
    """`FPAdder` with a handshake on both sides.

    Latency is *stages* cycles when nothing stalls; throughput is one sum per cycle. `i` stalls
    while `o` offers a sum that is not taken: the whole pipeline then stands still, so that no sum
    is lost, repeated or overtaken. ``i.ready`` depends on ``o.ready`` within the cycle; put a skid
    buffer behind `o` to cut that path. With no stages, ``o`` depends on ``i`` within the cycle too.

    Parameters
    ----------
    fmt : FloatFormat
        Number format; binary32 by default.
    stages : int
        Pipeline registers between operands and sum, 0 to 6.

    Members
    -------
    i : ``In(stream.Signature(operands_layout(fmt)))``
        Two addends.
    o : ``Out(stream.Signature(sum_layout(fmt)))``
        Their sum and its exceptions, in the order in which operands were accepted.

    Raises
    ------
    TypeError, ValueError
        *fmt* is not a `FloatFormat`, or *stages* is not an integer from 0 to 6.
    """

    i: stream.Interface
    o: stream.Interface

    def __init__(self, *, fmt: FloatFormat = BINARY32, stages: int = 3) -> None:
        self.fmt = check_format(fmt)
        self.latency = check_stages(stages)
        super().__init__(
            {
                "i": In(stream.Signature(operands_layout(fmt))),
                "o": Out(stream.Signature(sum_layout(fmt))),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        adder = FPAdder(fmt=self.fmt, stages=self.latency)
        advance = Signal()
        m.submodules.adder = EnableInserter(advance)(adder)
        valid = self.i.valid
        for stage in range(self.latency):
            held = Signal(name=f"valid_{stage + 1}")
            with m.If(advance):
                m.d.sync += held.eq(valid)
            valid = held
        m.d.comb += [
            advance.eq(self.o.ready | ~self.o.valid),
            self.i.ready.eq(advance),
            adder.a.eq(self.i.p.a),
            adder.b.eq(self.i.p.b),
            self.o.valid.eq(valid),
            self.o.p.sum.eq(adder.sum),
            self.o.p.flags.eq(adder.flags),
        ]
        return m
