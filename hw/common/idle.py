"""Idle detection that also covers what travels between the parts of an engine."""

from typing import Any

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.common.params import require_int

__all__ = ["IdleDetector"]


class IdleDetector(wiring.Component):
    """Tells an engine's user that it is idle once all parts were quiet for some cycles.

    What leaves one part reaches the next a few cycles later, and in between both are quiet.
    ``idle`` falls in the cycle in which ``quiet`` does, and rises *cycles* cycles after it.

    Parameters
    ----------
    cycles : int
        Cycles before the present one in which all was quiet: at least what a message takes between
        two parts.

    Members
    -------
    quiet : ``In(1)``
        No part has anything to do.
    idle : ``Out(1)``
        Nothing is going on.
    """

    quiet: Signal
    idle: Signal

    def __init__(self, cycles: int) -> None:
        self._cycles = require_int("IdleDetector cycles", cycles)
        super().__init__({"quiet": In(1), "idle": Out(1)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        before = Signal(self._cycles)
        m.d.sync += before.eq(Cat(self.quiet, before))
        m.d.comb += self.idle.eq(self.quiet & before.all())
        return m
