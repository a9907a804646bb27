# SPDX-License-Identifier: Apache-2.0
"""One description at every level that it has: events, cycle models, RTL, and mixtures.

Every description runs through ``sim.run.run``; only ``endpoint.level`` changes. Times are from the
host's first register write to its last completion. First, fixed descriptions and a few drawn ones:
cycle models are compared with RTL (or, where nodes are mixed, a mixed run with RTL), events with
cycle models. Switches that reduce have level rtl up to 8 endpoints and 4 switches. No cell is left
out. Then many drawn ones of all engines, events against cycle models alone
(`bench._levels_drawn`). What has been measured is kept, and a run that was interrupted goes on.
"""

import random
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from bench._kept import Kept
from bench._levels_cases import Case, EngineLevels, RingLevels, collective, stalls
from bench._levels_drawn import GROUPS, compare, draw, judge
from bench.options import bench_parser, whole
from bench.records.registered import modules
from bench.result import result
from bench.sources import digest
from sim.run import Run, run

__all__ = ["main"]

ROOT = Path(__file__).resolve().parent.parent

TARGET_MEDIAN_PCT = 1.0
TARGET_WORST_PCT = 5.0
EVENTS_MEDIAN_PCT, EVENTS_WORST_PCT, PULL_WORST_PCT, SMALL_WORST_PCT = 3.0, 10.0, 15.0, 20.0
ENGINES: list[EngineLevels] = [each.LEVELS for each in modules("levels").values()]
RINGS = [each for each in ENGINES if isinstance(each, RingLevels)]

JOB = """DATA
3
front -1 4000 NONE 0 3000 NONE 0 3500 ALLREDUCE {0} 300
middle -1 2500 NONE 0 2000 NONE 0 2500 ALLREDUCE {1} 200
back -1 1000 NONE 0 1500 NONE 0 500 ALLREDUCE {2} 100
"""


def drawn(rng: random.Random, count: int) -> Iterator[Case]:
    """Random rings, of the engines in turn, every third with stalls."""
    for number in range(count):
        engine = RINGS[number % len(RINGS)]
        nodes = rng.randint(2, 6)
        config = engine.keys(rng)
        base = engine.ring(nodes, latency_s=rng.choice((5, 20, 60)) / engine.clock_hz, **config)
        if rng.random() < 0.4:
            base["topology"]["bandwidth_bytes_per_s"] *= rng.choice((0.5, 0.8))
        size = 4 * round(2 ** rng.uniform(8, 15))
        more = stalls(rng.choice((0.05, 0.1)), rng.randint(1, 999)) if number % 3 == 0 else {}
        yield Case(
            name=f"drawn {number}: {engine.groups[0]}, {nodes} nodes",
            description=collective(base, size, **more),
            mixed=(rng.randrange(nodes),) if number % 4 == 1 else (),
        )


def at(case: Case, level: str) -> Run:
    """The case at a level; ``mixed`` puts RTL nodes among models."""
    description = deepcopy(case.description)
    endpoint = description["endpoint"]
    if level == "events":
        for table in ("network", "memory"):
            if table in description:
                description[table] = {
                    key: value
                    for key, value in description[table].items()
                    if key != "stall_probability"
                }
    elif level == "mixed":
        endpoint["on"] = [{"nodes": list(case.mixed), "level": "rtl"}]
    endpoint["level"] = "cycles" if level == "mixed" else level
    return run(description, source="bench")


def percent(found: Run, wanted: Run) -> float:
    """Error of a time."""
    return 100 * abs(found.time_s - wanted.time_s) / wanted.time_s


def measured(case: Case) -> dict[str, Any]:
    """Times in seconds, errors in percent, and whether all bits are right, of a case."""
    model, events = (at(case, level) for level in ("cycles", "events"))
    found: dict[str, Any] = {
        "cycles_s": model.time_s, "events_s": events.time_s, "events_pct": percent(events, model),
    }
    if not case.rtl:
        return found
    rtl = at(case, "rtl")
    assert rtl.data is not None
    found |= {"rtl_s": rtl.time_s, "exact": rtl.data.exact, "cycles_pct": [percent(model, rtl)]}
    if case.mixed:
        mixed = at(case, "mixed")
        assert mixed.data is not None
        found["exact"] = found["exact"] and mixed.data.exact
        found["mixed_s"] = mixed.time_s
        found["cycles_pct"].append(percent(mixed, rtl))
    return found


def _row(case: Case, found: dict[str, Any]) -> str:
    times = [found.get(f"{level}_s") for level in ("rtl", "cycles", "events", "mixed")]
    rtl, model, events, mixed = (
        " " * 10 if each is None else f"{1e6 * each:7.2f} µs" for each in times
    )
    errors = [f"{each:6.2f}%" for each in found.get("cycles_pct", [])] + [" " * 7] * 2
    bits = {True: "equal", False: "DIFFER", None: ""}[found.get("exact")]
    return (
        f"{case.name:30} {rtl} {model} {errors[0]} {events} {found['events_pct']:6.2f}%  "
        f"{mixed} {errors[1]}  {bits}"
    )


