# SPDX-License-Identifier: Apache-2.0
"""Choice of the operand that goes first when several inputs have one for the same link."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.common.params import require_int
from hw.switch.packet import MOST_YOUNGER

__all__ = ["OldestFirst"]


class OldestFirst(wiring.Component):
    """Chooses one of several inputs that ask for an output: the one with the oldest operand.

    Of operands that are equally old, that of the lowest input goes: all switches choose alike, so
    the operands of a sum stay together. Inputs take turns: whose turn it is goes at once when it
    has been passed *most* times, and keeps its turn until it has gone, though its input may be busy
    with other outputs meanwhile; a turn without an operand ends after as many grants. So an input
    whose operand stays goes within ``n (most + 1)`` grants and those in which it does not ask.
    Nothing waits for registers: the choice is that of the same cycle.

    Parameters
    ----------
    n : int
        Inputs.
    most : int
        Times in a row that the input whose turn it is may be passed.

    Members
    -------
    asks : ``In(n)``
        Inputs that have an operand for the output.
    older : ``In(n).array(n)``
        For each input, those that have an older operand.
    chosen : ``Out(n)``
        The input that may ask; one-hot if any has an operand.
    granted : ``In(1)``
        The output takes that operand.
    """

    asks: Signal
    older: Any
    chosen: Signal
    granted: Signal

    def __init__(self, n: int, *, most: int = MOST_YOUNGER) -> None:
        self._n = require_int("OldestFirst n", n)
        self._most = require_int("OldestFirst most", most)
        super().__init__(
            {
                "asks": In(self._n),
                "older": In(self._n).array(self._n),
                "chosen": Out(self._n),
                "granted": In(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        owner = Signal(self._n, init=1)  # whose turn it is
        asked = Signal()  # it has an operand, though perhaps no time for it just now
        passed = Signal(range(self._most + 1))
        oldest = Signal(self._n)
        own, late = Signal(), Signal()
        m.d.comb += [
            own.eq((self.asks & owner).any()),
            late.eq(passed == self._most),
            oldest.eq(
                Cat(self.asks[k] & ~(self.asks & self.older[k]).any() for k in range(self._n))
            ),
            # Ages wrap around: of inputs very far apart, each may be older than the next one.
            self.chosen.eq(
                Mux(late & own, owner, Mux(oldest.any(), oldest & -oldest, self.asks & -self.asks))
            ),
        ]
        with m.If(own):
            m.d.sync += asked.eq(1)
        with m.If(self.granted):
            with m.If((self.chosen & owner).any() | (late & ~own & ~asked)):
                m.d.sync += [owner.eq(owner.rotate_left(1)), passed.eq(0), asked.eq(0)]
            with m.Elif(~late):
                m.d.sync += passed.eq(passed + 1)
        return m
