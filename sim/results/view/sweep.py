# SPDX-License-Identifier: Apache-2.0
"""The page of a sweep: curves of any metric over any key, and the table of all points."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gen.table import Table
from sim.results.metrics import METRICS
from sim.results.view.page import Chart, Section, Tile, View, write_view

__all__ = ["write_sweep_page"]

MOST_POINTS = 4000


def write_sweep_page(
    path: Path, name: str, table: Table, keys: Sequence[str], *, x: str, y: str | None, failed: int
) -> None:
    """Write the page of the points in *table*, varied in *keys*; *y* over *x* is shown first, and
    nothing where no point has a number."""
    names = [column.name for column in table.columns]
    sections = []
    if y is not None:
        chart = _chart(table, keys, x=x, y=y)
        sections.append(Section(title="Curves", charts=[chart]))
    sections.append(Section(title="Points", tables=_points(table, keys)))
    tiles = [
        Tile(value=str(len(table.rows)), label="points"),
        Tile(value=str(failed), label="of them failed"),
    ]
    best = [
        value for value in (table[y] if y is not None else [])
        if isinstance(value, int | float) and not isinstance(value, bool)
    ]
    if y is not None and best:
        column = table.columns[names.index(y)]
        low, high = column.text(min(best)), column.text(max(best))
        label = f"{METRICS[y].title if y in METRICS else y}, least to most"
        tiles.append(Tile(value=f"{low} to {high} {column.unit}".strip(), label=label))
    lead = f"Sweep over {', '.join(keys)}"
    write_view(path, View(title=name, lead=lead, tiles=tiles, sections=sections))


def _points(table: Table, keys: Sequence[str]) -> list[Table]:
    """Points with their metrics; those that failed are a table of their own, since errors are long
    texts, in rows of which nothing else is known."""
    names = [column.name for column in table.columns]
    if "error" not in names:
        return [table]
    errors = table["error"]
    ran = table.select([name for name in names if name != "error"])
    failed = table.select(["error", *keys])
    parts = [
        replace(ran, rows=[row for row, error in zip(ran.rows, errors) if not error]),
        replace(failed, title="Failed", note="", rows=[
            row for row, error in zip(failed.rows, errors) if error
        ]),
    ]
    return [part for part in parts if part.rows]


def _chart(table: Table, keys: Sequence[str], *, x: str, y: str) -> Chart:
    names = [column.name for column in table.columns]
    metrics = [
        name for number, name in enumerate(names)
        if (name not in keys and table.is_number(number) and len(set(table[name])) > 1) or name == y
    ]
    shown = [*keys, *(name for name in metrics if name not in keys)]
    part = table.select(shown)
    rows = part.rows[:MOST_POINTS]
    left_out = ""
    if len(rows) < len(table.rows):
        left_out = f"The first {len(rows)} of {len(table.rows)} points."
    data = {
        "columns": shown,
        "keys": list(keys),
        "metrics": metrics,
        "rows": [[float(f"{v:.9g}") if isinstance(v, float) else v for v in row] for row in rows],
        "units": {
            name: column.value_unit for name, column in zip(shown, part.columns)
            if column.value_unit
        },
        "x": x,
        "y": y,
    }
    return Chart(kind="sweep", label="Curves of the sweep", data=data, caption=left_out)
