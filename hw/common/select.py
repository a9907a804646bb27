# SPDX-License-Identifier: Apache-2.0
"""Multiplexers by number, which take fewer LUTs than those by one-hot select."""

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.common.params import require_int

__all__ = [
    "Selector", "any_below", "index_of", "lowest", "marked", "marked_apart",
    "select", "select_in_parts",
]

_PART_BITS = 2


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


def marked_apart(m: Module, name: str, one_hot: Value, values: Iterable[Value]) -> Value:
    """The value whose bit is set, as `marked` selects it, in a `Selector` called *name*.

    A block of its own is mapped by itself, so the bit, which comes late, passes no more levels than
    it has to, however many there are beside it.
    """
    given = list(values)
    m.submodules[name] = each = Selector(len(given[0]), len(given), one_hot=True)
    m.d.comb += each.number.eq(one_hot)
    m.d.comb += [to.eq(value) for to, value in zip(each.values, given, strict=True)]
    return each.o


def select(number: Value, values: Sequence[Value]) -> Value:
    """The value with this number: a balanced tree, of which two levels are a LUT of six inputs."""
    level, rest = list(values), list(number)
    while len(level) > 1:
        bit = rest.pop(0)
        pairs = [level[k : k + 2] for k in range(0, len(level), 2)]
        level = [Mux(bit, each[1], each[0]) if each[1:] else each[0] for each in pairs]
    return level[0]


class Selector(wiring.Component):
    """Selects one of *n* values of *width* bits, by its number or by a bit, in the same cycle.

    Parameters
    ----------
    width : int
        Bits of a value.
    n : int
        Values.
    one_hot : bool
        By a bit: see `marked`.

    Members
    -------
    number : ``In(range(n))``; with *one_hot*, ``In(n)``
        Which one; a bit that is set for it.
    values : ``In(width).array(n)``
        The values.
    o : ``Out(width)``
        The one with this number; 0 if no bit is set.
    """

    number: Value
    values: Any
    o: Value

    def __init__(self, width: int, n: int, *, one_hot: bool = False) -> None:
        width = require_int("Selector width", width)
        self._n = require_int("Selector n", n)
        self._one_hot = one_hot
        super().__init__(
            {
                "number": In(n if one_hot else range(max(2, n))),
                "values": In(width).array(self._n),
                "o": Out(width),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        values = [self.values[k] for k in range(self._n)]
        m.d.comb += self.o.eq((marked if self._one_hot else select)(self.number, values))
        return m


def select_in_parts(m: Module, name: str, number: Value, values: Sequence[Value]) -> Value:
    """The value with this number, of at most 16 wide ones: by fours, each a `Selector`, then one of
    these.

    A block of its own is mapped by itself: one of 16 is then five LUTs of six inputs a bit, where
    Yosys makes a tree that it sees as a whole of seven.
    """
    parts = []
    for first in range(0, len(values), 1 << _PART_BITS):
        of_these = values[first : first + (1 << _PART_BITS)]
        part = Selector(len(values[0]), len(of_these))
        m.submodules[f"{name}_{first}"] = part
        m.d.comb += part.number.eq(number[:_PART_BITS])
        m.d.comb += [part.values[k].eq(value) for k, value in enumerate(of_these)]
        parts.append(part.o)
    return select(number[_PART_BITS:], parts)
