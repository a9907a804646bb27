# SPDX-License-Identifier: Apache-2.0
"""Check H10: what a collective computes equals the software sum, on RTL engines."""

import numpy as np

from experiments.figure import Assumption, Context, Figure, derived
from experiments.targets import Exactly, Near
from sim.hosts.surroundings import Surroundings
from sim.rtl.ace.ring import AceRing
from sim.workload.graph import CollectiveKind

__all__ = ["numbers"]

NODES, ELEMENTS, SEED = 4, 700, 1
REORDER = 1e-5


def numbers(context: Context) -> Figure:
    """Largest deviation of all elements on all ranks: whole numbers exact, FP32 to reordering."""
    ring = AceRing("test", Surroundings(nodes=NODES, memory_bytes=16384))
    rng = np.random.default_rng(SEED)
    whole = [rng.integers(-1000, 1000, ELEMENTS).astype(np.float32) for _ in range(NODES)]
    real = [rng.standard_normal(ELEMENTS).astype(np.float32) for _ in range(NODES)]
    plan = ring.program.cut(ELEMENTS, collective=CollectiveKind.ALL_REDUCE)
    shards = [plan.shard(rank) for rank in range(NODES)]
    rows = []
    for name, arrays in (("whole numbers", whole), ("FP32", real)):
        exact = np.sum(np.asarray(arrays, dtype=np.float64), axis=0)
        size = np.sum(np.abs(np.asarray(arrays, dtype=np.float64)), axis=0)
        scattered = ring.reduce_scatter(arrays)
        results = {
            "all-reduce": [(got, slice(None)) for got in ring.all_reduce(arrays)],
            "reduce-scatter": list(zip(scattered, shards)),
            "all-gather": [
                (got, slice(None))
                for got in ring.all_gather([exact[s].astype(np.float32) for s in shards], ELEMENTS)
            ],
        }
        for collective, parts in results.items():
            error = max(
                float(np.max(np.abs(got - exact[part]) / np.maximum(size[part], 1)))
                for got, part in parts
            )
            target = Exactly(0) if name == "whole numbers" else Near(0, absolute=REORDER)
            rows.append(
                derived(
                    f"{collective} of {name}, {NODES} RTL engines: largest relative error",
                    error, target, check="H10",
                )
            )
    return Figure(
        title="Results against the software sum (RTL)",
        rows=rows,
        assumptions=(Assumption(f"{NODES} engines, {ELEMENTS} elements", "chosen"),),
    )
