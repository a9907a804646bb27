# SPDX-License-Identifier: Apache-2.0
"""The steps of a floating-point addition, from two encodings to a rounded sum.

Each function adds combinational logic to a module and maps one layout to the next, so that a
pipeline may put registers between any two of them. There is one path: the long right shift that a
large exponent difference needs and the long left shift that cancellation needs share an adder.
"""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data
from amaranth.utils import ceil_log2

from hw.fp.bits import leading_zeros, shift_left, shift_right_sticky
from hw.fp.formats import Flags, FloatFormat

__all__ = [
    "add_aligned", "align", "arrange", "compare", "count", "normalize", "order", "round_sum",
]

# What every step hands on. `verbatim` says that the larger operand is an arbitrary word which,
# added to nothing, must come out as it is: then no exponent means infinity.
_CARRIED = {"sign": 1, "special": 1, "nan": 1, "invalid": 1, "verbatim": 1}
_LOST = 4
"""Bits that say together, as soon as the shift is done, whether a one was shifted out."""


def _hand_on(m: Module, i: data.View, o: data.View, *fields: str) -> None:
    m.d.comb += [o[name].eq(i[name]) for name in (*_CARRIED, *fields)]


def ordered_layout(fmt: FloatFormat) -> data.StructLayout:
    """Return the layout that the steps of a sum start from."""
    return data.StructLayout(
        {
            **_CARRIED,
            "subtract": 1,
            "cancels": 1,  # the sum is plus zero
            "exponent": fmt.exponent,  # of the larger operand
            "large": fmt.precision,
            "small": fmt.precision,
            "distance": fmt.exponent,  # by which `small` is to be shifted right
        }
    )


def normal(fmt: FloatFormat, word: Value) -> Value:
    """True if the exponent of *word* is not 0."""
    return word[fmt.fraction : -1].any()


def compared_layout(fmt: FloatFormat) -> data.StructLayout:
    """Return the layout of two operands and of what `compare` tells of them."""
    return data.StructLayout(
        {
            "a": fmt.width,
            "b": fmt.width,
            "a_smaller": 1,  # in magnitude
            "a_normal": 1,  # its exponent is not 0
            "b_normal": 1,
            "cancels": 1,  # the sum is 0, of two opposite numbers
            "nan": 1,  # an operand is one
        }
    )


def compare(m: Module, fmt: FloatFormat, a: Value, b: Value) -> data.View:
    """Tell the operand of larger magnitude from the other."""
    o: Any = Signal(compared_layout(fmt), name="compared")
    nans = [
        word[fmt.fraction : -1].all() & (word[: fmt.fraction] != 0) for word in (a, b)
    ]
    m.d.comb += [
        o.a.eq(a),
        o.b.eq(b),
        o.a_smaller.eq(a[:-1] < b[:-1]),
        o.a_normal.eq(normal(fmt, a)),
        o.b_normal.eq(normal(fmt, b)),
        o.cancels.eq(Cat(a[:-1], ~a[-1]) == b),
        o.nan.eq(nans[0] | nans[1]),
    ]
    return o


def order(m: Module, fmt: FloatFormat, by: data.View) -> data.View:
    """Prepare the operands that were compared: the larger one, the smaller one, and how far apart
    they are."""
    larger, is_normal = (
        Mux(by.a_smaller, of_b, of_a)
        for of_a, of_b in ((by.a, by.b), (by.a_normal, by.b_normal))
    )
    return arrange(m, fmt, by, word=larger, normal=is_normal)


