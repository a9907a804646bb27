# SPDX-License-Identifier: Apache-2.0
"""Single faults of switches, links and endpoints on RTL: what heals them, and who notices."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from bench._cases import outcomes
from bench._kept import Kept
from bench.options import add_campaign, bench_parser
from bench.random_rtl.healing import (
    CABLES,
    FAULTS,
    LEAST_PCT,
    MOST_CYCLES,
    draw_healing_cases,
    run_healing,
)
from bench.result import result
from bench.sources import digest

__all__ = ["RUNS", "main"]

ROOT = Path(__file__).parents[1]
RUNS = 400


def main(argv: Sequence[str]) -> int:
    """Draw, run, count by fault."""
    parser = bench_parser("healing", __doc__, seed="all that is drawn")
    add_campaign(parser, runs=RUNS)
    options = parser.parse_args(argv)
    kept = Kept("healing", digest(ROOT), fresh=options.fresh)
    cases = draw_healing_cases(options.seed, options.runs)
    cases.sort(key=lambda case: (case.fault == "cables", case.links))
    runs, wrong, stuck = Counter[str](), Counter[str](), Counter[str]()
    cycles: list[int] = []
    rates: list[float] = []
    seconds = 0.0
    for case, found in outcomes(kept, cases, run_healing, options.processes):
        runs[case.fault] += 1
        wrong[case.fault] += found["wrong"] is not None
        stuck[case.fault] += found["stuck"] is not None
        seconds += found["seconds"]
        said = found["wrong"] and f"WRONG, {found['wrong']}"
        said = said or (found["stuck"] and f"STUCK, {found['stuck']}") or "healed"
        if found["cycles"] is not None:
            cycles.append(found["cycles"])
            said += f", {found['cycles']} cycles without the dead member"
        if found["pct"] is not None:
            rates.append(found["pct"])
            said += f", the other region at {found['pct']:.1f} %"
        print(f"{case}: {said}", flush=True)
    kept.forget()
    print(f"\n{'fault':16} runs  wrong  stuck")
    for fault in FAULTS:
        print(f"{fault:16} {runs[fault]:4}  {wrong[fault]:5}  {stuck[fault]:5}")
    if not CABLES:
        print("cables           none: links with retry do not come back here")
    isolated = min(rates, default=0.0)
    good = (not wrong.total() and not stuck.total() and isolated >= LEAST_PCT
            and 0 < max(cycles, default=0) <= MOST_CYCLES)
    result(
        "healing", runs=runs.total(), wrong=wrong.total(), stuck=stuck.total(),
        isolated_pct=isolated, cycles_without=max(cycles, default=0), cables=runs["cables"],
        seed=options.seed, cpu_minutes=seconds / 60,
        verdict="ok" if good and CABLES and len(cases) >= RUNS else "short",
    )
    return 0
