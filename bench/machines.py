# SPDX-License-Identifier: Apache-2.0
"""Machines by name against what their links allow, and against public measurements.

All-reduce, all-gather, all-to-all from 1 KB to 8 GB, sizes as nccl-tests counts them, in its
columns, with nothing fitted. The algorithm is the fastest that the machine has; the bound counts on
reduction where switches have it. Then the constants of machines are fitted to the tables in
``bench/measured``: how near the fit comes, beside the best of many starts of SciPy's least squares
over the same model, and beside a straight line over the size.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.result import result
from foldwire.console import print_table, say, step
from gen.table import Column, Table
from sim.describe.machines import MACHINES
from sim.endpoint.calibrated import Calibration
from sim.machines.fit import Fit, Model, fit, model_of, read_table
from sim.machines.measure import COLLECTIVES, lines_of, measure, sizes_from

__all__ = ["main", "outside"]

LARGE = 10**9
TARGET = 85.0
LEAST_BYTES = 4
ROUNDING = 1e-9
STARTED = Calibration(start=2e-5)
"""With a start-up time of the order of NCCL's, below which no time may be."""
STARTS, REFINED = 20, 2
"""Starts of the outside fit, and how many of them are refined on the model itself."""
GRID = np.concatenate([[0.0], np.geomspace(1e-8, 1e-3, 31)])
"""Steps between which the outside fit interpolates the model linearly."""
FIT_TARGET = 1.05


@dataclass(frozen=True)
class Measurement:
    """A file of ``bench/measured``, and the machine, ranks and algorithm that it is of."""

    file: str
    machine: str
    nodes: int
    collective: str
    algorithm: str

    @property
    def path(self) -> Path:
        return Path(__file__).parent / "measured" / self.file


MEASURED = (
    Measurement("all_reduce_8xA100.csv", "dgx-a100", 8, "all_reduce", "ring"),
    Measurement("all_reduce_12xV100_dgx2.csv", "dgx-2", 12, "all_reduce", "ring"),
    Measurement("all_gather_12xV100_dgx2.csv", "dgx-2", 12, "all_gather", "ring"),
    Measurement("all_reduce_8xH100_large.csv", "dgx-h100", 8, "all_reduce", "pull"),
)


def main(argv: Sequence[str]) -> int:
    """``--factor N`` between sizes (4), ``--machines NAME ...`` (all), ``--seed N`` of the outside
    fit's starts."""
    parser = argparse.ArgumentParser(prog="python -m bench machines", description=__doc__)
    parser.add_argument("--factor", type=int, default=4, help="from one size to the next")
    parser.add_argument("--machines", nargs="*", default=list(MACHINES), help="only these")
    parser.add_argument("--seed", type=int, default=1, help="of the starts of the outside fit")
    options = parser.parse_args(list(argv))
    count = above = wrong_path = below_start = 0
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
                started = measure(name, collective, first, calibration=STARTED)
            for line in lines_of(name, collective, rows):
                say(line)
            say("")
            count += len(rows)
            above += sum(row.time_s < row.bound_s * (1 - ROUNDING) for row in rows)
            wrong_path += sum(
                here.in_switch is None and row.algorithm in ("push", "pull") for row in rows
            )
            below_start += min(started.time_s, started.bound_s) < STARTED.start
            below_start += any(row.is_timed and not here.latency_is_stated for row in rows)
            worst = min([worst, *(row.percent for row in rows if row.size_bytes >= LARGE)])
    tables = [each for each in MEASURED if each.machine in options.machines]
    ratios, line_ratios = _fits(tables, options.seed)
    met = not above and not wrong_path and not below_start and worst >= TARGET
    result(
        "machines",
        verdict="ok" if met and max(ratios, default=0.0) <= FIT_TARGET else "short",
        machines=len(options.machines),
        rows=count,
        above_bound=above,
        large_worst_pct=worst,
        below_start=below_start,
        tables=len(tables),
        fit_ratio=max(ratios, default=0.0),
        line_ratio=max(line_ratios, default=0.0),
    )
    return 0


