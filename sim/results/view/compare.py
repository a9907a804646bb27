# SPDX-License-Identifier: Apache-2.0
"""The page of several saved runs side by side, and that of a run of which only tables are left."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gen.table import Cell, Column, Table
from sim.results.compare import compare_layers, compare_runs
from sim.results.metrics import METRICS
from sim.results.store import SavedRun
from sim.results.view.page import Chart, Section, Tile, View, write_view
from sim.results.view.run import configuration, layers_chart, summary_tiles, time_text

__all__ = ["differences_table", "write_comparison", "write_saved_page"]

PARTS = {"compute_s": "compute", "exposed_s": "exposed communication"}


def write_comparison(path: Path, runs: Sequence[SavedRun]) -> None:
    """Write the page of *runs*: times, metrics and descriptions where they differ, layers."""
    first = runs[0]
    layers = compare_layers(runs)
    waiting = [row for row in layers.rows if any(row[1:])]
    note = "Layers that an NPU waits for."
    write_view(
        path,
        View(
            title=" and ".join(run.name for run in runs),
            lead=f"{len(runs)} runs; ratios are to {first.name}",
            tiles=[
                Tile(value=time_text(run.metrics["time_s"]), label=_times(run, first))
                for run in runs
            ],
            sections=[
                Section(
                    title="Where the time goes", charts=[_division(runs)],
                    tables=[compare_runs(runs)],
                ),
                Section(
                    title="Differences",
                    tables=[differences_table(runs), _descriptions(runs)],
                ),
                Section(
                    title="Layers", tables=[Table(layers.title, layers.columns, waiting, note)]
                ),
            ],
        ),
    )


def write_saved_page(folder: Path, run: SavedRun) -> Path:
    """Write the page of a run whose record is gone: its tables, without timeline and network."""
    layers = layers_chart(run.tables["layers"]) if "layers" in run.tables else None
    about = {"provenance": run.provenance, "origin": run.origin}
    path = folder / "index.html"
    write_view(
        path,
        View(
            title=run.name,
            lead=f"{run.job}; from saved tables, which have no timeline and no network",
            tiles=summary_tiles(run.metrics, run.tables),
            sections=[
                *([Section(title="Layers", charts=[layers])] if layers else []),
                Section(title="Tables", tables=list(run.tables.values())),
                configuration(about),
            ],
        ),
    )
    return path


def _times(run: SavedRun, first: SavedRun) -> str:
    """Name of a run, its time over that of the first, and what limits it."""
    words = [run.name]
    if run is not first and (base := first.metrics["time_s"]):
        words.append(f"{run.metrics['time_s'] / base:.3g} times as long")
    return ", ".join([*words, *([f"limited by {run.limited_by}"] if run.limited_by else [])])


def _division(runs: Sequence[SavedRun]) -> Chart:
    """A bar per run: compute, exposed communication, and the rest of its time."""
    rows = []
    for run in runs:
        parts = [run.metrics.get(name, 0.0) for name in PARTS]
        rows.append([run.name, *parts, max(0.0, run.metrics["time_s"] - sum(parts))])
    named = [{"name": name, "colour": key.removesuffix("_s")} for key, name in PARTS.items()]
    named.append({"name": "delays and idle", "colour": "rest"})
    data = {"unit": "s", "parts": named, "rows": rows}
    return Chart(kind="bars", label="Time of each run", data=data)


def differences_table(runs: Sequence[SavedRun]) -> Table:
    """Metrics in which *runs* differ, with ratios to the first."""
    columns = [Column("metric"), Column("unit")]
    for number, run in enumerate(runs):
        columns.append(Column(f"run_{number}", run.name))
        if number:
            columns.append(Column(f"ratio_{number}", "ratio", "", 3))
    table = Table("Metrics that differ", columns)
    for name in dict.fromkeys(name for run in runs for name in run.metrics):
        values = [run.metrics.get(name) for run in runs]
        if len(set(values)) == 1:
            continue
        column = METRICS.get(name, Column(name))
        cells: list[Cell] = [column.title or name.replace("_", " "), column.unit or None]
        for number, value in enumerate(values):
            cells.append(None if value is None else column.text(value))
            if number:
                base = values[0]
                cells.append(None if value is None or not base else value / base)
        table.add(*cells)
    return table


def _descriptions(runs: Sequence[SavedRun]) -> Table:
    """Keys of the descriptions in which *runs* differ."""
    flat = [dict(_flat(run.origin.get("description", {}))) for run in runs]
    columns = [Column("key"), *(Column(f"run_{n}", run.name) for n, run in enumerate(runs))]
    known = all(flat)
    note = "" if known else "A run of which no description was saved has gaps."
    table = Table("Descriptions that differ", columns, note=note)
    for key in dict.fromkeys(key for each in flat for key in each):
        values = [each.get(key) for each in flat]
        if len({str(value) for value in values}) > 1:
            table.add(key, *(None if value is None else str(value) for value in values))
    return table


def _flat(value: Any, above: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted keys and values of a description."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _flat(each, f"{above}.{key}" if above else str(key))
    elif isinstance(value, list) and value and all(isinstance(each, Mapping) for each in value):
        for number, each in enumerate(value):
            yield from _flat(each, f"{above}.{number}")
    else:
        yield above, value
