"""What a published value is, and how near ours has to be."""

from dataclasses import dataclass
from typing import Protocol

__all__ = [
    "AtLeast",
    "Between",
    "Bound",
    "Exactly",
    "Holds",
    "Near",
    "Target",
    "WithinFactor",
]

ROUNDING = 1e-9


class Target(Protocol):
    """A published value with its tolerance."""

    @property
    def published(self) -> float | str:
        """The value, or the statement where it is one."""

    @property
    def tolerance(self) -> str:
        """In words."""

    def met(self, ours: float) -> bool:
        """Whether *ours* is within the tolerance."""


@dataclass(frozen=True)
class Exactly:
    """Equal but for floating-point rounding."""

    published: float
    tolerance: str = "exact"

    def met(self, ours: float) -> bool:
        return abs(ours - self.published) <= ROUNDING * max(abs(self.published), 1.0)


@dataclass(frozen=True)
class Near:
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
class WithinFactor:
    """At most *factor* times more or less."""

    published: float
    factor: float

    @property
    def tolerance(self) -> str:
        return f"factor {self.factor:g}"

    def met(self, ours: float) -> bool:
        return self.published / self.factor <= ours <= self.published * self.factor


@dataclass(frozen=True)
class Between:
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
class AtLeast:
    """No less than the published value."""

    published: float
    tolerance: str = "at least"

    def met(self, ours: float) -> bool:
        return ours >= self.published


@dataclass(frozen=True)
class Holds:
    """A published statement: *ours* is 1 where it holds and 0 where it does not."""

    published: str = "yes"
    tolerance: str = "must hold"

    def met(self, ours: float) -> bool:
        return bool(ours)


@dataclass(frozen=True)
class Bound:
    """The largest (or, with ``least``, the smallest) value that a computation leaves possible."""

    value: float
    least: bool = False

    def __str__(self) -> str:
        return f"at {'least' if self.least else 'most'} {self.value:.4g}"

    def excludes(self, target: Target) -> bool:
        """Whether the published value and everything that its tolerance allows lie beyond."""
        published = target.published
        if isinstance(published, str):
            return False
        beyond = published < self.value if self.least else published > self.value
        return beyond and not target.met(self.value)
