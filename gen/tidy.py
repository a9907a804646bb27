# SPDX-License-Identifier: Apache-2.0
"""Make RTLIL readable as Verilog: plain names, and no unread wires.

Amaranth names every field of every structure for the sake of waveforms, and Yosys does not clean
modules that still have processes, which are worth keeping: they print as `case` statements.
"""

from __future__ import annotations

import re

__all__ = ["drop_unused", "plain_name", "readable_names"]

_MODULE = re.compile(r"^module \\(\S+)$")
_MEMORY = re.compile(r"^  memory .* (\\\S+)$")
_CELL = re.compile(r"^  cell (\S+) (\S+)$")
_CONNECT = re.compile(r"^    connect (\\\S+)(.*)$")
_NAME = re.compile(r"(?<= )\\[^\s\"]+")
_WIRE = re.compile(r"^  wire width \d+ (?:signed )?(\S+)$")
_ALIAS = re.compile(r"^connect (\S+)((?: \[[^\]]*\])?) (.*)$")
_ANY_NAME = re.compile(r"(?<= )[\\$][^\s\"]+")
_PLAIN = re.compile(r"^\\[A-Za-z_]\w*$")


def _modules(text: str) -> list[list[str]]:
    blocks: list[list[str]] = [[]]
    for line in text.splitlines():
        blocks[-1].append(line)
        if line == "end":
            blocks.append([])
    return [block for block in blocks if any(line.strip() for line in block)]


def _names_of(line: str) -> list[str]:
    if line.lstrip().startswith(("attribute ", "parameter ", "module ")):
        return []
    if match := _CELL.match(line):
        return [match.group(2)]
    if match := _CONNECT.match(line):
        return _NAME.findall(match.group(2))
    return _NAME.findall(line)


def plain_name(name: str) -> str:
    """*name* as an identifier: ``a$1`` is ``a_1``."""
    return re.sub(r"\W+", "_", name).rstrip("_")


def readable_names(text: str) -> str:
    """Rename wires, ports and cells whose names are no plain identifiers; `a$1` becomes `a_1`.

    Memories keep their names, since parameters refer to them as strings.
    """
    blocks = _modules(text)
    maps: dict[str, dict[str, str]] = {}
    for block in blocks:
        names = dict.fromkeys(name for line in block for name in _names_of(line))
        memories = {match.group(1) for line in block if (match := _MEMORY.match(line))}
        taken = {name for name in names if _PLAIN.match(name)} | memories
        renamed: dict[str, str] = {}
        for name in names:
            if name in taken or not name.startswith("\\"):
                continue
            plain = f"\\{plain_name(name[1:])}"
            if not _PLAIN.match(plain):
                plain = "\\n_" + plain[1:]
            unique, number = plain, 0
            while unique in taken:
                number += 1
                unique = f"{plain}_{number}"
            taken.add(unique)
            renamed[name] = unique
        (module,) = (match.group(1) for line in block if (match := _MODULE.match(line)))
        maps["\\" + module] = renamed
    return "\n".join(
        line
        for block, own in zip(blocks, maps.values(), strict=True)
        for line in _rename(block, own, maps)
    )


def _rename(block: list[str], own: dict[str, str], maps: dict[str, dict[str, str]]) -> list[str]:
    lines = []
    of_child: dict[str, str] = {}

    def replace(match: re.Match[str]) -> str:
        return own.get(match.group(0), match.group(0))

    for line in block:
        if match := _CELL.match(line):
            of_child = maps.get(match.group(1), {})
            line = f"  cell {match.group(1)} {own.get(match.group(2), match.group(2))}"
        elif match := _CONNECT.match(line):
            port = match.group(1)
            line = f"    connect {of_child.get(port, port)}{_NAME.sub(replace, match.group(2))}"
        elif _names_of(line):
            line = _NAME.sub(replace, line)
        lines.append(line)
    return lines


def drop_unused(text: str) -> str:
    """Remove wires that are only ever assigned by connections, and those connections."""
    return "\n".join(line for block in _modules(text) for line in _live_lines(block))


def _live_lines(block: list[str]) -> list[str]:
    wires = {match.group(1) for line in block if (match := _WIRE.match(line))}
    feeds: dict[str, list[str]] = {}
    live: list[str] = []
    for line in block:
        alias = _ALIAS.match(line)
        if alias and alias.group(1) in wires:
            feeds.setdefault(alias.group(1), []).extend(_ANY_NAME.findall(" " + alias.group(3)))
        elif not _WIRE.match(line):
            live += _ANY_NAME.findall(line)
    used: set[str] = set()
    while live:
        name = live.pop()
        if name not in used:
            used.add(name)
            live += feeds.get(name, [])
    dead = wires - used
    lines: list[str] = []
    for line in block:
        wire, alias = _WIRE.match(line), _ALIAS.match(line)
        if wire and wire.group(1) in dead:
            while lines and lines[-1].startswith("  attribute "):
                lines.pop()
        elif not (alias and alias.group(1) in dead):
            lines.append(line)
    return lines
