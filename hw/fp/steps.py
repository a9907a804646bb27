"""The steps of a floating-point addition, from two encodings to a rounded sum.

Each function adds combinational logic to a module and maps one layout to the next, so that a
pipeline may put registers between any two of them. There is one path: the long right shift that a
large exponent difference needs and the long left shift that cancellation needs share an adder.
"""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data
from amaranth.utils import ceil_log2

from hw.fp.bits import compare_prefixes, leading_zeros, shift_left, shift_right_sticky
from hw.fp.formats import Flags, FloatFormat

__all__ = ["add_aligned", "align", "count", "normalize", "order", "round_sum"]

# What every step hands on. `verbatim` says that the larger operand is an arbitrary word which,
# added to nothing, must come out as it is: then no exponent means infinity.
_CARRIED = {"sign": 1, "special": 1, "nan": 1, "invalid": 1, "verbatim": 1}


def _hand_on(m: Module, i: data.View, o: data.View, *fields: str) -> None:
    m.d.comb += [o[name].eq(i[name]) for name in (*_CARRIED, *fields)]


def _unpack(m: Module, fmt: FloatFormat, word: Value, name: str) -> tuple[Value, Value]:
    """Return exponent and significand; a subnormal number has exponent 1 and no hidden bit."""
    exponent = word[fmt.fraction : -1]
    normal = Signal(name=f"{name}_normal")
    m.d.comb += normal.eq(exponent.any())
    return Cat(exponent[0] | ~normal, exponent[1:]), Cat(word[: fmt.fraction], normal)


def ordered_layout(fmt: FloatFormat) -> data.StructLayout:
    """Return the layout that the steps of a sum start from."""
    return data.StructLayout(
        {
            **_CARRIED,
            "subtract": 1,
            "exponent": fmt.exponent,  # of the larger operand
            "large": fmt.precision,
            "small": fmt.precision,
            "distance": fmt.exponent,  # by which `small` is to be shifted right
        }
    )


def verbatim(m: Module, fmt: FloatFormat, word: Value) -> data.View:
    """Prepare any *word* so that it comes out of the other steps as it is."""
    o: Any = Signal(ordered_layout(fmt), name="word")
    exponent, significand = _unpack(m, fmt, word, "word")
    m.d.comb += [
        o.sign.eq(word[-1]),
        o.verbatim.eq(1),
        o.exponent.eq(exponent),
        o.large.eq(significand),
    ]
    return o


def order(m: Module, fmt: FloatFormat, a: Value, b: Value) -> data.View:
    """Tell the operand of larger magnitude from the other and find how far apart they are."""
    o: Any = Signal(ordered_layout(fmt), name="ordered")
    a_exponent, a_significand = _unpack(m, fmt, a, "a")
    b_exponent, b_significand = _unpack(m, fmt, b, "b")
    exponents = compare_prefixes(m, a_exponent, b_exponent, name="exponent")
    significands = compare_prefixes(m, a_significand, b_significand, name="significand")
    above, level = exponents[-1]
    larger, same = significands[-1]
    subtract, swap, cancel = Signal(), Signal(), Signal()
    exponent, distance = Signal(fmt.exponent), Signal(fmt.exponent)
    large, small = Signal(fmt.precision), Signal(fmt.precision)
    m.d.comb += [
        subtract.eq(a[-1] ^ b[-1]),
        swap.eq(~(above | (level & (larger | same)))),
        cancel.eq(subtract & level & same),
        exponent.eq(Mux(swap, b_exponent, a_exponent)),
        large.eq(Mux(swap, b_significand, a_significand)),
        small.eq(Mux(swap, a_significand, b_significand)),
    ]
    # a - b is a + ~b + 1 and b - a is ~(a + ~b): one set of prefixes holds both differences.
    carries = [(0, 1), *exponents[:-1]]
    bits = [
        a_exponent[index] ^ ~b_exponent[index] ^ Mux(above, generate | propagate, ~generate)
        for index, (generate, propagate) in enumerate(carries)
    ]
    m.d.comb += distance.eq(Cat(*(bit[0] for bit in bits)))

    # A NaN is larger than infinity, infinity larger than a number: looking at `large` is enough.
    special, nan, infinities = Signal(), Signal(), Signal()
    m.d.comb += [
        special.eq(exponent.all()),
        nan.eq(large[: fmt.fraction].any()),
        infinities.eq(level & subtract & ~nan),
        o.special.eq(special),
        o.nan.eq(special & (nan | infinities)),
        o.invalid.eq(
            special & (_signals(fmt, large) | infinities | (level & _signals(fmt, small)))
        ),
        # What cancels is plus zero: the least exponent keeps the normalisation from looking for it.
        o.exponent.eq(Mux(cancel, 1, exponent)),
        o.sign.eq(Mux(swap, b[-1], a[-1]) & ~cancel),
        o.subtract.eq(subtract),
        o.large.eq(large),
        o.small.eq(small),
        o.distance.eq(distance),
    ]
    return o


def _signals(fmt: FloatFormat, significand: Value) -> Value:
    return ~significand[fmt.fraction - 1] & significand[: fmt.fraction - 1].any()


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
                "sticky": 1,
            }
        ),
        name="aligned",
    )
    levels = _shift_width(fmt)
    beyond = i.distance[levels:].any()
    amount = Signal(levels, name="align_by")
    m.d.comb += amount.eq(i.distance[:levels] | beyond.replicate(levels))
    small, sticky = shift_right_sticky(m, i.small << 2, amount)
    _hand_on(m, i, o, "subtract", "exponent", "large")
    m.d.comb += [
        o.small.eq(small),
        o.sticky.eq(sticky),
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
                "total": fmt.precision + 3,
                "sticky": 1,
            }
        ),
        name="added",
    )
    # The bits lost to the right of the smaller operand borrow one when they are subtracted.
    carry = i.subtract & ~i.sticky
    addend = Cat(i.small, 0) ^ i.subtract.replicate(fmt.precision + 3)
    total = Cat(1, 0, 0, i.large) + Cat(carry, addend)
    _hand_on(m, i, o, "exponent", "sticky")
    m.d.comb += o.total.eq(total[1:])
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
    # A one set where the exponent would reach its least value stops the count there.
    top = fmt.precision + 2
    floor = Signal(fmt.precision + 3)
    for index in range(top):
        m.d.comb += floor[index].eq(i.exponent == top - index)
    _hand_on(m, i, o, "exponent", "total", "sticky")
    m.d.comb += o.shift.eq(leading_zeros(m, i.total | floor))
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
    # The hidden bit counts one into the exponent, and so does a significand that rounds up to two.
    low = Cat(i.up, fraction, i.exponent)
    high = Cat(1, hidden.shift_left(fmt.fraction))
    encoded = Signal(fmt.width - 1)
    m.d.comb += encoded.eq((low + high)[1:])

    exponent = encoded[fmt.fraction :]
    overflow = Signal()
    m.d.comb += overflow.eq(exponent.all() & ~i.special & ~i.verbatim)
    m.d.comb += [
        result[: fmt.fraction].eq(
            Mux(overflow | i.special, i.nan << (fmt.fraction - 1), encoded[: fmt.fraction])
        ),
        result[fmt.fraction : -1].eq(exponent | i.special.replicate(fmt.exponent)),
        result[-1].eq(i.sign & ~i.nan),
        flags.inexact.eq((i.inexact | overflow) & ~i.special),
        flags.overflow.eq(overflow),
        flags.invalid.eq(i.invalid),
    ]
    return result, flags
