# SPDX-License-Identifier: Apache-2.0
"""Physical links, and what can be wrong with them."""

from dataclasses import dataclass

from sim.fields import FieldError, check, check_fields

__all__ = ["Link", "LinkFault"]


@dataclass(frozen=True, kw_only=True)
class Link:
    """One direction of one physical link. ``dimension`` is -1 if it belongs to none.

    ``bytes_per_s`` is payload: a link with headers on it is faster by 1 / ``efficiency``.
    """

    source: int
    target: int
    dimension: int
    lane: int
    bytes_per_s: float
    latency_fs: int


@dataclass(frozen=True, kw_only=True)
class LinkFault:
    """A slow link, or one that is down (factor 0); ``lane`` None means all lanes.

    ``both_ways``: the opposite direction too. Routes go round a link that is down the other way of
    the ring, and elsewhere over the next lane. Where there is none, asking for the route raises
    an error.
    """

    source: int
    target: int
    bandwidth_factor: float = 0.0
    lane: int | None = None
    both_ways: bool = True

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("source", "target", "lane"):
            value = getattr(self, name)
            check(name, value, "at least 0", value is None or value >= 0)
        if not 0 <= self.bandwidth_factor <= 1:
            raise FieldError(
                "bandwidth_factor", f"must be from 0 (down) to 1, not {self.bandwidth_factor!r}"
            )

    @property
    def ends(self) -> list[tuple[int, int]]:
        """Source and target of the directions that it concerns."""
        ways = [(self.source, self.target), (self.target, self.source)]
        return ways if self.both_ways else ways[:1]
