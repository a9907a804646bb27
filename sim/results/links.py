# SPDX-License-Identifier: Apache-2.0
"""The load of links over time."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sim.hosts.activity import LinkActivity

__all__ = ["LinkSeries", "ring_series"]

MOST_INTERVALS = 150


@dataclass(frozen=True, kw_only=True)
class LinkSeries:
    """Shares of the capacity that one direction of a link carried, one per interval."""

    name: str
    header: npt.NDArray[np.float64]
    payload: npt.NDArray[np.float64]

    @property
    def total(self) -> npt.NDArray[np.float64]:
        return self.header + self.payload


def ring_series(
    links: Mapping[tuple[int, int], LinkActivity],
    *,
    nodes: int,
    begin: int,
    end: int,
    flits: int,
    name: Callable[[int, int], str] | None = None,
) -> tuple[list[LinkSeries], int]:
    """Load of each direction of each link of a ring of engines between two cycles.

    Parameters
    ----------
    links : mapping of (rank, port) to LinkActivity
        Recorded in buckets; even ports lead to the next rank, odd ones to the previous.
    begin, end : int
        Cycles.
    flits : int
        Flits that a link carries in a cycle.
    name : callable or None
        Name of the link of a rank and port, "" for one that is left out; None: by the ranks at its
        ends.

    Returns
    -------
    series : list of LinkSeries
        Those of links that carried anything.
    interval_cycles : int
        Length of an interval; there are at most `MOST_INTERVALS`.
    """
    fine = max((each.bucket_cycles for each in links.values()), default=0)
    if not fine:
        return [], 0
    merged = max(1, -(-(end - begin) // (fine * MOST_INTERVALS)))
    interval = fine * merged
    intervals = -(-(end - begin) // interval)

    def share(counts: npt.NDArray[np.uint32]) -> npt.NDArray[np.float64]:
        kept = np.zeros(intervals * merged)
        chosen = counts[begin // fine :][: len(kept)]
        kept[: len(chosen)] = chosen
        whole: npt.NDArray[np.float64] = kept.reshape(intervals, merged).sum(axis=1)
        whole /= interval * flits
        # The last interval is as long as the rest of the run.
        whole[-1] *= interval / (end - begin - (intervals - 1) * interval)
        return np.minimum(whole, 1.0)

    def of_ring(rank: int, port: int) -> str:
        return f"rank {rank} → {(rank + (-1 if port % 2 else 1)) % nodes}"

    named = name or of_ring
    series = [
        LinkSeries(
            name=named(rank, port),
            header=share(each.header_flits_per_bucket),
            payload=share(each.payload_flits_per_bucket),
        )
        for (rank, port), each in sorted(links.items())
        if each.flits and named(rank, port)
    ]
    return series, interval
