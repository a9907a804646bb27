"""The unit that a run names as its limit is the one whose doubling helps most.

Systems are drawn over topologies, endpoints, sizes and levels, each is run, and run again with
every one of its units doubled (`bench/_doubled.py`). The name is right if no other doubling saves
more than that of the named unit, but for a tenth of it or 1 % of the run time. Seeds from 4 on are
held out: the few constants of `sim/results/bounded.py` were fitted to seeds 1 and 2.
"""

import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from bench._doubled import doublings
from bench.options import bench_parser
from bench.result import result
from foldwire.console import print_table
from gen.table import Column, Table
from sim.results.bounded import bounded
from sim.run import run

__all__ = ["draw", "is_right", "main", "saved"]

Description = dict[str, Any]
RUNS, WANTED = 60, 90.0
SHARE, LEAST = 0.1, 0.01
"""By how much another doubling may save more: of what it saves, and of the run time."""
CLOCK_HZ = 1.245e9
BEAT = 16 * CLOCK_HZ
SOFTWARE = (
    "ideal", "ideal", "baseline_comm_opt", "baseline_comp_opt", "baseline", "baseline_no_overlap",
)


def main(argv: Sequence[str]) -> int:
    """``--seed N`` (4), ``--runs N`` (60)."""
    parser = bench_parser("limits_named", __doc__)
    parser.add_argument("--seed", type=int, default=4, help="of the systems (4)")
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
        found, gains = bounded(done.breakdown), saved(system)
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


def saved(system: Description) -> dict[str, float]:
    """Unit -> part of the run time that twice of it saves; units that cannot be doubled are left
    out."""
    done = run(system)
    found = {}
    for unit, changes in doublings(done).items():
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
    if turn == 8 and number // 10 % 2:
        return _nic(rng)
    return _ring_of_engines(rng, level="rtl" if turn == 9 else "cycles")


def _log(rng: random.Random, least: float, most: float) -> float:
    return math.exp(rng.uniform(math.log(least), math.log(most)))


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
    endpoints = [*SOFTWARE, "ace", "ace", "ace"]
    if kind in ("ring", "switch"):
        endpoints.append("smartnic")
    if kind in ("switch", "fat_tree"):
        endpoints += ["in_switch"] * 2
    endpoint: Description = {"kind": rng.choice(endpoints)}
    topology: Description = {"kind": kind, "shape": shape, "latency_s": _log(rng, 50e-9, 5e-6)}
    if rng.random() < 0.6:
        topology["bandwidth_bytes_per_s"] = _log(rng, 5e9, 200e9)
    made: Description = {"topology": topology, "endpoint": endpoint, "run": {"passes": 1}}
    if rng.random() < 0.5 and endpoint["kind"] != "in_switch":
        made["scheduler"] = {
            "chunk_bytes": 1 << rng.randint(15, 20), "concurrency": rng.choice([2, 4, 8, 16]),
        }
    if trains:
        made["workload"] = {
            "generator": "mlp", "sizes": [1 << rng.randint(8, 12)] * 4,
            "batch": 1 << rng.randint(3, 11), "compute": {"flops_per_s": 120e12},
        }
    else:
        size = 4096 * round(_log(rng, 1, 16384))
        made["workload"] = {"collective": "all_reduce", "size_bytes": size}
    return made


def _ring_of_engines(rng: random.Random, *, level: str) -> Description:
    """Small engines, with links and often a memory that are slower than their buses."""
    few = level == "rtl"
    latency_s = round(_log(rng, 10, 100 if few else 1000)) / CLOCK_HZ
    share, nodes = rng.choice([0.125, 0.25, 0.5]), 4 if few else rng.choice([2, 4, 8])
    size = 64 * round(_log(rng, 16, (1 << (15 if few else 20)) / 64))
    made: Description = {
        "topology": {
            "kind": "ring", "shape": [nodes], "latency_s": latency_s,
            "bandwidth_bytes_per_s": share * BEAT,
        },
        "endpoint": {"kind": "ace", "preset": "duo", "level": level},
        "workload": {"collective": "all_reduce", "size_bytes": size},
        "run": {"passes": 1},
    }
    if not few:
        made["endpoint"] |= {
            "rx_packets": 64, "max_nodes": 8, "program_words": 128,
            "sram_bytes": 1 << rng.randint(14, 18),
        }
    if rng.random() < 0.5:
        made["memory"] = {"bandwidth_bytes_per_s": BEAT * rng.choice([0.125, 0.25, 0.5])}
    return made


def _nic(rng: random.Random) -> Description:
    """Cycle models of smart NICs at a switch."""
    clock_hz, beat = 200e6, 32
    return {
        "topology": {
            "kind": "switch", "shape": [rng.choice([2, 4, 8])],
            "bandwidth_bytes_per_s": rng.choice([0.25, 0.5]) * beat * clock_hz,
            "latency_s": round(_log(rng, 10, 500)) / clock_hz,
        },
        "endpoint": {"kind": "smartnic", "preset": "test", "level": "cycles"},
        "memory": {"read_latency_s": round(_log(rng, 10, 1000)) / clock_hz},
        "workload": {"collective": "all_reduce", "size_bytes": 64 * round(_log(rng, 16, 16384))},
        "run": {"passes": 1},
    }
