# SPDX-License-Identifier: Apache-2.0
"""Python files that register algorithms, endpoints or engines before descriptions are read."""

import runpy
import traceback
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from sim.describe.reader import ConfigError
from sim.opened import opening

__all__ = ["have_loaded", "load_files"]


def load_files(paths: Iterable[Path]) -> None:
    """Run each file once, as a module of its name.

    Raises
    ------
    ConfigError
        A file cannot be read, or fails; in one line, with the file and the line.
    """
    for path in paths:
        if not path.is_file():
            raise ConfigError(f"{path}: cannot be read: no such file; --load takes Python files")
        try:
            runpy.run_path(str(path), run_name=path.stem)
        except SyntaxError as error:
            raise ConfigError(f"{error.filename}:{error.lineno}: {error.msg}") from error
        except Exception as error:
            lines = [
                each.lineno for each in traceback.extract_tb(error.__traceback__)
                if Path(each.filename) == path
            ]
            where = f"{path}:{lines[-1]}" if lines else str(path)
            raise ConfigError(f"{where}: {type(error).__name__}: {error}") from error


def have_loaded(paths: Iterable[str]) -> None:
    """Load those files that this process has not loaded so; all are noted as opened."""
    for path in paths:
        _once(opening(path))


@cache
def _once(path: Path) -> None:
    load_files([path])
