# SPDX-License-Identifier: Apache-2.0
"""The torus of the ACE papers, and what engines inject into it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from hw.ace.config import PRESETS, AceConfig
from sim.describe.build import build
from sim.describe.system import describe
from sim.results.network import middle_shares, utilisation
from sim.run import run
from sim.runs.engines import run_on_engines
from sim.runs.result import Run

__all__ = [
    "CLOCK_HZ", "HEURISTIC", "IN_PLACE", "IN_PLACE_BY_COLOUR", "LINKS_GB_PER_S", "PUBLISHED",
    "PUBLISHED_LINKS_GB_PER_S",
    "TORUS", "WIDER", "Engine", "Use", "papers_torus", "run_both", "torus_of", "use_of",
]

CLOCK_HZ = 1.245e9
BUS_BYTES = 64
LANES = 2
"""Of the 200 GB/s links: a port carries 79.7 GB/s, two all but what a run needs there (160.2)."""
BETWEEN_BYTES_PER_S = 25e9
SIZE = 4
CHUNK_BYTES = 64 << 10
WITHIN_CYCLES = 90
HEADED = 272 / 256
"""A packet with its header over its payload."""


def _links_bytes_per_s() -> float:
    """Payload that a node must inject at the bound: dimensions of slow links carry least if every
    chunk is reduced in the fast one first, and halve the rest between them."""
    parts = np.array([1, 1 / SIZE, 1 / SIZE**2]) * (SIZE - 1) / SIZE * 2
    slow = 4 * BETWEEN_BYTES_PER_S / HEADED
    return float(parts.sum() / parts[1:].sum() * slow)


LINKS_GB_PER_S = _links_bytes_per_s() / 1e9
"""What links allow in the middle of a run, payload of a node (395)."""


def _published_links_bytes_per_s() -> float:
    """The same in the published style: both slow dimensions reduce a quarter of the vector, and
    each has links of its own."""
    parts = np.array([1, 1 / SIZE, 1 / SIZE]) * (SIZE - 1) / SIZE * 2
    return float(parts.sum() / parts[1] * 2 * BETWEEN_BYTES_PER_S / HEADED)


PUBLISHED_LINKS_GB_PER_S = _published_links_bytes_per_s() / 1e9
"""What they allow in the published style (282)."""


def _heuristic() -> dict[str, Any]:
    """Partitions of the preset isca21 in proportion to bandwidth and chunk size of their phase;
    that of results is as large as the last phase's. As many slots as chunks of 64 KiB, or what
    is left of one, fit there."""
    bandwidth = np.array([2 * 200.0, 2 * 25.0, 2 * 25.0, 2 * 200.0, 2 * 200.0])
    chunk = np.array([SIZE, 1, 1, 1, 1]) / SIZE
    weights = bandwidth * chunk
    fsms = PRESETS["isca21"].first_fsms
    sizes = (weights / weights.sum() * PRESETS["isca21"].sram_bytes // BUS_BYTES * BUS_BYTES)
    held = np.array([SIZE, 1, 1, 1, SIZE]) * (CHUNK_BYTES // SIZE)
    slots = np.maximum(1, sizes // held // fsms)
    return {
        "contexts": int(slots.max()), "partition_bytes": tuple(sizes.astype(int).tolist()),
        "partition_slots": tuple(slots.astype(int).tolist()),
    }


class Engine(NamedTuple):
    """An engine of the study: a preset with *changes*, and the style of its programs."""

    name: str
    preset: str
    changes: Mapping[str, Any]
    style: str

    @property
    def config(self) -> AceConfig:
        return replace(PRESETS[self.preset], **self.changes)


_ONE_SLOT = {
    "partitions": "slot", "phases": 0, "partition_bytes": (), "partition_slots": (), "contexts": 4,
}
_TORUS_PARTS = ("banks", "bank_ports", "alus", "memory_ports", "rx_packets", "tx_packets")
PUBLISHED = Engine("published", "isca21", {}, "enhanced")
"""A partition for each phase of the published style, with slots enough for its SRAM to be busy."""
HEURISTIC = Engine("heuristic", "isca21", _heuristic(), "enhanced")
"""Partitions as the papers size them (v1, section 4.3)."""
IN_PLACE = Engine("in place", "isca21", _ONE_SLOT, "enhanced")
"""The published size with one slot for each chunk."""
IN_PLACE_BY_COLOUR = Engine("in place, two orders", "isca21", _ONE_SLOT, "multi_colour")
"""The same, with chunks in two orders of the dimensions."""
WIDER = Engine(
    "published, wider", "isca21",
    {name: getattr(PRESETS["torus"], name) for name in _TORUS_PARTS}, "enhanced",
)
"""The published organisation with the banks, ALUs and memory ports of the preset torus."""
TORUS = Engine("torus", "torus", {}, "multi_colour")
"""The size that fills the links."""


def torus_of(
    engine: Engine, *, changes: Mapping[str, Any] | None = None, **options: Any
) -> dict[str, Any]:
    """`papers_torus` with an engine of the study, with more *changes*."""
    return papers_torus(
        engine.preset, changes={**engine.changes, **(changes or {})}, style=engine.style, **options
    )


def papers_torus(
    preset: str,
    *,
    level: str,
    size_bytes: int,
    between_cycles: int,
    shape: tuple[int, int, int] = (SIZE,) * 3,
    fold: bool = True,
    memory_gb_per_s: float | None = None,
    changes: Mapping[str, Any] | None = None,
    style: str | None = None,
) -> dict[str, Any]:
    """Description of an all-reduce on the papers' torus: two lanes of a bus within a package, 25
    GB/s and *between_cycles* from package to package. *changes* are of the preset, *style* is that
    of the endpoint unless given."""
    within = {
        "kind": "ring", "size": shape[0], "lanes": LANES,
        "bandwidth_bytes_per_s": BUS_BYTES * CLOCK_HZ, "latency_s": WITHIN_CYCLES / CLOCK_HZ,
    }
    between = [
        {
            "kind": "ring", "size": size, "bandwidth_bytes_per_s": BETWEEN_BYTES_PER_S,
            "latency_s": between_cycles / CLOCK_HZ,
        }
        for size in shape[1:]
    ]
    made: dict[str, Any] = {
        "dimension": [within, *between],
        "endpoint": {"kind": "ace", "level": level, "preset": preset, **(changes or {})},
        **({} if style is None else {"algorithm": {"style": style}}),
        "workload": {"collective": "all_reduce", "size_bytes": size_bytes},
        "run": {"passes": 1, "fold": "on" if fold else "off"},
    }
    if memory_gb_per_s is not None:
        made["memory"] = {"bandwidth_bytes_per_s": 1e9 * memory_gb_per_s}
    return made


class Use(NamedTuple):
    """The middle half of a run: payload that a node injects, and shares of links and units, 0 to 1.

    ``whole_gb_per_s``: size of the vector over the time of the whole run.
    """

    injected_gb_per_s: float
    whole_gb_per_s: float
    shares: dict[str, float]

    @property
    def limit(self) -> tuple[str, float]:
        """The busiest of links and units, and its share."""
        return max(self.shares.items(), key=lambda each: each[1])


def use_of(done: Run) -> Use:
    """Use of links, and of units where the level counts them."""
    record = done.record
    shares = middle_shares(utilisation(record, done.job))
    nodes = 1 if record.folded else record.nodes
    injected = sum(
        each.bytes_per_s * shares[f"links of dimension {each.dimension}"] for each in record.links
    )
    call = done.job.graphs[0].tasks[0].call
    assert call is not None
    return Use(injected / nodes / 1e9, call.size_bytes / done.time_s / 1e9, shares)


def run_both(description: Mapping[str, Any]) -> tuple[Run, Run]:
    """*description* in RTL, and by its cycle model from the same cycle on."""
    rtl = run({**description, "endpoint": {**description["endpoint"], "level": "rtl"}})
    assert rtl.engines is not None
    model = describe({**description, "endpoint": {**description["endpoint"], "level": "cycles"}})
    return rtl, run_on_engines(model, build(model), start_cycle=rtl.engines.begin)
