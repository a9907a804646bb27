# SPDX-License-Identifier: Apache-2.0
"""The licence's identifier (SPDX) at the head of every source file: who lacks it, and adding it."""

import re
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.rooms import PRODUCT

__all__ = ["add", "lacking", "licence_of"]

FOLDERS = (*PRODUCT, "tests", "examples")
THEIRS = ("sim/workload/data",)
"""Folders of other people's files, which keep their own licences."""
_PYTHON, _C, _CPP = ("# ", ""), ("/* ", " */"), ("// ", "")
COMMENTS = {
    ".py": _PYTHON, ".pyi": _PYTHON, ".c": _C, ".h": _C, ".css": _C, ".cc": _CPP, ".cpp": _CPP,
    ".hpp": _CPP, ".js": _CPP, ".j2": ("{# ", " #}"),
}
"""Ending of a source file -> how a comment on one line begins and ends there."""
_TAG = "SPDX-License-Identifier:"
_FIRST = re.compile(r"#!|# amaranth:|#.*coding[:=]")
"""Lines that are read by others only where they stand first."""


def licence_of(root: Path) -> str:
    """The SPDX expression of the project at *root*."""
    text = (root / "pyproject.toml").read_text(encoding="utf-8")
    return str(tomllib.loads(text)["project"]["license"])


def lacking(root: Path) -> list[str]:
    """Source files that do not begin with the identifier, and the licence that they have."""
    wanted = licence_of(root)
    found = []
    for path in _sources(root):
        said = _said(path.read_text(encoding="utf-8"))
        if said != wanted:
            found.append(f"{_name(root, path)}: {said or 'no identifier'}")
    return found


def add(root: Path) -> list[str]:
    """Write the identifier into files that have none; return their paths.

    A file that has another licence is left alone.
    """
    changed = []
    for path in _sources(root):
        text = path.read_bytes().decode()  # line ends stay as they are
        if _said(text) is None:
            path.write_bytes(_headed(text, path.suffix, licence_of(root)).encode())
            changed.append(_name(root, path))
    return changed


def _sources(root: Path) -> Iterator[Path]:
    """Files that are the project's own."""
    inside = (path for folder in FOLDERS for path in sorted((root / folder).rglob("*")))
    for path in (*sorted(root.glob("*.py")), *inside):
        theirs = any(path.is_relative_to(root / each) for each in THEIRS)
        if path.suffix in COMMENTS and path.is_file() and not theirs:
            yield path


def _name(root: Path, path: Path) -> str:
    return path.relative_to(root).as_posix()


def _place(lines: Sequence[str]) -> int:
    """Number of the line at which the identifier stands."""
    return next((n for n, line in enumerate(lines) if not _FIRST.match(line)), len(lines))


def _said(text: str) -> str | None:
    """The licence that a file says it has."""
    lines = text.splitlines()
    place = _place(lines)
    _, tag, rest = (lines[place] if place < len(lines) else "").partition(_TAG)
    return rest.strip().removesuffix("*/").removesuffix("#}").strip() if tag else None


def _headed(text: str, ending: str, licence: str) -> str:
    lines = text.splitlines(keepends=True)
    end = "\r\n" if lines and lines[0].endswith("\r\n") else "\n"
    before, after = COMMENTS[ending]
    place = _place(lines)
    first = "".join(lines[:place])
    if first and not first.endswith("\n"):
        first += end
    return f"{first}{before}{_TAG} {licence}{after}{end}{''.join(lines[place:])}"
