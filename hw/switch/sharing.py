"""Users of one way through the crossbar."""

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.common.arbiter import RoundRobinArbiter
from hw.common.params import require_int

__all__ = ["Sharing"]


class Sharing(wiring.Component):
    """Lets one of several begin at a time, and none while another is at it, in turn.

    `hold` depends on the other inputs of the same cycle but `begins`.

    Parameters
    ----------
    users : int
        At least 2.

    Members
    -------
    offers : ``In(users)``
        Who could begin.
    busy : ``In(users)``
        Who is at it, but for its last cycle.
    begins : ``In(users)``
        Who begins; nobody who is held.
    hold : ``Out(users)``
        Who must not begin.
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
        m.submodules.turns = turns = RoundRobinArbiter(self._users)
        m.d.comb += [turns.requests.eq(self.offers), turns.advance.eq(self.begins.any())]
        for k in range(self._users):
            others = (1 << self._users) - 1 ^ 1 << k
            m.d.comb += self.hold[k].eq(((self.busy | turns.grant) & others).any())
        return m
