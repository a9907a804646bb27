"""Machines by name against what their links allow: all-reduce, all-gather, all-to-all.

From 1 KB to 8 GB, sizes as nccl-tests counts them, in its columns, with nothing fitted. The
algorithm is the fastest that the machine has; the bound counts on reduction where switches have it.
"""

import argparse
from collections.abc import Sequence

from bench.result import result
from foldwire.console import say, step
from sim.describe.machines import MACHINES
from sim.machines.measure import COLLECTIVES, lines_of, measure, sizes_from

__all__ = ["main"]

LARGE = 10**9
TARGET = 85.0
LEAST_BYTES = 4
ROUNDING = 1e-9


def main(argv: Sequence[str]) -> int:
    """``--factor N`` between sizes (4), ``--machines NAME ...`` (all)."""
    parser = argparse.ArgumentParser(prog="python -m bench machines", description=__doc__)
    parser.add_argument("--factor", type=int, default=4, help="from one size to the next")
    parser.add_argument("--machines", nargs="*", default=list(MACHINES), help="only these")
    options = parser.parse_args(list(argv))
    count = above = wrong_path = 0
    worst = 100.0
    for number, name in enumerate(options.machines):
        here = MACHINES[name]
        for collective in COLLECTIVES:
            first = 1 << 10
            while collective != "all_reduce" and first < LEAST_BYTES * here.nodes:
                first *= 2
            rows = []
            with step(f"{name} {collective} ({number + 1} of {len(options.machines)})"):
                for size in sizes_from(first, 1 << 33, options.factor):
                    rows.append(measure(name, collective, size))
            for line in lines_of(name, collective, rows):
                say(line)
            say("")
            count += len(rows)
            above += sum(row.time_s < row.bound_s * (1 - ROUNDING) for row in rows)
            wrong_path += sum(
                here.in_switch is None and row.algorithm in ("push", "pull") for row in rows
            )
            worst = min([worst, *(row.percent for row in rows if row.size_bytes >= LARGE)])
    result(
        "machines",
        verdict="ok" if not above and not wrong_path and worst >= TARGET else "short",
        machines=len(options.machines),
        rows=count,
        above_bound=above,
        large_worst_pct=worst,
    )
    return 0
