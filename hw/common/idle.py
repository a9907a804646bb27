# SPDX-License-Identifier: Apache-2.0
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
    ``idle`` falls in the cycle in which ``quiet`` does, and rises *cycles* cycles after it. Parts
    that say so by themselves are joined behind a register.

    Parameters
    ----------
    cycles : int
        Cycles before the present one in which all was quiet: at least what a message takes between
        two parts.

    parts : int
        Bits of ``quiet``, each of some parts: they meet behind registers.

    Members
    -------
    quiet : ``In(parts)``
        Those parts have nothing to do.
    idle : ``Out(1)``
        Nothing is going on.
    was_idle : ``Out(1)``
        The same in the cycle before. Depends on registers only.
    """

    quiet: Signal
    idle: Signal
    was_idle: Signal

    def __init__(self, cycles: int, *, parts: int = 1) -> None:
        self._cycles = require_int("IdleDetector cycles", cycles)
        self._parts = require_int("IdleDetector parts", parts)
        super().__init__({"quiet": In(self._parts), "idle": Out(1), "was_idle": Out(1)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        last = Signal(self._parts)  # quiet in the cycle before
        earlier = Signal(self._cycles)
        m.d.sync += [last.eq(self.quiet), earlier.eq(Cat(last.all(), earlier))]
        m.d.comb += [
            self.was_idle.eq(last.all() & earlier.all()),
            self.idle.eq(Cat(self.quiet, last, earlier[:-1]).all()),
        ]
        return m
