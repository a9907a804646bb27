"""Units of the simulator and their conversions.

Times are integers: femtoseconds in the event simulation, clock cycles in cycle models and RTL.
Sizes are bytes; GB is 1e9 bytes, KiB is 1024.
"""

__all__ = ["FS_PER_S", "cycles_to_fs", "fs_to_cycles", "seconds_to_cycles", "seconds_to_fs"]

FS_PER_S = 10**15


def seconds_to_fs(seconds: float) -> int:
    """Femtoseconds, to the nearest."""
    return round(seconds * FS_PER_S)


def seconds_to_cycles(seconds: float, clock_hz: float) -> int:
    """Whole cycles that a delay of *seconds* takes: rounded up, at least one."""
    cycles = seconds * clock_hz
    whole = round(cycles)
    # A delay that is a whole number of cycles but for rounding stays that number.
    return max(1, whole if abs(cycles - whole) < 1e-6 else int(-(-cycles // 1)))


def cycles_to_fs(cycles: int, clock_hz: float) -> int:
    """Femtoseconds of *cycles*, to the nearest."""
    return round(cycles * (FS_PER_S / clock_hz))


def fs_to_cycles(time_fs: int, clock_hz: float) -> int:
    """Cycles that have begun by *time_fs*, to the nearest."""
    return round(time_fs * (clock_hz / FS_PER_S))
