# SPDX-License-Identifier: Apache-2.0
"""Handshake of a pipeline whose stages move independently."""

from collections.abc import Collection
from typing import Any

from amaranth.hdl import Module, Signal, Value

__all__ = ["Pipeline"]


class Pipeline:
    """Carries `valid` forward and `ready` back through the registers of a component.

    A stage takes what the stage before it offers when it is empty or its own contents move on, so
    nothing is lost or overtaken, and bubbles close up behind a stall.

    Parameters
    ----------
    m : Module
        Where the logic goes.
    cuts : collection of str
        Steps whose outcome is registered.
    valid : Value
        Something is offered to the first stage.
    ready : Value
        Driven: the first stage takes it.
    """

    def __init__(self, m: Module, *, cuts: Collection[str], valid: Value, ready: Value) -> None:
        self._m = m
        self._cuts = cuts
        self._valid = self._offered = valid
        self._ready = ready
        self._stages: list[tuple[Signal, Signal]] = []

    def stage(self, step: str) -> Signal:
        """Add a stage; return the signal in whose cycles its registers are to be loaded."""
        load, held = Signal(name=f"{step}_load"), Signal(name=f"{step}_valid")
        with self._m.If(load):
            self._m.d.sync += held.eq(self._valid)
        self._stages.append((load, held))
        self._valid = held
        return load

    def register(self, step: str, *values: Any) -> tuple[Any, ...]:
        """Return *values* as the next step sees them: from a stage of its own, or as they are."""
        if step not in self._cuts:
            return values
        load = self.stage(step)
        held = [Signal(v.shape(), name=f"{step}_held", reset_less=True) for v in values]
        with self._m.If(load):
            self._m.d.sync += [kept.eq(value) for kept, value in zip(held, values, strict=True)]
        return tuple(held)

    def end(self, *, valid: Value, ready: Value) -> None:
        """Connect the last stage to an output."""
        m, depth = self._m, len(self._stages)
        m.d.comb += valid.eq(self._valid)
        onward: Any = ready
        for load, held in reversed(self._stages[1:]):
            m.d.comb += load.eq(~held | onward)
            onward = load
        if depth == 0:
            m.d.comb += self._ready.eq(ready)
            return
        # The first stage has room unless all are full; counting tells without asking each.
        load, _ = self._stages[0]
        level, full = Signal(range(depth + 1)), Signal()
        enters, leaves = self._offered & load, self._valid & ready
        m.d.comb += [load.eq(~full | ready), self._ready.eq(load)]
        m.d.sync += [
            level.eq(level + enters - leaves),
            full.eq(~leaves & (level == depth - enters) | leaves & enters & full),
        ]
