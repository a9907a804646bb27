# SPDX-License-Identifier: Apache-2.0
"""64 ACEs in RTL on a torus, all styles: bits of every node against numpy, CPU seconds of each run.

A torus of 4x4x4 nodes, none of them folded, with links of 90 and of 500 cycles: all-reduces of 4
bytes to 4 MiB a node, and a reduce-scatter and an all-gather in each style. One engine does them
all. All runs step one node at a time, not several in the lanes of vector words.

The runs of a style and a latency share a system. CPU seconds are those up to the results of all
nodes; the set-up of the system, most of which is programs written into 64 engines, counts with its
first run. The build of the native model and numpy's results do not. Runs that an interrupted bench
has left count with the seconds that they took then.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import cycle, groupby, product
from pathlib import Path
from typing import Any

import numpy as np

from bench._cases import outcomes
from bench._kept import Kept
from bench._tori import PHASES, TorusCase
from bench.options import add_campaign, bench_parser
from bench.result import result
from bench.sources import digest
from foldwire.console import print_table
from gen.table import Column, Table
from hw.ace.config import ELEMENT_BYTES
from sim.collectives.phase_order import BY_DIMENSION
from sim.hosts.command import Command
from sim.rtl.ace.ring import AceRing
from sim.rtl.driver import Request
from sim.workload.graph import CollectiveKind

__all__ = ["main"]

ROOT = Path(__file__).parents[1]
SHAPE = 4, 4, 4
STYLES = (*BY_DIMENSION, "hamiltonian")
LATENCIES = 90, 500
MIDDLE_BYTES = 256 << 10
SIZES = 4, 1 << 10, 16 << 10, MIDDLE_BYTES, 4 << 20
OTHERS = CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALL_GATHER
ENGINE = replace(
    PHASES, bus_bytes=64, packet_bytes=256, sram_bytes=1 << 20, banks=8, fsms=6, contexts=4,
    memory_ports=3, rx_packets=256, tx_packets=8,
)
"""Wide buses and few FSMs: links of 500 cycles at full rate in as few cycles as may be."""
LANES = 1
"""Eight took about twice the CPU seconds or more, at both latencies."""
TARGET_MIDDLE_CPU_S, TARGET_CPU_S, TARGET_CPU_MINUTES = 60.0, 300.0, 60.0


def main(argv: Sequence[str]) -> int:
    """Run all cells, the small ones first."""
    parser = bench_parser("torus_64", __doc__, seed="the data")
    add_campaign(parser)
    options = parser.parse_args(argv)
    kept = Kept("torus_64", f"{digest(ROOT)} {options.seed}", fresh=options.fresh)
    names = (
        "style", "collective", "bytes", "latency", "cycles", "share_pct", "correct", "cpu_s",
        "setup_s",
    )
    table = Table(
        title="64 engines in RTL on a torus of 4x4x4", columns=[Column(each) for each in names],
    )
    systems = [
        tuple(cells)
        for _, cells in groupby(_cells(), lambda each: (each.style, each.latency_cycles))
    ]
    AceRing.compiled(ENGINE, LANES)  # once, and not by two processes at a time
    runs, correct, seconds, middle, set_up = 0, 0, list[float](), list[float](), 0.0
    run = partial(_run, seed=options.seed)
    for cells, outcome in outcomes(kept, systems, run, options.processes):
        for cell, found in zip(cells, outcome["runs"], strict=True):
            runs, correct = runs + 1, correct + found["correct"]
            seconds.append(found["cpu_s"])
            set_up += found["setup_s"]
            if cell.size_bytes == MIDDLE_BYTES:
                middle.append(found["cpu_s"])
            table.add(
                cell.style, cell.collective.name.lower(), cell.size_bytes, cell.latency_cycles,
                found["cycles"], 100 * cell.bound / found["cycles"],
                "yes" if found["correct"] else "NO", found["cpu_s"], found["setup_s"],
            )
    print_table(table)
    kept.forget()
    cpu_minutes = sum(seconds) / 60
    met = (
        correct == runs and max(middle) < TARGET_MIDDLE_CPU_S
        and max(seconds) <= TARGET_CPU_S and cpu_minutes <= TARGET_CPU_MINUTES
    )
    result(
        "torus_64", runs=runs, correct=correct, worst_cpu_s=max(seconds),
        worst_256k_cpu_s=max(middle), cpu_minutes=cpu_minutes,
        setup_cpu_minutes=set_up / 60, target_cpu_s=TARGET_CPU_S,
        target_256k_cpu_s=TARGET_MIDDLE_CPU_S, target_cpu_minutes=TARGET_CPU_MINUTES,
        verdict="ok" if met else "short",
    )
    return 0


def _cells() -> list[TorusCase]:
    """All-reduces of every style, size and latency, and each other collective of every style, for
    which latencies and sizes but the largest take turns."""
    cell = partial(TorusCase, shape=SHAPE, engine=ENGINE)
    cells = [
        cell(style=style, size_bytes=size_bytes, latency_cycles=latency)
        for size_bytes, style, latency in product(SIZES, STYLES, LATENCIES)
    ]
    turns = cycle(product(LATENCIES, SIZES[:-1]))
    for (kind, style), (latency, size_bytes) in zip(product(OTHERS, STYLES), turns):
        cells.append(
            cell(style=style, size_bytes=size_bytes, latency_cycles=latency, collective=kind)
        )
    return sorted(cells, key=lambda each: (each.style, each.latency_cycles, each.size_bytes))


def _run(cells: Sequence[TorusCase], *, seed: int) -> dict[str, Any]:
    """Cycles of each cell of a system, CPU seconds, those of a set-up, True for numpy's bits at
    every node."""
    largest = max(cells, key=lambda each: each.size_bytes)
    AceRing.compiled(largest.engine, LANES)
    began = time.process_time()
    ring = AceRing(largest.engine, largest.around, lanes=LANES)
    setup_s = time.process_time() - began
    runs = [_carry_out(ring, cell, 0.0 if n else setup_s, seed) for n, cell in enumerate(cells)]
    return {"runs": runs}


def _carry_out(ring: AceRing, cell: TorusCase, setup_s: float, seed: int) -> dict[str, Any]:
    around = cell.around
    command = Command(collective=cell.collective, elements=cell.size_bytes // ELEMENT_BYTES)
    vectors = np.random.default_rng(seed).standard_normal(
        (around.engines, command.elements), dtype=np.float32
    )
    inputs = list(vectors)
    if cell.collective is CollectiveKind.ALL_GATHER:
        inputs = [
            vector[AceRing.shard(ring.config, around, command, rank)]
            for rank, vector in enumerate(vectors)
        ]
    began = time.process_time()
    (results,) = ring.run(
        Request(inputs=inputs, collective=cell.collective, elements=command.elements)
    )
    cpu_s = setup_s + time.process_time() - began
    assert ring.last_run is not None
    correct = all(
        found.tobytes() == right.tobytes()
        for found, right in zip(results, ring.expected(command, inputs), strict=True)
    )
    return {
        "correct": correct, "cycles": ring.last_run.cycles, "cpu_s": cpu_s, "setup_s": setup_s,
    }
