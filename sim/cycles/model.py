# SPDX-License-Identifier: Apache-2.0
"""The base of cycle models, and how long they run at most."""

import importlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sim.cycles.host import OP_WRITE, operations
from sim.cycles.queues import NEVER
from sim.hosts.activity import LinkActivity, UnitActivity
from sim.hosts.command import Command
from sim.hosts.script import Step, check_scripts
from sim.hosts.surroundings import Surroundings
from sim.native.binding import bind

__all__ = [
    "MOST_CYCLES", "MOST_IN_FLIGHT", "MOST_STEPS", "CycleModel", "Operations", "RingCycles",
    "Stepped",
]

MOST_CYCLES = 1 << 30
"""Bound of a run of cycle models: ACE's packs a cycle and its event into one 64-bit number."""
MOST_STEPS = 1 << 32
"""Bound of a run of switches: every endpoint and switch takes a step in every cycle."""
MOST_IN_FLIGHT = 1 << 27
"""Beats that all links of NICs have room for."""

Operations = Sequence[Sequence[tuple[int, int, int]]]
"""Operations of the host of each rank."""


class CycleModel(ABC):
    """The cycle model of an engine, as those who run it know it.

    A model is made by ``Model(config, ring, commands, scripts, *, external=(), start_cycle=0,
    trace=False)``: *scripts* has the steps (``sim.hosts.script``) of each rank's host, *external*
    names ranks that are simulated elsewhere, *trace* keeps every beat.
    """

    @property
    @abstractmethod
    def done(self) -> bool:
        """True when every script has been completed."""

    @abstractmethod
    def run(self, until: int = NEVER) -> float:
        """Simulate all cycles before *until* (default: all); returns the wall time in seconds."""

    @abstractmethod
    def steps(self, rank: int) -> NDArray[np.int64]:
        """Cycle in which each step of a rank's script was completed, -1 if it was not."""

    @abstractmethod
    def completions(self) -> NDArray[np.int64]:
        """Cycle in which each engine completed each command, -1 if not: ranks x commands."""

    def counts(self) -> Mapping[str, int]:
        """Events by name, of models that count any."""
        return {}

    def units(self) -> Mapping[str, UnitActivity]:
        """Work of parts of the engines by name, of models that count it."""
        return {}

    @abstractmethod
    def link_activity(self, rank: int, port: int, *, bucket_cycles: int = 0) -> LinkActivity:
        """Traffic that a port has sent; series and single beats are empty without *trace*."""


class Stepped(ABC):
    """A model whose cycles are those of compiled code.

    Attributes
    ----------
    package, title : str
        Package whose module ``loop`` has the code, ``run_until(state, ...)``; and the model's name.
    state : named tuple of arrays
    """

    package: ClassVar[str]
    title: ClassVar[str]
    state: Any

    @cached_property
    def _run_until(self) -> Callable[..., int]:
        loop = importlib.import_module(f"{self.package}.loop")
        return bind(loop.run_until, self.state, doing=f"compiling {self.title} (about 20 s)")

    @abstractmethod
    def _simulate(self, until: int) -> None:
        """Simulate all cycles before *until*."""

    def run(self, until: int = NEVER) -> float:
        """Simulate all cycles before *until* (default: all); returns the wall time in seconds,
        without that of the compiler."""
        _ = self._run_until
        began = time.perf_counter()
        self._simulate(until)
        return time.perf_counter() - began


class RingCycles(Stepped, CycleModel):
    """Engines on a ring; their hosts are compiled code, too: records ``node`` of the state have
    their operations, ``op`` to ``op_end`` of ``script``."""

    @staticmethod
    def operations(
        ring: Surroundings, commands: Sequence[Command], scripts: Sequence[Sequence[Step]],
        external: Iterable[int], *, writes: int,
    ) -> Operations:
        """The operations of each host, of which *writes* register writes start a command."""
        check_scripts(scripts, nodes=ring.engines, commands=len(commands))
        return [
            [] if rank in external else operations(script, writes=writes)
            for rank, script in enumerate(scripts)
        ]

    def _give(self, hosts: Operations) -> None:
        """Give the hosts their operations."""
        s = self.state
        self._ends = np.cumsum([0, *map(len, hosts)])
        s.node["op"], s.node["op_end"] = self._ends[:-1], self._ends[1:]
        s.script[: self._ends[-1]] = np.array(list(chain(*hosts)), s.script.dtype)

    def steps(self, rank: int) -> NDArray[np.int64]:
        script = self.state.script[self._ends[rank] : self._ends[rank + 1]]
        ends: NDArray[np.int64] = script["end"][script["kind"] != OP_WRITE]
        return ends
