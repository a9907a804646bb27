# SPDX-License-Identifier: Apache-2.0
"""Descriptions of smart NICs for `bench levels`."""

import random
from collections.abc import Iterator
from typing import Any, ClassVar

from bench._levels_cases import LARGE, Case, RingLevels, collective, stalls

__all__ = ["LEVELS"]


class _NicLevels(RingLevels):
    groups = ("smartnic",)
    clock_hz = 200e6
    bus_bytes: ClassVar = {"test": 32, "40g": 32, "100g": 64, "400g": 256}
    topology, hops = "switch", 2

    def keys(self, rng: random.Random) -> dict[str, Any]:
        return {"compress": rng.random() < 0.5}

    def cases(self, job: str) -> Iterator[Case]:
        ring = self.ring
        yield Case(
            name="nic training",
            description={**ring(4), "workload": {"file": job}, "host": {"wait": "each"}},
        )
        yield Case(
            name="nic training, bfp16",
            description={
                **ring(3, compress=True), "workload": {"file": job}, "host": {"wait": "all"},
            },
        )
        yield Case(
            name="nic ring of 4, mixed", description=collective(ring(4), 60_000), mixed=(0,)
        )
        yield Case(name="nic, 256 KiB", description=collective(ring(3), LARGE))
        yield Case(
            name="nic, 256 KiB, bfp16", description=collective(ring(4, compress=True), LARGE)
        )
        yield Case(
            name="nic, 512 KiB, stalls",
            description=collective(ring(2), 2 * LARGE, **stalls(0.05, 5)),
        )

    def drawn(self, rng: random.Random, group: str) -> dict[str, Any]:
        preset = rng.choice(list(self.bus_bytes))
        pace = rng.choice((0.3, 0.5, 0.8)) if rng.random() < 0.3 else 1.0
        return {
            "topology": {
                "kind": "switch", "shape": [rng.randint(2, 16)],
                "bandwidth_bytes_per_s": pace * self.bus_bytes[preset] * self.clock_hz,
                "latency_s": self.cycles(rng) / 2 / self.clock_hz,
            },
            "endpoint": {"kind": "smartnic", "preset": preset, "compress": rng.random() < 0.5},
            "memory": self.memory(rng),
        }


LEVELS = _NicLevels()
