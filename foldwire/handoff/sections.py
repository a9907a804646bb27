# SPDX-License-Identifier: Apache-2.0
"""Sections of the programmer's manual, in Markdown."""

from collections.abc import Iterable

from hw.common.register_map import RegisterMap

__all__ = ["placed", "table", "writes_table"]


def table(title: str, heads: tuple[str, str], rows: Iterable[tuple[str, object]]) -> str:
    """A section with a table of two columns; names are code."""
    lines = [f"## {title}", "", f"| {heads[0]} | {heads[1]} |", "|---|---|"]
    return "\n".join([*lines, *(f"| `{name}` | {value} |" for name, value in rows)])


def placed(
    writes: list[tuple[str, int]], registers: RegisterMap
) -> list[tuple[int, str, int]]:
    """Offset, name and word of each write to a register by name."""
    return [(registers.offset(name), name, word) for name, word in writes]


def writes_table(writes: list[tuple[int, str, int]]) -> str:
    """A table of writes; of programs the first words."""
    lines = ["| offset | register | word |", "|---|---|---|"]
    shown = 0
    for offset, name, word in writes:
        if name.startswith("program_"):
            shown += 1
            if shown == 4:
                lines.append("| ... | and so on for all words of the programs, see below | |")
            if shown > 3:
                continue
        lines.append(f"| `{offset:#06x}` | `{name}` | `{word:#x}` |")
    return "\n".join(lines)
