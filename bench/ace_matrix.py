# SPDX-License-Identifier: Apache-2.0
"""ACE on rings and tori at all levels: bits of RTL against numpy, times of the levels compared.

Cells are styles of collectives on rings and tori of 2 to 64 nodes, from 4 bytes to 4 MiB a node; a
third of them has stalls on all links and memories, of which level `events` knows nothing. The
error of the cycle model is against RTL, that of events against the cycle model. Both begin in the
same cycle, so random stalls are the same ones.
"""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, product
from math import prod
from pathlib import Path
from typing import Any

from bench._cases import outcomes
from bench._kept import Kept
from bench.options import add_campaign, bench_parser
from bench.result import result
from bench.sources import digest
from foldwire.console import print_table
from gen.table import Column, Table
from sim.collectives.phase_order import BY_DIMENSION
from sim.describe.build import build
from sim.describe.system import describe
from sim.run import run
from sim.runs.engines import run_on_engines

__all__ = ["main"]

ROOT = Path(__file__).parents[1]
STYLES = (*BY_DIMENSION, "hamiltonian")
SHAPES = ((2, 2), (4, 3), (2, 4), (4, 4), (2, 2, 2), (3, 2, 2), (4, 4, 4))
RINGS = 2, 5, 8
KINDS = "all_reduce", "reduce_scatter", "all_gather"
SIZES = 4, 1 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20
MOST_BYTES = 8 << 20
"""Of all nodes of a cell; RTL moves a MiB in some ten CPU seconds."""
STALLS = 0.1
LATENCIES_S = 16e-9, 60e-9, 200e-9
EVENTS_FROM = 16 << 10
TARGETS = {"cells": 80, "median": 0.0, "worst": 2.0, "events_median": 3.0, "events_worst": 10.0}
CLOCK_HZ = 1e9


@dataclass(frozen=True, kw_only=True)
class _Cell:
    shape: tuple[int, ...]
    style: str
    collective: str
    size_bytes: int
    latency_s: float
    stalls: float = 0.0
    partitions: bool = False

    def described(self, level: str) -> dict[str, Any]:
        """The cell as a description."""
        dims = len(self.shape)
        topology = {
            "kind": "torus" if dims > 1 else "ring", "shape": list(self.shape),
            "bandwidth_bytes_per_s": 16 * CLOCK_HZ, "latency_s": self.latency_s,
        }
        ports = 2 * dims
        organisation: dict[str, Any] = {"fsms": 2 * ports, "sram_bytes": ports * 2 << 16}
        if self.partitions:
            # Slots as large, for each of the phases of the published style.
            phases = dims + 1
            organisation = {
                "partitions": "phase", "phases": phases, "fsms": 4 * phases,
                "sram_bytes": (phases + 1) << 18,
            }
        made: dict[str, Any] = {
            "topology": topology,
            "endpoint": {
                "kind": "ace", "level": level, "preset": "duo", "ports": ports, "alus": ports,
                "contexts": 4, "max_nodes": 64, "memory_ports": 2 * dims, "banks": 16,
                "program_words": 1024, "rx_packets": 64, "tx_packets": 8, **organisation,
                "npu": {"clock_hz": CLOCK_HZ},
            },
            "workload": {"collective": self.collective, "size_bytes": self.size_bytes},
            "run": {"passes": 1},
        }
        if dims > 1:
            made["algorithm"] = {"style": self.style}
        if self.stalls and level != "events":
            made["network"] = {"stall_probability": self.stalls}
            made["memory"] = {"stall_probability": self.stalls}
        return made

    def __str__(self) -> str:
        shape = "x".join(map(str, self.shape))
        by_phase = ", by phase" if self.partitions else ""
        return f"{self.style} {shape} {self.collective} {self.size_bytes} B{by_phase}"


def main(argv: Sequence[str]) -> int:
    """Run all cells at three levels."""
    parser = bench_parser("ace_matrix", __doc__)
    add_campaign(parser)
    options = parser.parse_args(argv)
    kept = Kept("ace_matrix", digest(ROOT), fresh=options.fresh)
    table = Table(
        title="ACE at three levels",
        columns=[Column(each) for each in (
            "cell", "latency_ns", "stalls", "correct", "rtl_us", "cycles_pct", "events_pct",
        )],
    )
    correct, errors, events = 0, list[float](), list[tuple[int, float]]()
    cells = list(_cells())
    for cell, found in outcomes(kept, cells, _run, options.processes):
        correct += found["correct"]
        errors.append(100 * abs(found["cycles"] / found["rtl"] - 1))
        apart = 100 * (found["events"] / found["cycles"] - 1)
        if not cell.stalls:
            events.append((cell.size_bytes, abs(apart)))
        table.add(
            str(cell), 1e9 * cell.latency_s, cell.stalls, "yes" if found["correct"] else "NO",
            1e6 * found["rtl"], 100 * (found["cycles"] / found["rtl"] - 1), apart,
        )
    print_table(table)
    kept.forget()
    large = [error for size, error in events if size >= EVENTS_FROM]
    small = [error for size, error in events if size < EVENTS_FROM]
    median, worst = statistics.median(errors), max(errors)
    events_median = statistics.median(error for _, error in events)
    met = (
        len(cells) >= TARGETS["cells"] and correct == len(cells)
        and round(median, 1) <= TARGETS["median"] and worst <= TARGETS["worst"]
        and events_median <= TARGETS["events_median"]
        and max(large) <= TARGETS["events_worst"] and max(small) <= 2 * TARGETS["events_worst"]
    )
    result(
        "ace_matrix", cells=len(cells), correct=correct, median_error_pct=median,
        worst_error_pct=worst, events_median_pct=events_median, events_worst_pct=max(large),
        events_worst_small_pct=max(small), verdict="ok" if met else "short",
    )
    return 0


def _cells() -> Iterator[_Cell]:
    """Every style on every torus that it takes, in two sizes, rings, and the published organisation
    on every torus; the sizes in turn, and all combinations of collective, latency and stalls."""
    sizes, others = cycle(SIZES), cycle(product((0.0, STALLS, 0.0), LATENCIES_S, KINDS))
    shapes: list[tuple[int, ...]] = [(nodes,) for nodes in RINGS]

    def drawn(shape: tuple[int, ...], style: str, *, partitions: bool = False) -> _Cell:
        size_bytes = next(sizes)
        while size_bytes * prod(shape) > MOST_BYTES:
            size_bytes = next(sizes)
        stalls, latency_s, collective = next(others)
        return _Cell(
            shape=shape, style=style, collective=collective, size_bytes=size_bytes,
            latency_s=latency_s, stalls=stalls, partitions=partitions,
        )

    for shape in (*SHAPES, *shapes):
        for style in STYLES if len(shape) > 1 else ("baseline",):
            if style == "hamiltonian" and min(shape) < 3:
                continue
            for _ in range(2 if len(shape) > 1 else 3):
                yield drawn(shape, style)
    for shape in SHAPES:
        for _ in range(3):
            yield drawn(shape, "enhanced", partitions=True)


def _run(cell: _Cell) -> dict[str, Any]:
    """Seconds of the collective at each level, and True for data that are numpy's."""
    rtl = run(cell.described("rtl"))
    assert rtl.data is not None and rtl.engines is not None
    description = describe(cell.described("cycles"))
    model = run_on_engines(description, build(description), start_cycle=rtl.engines.begin)
    return {
        "correct": bool(rtl.data.exact), "rtl": rtl.time_s, "cycles": model.time_s,
        "events": run(cell.described("events")).time_s,
    }
