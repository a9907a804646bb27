# SPDX-License-Identifier: Apache-2.0
"""Complete exploration of a finite transition system, breadth first."""

from array import array
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from random import Random

import numpy as np

__all__ = ["Exploration", "Violation", "explore", "wander"]


class Violation(Exception):
    """Raised by a model when an action breaks one of its rules."""


@dataclass
class Exploration:
    """What was found.

    ``fault`` is None if all is well, else what is wrong, and ``trace`` is a shortest run that leads
    there. ``states`` and ``steps`` are counts; ``depth`` is the length of the longest shortest run.
    """

    states: int = 0
    steps: int = 0
    depth: int = 0
    fault: str | None = None
    trace: list[str] = field(default_factory=list)

    def report(self) -> str:
        """The counterexample, one action a line."""
        lines = [f"{n:3}  {action}" for n, action in enumerate(self.trace, 1)]
        return "\n".join([*lines, f"  => {self.fault}"])


def explore(
    initial: Hashable,
    successors: Callable[[Hashable], Iterable[tuple[str, Hashable]]],
    is_final: Callable[[Hashable], bool],
    *,
    limit: int = 20_000_000,
) -> Exploration:
    """Visit every state that can be reached from *initial*, whatever order actions take.

    Three things are checked. No action raises `Violation`; a state without successors is final and
    a final one has none; and there is no cycle, so that every run, fair or not, ends, and ends in a
    final state.

    Raises
    ------
    RuntimeError
        If there are more than *limit* states.
    """
    found = Exploration()
    number = {initial: 0}
    order = [initial]
    sources, targets = array("q"), array("q")
    level = {"end": 1, "depth": 0}

    def trace_to(index: int, last: str | None = None) -> list[str]:
        # Parents are found again from the recorded steps: the first step into a state made it.
        actions = [] if last is None else [last]
        parents: dict[int, int] = {}
        for source, target in zip(sources, targets):
            parents.setdefault(target, source)
        while index:
            parent = parents[index]
            state = order[index]
            actions.append(next(a for a, s in successors(order[parent]) if s == state))
            index = parent
        return actions[::-1]

    index = 0
    while index < len(order):
        if index == level["end"]:
            level = {"end": len(order), "depth": level["depth"] + 1}
        state = order[index]
        ways = 0
        try:
            for _, after in successors(state):
                ways += 1
                target = number.get(after)
                if target is None:
                    target = number[after] = len(order)
                    order.append(after)
                sources.append(index)
                targets.append(target)
        except Violation as error:
            found.fault, found.trace = str(error), trace_to(index)
            break
        if (ways == 0) != is_final(state):
            found.fault = "deadlock" if ways == 0 else "goes on after the end"
            found.trace = trace_to(index)
            break
        if len(order) > limit:
            raise RuntimeError(f"more than {limit} states")
        index += 1
    found.states, found.steps, found.depth = len(order), len(targets), level["depth"]
    if found.fault is None and _has_cycle(len(order), sources, targets):
        found.fault = "livelock: a run need not end"
    return found


def wander(
    initial: Hashable,
    successors: Callable[[Hashable], Iterable[tuple[str, Hashable]]],
    is_final: Callable[[Hashable], bool],
    *,
    runs: int,
) -> Exploration:
    """Follow *runs* random runs from *initial* to their ends, or to the first fault; for systems
    that are too large to visit completely. ``states`` counts those that were passed."""
    found = Exploration()
    for seed in range(runs):
        rng, state = Random(seed), initial
        found.trace = []
        while found.fault is None:
            found.states += 1
            try:
                ways = list(successors(state))
            except Violation as error:
                found.fault = str(error)
                break
            if (not ways) != is_final(state):
                found.fault = "goes on after the end" if ways else "deadlock"
            if not ways:
                break
            action, state = rng.choice(ways)
            found.steps += 1
            found.trace.append(action)
        found.depth = max(found.depth, len(found.trace))
        if found.fault is not None:
            return found
    found.trace = []
    return found


def _has_cycle(states: int, sources: array, targets: array) -> bool:
    """Whether some state can follow itself: take away states without predecessors until none."""
    source = np.array(sources, dtype=np.int64)  # ascending: states are expanded in order
    target = np.array(targets, dtype=np.int64)
    first = np.searchsorted(source, np.arange(states + 1))
    incoming = np.bincount(target, minlength=states)
    removed = 0
    front = np.flatnonzero(incoming == 0)
    while len(front):
        removed += len(front)
        counts = first[front + 1] - first[front]
        offsets = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        reached = target[np.repeat(first[front], counts) + offsets]
        np.subtract.at(incoming, reached, 1)
        reached = np.unique(reached)
        front = reached[incoming[reached] == 0]
    return removed != states
