# SPDX-License-Identifier: Apache-2.0
"""The published size of ACE, and one that fills the links, whole: eight engines in RTL, bits exact.

2 x 2 x 2 nodes with two links in every direction of a dimension of two, which are those of a larger
ring, unfolded; and one engine for all of 4 x 4 x 4. 93 % of the packets of the small torus are sent
afresh, so it is a test of the size and not of the rate. All links are those of the papers.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from bench._papers_torus import papers_torus, run_both
from bench.options import bench_parser
from bench.result import result
from foldwire.console import print_table
from gen.table import Column, Table

__all__ = ["main"]

PRESETS = "isca21", "torus"
BETWEEN_CYCLES = 200
MOST_CPU_S = 300.0
MODEL_WORST_PCT = 1.0


@dataclass(frozen=True, kw_only=True)
class _Case:
    shape: tuple[int, int, int]
    size_bytes: int
    fold: bool
    collective: str = "all_reduce"


CASES = (
    _Case(shape=(2, 2, 2), size_bytes=4, fold=False),
    _Case(shape=(2, 2, 2), size_bytes=1 << 20, fold=False),
    _Case(shape=(2, 2, 2), size_bytes=64 << 10, fold=False, collective="reduce_scatter"),
    _Case(shape=(2, 2, 2), size_bytes=64 << 10, fold=False, collective="all_gather"),
    _Case(shape=(4, 4, 4), size_bytes=4 << 20, fold=True),
)


def main(argv: Sequence[str]) -> int:
    """Run all cases on both presets, in RTL and by the cycle model."""
    bench_parser("isca21", __doc__).parse_args(argv)
    table = Table(
        title="Whole engines",
        columns=[Column(each) for each in (
            "preset", "torus", "collective", "bytes", "engines", "cycles", "model", "exact",
            "cpu_s",
        )],
    )
    runs = exact = 0
    worst = apart = 0.0
    for preset in PRESETS:
        for case in CASES:
            description = papers_torus(
                preset, level="rtl", size_bytes=case.size_bytes, between_cycles=BETWEEN_CYCLES,
                shape=case.shape, fold=case.fold,
            )
            description["workload"]["collective"] = case.collective
            began = time.process_time()
            rtl, model = run_both(description)
            cpu_s = time.process_time() - began
            assert rtl.data is not None and rtl.engines is not None
            assert model.engines is not None
            engines = 1 if case.fold else 8
            good = rtl.data.exact and rtl.data.results == engines
            runs, exact, worst = runs + 1, exact + good, max(worst, cpu_s)
            apart = max(apart, 100 * abs(model.time_s / rtl.time_s - 1))
            table.add(
                preset, "x".join(map(str, case.shape)), case.collective, case.size_bytes, engines,
                rtl.engines.cycles, model.engines.cycles, "yes" if good else "NO", cpu_s,
            )
    print_table(table)
    met = exact == runs and worst <= MOST_CPU_S and apart <= MODEL_WORST_PCT
    result(
        "isca21", runs=runs, exact=exact, cpu_s=worst, model_worst_pct=apart,
        target_cpu_s=MOST_CPU_S,
        verdict="ok" if met else "short",
    )
    return 0
