# SPDX-License-Identifier: Apache-2.0
"""Shifters and a leading-zero counter, all combinational and logarithmic in depth.

They work on whole words, which a compiled simulation model executes several times faster than
networks of single bits.
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.utils import ceil_log2

__all__ = ["leading_zeros", "shift_left", "shift_right_sticky"]


def leading_zeros(m: Module, value: Value) -> Value:
    """Count the zeros above the highest one of *value*, which must not be zero."""
    levels = ceil_log2(len(value))
    padded = Signal(1 << levels, name="padded")
    below = len(padded) - len(value)  # filled with ones; a constant of no bits takes 0 alone
    m.d.comb += padded.eq(Cat(Const((1 << below) - 1, below), value))
    count: list[Value] = []  # highest bit first
    for level in reversed(range(levels)):
        # Cut the word into parts of twice this width: does the upper half of a part hold no one?
        # All parts are asked at once; the higher bits of the count then pick the part in question.
        width = 1 << level
        empty: list[Value] = [
            padded[start : start + width] == 0 for start in range(width, len(padded), 2 * width)
        ]
        for higher in count:
            middle = len(empty) // 2
            pairs = zip(empty[:middle], empty[middle:], strict=True)
            empty = [Mux(higher, low, high) for low, high in pairs]
        zero = Signal(name=f"zeros_{level}")
        m.d.comb += zero.eq(empty[0])
        count.append(zero)
    return Cat(*reversed(count))


def shift_left(m: Module, value: Value, amount: Value) -> Value:
    """Shift *value* left by *amount* within its width."""
    for level in reversed(range(len(amount))):
        shifted = Signal(len(value), name=f"left_{level}")
        m.d.comb += shifted.eq(Mux(amount[level], value << (1 << level), value))
        value = shifted
    return value


def shift_right_sticky(
    m: Module, value: Value, amount: Value, *, parts: int = 1
) -> tuple[Value, Value]:
    """Shift *value* right by any *amount*; also tell whether a one was shifted out.

    That is the case if one of so many *parts* says so.
    """
    levels = ceil_log2(len(value))
    # More than the stages can shift clears the word, as the most that they can shift does.
    limited = Signal(levels, name="right_by")
    m.d.comb += limited.eq(Mux(amount[levels:].any(), (1 << levels) - 1, amount[:levels]))
    lost = Signal(len(value))
    m.d.comb += lost.eq(value & ~(Const(-1, signed(len(value))) << limited))
    for level in range(levels):
        shifted = Signal(len(value), name=f"right_{level}")
        m.d.comb += shifted.eq(Mux(limited[level], value >> (1 << level), value))
        value = shifted
    return value, Cat(lost[part::parts].any() for part in range(parts))
