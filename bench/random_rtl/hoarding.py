# SPDX-License-Identifier: Apache-2.0
"""A switch that does not forget epochs that have ended: a planted bug."""

from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring

from hw.switch.epochs import EpochTracker
from hw.switch.switch import Switch

__all__ = ["HoardingSwitch"]


class _NoPurge(wiring.Component):
    """An `EpochTracker` that never purges, and takes every link for current at all times. Notices
    are forwarded and answered as by the right one."""

    held: Signal
    holds: Signal
    current: Sequence[Signal]

    def __init__(self, config: Any) -> None:
        self._tracker = EpochTracker(config)
        super().__init__(self._tracker.signature)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.tracker = tracker = self._tracker
        for name, member in self.signature.members.items():
            if name in ("holds", "held", "purging", "current"):
                continue  # nothing seems to be held, so what waits for the end of a purge goes on
            outer, inner = getattr(self, name), getattr(tracker, name)
            pairs = [(outer, inner)]
            if member.dimensions:
                pairs = list(zip(outer, inner))
            for here, there in pairs:
                m.d.comb += (
                    here.eq(there) if member.flow is wiring.Out else there.eq(here)
                )
        m.d.comb += [self.held.eq(self.holds), *(each.eq(~0) for each in self.current)]
        return m


class HoardingSwitch(Switch):
    """Keeps operands of every epoch in its tables and buffers."""

    def elaborate(self, platform: Any) -> Module:
        with patch("hw.switch.switch.EpochTracker", _NoPurge):
            return super().elaborate(platform)
