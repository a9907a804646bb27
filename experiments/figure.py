"""A published figure or table as we have it: rows beside published values, curves, losses."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from experiments.targets import Target
from sim.results.table import Table

__all__ = ["Context", "Curves", "Figure", "Lost", "Maker", "Row", "Verdict"]

Verdict: TypeAlias = str
Series: TypeAlias = Sequence[tuple[float | str, float]]


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
    check : str
        Names of the acceptance checks that the row evaluates, e.g. ``"H3"``.
    """

    setting: str
    ours: float
    unit: str = ""
    target: Target | None = None
    why: str = ""
    fitted: bool = False
    check: str = ""

    @property
    def verdict(self) -> Verdict:
        """``within``, ``outside``, ``fitted``, or ``shown`` where there is nothing to compare."""
        if self.target is None:
            return "shown"
        if self.fitted:
            return "fitted"
        return "within" if self.target.met(self.ours) else "outside"

    @property
    def ratio(self) -> float | None:
        """Ours over published, where both are numbers."""
        published = self.target.published if self.target is not None else None
        if isinstance(published, str) or not published:
            return None
        return self.ours / published


@dataclass(frozen=True, kw_only=True)
class Lost:
    """Something published that cannot be compared, and why."""

    what: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Curves:
    """Lines, or bars where x are texts, of one plot."""

    title: str
    x: str
    y: str
    series: Mapping[str, Series]
    log_x: bool = False
    levels: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Figure:
    """What a module of `experiments.figures` returns."""

    title: str
    rows: Sequence[Row] = ()
    curves: Sequence[Curves] = ()
    tables: Sequence[Table] = ()
    lost: Sequence[Lost] = ()
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Context:
    """How to run: ``progress`` is called with the share of the figure that is done."""

    progress: Callable[[float], None] = lambda share: None


Maker: TypeAlias = Callable[[Context], Figure]
