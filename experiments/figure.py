# SPDX-License-Identifier: Apache-2.0
"""A published figure or table as we have it: rows beside published values, curves, losses."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from experiments.targets import Bound, Gain, Holds, Order, Pairs, Target
from gen.table import Table

__all__ = [
    "GROUNDINGS",
    "ORIGINS",
    "Assumption",
    "Bars",
    "Context",
    "Curves",
    "Figure",
    "Lost",
    "Maker",
    "Row",
    "Series",
    "Verdict",
    "derived",
    "not_reproduced",
    "stacks",
    "statement",
    "weakest",
]

Verdict: TypeAlias = str
Series: TypeAlias = Sequence[tuple[float, float]]

GROUNDINGS = ("stated", "data", "chosen", "fitted")
"""Grounds of an assumption, the firmest first: the paper's words, files that its authors released,
our choice where both are silent, a fit to a published result."""
ORIGINS = ("printed", "abstract", "derived", "note", "remembered")
"""Sources of a published value: the text, the abstract alone, a derivation from other published
values, a third party's notes on the whole paper, or memory because the edition at hand has lost
it."""


@dataclass(frozen=True)
class Assumption:
    """An assumption of a figure, and its ground (one of `GROUNDINGS`)."""

    what: str
    grounding: str
    source: str = ""

    def __post_init__(self) -> None:
        if self.grounding not in GROUNDINGS:
            raise ValueError(
                f"grounding must be one of {', '.join(GROUNDINGS)}, not {self.grounding!r}"
            )


def weakest(assumptions: Sequence[Assumption]) -> str:
    """The least firm ground among *assumptions*; empty for none."""
    return max((each.grounding for each in assumptions), key=GROUNDINGS.index, default="")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One value.

    Parameters
    ----------
    setting : str
    ours : float
        1 or 0 for a statement that holds or does not.
    unit : str
    target : Target or None
        None where nothing was published to compare with.
    why : str
        Printed beside the row: the cause of a deviation, from a computed quantity.
    fitted : bool
        True if a parameter was fitted to this value.
    identity : bool
        True if no other result is possible: ours follows from the same arithmetic as the published
        value or from other rows, or depends on itself alone.
    bound : Bound or None
        Limit of the values that the paper's own parameters leave possible.
    origin : str
        Source of the published value, one of `ORIGINS`.
    grounding : str
        One of `GROUNDINGS`, if it differs from that of the figure's assumptions.
    check : str
        Names of the acceptance checks that the row evaluates, e.g. ``"H3"``.
    order : Order or None
        Values that a statement orders; see `statement`. A statement without it is an identity.
    """

    setting: str
    ours: float
    unit: str = ""
    target: Target | None = None
    why: str = ""
    fitted: bool = False
    identity: bool = False
    bound: Bound | None = None
    origin: str = "printed"
    grounding: str = ""
    check: str = ""
    order: Order | None = None

    def __post_init__(self) -> None:
        if isinstance(self.target, Holds) and self.order is None and not self.identity:
            raise ValueError(f"{self.setting!r} must have an order, or be an identity")
        for name, value, known in (
            ("origin", self.origin, ORIGINS),
            ("grounding", self.grounding, ("", *GROUNDINGS)),
        ):
            if value not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}, not {value!r}")

    @property
    def verdict(self) -> Verdict:
        """One word.

        ``shown`` where there is nothing to compare; ``contradicted`` where the bound leaves no
        value within the tolerance; ``fitted``; ``outside`` or ``within``, and instead of the
        latter ``identity`` where nothing else could have come out.
        """
        if self.target is None:
            return "shown"
        if self.bound is not None and self.bound.excludes(self.target):
            return "contradicted"
        if self.fitted:
            return "fitted"
        if not self.target.met(self.ours):
            return "outside"
        return "identity" if self.identity else "within"

    @property
    def by_effect(self) -> bool:
        """True if a speed-up is judged by its excess over 1."""
        return isinstance(self.target, Gain)

    @property
    def admits_no_effect(self) -> bool:
        """True if no gain, or no saving, would be within the tolerance as well.

        Ratios have no unit (or ``x``), and 1 is no effect; for percentages it is 0. If 1 or 0 was
        published, as for two equivalent schedules, that is itself the statement.
        """
        if self.target is None or isinstance(self.target.published, str) or self.identity:
            return False
        nothing = {"": 1.0, "x": 1.0, "%": 0.0}.get(self.unit)
        return nothing not in (None, self.target.published) and self.target.met(nothing)

    @property
    def mutants(self) -> "list[Row]":
        """The row as it would be if its experiment were wrong: a gain with none or half of its
        effect, another number halved or doubled, a statement whose values are swapped."""
        if self.order is not None:
            wrong = self.order.swapped
            return [replace(self, ours=float(wrong.holds), order=wrong)]
        wrong_values = self.target.mutants(self.ours) if self.target is not None else ()
        return [replace(self, ours=each) for each in wrong_values]

    @property
    def ratio(self) -> float | None:
        """Ours over published, where both are numbers."""
        published = self.target.published if self.target is not None else None
        if isinstance(published, str) or not published:
            return None
        return self.ours / published


