# SPDX-License-Identifier: Apache-2.0
"""RTL systems with faults drawn by a seed: every rank is right or says that it is not."""

import argparse
import hashlib
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench._kept import Kept
from bench.options import add_campaign, bench_parser
from bench.random_rtl.rings import RINGS
from bench.random_rtl.switches import SWITCHES
from bench.random_rtl.tori import TORI
from bench.random_rtl.trial import CLEAN, Finding, Kind, draw_cases
from bench.result import result
from bench.sources import digest

__all__ = ["KINDS", "main"]

KINDS = {kind.name: kind for kind in (RINGS, TORI, SWITCHES)}
ROOT = Path(__file__).parents[1]


def main(argv: Sequence[str]) -> int:
    """Draw, run, count by class."""
    options = _options(argv)
    begin = time.monotonic()
    kept = Kept("rtl_random", digest(ROOT), fresh=options.fresh)
    findings: list[tuple[Kind, Finding]] = []
    collectives: Counter[tuple[str, str]] = Counter()
    spent_s, used = 0.0, 0
    enough = set(options.system) == set(KINDS)
    for kind in (KINDS[name] for name in options.system):
        engines, clean, per_class = (
            getattr(kind, name) if getattr(options, name) is None else getattr(options, name)
            for name in ("engines", "clean", "per_class")
        )
        only = [each for each in kind.classes if options.only is None or each in options.only]
        classes = {fault: clean if fault == CLEAN else per_class for fault in only}
        rng = random.Random(options.seed)
        drawn = kind.draw_engines(rng, engines)
        cases = list(draw_cases(kind, rng, drawn, classes))
        # One engine after the other, so that two processes seldom wait for one to be compiled.
        cases.sort(key=lambda case: drawn.index(case.engine))
        for case, finding, seconds in _found(kind, cases, kept, options.processes):
            findings.append((kind, finding))
            collectives[kind.name, kind.collective(case)] += 1
            spent_s += seconds
            show(finding, case)
        used += len({id(case.engine) for case in cases})
        enough = enough and _enough(kind, engines, classes)
    kept.forget()
    print(f"\n{'system':10} {'collective':24} runs")
    for (name, what), count in sorted(collectives.items()):
        print(f"{name:10} {what:24} {count:4}")
    return _report(options, findings, enough=enough, used=used,
                   minutes=(time.monotonic() - begin + spent_s) / 60)


def _options(argv: Sequence[str]) -> argparse.Namespace:
    parser = bench_parser("rtl_random", __doc__, seed="all that is drawn")
    classes = sorted({fault: None for kind in KINDS.values() for fault in kind.classes})
    parser.add_argument(
        "--system", nargs="+", choices=list(KINDS), default=list(KINDS),
        help=f"kinds of systems (default: {' '.join(KINDS)})",
    )
    for name, what in {
        "engines": "configurations", "clean": "runs without a fault",
        "per-class": "runs of each class",
    }.items():
        each = ", ".join(
            f"{getattr(kind, name.replace('-', '_'))} of {kind.name}" for kind in KINDS.values()
        )
        parser.add_argument(f"--{name}", type=int, help=f"{what} (default: {each})")
    parser.add_argument(
        "--only", nargs="+", choices=classes, metavar="CLASS",
        help=f"of these: {', '.join(classes)}",
    )
    add_campaign(parser)
    return parser.parse_args(argv)


def _found(kind: Kind, cases: Sequence[Any], kept: Kept, processes: int
           ) -> Iterator[tuple[Any, Finding, float]]:
    """Yield each case with its finding, and the seconds that an interrupted run took for it."""
    parts = [hashlib.sha256(repr(case).encode()).hexdigest()[:16] for case in cases]
    before = [kept.get(part, says=False) for part in parts]
    if any(before):
        count = sum(found is not None for found in before)
        print(f"{count} of {len(cases)} {kind.name} are those of a run that was interrupted")
    for case, found in zip(cases, before):
        if found is not None:
            yield case, Finding(**found["finding"]), found["seconds"]
    left = [(case, part) for case, part, found in zip(cases, parts, before) if found is None]
    with ProcessPoolExecutor(processes) as pool:
        last = time.monotonic()
        findings = pool.map(kind.run, [case for case, _ in left], chunksize=4)
        for (case, part), finding in zip(left, findings):
            now = time.monotonic()
            kept.put(part, {"finding": asdict(finding), "seconds": now - last})
            last = now
            yield case, finding, 0.0


def _enough(kind: Kind, engines: int, classes: dict[str, int]) -> bool:
    least_engines, least_clean, least_per_class = kind.least
    return engines >= least_engines and all(
        classes.get(fault, 0) >= (least_clean if fault == CLEAN else least_per_class)
        for fault in kind.classes
    )


def show(finding: Finding, case: Any) -> None:
    """Print a finding: one line, and one for each violation."""
    verdict = "VIOLATION" if finding.violations else "ok"
    ranks = ", ".join(f"{count} {what}" for what, count in Counter(finding.ranks).items())
    print(f"{case.fault:24} {verdict:9} {case}: {ranks}", flush=True)
    for text in finding.violations:
        print(f"    {text.partition('seed')[2]}", flush=True)


def _report(options: argparse.Namespace, findings: Sequence[tuple[Kind, Finding]], *,
            enough: bool, used: int, minutes: float) -> int:
    print(f"\n{'system':10} {'class':24} runs  exact everywhere  reported  violations")
    exact = reported = wrong = 0
    for kind in KINDS.values():
        for fault in kind.classes:
            of_class = [each for owner, each in findings if (owner, each.fault) == (kind, fault)]
            if not of_class:
                continue
            bad = sum(bool(each.violations) for each in of_class)
            clean = sum(set(each.ranks) == {"exact"} for each in of_class)
            said = sum(not each.violations and set(each.ranks) != {"exact"} for each in of_class)
            exact, reported, wrong = exact + clean, reported + said, wrong + bad
            print(f"{kind.name:10} {fault:24} {len(of_class):4}  {clean:16}  {said:8}  {bad:10}")
    of_kind = Counter(kind.name for kind, _ in findings)
    result(
        "rtl_random",
        runs=len(findings),
        **{f"{name}_runs": of_kind[name] for name in KINDS},
        exact=exact,
        reported=reported,
        violations=wrong,
        configurations=used,
        seed=options.seed,
        minutes=minutes,
        verdict="ok" if enough and not wrong else "short",
    )
    return 0
