# SPDX-License-Identifier: Apache-2.0
"""Detector of outputs that take no packets of a class."""

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from hw.common.params import require_int
from hw.switch.packet import REOPENING_CYCLES, STOPPED_CYCLES

__all__ = ["StopDetector"]


class StopDetector(wiring.Component):
    """Finds that an output has had no credit of a class for long: it has *stopped*.

    The oldest packet of an input may be passed only so often while its output moves, so that it
    gets there, but without limit when the output has stopped, so that a receiver which takes
    nothing stops nobody else. When a credit comes after all, nothing is sent for longer than a
    packet takes: by then every input that waits for this output is held, asks for it, and has its
    turn. So no packet is passed for ever because its input is busy in just those cycles in which
    there are credits.

    Parameters
    ----------
    classes : int
    patience : int
        Cycles without a credit after which an output has stopped; a power of two.
    pause : int
        Cycles, more than a packet takes, in which nothing is sent afterwards; a lower power of two.

    Members
    -------
    credit : ``In(classes)``
        The output has credits of the class.
    stopped : ``Out(classes)``
        It has stopped, from the next cycle on.
    opens : ``Out(classes)``
        Stopped, or with credits again for less than *pause*: nothing is sent in the next cycle.
    """

    credit: Signal
    stopped: Signal
    opens: Signal

    def __init__(
        self, *, classes: int, patience: int = STOPPED_CYCLES, pause: int = REOPENING_CYCLES
    ) -> None:
        self._classes = require_int("StopDetector classes", classes)
        self._patience = require_int(
            "StopDetector patience", patience, minimum=2, power_of_two=True
        )
        self._pause = require_int(
            "StopDetector pause", pause, minimum=2, maximum=patience // 2, power_of_two=True
        )
        super().__init__(
            {name: (In if name == "credit" else Out)(classes)
             for name in ("credit", "stopped", "opens")}
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        low = exact_log2(self._pause)
        for k in range(self._classes):
            # Cycles without a credit; when it has stopped, those with one.
            count = Signal(range(2 * self._patience), name=f"count_{k}")
            high = exact_log2(self._patience)
            stopped = count[high]
            paused: Any = count[:low]
            with m.If(stopped):
                with m.If(~self.credit[k]):
                    m.d.sync += paused.eq(0)
                with m.Elif(paused.all()):
                    m.d.sync += count.eq(0)
                with m.Else():
                    m.d.sync += paused.eq(paused + 1)
            with m.Else():
                m.d.sync += count.eq(count + 1)
                with m.If(self.credit[k]):
                    m.d.sync += count.eq(0)
            stops = ~stopped & count[:high].all() & ~self.credit[k]
            m.d.comb += [
                self.stopped[k].eq(stops | (stopped & ~self.credit[k])),
                self.opens[k].eq(stops | (stopped & ~(self.credit[k] & paused.all()))),
            ]
        return m
