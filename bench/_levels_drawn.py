"""Descriptions of engines with presets, drawn at random: events against cycles, for `bench.levels`.

Sizes and latencies are log-uniform. A draw depends only on the seed and its number, and engines
take turns, so that the first N draws are a fair sample for any N. Constants of the event model are
fitted to draws with even numbers; the others are held out.
"""

import math
import random
import statistics
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench._cases import outcomes
from bench._kept import Kept
from bench.sources import digest
from sim.run import run

__all__ = ["GROUPS", "SMALL_BYTES", "Draw", "Judged", "compare", "draw", "judge"]

KIB = 1 << 10
SMALL_BYTES = 16 * KIB
"""Sizes up to this one are judged separately."""
GROUPS = ("ace", "smartnic", "push", "pull")
ACE_CLOCK_HZ, NIC_CLOCK_HZ, SWITCH_CLOCK_HZ = 1.245e9, 200e6, 25e9 / 16
_ACE_BUS = {"test": 16, "duo": 16, "ring": 64, "wide": 64}
_NIC_BUS = {"test": 32, "40g": 32, "100g": 64, "400g": 256}
_SWITCH_PORTS = {"test": 4, "8-port": 8, "16-port": 16}
_SWITCH_MOST_BYTES = 1 << 20
"""Largest size with switches, whose model simulates every cycle of every part."""

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
    most = 4 << 20 if group in ("ace", "smartnic") else _SWITCH_MOST_BYTES
    size = 4 * round(_log_uniform(rng, KIB, most) / 4)
    made = {"ace": _ace, "smartnic": _nic}.get(group, _switch)(rng, group)
    words = [group, *_words(made)]
    workload = made.setdefault("workload", {"collective": "all_reduce"})
    workload["size_bytes"] = size
    made["run"] = {"passes": 1}
    return Draw(
        number=number, group=group, size_bytes=size, text=" ".join(words), description=made
    )


def _words(made: dict[str, Any]) -> Iterator[str]:
    """Words that summarise what was drawn."""
    clock = {"ace": ACE_CLOCK_HZ, "smartnic": NIC_CLOCK_HZ}.get(
        made["endpoint"]["kind"], SWITCH_CLOCK_HZ
    )
    topology = made["topology"]
    yield f"{topology['kind']} {topology['shape'][0]}"
    yield f"link {topology['latency_s'] * clock:.0f}"
    memory = made["memory"]
    yield f"memory {memory['read_latency_s'] * clock:.0f}/{memory['write_latency_s'] * clock:.0f}"
    for table in ("endpoint", "switch", "workload"):
        for key, value in made.get(table, {}).items():
            if key not in ("kind", "mode", "max_nodes", "program_words", "regions", "clock_hz"):
                yield f"{key}={value}" if key != "preset" else str(value)


def _log_uniform(rng: random.Random, low: float, high: float) -> float:
    return math.exp(rng.uniform(math.log(low), math.log(high)))


def _cycles(rng: random.Random) -> int:
    return round(_log_uniform(rng, 10, 1000))


def _memory(rng: random.Random, clock_hz: float) -> dict[str, float]:
    return {
        "read_latency_s": _cycles(rng) / clock_hz, "write_latency_s": _cycles(rng) / clock_hz,
    }


def _ace(rng: random.Random, group: str) -> dict[str, Any]:
    preset = rng.choice(list(_ACE_BUS))
    nodes = rng.randint(2, 16)
    endpoint: dict[str, Any] = {"kind": "ace", "preset": preset}
    if nodes > 8:
        endpoint |= {"max_nodes": 16, "program_words": 512}
    if rng.random() < 0.4:
        endpoint["rx_packets"] = rng.choice((8, 32, 128, 256))
    pace = rng.choice((0.3, 0.5, 0.8)) if rng.random() < 0.3 else 1.0
    made: dict[str, Any] = {
        "topology": {
            "kind": "ring", "shape": [nodes],
            "bandwidth_bytes_per_s": pace * _ACE_BUS[preset] * ACE_CLOCK_HZ,
            "latency_s": _cycles(rng) / ACE_CLOCK_HZ,
        },
        "endpoint": endpoint,
        "memory": _memory(rng, ACE_CLOCK_HZ),
    }
    if rng.random() < 0.3:
        made["workload"] = {"collective": rng.choice(("reduce_scatter", "all_gather"))}
    return made


def _nic(rng: random.Random, group: str) -> dict[str, Any]:
    preset = rng.choice(list(_NIC_BUS))
    pace = rng.choice((0.3, 0.5, 0.8)) if rng.random() < 0.3 else 1.0
    return {
        "topology": {
            "kind": "switch", "shape": [rng.randint(2, 16)],
            "bandwidth_bytes_per_s": pace * _NIC_BUS[preset] * NIC_CLOCK_HZ,
            "latency_s": _cycles(rng) / 2 / NIC_CLOCK_HZ,
        },
        "endpoint": {"kind": "smartnic", "preset": preset, "compress": rng.random() < 0.5},
        "memory": _memory(rng, NIC_CLOCK_HZ),
    }


def _switch(rng: random.Random, mode: str) -> dict[str, Any]:
    nodes = rng.randint(2, 16)
    fits = [name for name, ports in _SWITCH_PORTS.items() if ports >= nodes]
    preset = rng.choice(fits)
    buffer = round(_log_uniform(rng, 2, 64))
    switch: dict[str, Any] = {
        "preset": preset, "mode": mode, "clock_hz": SWITCH_CLOCK_HZ,
        "entries": 2 ** rng.randint(0, 5), "buffer_packets": buffer, "credits": buffer,
    }
    tree = nodes % 2 == 0 and nodes >= 4 and rng.random() < 0.25
    topology: dict[str, Any] = {
        "kind": "fat_tree" if tree else "switch", "shape": [nodes],
        "bandwidth_bytes_per_s": 16 * SWITCH_CLOCK_HZ, "latency_s": _cycles(rng) / SWITCH_CLOCK_HZ,
    }
    made: dict[str, Any] = {
        "topology": topology,
        "endpoint": {
            "kind": "in_switch", "read_ahead": 2 ** rng.randint(0, 6),
            "waves": 2 ** rng.randint(1, 5),
        },
        "switch": switch,
        "memory": _memory(rng, SWITCH_CLOCK_HZ),
    }
    if tree:
        switch |= {"preset": "16-port", "regions": 8}
        made["dimension"] = [{
            "group": nodes // 2, "lanes": 1, "router_latency_s": 0.0,
            "trunk_bandwidth_bytes_per_s": nodes // 2 * 16 * SWITCH_CLOCK_HZ,
        }]
    return made


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
