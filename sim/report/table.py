"""One table type for everything that is reported: columns with units, rows of plain values."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

__all__ = ["Cell", "Column", "Table"]

Cell: TypeAlias = str | int | float | bool | None


@dataclass(frozen=True)
class Column:
    """A heading, the unit of the values (empty for none), and decimals for real numbers."""

    name: str
    unit: str = ""
    decimals: int = 2

    @property
    def heading(self) -> str:
        return f"{self.name} ({self.unit})" if self.unit else self.name

    def text(self, value: Cell) -> str:
        """*value* as a person reads it: digits grouped, yes and no, a dash for nothing."""
        if value is None:
            return "-"
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, int):
            return f"{value:,}".replace(",", " ")
        if isinstance(value, float):
            return f"{value:,.{self.decimals}f}".replace(",", " ")
        return value


@dataclass(frozen=True)
class Table:
    """Rows of one kind. `note` says what the numbers are not."""

    title: str
    columns: Sequence[Column]
    rows: list[Sequence[Cell]] = field(default_factory=list)
    note: str = ""

    def add(self, *cells: Cell) -> None:
        if len(cells) != len(self.columns):
            raise ValueError(f"a row of {self.title!r} has {len(self.columns)} cells, got {cells}")
        self.rows.append(cells)

    def texts(self) -> list[list[str]]:
        return [[c.text(v) for c, v in zip(self.columns, row)] for row in self.rows]

    def is_number(self, column: int) -> bool:
        """Whether a column holds only numbers, and so is aligned to the right."""
        values = [row[column] for row in self.rows if row[column] is not None]
        return bool(values) and all(
            isinstance(value, int | float) and not isinstance(value, bool) for value in values
        )

    def to_csv(self) -> str:
        """The raw values, with the units in the header."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([column.heading for column in self.columns])
        writer.writerows(self.rows)
        return text.getvalue()
