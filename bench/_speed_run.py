# SPDX-License-Identifier: Apache-2.0
"""One run of ``sim_speed`` in a process of its own: ``python -m bench._speed_run CASE FOLD``."""

import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from foldwire.process import settle

if TYPE_CHECKING:
    from sim.events.record import RunRecord

__all__ = ["CASES", "main"]

CASES: dict[str, "Callable[[str], RunRecord]"] = {}
"""Runs by name; the times of reference simulators are in ``astra_sim_speed.json``."""


def _fill() -> None:
    for workload in ("resnet50", "dlrm", "transformer"):
        for shape in ((4, 4), (4, 4, 4), (8, 8, 8), (8, 8, 16)):
            CASES[f"{workload} {'x'.join(map(str, shape))}"] = partial(
                _training, workload, shape
            )
    reduces: list[tuple[str, tuple[int, ...], int, int]] = [
        ("ring", (8,), 4, 1),
        ("ring", (4, 4), 4, 1),
        ("ring", (4, 4, 4), 4, 1),
        ("ring", (8, 8, 8), 4, 1),
        ("ring", (8, 8, 16), 4, 1),
        ("ring", (64,), 4, 1),
        ("ring", (512,), 4, 1),
        ("ring", (1024,), 4, 1),
        ("switch", (512,), 4, 1),
        ("switch", (1024,), 4, 1),
        ("ring", (8, 8, 8), 64, 8),
        ("ring", (8, 8, 8), 64, 64),
    ]
    for kind, torus, splits, active in reduces:
        name = f"all-reduce {kind} {'x'.join(map(str, torus))} {splits}/{active}"
        CASES[name] = partial(_reduce, kind, torus, splits, active)


def main(argv: list[str]) -> None:
    """Run a case as the command `foldwire` does; print messages and simulated nanoseconds."""
    settle()
    case, fold = argv
    record = CASES[case](fold)
    print(int(record.phases.messages.sum()), round(record.end_fs / 1e6))


def _training(workload: str, shape: tuple[int, ...], fold: str) -> "RunRecord":
    from bench._reference import record_of, release_1

    return record_of(release_1(shape, {"shipped": workload}), fold=fold, passes=2)


def _reduce(
    kind: str, shape: tuple[int, ...], splits: int, active: int, fold: str
) -> "RunRecord":
    from bench._reference import all_reduce, record_of, release_2
    from sim.units import MIB

    work = all_reduce(64 * MIB)
    return record_of(release_2(shape, work, splits=splits, active=active, kind=kind), fold=fold)


_fill()

if __name__ == "__main__":
    main(sys.argv[1:])
