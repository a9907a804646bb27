"""Keep the lines of the text within their width."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator

__all__ = ["WIDTH", "enclosed", "fits", "guarded", "packed", "row", "short_ones", "wrapped"]

WIDTH = 100
"""Characters of a line."""


def fits(line: str) -> bool:
    """Return True if *line* is short enough, even with two digits for each one-digit index."""
    return max(len(line), len(re.sub(r"\[\d\]", "[00]", line))) <= WIDTH


def guarded(code: str) -> str:
    """*code* with parentheses around a cast behind a unary operator: Yosys takes ``~4'(x)`` for a
    cast to ``~4`` bits. Operators of two operands have a space behind them.
    """
    return re.sub(r"([~|&^!-])(\d+'\([^()]*\))", r"\1(\2)", code)


def packed(start: str, words: list[str], end: str) -> list[str]:
    """Words with commas between them, as many on a line as fit."""
    indent = " " * (len(start) - len(start.lstrip()))
    lines, line = [], start
    for index, word in enumerate(words):
        word += "," if index < len(words) - 1 else end
        if line.strip() and len(line) + len(word) + 1 > WIDTH and line != start:
            lines.append(line.rstrip())
            line = f"{indent}    "
        line += word if line.endswith((" ", "{")) else f" {word}"
    return [*lines, line.rstrip()]


_BETWEEN = "\v"  # separates words of a line that is packed once their lengths are known


def short_ones(lines: list[str]) -> list[str]:
    """Simple assignments side by side, as many on a line as fit."""
    made: list[str] = []
    for line in lines:
        text = line.strip()
        simple = text.endswith(";") and not text.startswith(("for ", "if ", "//"))
        before = made[-1] if made else ""
        alike = before.endswith(";") and not before.lstrip().startswith(("for ", "if ", "//"))
        if simple and alike and len(before) + len(text) < WIDTH and (
            len(before) - len(before.lstrip()) == len(line) - len(text)
        ):
            made[-1] = f"{before} {text}"
        else:
            made.append(line)
    return made


def enclosed(head: str, lines: list[str]) -> list[str]:
    """*head* with simple statements: on one line if they fit, else in ``begin`` and ``end``."""
    inside = short_ones(lines)
    if len(inside) == 1:
        text = inside[0].strip()
        single = text.count(";") == 1 or text.startswith("for ")
        whole = f"{head} {text}" if single else f"{head} begin {text} end"
        if len(whole) <= WIDTH:
            return [whole]
    indent = " " * (len(head) - len(head.lstrip()))
    return [f"{head} begin", *inside, f"{indent}end"]


def row(start: str, words: list[str], end: str) -> str:
    """A line that `wrapped` turns into `packed` lines."""
    return _BETWEEN.join([start, *words, end])


def wrapped(lines: Iterable[str]) -> Iterator[str]:
    """*lines* with those wrapped that are too long."""
    for line in lines:
        if _BETWEEN in line:
            start, *words, end = line.split(_BETWEEN)
            yield from wrapped(packed(start, words, end))
            continue
        if len(line) <= WIDTH:
            yield line
            continue
        indent = " " * (len(line) - len(line.lstrip()))
        if line.lstrip().startswith("//"):
            text = line.lstrip()[2:]
            inner = " " * (len(text) - len(text.lstrip()))
            yield from textwrap.wrap(
                text.strip(), WIDTH, initial_indent=f"{indent}//{inner}",
                subsequent_indent=f"{indent}//{inner}", break_long_words=False,
            )
            continue
        code, mark, note = line.partition("  // ")
        if mark:
            yield f"{indent}// {note}"
        if len(code) <= WIDTH:
            yield code
            continue
        yield from textwrap.wrap(
            code.strip(), WIDTH, initial_indent=indent, subsequent_indent=f"{indent}    ",
            break_long_words=False, break_on_hyphens=False,
        )
