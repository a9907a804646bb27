# SPDX-License-Identifier: Apache-2.0
"""``foldwire bandwidth``: a collective on a described system, over sizes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from foldwire.console import interruptible, offer, say, step
from foldwire.systems import folder_name, stem_of
from gen.extras import has_extra
from gen.folder import writing
from gen.table import Cell, Column
from sim.machines.measure import heading, line_of, rows_table, sizes_from
from sim.machines.own import SizedCollective, SizedRow, prepare

__all__ = ["run_sizes"]


def run_sizes(
    path: Path,
    output: Path,
    sizes: tuple[int, int, int],
    *,
    collective: str | None,
    nodes: int | None,
    endpoint: str | None,
    changes: Mapping[str, Any],
) -> None:
    """Print a row for each size as it is done, and write them as CSV, those that are done when
    interrupted, and as a figure, into a folder that is named after all that was given;
    ``sizes``: first, last, factor."""
    chosen = sizes_from(*sizes)
    measurement = prepare(
        path, collective=collective, nodes=nodes, endpoint=endpoint, changes=changes
    )
    say(f"# {stem_of(path)}: {measurement.collective} on {_ranks(measurement)}, simulated")
    say(heading("bound set by"))
    rows: list[SizedRow] = []
    different = list(dict.fromkeys(map(measurement.rounded, chosen)))
    try:
        for size in different:
            with step(f"{size} B"):
                rows.append(interruptible(partial(measurement.measure, size)))
            say(line_of(rows[-1], measurement.collective, measurement.ranks, rows[-1].set_by))
    finally:
        if rows:
            given = ("bandwidth", collective or "", "" if nodes is None else f"nodes={nodes}")
            folder = output / folder_name(path, *given, endpoint=endpoint, changes=changes)
            _write(rows, measurement, folder, draw=len(rows) == len(different))


def _ranks(measurement: SizedCollective) -> str:
    if measurement.ranks == measurement.nodes:
        return f"{measurement.ranks} ranks"
    return f"groups of {measurement.ranks} of {measurement.nodes} ranks"


def _write(
    rows: Sequence[SizedRow], measurement: SizedCollective, folder: Path, *, draw: bool
) -> None:
    """Write ``bandwidth.csv``, as Parquet too, and ``bandwidth.svg``."""
    table = rows_table(rows, "set_by", [row.set_by for row in rows])
    what: list[Cell] = [measurement.collective, measurement.ranks, measurement.endpoint]
    table = replace(
        table,
        columns=[*table.columns, Column("collective"), Column("ranks"), Column("endpoint")],
        rows=[[*row, *what] for row in table.rows],
    )
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        written = table.write_beside(folder / "bandwidth")
    if draw and has_extra("figures"):
        written.append(folder / "bandwidth.svg")
        _draw(rows, measurement, written[-1])
    say("written: " + ", ".join(map(str, written)))
    offer(lambda: {"folder": str(folder), "rows": table.records()})


def _draw(rows: Sequence[SizedRow], measurement: SizedCollective, path: Path) -> None:
    # Loading matplotlib takes most of a second.
    from sim.results.training_figures import lines_figure

    sizes = [row.size_bytes for row in rows]
    curves = {"algbw": [row.algbw for row in rows], "busbw": [row.busbw for row in rows]}
    lines_figure(
        path, {name: (sizes, rates) for name, rates in curves.items()}, x_label="size_bytes",
        y_label="bandwidth_bytes_per_s",
        title=f"{measurement.collective} on {_ranks(measurement)}",
    )
