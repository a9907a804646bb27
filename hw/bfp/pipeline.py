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
        self._valid = valid
        self._ready = ready

    def stage(self, step: str) -> Signal:
        """Add a stage; return the signal in whose cycles its registers are to be loaded."""
        m = self._m
        load, held, onward = (Signal(name=f"{step}_{what}") for what in ("load", "valid", "onward"))
        m.d.comb += [load.eq(~held | onward), self._ready.eq(load)]
        with m.If(load):
            m.d.sync += held.eq(self._valid)
        self._valid, self._ready = held, onward
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
        self._m.d.comb += [valid.eq(self._valid), self._ready.eq(ready)]
