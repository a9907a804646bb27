# SPDX-License-Identifier: Apache-2.0
"""Measures the CPU share that other processes take during a measurement."""

from __future__ import annotations

import os
import resource
from pathlib import Path
from types import TracebackType

__all__ = ["ALLOWED", "Noise"]

ALLOWED = 0.05
"""Share of the CPUs that other processes may take; above, a measurement of speed is noisy."""

_STAT = Path("/proc/stat")
_IDLE = (3, 4)
"""Columns of the first line of `_STAT`: idle, and waiting for disks."""
_GUEST = 8
"""Columns from this one on are included in earlier ones."""


class Noise:
    """CPU time while the body of a ``with`` runs, summed over several bodies.

    Own time is that of this process and of the children that it has waited for.

    Members
    -------
    share:
        CPU time taken by other processes, as a fraction of all CPUs all the time; None without
        `/proc/stat` and before anything was measured.
    """

    def __init__(self, stat: Path = _STAT) -> None:
        self._stat = stat
        self._others = self._all = 0.0

    @property
    def share(self) -> float | None:
        return max(0.0, self._others / self._all) if self._all else None

    @property
    def noisy(self) -> bool:
        """True if other processes took more than `ALLOWED`."""
        return (self.share or 0.0) > ALLOWED

    def __enter__(self) -> Noise:
        self._start = self._now()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        now = self._now()
        if self._start is not None and now is not None:
            self._others += now[0] - self._start[0]
            self._all += now[1] - self._start[1]

    def _now(self) -> tuple[float, float] | None:
        """Seconds that all CPUs have spent on other processes so far, and their total seconds."""
        try:
            line = self._stat.read_text(encoding="ascii").splitlines()[0]
        except (OSError, IndexError):
            return None
        ticks = [int(word) for word in line.split()[1:]][:_GUEST]
        hertz = os.sysconf("SC_CLK_TCK")
        idle = sum(ticks[column] for column in _IDLE if column < len(ticks))
        own = 0.0
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
            used = resource.getrusage(who)
            own += used.ru_utime + used.ru_stime
        return (sum(ticks) - idle) / hertz - own, sum(ticks) / hertz
