"""Handshake of a pipeline whose stages move independently."""

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
    valid : Value
        Something is offered to the first stage.
    ready : Value
        Driven: the first stage takes it.
    """

    def __init__(self, m: Module, *, valid: Value, ready: Value) -> None:
        self._m = m
        self._ready: Value = ready
        self.valid: Value = valid
        """The last stage made so far offers something."""

    def stage(self, name: str) -> Signal:
        """Add a stage; return the signal in whose cycles its registers are to be loaded."""
        m = self._m
        load, held, onward = (Signal(name=f"{name}_{what}") for what in ("load", "valid", "onward"))
        m.d.comb += [load.eq(~held | onward), self._ready.eq(load)]
        with m.If(load):
            m.d.sync += held.eq(self.valid)
        self.valid, self._ready = held, onward
        return load

    def end(self, *, valid: Value, ready: Value) -> None:
        """Connect the last stage to an output."""
        self._m.d.comb += [valid.eq(self.valid), self._ready.eq(ready)]
