# SPDX-License-Identifier: Apache-2.0
"""Handshake of a pipeline whose stages move together."""

from collections.abc import Collection
from typing import Any

from amaranth.hdl import Module, Signal, Value

__all__ = ["Pipeline"]


class Pipeline:
    """Carries `valid` forward and `ready` back through the registers of a component.

    All stages move unless the last one holds what is not taken: one gate enables every register,
    where stages that ask each other would make a path as long as the pipeline. So bubbles do not
    close up behind a stall.

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
        self.moves = Signal()
        """High when all stages move."""

    def register(self, step: str, *values: Any) -> tuple[Any, ...]:
        """Return *values* as the next step sees them: from a stage of its own, or as they are."""
        if step not in self._cuts:
            return values
        valid = Signal(name=f"{step}_valid")
        held = [Signal(v.shape(), name=f"{step}_held", reset_less=True) for v in values]
        with self._m.If(self.moves):
            self._m.d.sync += valid.eq(self._valid)
            self._m.d.sync += [kept.eq(value) for kept, value in zip(held, values, strict=True)]
        self._valid = valid
        return tuple(held)

    def end(self, *, valid: Value, ready: Value) -> None:
        """Connect the last stage to an output."""
        m = self._m
        m.d.comb += [
            valid.eq(self._valid),
            self.moves.eq(~self._valid | ready if self._cuts else ready),
            self._ready.eq(self.moves),
        ]
