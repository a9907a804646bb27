# SPDX-License-Identifier: Apache-2.0
"""Fits three constants of a machine, which data sheets leave out, to a measurement."""

import csv
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np

from sim.describe.machines import machine
from sim.endpoint.calibrated import Calibration
from sim.fields import FieldError
from sim.machines.measure import measure

__all__ = ["Fit", "Measured", "Model", "fit", "model_of", "read_table"]

HEADER = ["size_bytes", "time_us"]
LEAST_ROWS = 3
STEPS_S = (0.0, *(float(10.0**power) for power in np.arange(-8, -1.9, 0.5)))
"""Steps that are tried first, in seconds at full bandwidth."""
LOWEST = 2
"""Number of the lowest valleys between them that are searched."""
SECTIONS = 14
ROUNDS = 12
NOTHING = 1e-12
Model: TypeAlias = Callable[[float, float, float], np.ndarray]
"""Seconds of all rows by share, start and step."""
TYPES = (
    "float", "half", "bfloat16", "double", "int8", "uint8", "int32", "uint32", "int64", "uint64",
    "fp8_e4m3", "fp8_e5m2",
)
MOST_BYTES = 1 << 44
MOST_US = 1e9
AGREES = 0.02
"""Largest relative difference of a row's time from size over algbw, beyond that of rounding."""


@dataclass(frozen=True)
class Measured:
    """A row of a table: bytes as nccl-tests counts them, and seconds."""

    size_bytes: int
    time_s: float


@dataclass(frozen=True)
class Fit:
    """The constants, and relative errors of the simulated times, beside those of a straight line.

    Parameters
    ----------
    calibration : Calibration
    errors : array of float
        Simulated over measured time less 1, of every row.
    line_errors : array of float
        The same of the straight line over the size that is nearest by the same measure.
    line : pair of float
        Its seconds, and seconds per byte.
    """

    calibration: Calibration
    errors: np.ndarray
    line_errors: np.ndarray
    line: tuple[float, float]

    @property
    def worst_percent(self) -> float:
        return 100 * float(np.abs(self.errors).max())

    @property
    def squares(self) -> float:
        """The sum of the squares of the errors."""
        return float(self.errors @ self.errors)

    @property
    def line_squares(self) -> float:
        return float(self.line_errors @ self.line_errors)


def read_table(path: Path) -> list[Measured]:
    """The rows of a CSV table ``size_bytes,time_us``, of the output of nccl-tests, or of a table
    that ``foldwire machines`` printed.

    Lines that begin with ``#`` are comments. A row of nccl-tests begins with size and count. The
    time, in microseconds, follows type, operation and, in newer tables, root, and then algbw, in
    GB/s: size over time, by which a column that is taken for the time is checked.

    Raises
    ------
    ValueError
        There are no such rows, one has no time, or its time is not that of its algbw.
    """
    text = path.read_text(encoding="utf-8", errors="replace")  # rows are ASCII, notes may be not
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if lines and [word.strip() for word in lines[0].split(",")] == HEADER:
        rows = _read_csv(path, text)
    else:
        rows = _read_log(path, text)
    if len({row.size_bytes for row in rows}) < LEAST_ROWS:
        what = (
            f"must hold at least three sizes, below the header {','.join(HEADER)} or in rows of "
            "size, count and time as nccl-tests prints them"
        )
        raise ValueError(f"{path}: {what}, not {len({row.size_bytes for row in rows})}")
    return rows


def _read_csv(path: Path, text: str) -> list[Measured]:
    rows = []
    lines = [line if not line.startswith("#") else "" for line in text.splitlines()]
    table = [(number, row) for number, row in enumerate(csv.reader(lines), start=1) if row]
    for number, row in table[1:]:
        try:
            size, time_us = int(row[0]), float(row[1])
        except (IndexError, ValueError):
            what = f"must hold {' and '.join(HEADER)}, not {','.join(row)!r}"
            raise ValueError(f"{path}: line {number} {what}") from None
        for key, value, most in (("size_bytes", size, MOST_BYTES), ("time_us", time_us, MOST_US)):
            if len(row) != len(HEADER) or not 0 < value <= most:
                what = f"{key} must be above 0 and at most {most:.4g}, not {','.join(row)!r}"
                raise ValueError(f"{path}: line {number}: {what}")
        rows.append(Measured(size, time_us * 1e-6))
    return rows


