# SPDX-License-Identifier: Apache-2.0
"""The one table type for everything that is reported: typed columns, rows of plain values.

Values are in plain units (seconds, bytes, bytes per second; shares in percent), and the name of a
column says which: ``time_s``, ``sent_bytes``, ``link_percent``. Text for people, on a screen or a
page, is scaled to the unit that the column is shown in.
"""

from __future__ import annotations

import csv
import html
import io
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from gen.extras import has_extra, require_extra

if TYPE_CHECKING:
    import pandas
    import pyarrow

    from gen.screen import Sheet

__all__ = ["Cell", "Column", "NamedTables", "Table"]

Cell: TypeAlias = str | int | float | bool | None

# Unit that is shown -> unit of the values, and the factor from the latter to the former.
_SCALED = {
    "ns": ("s", 1e9), "µs": ("s", 1e6), "ms": ("s", 1e3), "MHz": ("Hz", 1e-6),
    "MB": ("B", 1e-6), "MiB": ("B", 2**-20), "GB/s": ("B/s", 1e-9), "Gbit/s": ("B/s", 8e-9),
}
# Rows of a table that a prompt or a notebook shows.
_SHOWN_ROWS = 12
# Ending of a name -> unit of its values. The longer ones first.
_ENDINGS = {"_bytes_per_s": "B/s", "_bytes": "B", "_percent": "%", "_cycles": "cycles", "_s": "s"}


@dataclass(frozen=True)
class Column:
    """One column.

    Parameters
    ----------
    name : str
        Name in files and scripts: ``time_s``.
    title : str
        Title for people, without unit; empty for the name with blanks.
    unit : str
        Unit for people: ``µs`` of values in seconds; empty for none.
    digits : int
        Decimals of real numbers, as shown.
    """

    name: str
    title: str = ""
    unit: str = ""
    digits: int = 2

    @classmethod
    def fitting(cls, name: str, values: Iterable[Cell]) -> Column:
        """A column for numbers of any size: unit by the name's ending, at least four digits."""
        ending = next((each for each in _ENDINGS if name.endswith(each)), "")
        unit = _ENDINGS.get(ending, "")
        sizes = [abs(value) for value in values if isinstance(value, float) and value]
        smallest = min((size for size in sizes if math.isfinite(size)), default=0.0)
        if unit == "s" and smallest:
            # The largest unit that leaves a digit before the point, else the smallest.
            unit = next((u for u in ("s", "ms", "µs") if smallest * _scale(u) >= 1), "ns")
        elif unit == "B/s" and smallest >= 1e8:
            unit = "GB/s"
        smallest *= _scale(unit)
        digits = min(max(3 - math.floor(math.log10(smallest)), 0), 15) if smallest else 2
        return cls(name, name.removesuffix(ending).replace("_", " "), unit, digits)

    @property
    def heading(self) -> str:
        """Title and unit, as above a printed column."""
        title = self.title or self.name.replace("_", " ")
        return f"{title} ({self.unit})" if self.unit else title

    @property
    def value_unit(self) -> str:
        """The unit of the values: s where µs are shown."""
        return _SCALED.get(self.unit, (self.unit, 1.0))[0]

    def text(self, value: Cell) -> str:
        """*value* as text for people: scaled, digits grouped, yes and no, a dash for None."""
        if value is None:
            return "-"
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, str):
            return value
        scale = _scale(self.unit)
        if isinstance(value, int) and scale == 1:
            return f"{value:,}".replace(",", " ")
        return f"{value * scale:,.{self.digits}f}".replace(",", " ")


