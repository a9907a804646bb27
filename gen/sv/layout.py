# SPDX-License-Identifier: Apache-2.0
"""Print statements, with the lines of the text within their width."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence

from gen.sv.tree import (
    Assignment,
    Code,
    Comment,
    Form,
    Line,
    Nested,
    Number,
    Packed,
    Part,
    Stmt,
    rows,
)

__all__ = ["WIDTH", "enclosed", "fits", "packed", "printed"]

WIDTH = 100
"""Characters of a line."""


def fits(code: Code, indent: int) -> bool:
    """Return True if *code* is short enough, even with two digits for each one-digit index."""
    short = sum(
        isinstance(part, Number) and part.form is Form.BIT and not part.terms and part.value < 10
        for part in code.leaves
    )
    return indent + len(str(code)) + short <= WIDTH


def packed(start: Part, words: Sequence[Part], end: str, indent: int) -> list[Line]:
    """Words with commas between them, as many on a line as fit."""
    made: list[Line] = []
    line: list[Part] = [start]
    begin = size = len(str(start))
    for number, word in enumerate(words):
        behind = "," if number < len(words) - 1 else end
        long = len(str(word)) + len(behind)
        if size > begin and indent + size + long + 1 > WIDTH:
            made.append(Line(Code(*line), inset=4 * bool(made)))
            line, begin, size = [], 4, 4
        gap = " " if size > begin else ""
        line += [gap, word, behind]
        size += len(gap) + long
    return [*made, Line(Code(*line), inset=4 * bool(made))]


def _side_by_side(stmts: Iterable[Stmt], indent: int) -> list[Stmt]:
    """Assignments side by side, as many on a line as fit."""
    made: list[Stmt] = []
    row: list[Part] = []  # those of the line that is being filled
    for stmt in stmts:
        if isinstance(stmt, Nested):
            sections = tuple(
                (head, tuple(_side_by_side(body, indent + stmt.step)))
                for head, body in stmt.sections
            )
            stmt = Nested(sections, stmt.end, stmt.step)
        if not (isinstance(stmt, Line) and isinstance(stmt.code, Assignment) and not stmt.note):
            row = []
        elif row and indent + len(str(Code(*row))) + len(str(stmt.code)) < WIDTH:
            row += [" ", stmt.code]
            made[-1] = Line(Code(*row))
            continue
        else:
            row = [stmt.code]
        made.append(stmt)
    return made


def enclosed(head: Code, stmts: Iterable[Stmt], indent: int) -> Stmt:
    """*head* with simple statements: on one line if they fit, else in ``begin`` and ``end``."""
    inside = _side_by_side(stmts, indent + 2)
    if len(inside) == 1 and isinstance(inside[0], Line) and not inside[0].note:
        code = inside[0].code
        several = all(isinstance(part, Assignment) for part in code.parts[::2])
        whole = Code(head, " begin ", code, " end") if several else Code(head, " ", code)
        if indent + len(str(whole)) <= WIDTH:
            return Line(whole)
    return Nested(((Line(Code(head, " begin")), tuple(inside)),))


def printed(stmts: Iterable[Stmt], indent: int = 0) -> Iterator[str]:
    """The lines of *stmts*, with those wrapped that are too long."""
    for at, row in rows(stmts, indent):
        yield from _comment(row.text, at) if isinstance(row, Comment) else _line(row, at)


def _comment(text: str, indent: int) -> Iterator[str]:
    before = " " * indent + "//"
    if len(before) + len(text) <= WIDTH:
        yield before + text
        return
    before += " " * (len(text) - len(text.lstrip()))
    yield from textwrap.wrap(
        text.strip(), WIDTH, initial_indent=before, subsequent_indent=before,
        break_long_words=False,
    )


def _line(line: Line, indent: int) -> Iterator[str]:
    if isinstance(line.code, Packed):
        start, *words, end = line.code.parts
        for each in packed(start, words, str(end), indent):
            yield from _line(each, indent)
        return
    indent += line.inset
    code = " " * indent + str(line.code) if line.code.leaves else ""
    note = f"  // {line.note}" if line.note else ""
    if len(code) + len(note) <= WIDTH:
        yield code + note
        return
    if note:
        yield " " * indent + note.strip()
    if len(code) <= WIDTH:
        yield code
        return
    yield from textwrap.wrap(
        code.strip(), WIDTH, initial_indent=" " * indent,
        subsequent_indent=" " * (indent + 4), break_long_words=False, break_on_hyphens=False,
    )
