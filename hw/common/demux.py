# SPDX-License-Identifier: Apache-2.0
"""A stream given to one of several."""

from typing import Any

from amaranth.hdl import Cat, Module, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.params import require_int

__all__ = ["StreamDemux"]


class StreamDemux(wiring.Component):
    """Gives each beat to one of *n* streams.

    Latency is 0 cycles: nothing is held.

    Parameters
    ----------
    shape : shape-like
        Shape of the payload.
    n : int
        Number of outputs, at least 1.

    Members
    -------
    i : ``In(stream.Signature(shape))``
        Beats to give away.
    chosen : ``In(n)``
        The output of the beat that `i` shows: one bit, which stays while the beat waits.
    o : ``Out(stream.Signature(shape)).array(n)``
        Beats of each output.
    """

    i: stream.Interface
    chosen: Any
    o: Any

    def __init__(self, shape: Any, n: int) -> None:
        self._n = require_int("StreamDemux n", n)
        super().__init__(
            {
                "i": In(stream.Signature(shape)),
                "chosen": In(self._n),
                "o": Out(stream.Signature(shape)).array(self._n),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        for port, chosen in zip(self.o, self.chosen):
            m.d.comb += [
                port.valid.eq(self.i.valid & chosen),
                Value.cast(port.payload).eq(Value.cast(self.i.payload)),
            ]
        takes = Cat(port.ready for port in self.o) & self.chosen
        m.d.comb += self.i.ready.eq(takes.any())
        return m
