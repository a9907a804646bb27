"""One direction of a physical link, as the simulation records it."""

from dataclasses import dataclass

__all__ = ["LinkInfo"]


@dataclass(frozen=True, kw_only=True)
class LinkInfo:
    """One direction of one physical link. ``dimension`` is -1 where it belongs to none."""

    source: int
    target: int
    dimension: int
    lane: int
    bytes_per_s: float
    latency_fs: int
