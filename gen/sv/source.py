# SPDX-License-Identifier: Apache-2.0
"""Facts that only the Python source has: names of expressions, comments, docstrings, places."""

from __future__ import annotations

import ast
import functools
import inspect
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gen.sv.ir import Location

__all__ = [
    "Doc", "comment_above", "doc_of", "function_of", "layout_name", "member_layouts", "name_of",
    "relative", "where",
]


@functools.cache
def relative(path: str) -> str | None:
    """*path* from the folder that holds its outermost package; None if it is no file."""
    file = Path(path)
    if not file.is_file():
        return None
    root = file.parent
    while (root / "__init__.py").is_file():
        root = root.parent
    return file.relative_to(root).as_posix()


def where(loc: Location | None) -> str:
    """``file:line``; empty if the place is unknown or within Amaranth."""
    path = relative(loc[0]) if loc else None
    return f"{path}:{loc[1]}" if loc and path and not path.startswith("amaranth/") else ""


@functools.cache
def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []


@dataclass
class _Names:
    variable: dict[int, str] = field(default_factory=dict)
    function: dict[int, str] = field(default_factory=dict)
    layout: dict[int, str] = field(default_factory=dict)


_LAYOUT = re.compile(r"^(\w+?)_layout$")


def _layout_call(node: ast.AST) -> str | None:
    """``event`` of ``event_layout(config)``, wherever it stands in *node*."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Call):
            callee = inner.func
            name = callee.id if isinstance(callee, ast.Name) else getattr(callee, "attr", "")
            if match := _LAYOUT.match(name):
                return match[1].strip("_")
    return None


@functools.cache
def _names(path: str) -> _Names:
    names = _Names()
    try:
        tree = ast.parse("\n".join(_lines(path)))
    except SyntaxError:
        return names
    for node in ast.walk(tree):  # outer nodes first, so that the innermost has the last word
        if isinstance(node, ast.FunctionDef) and node.name != "elaborate":
            for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                names.function[line] = node.name.strip("_")
        target: ast.AST | None = None
        if isinstance(node, ast.Assign):
            target = node.targets[-1]
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr):
            target = node.target
        if isinstance(target, ast.Name) and isinstance(node, ast.stmt | ast.NamedExpr):
            for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                names.variable[line] = target.id.strip("_")
        if isinstance(node, ast.Assign | ast.AnnAssign) and (layout := _layout_call(node)):
            names.layout[node.lineno] = layout
    return names


def name_of(loc: Location | None) -> str | None:
    """The variable that the statement at *loc* assigns, or the function that it is in."""
    if not loc:
        return None
    names = _names(loc[0])
    return names.variable.get(loc[1]) or names.function.get(loc[1])


def function_of(loc: Location | None) -> str | None:
    """The function that the statement at *loc* is in."""
    return _names(loc[0]).function.get(loc[1]) if loc else None


def layout_name(loc: Location | None) -> str | None:
    """``event`` if the signal made at *loc* has the shape ``event_layout(...)``."""
    return _names(loc[0]).layout.get(loc[1]) if loc else None


def member_layouts(origin: object) -> dict[str, str]:
    """Members of a component -> name of the layout function that its class calls for them."""
    kind: Any = type(origin)
    return _member_layouts(kind)


@functools.cache
def _member_layouts(kind: Any) -> dict[str, str]:
    found: dict[str, str] = {}
    try:
        tree = ast.parse("\n".join(_lines(inspect.getsourcefile(kind) or "")))
    except (TypeError, SyntaxError):
        return found
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name == kind.__name__:
            for inner in ast.walk(node):
                if isinstance(inner, ast.Dict):
                    for key, value in zip(inner.keys, inner.values, strict=True):
                        layout = _layout_call(value)
                        if isinstance(key, ast.Constant) and layout:
                            found[str(key.value)] = layout
    return found


def comment_above(loc: Location | None) -> tuple[str, ...]:
    """The comment that stands right above the statement at *loc*."""
    if not loc or relative(loc[0]) is None:
        return ()
    lines, number = _lines(loc[0]), loc[1] - 2
    found: list[str] = []
    while 0 <= number < len(lines):
        text = lines[number].strip()
        if text.startswith("#"):
            found.insert(0, text.lstrip("# "))
        elif found or not re.fullmatch(r"m\.d\.\w+ \+= \[|m\.d\.\w+ \+= \(", text):
            break
        number -= 1
    # Pragmas for checkers of Python are left out.
    return tuple(text for text in found if not re.match(r"(noqa|type:|pragma|fmt:)", text))


@dataclass(frozen=True)
class Doc:
    """The docstring of a class: `text` up to its first section, descriptions of `members`."""

    kind: str
    path: str | None
    text: tuple[str, ...]
    members: dict[str, str]


_RST_ROLE = re.compile(r":\w+:`~?([^`]+)`")


def _plain(line: str) -> str:
    """*line* without markup of reStructuredText that a reader of Verilog does not need."""
    return _RST_ROLE.sub(r"\1", line).replace("``", "").rstrip()


def doc_of(origin: object) -> Doc:
    """The docstring of the class of *origin*; of its module if the class has none."""
    kind = type(origin)
    text: list[str] = []
    members: dict[str, str] = {}
    section, name = "", ""
    lines = (inspect.getdoc(kind) or "").splitlines() if kind.__doc__ else []
    for number, line in enumerate(lines):
        below = lines[number + 1] if number + 1 < len(lines) else ""
        if re.fullmatch(r"-{3,}", below.strip()) and len(below.strip()) == len(line.strip()):
            section = line.strip()
        elif re.fullmatch(r"-{3,}", line.strip()) and section:
            continue
        elif not section:
            text.append(_plain(line))
        elif section == "Members":
            if head := re.match(r"^(\S.*?) : ", line):
                name = head[1]
                for each in re.split(r", *", name):
                    members[each] = ""
            elif line.startswith("    ") and name:
                for each in re.split(r", *", name):
                    members[each] = f"{members[each]} {_plain(line.strip())}".strip()
    while text and not text[-1]:
        text.pop()
    try:
        path = relative(inspect.getsourcefile(kind) or "")
    except TypeError:
        path = None
    if not text and kind.__module__ in sys.modules and kind.__doc__ is None:
        # A small part without a text of its own: its module says what it belongs to.
        first = (sys.modules[kind.__module__].__doc__ or "").strip().splitlines()
        text = [_plain(first[0])] if first else []
    return Doc(kind.__name__, path, tuple(text), members)
