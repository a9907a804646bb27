# SPDX-License-Identifier: Apache-2.0
"""Units of the simulator and their conversions.

Times are integers: femtoseconds in the event simulation, clock cycles in cycle models and RTL;
descriptions give seconds. Sizes are bytes; GB is 1e9 bytes, MiB and GiB are powers of two.
"""

import numpy as np
from numpy.typing import NDArray

from hw.common.params import FieldError

__all__ = [
    "FS_PER_S",
    "GB",
    "GIB",
    "MIB",
    "MOST_TIME_S",
    "PCIE_GEN3_X8",
    "beats_per_cycle",
    "cycles_to_fs",
    "fs_per_byte",
    "number_of",
    "seconds_to_cycles",
    "seconds_to_fs",
]

FS_PER_S = 10**15
MOST_TIME_S = 9000.0
"""Longest run: 64-bit femtoseconds end at 9223 s."""
_MOST_FS = 2**63 - 1
GB = 1e9
MIB = 1 << 20
GIB = 1 << 30
PCIE_GEN3_X8 = 8 * 1e9 * 128 / 130
"""Bytes per second in one direction: 8 lanes of 8 Gbit/s, 128b/130b."""


def number_of(number: int, noun: str) -> str:
    """A number with its noun: ``1 NPU``, ``8 NPUs``."""
    return f"{number} {noun}" + ("" if number == 1 else "s")


def seconds_to_fs(seconds: float) -> int:
    """Femtoseconds, to the nearest.

    Raises
    ------
    ValueError
        For more than 64 bits can hold.
    """
    if not abs(seconds) * FS_PER_S < _MOST_FS:
        raise ValueError(f"a time must be at most {MOST_TIME_S:g} s, not {seconds:g} s")
    return round(seconds * FS_PER_S)


def seconds_to_cycles(seconds: float, clock_hz: float) -> int:
    """Whole cycles that a delay of *seconds* takes: rounded up, at least one."""
    cycles = seconds * clock_hz
    whole = round(cycles)
    # A delay that is a whole number of cycles but for rounding (to a femtosecond) stays that.
    near = abs(cycles - whole) <= max(1e-6, clock_hz / FS_PER_S)
    return max(1, whole if near else int(-(-cycles // 1)))


def cycles_to_fs(cycles: NDArray[np.integer] | int, clock_hz: float) -> NDArray[np.int64]:
    """Femtoseconds of *cycles*, each to the nearest."""
    return np.round(np.asarray(cycles) * (FS_PER_S / clock_hz)).astype(np.int64)


def fs_per_byte(bytes_per_s: float) -> float:
    """Time of one byte at a rate, or the rate for a time per byte."""
    return FS_PER_S / bytes_per_s


def beats_per_cycle(bytes_per_s: float, *, clock_hz: float, bus_bytes: int) -> float:
    """Share of a bus's beats that a link of *bytes_per_s* carries, above 0 and at most 1.

    Raises
    ------
    ValueError
        The link is faster than the bus.
    """
    bus = clock_hz * bus_bytes
    # A rate that became a time per byte and a rate again is the same share.
    share = round(bytes_per_s / bus, 9)
    if share > 1:
        raise FieldError(
            "bandwidth_bytes_per_s",
            f"must be at most {bus:.9g}, what a bus of {bus_bytes} B carries "
            f"at {clock_hz:.9g} Hz, not {bytes_per_s:.9g}"
        )
    return share
