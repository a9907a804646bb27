# SPDX-License-Identifier: Apache-2.0
"""Published values and the tolerances within which ours have to be."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

__all__ = [
    "EFFECT_SHARE",
    "AtLeast",
    "Between",
    "Bound",
    "Exactly",
    "Gain",
    "Holds",
    "Near",
    "Order",
    "Pairs",
    "Target",
    "WithinFactor",
]

ROUNDING = 1e-9
EFFECT_SHARE = 0.3
"""Share of a published effect by which ours may differ: a round number below the third at which
half of an effect would pass for all of it. The same for all papers."""


class Target(Protocol):
    """A published value with its tolerance."""

    @property
    def published(self) -> float | str:
        """The published value or statement."""

    @property
    def tolerance(self) -> str:
        """The tolerance in words."""

    def met(self, ours: float) -> bool:
        """True if *ours* is within the tolerance."""

    def mutants(self, ours: float) -> tuple[float, ...]:
        """Values of *ours* for a wrong experiment; none of them should be within the tolerance."""


class _Number:
    """A published number that is no effect: half or twice of it must be outside."""

    def mutants(self, ours: float) -> tuple[float, ...]:
        return ours / 2, ours * 2


@dataclass(frozen=True)
class Exactly(_Number):
    """Equal but for floating-point rounding."""

    published: float
    tolerance: str = "exact"

    def met(self, ours: float) -> bool:
        return abs(ours - self.published) <= ROUNDING * max(abs(self.published), 1.0)


@dataclass(frozen=True)
class Near(_Number):
    """Within a share of the published value, or an absolute distance."""

    published: float
    relative: float | None = None
    absolute: float | None = None

    def __post_init__(self) -> None:
        if (self.relative is None) == (self.absolute is None):
            raise ValueError("give either relative or absolute")

    @property
    def tolerance(self) -> str:
        if self.relative is not None:
            return f"{100 * self.relative:g} %"
        return f"+/- {self.absolute:g}"

    def met(self, ours: float) -> bool:
        allowed = self.absolute
        if self.relative is not None:
            allowed = self.relative * abs(self.published)
        assert allowed is not None
        return abs(ours - self.published) <= allowed * (1 + ROUNDING)


@dataclass(frozen=True)
class Gain:
    """A speed-up, judged by its effect, that is, its excess over 1.

    A tolerance of the speed-up itself would admit no effect where that is small.
    """

    published: float
    share: float = EFFECT_SHARE

    def __post_init__(self) -> None:
        if self.published == 1:
            raise ValueError("published must have an effect, and 1 has none; take Near")
        if not 0 < self.share < 1 / 3:
            raise ValueError(f"share must be above 0 and below a third, not {self.share!r}")

    @property
    def tolerance(self) -> str:
        return f"{100 * self.share:g} % of the effect"

    def met(self, ours: float) -> bool:
        allowed = self.share * abs(self.published - 1)
        return abs(ours - self.published) <= allowed * (1 + ROUNDING)

    def effect(self, ours: float) -> float:
        """Ours as a share of the published effect."""
        return (ours - 1) / (self.published - 1)

    def mutants(self, ours: float) -> tuple[float, ...]:
        """No effect, and half of it."""
        return 1.0, 1 + (ours - 1) / 2


@dataclass(frozen=True)
class WithinFactor(_Number):
    """At most *factor* times more or less."""

    published: float
    factor: float

    @property
    def tolerance(self) -> str:
        return f"factor {self.factor:g}"

    def met(self, ours: float) -> bool:
        return self.published / self.factor <= ours <= self.published * self.factor


@dataclass(frozen=True)
class Between(_Number):
    """In a range around the published value."""

    published: float
    low: float
    high: float

    @property
    def tolerance(self) -> str:
        return f"{self.low:g} to {self.high:g}"

    def met(self, ours: float) -> bool:
        return self.low <= ours <= self.high


@dataclass(frozen=True)
class AtLeast(_Number):
    """No less than the published value."""

    published: float
    tolerance: str = "at least"

    def met(self, ours: float) -> bool:
        return ours >= self.published


@dataclass(frozen=True)
class Holds:
    """A published statement: *ours* is 1 where it holds and 0 where it does not. The values that
    it orders are an `Order` of the row."""

    published: str = "yes"
    tolerance: str = "must hold"

    def met(self, ours: float) -> bool:
        return bool(ours)

    def mutants(self, ours: float) -> tuple[float, ...]:
        """None: see `Order`."""
        return ()


Pairs = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Order:
    """Order that a statement asserts: in each pair the first is *below* or *at_most* the second.

    It holds if it does for all pairs, of which there is at least one.
    """

    below: Pairs = ()
    at_most: Pairs = ()

    @property
    def holds(self) -> bool:
        return (
            bool(self.below or self.at_most)
            and all(a < b for a, b in self.below)
            and all(a <= b for a, b in self.at_most)
        )

    @property
    def swapped(self) -> "Order":
        """The same with the values of each pair exchanged, as if two runs had been mixed up."""
        return Order(
            below=[(b, a) for a, b in self.below], at_most=[(b, a) for a, b in self.at_most]
        )


@dataclass(frozen=True)
class Bound:
    """The largest (or, with ``least``, the smallest) value that a computation leaves possible."""

    value: float
    least: bool = False

    def __str__(self) -> str:
        return f"at {'least' if self.least else 'most'} {self.value:.4g}"

    def excludes(self, target: Target) -> bool:
        """True if the published value and everything within its tolerance lie beyond."""
        published = target.published
        if isinstance(published, str):
            return False
        beyond = published < self.value if self.least else published > self.value
        return beyond and not target.met(self.value)
