# SPDX-License-Identifier: Apache-2.0
"""A stream given to one of several."""

from typing import Any

from amaranth.hdl import Cat, Module, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.common.params import require_int

__all__ = ["StreamDemux", "ValidDecoder"]


class ValidDecoder(wiring.Component):
    """``valid`` of each of *n* streams, of which a beat is for the one with its number.

    Latency is 0 cycles. A block of its own, mapped for nothing else, as what is chosen comes late.

    Parameters
    ----------
    n : int
        Number of streams, at least 1.

    Members
    -------
    valid : ``In(1)``, number : ``In(range(n))``
        A beat is offered, to this one.
    offered : ``Out(n)``
        ``valid`` of each.
    """

    valid: Value
    number: Value
    offered: Any

    def __init__(self, n: int) -> None:
        self._n = require_int("ValidDecoder n", n)
        super().__init__(
            {
                "valid": In(1),
                "number": In(range(max(2, self._n))),
                "offered": Out(self._n),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.d.comb += self.offered.eq(
            Cat(self.valid & (self.number == k) for k in range(self._n))
        )
        return m


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
