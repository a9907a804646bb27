"""Synthesis figures as a table."""

from gen.synth import Report
from sim.report.table import Column, Table

__all__ = ["cells_table"]


def cells_table(report: Report) -> Table:
    """The rows of *report*; tools, commands and what the figures are not stand in the note."""
    columns = [Column(column.title, column.unit) for column in report.columns]
    return Table(
        "Cells per block", columns, rows=list(report.rows), note=". ".join(report.preamble) + "."
    )
