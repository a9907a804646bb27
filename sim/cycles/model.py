"""The interface of cycle models, and how long they run at most."""

from collections.abc import Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sim.hosts.activity import LinkActivity

__all__ = ["MOST_CYCLES", "MOST_IN_FLIGHT", "MOST_STEPS", "CycleModel"]

MOST_CYCLES = 1 << 30
"""Bound of a run of cycle models: ACE's packs a cycle and its event into one 64-bit number."""
MOST_STEPS = 1 << 32
"""Bound of a run of switches: every endpoint and switch takes a step in every cycle."""
MOST_IN_FLIGHT = 1 << 27
"""Beats that all links of NICs have room for."""


class CycleModel(Protocol):
    """Interface that the cycle model of every engine offers to those who run it.

    A model is made by ``Model(config, ring, commands, scripts, *, external=(), start_cycle=0,
    trace=False)``: *scripts* has the steps (``sim.hosts.script``) of each rank's host, *external*
    names ranks that are simulated elsewhere, *trace* keeps every beat.
    """

    @property
    def done(self) -> bool:
        """True when every script has been completed."""

    def run(self, until: int = ...) -> float:
        """Simulate all cycles before *until* (default: all); returns the wall time in seconds."""

    def steps(self, rank: int) -> NDArray[np.int64]:
        """Cycle in which each step of a rank's script was completed, -1 if it was not."""

    def completions(self) -> NDArray[np.int64]:
        """Cycle in which each engine completed each command, -1 if not: ranks x commands."""

    def counts(self) -> Mapping[str, int]:
        """Events by name, of models that count any."""

    def link_activity(self, rank: int, port: int, *, bucket_cycles: int = 0) -> LinkActivity:
        """Traffic that a port has sent; series and single beats are empty without *trace*."""
