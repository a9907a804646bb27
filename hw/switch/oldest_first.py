"""Which operand goes first, where several inputs have one for the same link."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.common.arbiter import RoundRobinArbiter
from hw.common.params import require_int
from hw.switch.packet import MOST_YOUNGER

__all__ = ["OldestFirst"]


class OldestFirst(wiring.Component):
    """Chooses one of several inputs that ask for an output: the one with the oldest operand.

    Of operands that are equally old, that of the lowest input goes: all switches choose alike, so
    the operands of a sum stay together. Inputs take turns to be passed at most *most* times in a
    row; whose turn it is goes next then, so each goes within ``n (most + 1)`` grants. Nothing waits
    for registers: the choice is that of the same cycle.

    Parameters
    ----------
    n : int
        Inputs.
    most : int
        How often in a row the input whose turn it is may be passed.

    Members
    -------
    asks : ``In(n)``
        Who has an operand for the output.
    older : ``In(n).array(n)``
        Of each, which inputs have an older one.
    chosen : ``Out(n)``
        Who may ask; one-hot if anybody does.
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
        m.submodules.turns = turns = RoundRobinArbiter(self._n)
        passed = Signal(range(self._most + 1))
        oldest = Signal(self._n)
        in_turn = Signal()
        m.d.comb += [
            turns.requests.eq(self.asks),
            oldest.eq(
                Cat(self.asks[k] & ~(self.asks & self.older[k]).any() for k in range(self._n))
            ),
            # Ages wrap around: of inputs very far apart, each may be older than the next one.
            self.chosen.eq(
                Mux((passed == self._most) | ~oldest.any(), turns.grant, oldest & -oldest)
            ),
            in_turn.eq((self.chosen & turns.grant).any()),
            turns.advance.eq(self.granted & in_turn),
        ]
        with m.If(self.granted):
            m.d.sync += passed.eq(Mux(in_turn, 0, passed + 1))
        return m
