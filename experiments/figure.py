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
    "Verdict",
    "not_reproduced",
    "statement",
    "weakest",
]

Verdict: TypeAlias = str
Series: TypeAlias = Sequence[tuple[float, float]]

GROUNDINGS = ("stated", "data", "chosen", "fitted")
"""What an assumption rests on, the firmest first: the paper's words, files that its authors
released, our choice where both are silent, a published result."""
ORIGINS = ("printed", "abstract", "derived", "note", "remembered")
"""Where a published value was read: in the text, in the abstract alone, worked out from other
published values, in a third party's notes on the whole paper, or from memory because the edition at
hand has lost it."""


@dataclass(frozen=True)
class Assumption:
    """What a figure takes for granted, and on what ground (one of `GROUNDINGS`)."""

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
        Printed beside the row: where a deviation comes from, from a quantity that was computed.
    fitted : bool
        Whether a parameter was fitted to this value.
    identity : bool
        Whether nothing else could have come out: ours follows from the same arithmetic as the
        published value or from other rows, or only looks at itself.
    bound : Bound or None
        What the paper's own parameters leave possible.
    origin : str
        Where the published value was read, one of `ORIGINS`.
    grounding : str
        Where it differs from that of the figure's assumptions, one of `GROUNDINGS`.
    check : str
        Names of the acceptance checks that the row evaluates, e.g. ``"H3"``.
    order : Order or None
        What a statement orders; see `statement`. A statement without it is an identity.
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
        """Whether a speed-up is judged by what it is beyond 1."""
        return isinstance(self.target, Gain)

    @property
    def admits_no_effect(self) -> bool:
        """Whether nothing gained, or nothing saved, would be within the tolerance as well.

        Ratios have no unit (or ``x``), and 1 is no effect; of percentages it is 0. Where 1 or 0 is
        what was published, as of two schedules that are alike, that is the statement.
        """
        if self.target is None or isinstance(self.target.published, str) or self.identity:
            return False
        nothing = {"": 1.0, "x": 1.0, "%": 0.0}.get(self.unit)
        return nothing not in (None, self.target.published) and self.target.met(nothing)

    @property
    def mutants(self) -> "list[Row]":
        """The row as it would be if its experiment were wrong: a gain with none or half of its
        effect, another number halved or doubled, a statement whose values are mixed up."""
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
    """A row that says yes or no, and which values have to be *below* or *at_most* others for it."""
    order = Order(below=tuple(below), at_most=tuple(at_most))
    return Row(
        setting=setting, ours=float(order.holds), target=Holds(), order=order, **fields
    )


@dataclass(frozen=True, kw_only=True)
class Lost:
    """Something published that cannot be compared, and why."""

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


@dataclass(frozen=True, kw_only=True)
class Figure:
    """What a module of `experiments.figures` returns."""

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
    """How to run: ``progress`` is called with the share of the figure that is done."""

    progress: Callable[[float], None] = lambda share: None


Maker: TypeAlias = Callable[[Context], Figure]


def not_reproduced(what: str, *lost: Lost) -> Maker:
    """The figure ``measured`` of a paper: what was measured on hardware that is not here."""

    def measured(context: Context) -> Figure:
        return Figure(title=f"{what}: measured on hardware, not reproduced", lost=lost)

    return measured
