"""Synthesis figures as a table."""

from gen.synth import Report
from sim.results.table import Column, Table

__all__ = ["cells_table"]


def cells_table(report: Report, *, largest: int | None = None) -> Table:
    """The rows of *report*; tools, commands and what the figures are not stand in the note.

    With `largest`, only the whole design and that many of its largest blocks by the first figure.
    """
    # The title says that figures are cells.
    units = ["" if column.unit == "cells" else column.unit for column in report.columns]
    columns = [Column(column.title, unit) for column, unit in zip(report.columns, units)]
    # Columns are: block, instances, then the figures. The first row is the whole design.
    whole, *blocks = report.rows
    note = ". ".join(report.preamble) + "."
    if largest is not None and len(blocks) > largest:
        chosen = sorted(blocks, key=lambda row: row[2], reverse=True)[:largest]
        note = f"The {largest} largest of {len(blocks)} blocks. {note}"
        blocks = [row for row in blocks if row in chosen]
    return Table("Cells per block", columns, rows=[whole, *blocks], note=note)