@dataclass(frozen=True, repr=False)
class Table:
    """Rows under columns. A column holds texts, numbers or booleans, and gaps.

    Printed, it shows its first rows as people read them; all are in :attr:`rows`.

    Parameters
    ----------
    title : str
    columns : sequence of Column
    rows : list of sequences
        One cell per column, in the units of :attr:`Column.value_unit`; None for a gap.
    note : str
        Remarks, such as limits of the numbers.

    Raises
    ------
    ValueError
        A row is too long or too short, or a column mixes kinds.
    """

    title: str
    columns: Sequence[Column]
    rows: list[Sequence[Cell]] = field(default_factory=list)
    note: str = ""
    _kinds: dict[int, str] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("title", "note"):
            if not isinstance(getattr(self, name), str):
                raise TypeError(f"{name} must be a text, not {getattr(self, name)!r}")
        if not isinstance(self.columns, list | tuple):
            raise TypeError(f"columns must be a sequence of Columns, not {self.columns!r}")
        for column in self.columns:
            if not isinstance(column, Column):
                raise TypeError(f"columns must be Columns, not {column!r}")
        listed = isinstance(self.rows, list | tuple)
        if not listed or not all(isinstance(row, list | tuple) for row in self.rows):
            raise TypeError(f"rows must be a list of sequences of cells, not {self.rows!r}")
        object.__setattr__(self, "rows", [tuple(row) for row in self.rows])
        for row in self.rows:
            self._check(row)

    def add(self, *cells: Cell) -> None:
        """Append a row."""
        self._check(cells)
        self.rows.append(cells)

    def _check(self, cells: Sequence[Cell]) -> None:
        if len(cells) != len(self.columns):
            raise ValueError(f"a row of {self.title!r} has {len(self.columns)} cells, got {cells}")
        for index, cell in enumerate(cells):
            kind = _kind(cell)
            if kind and self._kinds.setdefault(index, kind) != kind:
                raise ValueError(
                    f"column {self.columns[index].name!r} of {self.title!r} holds "
                    f"{self._kinds[index]}, not {cell!r}"
                )

    def __getitem__(self, name: str) -> list[Cell]:
        """The values of the column *name*."""
        index = self._index(name)
        return [row[index] for row in self.rows]

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.rows)

    def __bool__(self) -> bool:
        return True  # a table without rows is one, too

    def __iter__(self) -> Iterator[str]:
        """Names of the columns, as of a mapping."""
        return iter(self._ipython_key_completions_())

    def __contains__(self, name: object) -> bool:
        return name in self._ipython_key_completions_()

    def value(self, row: Cell, name: str) -> Any:
        """The value of column *name* in the one row that starts with *row*."""
        (found,) = (each for each in self.rows if each[0] == row)
        return found[self._index(name)]

    def select(self, names: Sequence[str]) -> Table:
        """The table with these columns only."""
        indices = [self._index(name) for name in names]
        rows: list[Sequence[Cell]] = [[row[index] for index in indices] for row in self.rows]
        return Table(self.title, [self.columns[index] for index in indices], rows, self.note)

    def records(self) -> list[dict[str, Cell]]:
        """One dictionary per row, by the names of the columns."""
        return [dict(zip((c.name for c in self.columns), row)) for row in self.rows]

    def _index(self, name: str) -> int:
        names = self._ipython_key_completions_()
        if name not in names:
            raise ValueError(
                f"{self.title!r} has no column {name!r}; there are: {', '.join(names)}"
            )
        return names.index(name)

    def _ipython_key_completions_(self) -> list[str]:
        """Names that Tab offers behind ``table["``."""
        return [column.name for column in self.columns]

    def texts(self) -> list[list[str]]:
        """The rows as text for people."""
        return [[c.text(v) for c, v in zip(self.columns, row)] for row in self.rows]

    def is_number(self, column: int) -> bool:
        """Return True if a column holds numbers, and so is aligned to the right."""
        return self._kinds.get(column) == "numbers"

    def sheet(self, most: int | None = None, where: str = "") -> Sheet:
        """The table as text for people, of at most *most* rows; *where* are the others."""
        from gen.screen import Sheet

        left_out = 0 if most is None else len(self.rows) - most
        shown = self if left_out < 2 else self._first(most)  # a line about one is as long as it
        elsewhere = f" are in {where}" if where else ""
        return Sheet(
            title=self.title,
            headings=[column.heading for column in self.columns],
            rows=shown.texts(),
            right=[self.is_number(index) for index in range(len(self.columns))],
            more="" if shown is self else f"{left_out} more rows{elsewhere}",
            note=self.note,
        )

    def _first(self, most: int | None) -> Table:
        return Table(self.title, self.columns, self.rows[:most], self.note)

    def __repr__(self) -> str:
        # Loading what draws takes longer than most runs, so it is loaded only when needed.
        from gen.screen import sheet_text

        return sheet_text(self.sheet(_SHOWN_ROWS))

    def to_csv(self) -> str:
        """The values as CSV, under the names of the columns."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([column.name for column in self.columns])
        writer.writerows(self.rows)
        return text.getvalue()

    def to_json(self) -> str:
        """The whole table as JSON, which :meth:`from_json` reads back."""
        return json.dumps(
            {
                "title": self.title,
                "note": self.note,
                "columns": [[c.name, c.title, c.unit, c.digits] for c in self.columns],
                "rows": [list(row) for row in self.rows],
            },
            ensure_ascii=False,
        )

    @classmethod
    def from_json(cls, text: str, *, source: str = "table") -> Table:
        """Read a table that :meth:`to_json` wrote; *source* names it in errors.

        Raises
        ------
        ValueError
            The text is not JSON, or not of such a table.
        """
        try:
            document = json.loads(text)
            columns = [
                Column(str(name), str(title), str(unit), int(digits))
                for name, title, unit, digits in document["columns"]
            ]
            rows: list[Sequence[Cell]] = [tuple(row) for row in document["rows"]]
            return cls(str(document["title"]), columns, rows, str(document["note"]))
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{source}: not a table in JSON: {error!r}") from error

    @classmethod
    def from_csv(cls, text: str, header: Table, *, source: str = "table") -> Table:
        """Read rows that :meth:`to_csv` wrote, of a table whose title, columns and note are those
        of *header*; *source* names it in errors.

        Raises
        ------
        ValueError
            The text has not those columns.
        """
        names, *lines = list(csv.reader(io.StringIO(text))) or [[]]
        if names != header._ipython_key_completions_() or any(
            len(line) != len(names) for line in lines
        ):
            raise ValueError(f"{source}: not the table {header.title!r}")
        columns = [_values(column) for column in zip(*lines, strict=True)]
        return cls(header.title, header.columns, list(zip(*columns, strict=True)), header.note)

    def to_markdown(self) -> str:
        """The table for people as Markdown, with the note below."""
        rule = ["---:" if self.is_number(index) else "---" for index in range(len(self.columns))]
        rows = [[column.heading for column in self.columns], rule, *self.texts()]
        lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
        return "\n".join([*lines, *(["", self.note] if self.note else [])]) + "\n"

    def to_html(self) -> str:
        """A ``<table>`` for people, without title and note; figures have class `right`."""

        def line(tag: str, cells: Iterable[str]) -> str:
            return "<tr>" + "".join(
                f'<{tag} class="right">{cell}</{tag}>' if self.is_number(index)
                else f"<{tag}>{cell}</{tag}>"
                for index, cell in enumerate(cells)
            ) + "</tr>"

        headings = [
            html.escape(c.title or c.name.replace("_", " "))
            + (f"<small> {html.escape(c.unit)}</small>" if c.unit else "")
            for c in self.columns
        ]
        rows = [line("td", map(html.escape, row)) for row in self.texts()]
        return "\n".join(["<table>", line("th", headings), *rows, "</table>"])

    def _repr_html_(self) -> str:
        """HTML that a notebook shows: the first rows."""
        sheet = self.sheet(_SHOWN_ROWS)
        rest = "".join(f"<p>{html.escape(text)}</p>" for text in (sheet.more, sheet.note) if text)
        first = self._first(len(sheet.rows)).to_html()
        return f"<p><b>{html.escape(self.title)}</b></p>\n{first}{rest}"

    def to_arrow(self) -> pyarrow.Table:
        """As an Arrow table: title and note are its metadata, units and titles its fields'."""
        require_extra("tables", "to_arrow")
        # Loading pyarrow takes longer than most runs, so it is loaded only when needed.
        import pyarrow

        from gen.arrow import arrow_array

        fields, arrays = [], []
        for index, column in enumerate(self.columns):
            values = [row[index] for row in self.rows]
            if any(isinstance(value, float) for value in values):
                values = [None if value is None else float(value) for value in values]
            arrays.append(array := arrow_array(values))
            about = {"unit": column.value_unit, "title": column.title}
            fields.append(pyarrow.field(column.name, array.type, metadata=about))
        schema = pyarrow.schema(fields, metadata={"title": self.title, "note": self.note})
        return pyarrow.Table.from_arrays(arrays, schema=schema)

    def to_pandas(self) -> pandas.DataFrame:
        """As a data frame; its ``attrs`` hold title, note and units.

        Raises
        ------
        MissingExtraError
            Pandas is not installed: it comes with ``foldwire[pandas]``.
        """
        require_extra("pandas", "to_pandas")
        frame = self.to_arrow().to_pandas()
        frame.attrs = {
            "title": self.title,
            "note": self.note,
            "units": {column.name: column.value_unit for column in self.columns},
        }
        return frame

    def write(self, path: Path) -> None:
        """Write to *path*: values as ``.csv`` or ``.parquet``, everything as ``.json``.

        Raises
        ------
        MissingExtraError
            Parquet comes with ``foldwire[tables]``.
        ValueError
            For another ending.
        """
        if path.suffix == ".parquet":
            require_extra("tables", path.name)
            from pyarrow import parquet

            parquet.write_table(self.to_arrow(), path)
        elif path.suffix in (".csv", ".json"):
            text = self.to_csv() if path.suffix == ".csv" else self.to_json()
            path.write_text(text, encoding="utf-8")
        else:
            raise ValueError(f"{path}: a table is written as .csv, .json or .parquet")

    def write_beside(self, stem: Path) -> list[Path]:
        """Write ``stem.csv`` and, where ``foldwire[tables]`` is installed, ``stem.parquet``;
        returns the files."""
        endings = (".csv", ".parquet") if has_extra("tables") else (".csv",)
        paths = [stem.with_name(stem.name + ending) for ending in endings]
        for path in paths:
            self.write(path)
        return paths


