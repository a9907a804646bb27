# SPDX-License-Identifier: Apache-2.0
"""Descriptions of ACE for `bench levels`."""

import random
from collections.abc import Iterator
from typing import Any, ClassVar

from bench._levels_cases import LARGE, Case, RingLevels, collective, stalls

__all__ = ["LEVELS"]


class _AceLevels(RingLevels):
    groups = ("ace",)
    clock_hz = 1.245e9
    bus_bytes: ClassVar = {"test": 16, "duo": 16, "ring": 64, "wide": 64}
    topology, hops = "ring", 1

    def cases(self, job: str) -> Iterator[Case]:
        ring = self.ring
        big: dict[str, Any] = {"max_nodes": 64, "program_words": 512, "sram_bytes": 65536}
        duo: dict[str, Any] = {"preset": "duo"}
        yield Case(name="ace ring of 2", description=collective(ring(2), 20_000))
        yield Case(
            name="ace ring of 4, mixed", description=collective(ring(4), 50_000), mixed=(1,)
        )
        yield Case(
            name="ace duo, 256 KiB, mixed",
            description=collective(ring(4, **duo), LARGE),
            mixed=(0, 2),
        )
        yield Case(
            name="ace, 256 KiB, long links",
            description=collective(ring(3, latency_s=80e-9, rx_packets=32, **duo), LARGE),
        )
        yield Case(
            name="ace, 512 KiB, 2 nodes", description=collective(ring(2, **duo), 2 * LARGE)
        )
        yield Case(
            name="ace reduce-scatter, stalls",
            description=collective(ring(4, **duo), 30_000, "reduce_scatter", **stalls(0.1, 2)),
        )
        yield Case(
            name="ace all-gather, stalls",
            description=collective(ring(4), 8_000, "all_gather", **stalls(0.05, 3)),
        )
        yield Case(
            name="ace, stalls, mixed",
            description=collective(ring(4, **duo), 40_000, **stalls(0.1, 4)),
            mixed=(3,),
        )
        yield Case(name="ace ring of 16", description=collective(ring(16, **big), 30_000))
        for kind, size_bytes in (("all_reduce", LARGE), ("all_gather", 30_000)):
            yield Case(
                name=f"ace by phase on 3x2, {kind}, mixed",
                description=collective(self._by_phase(3, 2), size_bytes, kind), mixed=(1, 4),
            )
        yield Case(
            name="ace by phase on 2x2, stalls",
            description=collective(self._by_phase(2, 2), 40_000, **stalls(0.1, 5)),
        )
        yield Case(
            name="ace training",
            description={
                **ring(4, **duo), "workload": {"file": job}, "host": {"wait": "all"},
            },
        )

    def _by_phase(self, *shape: int) -> dict[str, Any]:
        """A torus of engines with a partition for each phase of the published style."""
        phases = len(shape) + 1
        ports = 2 * len(shape)
        made = self.ring(
            2, preset="duo", partitions="phase", phases=phases, fsms=4 * phases, ports=ports,
            contexts=4, alus=ports, banks=16, memory_ports=ports, program_words=1024,
            rx_packets=64, tx_packets=8, sram_bytes=(phases + 1) << 17,
        )
        made["topology"] |= {"kind": "torus", "shape": list(shape)}
        return {**made, "algorithm": {"style": "enhanced"}}

    def keys(self, rng: random.Random) -> dict[str, Any]:
        return {"preset": rng.choice(("test", "duo"))}

    def drawn(self, rng: random.Random, group: str) -> dict[str, Any]:
        preset = rng.choice(list(self.bus_bytes))
        nodes = rng.randint(2, 16)
        endpoint: dict[str, Any] = {"kind": "ace", "preset": preset}
        if nodes > 8:
            endpoint |= {"max_nodes": 16, "program_words": 512}
        if rng.random() < 0.4:
            endpoint["rx_packets"] = rng.choice((8, 32, 128, 256))
        pace = rng.choice((0.3, 0.5, 0.8)) if rng.random() < 0.3 else 1.0
        made: dict[str, Any] = {
            "topology": {
                "kind": "ring", "shape": [nodes],
                "bandwidth_bytes_per_s": pace * self.bus_bytes[preset] * self.clock_hz,
                "latency_s": self.cycles(rng) / self.clock_hz,
            },
            "endpoint": endpoint,
            "memory": self.memory(rng),
        }
        if rng.random() < 0.3:
            made["workload"] = {"collective": rng.choice(("reduce_scatter", "all_gather"))}
        return made


LEVELS = _AceLevels()
