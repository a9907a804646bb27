# SPDX-License-Identifier: Apache-2.0
"""A watchdog over what is outstanding."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Watchdog"]


class Watchdog(wiring.Component):
    """Notices that nothing has moved for some time although something is outstanding.

    Parameters
    ----------
    bits : int
        Width of the time.
    tries_bits : int
        Width of the number of times that it may pass before it is an error; 0: without.

    Members
    -------
    limit : ``In(bits)``
        After so many cycles; 0 for never.
    outstanding, progress : ``In(1)``
        Something is outstanding; it has moved in this cycle.
    refresh : ``Out(1)``
        High for one cycle after half of them: what was said to others may have been lost.
    stalled : ``Out(1)``
        High for one cycle after all of them, and so on.
    tries : ``In(tries_bits)``, only with *tries_bits*
        So many times more before it is an error.
    failed : ``Out(1)``, only with *tries_bits*
        High for one cycle with the last of them.
    """

    limit: Signal
    outstanding: Signal
    progress: Signal
    refresh: Signal
    stalled: Signal
    tries: Signal
    failed: Signal

    def __init__(self, bits: int, *, tries_bits: int = 0) -> None:
        self._bits, self._tries_bits = bits, tries_bits
        several = {"tries": In(tries_bits), "failed": Out(1)} if tries_bits else {}
        inputs = dict.fromkeys(("outstanding", "progress"), In(1))
        outputs = dict.fromkeys(("refresh", "stalled"), Out(1))
        super().__init__({"limit": In(bits), **inputs, **outputs, **several})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        waited = Signal(self._bits)
        watching = self.outstanding & (self.limit != 0)
        m.d.comb += [
            self.refresh.eq(watching & (waited == self.limit >> 1)),
            self.stalled.eq(watching & (waited >= self.limit)),
        ]
        restarts = ~watching | self.progress
        with m.If(restarts | self.stalled):
            m.d.sync += waited.eq(0)
        with m.Else():
            m.d.sync += waited.eq(waited + 1)
        if self._tries_bits:
            times = Signal(self._tries_bits)
            m.d.comb += self.failed.eq(self.stalled & (times >= self.tries))
            with m.If(restarts):
                m.d.sync += times.eq(0)
            with m.Elif(self.stalled):
                m.d.sync += times.eq(Mux(self.failed, 0, times + 1))
        return m
