"""Three constants from a measurement: what data sheets leave out of a machine."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sim.endpoint.calibrated import Calibration
from sim.machines.measure import measure

__all__ = ["Fit", "Measured", "fit", "read_table"]

ROUNDS = 8
LEAST_S = 1e-9
TYPES = ("float", "half", "bfloat16", "double", "int8", "uint8", "int32", "uint32", "int64")


@dataclass(frozen=True)
class Measured:
    """A row of a table of nccl-tests: bytes, and seconds out of place."""

    size_bytes: int
    time_s: float


@dataclass(frozen=True)
class Fit:
    """The constants, and how far the simulated times are from the measured ones at worst."""

    calibration: Calibration
    worst_percent: float


def read_table(path: Path) -> list[Measured]:
    """The rows of the output of nccl-tests, or of a table that ``foldwire machines`` printed.

    A row begins with size and count; the time, in microseconds, is the first number that is not
    whole after the columns of type, operation and root.

    Raises
    ------
    ValueError
        There are no such rows, or one has no time.
    """
    rows = []
    text = path.read_text(encoding="utf-8", errors="replace")  # rows are ASCII, notes may be not
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        if len(words) < 4 or not (words[0].isdigit() and words[1].isdigit()):
            continue
        rest = words[2:]
        if rest[0] in TYPES:
            rest = rest[3:]  # type, operation, root
        try:
            time_us = float(rest[0])
        except (IndexError, ValueError):
            what = f"must hold a time after size and count, not {line.strip()!r}"
            raise ValueError(f"{path}: line {number} {what}") from None
        if int(words[0]) and time_us > 0:
            rows.append(Measured(int(words[0]), time_us * 1e-6))
    if len(rows) < 3:
        what = "must hold at least three rows of size, count and time, as nccl-tests prints them"
        raise ValueError(f"{path}: {what}, not {len(rows)}")
    return rows


def fit(name: str, collective: str, algorithm: str, rows: Sequence[Measured]) -> Fit:
    """The constants with which simulated times are nearest to those measured, by least squares of
    relative errors (Gauss and Newton, derivatives by differences).

    Raises
    ------
    ValueError
        As :func:`measure`; and if *algorithm* is ``auto``, whose times jump where it changes.
    """
    if algorithm == "auto":
        raise ValueError("algorithm must be named for a fit, as it was set when it was measured")

    def times(values: np.ndarray) -> np.ndarray:
        share, start, step = values.tolist()
        calibration = Calibration(share=share, start=start, step=step)
        return np.array([
            measure(
                name, collective, row.size_bytes, algorithm=algorithm, calibration=calibration
            ).time_s
            for row in rows
        ])

    goal = np.array([row.time_s for row in rows])
    # Large vectors tell the share, small ones the latencies.
    ideal = times(np.array([1.0, 0.0, 0.0]))
    large, small = int(np.argmax(goal)), int(np.argmin(goal))
    share = float(np.clip(ideal[large] / goal[large], 0.01, 1.0))
    rest = max(LEAST_S, goal[small] - ideal[small] / share)
    values = np.array([share, rest / 2, rest / 20])
    best, worst = values, math.inf
    for _ in range(ROUNDS):
        here = times(values)
        off = here / goal - 1
        if float(np.abs(off).max()) < worst:
            best, worst = values, float(np.abs(off).max())
        slopes = np.empty((len(rows), 3))
        for column in range(3):
            nearby = values.copy()
            change = -1e-3 * values[0] if column == 0 else max(1e-3 * values[column], LEAST_S)
            nearby[column] += change
            slopes[:, column] = (times(nearby) / goal - 1 - off) / change
        scale = np.array([1.0, 1e-6, 1e-6])
        move = np.linalg.lstsq(slopes * scale, -off, rcond=None)[0] * scale
        new = np.clip(values + move, [0.01, 0.0, 0.0], [1.0, np.inf, np.inf])
        if np.abs((new - values) / scale).max() < 1e-6:
            break
        values = new
    calibration = Calibration(share=float(best[0]), start=float(best[1]), step=float(best[2]))
    return Fit(calibration, 100 * worst)
