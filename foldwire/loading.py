"""``--load FILE``: Python that registers algorithms, endpoints or engines before a run."""

import runpy
import traceback
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click

__all__ = ["LOAD", "load_files", "loaded"]

LOADED = f"{__name__}.loaded"
"""Key of the context of a command."""


def load_files(paths: Iterable[Path]) -> None:
    """Run each file once, as a module of its name.

    Raises
    ------
    ConfigError
        A file cannot be read, or fails; in one line, with the file and the line.
    """
    from sim.describe.reader import ConfigError  # loads numpy, which help can do without

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


def _load(ctx: click.Context, parameter: click.Parameter, given: Any) -> Any:
    load_files(given)
    ctx.meta[LOADED] = given
    return given


def loaded() -> Sequence[Path]:
    """Files that the command in progress was given to load."""
    context = click.get_current_context(silent=True)
    return () if context is None else tuple(context.meta.get(LOADED, ()))


LOAD = click.option(
    "--load",
    metavar="FILE",
    multiple=True,
    type=click.Path(path_type=Path),
    expose_value=False,
    callback=_load,
    help="Python that registers an algorithm, endpoint or engine first; may be repeated.",
)
