# SPDX-License-Identifier: Apache-2.0
"""Aborts between operands left in tables and new ones, on RTL: no sum has both."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench._cases import outcomes
from bench._kept import Kept
from bench.options import add_campaign, bench_parser
from bench.random_rtl.epochs import EpochCase, draw_epoch_cases, run_epochs
from bench.random_rtl.hoarding import HoardingSwitch
from bench.result import result
from bench.sources import digest

__all__ = ["RUNS", "main", "planted_cases", "run_planted"]

ROOT = Path(__file__).parents[1]
RUNS = 320
ENOUGH = 300
_FAR = 20_000


def main(argv: Sequence[str]) -> int:
    """Draw and run systems; plant the bug; explore the model."""
    parser = bench_parser("epochs", __doc__, seed="all that is drawn")
    add_campaign(parser, runs=RUNS)
    options = parser.parse_args(argv)
    kept = Kept("epochs", digest(ROOT), fresh=options.fresh)
    cases = draw_epoch_cases(options.seed, options.runs)
    # One configuration after the other, so that two processes seldom wait for one compiler.
    cases.sort(key=lambda case: (case.entries, case.links))
    counts: Counter[str] = Counter()
    seconds = 0.0
    for case, found in outcomes(kept, cases, run_epochs, options.processes):
        counts[found["verdict"]] += 1
        seconds += found["seconds"]
        ranks = ", ".join(f"{n} {what}" for what, n in Counter(found["ranks"]).items())
        print(f"{found['verdict']:8} {case}: {ranks}", flush=True)
    refuted = _plant(kept, options)
    states, holds = _explore(kept)
    kept.forget()
    print()
    for verdict in ("exact", "reported", "wrong"):
        print(f"{verdict:8} {counts[verdict]:4}")
    enough = len(cases) >= ENOUGH and max(case.aborts for case in cases) > 100
    result(
        "epochs", runs=len(cases), exact=counts["exact"], reported=counts["reported"],
        wrong=counts["wrong"], states=states, refuted=int(refuted),
        most_aborts=max(case.aborts for case in cases), seed=options.seed,
        cpu_minutes=seconds / 60,
        verdict="ok" if enough and refuted and holds and not counts["wrong"] else "short",
    )
    return 0


def planted_cases(seed: int) -> list[EpochCase]:
    """Cases of a seed in which epochs with equal low bits meet and tables give up nothing before
    that, so that old operands must show on a switch without purges."""
    return [
        case for case in draw_epoch_cases(seed, RUNS)
        if case.aborts % 8 == 0 and case.mode == "push" and case.entries == 32
        and not 0 < case.timeout < _FAR and not case.hasty and not case.leaf
        and case.left == case.elements
    ]


def run_planted(case: EpochCase) -> dict[str, Any]:
    """Run a case on switches with the planted bug."""
    return run_epochs(case, HoardingSwitch)


def _plant(kept: Kept, options: Any) -> bool:
    """True if the same runs refute switches that purge nothing."""
    cases = planted_cases(options.seed)[:4]
    wrong = 0
    for case, found in outcomes(kept, [("planted", case) for case in cases], _planted,
                                options.processes):
        bad = "a wrong sum" in found["ranks"]
        wrong += bad
        print(f"planted: {'refuted' if bad else 'unseen':8} {case[1]}: {found['ranks']}")
    return wrong > 0


def _planted(case: tuple[str, EpochCase]) -> dict[str, Any]:
    return run_planted(case[1])


def _explore(kept: Kept) -> tuple[int, bool]:
    """Explore all systems of the model in the tests; return the number of states, and True if all
    runs end well and each omitted rule leads to its expected fault."""
    from tests.hw.switch_dma.test_epoch_protocol import FULL, NEEDED, QUICK

    systems = [*(model for model, _ in QUICK), *FULL]
    states, holds = 0, True
    for model in systems:
        found = kept.get(repr(model), says=False)
        if found is None:
            explored = model.explore()
            found = {"states": explored.states, "fault": explored.fault}
            kept.put(repr(model), found)
        print(f"{found['states']:10} states {model}: {found['fault'] or 'all runs end well'}",
              flush=True)
        states += found["states"]
        holds = holds and found["fault"] is None
    for model, rules, fault in NEEDED:
        seen = model.without(*rules).explore().fault or "nothing"
        print(f"without {', '.join(rules)}: {seen}", flush=True)
        holds = holds and fault in seen
    return states, holds
