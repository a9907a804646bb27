# SPDX-License-Identifier: Apache-2.0
"""An engine in random rings."""

import random
from abc import ABC, abstractmethod
from typing import Any, ClassVar

from sim.engines.engine import engine_named

__all__ = ["RingEngine"]


class RingEngine(ABC):
    """An engine in random rings.

    Attributes
    ----------
    packets : int
        In a frame, which wires lose and repeat as one.
    scatters : bool
        Does reduce-scatter and all-gather, too.
    formats : bool
        Commands say the format on the wire; those of others have formats that differ by operation.
    """

    name: ClassVar[str]
    config: ClassVar[type]
    packets: ClassVar[int] = 1
    scatters: ClassVar[bool] = False
    formats: ClassVar[bool] = False

    @abstractmethod
    def draw(self, rng: random.Random) -> Any:
        """A configuration that is small enough to run fast.

        Raises
        ------
        ValueError
            An invalid combination was drawn.
        """

    @abstractmethod
    def header_bits(self, rng: random.Random, config: Any) -> tuple[int, ...]:
        """Bits of a header, of which damage is noticed."""

    @property
    def driver(self) -> Any:
        """Runs rings of it in RTL."""
        return engine_named(self.name).kind.driver
