# SPDX-License-Identifier: Apache-2.0
"""The unit that a run names as its limit is the one whose doubling helps most.

Systems are drawn over topologies, endpoints, sizes and levels, each is run, and run again with
every one of its units doubled (`bench/_doubled.py`). The name is right if no other doubling saves
more than that of the named unit, but for a tenth of it or 1 % of the run time. Seeds from 7 on are
held out: the few constants of `sim/results/bounded.py` were fitted to seeds up to 6.
"""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from bench._doubled import doublings
from bench._endpoints import in_network
from bench._levels_cases import log_uniform
from bench.options import bench_parser
from bench.records.registered import modules
from bench.result import result
from foldwire.console import print_table
from gen.table import Column, Table
from sim.results.bounded import bounded
from sim.run import run

__all__ = ["draw", "is_right", "main", "saved"]

Description = dict[str, Any]
RUNS, WANTED = 60, 90.0
ALIKE = "links of dimensions "
"""Begins the name of links of several dimensions, which are doubled together."""
SHARE, LEAST = 0.1, 0.01
"""By how much another doubling may save more: of what it saves, and of the run time."""
SOFTWARE = (
    "ideal", "ideal", "baseline_comm_opt", "baseline_comp_opt", "baseline", "baseline_no_overlap",
)


def main(argv: Sequence[str]) -> int:
    """``--seed N`` (7), ``--runs N`` (60)."""
    parser = bench_parser("limits_named", __doc__)
    parser.add_argument("--seed", type=int, default=7, help="of the systems (7)")
    parser.add_argument("--runs", type=int, default=RUNS, help=f"systems ({RUNS})")
    options = parser.parse_args(argv)
    table = Table("Limits that runs name", [
        Column("number"), Column("level"), Column("endpoint"), Column("topology"),
        Column("named"), Column("estimate_percent", "estimated to save", "%", 1),
        Column("saved_percent", "saves", "%", 1), Column("best"),
        Column("best_percent", "saves", "%", 1), Column("right"),
    ])
    by_level: Counter[str] = Counter()
    for number in range(options.runs):
        system = draw(options.seed, number)
        done = run(system)
        found = bounded(done.breakdown)
        gains = saved(system, found.name)
        best = max(gains, key=lambda unit: gains[unit])
        right = is_right(found.name, gains)
        by_level[done.level] += right
        table.add(
            number, done.level, done.description.kind, system["topology"]["kind"], found.name,
            found.percent, 100 * gains.get(found.name, 0.0), best, 100 * gains[best], right,
        )
    print_table(table)
    for level, count in sorted(by_level.items()):
        print(f"{level}: {count} of {table['level'].count(level)} right")
    named = sum(bool(name) for name in table["named"])
    percent = 100 * sum(bool(each) for each in table["right"]) / max(1, len(table.rows))
    result(
        "limits_named", runs=len(table.rows), named=named, right_pct=percent, seed=options.seed,
        verdict="ok" if percent >= WANTED else "short",
    )
    return 0


def saved(system: Description, named: str = "") -> dict[str, float]:
    """Unit -> part of the run time that twice of it saves, with one for the *named* links of
    several dimensions; units that cannot be doubled are left out."""
    done = run(system)
    units, found = doublings(done), {}
    if named.startswith(ALIKE):
        each = [units[f"links of dimension {n}"] for n in named.removeprefix(ALIKE).split(", ")]
        units[named] = {key: value for changes in each for key, value in changes.items()}
    for unit, changes in units.items():
        try:
            found[unit] = 1 - run(system, changes=changes).time_s / done.time_s
        except ValueError:
            continue
    return found


def is_right(named: str, gains: Mapping[str, float]) -> bool:
    """True if no other doubling saves more than that of the named unit, but for a little."""
    best = max(gains.values())
    return gains.get(named, 0.0) >= best - max(SHARE * best, LEAST)


def draw(seed: int, number: int) -> Description:
    """Draw the *number*-th system of a seed: of ten, six are collectives as events, one trains, two
    are cycle models, one is RTL."""
    rng = random.Random(f"limits {seed} {number}")
    turn = number % 10
    if turn < 7:
        return _as_events(rng, trains=turn == 6)
    drawn = [each.drawn for each in modules("limits").values() if hasattr(each, "drawn")]
    if turn == 9:
        return dict(drawn[0](rng, "rtl"))
    return dict(drawn[number // 10 % len(drawn) if turn == 8 else 0](rng, "cycles"))


def _as_events(rng: random.Random, *, trains: bool) -> Description:
    kind, shape = rng.choice([
        ("ring", [rng.choice([4, 8, 16, 32])]),
        ("torus", [rng.choice([2, 4, 8]), rng.choice([4, 8])]),
        ("torus", [4, 4, rng.choice([2, 4])]),
        ("hierarchical_torus", [4, rng.choice([2, 4]), 4]),
        ("switch", [rng.choice([4, 8, 16])]),
        ("fully_connected", [rng.choice([4, 8])]),
        ("fat_tree", [rng.choice([16, 32])]),
        ("hierarchical_all_to_all", [4, rng.choice([4, 8])]),
    ])
    endpoints = [*SOFTWARE]
    for name, each in modules("limits").items():
        if each.TOPOLOGIES is None or kind in each.TOPOLOGIES:
            endpoints += [name] * each.EVENTS
    endpoint: Description = {"kind": rng.choice(endpoints)}
    latency_s = log_uniform(rng, 50e-9, 5e-6)
    topology: Description = {"kind": kind, "shape": shape, "latency_s": latency_s}
    if rng.random() < 0.6:
        topology["bandwidth_bytes_per_s"] = log_uniform(rng, 5e9, 200e9)
    made: Description = {"topology": topology, "endpoint": endpoint, "run": {"passes": 1}}
    if rng.random() < 0.5 and not in_network(endpoint["kind"]):
        made["scheduler"] = {
            "chunk_bytes": 1 << rng.randint(15, 20), "concurrency": rng.choice([2, 4, 8, 16]),
        }
    if trains:
        made["workload"] = {
            "generator": "mlp", "sizes": [1 << rng.randint(8, 12)] * 4,
            "batch": 1 << rng.randint(3, 11), "compute": {"flops_per_s": 120e12},
        }
    else:
        size = 4096 * round(log_uniform(rng, 1, 16384))
        made["workload"] = {"collective": "all_reduce", "size_bytes": size}
    return made
