# SPDX-License-Identifier: Apache-2.0
"""Descriptions of engines with presets, drawn at random: events against cycles, for `bench.levels`.

Sizes and latencies are log-uniform. A draw depends only on the seed and its number, and engines
take turns, so that the first N draws are a fair sample for any N. Constants of the event model are
fitted to draws with even numbers; the others are held out.
"""

import random
import statistics
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench._cases import outcomes
from bench._kept import Kept
from bench._levels_cases import KIB, EngineLevels, log_uniform
from bench.records.registered import modules
from bench.sources import digest
from sim.run import run

__all__ = ["GROUPS", "SMALL_BYTES", "Draw", "Judged", "compare", "draw", "judge"]

SMALL_BYTES = 16 * KIB
"""Sizes up to this one are judged separately."""
ENGINES: dict[str, EngineLevels] = {
    group: each.LEVELS for each in modules("levels").values() for group in each.LEVELS.groups
}
GROUPS = tuple(ENGINES)
_SOURCES = (
    "hw", "sim/cycles", "sim/collectives/fsm_program.py", "sim/collectives/partition.py",
    "sim/engines/switches.py", "sim/endpoint/switch_hardware.py", "sim/endpoint/latencies.json",
    "sim/endpoint/switch_system.py",
)
"""Sources that the cycles of a description depend on; time-outs follow from latencies."""


@dataclass(frozen=True, kw_only=True)
class Draw:
    """A description, its group and size; ``even``: constants may be fitted to it."""

    number: int
    group: str
    size_bytes: int
    text: str
    description: dict[str, Any]

    @property
    def even(self) -> bool:
        return self.number % 2 == 0

    @property
    def small(self) -> bool:
        return self.size_bytes <= SMALL_BYTES


def draw(seed: int, number: int) -> Draw:
    """Draw the description with this number."""
    rng = random.Random(f"levels {seed} {number}")
    group = GROUPS[number // 2 % len(GROUPS)]
    engine = ENGINES[group]
    size = 4 * round(log_uniform(rng, KIB, engine.most_bytes) / 4)
    made = engine.drawn(rng, group)
    words = [group, *_words(made, engine.clock_hz)]
    workload = made.setdefault("workload", {"collective": "all_reduce"})
    workload["size_bytes"] = size
    made["run"] = {"passes": 1}
    return Draw(
        number=number, group=group, size_bytes=size, text=" ".join(words), description=made
    )


def _words(made: dict[str, Any], clock: float) -> Iterator[str]:
    """Words that summarise what was drawn."""
    topology = made["topology"]
    yield f"{topology['kind']} {topology['shape'][0]}"
    yield f"link {topology['latency_s'] * clock:.0f}"
    memory = made["memory"]
    yield f"memory {memory['read_latency_s'] * clock:.0f}/{memory['write_latency_s'] * clock:.0f}"
    for table in ("endpoint", "switch", "workload"):
        for key, value in made.get(table, {}).items():
            if key not in ("kind", "mode", "max_nodes", "program_words", "regions", "clock_hz"):
                yield f"{key}={value}" if key != "preset" else str(value)


def _at(description: dict[str, Any], level: str) -> float:
    made = deepcopy(description)
    made["endpoint"]["level"] = level
    return run(made, source="bench").time_s


def _by_cycles(description: dict[str, Any]) -> dict[str, Any]:
    return {"time_s": _at(description, "cycles")}


def compare(
    draws: Sequence[Draw], *, processes: int = 2, folder: Path | None = None
) -> Iterator[tuple[Draw, float]]:
    """Yield each draw with the error of its time as events, in percent; positive: too slow.

    Times of cycle models are cached by description and sources.
    """
    root = Path(__file__).resolve().parent.parent
    kept = Kept("levels_cycles", digest(root, _SOURCES), folder)
    descriptions = [each.description for each in draws]
    for each, (_, found) in zip(draws, outcomes(kept, descriptions, _by_cycles, processes)):
        yield each, 100 * (_at(each.description, "events") / found["time_s"] - 1)


@dataclass(frozen=True, kw_only=True)
class Judged:
    """Absolute errors in percent: the median of all draws; above 16 KiB the worst of rings and
    pushes, and the worst of pulls; the worst of smaller sizes."""

    median: float
    worst: float
    pull_worst: float
    small_worst: float


def judge(errors: Sequence[tuple[Draw, float]]) -> Judged:
    """Summarise the errors of draws."""

    def worst(*, small: bool, pull: bool | None = None) -> float:
        return max(
            (
                abs(error)
                for each, error in errors
                if each.small == small and pull in (None, each.group == "pull")
            ),
            default=0.0,
        )

    return Judged(
        median=statistics.median(abs(error) for _, error in errors),
        worst=worst(small=False, pull=False),
        pull_worst=worst(small=False, pull=True),
        small_worst=worst(small=True),
    )
