# SPDX-License-Identifier: Apache-2.0
"""Engines at equal injection, for `bench.engines`: networks of 16 NPUs of 150 GB/s each way."""

from dataclasses import dataclass
from typing import Any

from sim.units import GB

__all__ = ["INJECTION", "RANKS", "RING", "TWICE", "Case", "ring", "switch"]

RANKS, INJECTION = 16, 150 * GB
HOP_S = 300e-9
"""Latency from NPU to NPU, through a switch or over a link of a ring."""
RING = {"reductions": ["ring"]}
TWICE = 2 * (RANKS - 1) / RANKS


@dataclass(frozen=True)
class Case:
    """An engine; ``sent``: expected bytes sent by a rank over the bytes of the vector; ``memory``:
    units of the endpoint that read and write memory, empty if it reads every operand once and
    writes every result once."""

    name: str
    topology: dict[str, Any]
    endpoint: dict[str, Any]
    algorithm: dict[str, Any]
    sent: float
    memory: tuple[str, ...] = ("memory read", "memory write")


def switch(planes: int = 6) -> dict[str, Any]:
    """A switch in planes."""
    rate = INJECTION / planes
    return {"kind": "switch", "size": RANKS, "lanes": planes, "bandwidth_bytes_per_s": rate,
            "latency_s": HOP_S / 2}


def ring(ways: int) -> dict[str, Any]:
    """A ring, in one direction or in both."""
    return {"kind": "ring", "size": RANKS, "bandwidth_bytes_per_s": INJECTION / ways,
            "latency_s": HOP_S, "bidirectional": ways == 2}
