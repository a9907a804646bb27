"""Lines that are not too long."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

__all__ = ["WIDTH", "packed", "wrapped"]

WIDTH = 100
"""Characters of a line."""


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


def wrapped(lines: Iterable[str]) -> Iterator[str]:
    """*lines* without any that is too long."""
    for line in lines:
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
