"""Several runs side by side; ratios are to the first one."""

from collections.abc import Sequence
from pathlib import Path

from sim.results.store import SavedRun
from sim.results.table import Cell, Column, Table

__all__ = ["compare_figure", "compare_layers", "compare_runs"]


def compare_runs(runs: Sequence[SavedRun]) -> Table:
    """One row per run: where the time went, what was sent, and each relative to the first run."""
    table = Table(
        "Runs side by side",
        [
            Column("run"),
            Column("job"),
            Column("run time", "µs", 3),
            Column("ratio", "", 3),
            Column("compute", "µs", 3),
            Column("compute ratio", "", 3),
            Column("exposed communication", "µs", 3),
            Column("exposed ratio", "", 3),
            Column("exposed", "%", 1),
            Column("endpoint in use", "%", 1),
            Column("sent per NPU", "B", 0),
        ],
        note=f"Ratios are to {runs[0].name}." if runs else "",
    )
    for run in runs:
        cells: list[Cell] = [run.name, run.job]
        for name in ("run time (µs)", "compute (µs)", "exposed communication (µs)"):
            value = _first(run, name)
            base = _first(runs[0], name)
            cells += [value, value / base if base else None]
        sent = _numbers(run.tables["dimensions"], "sent per NPU (B)")
        cells += [_first(run, "exposed (%)"), _first(run, "endpoint in use (%)")]
        # A run on RTL knows nothing of what is on its links.
        table.add(*cells, sum(sent) if sent else None)
    return table


def compare_layers(runs: Sequence[SavedRun]) -> Table:
    """Exposed communication of each layer in each run; empty where a run has no such layer."""
    exposed: list[dict[str, float]] = []
    for run in runs:
        layers = run.tables["layers"]
        of: dict[str, float] = {}
        names = (str(row[0]) for row in layers.rows)
        for name, value in zip(names, _numbers(layers, "exposed communication (µs)")):
            of[name] = of.get(name, 0.0) + value
        exposed.append(of)
    table = Table(
        "Exposed communication per layer",
        [Column("layer"), *(Column(run.name, "µs", 3) for run in runs)],
    )
    for layer in dict.fromkeys(name for of in exposed for name in of):
        table.add(layer, *(of.get(layer) for of in exposed))
    return table


def compare_figure(path: Path, runs: Sequence[SavedRun]) -> None:
    """One bar per run: compute, exposed communication, the rest."""
    from sim.results.training_figures import division_figure

    bars = {
        run.name: (
            _first(run, "compute (µs)"),
            _first(run, "exposed communication (µs)"),
            _first(run, "delay (µs)") + _first(run, "idle (µs)"),
        )
        for run in runs
    }
    division_figure(path, bars, title="Runs side by side")


def _numbers(table: Table, heading: str) -> list[float]:
    index = [column.heading for column in table.columns].index(heading)
    values = [row[index] for row in table.rows]
    return [float(value) for value in values if isinstance(value, int | float)]


def _first(run: SavedRun, heading: str) -> float:
    numbers = _numbers(run.tables["summary"], heading)
    return numbers[0] if numbers else 0.0