def _read_log(path: Path, text: str) -> list[Measured]:
    rows = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        if len(words) < 4 or not (words[0].isdigit() and words[1].isdigit()):
            continue
        rest = words[2:]
        if rest[0] in TYPES:
            rest = rest[2:]  # type, operation
            if rest and rest[0].lstrip("-").isdigit():
                rest = rest[1:]  # root
        try:
            time_us, algbw = float(rest[0]), float(rest[1])
        except (IndexError, ValueError):
            what = f"must hold time and algbw after size and count, not {line.strip()!r}"
            raise ValueError(f"{path}: line {number} {what}") from None
        # Both are rounded as they are printed.
        rounded = 0.5 * (_last(rest[0]) * algbw + _last(rest[1]) * time_us) * 1e3
        size = int(words[0])
        if abs(time_us * algbw * 1e3 - size) > AGREES * size + rounded:
            what = f"size over time must be algbw, and is not in {line.strip()!r}"
            raise ValueError(f"{path}: line {number}: {what}")
        if 0 < size <= MOST_BYTES and 0 < time_us <= MOST_US:
            rows.append(Measured(size, time_us * 1e-6))
    return rows


def _last(word: str) -> float:
    """The value of the last digit of a number as it is written."""
    mantissa, _, exponent = word.lower().partition("e")
    digits = len(mantissa.partition(".")[2])
    return float(10.0 ** (int(exponent or 0) - digits))


def model_of(
    name: str,
    collective: str,
    algorithm: str,
    rows: Sequence[Measured],
    nodes: int | None = None,
) -> Model:
    """The simulated times of *rows* as a function of share, start and step.

    A start comes before everything else, so it is added to a run without one. Where no latency is
    stated nothing but links and steps takes time: with half of the bandwidth and twice the step
    everything takes twice as long. So a run at full bandwidth stands for all with its ratio; both
    are kept, as a search asks for many that have one.
    """
    plain = not machine(name, nodes).latency_is_stated
    kept: dict[tuple[float, float], np.ndarray] = {}

    def links(share: float, step: float) -> np.ndarray:
        if (share, step) not in kept:
            calibration = Calibration(share=share, start=0.0, step=step)
            kept[share, step] = np.array([
                measure(
                    name, collective, row.size_bytes, algorithm=algorithm, calibration=calibration,
                    nodes=nodes,
                ).time_s
                for row in rows
            ])
        return kept[share, step]

    def times(share: float, start: float, step: float) -> np.ndarray:
        if plain:
            return start + links(1.0, step * share) / share
        return start + links(share, step)

    return times


def fit(
    name: str,
    collective: str,
    algorithm: str,
    rows: Sequence[Measured],
    nodes: int | None = None,
) -> Fit:
    """The constants with which simulated times are nearest to those measured, by the least sum of
    squares of relative errors.

    With the step as a share of the time of links, times are linear in the start and in the
    inverse of the share (see `model_of`), and the best of both follows from two equations. There
    remains a search along one line for the step: over all sizes, then in the lowest valleys by
    golden section. Where latencies are stated that is an estimate, which Gauss and Newton's method
    with damped steps (Levenberg, 1944) follows; a step is taken if it is better.

    Raises
    ------
    ValueError
        As :func:`measure`; and if *algorithm* is ``auto``, whose times jump where it changes.
    """
    if algorithm == "auto":
        raise FieldError("algorithm", "must be named for a fit, as it was set when it was measured")
    goal = np.array([row.time_s for row in rows])
    sizes = np.array([float(row.size_bytes) for row in rows])
    times = model_of(name, collective, algorithm, rows, nodes)

    def errors(values: np.ndarray) -> np.ndarray:
        off: np.ndarray = times(*values.tolist()) / goal - 1
        return off

    def best_at(step: float) -> tuple[float, np.ndarray]:
        """The sum of squares with *step* at full bandwidth, and the constants."""
        start, slower = _nearest(times(1.0, 0.0, step), goal)
        values = np.array([1 / slower, start, step * slower])
        off = (start + slower * times(1.0, 0.0, step)) / goal - 1
        return float(off @ off), values

    # More than the slowest call takes no step.
    tried = [best_at(step) for step in STEPS_S if step < goal.max()]
    valleys = [
        number
        for number, (here, _) in enumerate(tried)
        if here <= min(each for each, _ in tried[max(0, number - 1) : number + 2])
    ]
    found = [tried[number] for number in valleys]
    for number in sorted(valleys, key=lambda each: tried[each][0])[:LOWEST]:
        low, high = max(0, number - 1), min(len(tried) - 1, number + 1)
        found.append(_golden(best_at, STEPS_S[low], STEPS_S[high]))
    values = min(found, key=lambda each: each[0])[1]
    if machine(name, nodes).latency_is_stated:
        values = _polished(errors, values)
    line = _line(sizes, goal)
    share, start, step = values.tolist()
    return Fit(
        calibration=Calibration(share=share, start=start, step=step),
        errors=errors(values),
        line_errors=(line[0] + line[1] * sizes) / goal - 1,
        line=line,
    )


