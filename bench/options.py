# SPDX-License-Identifier: Apache-2.0
"""Options that several benchmarks have."""

import argparse
import math
from collections.abc import Callable

__all__ = ["add_campaign", "bench_parser", "duration", "whole"]


def whole(least: int = 1) -> Callable[[str], int]:
    """The type of an option: an integer of at least *least*."""

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise argparse.ArgumentTypeError(
                f"must be an integer of at least {least}, not {text!r}"
            )
        return value

    return read


def duration(text: str) -> float:
    """The type of an option: minutes or seconds, none of them negative."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"must be a number of at least 0, not {text!r}")
    return value


def bench_parser(
    name: str,
    doc: str | None,
    *,
    seed: str | None = None,
    preset: tuple[str, str] | None = None,
    only: str | None = None,
) -> argparse.ArgumentParser:
    """The parser of ``python -m bench NAME``.

    Parameters
    ----------
    name, doc
        Name and docstring of the benchmark.
    seed
        Subject of ``--seed`` (1) in the help text; None for no such option.
    preset
        Subject of ``--preset`` in the help text, and its default; None for no such option.
    only
        Items that ``--only`` limits the number of; None for no such option.
    """
    made = argparse.ArgumentParser(prog=f"python -m bench {name}", description=doc)
    if preset is not None:
        whose, default = preset
        made.add_argument(
            "--preset", default=default, help=f"{whose} configuration (default: {default})"
        )
    if seed is not None:
        made.add_argument("--seed", type=int, default=1, help=f"of {seed} (default: 1)")
    if only is not None:
        made.add_argument("--only", type=int, help=f"run this many {only}, from the first on")
    return made


def add_campaign(parser: argparse.ArgumentParser, *, runs: int | None = None) -> None:
    """Options of a campaign that goes on where it was interrupted: ``--processes``, ``--fresh``
    and, with the number that is enough, ``--runs``."""
    if runs is not None:
        parser.add_argument("--runs", type=whole(), default=runs,
                            help=f"drawn; fewer are short ({runs})")
    parser.add_argument("--processes", type=whole(), default=2, help="at a time (default: 2)")
    parser.add_argument("--fresh", action="store_true", help="forget what was interrupted")
