"""One table type for everything that is reported: columns with units, rows of plain values."""

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
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

    def to_json(self) -> str:
        """Everything, in a form that :meth:`from_json` reads back."""
        return json.dumps(
            {
                "title": self.title,
                "note": self.note,
                "columns": [[c.name, c.unit, c.decimals] for c in self.columns],
                "rows": [list(row) for row in self.rows],
            },
            ensure_ascii=False,
        )

    @classmethod
    def from_json(cls, text: str, *, source: str = "table") -> "Table":
        """The table that :meth:`to_json` wrote; *source* is what errors call it.

        Raises
        ------
        ValueError
            The text is not JSON, or not of such a table.
        """
        try:
            document = json.loads(text)
            columns = [
                Column(str(name), str(unit), int(decimals))
                for name, unit, decimals in document["columns"]
            ]
            table = cls(str(document["title"]), columns, note=str(document["note"]))
            for row in document["rows"]:
                table.add(*row)
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{source}: not a table in JSON: {error!r}") from error
        return table

    def write(self, path: Path) -> None:
        """Write to *path*: raw values as ``.csv`` or ``.parquet``, everything as ``.json``.

        In Parquet the columns are named by their headings; title and note are metadata of the
        file, units of its fields.
        """
        if path.suffix == ".parquet":
            self._write_parquet(path)
        elif path.suffix in (".csv", ".json"):
            text = self.to_csv() if path.suffix == ".csv" else self.to_json()
            path.write_text(text, encoding="utf-8")
        else:
            raise ValueError(f"{path}: a table is written as .csv, .json or .parquet")

    def _write_parquet(self, path: Path) -> None:
        # Loading pyarrow takes longer than most runs: only where a file is asked for.
        import pyarrow
        from pyarrow import parquet

        fields, arrays = [], []
        for index, column in enumerate(self.columns):
            values = [row[index] for row in self.rows]
            kinds = {type(value) for value in values if value is not None}
            if kinds == {int, float}:
                values = [None if value is None else float(value) for value in values]
            elif len(kinds) > 1:
                names = ", ".join(sorted(kind.__name__ for kind in kinds))
                raise ValueError(f"column {column.heading!r} of {self.title!r} mixes {names}")
            array = pyarrow.array(values)
            fields.append(pyarrow.field(column.heading, array.type, metadata={"unit": column.unit}))
            arrays.append(array)
        metadata = {"title": self.title, "note": self.note}
        schema = pyarrow.schema(fields, metadata=metadata)
        parquet.write_table(pyarrow.Table.from_arrays(arrays, schema=schema), path)
