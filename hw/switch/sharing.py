"""Two users of one way through the crossbar."""

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Sharing"]


class Sharing(wiring.Component):
    """Lets one of two begin at a time, and none while the other is at it. Each goes first in turn.

    `hold` depends on the other inputs of the same cycle but `begins`.

    Members
    -------
    offers : ``In(2)``
        Who could begin.
    busy : ``In(2)``
        Who is at it, but for its last cycle.
    begins : ``In(2)``
        Who begins; nobody who is held.
    hold : ``Out(2)``
        Who must not begin.
    """

    offers: Signal
    busy: Signal
    begins: Signal
    hold: Signal

    def __init__(self) -> None:
        super().__init__(
            {"offers": In(2), "busy": In(2), "begins": In(2), "hold": Out(2)}
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        second = Signal()  # the second goes first
        m.d.comb += [
            self.hold[0].eq(self.busy[1] | (self.offers[1] & second)),
            self.hold[1].eq(self.busy[0] | (self.offers[0] & ~second)),
        ]
        with m.If(self.begins.any()):
            m.d.sync += second.eq(self.begins[0])
        return m
