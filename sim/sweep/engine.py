# SPDX-License-Identifier: Apache-2.0
"""Run a sweep: skip kept results, keep new ones, make the table."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from gen.table import Cell, Column, Table
from sim.fields import check
from sim.sweep.points import Point, Result, ResultFolder, make_points
from sim.sweep.spec import SweepSpec
from sim.sweep.workers import on_cluster, on_processes

__all__ = ["Progress", "SweepOutcome", "run_sweep"]

PAUSE_S = 0.2
"""Interval of checks for points that other commands have finished."""

Progress = Callable[[int, int, int], None]
"""Called with the points that are done, those of them that failed, and all points."""


@dataclass(frozen=True, kw_only=True)
class SweepOutcome:
    """A sweep that has run.

    Parameters
    ----------
    table : Table
        One row per point, in the order of the sweep: what was varied, the metrics, the error.
    reused : int
        Points whose result was already there.
    failed : int
        Points with an error.
    """

    table: Table
    points: tuple[Point, ...]
    results: tuple[Result, ...]
    reused: int
    failed: int


def run_sweep(
    spec: SweepSpec,
    folder: Path,
    *,
    runner: str,
    version: str,
    workers: int = 1,
    scheduler: str | None = None,
    retry: bool = False,
    load: Sequence[Path] = (),
    progress: Progress = lambda done, failed, total: None,
) -> SweepOutcome:
    """Run every point of *spec* whose result is not yet in *folder*.

    The results do not depend on where the points run, nor on how often the sweep was
    interrupted.

    Parameters
    ----------
    folder : Path
        Gets ``points/KEY.json`` as points finish. A sweep that is run again goes on from there.
        Several that run at once, on machines that share the folder, divide the points.
    runner : str
        ``module:function`` that takes a configuration and ``source`` and returns metrics.
    version : str
        Part of the keys: another version does not take over results.
    workers : int
        Processes of this machine.
    scheduler : str or None
        Address of a Dask scheduler that is used instead.
    retry : bool
        Run failed points again.
    load : sequence of Path
        Python files that every process runs before its first point.
    """
    check("workers", workers, "an integer of at least 1", type(workers) is int and workers > 0)
    address = scheduler is None or (isinstance(scheduler, str) and ":" in scheduler)
    check("scheduler", scheduler, "an address, as tcp://host:8786, or None", address)
    points = make_points(spec, runner=runner, version=version, load=load)
    with closing(ResultFolder(folder / "points")) as kept:
        results: dict[str, Result] = {}
        for point in points:
            if (result := _usable(kept, point, retry)) is not None:
                results[point.key] = result
        reused = sum(point.key in results for point in points)
        total = len({point.key for point in points})
        # Two points may be the same run, where a change has no effect on the description.
        left = list({point.key: point for point in points if point.key not in results}.values())
        failed = sum(result.error is not None for result in results.values())
        progress(len(results), failed, total)
        while left:
            turn = _Turn(kept, left, retry)
            finished = (
                on_processes(runner, turn.points(), min(workers, len(left)))
                if scheduler is None
                else on_cluster(runner, turn.points(), scheduler)
            )
            for point, result in chain(finished, turn.others()):
                results[point.key] = result
                failed += result.error is not None
                progress(len(results), failed, total)
                if point.key not in turn.found:
                    kept.put(point, result)
                    kept.release(point)
            left = turn.claimed
            if left:
                time.sleep(PAUSE_S)
    ordered = tuple(results[point.key] for point in points)
    return SweepOutcome(
        table=_table(spec, points, ordered),
        points=tuple(points),
        results=ordered,
        reused=reused,
        failed=sum(result.error is not None for result in ordered),
    )


def _usable(kept: ResultFolder, point: Point, retry: bool) -> Result | None:
    result = kept.get(point)
    return None if result is None or (retry and result.error is not None) else result


class _Turn:
    """One pass over the points that are left: runs unclaimed ones, takes results of the others.

    `claimed` are those that another command has begun and not finished: they are waited for, and
    run here should that command end.
    """

    def __init__(self, kept: ResultFolder, left: Sequence[Point], retry: bool) -> None:
        self._kept, self._left, self._retry = kept, left, retry
        self.found: dict[str, tuple[Point, Result]] = {}
        self.claimed: list[Point] = []

    def points(self) -> Iterator[Point]:
        """Points to run, each claimed just before."""
        for point in self._left:
            if not self._kept.claim(point):
                self.claimed.append(point)
            elif (result := _usable(self._kept, point, self._retry)) is not None:
                self._kept.release(point)
                self.found[point.key] = point, result
            else:
                yield point

    def others(self) -> Iterator[tuple[Point, Result]]:
        """Points that another command has run meanwhile."""
        yield from self.found.values()


def _table(spec: SweepSpec, points: Sequence[Point], results: Sequence[Result]) -> Table:
    names = list(dict.fromkeys(name for each in results for name in each.metrics or {}))
    failed = any(each.error is not None for each in results)
    columns = [*spec.keys, *names, *(["error"] if failed else [])]
    rows: list[list[Cell]] = [
        [
            *(_cell(point.changes[key]) for key in spec.keys),
            *((result.metrics or {}).get(name) for name in names),
            *([result.error] if failed else []),
        ]
        for point, result in zip(points, results)
    ]
    for index in range(len(columns)):
        kinds = {type(row[index]) for row in rows if row[index] is not None}
        if len(kinds) > 1 and not kinds <= {int, float}:
            for row in rows:
                row[index] = None if row[index] is None else str(row[index])
    fitted = [
        Column.fitting(name, [row[index] for row in rows]) for index, name in enumerate(columns)
    ]
    return Table("Sweep", fitted, list(rows))


def _cell(value: object) -> Cell:
    if isinstance(value, dict):
        return ", ".join(f"{key} = {each}" for key, each in value.items())
    return value if isinstance(value, str | int | float) else str(value)
