# SPDX-License-Identifier: Apache-2.0
"""Tables of texts on a screen, or as plain text; nothing is cut.

What is wider than the screen is stacked: a single row as a list, several rows in parts that repeat
the leading columns of text.
"""

import io
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console, JustifyMethod
from rich.table import Table as RichTable
from rich.text import Text

__all__ = ["Sheet", "print_sheet", "sheet_text", "width_of"]

GAP = 2  # blanks between columns
LEAST = 20  # characters of a screen


def width_of(otherwise: int) -> int:
    """Characters of a line: those in ``COLUMNS``, of the terminal, or else *otherwise*."""
    found = shutil.get_terminal_size((otherwise, 24)).columns
    return found if found >= LEAST else otherwise


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """Texts of a table; columns that are ``right`` hold numbers. ``more`` says what is left out.

    ``listed``: a single row is a list even where it has room.
    """

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    right: Sequence[bool]
    more: str = ""
    note: str = ""
    listed: bool = False


def print_sheet(sheet: Sheet, console: Console) -> None:
    """Print title, rows and note."""
    widths, room = _widths(sheet), console.width
    keys = next((index for index, right in enumerate(sheet.right) if right), len(widths)) or 1
    while keys > 1 and sum(least + GAP for least, _ in widths[:keys]) > room / 2:
        keys -= 1
    parts = _parts(widths, room, keys)
    if (sheet.listed or len(parts) > 1) and len(sheet.rows) == 1:
        _print_list(sheet, console)
    else:
        for number, part in enumerate(parts):
            _print_part(sheet, part, console, title=sheet.title if number == 0 else None)
    if sheet.more:
        console.print(sheet.more, markup=False, soft_wrap=True)
    if sheet.note:
        console.print(Text(sheet.note, style="dim"))


def sheet_text(sheet: Sheet) -> str:
    """The same as plain text."""
    file = io.StringIO()
    width = width_of(100)
    print_sheet(sheet, Console(file=file, width=width, color_system=None, highlight=False))
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines())


def _widths(sheet: Sheet) -> list[tuple[int, int]]:
    """Least width of each column, with a wrapped heading, and its width without wrapping."""
    cells = [
        max((len(row[index]) for row in sheet.rows), default=0)
        for index in range(len(sheet.headings))
    ]
    return [
        (max(cell, *(len(word) for word in heading.split())), max(cell, len(heading)))
        for cell, heading in zip(cells, sheet.headings)
    ]


def _parts(widths: Sequence[tuple[int, int]], room: int, keys: int) -> list[dict[int, int]]:
    """Split columns into parts that fit into *room* characters, each with the first *keys* columns.

    Returns the width of each column of each part. A column is narrower than its least width only if
    that does not fit beside the first ones.
    """
    first = {index: min(least, room) for index, (least, _) in enumerate(widths[:keys])}
    parts = [dict(first)]
    for index, (least, _) in enumerate(widths[keys:], keys):
        taken = sum(width + GAP for width in parts[-1].values())
        if len(parts[-1]) > keys and taken + least > room:
            parts.append(dict(first))
            taken = sum(width + GAP for width in first.values())
        parts[-1][index] = max(1, min(least, room - taken))
    for part in parts:
        left = room - sum(part.values()) - GAP * (len(part) - 1)
        for index in part:
            more = min(max(0, widths[index][1] - part[index]), max(0, left))
            part[index] += more
            left -= more
    return parts


def _print_part(
    sheet: Sheet, part: Mapping[int, int], console: Console, *, title: str | None
) -> None:
    view = _view(title)
    for index, width in part.items():
        justify: JustifyMethod = "right" if sheet.right[index] else "left"
        heading = Text(sheet.headings[index])
        view.add_column(
            heading, justify=justify, header_style="dim", width=width, overflow="fold"
        )
    for row in sheet.rows:
        view.add_row(*(Text(row[index]) for index in part))
    console.print(view)


def _print_list(sheet: Sheet, console: Console) -> None:
    """A table of one row, a line per column."""
    view = _view(sheet.title)
    view.show_header = False
    for heading, text in zip(sheet.headings, sheet.rows[0]):
        view.add_row(Text(heading, style="dim"), Text(text, justify="right"))
    console.print(view)


def _view(title: str | None) -> RichTable:
    view = RichTable(title=title or None, title_justify="left", title_style="bold", box=None)
    view.pad_edge = False
    return view