def _fits(tables: Sequence[Measurement], seed: int) -> tuple[list[float], list[float]]:
    """Sums of squares of the fits over those of the outside fit, and of a straight line."""
    shown = Table(
        "Constants fitted to public measurements",
        [
            Column("table"), Column("machine"), Column("nodes", "ranks"), Column("algorithm"),
            Column("share", digits=3), Column("start_s", "start", "µs", 1),
            Column("step_s", "step", "µs", 2),
            Column("squares", "sum of squares", digits=4),
            Column("outside", "outside fit", digits=4), Column("line", "straight line", digits=4),
            Column("worst", "worst row", "%", 1), Column("line_worst", "line's", "%", 1),
        ],
        note="Squares of relative errors of time. The outside fit is the best of "
        f"{STARTS} starts of scipy.optimize.least_squares over the same model.",
    )
    ratios, line_ratios = [], []
    for each in tables:
        rows = read_table(each.path)
        with step(f"fit of {each.file}"):
            found = fit(each.machine, each.collective, each.algorithm, rows, each.nodes)
        with step(f"outside fit of {each.file}"):
            times = model_of(each.machine, each.collective, each.algorithm, rows, each.nodes)
            other = outside(times, np.array([row.time_s for row in rows]), seed)
        ratios.append(_ratio(found.squares, other))
        line_ratios.append(_ratio(found.squares, found.line_squares))
        shown.add(each.file, each.machine, each.nodes, each.algorithm, *_numbers(found, other))
    if tables:
        print_table(shown)
    return ratios, line_ratios


def _numbers(found: Fit, other: float) -> tuple[float, ...]:
    made = found.calibration
    return (
        made.share, made.start, made.step, found.squares, other, found.line_squares,
        found.worst_percent, 100 * float(np.abs(found.line_errors).max()),
    )


def _ratio(ours: float, theirs: float) -> float:
    return ours / theirs if theirs > 0 else 1.0


def outside(times: Model, goal: np.ndarray, seed: int, *, starts: int = STARTS) -> float:
    """The least sum of squares of relative errors that SciPy's least squares finds.

    All *starts* use *times* interpolated between the steps of `GRID`, since the model is slow; the
    best of them are then refined on *times* as they are.
    """
    from scipy.optimize import least_squares

    known = np.array([times(1.0, 0.0, float(each)) for each in GRID])

    def drawn(values: np.ndarray) -> np.ndarray:
        share, start, step = values * SCALES
        wanted = step * share
        after = int(np.clip(np.searchsorted(GRID, wanted), 1, len(GRID) - 1))
        part = (wanted - GRID[after - 1]) / (GRID[after] - GRID[after - 1])
        between = known[after - 1] + part * (known[after] - known[after - 1])
        errors: np.ndarray = (start + between / share) / goal - 1
        return errors

    def true(values: np.ndarray) -> np.ndarray:
        share, start, step = (values * SCALES).tolist()
        errors: np.ndarray = times(share, start, step) / goal - 1
        return errors

    bounds = ([0.01, 0.0, 0.0], [1.0, np.inf, np.inf])
    rng = np.random.default_rng(seed)
    begins = [
        np.array([rng.uniform(0.05, 1.0), *(10 ** rng.uniform((-1, -3), (3, 2)))])
        for _ in range(starts)
    ]
    ends = sorted(
        (least_squares(drawn, each, bounds=bounds) for each in begins), key=lambda end: end.cost
    )
    last = [
        least_squares(true, each.x, bounds=bounds, diff_step=1e-4, max_nfev=10)
        for each in ends[:REFINED]
    ]
    return 2 * min(float(each.cost) for each in last)


SCALES = np.array([1.0, 1e-6, 1e-6])
"""Scales of the share, and of times in microseconds."""
