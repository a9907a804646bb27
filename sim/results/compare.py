# SPDX-License-Identifier: Apache-2.0
"""Several runs side by side; ratios are to the first one."""

from collections.abc import Sequence
from pathlib import Path

from gen.table import Cell, Column, Table
from sim.results.metrics import METRICS
from sim.results.store import SavedRun

__all__ = ["compare_figure", "compare_layers", "compare_runs"]

RATIOS = {"time_s": "ratio", "compute_s": "compute ratio", "exposed_s": "exposed ratio"}
OTHERS = ("exposed_percent", "endpoint_percent", "sent_bytes")


def compare_runs(runs: Sequence[SavedRun]) -> Table:
    """One row per run: where the time went, what was sent, and each relative to the first run.

    Values that a run does not know are gaps.
    """
    columns = [Column("run"), Column("job")]
    for name, title in RATIOS.items():
        columns += [METRICS[name], Column(title.replace(" ", "_"), title, "", 3)]
    table = Table(
        "Runs side by side",
        [
            *columns, *(METRICS[name] for name in OTHERS), Column("limited_by", "limited by"),
            METRICS["limited_percent"],
        ],
        note=f"Ratios are to {runs[0].name}." if runs else "",
    )
    for run in runs:
        cells: list[Cell] = [run.name, run.job]
        for name in RATIOS:
            value, base = run.metrics.get(name), runs[0].metrics.get(name)
            cells += [value, value / base if value is not None and base else None]
        cells += [run.metrics.get(name) for name in OTHERS]
        table.add(*cells, run.limited_by or None, run.metrics.get("limited_percent"))
    return table


def compare_layers(runs: Sequence[SavedRun]) -> Table:
    """Exposed communication of each layer in each run; a gap where a run has no such layer."""
    exposed: list[dict[str, float]] = []
    for run in runs:
        of: dict[str, float] = {}
        for row in run.tables["layers"].records():
            name, value = str(row["layer"]), row["exposed_s"]
            if isinstance(value, float):
                of[name] = of.get(name, 0.0) + value
        exposed.append(of)
    table = Table(
        "Exposed communication per layer",
        [Column("layer"), *(Column(f"{run.name}.exposed_s", run.name, "µs", 3) for run in runs)],
    )
    for layer in dict.fromkeys(name for of in exposed for name in of):
        table.add(layer, *(of.get(layer) for of in exposed))
    return table


def compare_figure(path: Path, runs: Sequence[SavedRun]) -> None:
    """One bar per run: compute, exposed communication, the rest."""
    from sim.results.training_figures import division_figure

    bars = {}
    for run in runs:
        compute, exposed, delay, idle = (
            1e6 * run.metrics.get(name, 0.0)
            for name in ("compute_s", "exposed_s", "delay_s", "idle_s")
        )
        bars[run.name] = compute, exposed, delay + idle
    division_figure(path, bars, title="Runs side by side")