def arrange(
    m: Module, fmt: FloatFormat, by: data.View, *, word: Value, normal: Value,
    adds: Value | None = None,
) -> data.View:
    """Prepare *word*, *normal* or not, which is the larger operand; where nothing is added to it,
    any word, which comes out of the other steps as it is."""
    a, b = by.a, by.b
    o: Any = Signal(ordered_layout(fmt), name="ordered")
    adds = Const(1) if adds is None else adds
    a_fraction, a_exponent = a[: fmt.fraction], a[fmt.fraction : -1]
    b_fraction, b_exponent = b[: fmt.fraction], b[fmt.fraction : -1]
    exponent = word[fmt.fraction : -1]
    subtract, cancels = Signal(), Signal()
    distance, small = Signal(fmt.exponent), Signal(fmt.precision)
    # A subnormal number has exponent 0, which stands for 1, and no hidden bit.
    a_power = Cat(a_exponent[0] | ~by.a_normal, a_exponent[1:])
    b_power = Cat(b_exponent[0] | ~by.b_normal, b_exponent[1:])
    m.d.comb += [
        subtract.eq(a[-1] ^ b[-1]),
        cancels.eq(by.cancels & adds),
        small.eq(
            Mux(by.a_smaller, Cat(a_fraction, by.a_normal), Cat(b_fraction, by.b_normal))
        ),
    ]
    difference = Signal(signed(fmt.exponent + 1))
    m.d.comb += difference.eq(a_power - b_power)
    m.d.comb += distance.eq(Mux(difference[-1], b_power - a_power, difference))

    a_infinite, a_nan, a_signals = _classify(m, fmt, a, "a")
    b_infinite, b_nan, b_signals = _classify(m, fmt, b, "b")
    opposite = a_infinite & b_infinite & subtract
    nan = a_nan | b_nan
    m.d.comb += [
        o.special.eq(a_exponent.all() | b_exponent.all()),
        o.nan.eq(nan | opposite),
        o.invalid.eq(a_signals | b_signals | opposite),
        o.verbatim.eq(~adds),
        o.exponent.eq(exponent | ~normal),
        o.sign.eq(word[-1]),
        o.subtract.eq(subtract & adds),
        o.cancels.eq(cancels),
        o.large.eq(Cat(word[: fmt.fraction], normal)),
        o.small.eq(Mux(adds, small, 0)),
        o.distance.eq(distance),
    ]
    return o


def _classify(m: Module, fmt: FloatFormat, word: Value, name: str) -> list[Signal]:
    """Tell whether *word* is infinite, a NaN, and a signalling NaN."""
    fraction, quiet = word[: fmt.fraction], word[fmt.fraction - 1]
    top = word[fmt.fraction : -1].all()
    infinite, nan, signals = (
        Signal(name=f"{name}_{kind}") for kind in ("infinite", "nan", "signals")
    )
    m.d.comb += [
        infinite.eq(top & (fraction == 0)),
        nan.eq(top & (fraction != 0)),
        signals.eq(nan & ~quiet),
    ]
    return [infinite, nan, signals]


def align(m: Module, fmt: FloatFormat, i: data.View) -> data.View:
    """Shift the smaller significand right: two bits below the unit, and whether more was lost."""
    o: Any = Signal(
        data.StructLayout(
            {
                **_CARRIED,
                "subtract": 1,
                "exponent": fmt.exponent,
                "large": fmt.precision,
                "small": fmt.precision + 2,
                "lost": _LOST,
            }
        ),
        name="aligned",
    )
    small, lost = shift_right_sticky(m, i.small << 2, i.distance, parts=_LOST)
    _hand_on(m, i, o, "subtract", "large")
    m.d.comb += [
        # What cancels is plus zero: the least exponent keeps the normalisation from looking for it.
        o.exponent.eq(Mux(i.cancels, 1, i.exponent)),
        o.sign.eq(i.sign & ~i.cancels),
        o.small.eq(small),
        o.lost.eq(lost),
    ]
    return o


def _shift_width(fmt: FloatFormat) -> int:
    """Bits of a shift amount: a sum has two bits below the significand and one above."""
    return ceil_log2(fmt.precision + 3)


def add_aligned(m: Module, fmt: FloatFormat, i: data.View) -> data.View:
    """Add or subtract the significands."""
    o: Any = Signal(
        data.StructLayout(
            {
                **_CARRIED,
                "exponent": fmt.exponent,
                "near": 1,  # a shift may reach the least exponent
                "total": fmt.precision + 3,
                "sticky": 1,
            }
        ),
        name="added",
    )
    # The bits lost to the right of the smaller operand borrow one when they are subtracted.
    sticky = i.lost.any()
    carry = i.subtract & ~sticky
    augend = Cat(0, 0, i.large, 0)
    addend = Cat(i.small, 0) ^ i.subtract.replicate(len(augend))
    # Two short adders, the upper one for either carry, are half as deep as a long one.
    half = len(augend) // 2
    low, high = Signal(half + 1), Signal(len(augend) - half)
    higher = Signal(len(high))
    _hand_on(m, i, o, "exponent")
    m.d.comb += [
        # Of a word that nothing is added to, no shift has to end there.
        o.near.eq(~i.verbatim & ~i.exponent[_shift_width(fmt) :].any()),
        o.sticky.eq(sticky),
        low.eq((Cat(1, augend[:half]) + Cat(carry, addend[:half]))[1:]),
        high.eq(augend[half:] + addend[half:]),
        higher.eq((Cat(1, augend[half:]) + Cat(1, addend[half:]))[1:]),
        o.total.eq(Cat(low[:half], Mux(low[half], higher, high))),
    ]
    return o


