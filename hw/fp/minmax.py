"""IEEE 754-2019 minimum and maximum."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.fp.formats import BINARY32, Flags, FloatFormat

__all__ = ["FPMinMax"]


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
        if not isinstance(fmt, FloatFormat):
            raise TypeError(f"Number format must be a FloatFormat, not {fmt!r}")
        self.fmt = fmt
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
        # Sign and magnitude order like integers once the magnitude of negatives is complemented.
        a_key, b_key = (word[:-1] ^ word[-1].replicate(fmt.width - 1) for word in (self.a, self.b))
        a_less = Signal()
        m.d.comb += [
            a_less.eq(Mux(self.a[-1] ^ self.b[-1], self.a[-1], a_key < b_key)),
            self.o.eq(Mux(a_less ^ self.maximum, self.a, self.b)),
            self.flags.invalid.eq(signalling[0] | signalling[1]),
        ]
        with m.If(nans[0] | nans[1]):
            m.d.comb += self.o.eq(fmt.canonical_nan)
        return m
