# SPDX-License-Identifier: Apache-2.0
"""Combinational building blocks of encoder and decoder, each for one element or one block."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from hw.bfp.dither import DITHER_BITS
from hw.bfp.format import BlockFormat
from hw.fp.bits import leading_zeros, shift_left, shift_right_sticky

__all__ = [
    "Count",
    "Expand",
    "Place",
    "Round",
    "Split",
    "aligned_layout",
    "block_code",
    "block_scale",
    "counted_layout",
    "dither_member",
    "element_layout",
    "guard_bits",
    "key_bits",
    "largest",
    "magnitude_width",
    "number_layout",
    "scale_layout",
]

_EXPONENT = 8  # of binary32
_FRACTION = 23
_SPECIAL = 255


def guard_bits(fmt: BlockFormat) -> int:
    """Bits below the last one of a magnitude that decide its rounding, a sticky bit apart."""
    return {"nearest_even": 1, "truncate": 0, "stochastic": DITHER_BITS}[fmt.rounding]


def element_layout(fmt: BlockFormat) -> data.StructLayout:
    """A binary32 number as far as the format can tell it from others."""
    return data.StructLayout(
        {
            "sign": 1,
            "exponent": _EXPONENT,
            "value": fmt.magnitude_bits + guard_bits(fmt),
            "sticky": 1,
        }
    )


def aligned_layout(fmt: BlockFormat) -> data.StructLayout:
    """An element in units of its block, not yet rounded."""
    return data.StructLayout(
        {"sign": 1, "value": fmt.magnitude_bits + guard_bits(fmt), "sticky": 1}
    )


def key_bits(fmt: BlockFormat) -> int:
    """Width of the key that finds the largest element: its exponent and whether it will carry."""
    return _EXPONENT + (fmt.carry == "renormalize" and fmt.rounding != "truncate")


def dither_member(fmt: BlockFormat) -> dict[str, wiring.Member]:
    """The input for random numbers of a component that rounds, where it needs any."""
    return {"dither": In(DITHER_BITS)} if fmt.rounding == "stochastic" else {}


class Split(wiring.Component):
    """Binary32 to `element_layout`, and the key by which the largest element is found.

    The exponent field is taken as it is. That makes a subnormal number one with exponent 0, whose
    fraction stands one place higher than that of others.

    Parameters
    ----------
    fmt : BlockFormat
        The format.

    Members
    -------
    i : ``In(32)``
        Binary32.
    dither : ``In(DITHER_BITS)``
        Random number; with stochastic rounding only.
    o : ``Out(element_layout(fmt))``
        The element.
    key : ``Out(key_bits(fmt))``
        Its exponent; below that, whether rounding to this exponent would carry.
    """

    i: Signal
    dither: Signal
    o: data.View
    key: Signal

    def __init__(self, fmt: BlockFormat) -> None:
        self._fmt = fmt
        super().__init__(
            {
                "i": In(32),
                **dither_member(fmt),
                "o": Out(element_layout(fmt)),
                "key": Out(key_bits(fmt)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        o: Any = self.o
        fraction, exponent = self.i[:_FRACTION], self.i[_FRACTION:-1]
        normal = Signal()
        significand = Signal(_FRACTION + 1)
        m.d.comb += [
            normal.eq(exponent.any()),
            significand.eq(Mux(normal, Cat(fraction, 1), Cat(0, fraction))),
            o.sign.eq(self.i[-1]),
            o.exponent.eq(exponent),
        ]
        width = len(o.value)
        spare = width - len(significand)
        if spare >= 0:
            m.d.comb += o.value.eq(significand << spare)
        else:
            m.d.comb += [
                o.value.eq(significand[-width:]),
                o.sticky.eq(significand[:-width].any()),
            ]
        if len(self.key) == _EXPONENT:
            m.d.comb += self.key.eq(exponent)
        elif self._fmt.rounding == "nearest_even":
            # From half a unit below the next power of two on, a tie included: it goes to even.
            m.d.comb += self.key.eq(Cat(o.value.all(), exponent))
        else:
            dithered = Signal(width + 1)
            m.d.comb += [
                dithered.eq(o.value + self.dither),
                self.key.eq(Cat(dithered[-1], exponent)),
            ]
        return m


def largest(m: Module, keys: list[Value], *, until: int = 1) -> list[Value]:
    """Compare in pairs until no more than *until* keys are left; every one covers a run of keys.

    Exponents do not wait for what is below them, which is known later.
    """
    while len(keys) > until:
        winners: list[Value] = []
        for a, b in zip(keys[::2], keys[1::2], strict=True):
            winner = Signal(len(a), name="largest")
            carries = len(a) - _EXPONENT
            (low_a, high_a), (low_b, high_b) = ((k[:carries], k[carries:]) for k in (a, b))
            below = Signal(name="below")
            m.d.comb += below.eq(high_a < high_b)
            low = Mux(high_a == high_b, low_a | low_b, Mux(below, low_b, low_a))
            m.d.comb += winner.eq(Cat(low, Mux(below, high_b, high_a)))
            winners.append(winner)
        keys = winners
    return keys


def block_code(m: Module, fmt: BlockFormat, keys: list[Value]) -> Value:
    """Exponent code of the block whose elements are covered by *keys*."""
    finalists = largest(m, keys, until=2)
    # Both codes are made while the last comparison is under way.
    codes = [_code(m, fmt, key) for key in finalists]
    return Mux(finalists[0] < finalists[-1], codes[-1], codes[0])


def _code(m: Module, fmt: BlockFormat, key: Value) -> Value:
    """Exponent code of a block whose largest element has *key*."""
    code = Signal(fmt.exponent_bits, name="code")
    exponent = key[-_EXPONENT:]
    carries: Value = key[0] if len(key) > _EXPONENT else Const(0)
    special = exponent.all()
    top = fmt.special_code - 1
    if fmt.offset == 0:
        # The highest finite code stays, and so does the one of special blocks.
        m.d.comb += code.eq(exponent + (carries & ~exponent[1:].all()))
    else:
        m.d.comb += code.eq(exponent + carries - fmt.offset)
        with m.If(exponent < fmt.offset):
            m.d.comb += code.eq(0)
        with m.If(exponent >= fmt.offset + top):
            m.d.comb += code.eq(Cat(special, Const(-1, fmt.exponent_bits - 1)))
    return code


class Place(wiring.Component):
    """Shifts an element to the exponent of its block, or replaces it in a special block.

    Parameters
    ----------
    fmt : BlockFormat
        The format.

    Members
    -------
    i : ``In(element_layout(fmt))``
        The element.
    code : ``In(fmt.exponent_bits)``
        Exponent code of its block.
    o : ``Out(aligned_layout(fmt))``
        The element in units of its block.
    """

    i: data.View
    code: Signal
    o: data.View

    def __init__(self, fmt: BlockFormat) -> None:
        self._fmt = fmt
        super().__init__(
            {
                "i": In(element_layout(fmt)),
                "code": In(fmt.exponent_bits),
                "o": Out(aligned_layout(fmt)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        fmt = self._fmt
        i: Any = self.i
        o: Any = self.o
        width = len(i.value)
        special, infinite, above, marked = Signal(), Signal(), Signal(), Signal()
        distance = Signal(signed(_EXPONENT + 1))
        value, amount = Signal(width), Signal(_EXPONENT)
        m.d.comb += [
            special.eq(self.code.all()),
            distance.eq(self.code + fmt.offset - i.exponent),
            amount.eq(Mux(above, 0, distance)),
            # Only a block with a short exponent has elements above its own.
            above.eq(distance[-1] if fmt.offset else 0),
            value.eq(i.value | above.replicate(width)),
            o.sign.eq(i.sign & (~special | infinite)),
        ]
        if fmt.sign == "magnitude":
            # The highest bit marks a NaN, or what shares a block with one; an infinity has none.
            m.d.comb += infinite.eq(i.exponent.all() & ~i.sticky & ~i.value[:-1].any())
            m.d.comb += marked.eq(~infinite)
        # One bit more on top, so that the longest shift clears the word.
        shifted, lost = shift_right_sticky(m, Cat(value, Const(0, 1)), amount)
        # The shift does not wait for the code to be known as special: what it gives is not taken,
        # and nothing below half a unit rounds a zero.
        instead = Cat(Const(0, width - 1), marked)
        m.d.comb += [o.value.eq(Mux(special, instead, shifted)), o.sticky.eq(lost | i.sticky)]
        return m


class Round(wiring.Component):
    """Rounds an aligned element and encodes it.

    Parameters
    ----------
    fmt : BlockFormat
        The format.

    Members
    -------
    i : ``In(aligned_layout(fmt))``
        The element in units of its block.
    dither : ``In(DITHER_BITS)``
        Random number; with stochastic rounding only.
    o : ``Out(fmt.mantissa_bits)``
        Its code.
    """

    i: data.View
    dither: Signal
    o: Signal

    def __init__(self, fmt: BlockFormat) -> None:
        self._fmt = fmt
        super().__init__(
            {
                "i": In(aligned_layout(fmt)),
                **dither_member(fmt),
                "o": Out(fmt.mantissa_bits),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        fmt = self._fmt
        i: Any = self.i
        width = fmt.magnitude_bits
        rounded, magnitude = Signal(width + 1), Signal(width)
        kept = i.value[-width:]
        if fmt.rounding == "nearest_even":
            m.d.comb += rounded.eq(kept + (i.value[0] & (i.sticky | kept[0])))
        elif fmt.rounding == "truncate":
            m.d.comb += rounded.eq(kept)
        else:
            m.d.comb += rounded.eq((i.value + self.dither) >> DITHER_BITS)
        # A carry leaves zeros. It comes only where the code of the block could not be raised.
        m.d.comb += magnitude.eq(rounded[:width] | rounded[width].replicate(width))
        if fmt.sign == "magnitude":
            m.d.comb += self.o.eq(Cat(magnitude, i.sign))
        else:
            m.d.comb += self.o.eq(Mux(i.sign, -magnitude, magnitude))
        return m


def scale_layout() -> data.StructLayout:
    """Exponent field of binary32 that the highest magnitude bit of a block has."""
    return data.StructLayout({"special": 1, "exponent": _EXPONENT})


def block_scale(fmt: BlockFormat, code: Value) -> Value:
    """Make `scale_layout` from the exponent code of a block; any is allowed."""
    # Two's complement has one magnitude more, which needs one bit more.
    step = fmt.offset + (fmt.sign == "complement")
    return Cat(code.all(), (code + step)[:_EXPONENT])


def magnitude_width(fmt: BlockFormat) -> int:
    """Bits of the largest magnitude that a code can stand for."""
    return fmt.magnitude_bits + (fmt.sign == "complement")


def counted_layout(fmt: BlockFormat) -> data.StructLayout:
    """An element on its way to binary32: a magnitude that is to be shifted left."""
    width = magnitude_width(fmt)
    return data.StructLayout(
        {
            "sign": 1,
            "nan": 1,
            "magnitude": width,
            "shift": ceil_log2(width + 1) if width > 1 else 0,
        }
    )


class Count(wiring.Component):
    """Finds how far a magnitude must move left for binary32.

    Parameters
    ----------
    fmt : BlockFormat
        The format.

    Members
    -------
    i : ``In(fmt.mantissa_bits)``
        Code of an element; any is allowed.
    scale : ``In(scale_layout())``
        Of its block.
    o : ``Out(counted_layout(fmt))``
        Its magnitude and the shift.
    """

    i: Signal
    scale: data.View
    o: data.View

    def __init__(self, fmt: BlockFormat) -> None:
        self._fmt = fmt
        super().__init__(
            {
                "i": In(fmt.mantissa_bits),
                "scale": In(scale_layout()),
                "o": Out(counted_layout(fmt)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        fmt = self._fmt
        scale: Any = self.scale
        o: Any = self.o
        negative = self.i[-1]
        width = len(o.magnitude)
        if fmt.sign == "magnitude":
            m.d.comb += [o.magnitude.eq(self.i[:-1]), o.nan.eq(scale.special & self.i[:-1].any())]
        else:
            m.d.comb += [o.magnitude.eq(Mux(negative, -self.i, self.i)), o.nan.eq(scale.special)]
        m.d.comb += o.sign.eq(negative & ~o.nan)
        if width > 1:
            # A one where exponent field 0 would be reached stops the count there, as a subnormal
            # number must; a format with a short exponent has none.
            floor = Signal(width)
            if fmt.offset == 0:
                m.d.comb += floor.eq((1 << (width - 1)) >> scale.exponent)
            counted = o.magnitude | floor
            m.d.comb += o.shift.eq(leading_zeros(m, counted))
        return m


def number_layout(fmt: BlockFormat) -> data.StructLayout:
    """Binary32 without the lowest bits of its fraction, which no element has."""
    return data.StructLayout(
        {"fraction": min(magnitude_width(fmt), _FRACTION), "exponent": _EXPONENT, "sign": 1}
    )


class Expand(wiring.Component):
    """Shifts a magnitude to its place in binary32.

    Parameters
    ----------
    fmt : BlockFormat
        The format.

    Members
    -------
    i : ``In(counted_layout(fmt))``
        What `Count` has found.
    scale : ``In(scale_layout())``
        Of its block.
    o : ``Out(number_layout(fmt))``
        The number.
    """

    i: data.View
    scale: data.View
    o: data.View

    def __init__(self, fmt: BlockFormat) -> None:
        self._fmt = fmt
        super().__init__(
            {
                "i": In(counted_layout(fmt)),
                "scale": In(scale_layout()),
                "o": Out(number_layout(fmt)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        i: Any = self.i
        scale: Any = self.scale
        o: Any = self.o
        shifted, exponent = Signal(len(i.magnitude)), Signal(_EXPONENT)
        normal = Signal()
        # The highest bit stands where the hidden one would; with exponent field 0 it is the first
        # of the fraction.
        drop = len(shifted) - len(o.fraction)
        m.d.comb += [
            shifted.eq(shift_left(m, i.magnitude, i.shift)),
            exponent.eq(scale.exponent - i.shift),
            normal.eq(shifted[-1] & exponent.any()),
            o.fraction.eq(Mux(normal, shifted << 1, shifted) >> drop),
            o.exponent.eq(Mux(normal, exponent, 0)),
            o.sign.eq(i.sign),
        ]
        with m.If(scale.special):
            m.d.comb += [o.exponent.eq(_SPECIAL), o.fraction.eq(0), o.fraction[-1].eq(i.nan)]
        return m
