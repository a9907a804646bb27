# SPDX-License-Identifier: Apache-2.0
"""Systems of ACE for `bench limits_named`."""

import random
from typing import Any

from bench._levels_cases import log_uniform

__all__ = ["EVENTS", "TOPOLOGIES", "drawn"]

EVENTS, TOPOLOGIES = 3, None
"""How often the kind is drawn as events, and the topologies that it needs; None: any."""
CLOCK_HZ = 1.245e9
BEAT = 16 * CLOCK_HZ


def drawn(rng: random.Random, level: str) -> dict[str, Any]:
    """Small engines, with links and often a memory that are slower than their buses."""
    few = level == "rtl"
    latency_s = round(log_uniform(rng, 10, 100 if few else 1000)) / CLOCK_HZ
    share, nodes = rng.choice([0.125, 0.25, 0.5]), 4 if few else rng.choice([2, 4, 8])
    size = 64 * round(log_uniform(rng, 16, (1 << (15 if few else 20)) / 64))
    made: dict[str, Any] = {
        "topology": {
            "kind": "ring", "shape": [nodes], "latency_s": latency_s,
            "bandwidth_bytes_per_s": share * BEAT,
        },
        "endpoint": {"kind": "ace", "preset": "duo", "level": level},
        "workload": {"collective": "all_reduce", "size_bytes": size},
        "run": {"passes": 1},
    }
    if not few:
        made["endpoint"] |= {
            "rx_packets": 64, "max_nodes": 8, "program_words": 128,
            "sram_bytes": 1 << rng.randint(14, 18),
        }
    if rng.random() < 0.5:
        made["memory"] = {"bandwidth_bytes_per_s": BEAT * rng.choice([0.125, 0.25, 0.5])}
    return made