class NamedTables(dict[str, Table]):
    """Tables by the names of their files."""

    def __missing__(self, name: str) -> Table:
        raise _NoTableError(f"there is no table {name!r}; there are: {', '.join(self)}")

    def __repr__(self) -> str:
        lines = (f"  {name}: {_counted(table)}" for name, table in self.items())
        return "\n".join([f"{len(self)} tables", *lines])

    def _repr_html_(self) -> str:
        """HTML that a notebook shows: names, titles and sizes."""
        listed = Table("Tables", [Column("table"), Column("title"), Column("rows")])
        for name, table in self.items():
            listed.add(name, table.title, len(table.rows))
        return listed.to_html()

    def _ipython_key_completions_(self) -> list[str]:
        """Names that Tab offers behind ``tables["``."""
        return list(self)


class _NoTableError(KeyError):
    """A name that no table has; its text is not quoted, as that of other KeyErrors."""

    def __str__(self) -> str:
        return str(self.args[0])


def _counted(table: Table) -> str:
    return f"{len(table.rows)} row{'' if len(table.rows) == 1 else 's'}, {table.title}"


def _values(texts: Sequence[str]) -> Sequence[Cell]:
    """Cells of a column of CSV: numbers or truth values where all are, else texts."""
    for read in (int, float, {"True": True, "False": False}.__getitem__):
        try:
            return [read(text) if text else None for text in texts]
        except (ValueError, KeyError):
            continue
    return [text or None for text in texts]


def _scale(unit: str) -> float:
    return _SCALED.get(unit, ("", 1))[1]


def _kind(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "yes and no"
    if isinstance(cell, int | float):
        return "numbers"
    if isinstance(cell, str):
        return "texts"
    raise ValueError(f"a cell of a table is a text, a number or a bool, not {cell!r}")
