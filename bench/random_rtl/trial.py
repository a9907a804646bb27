"""A drawn system and its fault, whatever the kind of system: what is done with it, and judged."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["CLEAN", "FAULTS", "Attempt", "Finding", "Kind", "Trial", "draw_cases", "run_trial"]

CLEAN = "none"
"""The class of runs without a fault."""

FAULTS = (
    "abort of one node",
    "aborts of two nodes",
    "aborts of several nodes",
    "memory refuses a read",
    "memory refuses a write",
    "packet damaged",
    "packet lost",
    "packet repeated",
    "operations differ",
    "lengths differ",
)
"""Classes that all kinds of systems have."""

# Cycles that a host allows for a collective, times what it took without a fault, and more.
PATIENCE, MORE = 20, 20_000


@dataclass(kw_only=True)
class Finding:
    """What was seen in one case.

    Members
    -------
    fault:
        Its class.
    ranks:
        Of each rank ``exact``, or the causes that it reported.
    violations:
        What must not be, in words.
    """

    fault: str
    ranks: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """What one collective came to on one rank."""

    finished: bool
    equal: bool
    causes: frozenset[str]

    @property
    def exact(self) -> bool:
        """Done, said so, and right."""
        return self.finished and self.equal and "done" in self.causes

    @property
    def reports(self) -> frozenset[str]:
        """What it says is wrong."""
        return self.causes - {"done"}

    def __str__(self) -> str:
        if self.reports:
            return "+".join(sorted(self.reports))
        if self.exact:
            return "exact"
        return "wrong, no report" if self.finished else "never done, no report"


class Trial(ABC):
    """The system of a case, and collectives on it one after the other.

    Members
    -------
    limit:
        Cycles that a collective may take.
    leftovers:
        What right ranks may report of the fault in the next collective.
    """

    limit: int
    leftovers: frozenset[str] = frozenset()

    @property
    @abstractmethod
    def cycle(self) -> int:
        """Cycles so far."""

    @abstractmethod
    def collective(self) -> list[Attempt]:
        """Do the collective on all ranks; its outcomes are read and cleared."""

    @abstractmethod
    def with_fault(self, spent: int) -> tuple[list[Attempt], set[int]]:
        """The collective with the fault; and the ranks whose own hosts gave it up.

        Without a fault it takes *spent* cycles.
        """

    @abstractmethod
    def recover(self) -> str | None:
        """What documents prescribe after a fault; why the system did not come to rest, if so."""

    def promised(self, attempts: Sequence[Attempt]) -> list[str]:
        """What the outcomes of the collective with the fault lack of what this system promises
        beyond the general rule."""
        return []


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of systems, as the bench sees it.

    Members
    -------
    name:
        On the command line.
    classes:
        What goes wrong: `CLEAN` and others.
    engines, clean, per_class:
        Configurations; runs without a fault and of each other class, by default.
    least:
        The same three: fewer are too few.
    draw_engines:
        So many different configurations.
    draw_case:
        A case with one of them, of a class; None if they do not go together.
    collective:
        What a case does, in a word.
    run:
        A case.
    """

    name: str
    classes: tuple[str, ...]
    engines: int
    clean: int
    per_class: int
    least: tuple[int, int, int]
    draw_engines: Callable[[Any, int], Sequence[Any]]
    draw_case: Callable[[Any, Any, str], Any]
    collective: Callable[[Any], str]
    run: Callable[[Any], Finding]


def draw_cases(
    kind: Kind, rng: Any, engines: Sequence[Any], classes: Mapping[str, int]
) -> Iterator[Any]:
    """Cases of each class, as many as *classes* says, with the engines in turn."""
    number = 0
    for fault, count in classes.items():
        left = count
        while left:
            case = kind.draw_case(rng, engines[number % len(engines)], fault)
            number += 1
            if case is not None:
                yield case
                left -= 1


def run_trial(
    case: Any, make: Callable[[Any], Trial], errors: tuple[type[Exception], ...]
) -> Finding:
    """A clean collective, one with the fault, and a clean one again.

    *errors* are violations: what the system raises when a rule of its ports was broken, or it does
    not come to rest.
    """
    finding = Finding(fault=case.fault)
    try:
        _run(make(case), case.fault, finding)
    except errors as error:
        finding.violations.append(f"{type(error).__name__}: {error}")
    finding.violations = [f"{case.fault}: {case}: {text}" for text in finding.violations]
    return finding


def _run(trial: Trial, fault: str, finding: Finding) -> None:
    if fault == CLEAN:
        finding.ranks = [str(each) for each in _check_clean(trial, finding, "without a fault")]
        return
    begin = trial.cycle
    _check_clean(trial, finding, "before the fault")
    spent = trial.cycle - begin
    trial.limit = PATIENCE * spent + MORE
    attempts, to_blame = trial.with_fault(spent)
    finding.ranks = [
        "aborted by its host" if rank in to_blame and not each.exact else str(each)
        for rank, each in enumerate(attempts)
    ]
    for rank, each in enumerate(attempts):
        given_up = rank in to_blame and "done" not in each.causes
        if not (each.exact or each.reports or given_up):
            finding.violations.append(f"rank {rank} of {finding.ranks}: {each}")
    finding.violations += trial.promised(attempts)
    if not all(each.exact and not each.reports for each in attempts) or to_blame:
        trouble = trial.recover()
        if trouble is not None:
            finding.violations.append(trouble)
    _check_clean(trial, finding, "after the fault", trial.leftovers)


def _check_clean(
    trial: Trial, finding: Finding, when: str, allowed: frozenset[str] = frozenset()
) -> list[Attempt]:
    attempts = trial.collective()
    if any(not each.exact or each.reports - allowed for each in attempts):
        finding.violations.append(f"{when}: {[str(each) for each in attempts]}")
    return attempts