def mark(m: Module, fmt: FloatFormat, i: data.View) -> data.View:
    """Mark the ones that the sum must not move further left than: its own, and one where the
    exponent would reach its least value."""
    o: Any = Signal(
        data.StructLayout(
            {
                **_CARRIED,
                "exponent": fmt.exponent,
                "total": fmt.precision + 3,
                "sticky": 1,
                "marked": fmt.precision + 3,
            }
        ),
        name="marks",
    )
    top = fmt.precision + 2
    floor = Signal(fmt.precision + 3)
    m.d.comb += floor.eq(Mux(i.near, (1 << top) >> i.exponent[: _shift_width(fmt)], 0))
    _hand_on(m, i, o, "exponent", "total", "sticky")
    m.d.comb += o.marked.eq(i.total | floor)
    return o


def count(m: Module, fmt: FloatFormat, i: data.View) -> data.View:
    """Find how far the sum must move left for its leading one, or for the least exponent."""
    o: Any = Signal(
        data.StructLayout(
            {
                **_CARRIED,
                "exponent": fmt.exponent,
                "total": fmt.precision + 3,
                "sticky": 1,
                "shift": _shift_width(fmt),
            }
        ),
        name="counted",
    )
    _hand_on(m, i, o, "exponent", "total", "sticky")
    m.d.comb += o.shift.eq(leading_zeros(m, i.marked))
    return o


def normalize(m: Module, fmt: FloatFormat, i: data.View) -> data.View:
    """Move the leading one of the sum to its place; decide the rounding."""
    o: Any = Signal(
        data.StructLayout(
            {
                **_CARRIED,
                "exponent": fmt.exponent,  # less one where the significand has its hidden bit
                "significand": fmt.precision,
                "up": 1,
                "inexact": 1,
            }
        ),
        name="normalized",
    )
    shifted = shift_left(m, i.total, i.shift)
    guard, below = shifted[2], shifted[:2].any() | i.sticky
    _hand_on(m, i, o)
    m.d.comb += [
        o.exponent.eq(i.exponent - i.shift),
        o.significand.eq(shifted[3:]),
        o.up.eq(guard & (below | shifted[3])),
        o.inexact.eq(guard | below),
    ]
    return o


def round_sum(m: Module, fmt: FloatFormat, i: data.View) -> tuple[Value, data.View]:
    """Round to nearest, ties to even, and encode the sum and its exceptions."""
    result = Signal(fmt.width, name="result")
    flags: Any = Signal(Flags, name="result_flags")
    fraction, hidden = i.significand[:-1], i.significand[-1]
    # The hidden bit counts one into the exponent, and so does a significand rounded up to two.
    low = Cat(i.up, fraction, i.exponent)
    high = Cat(1, hidden.shift_left(fmt.fraction))
    encoded = Signal(fmt.width - 1)
    overflow = Signal()
    top = (1 << fmt.exponent) - 1
    carried = i.up & fraction.all()
    m.d.comb += [
        encoded.eq((low + high)[1:]),
        # Told from the operands of this addition, so as not to wait for its result.
        overflow.eq(
            ((i.exponent == top - 1) | ((i.exponent == top - 2) & carried))
            & ~i.special
            & ~i.verbatim
        ),
        result[: fmt.fraction].eq(
            Mux(overflow | i.special, i.nan << (fmt.fraction - 1), encoded[: fmt.fraction])
        ),
        result[fmt.fraction : -1].eq(encoded[fmt.fraction :] | i.special.replicate(fmt.exponent)),
        result[-1].eq(i.sign & ~i.nan),
        flags.inexact.eq((i.inexact | overflow) & ~i.special),
        flags.overflow.eq(overflow),
        flags.invalid.eq(i.invalid),
    ]
    return result, flags