def statement(setting: str, *, below: Pairs = (), at_most: Pairs = (), **fields: Any) -> Row:
    """A row of yes or no; for yes, values have to be *below* or *at_most* others."""
    order = Order(below=tuple(below), at_most=tuple(at_most))
    return Row(
        setting=setting, ours=float(order.holds), target=Holds(), order=order, **fields
    )


def derived(setting: str, ours: float, target: Target, **fields: Any) -> Row:
    """A row whose published value follows from others, and ours from the same arithmetic."""
    return Row(
        setting=setting, ours=ours, target=target, identity=True, origin="derived", **fields
    )


@dataclass(frozen=True, kw_only=True)
class Lost:
    """A published result that cannot be compared, and why."""

    what: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Curves:
    """Lines of one plot. ``dashed`` names series that are ideals, ``marks`` series that are single
    points, such as published values."""

    title: str
    x: str
    y: str
    series: Mapping[str, Series]
    log_x: bool = False
    levels: Mapping[str, float] = field(default_factory=dict)
    dashed: Sequence[str] = ()
    marks: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Bars:
    """Stacked bars of one plot: ``groups[group][bar][part]`` is the height of a part.

    All bars have the same parts. Where a group has one bar only, or all groups one and the same,
    the bar is named by its group.
    """

    title: str
    x: str
    y: str
    groups: Mapping[str, Mapping[str, Mapping[str, float]]]
    levels: Mapping[str, float] = field(default_factory=dict)


def stacks(title: str, y: str, parts: Mapping[str, Mapping[str, float]], **fields: Any) -> Bars:
    """Bars that stand apart, each by its name: ``parts[bar][part]`` is the height of a part."""
    groups = {name: {name: bar} for name, bar in parts.items()}
    return Bars(title=title, y=y, groups=groups, **{"x": "", **fields})


@dataclass(frozen=True, kw_only=True)
class Figure:
    """Result of a function of `experiments.figures`."""

    title: str
    rows: Sequence[Row] = ()
    curves: Sequence[Curves | Bars] = ()
    tables: Sequence[Table] = ()
    lost: Sequence[Lost] = ()
    note: str = ""
    assumptions: Sequence[Assumption] = ()

    def grounding(self, row: Row) -> str:
        """The least firm ground that *row* rests on."""
        return row.grounding or weakest(self.assumptions)


@dataclass(frozen=True, kw_only=True)
class Context:
    """Context of a run: ``progress`` is called with the share of the figure that is done."""

    progress: Callable[[float], None] = lambda share: None


Maker: TypeAlias = Callable[[Context], Figure]


def not_reproduced(what: str, *lost: Lost) -> Maker:
    """The figure ``measured`` of a paper: measurements on hardware that is not available here."""

    def measured(context: Context) -> Figure:
        return Figure(title=f"{what}: measured on hardware, not reproduced", lost=lost)

    return measured
