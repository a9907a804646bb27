# SPDX-License-Identifier: Apache-2.0
"""Python files that register algorithms, endpoints or engines before descriptions are read.

They are named by ``--load``, or by ``load`` at the top of a description, as in ``system.toml`` of a
saved run.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from sim.collectives import plan
from sim.collectives.algorithm import Algorithm
from sim.describe.reader import ConfigError, TomlReader
from sim.opened import content_of, opening

__all__ = ["LOAD", "have_loaded", "load_files", "load_stated"]

LOAD = "load"
"""Key of a description: a list of files, relative to its folder."""

_before: list[str] = []
"""Contents of the files that this process has run, in order."""
_after: dict[str, Algorithm] = {}
"""Algorithms that there were after the last of them."""


def load_files(paths: Iterable[Path]) -> None:
    """Run each file once, as a module of its name; what it prints goes to standard error.

    Raises
    ------
    ConfigError
        A file cannot be read, fails, or ends the program; in one line, with the file and the line.
    """
    import runpy

    global _after
    for path in {path.resolve(): path for path in paths}.values():
        if not path.is_file():
            raise ConfigError(f"{path}: cannot be read: no such file; --load takes Python files")
        _before.append(content_of(path))
        try:
            with redirect_stdout(sys.stderr):
                runpy.run_path(str(path), run_name=path.stem)
        except SyntaxError as error:
            raise ConfigError(f"{error.filename}:{error.lineno}: {error.msg}") from error
        except SystemExit as error:
            what = f"sys.exit({error.code!r}): must not end the command that loads it"
            raise ConfigError(f"{_place(path, error)}: {what}") from error
        except Exception as error:
            what = f"{type(error).__name__}: {error}"
            raise ConfigError(f"{_place(path, error)}: {what}") from error
    _after = dict(plan.ALGORITHMS)


def _place(path: Path, error: BaseException) -> str:
    import traceback

    lines = [
        each.lineno for each in traceback.extract_tb(error.__traceback__)
        if Path(each.filename) == path
    ]
    return f"{path}:{lines[-1]}" if lines else str(path)


def have_loaded(paths: Iterable[str | Path]) -> None:
    """Load these files, unless this process has loaded them last, and registered no algorithm
    since; all are noted as opened."""
    files = list({path.resolve(): path for path in map(opening, paths)}.values())
    contents = [content_of(path) for path in files]
    if files and (_before[-len(files) :] != contents or plan.ALGORITHMS != _after):
        load_files(files)


def load_stated(document: Mapping[str, Any], reader: TomlReader, folder: Path) -> None:
    """Load the files that a description names.

    Raises
    ------
    ConfigError
        As `load_files`, or the key is no list of texts.
    """
    stated = document.get(LOAD, ())
    listed = isinstance(stated, Sequence) and not isinstance(stated, str)
    if not listed or not all(isinstance(each, str) for each in stated):
        what = f"must be a list of Python files, as {LOAD} = [\"own.py\"], not {stated!r}"
        raise reader.error(LOAD, "", what)
    have_loaded(folder / each for each in stated)
