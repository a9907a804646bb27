# SPDX-License-Identifier: Apache-2.0
"""The published engine of ACE and one that fills the links, on the papers' 4 x 4 x 4 torus, in RTL.

One engine stands for all 64. Rates are payload that a node injects in the middle half of an
all-reduce, at 1.245 GHz. Units are counted by the cycle model, from the same cycle on; its time
stands beside that of the RTL. A bound is the rate over the share of the busiest unit.

The published engine has a partition for each phase and one for results. Beside it: with the sizes
that the papers' heuristic gives these partitions, in place (a chunk keeps its slot), and with the
banks, ALUs and memory ports of the one that fills the links.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from bench._papers_torus import (
    HEURISTIC,
    IN_PLACE,
    IN_PLACE_BY_COLOUR,
    LINKS_GB_PER_S,
    PUBLISHED,
    TORUS,
    WIDER,
    Engine,
    run_both,
    torus_of,
    use_of,
)
from bench.options import bench_parser
from bench.result import result
from foldwire.console import print_table
from gen.table import Column, Table

__all__ = ["main"]

SIZE_BYTES = 16 << 20
TARGETS = {"published_bound": 95.0, "improved": 93.0, "memory": 95.0}
MEMORY_GB_PER_S = 128.0
MODEL_WORST_PCT = 1.0
INJECTED = 2 * 63 / 64
"""Bytes that a node sends for each byte of the vector."""


@dataclass(frozen=True, kw_only=True)
class _Case:
    engine: Engine
    between_cycles: int = 500
    memory_gb_per_s: float | None = None
    target: str = ""


CASES = (
    _Case(engine=PUBLISHED, between_cycles=90),
    _Case(engine=PUBLISHED, target="published"),
    _Case(engine=HEURISTIC),
    _Case(engine=IN_PLACE),
    _Case(engine=IN_PLACE_BY_COLOUR),
    _Case(engine=WIDER),
    _Case(engine=TORUS, between_cycles=90),
    _Case(engine=TORUS, target="improved"),
    _Case(engine=TORUS, memory_gb_per_s=MEMORY_GB_PER_S, target="memory"),
)


def main(argv: Sequence[str]) -> int:
    """Run all cases in RTL and by the cycle model."""
    bench_parser("published", __doc__).parse_args(argv)
    table = Table(
        title="All-reduce of 16 MiB a node on the papers' torus",
        columns=[Column(each) for each in (
            "engine", "style", "latency", "memory_gbs", "cycles", "model", "exact", "whole_gbs",
            "injected_gbs", "limit", "limit_pct", "cpu_s",
        )],
    )
    exact, rates, bounds, apart = True, dict[str, float](), dict[str, float](), []
    for case in CASES:
        began = time.process_time()
        engine, config = case.engine, case.engine.config
        rtl, model = run_both(
            torus_of(
                engine, level="rtl", size_bytes=SIZE_BYTES, between_cycles=case.between_cycles,
                memory_gb_per_s=case.memory_gb_per_s,
            )
        )
        cpu_s = time.process_time() - began
        assert rtl.data is not None
        exact &= rtl.data.exact
        apart.append(100 * abs(model.time_s / rtl.time_s - 1))
        use = use_of(model)
        unit, share = use.limit
        if case.target:
            rates[case.target], bounds[case.target] = use.injected_gb_per_s, 100 * share
        ports = config.memory_ports * config.bus_bytes * 1.245
        table.add(
            engine.name, engine.style, case.between_cycles, case.memory_gb_per_s or ports,
            round(rtl.time_s * 1.245e9), round(model.time_s * 1.245e9),
            "yes" if rtl.data.exact else "NO",
            use.whole_gb_per_s, use.injected_gb_per_s, unit, 100 * share, cpu_s,
        )
    print_table(table)
    improved = 100 * rates["improved"] / LINKS_GB_PER_S
    memory = 100 * rates["memory"] / (MEMORY_GB_PER_S * INJECTED)
    met = (
        exact and max(apart) <= MODEL_WORST_PCT
        and bounds["published"] >= TARGETS["published_bound"] and improved >= TARGETS["improved"]
        and memory >= TARGETS["memory"]
    )
    result(
        "published", published_gbs=rates["published"], published_bound_pct=bounds["published"],
        improved_gbs=rates["improved"], improved_pct=improved, memory_pct=memory,
        links_gbs=LINKS_GB_PER_S,
        published_sram_bits=8 * PUBLISHED.config.sram_bytes,
        improved_sram_bits=8 * TORUS.config.sram_bytes, exact=exact,
        model_worst_pct=max(apart),
        **{f"target_{name}_pct": target for name, target in TARGETS.items()},
        verdict="ok" if met else "short",
    )
    return 0
