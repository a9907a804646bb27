# SPDX-License-Identifier: Apache-2.0
"""Activity of links and memory ports, of engines in RTL or of their models."""

from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["LinkActivity", "MemoryActivity", "SteadyState"]


@dataclass(frozen=True, kw_only=True)
class SteadyState:
    """Traffic of a port between two fractions of all the bytes that it sent."""

    first_cycle: int
    cycles: int
    beats: int
    flits: int
    header_flits: int

    @property
    def beat_share(self) -> float:
        """Cycles with a beat, header or payload, over all cycles."""
        return self.beats / self.cycles

    @property
    def payload_flits(self) -> int:
        return self.flits - self.header_flits

    @property
    def payload_share(self) -> float:
        """Payload bytes over payload and header bytes."""
        return self.payload_flits / self.flits


@dataclass(frozen=True, kw_only=True)
class LinkActivity:
    """Traffic of a port since the system was made, counted when the sender's beat was accepted.

    The receiver sees the same, ``latency_cycles`` later. Entry i of a ``per_bucket`` array counts
    cycles i * ``bucket_cycles`` up to the next entry's. The arrays of single beats are empty
    unless the system was made with ``record_beats=True``.
    """

    node: int
    port: int
    beats: int
    flits: int
    header_flits: int
    first_cycle: int | None
    last_cycle: int | None
    stalled_cycles: int
    bucket_cycles: int
    beats_per_bucket: np.ndarray
    header_flits_per_bucket: np.ndarray
    payload_flits_per_bucket: np.ndarray
    beat_cycles: np.ndarray
    beat_flits: np.ndarray
    beat_header_flits: np.ndarray

    @classmethod
    def of_beats(
        cls, *, bucket_cycles: int, beat_cycles: np.ndarray, beat_flits: np.ndarray,
        beat_header_flits: np.ndarray, **counts: Any,
    ) -> "LinkActivity":
        """Traffic of which single beats are known: the series follow from them, but for buckets of
        0 cycles. *counts* are the other fields."""
        buckets = beat_cycles // bucket_cycles if bucket_cycles else beat_cycles[:0]

        def series(weights: np.ndarray) -> np.ndarray:
            return np.bincount(buckets, weights[: len(buckets)]).astype(np.uint32)

        return cls(
            bucket_cycles=bucket_cycles,
            beats_per_bucket=series(np.ones(len(beat_cycles))),
            header_flits_per_bucket=series(beat_header_flits),
            payload_flits_per_bucket=series(beat_flits - beat_header_flits),
            beat_cycles=beat_cycles.astype(np.uint64), beat_flits=beat_flits.astype(np.uint32),
            beat_header_flits=beat_header_flits.astype(np.uint32), **counts,
        )

    @property
    def payload_flits(self) -> int:
        return self.flits - self.header_flits

    def steady_state(
        self, low: float = 0.1, high: float = 0.9, *, since_cycle: int = 0
    ) -> SteadyState:
        """The time from the beat that passes ``low`` of the bytes to the one that reaches ``high``.

        Only beats from ``since_cycle`` on are considered.
        """
        if not 0 <= low < high <= 1:
            raise ValueError(f"0 <= low < high <= 1 must hold, not low={low!r}, high={high!r}")
        chosen = self.beat_cycles >= since_cycle
        flits = self.beat_flits[chosen].astype(np.int64)
        if flits.size == 0:
            raise ValueError(
                f"port {self.port} of node {self.node} has no recorded beat since cycle "
                f"{since_cycle}; was the system made with record_beats=True?"
            )
        sent = np.cumsum(flits)
        first = int(np.searchsorted(sent, low * sent[-1], side="right"))
        last = int(np.searchsorted(sent, high * sent[-1], side="left"))
        cycles = self.beat_cycles[chosen]
        span = slice(first, last + 1)
        return SteadyState(
            first_cycle=int(cycles[first]),
            cycles=int(cycles[last] - cycles[first]) + 1,
            beats=last + 1 - first,
            flits=int(flits[span].sum()),
            header_flits=int(self.beat_header_flits[chosen][span].sum()),
        )


@dataclass(frozen=True, kw_only=True)
class UnitActivity:
    """Work of a part of engines.

    Parameters
    ----------
    servers : int
        How many of the part each engine has.
    cycles, beats : array, ranks
        Cycles of work of all servers, and beats of data that they moved.
    window_cycles : int
    cycles_per_window : array
        Cycles of work of all ranks; window *i* begins in cycle ``i * window_cycles``.
    """

    servers: int
    cycles: np.ndarray
    beats: np.ndarray
    window_cycles: int
    cycles_per_window: np.ndarray

    def per_bucket(self, begin: int, bucket_cycles: int, buckets: int) -> np.ndarray:
        """Cycles of work in each of *buckets* from cycle *begin* on, as if evenly spread within a
        window."""
        edges = begin + np.arange(buckets + 1) * bucket_cycles
        windows = np.arange(len(self.cycles_per_window) + 1) * self.window_cycles
        done = np.concatenate([[0], np.cumsum(self.cycles_per_window)])
        return np.diff(np.interp(edges, windows, done))


@dataclass(frozen=True, kw_only=True)
class MemoryActivity:
    """Traffic of a memory port since the system was made; bursts are counted when accepted.

    ``written_bytes`` counts enabled bytes inside the memory, ``decode_errors`` read beats and
    write bursts that were answered with DECERR. The ``per_bucket`` arrays count whole beats.
    """

    node: int
    port: int
    read_bytes: int
    written_bytes: int
    read_bursts: int
    write_bursts: int
    decode_errors: int
    bucket_cycles: int
    read_bytes_per_bucket: np.ndarray
    written_bytes_per_bucket: np.ndarray
