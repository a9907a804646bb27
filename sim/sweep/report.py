# SPDX-License-Identifier: Apache-2.0
"""The files that a sweep writes at its end."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gen.extras import has_extra
from gen.table import Table
from sim.results.view.sweep import write_sweep_page
from sim.sweep.engine import SweepOutcome
from sim.sweep.spec import SweepSpec

__all__ = ["shown", "write_outcome"]

MOST_LINES = 14
MOST_NUMBERS = 5
"""Columns to print besides the keys that vary."""


def write_outcome(outcome: SweepOutcome, spec: SweepSpec, folder: Path) -> list[Path]:
    """Write ``sweep.csv``, ``sweep.parquet``, the page ``index.html`` and, where there is something
    to draw, ``sweep.svg``; Parquet and figure where ``foldwire[tables]`` and
    ``foldwire[figures]`` are installed.

    Raises
    ------
    ValueError
        The plot that the sweep asks for needs a metric that no point has.
    """
    written = outcome.table.write_beside(folder / "sweep")
    x, y, lines = _axes(outcome.table, spec)
    figure = folder / "sweep.svg"
    if y is not None and has_extra("figures"):
        _draw(outcome.table, figure, x=x, y=y, lines=lines)
        written.append(figure)
    page = folder / "index.html"
    write_sweep_page(
        page, folder.name, outcome.table, spec.keys, x=x, y=y, failed=outcome.failed
    )
    return [*written, page]


def shown(table: Table, spec: SweepSpec) -> Table:
    """The columns to print: the varied keys, the ``y`` of the plot, and the first of the numbers
    that vary with them."""
    names = [column.name for column in table.columns]
    keys = len(spec.keys)
    varying = [
        name
        for index, name in enumerate(names)
        if index >= keys and name != "error" and len({row[index] for row in table.rows}) > 1
    ]
    plotted = [name for name in names[keys:] if name == spec.plot.y]
    chosen = [*plotted, *(name for name in varying if name not in plotted)][:MOST_NUMBERS]
    kept = [*names[:keys], *(name for name in names[keys:] if name in chosen)]
    note = "All columns are in the files." if len(kept) < len(names) else ""
    return replace(table.select(kept), note=note)


def _axes(table: Table, spec: SweepSpec) -> tuple[str, str | None, tuple[str, ...]]:
    """Key along the axis, metric above it (None: no point has a number), and keys of lines."""
    names = [column.name for column in table.columns]
    numeric = [n for i, n in enumerate(names) if table.is_number(i)]
    metrics = [name for name in numeric if name not in spec.keys]
    if spec.plot.y is not None and metrics and spec.plot.y not in metrics:
        raise ValueError(
            f"plot.y: there is no number {spec.plot.y!r}; there are: {', '.join(metrics)}"
        )
    y = (spec.plot.y or metrics[0]) if metrics else None
    # By default the first number that takes more than one value, else the first key.
    several = [
        key for key in spec.keys if len({str(row[names.index(key)]) for row in table.rows}) > 1
    ]
    x = spec.plot.x or next((key for key in several if key in numeric), spec.keys[0])
    lines = spec.plot.lines
    if lines is None:
        lines = tuple(key for key in several if key != x)
    return x, y, lines


def _draw(table: Table, path: Path, *, x: str, y: str, lines: Sequence[str]) -> None:
    names = [column.name for column in table.columns]
    is_number = table.is_number(names.index(x))
    at_x, at_y, at_lines = names.index(x), names.index(y), [names.index(key) for key in lines]
    places = list(dict.fromkeys(str(row[at_x]) for row in table.rows))
    curves: dict[str, tuple[list[float], list[float]]] = {}
    for row in table.rows:
        height, place = row[at_y], row[at_x]
        if not isinstance(height, int | float) or place is None:
            continue
        name = ", ".join(f"{key.rpartition('.')[2]} {row[i]}" for key, i in zip(lines, at_lines))
        xs, ys = curves.setdefault(name, ([], []))
        xs.append(float(place) if is_number else places.index(str(place)))
        ys.append(float(height))
    shown = dict(list(curves.items())[:MOST_LINES])
    left_out = f", first {len(shown)} of {len(curves)} lines" if len(shown) < len(curves) else ""
    from sim.results.training_figures import lines_figure

    lines_figure(
        path,
        shown,
        x_label=x,
        y_label=y,
        title=f"{y} over {x}{left_out}",
        x_names=None if is_number else places,
    )
