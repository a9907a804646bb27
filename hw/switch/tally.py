# SPDX-License-Identifier: Apache-2.0
"""Number of parts that report the same event in a cycle."""

from typing import Any

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.common.params import require_int

__all__ = ["Tally"]


class Tally(wiring.Component):
    """Counts events of several parts by kind. Combinational.

    Parameters
    ----------
    parts : int
    kinds : int

    Members
    -------
    events : ``In(kinds).array(parts)``
        Events of each part in this cycle.
    counts : ``Out(range(parts + 1)).array(kinds)``
        Number of parts that have an event of the kind.
    found : ``Out(kinds)``
        Some part has one.
    """

    events: Any
    counts: Any
    found: Signal

    def __init__(self, *, parts: int, kinds: int) -> None:
        self._parts = require_int("Tally parts", parts)
        self._kinds = require_int("Tally kinds", kinds)
        super().__init__(
            {
                "events": In(kinds).array(parts),
                "counts": Out(range(parts + 1)).array(kinds),
                "found": Out(kinds),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        for kind in range(self._kinds):
            same = [each[kind] for each in self.events]
            m.d.comb += [
                self.counts[kind].eq(sum(same)), self.found[kind].eq(Cat(same).any()),
            ]
        return m
