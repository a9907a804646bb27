"""Bit-level building blocks of the adder, all combinational and logarithmic in depth."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.utils import ceil_log2

__all__ = ["compare_prefixes", "leading_zeros", "shift_left", "shift_right_sticky"]


def compare_prefixes(m: Module, a: Value, b: Value, *, name: str) -> list[tuple[Value, Value]]:
    """Compare every low part of two equally wide values.

    Entry *i* of the result tells of bits 0 to *i* whether *a* is greater and whether both are
    equal. Read as carries, these are "generate" and "propagate" of ``a + ~b``.
    """
    parts: list[tuple[Value, Value]] = []
    for index in range(len(a)):
        greater, equal = Signal(name=f"{name}_gt_{index}"), Signal(name=f"{name}_eq_{index}")
        m.d.comb += [greater.eq(a[index] & ~b[index]), equal.eq(~(a[index] ^ b[index]))]
        parts.append((greater, equal))
    span = 1
    while span < len(a):
        for index in range(len(a)):
            if index & span:
                # Everything below the highest multiple of `span` in `index` is complete already.
                low_greater, low_equal = parts[index // span * span - 1]
                high_greater, high_equal = parts[index]
                greater = Signal(name=f"{name}_gt_{index}_{span}")
                equal = Signal(name=f"{name}_eq_{index}_{span}")
                m.d.comb += greater.eq(high_greater | (high_equal & low_greater))
                m.d.comb += equal.eq(high_equal & low_equal)
                parts[index] = greater, equal
        span *= 2
    return parts


def leading_zeros(m: Module, value: Value) -> Value:
    """Count the zeros above the highest one of *value*, which must not be zero."""
    levels = ceil_log2(len(value))
    padded = Cat(Const(-1, (1 << levels) - len(value)), value)
    # Each node covers a power of two of bits: are they all zero, and how many zeros lead them?
    nodes: list[tuple[Value, Value]] = [(~bit, Const(0, 0)) for bit in padded]
    for level in range(levels):
        merged: list[tuple[Value, Value]] = []
        for (low_zero, low), (high_zero, high) in zip(nodes[0::2], nodes[1::2], strict=True):
            zero = Signal(name=f"zero_{level}_{len(merged)}")
            count = Signal(level + 1, name=f"zeros_{level}_{len(merged)}")
            m.d.comb += zero.eq(low_zero & high_zero)
            m.d.comb += count.eq(Cat(Mux(high_zero, low, high), high_zero))
            merged.append((zero, count))
        nodes = merged
    return nodes[0][1]


def shift_left(m: Module, value: Value, amount: Value) -> Value:
    """Shift *value* left by *amount* within its width."""
    for level in reversed(range(len(amount))):
        shifted = Signal(len(value), name=f"left_{level}")
        m.d.comb += shifted.eq(Mux(amount[level], value << (1 << level), value))
        value = shifted
    return value


def shift_right_sticky(m: Module, value: Value, amount: Value) -> tuple[Value, Value]:
    """Shift *value* right by *amount*; also tell whether a one was shifted out."""
    sticky: Value = Const(0)
    for level in reversed(range(len(amount))):
        step = 1 << level
        shifted = Signal(len(value), name=f"right_{level}")
        lost = Signal(name=f"lost_{level}")
        m.d.comb += shifted.eq(Mux(amount[level], value >> step, value))
        m.d.comb += lost.eq(sticky | (amount[level] & value[:step].any()))
        value, sticky = shifted, lost
    return value, sticky
