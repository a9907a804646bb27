# SPDX-License-Identifier: Apache-2.0
"""``--load FILE``: Python that registers algorithms, endpoints or engines before a run."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

__all__ = ["LOAD", "loaded"]

LOADED = f"{__name__}.loaded"
"""Key of the context of a command."""


def _load(ctx: click.Context, parameter: click.Parameter, given: Any) -> Any:
    if given:
        from sim.describe.loaded import load_files  # loads numpy, which help can do without

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
