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
    # Halve the word, keeping the half with the leading one; a padding of ones is never counted.
    rest: Value = Cat(Const(-1, (1 << levels) - len(value)), value)
    count: list[Value] = []
    for level in reversed(range(levels)):
        high, low = rest[1 << level :], rest[: 1 << level]
        zero = Signal(name=f"zero_{level}")
        half = Signal(1 << level, name=f"half_{level}")
        m.d.comb += [zero.eq(high == 0), half.eq(Mux(zero, low, high))]
        count.insert(0, zero)
        rest = half
    return Cat(*count)


def shift_left(m: Module, value: Value, amount: Value) -> Value:
    """Shift *value* left by *amount* within its width."""
    for level in reversed(range(len(amount))):
        shifted = Signal(len(value), name=f"left_{level}")
        m.d.comb += shifted.eq(Mux(amount[level], value << (1 << level), value))
        value = shifted
    return value


def shift_right_sticky(m: Module, value: Value, amount: Value) -> tuple[Value, Value]:
    """Shift *value* right by any *amount*; also tell whether a one was shifted out."""
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
    return value, lost.any()