def with_rtl(seed: int, count: int) -> dict[str, Any]:
    """Fixed descriptions, and *count* drawn ones; the words of the result line."""
    kept = Kept("levels_rtl", f"{digest(ROOT)} {seed} {count}")
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        job = Path(folder) / "job.txt"
        job.write_text(JOB.format(24_576, 8_192, 4_096), encoding="utf-8")
        cases = [case for each in RINGS for case in each.cases(str(job))]
        cases += drawn(random.Random(seed), count)
        cases += [
            case for each in ENGINES if each not in RINGS for case in each.cases(str(job))
        ]
        print(
            f"{'description':30} {'RTL':>10} {'cycles':>10} {'error':>7} {'events':>10} "
            f"{'error':>7}  {'mixed':>10} {'error':>7}  bits"
        )
        for case in cases:
            values = kept.get(case.name, says=False)
            if values is None:
                values = measured(case)
                kept.put(case.name, values)
            found.append(values)
            print(_row(case, values), flush=True)
    kept.forget()
    errors = [error for values in found for error in values.get("cycles_pct", [])]
    compared = [values for values in found if "exact" in values]
    return {
        "ran": len(found),
        "with_rtl": len(compared),
        "exact": sum(values["exact"] for values in compared),
        "cycles_median_pct": statistics.median(errors),
        "cycles_worst_pct": max(errors),
        "fixed_events_worst_pct": max(values["events_pct"] for values in found),
    }


def without_rtl(seed: int, count: int, processes: int) -> tuple[dict[str, Any], bool]:
    """Drawn descriptions as events and by cycle models alone: the words of the result line, and
    whether they are as good as wanted."""
    print(f"\n{count} drawn, events against cycles: error, number, description, bytes")
    errors = []
    for each, error in compare([draw(seed, n) for n in range(count)], processes=processes):
        errors.append((each, error))
        print(f"{error:+8.2f} % {each.number:4} {each.text} {each.size_bytes}", flush=True)
    print("\ngroup      half       draws    median  worst above 16 KiB  worst below")
    for group in GROUPS:
        for even in (True, False):
            part = [(e, error) for e, error in errors if e.group == group and e.even == even]
            if part:
                said = judge(part)
                half = "chosen on" if even else "held out"
                print(
                    f"{group:10} {half:10} {len(part):5} {said.median:7.2f} % "
                    f"{max(said.worst, said.pull_worst):17.2f} % {said.small_worst:10.2f} %"
                )
    whole = judge(errors)
    held_out = judge([(each, error) for each, error in errors if not each.even] or errors)
    words = {
        "descriptions": len(errors),
        "events_median_pct": whole.median,
        "events_worst_pct": whole.worst,
        "small_worst_pct": whole.small_worst,
        "pull_worst_pct": whole.pull_worst,
        "held_out_median_pct": held_out.median,
        "held_out_worst_pct": held_out.worst,
    }
    met = whole.median <= EVENTS_MEDIAN_PCT and whole.worst <= EVENTS_WORST_PCT
    met = met and whole.pull_worst <= PULL_WORST_PCT and whole.small_worst <= SMALL_WORST_PCT
    return words, met and held_out.median <= EVENTS_MEDIAN_PCT


def main(argv: Sequence[str]) -> int:
    """Print a row per description."""
    parser = bench_parser("levels", __doc__, seed="the drawn ones")
    parser.add_argument("--drawn", type=int, default=8, help="drawn with RTL (default: 8)")
    parser.add_argument(
        "--events", type=int, default=240, help="drawn without, events and cycles (default: 240)"
    )
    parser.add_argument("--no-rtl", action="store_true", help="the latter alone")
    parser.add_argument("--processes", type=whole(), default=2, help="at a time (default: 2)")
    options = parser.parse_args(argv)
    began = time.perf_counter()
    words: dict[str, Any] = {}
    met = True
    if not options.no_rtl:
        words = with_rtl(options.seed, options.drawn)
        met = words["exact"] == words["with_rtl"]
        met = met and words["cycles_median_pct"] <= TARGET_MEDIAN_PCT
        met = met and words["cycles_worst_pct"] <= TARGET_WORST_PCT
    more, good = without_rtl(options.seed, options.events, options.processes)
    print(f"\nTimes at the engines' clocks. {time.perf_counter() - began:.0f} s in all.")
    print(
        f"Wanted: median {EVENTS_MEDIAN_PCT:g} %, worst {EVENTS_WORST_PCT:g} % of rings and pushes "
        f"and {PULL_WORST_PCT:g} % of pulls above 16 KiB, {SMALL_WORST_PCT:g} % below."
    )
    result(
        "levels",
        **more,
        **words,
        target_median_pct=TARGET_MEDIAN_PCT,
        target_worst_pct=TARGET_WORST_PCT,
        verdict="ok" if met and good else "short",
    )
    return 0
