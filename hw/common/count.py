# SPDX-License-Identifier: Apache-2.0
"""Counters whose strobes come late: what both may lead to is there before them."""

from amaranth.hdl import Mux, Signal, Value, ValueLike

__all__ = ["stepped", "stepped_to"]


def stepped(count: Signal, *, up: ValueLike, down: ValueLike) -> Value:
    """*count* in the next cycle: one more with *up*, one less with *down*, the same with both."""
    bits = len(count)
    return Mux(up, Mux(down, count, (count + 1)[:bits]), Mux(down, (count - 1)[:bits], count))


def stepped_to(count: Signal, value: int, *, up: ValueLike, down: ValueLike) -> Value:
    """High if `stepped` is *value*, which is reached from its neighbours only."""
    most = (1 << len(count)) - 1
    below = count == value - 1 if value else 0
    above = count == value + 1 if value < most else 0
    return Mux(up, Mux(down, count == value, below), Mux(down, above, count == value))
