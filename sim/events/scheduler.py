# SPDX-License-Identifier: Apache-2.0
"""The scheduler: cuts collectives into chunks, and orders the chunks."""

from dataclasses import dataclass

from sim.fields import FieldError, check_fields

__all__ = ["AUTO", "Scheduler"]

AUTO = "auto"


@dataclass(frozen=True, kw_only=True)
class Scheduler:
    """The dispatcher and its queues (ASTRA-SIM 5.1).

    Parameters
    ----------
    policy : str
        ``lifo``: chunks of the newest collective first; ``fifo``: of the oldest.
    splits : int or None
        Chunks of a collective. None: as many as ``chunk_bytes`` asks for.
    chunk_bytes : float or None
        Size of a chunk where ``splits`` is None. None: by size, endpoint and algorithm
        (:mod:`sim.events.defaults`).
    least_chunk_bytes : float
        Chunks are not made smaller than that.
    threshold, issue : int or None
        The dispatcher issues P = ``issue`` chunks while fewer than T = ``threshold`` are in their
        first phase. None: no bound.
    concurrency : int, None or "auto"
        Chunks of a node that may be in one scheduling queue at a time. None: no bound; then all
        chunks share the links of the first phase and none gets to the second early. ``auto``: as
        many as keep the links busy (:mod:`sim.events.defaults`).
    together : bool
        The places of a queue are given again only when all of them are free: ``concurrency`` chunks
        run together, and then the next ones.
    queues : str
        ``dimension``: a queue for every ring of every dimension, shared by the phases there, as in
        ASTRA-sim's released code; ``phase``: one for every ring of every phase. Then chunks of
        several phases fill a link, and those of a phase that others wait for come late. But nodes
        that are not in step, and take chunks in different orders, seldom wait for each other.
        ``auto``: ``dimension`` for collectives whose members all do the same at the same time,
        calls of other groups aside, else ``phase``.
    collectives : str
        Collectives of a node that run at a time: ``all`` that are issued, ``one``, or
        ``one_per_group`` of those over the same dimensions. Others wait in the order in which
        they could begin. With ``one`` messages to single nodes take turns with collectives.
    """

    policy: str = "lifo"
    splits: int | None = None
    chunk_bytes: float | None = None
    least_chunk_bytes: float = 1
    threshold: int | None = None
    issue: int | None = None
    concurrency: int | str | None = AUTO
    together: bool = False
    queues: str = "auto"
    collectives: str = "all"

    def __post_init__(self) -> None:
        check_fields(self)
        for name, value, allowed in (
            ("policy", self.policy, ("lifo", "fifo")),
            ("queues", self.queues, ("auto", "phase", "dimension")),
            ("collectives", self.collectives, ("all", "one", "one_per_group")),
        ):
            if value not in allowed:
                raise FieldError(name, f"must be one of {', '.join(allowed)}, not {value!r}")
        if isinstance(self.concurrency, str) and self.concurrency != AUTO:
            what = f"must be an integer, None or {AUTO!r}, not {self.concurrency!r}"
            raise FieldError("concurrency", what)
        for name in ("splits", "threshold", "issue", "concurrency"):
            number = getattr(self, name)
            if number is not None and number != AUTO and number < 1:
                raise FieldError(name, f"must be at least 1 or None, not {number!r}")
        for name, least in (("chunk_bytes", 1), ("least_chunk_bytes", 0)):
            value = getattr(self, name)
            if value is not None and not value >= least:
                raise FieldError(name, f"must be at least {least}, not {value!r}")

    @property
    def cuts(self) -> bool:
        """True if the scheduler itself says how collectives are cut."""
        return self.splits is not None or self.chunk_bytes is not None

    def chunks(self, size_bytes: float, variants: int, otherwise_bytes: float) -> int:
        """Number of chunks of a collective of that size; chunks have *otherwise_bytes* where it is
        not the scheduler that `cuts`."""
        count = self.splits
        if count is None:
            each = int(otherwise_bytes if self.chunk_bytes is None else self.chunk_bytes)
            count = max(1, -(-int(size_bytes) // each))
            # Every variant gets its share.
            count = -(-count // variants) * variants
        if self.least_chunk_bytes > 0 and size_bytes / count < self.least_chunk_bytes:
            count = max(1, int(size_bytes / self.least_chunk_bytes))
        return count
