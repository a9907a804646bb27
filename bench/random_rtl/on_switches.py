# SPDX-License-Identifier: Apache-2.0
"""The system of RTL endpoints and switches that a drawn case is of."""

from collections.abc import Callable
from typing import Any

from hw.switch.config import SwitchConfig
from hw.switch_dma.config import SwitchDmaConfig
from sim.rtl.switch.stepped import SteppedFabric
from tb.switch_dma.fabric import flat, two_levels

__all__ = ["OnSwitches"]


class OnSwitches:
    """A case of endpoints at one switch per plane or, with *leaf*, at leaves of so many each."""

    leaf: int
    mode: str
    stalls: float
    latency: int
    seed: int

    def build(
        self, switch: SwitchConfig, dma: SwitchDmaConfig, members: int, **options: Any
    ) -> SteppedFabric:
        """The system of *members* endpoints; *options* are others of `tb.switch_dma.fabric`."""
        make: Callable[..., SteppedFabric] = two_levels if self.leaf else flat
        if self.leaf:
            options["leaf"] = self.leaf
        return make(
            switch, dma, members, mode=self.mode, stalls=self.stalls, latency=self.latency,
            seed=self.seed & 0xFFFF, **options,
        )

    @property
    def where(self) -> str:
        """The place of its endpoints, for the text of the case."""
        return f"leaves of {self.leaf}" if self.leaf else "a switch"
