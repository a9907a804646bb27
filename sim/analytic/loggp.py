# SPDX-License-Identifier: Apache-2.0
"""LogGP in closed form: a message, a ring all-reduce, a pipeline over hops.

L latency, o overhead of the sender and of the receiver, g gap between messages, G time per byte.
"""

import math
from dataclasses import dataclass

from sim.fields import FieldError, check_at_least

__all__ = ["LogGP"]


@dataclass(frozen=True, kw_only=True)
class LogGP:
    """All in seconds, ``gap_per_byte_s`` in seconds per byte."""

    latency_s: float
    overhead_s: float
    gap_s: float
    gap_per_byte_s: float

    def __post_init__(self) -> None:
        check_at_least(self, 0, *vars(self))

    def message_s(self, size_bytes: float) -> float:
        """From the call of the sender to the data at the receiver: L + 2 o + (m - 1) G."""
        if size_bytes < 1:
            raise FieldError("size_bytes", f"must be at least 1, not {size_bytes!r}")
        return self.latency_s + 2 * self.overhead_s + (size_bytes - 1) * self.gap_per_byte_s

    def next_s(self, size_bytes: float) -> float:
        """From the start of one message to the earliest start of the next one at the same port."""
        return max(self.gap_s, self.overhead_s, size_bytes * self.gap_per_byte_s)

    def ring_all_reduce_s(self, nodes: int, size_bytes: float) -> float:
        """2 (N-1) steps of S/N bytes, each after the one before."""
        if nodes < 2:
            raise FieldError("nodes", f"must be at least 2, not {nodes!r}")
        return 2 * (nodes - 1) * self.message_s(size_bytes / nodes)

    def pipeline_s(self, hops: int, chunks: int, size_bytes: float) -> float:
        """*size_bytes* in equal chunks over a chain of hops that store and forward."""
        if hops < 1 or chunks < 1:
            raise ValueError(f"hops and chunks must be at least 1, not {hops!r} and {chunks!r}")
        alpha = self.latency_s + 2 * self.overhead_s
        return (hops + chunks - 1) * (alpha + size_bytes / chunks * self.gap_per_byte_s)

    def best_chunks(self, hops: int, size_bytes: float) -> int:
        """The number of chunks with the shortest :meth:`pipeline_s`."""
        alpha = self.latency_s + 2 * self.overhead_s
        if hops == 1:
            return 1
        if alpha == 0:
            return max(1, int(size_bytes))
        ideal = math.sqrt((hops - 1) * size_bytes * self.gap_per_byte_s / alpha)
        around = {max(1, math.floor(ideal)), max(1, math.ceil(ideal))}
        return min(sorted(around), key=lambda c: self.pipeline_s(hops, c, size_bytes))
