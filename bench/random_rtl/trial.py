# SPDX-License-Identifier: Apache-2.0
"""Runs and judges a drawn system with its fault, whatever the kind of system."""

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

# A host allows a collective PATIENCE times its cycles without a fault, plus MORE.
PATIENCE, MORE = 20, 20_000


@dataclass(kw_only=True)
class Finding:
    """Outcome of one case.

    Members
    -------
    fault:
        Its class.
    ranks:
        For each rank ``exact``, or the causes that it reported.
    violations:
        Broken promises, in words.
    """

    fault: str
    ranks: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """Outcome of one collective on one rank."""

    finished: bool
    equal: bool
    causes: frozenset[str]

    @property
    def exact(self) -> bool:
        """True if finished, reported as done, and right."""
        return self.finished and self.equal and "done" in self.causes

    @property
    def reports(self) -> frozenset[str]:
        """Causes of trouble that the rank reports."""
        return self.causes - {"done"}

    def __str__(self) -> str:
        if self.reports:
            return "+".join(sorted(self.reports))
        if self.exact:
            return "exact"
        return "wrong, no report" if self.finished else "never done, no report"


class Trial(ABC):
    """Runs collectives on the system of a case, one after the other.

    Members
    -------
    limit:
        Cycles that a collective may take.
    leftovers:
        Causes that right ranks may still report in the collective after the fault.
    """

    limit: int
    leftovers: frozenset[str] = frozenset()

    @property
    @abstractmethod
    def cycle(self) -> int:
        """Cycles so far."""

    @abstractmethod
    def collective(self) -> list[Attempt]:
        """Run the collective on all ranks; read and clear its outcomes."""

    @abstractmethod
    def with_fault(self, spent: int) -> tuple[list[Attempt], set[int]]:
        """Run the collective with the fault; return its outcomes and the ranks whose hosts aborted.

        Without a fault it takes *spent* cycles.
        """

    @abstractmethod
    def recover(self) -> str | None:
        """Recover as documented; return why the system did not come to rest, or None."""

    def promised(self, attempts: Sequence[Attempt]) -> list[str]:
        """Promises of this system, beyond the general rule, that the outcomes of the collective
        with the fault break."""
        return []


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of systems, as the bench sees it.

    Members
    -------
    name:
        Name on the command line.
    classes:
        Classes of runs: `CLEAN` and faults.
    engines, clean, per_class:
        Default numbers of configurations, of runs without a fault, and of runs of each other class.
    least:
        Minima of these three for a valid result.
    draw_engines:
        Draws so many different configurations.
    draw_case:
        Draws a case of a class with one of them; None if they do not fit together.
    collective:
        Names the collective of a case, in a word.
    run:
        Runs a case.
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
    """Draw cases of each class, as many as *classes* says, with the engines in turn."""
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
    """Run a clean collective, one with the fault, and a clean one again.

    *errors* count as violations: the system raises them when a rule of its ports is broken, or when
    it does not come to rest.
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
