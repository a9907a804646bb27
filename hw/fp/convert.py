# SPDX-License-Identifier: Apache-2.0
"""Conversions between binary32 and narrower formats."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.common.params import require_type
from hw.fp.bits import leading_zeros, shift_left, shift_right_sticky
from hw.fp.formats import BINARY32, FloatFormat

__all__ = ["BFLOAT16", "FPNarrow", "FPWiden"]

BFLOAT16 = FloatFormat(exponent=8, fraction=7)
"""The upper half of binary32."""


def _narrower(owner: str, fmt: Any) -> FloatFormat:
    """*fmt*, if binary32 has all its numbers."""
    require_type(f"{owner} fmt", fmt, FloatFormat)
    if fmt.exponent > BINARY32.exponent or fmt.fraction >= BINARY32.fraction:
        raise ValueError(f"{owner} fmt must have fewer bits than binary32, not {fmt!r}")
    return fmt


def _least(fmt: FloatFormat) -> int:
    """Exponent field in binary32 of the least normal number of *fmt*."""
    return (1 << (BINARY32.exponent - 1)) - (1 << (fmt.exponent - 1)) + 1


class FPWiden(wiring.Component):
    """A narrow format to binary32: the same number, exactly.

    Combinational. Zeros keep their signs; every NaN becomes the canonical one.

    Parameters
    ----------
    fmt : FloatFormat
        Format of ``i``: a fraction narrower than binary32's, an exponent no wider.

    Members
    -------
    i : ``In(fmt.width)``
        Number in the narrow format.
    o : ``Out(32)``
        The same number in binary32.
    """

    i: Signal
    o: Signal

    def __init__(self, fmt: FloatFormat) -> None:
        self.fmt = _narrower("FPWiden", fmt)
        super().__init__({"i": In(fmt.width), "o": Out(BINARY32.width)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        fmt = self.fmt
        fraction, exponent = self.i[: fmt.fraction], self.i[fmt.fraction : -1]
        padding = Const(0, BINARY32.fraction - fmt.fraction)
        least = _least(fmt)
        magnitude = Signal(BINARY32.width - 1)
        power = (exponent + (least - 1))[: BINARY32.exponent]
        m.d.comb += magnitude.eq(Cat(padding, fraction, power))
        if fmt.exponent < BINARY32.exponent:  # subnormal numbers become normal ones
            zeros = leading_zeros(m, fraction | 1)
            top = shift_left(m, fraction, zeros)
            lower = (least - 1 - zeros)[: BINARY32.exponent]
            with m.If(exponent == 0):
                m.d.comb += magnitude.eq(
                    Mux(fraction.any(), Cat(padding, 0, top[: fmt.fraction - 1], lower), 0)
                )
        with m.If(exponent.all()):
            m.d.comb += magnitude.eq(BINARY32.infinity)
        m.d.comb += self.o.eq(
            Mux(exponent.all() & fraction.any(), BINARY32.canonical_nan, Cat(magnitude, self.i[-1]))
        )
        return m


class FPNarrow(wiring.Component):
    """Binary32 to a narrow format: to nearest, ties to even.

    Combinational. What is too large becomes infinite; subnormal numbers of the narrow format are
    rounded as all others; zeros keep their signs; every NaN becomes the canonical one.

    Parameters
    ----------
    fmt : FloatFormat
        Format of ``o``: a fraction narrower than binary32's, an exponent no wider.

    Members
    -------
    i : ``In(32)``
        Number in binary32.
    o : ``Out(fmt.width)``
        That number, rounded to the narrow format.
    """

    i: Signal
    o: Signal

    def __init__(self, fmt: FloatFormat) -> None:
        self.fmt = _narrower("FPNarrow", fmt)
        super().__init__({"i": In(BINARY32.width), "o": Out(fmt.width)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        fmt = self.fmt
        least = _least(fmt)
        fraction, field = self.i[: BINARY32.fraction], self.i[BINARY32.fraction : -1]
        # A subnormal number has the exponent of the least normal one, and no hidden bit.
        power = Cat(field[0] | ~field.any(), field[1:])
        significand: Value = Cat(fraction, field.any())
        lost: Value = Const(0, 1)
        base = Signal(BINARY32.exponent)
        if least > 1:
            small = power < least
            below = Signal(BINARY32.exponent)
            m.d.comb += [
                below.eq(Mux(small, least - power, 0)),
                base.eq(Mux(small, 0, power - least)),
            ]
            significand, lost = shift_right_sticky(m, significand, below)
        else:
            m.d.comb += base.eq(power - least)
        cut = BINARY32.fraction - fmt.fraction
        kept = significand[cut:]
        tie, rest = significand[cut - 1], significand[: cut - 1].any() | lost
        # The hidden bit counts the exponent up, and so does a carry out of the rounding.
        encoded = Signal(BINARY32.exponent + fmt.fraction + 1)
        m.d.comb += encoded.eq((base << fmt.fraction) + kept + (tie & (rest | kept[0])))
        infinite = field.all() | (encoded >= fmt.infinity)
        number = Mux(infinite, Const(fmt.infinity, fmt.width - 1), encoded[: fmt.width - 1])
        m.d.comb += self.o.eq(
            Mux(field.all() & fraction.any(), fmt.canonical_nan, Cat(number, self.i[-1]))
        )
        return m
