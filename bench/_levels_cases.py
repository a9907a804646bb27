# SPDX-License-Identifier: Apache-2.0
"""Descriptions that `bench.levels` runs at every level, and an engine as it draws them."""

import math
import random
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

__all__ = [
    "KIB", "LARGE", "Case", "EngineLevels", "RingLevels", "collective", "log_uniform", "stalls",
]

KIB = 1 << 10
LARGE = 256 * KIB
"""Bytes a node of the cells that show the steady state."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A description, the nodes that are RTL in its mixed run (none: there is no such run), and
    whether it has level rtl at all."""

    name: str
    description: dict[str, Any]
    mixed: tuple[int, ...] = ()
    rtl: bool = True


class EngineLevels(ABC):
    """Descriptions of an engine.

    Attributes
    ----------
    groups : tuple of str
        Drawn ones are judged by them.
    most_bytes : int
        Largest size that is drawn.
    """

    groups: ClassVar[tuple[str, ...]]
    clock_hz: ClassVar[float]
    most_bytes: ClassVar[int] = 4 << 20

    @abstractmethod
    def cases(self, job: str) -> Iterator[Case]:
        """Fixed descriptions; *job* is the path of a training workload."""

    @abstractmethod
    def drawn(self, rng: random.Random, group: str) -> dict[str, Any]:
        """A random description for events and cycles, without a size."""

    def cycles(self, rng: random.Random) -> int:
        """A latency, log-uniform."""
        return round(log_uniform(rng, 10, 1000))

    def memory(self, rng: random.Random) -> dict[str, float]:
        """Random latencies of memory."""
        return {
            "read_latency_s": self.cycles(rng) / self.clock_hz,
            "write_latency_s": self.cycles(rng) / self.clock_hz,
        }


class RingLevels(EngineLevels):
    """Descriptions of an engine whose programs are rings.

    Attributes
    ----------
    bus_bytes : mapping
        By preset that is drawn.
    topology, hops : str, int
        Kind of the topology, and links that lead to the next rank there.
    """

    bus_bytes: ClassVar[Mapping[str, int]]
    topology: ClassVar[str]
    hops: ClassVar[int]

    @abstractmethod
    def keys(self, rng: random.Random) -> dict[str, Any]:
        """Random keys of ``[endpoint]``, of small engines."""

    def ring(
        self, nodes: int, *, preset: str = "test", latency_s: float | None = None, **config: Any
    ) -> dict[str, Any]:
        """A ring of engines with links of one bus beat of ``test`` per cycle."""
        return {
            "topology": {
                "kind": self.topology,
                "shape": [nodes],
                "bandwidth_bytes_per_s": self.bus_bytes["test"] * self.clock_hz,
                "latency_s": (20 / self.clock_hz if latency_s is None else latency_s) / self.hops,
            },
            "endpoint": {"kind": self.groups[0], "preset": preset, **config},
            "run": {"passes": 1},
        }


def collective(
    base: dict[str, Any], size_bytes: int, kind: str = "all_reduce", **tables: Any
) -> dict[str, Any]:
    """*base* with one collective."""
    return {**base, "workload": {"collective": kind, "size_bytes": size_bytes}, **tables}


def stalls(share: float, seed: int) -> dict[str, Any]:
    """Random stalls of links and memories."""
    return {
        "network": {"stall_probability": share},
        "memory": {"stall_probability": share},
        "run": {"passes": 1, "seed": seed},
    }


def log_uniform(rng: random.Random, low: float, high: float) -> float:
    """A number, log-uniform between the bounds."""
    return math.exp(rng.uniform(math.log(low), math.log(high)))