def _nearest(links: np.ndarray, goal: np.ndarray) -> tuple[float, float]:
    """A start of at least 0, and a factor of at least 1 for *links*, whose sum is nearest to *goal*
    by relative errors."""
    ones, scaled = 1 / goal, links / goal

    def off(start: float, slower: float) -> float:
        error = start * ones + slower * scaled - 1
        return float(error @ error)

    both = np.linalg.lstsq(np.column_stack([ones, scaled]), np.ones(len(goal)), rcond=None)[0]
    # A sum of squares is convex: if its lowest point is outside, that of the region is on an edge.
    edges = [
        (0.0, max(1.0, float(scaled.sum() / (scaled @ scaled)))),
        (max(0.0, float(ones @ (1 - scaled) / (ones @ ones))), 1.0),
    ]
    inside = [(float(both[0]), float(both[1]))] if both[0] >= 0 and both[1] >= 1 else []
    return min(inside or edges, key=lambda pair: off(*pair))


def _golden(
    best_at: Callable[[float], tuple[float, np.ndarray]], low: float, high: float
) -> tuple[float, np.ndarray]:
    """The lowest point of a valley between two steps, in `SECTIONS` sections."""
    ratio = (math.sqrt(5) - 1) / 2
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    at_left, at_right = best_at(left), best_at(right)
    for _ in range(SECTIONS):
        if at_left[0] <= at_right[0]:
            high, right, at_right = right, left, at_left
            left = high - ratio * (high - low)
            at_left = best_at(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + ratio * (high - low)
            at_right = best_at(right)
    return min(at_left, at_right, key=lambda each: each[0])


def _polished(errors: Callable[[np.ndarray], np.ndarray], values: np.ndarray) -> np.ndarray:
    """*values*, moved as long as that makes the sum of squares smaller."""
    off = errors(values)
    damping = 1e-3
    for _ in range(ROUNDS):
        slopes = np.empty((len(off), 3))
        unit = np.array([values[0], max(values[1], 1e-7), max(values[2], 1e-8)])
        for column in range(3):
            change = np.zeros(3)
            change[column] = (-1e-3 if column == 0 else 1e-3) * unit[column]
            slopes[:, column] = (errors(values + change) - off) / change[column] * unit[column]
        normal = slopes.T @ slopes
        move = np.linalg.lstsq(
            normal + damping * np.diag(np.diag(normal)), -slopes.T @ off, rcond=None
        )[0]
        new = values + move * unit
        lowest = np.array([values[0] / 2, 0.0, 0.0])
        new = np.clip(new, lowest, [1.0, np.inf, STEPS_S[-1]])
        new_off = errors(new)
        if new_off @ new_off < (off @ off) * (1 - NOTHING):
            values, off, damping = new, new_off, damping / 4
        else:
            damping *= 8
            if damping > 1e6:
                break
    return values


def _line(sizes: np.ndarray, goal: np.ndarray) -> tuple[float, float]:
    """Seconds and seconds per byte of the straight line with the least relative errors."""
    weighted = np.column_stack([1 / goal, sizes / goal])
    scale = np.abs(weighted).max(axis=0)
    found = np.linalg.lstsq(weighted / scale, np.ones(len(goal)), rcond=None)[0] / scale
    return float(found[0]), float(found[1])
