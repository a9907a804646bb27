# SPDX-License-Identifier: Apache-2.0
"""IEEE 754-2019 minimum and maximum."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.common.params import require_type
from hw.fp.formats import BINARY32, Flags, FloatFormat

__all__ = ["FPMinMax", "takes_first"]


def takes_first(a_sign: Value, b_sign: Value, smaller: Value, maximum: Value) -> Value:
    """Tell whether the first of two numbers is the minimum or maximum.

    *smaller* says that the first one has the smaller magnitude.
    """
    # Of two numbers with unlike signs the negative one is less, also of two zeros.
    less = Mux(a_sign ^ b_sign, a_sign, smaller ^ a_sign)
    return less ^ maximum


class FPMinMax(wiring.Component):
    """``minimum`` and ``maximum`` of IEEE 754-2019.

    Combinational. Minus zero is less than plus zero. If an operand is a NaN, so is the result: the
    canonical quiet NaN; ``flags.invalid`` then tells that an operand was a signalling NaN.

    Parameters
    ----------
    fmt : FloatFormat
        Number format; binary32 by default.

    Members
    -------
    a, b : ``In(fmt.width)``
        Operands.
    maximum : ``In(1)``
        Ask for the larger one instead of the smaller one.
    o : ``Out(fmt.width)``
        The result, always one of the operands or the canonical NaN.
    flags : ``Out(Flags)``
        Exceptions; only ``invalid`` is ever raised.
    """

    a: Signal
    b: Signal
    maximum: Signal
    o: Signal
    flags: data.View

    def __init__(self, *, fmt: FloatFormat = BINARY32) -> None:
        self.fmt = require_type("FPMinMax fmt", fmt, FloatFormat)
        word = fmt.width
        super().__init__(
            {
                "a": In(word),
                "b": In(word),
                "maximum": In(1),
                "o": Out(word),
                "flags": Out(Flags),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        fmt = self.fmt
        quiet_bit = fmt.fraction - 1
        nans, signalling = [], []
        for word in self.a, self.b:
            nan = word[fmt.fraction : -1].all() & word[: fmt.fraction].any()
            nans.append(nan)
            signalling.append(nan & ~word[quiet_bit])
        smaller = self.a[:-1] < self.b[:-1]
        first = takes_first(self.a[-1], self.b[-1], smaller, self.maximum)
        m.d.comb += self.o.eq(Mux(first, self.a, self.b))
        m.d.comb += self.flags.invalid.eq(signalling[0] | signalling[1])
        with m.If(nans[0] | nans[1]):
            m.d.comb += self.o.eq(fmt.canonical_nan)
        return m
