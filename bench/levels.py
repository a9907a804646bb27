"""One description at every level that it has: events, cycle models, RTL, and mixtures.

Every description runs through ``sim.run.run``; only ``endpoint.level`` changes. Times are from the
host's first register write to its last completion. Cycle models are compared with RTL (or, where
nodes are mixed, a mixed run with RTL), events with cycle models. Switches that reduce have level
rtl up to 8 endpoints and 4 switches. No cell is left out.
"""

import random
import statistics
import time
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from bench._levels_switch import has_rtl, switch_descriptions
from bench.options import bench_parser
from bench.result import result
from sim.run import Run, run

__all__ = ["main"]

TARGET_MEDIAN_PCT = 1.0
TARGET_WORST_PCT = 5.0
SWITCH_MEDIAN_PCT, SWITCH_WORST_PCT = 5.0, 15.0
ACE_CLOCK_HZ, NIC_CLOCK_HZ = 1.245e9, 200e6
LARGE = 256 << 10
"""Bytes a node of the cells that show the steady state."""

JOB = """DATA
3
front -1 4000 NONE 0 3000 NONE 0 3500 ALLREDUCE {0} 300
middle -1 2500 NONE 0 2000 NONE 0 2500 ALLREDUCE {1} 200
back -1 1000 NONE 0 1500 NONE 0 500 ALLREDUCE {2} 100
"""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A description, the nodes that are RTL in its mixed run (none: there is no such run), and
    whether it has level rtl at all."""

    name: str
    description: dict[str, Any]
    mixed: tuple[int, ...] = ()
    rtl: bool = True


def ring(
    engine: str, nodes: int, *, preset: str = "test", latency_s: float | None = None, **config: Any
) -> dict[str, Any]:
    """A ring of engines with links of one bus beat per cycle."""
    clock, bus = (ACE_CLOCK_HZ, 16) if engine == "ace" else (NIC_CLOCK_HZ, 32)
    kind = "ring" if engine == "ace" else "switch"
    hops = 1 if engine == "ace" else 2
    return {
        "topology": {
            "kind": kind,
            "shape": [nodes],
            "bandwidth_bytes_per_s": bus * clock,
            "latency_s": (20 / clock if latency_s is None else latency_s) / hops,
        },
        "endpoint": {"kind": engine, "preset": preset, **config},
        "run": {"passes": 1},
    }


def collective(
    base: dict[str, Any], size_bytes: int, kind: str = "all_reduce", **tables: Any
) -> dict[str, Any]:
    """*base* with one collective."""
    return {**base, "workload": {"collective": kind, "size_bytes": size_bytes}, **tables}


def stalls(share: float, seed: int) -> dict[str, Any]:
    """Random stalls of links and memories."""
    return {
        "network": {"stall_probability": share},
        "memory": {"stall_probability": share},
        "run": {"passes": 1, "seed": seed},
    }


def fixed(job: str) -> Iterator[Case]:
    """Sixteen descriptions; *job* is the path of a training workload."""
    big = {"max_nodes": 64, "program_words": 512, "sram_bytes": 65536}
    duo = {"preset": "duo"}
    yield Case(name="ace ring of 2", description=collective(ring("ace", 2), 20_000))
    yield Case(
        name="ace ring of 4, mixed", description=collective(ring("ace", 4), 50_000), mixed=(1,)
    )
    yield Case(
        name="ace duo, 256 KiB, mixed",
        description=collective(ring("ace", 4, **duo), LARGE),
        mixed=(0, 2),
    )
    yield Case(
        name="ace, 256 KiB, long links",
        description=collective(ring("ace", 3, latency_s=80e-9, rx_packets=32, **duo), LARGE),
    )
    yield Case(
        name="ace, 512 KiB, 2 nodes", description=collective(ring("ace", 2, **duo), 2 * LARGE)
    )
    yield Case(
        name="ace reduce-scatter, stalls",
        description=collective(ring("ace", 4, **duo), 30_000, "reduce_scatter", **stalls(0.1, 2)),
    )
    yield Case(
        name="ace all-gather, stalls",
        description=collective(ring("ace", 4), 8_000, "all_gather", **stalls(0.05, 3)),
    )
    yield Case(
        name="ace, stalls, mixed",
        description=collective(ring("ace", 4, **duo), 40_000, **stalls(0.1, 4)),
        mixed=(3,),
    )
    yield Case(
        name="ace ring of 16", description=collective(ring("ace", 16, **big), 30_000)
    )
    training = ring("ace", 4, **duo)
    yield Case(
        name="ace training",
        description={**training, "workload": {"file": job}, "host": {"wait": "all"}},
    )
    nics = ring("smartnic", 4)
    yield Case(
        name="nic training",
        description={**nics, "workload": {"file": job}, "host": {"wait": "each"}},
    )
    yield Case(
        name="nic training, bfp16",
        description={
            **ring("smartnic", 3, compress=True),
            "workload": {"file": job},
            "host": {"wait": "all"},
        },
    )
    yield Case(
        name="nic ring of 4, mixed", description=collective(nics, 60_000), mixed=(0,)
    )
    yield Case(
        name="nic, 256 KiB", description=collective(ring("smartnic", 3), LARGE)
    )
    yield Case(
        name="nic, 256 KiB, bfp16",
        description=collective(ring("smartnic", 4, compress=True), LARGE),
    )
    yield Case(
        name="nic, 512 KiB, stalls",
        description=collective(ring("smartnic", 2), 2 * LARGE, **stalls(0.05, 5)),
    )


def drawn(rng: random.Random, count: int) -> Iterator[Case]:
    """Random descriptions, half of either engine, every third with stalls."""
    for number in range(count):
        engine = ("ace", "smartnic")[number % 2]
        nodes = rng.randint(2, 6)
        clock = ACE_CLOCK_HZ if engine == "ace" else NIC_CLOCK_HZ
        config: dict[str, Any] = (
            {"preset": rng.choice(("test", "duo"))}
            if engine == "ace"
            else {"compress": rng.random() < 0.5}
        )
        base = ring(engine, nodes, latency_s=rng.choice((5, 20, 60)) / clock, **config)
        if rng.random() < 0.4:
            base["topology"]["bandwidth_bytes_per_s"] *= rng.choice((0.5, 0.8))
        size = 4 * round(2 ** rng.uniform(8, 15))
        more = stalls(rng.choice((0.05, 0.1)), rng.randint(1, 999)) if number % 3 == 0 else {}
        yield Case(
            name=f"drawn {number}: {engine}, {nodes} nodes",
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


def main(argv: Sequence[str]) -> int:
    """Print a row per description."""
    import tempfile
    from pathlib import Path

    parser = bench_parser("levels", __doc__, seed="the drawn ones")
    parser.add_argument("--drawn", type=int, default=8, help="descriptions drawn (default: 8)")
    options = parser.parse_args(argv)
    began = time.perf_counter()
    cycle_errors: list[float] = []
    event_errors: list[float] = []
    switch_errors: dict[str, list[float]] = {"push": [], "pull": []}
    ran = exact = compared = 0
    with tempfile.TemporaryDirectory() as folder:
        job = Path(folder) / "job.txt"
        job.write_text(JOB.format(24_576, 8_192, 4_096), encoding="utf-8")
        cases = [*fixed(str(job)), *drawn(random.Random(options.seed), options.drawn)]
        cases += [
            Case(name=name, description=each, rtl=has_rtl(each))
            for name, each in switch_descriptions()
        ]
        print(
            f"{'description':30} {'RTL':>10} {'cycles':>10} {'error':>7} {'events':>10} "
            f"{'error':>7}  {'mixed':>10} {'error':>7}  bits"
        )
        for case in cases:
            model, events = (at(case, level) for level in ("cycles", "events"))
            distance = percent(events, model)
            event_errors.append(distance)
            if "switch" in case.description:
                switch_errors[case.description["switch"]["mode"]].append(distance)
            if not case.rtl:
                ran += 1
                print(
                    f"{case.name:30} {'':10} {1e6 * model.time_s:7.2f} µs {'':7} "
                    f"{1e6 * events.time_s:7.2f} µs {distance:6.2f}%",
                    flush=True,
                )
                continue
            rtl = at(case, "rtl")
            error = percent(model, rtl)
            compared += 1
            cycle_errors.append(error)
            assert rtl.data is not None
            good = rtl.data.exact
            mixed_text = ""
            if case.mixed:
                mixed = at(case, "mixed")
                assert mixed.data is not None
                good = good and mixed.data.exact
                cycle_errors.append(percent(mixed, rtl))
                mixed_text = f"{1e6 * mixed.time_s:7.2f} µs {cycle_errors[-1]:6.2f}%"
            ran += 1
            exact += good
            print(
                f"{case.name:30} {1e6 * rtl.time_s:7.2f} µs {1e6 * model.time_s:7.2f} µs "
                f"{error:6.2f}% {1e6 * events.time_s:7.2f} µs {distance:6.2f}%  {mixed_text:18}  "
                f"{'equal' if good else 'DIFFER'}",
                flush=True,
            )
    median, worst = statistics.median(cycle_errors), max(cycle_errors)
    print(f"\nTimes at the engines' clocks. {time.perf_counter() - began:.0f} s in all.")
    met = ran == len(cases) and exact == compared
    met = met and median <= TARGET_MEDIAN_PCT and worst <= TARGET_WORST_PCT
    of_switches = [each for errors in switch_errors.values() for each in errors]
    met = met and statistics.median(of_switches) <= SWITCH_MEDIAN_PCT
    met = met and max(of_switches) <= SWITCH_WORST_PCT
    print(
        "Switches, events against cycles: "
        + "; ".join(
            f"{mode} median {statistics.median(errors):.1f} %, worst {max(errors):.1f} %"
            for mode, errors in switch_errors.items()
        )
        + f"; wanted {SWITCH_MEDIAN_PCT:g} and {SWITCH_WORST_PCT:g}"
    )
    result(
        "levels",
        descriptions=len(cases),
        ran=ran,
        exact=exact,
        with_rtl=compared,
        cycles_median_pct=median,
        cycles_worst_pct=worst,
        events_median_pct=statistics.median(event_errors),
        events_worst_pct=max(event_errors),
        switch_median_pct=statistics.median(of_switches),
        switch_worst_pct=max(of_switches),
        push_worst_pct=max(switch_errors["push"]),
        pull_worst_pct=max(switch_errors["pull"]),
        target_median_pct=TARGET_MEDIAN_PCT,
        target_worst_pct=TARGET_WORST_PCT,
        verdict="ok" if met else "short",
    )
    return 0
