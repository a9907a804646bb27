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
TYPES = (
    "float", "half", "bfloat16", "double", "int8", "uint8", "int32", "uint32", "int64", "uint64",
    "fp8_e4m3", "fp8_e5m2",
)
AGREES = 0.02
"""By how much the time of a row may differ from size over algbw, beside what rounding does."""


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

    A row begins with size and count. The time, in microseconds, follows type, operation and, in
    newer tables, root, and then algbw, in GB/s: size over time, by which a column that is taken for
    the time is checked.

    Raises
    ------
    ValueError
        There are no such rows, one has no time, or its time is not that of its algbw.
    """
    rows = []
    text = path.read_text(encoding="utf-8", errors="replace")  # rows are ASCII, notes may be not
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
        if size and time_us > 0:
            rows.append(Measured(size, time_us * 1e-6))
    if len(rows) < 3:
        what = "must hold at least three rows of size, count and time, as nccl-tests prints them"
        raise ValueError(f"{path}: {what}, not {len(rows)}")
    return rows


def _last(word: str) -> float:
    """The value of the last digit of a number as it is written."""
    mantissa, _, exponent = word.lower().partition("e")
    digits = len(mantissa.partition(".")[2])
    return float(10.0 ** (int(exponent or 0) - digits))


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
