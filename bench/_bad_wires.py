# SPDX-License-Identifier: Apache-2.0
"""All-reduces of an engine in a ring whose wires lose, repeat and damage frames."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from hw.link.retry_frame import RetryConfig
from sim.engines.engine import engine_named
from sim.hosts.surroundings import Surroundings
from tb.link.lossy import bad_wires

__all__ = ["LATENCY", "Reduced", "of_rings"]

LATENCY = 90
RETRY = RetryConfig(slots=16, timeout_cycles=280, tries=40)
Reduced = Iterator[tuple[str, float, int, bool]]
"""Of each all-reduce: the system, the probability of a fault, frames hit, and whether its results
are exact."""


def of_rings(engine: str, title: str, seed: int, probabilities: Sequence[float]) -> Reduced:
    """Rings of an engine."""
    driver: Any = engine_named(engine).kind.driver
    config = engine_named(engine).presets["test"]
    for nodes, latency in ((2, 3), (4, 20), (5, LATENCY)):
        for probability in probabilities:
            for drawn in range(seed, seed + 3):
                settings = Surroundings(
                    nodes=nodes, latency_cycles=latency, memory_bytes=1 << 18, seed=drawn,
                    retry=RETRY, **bad_wires(probability),
                )
                struck, right = _ring(driver(config, settings), drawn)
                yield f"{nodes} {title}, links of {latency}", probability, struck, right


def _ring(ring: Any, seed: int) -> tuple[int, bool]:
    """Number of frames hit in one all-reduce; True if its result is exact."""
    nodes = ring.settings.nodes
    data = np.random.default_rng(seed)
    inputs = [data.standard_normal(20_000).astype(np.float32) for _ in range(nodes)]
    golden = ring.golden(inputs).tobytes()
    right = all(each.tobytes() == golden for each in ring.all_reduce(inputs))
    struck = sum(ring.system.struck(rank, port) for rank in range(nodes) for port in (0, 1))
    return struck, right
