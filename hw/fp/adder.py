# SPDX-License-Identifier: Apache-2.0
"""Floating-point adder."""

from collections.abc import Callable
from functools import partial
from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.common.params import require_int, require_type
from hw.fp import steps
from hw.fp.formats import BINARY32, Flags, FloatFormat

__all__ = ["MAX_STAGES", "FPAdder", "registered", "sum_pipeline"]

# Number of stages -> steps whose outcome is registered. The last register is always the result.
_CUTS = (
    (),
    ("round",),
    ("add", "round"),
    ("align", "count", "round"),
    ("order", "add", "count", "round"),
    ("order", "align", "add", "count", "round"),
    ("order", "align", "add", "count", "normalize", "round"),
    ("order", "align", "add", "mark", "count", "normalize", "round"),
    ("compare", "order", "align", "add", "mark", "count", "normalize", "round"),
)
MAX_STAGES = len(_CUTS) - 1


def registered(m: Module, step: str, value: Any, *, stages: int, name: str = "") -> Any:
    """*value*, known when *step* is done; behind a register if a sum of *stages* has one there."""
    if step not in _CUTS[stages]:
        return value
    held = Signal(value.shape(), name=f"{name or step}_held", reset_less=True)
    m.d.sync += held.eq(value)
    return held


def sum_pipeline(
    m: Module, fmt: FloatFormat, ordered: data.View, stages: int
) -> tuple[data.View, data.View]:
    """Add what `hw.fp.steps.order` has prepared; return sum and flags, with the registers of a sum
    of *stages* behind the comparison."""
    register = partial(registered, m, stages=stages)
    value = register("order", ordered)
    inner: list[tuple[str, Callable[..., data.View]]] = [
        ("align", steps.align),
        ("add", steps.add_aligned),
        ("mark", steps.mark),
        ("count", steps.count),
        ("normalize", steps.normalize),
    ]
    for name, step in inner:
        value = register(name, step(m, fmt, value))
    total, flags = steps.round_sum(m, fmt, value)
    return register("round", total), register("round", flags)


class FPAdder(wiring.Component):
    """IEEE 754 adder: round to nearest, ties to even; subnormals, infinities, NaNs, signed zeros.

    Latency is *stages* cycles (0 is combinational); throughput is one sum per cycle. It never
    stalls and has no reset: every sum follows its operands after exactly the latency. With one
    stage or more the outputs are registers; the inputs are not.

    Subnormal operands and sums are exact. Every NaN sum is the canonical quiet NaN, positive, with
    only the highest fraction bit set. Opposite operands give plus zero.

    Parameters
    ----------
    fmt : FloatFormat
        Number format; binary32 by default.
    stages : int
        Pipeline registers between operands and sum, 0 to 8.

    Members
    -------
    a, b : ``In(fmt.width)``
        Addends.
    sum : ``Out(fmt.width)``
        Their sum.
    flags : ``Out(Flags)``
        Exceptions of this sum. Underflow is never raised: a sum that is subnormal is exact.

    Raises
    ------
    TypeError, ValueError
        *fmt* is not a `FloatFormat`, or *stages* is not an integer from 0 to 8.
    """

    a: Signal
    b: Signal
    sum: Signal
    flags: data.View

    def __init__(self, *, fmt: FloatFormat = BINARY32, stages: int = 0) -> None:
        self.fmt = require_type("FPAdder fmt", fmt, FloatFormat)
        self.latency = require_int("FPAdder stages", stages, minimum=0, maximum=MAX_STAGES)
        super().__init__(
            {"a": In(fmt.width), "b": In(fmt.width), "sum": Out(fmt.width), "flags": Out(Flags)}
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        compared = steps.compare(m, self.fmt, self.a, self.b)
        by = registered(m, "compare", compared, stages=self.latency)
        ordered = steps.order(m, self.fmt, by)
        total, flags = sum_pipeline(m, self.fmt, ordered, self.latency)
        m.d.comb += [self.sum.eq(total), self.flags.eq(flags)]
        return m
