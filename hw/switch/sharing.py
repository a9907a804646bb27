# SPDX-License-Identifier: Apache-2.0
"""Sharing of one way through the crossbar by several users."""

from typing import Any

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.common.params import require_int
from hw.common.select import any_below

__all__ = ["Sharing"]


class Sharing(wiring.Component):
    """Lets one of several users transfer at a time, in turn.

    `hold` depends on the other inputs of the same cycle but `begins`, which may come a cycle later:
    a user that is not busy meanwhile may then begin once more before the others.

    Parameters
    ----------
    users : int
        At least 2.

    Members
    -------
    offers : ``In(users)``
        Users that could begin.
    busy : ``In(users)``
        Users that are transferring (low in the last cycle).
    begins : ``In(users)``
        Users that begin; none that was held when it offered.
    hold : ``Out(users)``
        Users that must not begin; of those that do not offer nothing is said.
    """

    offers: Signal
    busy: Signal
    begins: Signal
    hold: Signal

    def __init__(self, *, users: int = 2) -> None:
        self._users = require_int("Sharing users", users, minimum=2)
        super().__init__(
            {"offers": In(users), "busy": In(users), "begins": In(users), "hold": Out(users)}
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        preferred = Signal(self._users)  # those behind the one that began last: a round robin
        with m.If(self.begins.any()):
            m.d.sync += preferred.eq(any_below(self.begins))
        for k in range(self._users):
            # Whoever offers and is not held goes first; so nobody asks who does, and only then
            # whether it is somebody else.
            before = [
                self.busy[j] | (self.offers[j] & self._precedes(preferred, j, k))
                for j in range(self._users)
                if j != k
            ]
            m.d.comb += self.hold[k].eq(Cat(before).any())
        return m

    @staticmethod
    def _precedes(preferred: Value, one: int, other: int) -> Value:
        """High if *one* goes before the *other*, if both offer."""
        if one < other:
            return preferred[one] | ~preferred[other]
        return preferred[one] & ~preferred[other]
