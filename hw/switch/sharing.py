# SPDX-License-Identifier: Apache-2.0
"""Sharing of one way through the crossbar by several users."""

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.common.arbiter import RoundRobinArbiter
from hw.common.params import require_int

__all__ = ["Sharing"]


class Sharing(wiring.Component):
    """Lets one of several users transfer at a time, in turn.

    `hold` depends on the other inputs of the same cycle but `begins`, which may come a cycle later,
    if users are then busy from the next cycle on.

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
        Users that must not begin.
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
        m.submodules.turns = turns = RoundRobinArbiter(self._users, late=True)
        m.d.comb += [
            turns.requests.eq(self.offers),
            turns.served.eq(self.begins),
            turns.advance.eq(self.begins.any()),
        ]
        for k in range(self._users):
            others = (1 << self._users) - 1 ^ 1 << k
            m.d.comb += self.hold[k].eq(((self.busy | turns.grant) & others).any())
        return m
