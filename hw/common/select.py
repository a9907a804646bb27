# SPDX-License-Identifier: Apache-2.0
"""Multiplexers by number, which take fewer LUTs than those by one-hot select."""

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Mux, Value

__all__ = ["any_below", "index_of", "lowest", "marked", "select"]


def index_of(one_hot: Value) -> Value:
    """Number of the bit that is set; 0 if none is."""
    bits = range(max(1, (len(one_hot) - 1).bit_length()))
    return Cat(
        Cat(one_hot[k] for k in range(len(one_hot)) if k >> bit & 1).any() for bit in bits
    )


def any_below(bits: Value) -> Value:
    """A bit for each of *bits*: whether any of lower number is set."""
    return Cat(bits[:n].any() for n in range(len(bits)))


def lowest(bits: Value) -> Value:
    """The lowest bit that is set, and no other one; without a carry."""
    return bits & ~any_below(bits)


def marked(one_hot: Value, values: Iterable[Value]) -> Value:
    """The value whose bit is set; 0 if none is. Faster than by number where the bit comes late."""
    return reduce(or_, (Mux(bit, value, 0) for bit, value in zip(one_hot, values)))


def select(number: Value, values: Sequence[Value]) -> Value:
    """The value with this number: a balanced tree, of which two levels are a LUT of six inputs."""
    level, rest = list(values), list(number)
    while len(level) > 1:
        bit = rest.pop(0)
        pairs = [level[k : k + 2] for k in range(0, len(level), 2)]
        level = [Mux(bit, each[1], each[0]) if each[1:] else each[0] for each in pairs]
    return level[0]
