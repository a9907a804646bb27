# SPDX-License-Identifier: Apache-2.0
"""Systems of smart NICs for `bench limits_named`."""

import random
from typing import Any

from bench._levels_cases import log_uniform

__all__ = ["EVENTS", "TOPOLOGIES", "drawn"]

EVENTS, TOPOLOGIES = 1, ("ring", "switch")
"""How often the kind is drawn as events, and the topologies that it needs; None: any."""


def drawn(rng: random.Random, level: str) -> dict[str, Any]:
    """NICs at a switch."""
    clock_hz, beat = 200e6, 32
    return {
        "topology": {
            "kind": "switch", "shape": [rng.choice([2, 4, 8])],
            "bandwidth_bytes_per_s": rng.choice([0.25, 0.5]) * beat * clock_hz,
            "latency_s": round(log_uniform(rng, 10, 500)) / clock_hz,
        },
        "endpoint": {"kind": "smartnic", "preset": "test", "level": level},
        "memory": {"read_latency_s": round(log_uniform(rng, 10, 1000)) / clock_hz},
        "workload": {
            "collective": "all_reduce", "size_bytes": 64 * round(log_uniform(rng, 16, 16384)),
        },
        "run": {"passes": 1},
    }
