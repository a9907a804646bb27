# SPDX-License-Identifier: Apache-2.0
"""ACE at ISCA 2021, Figs. 5, 9a and 9b, from the cycle model of the engine in RTL, beat by beat.

The published engine, with a partition for each phase, and its size in place, where a chunk keeps
one slot from load to store; and one that fills the links. One engine stands for all 64 nodes.
"""

from dataclasses import replace
from functools import cache
from itertools import pairwise
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench._papers_torus import (
    HEURISTIC,
    IN_PLACE_BY_COLOUR,
    LINKS_GB_PER_S,
    PUBLISHED,
    TORUS,
    Engine,
    Use,
    torus_of,
    use_of,
)
from experiments.figure import Assumption, Context, Curves, Figure, Row, statement
from experiments.systems import ISCA21_CYCLE_S, ONE_IMAGE
from experiments.training import Outcome, outcome
from gen.table import Column, Table
from hw.ace.config import ELEMENT_BYTES
from sim.results.breakdown import break_down
from sim.run import run
from sim.workload.astra_text import Workload, render, shipped

__all__ = ["fig5_cycles", "fig9a_cycles", "fig9b_cycles"]

SIZE = 16 << 20
BETWEEN_CYCLES = 500
MEMORY = (32, 48, 64, 80, 96, 112, 128, 144, 159)
FASTER = (176, 192, 208, 224, 256, 288, 318)
"""Beyond what two ports of the published size carry."""
SRAM = (1, 2, 4, 8)
FSMS = (4, 8, 16)
CHOSEN = (4, 16)
ALIKE = 0.002
"""Speeds that differ by less are the same."""
SLOT_BYTES = 16 << 10
"""Least slot of a chunk that keeps it: a block of each of 64 nodes is a packet."""
NAMES = {
    "published": PUBLISHED,
    "published size, in place": IN_PLACE_BY_COLOUR,
    "16 banks, 4 memory ports, in place": TORUS,
}

ASSUMPTIONS = (
    Assumption("4x4x4 of 200, 25 and 25 GB/s; 94 % of a link is payload", "stated", "Table V"),
    Assumption("links between packages take 500 cycles, within one 90", "stated", "Table V"),
    Assumption(
        "a partition for each phase and one for results, 16 FSMs divided evenly", "stated",
        "section IV",
    ),
    Assumption("32 slots in the partitions of slow phases, 24 and 16 in the others", "chosen"),
    Assumption("in place, chunks take two orders of dimensions", "chosen"),
    Assumption("a 200 GB/s link is two lanes of 64 B at 1.245 GHz, 159 GB/s", "chosen"),
    Assumption("one all-reduce of 16 MB; rates are of its middle half", "chosen"),
)


@cache
def _use(name: str, memory: float | None, sram: int, fsms: int) -> Use:
    engine = NAMES.get(name, HEURISTIC)
    config = engine.config
    changes: dict[str, Any] = {"sram_bytes": sram << 20, "fsms": fsms}
    if config.phased:
        changes["partition_bytes"] = tuple(
            each * (sram << 20) // config.sram_bytes for each in config.partition_bytes
        )
    else:
        changes["contexts"] = min(config.contexts, (sram << 20) // (fsms * SLOT_BYTES))
    return use_of(
        run(
            torus_of(
                engine, level="cycles", size_bytes=SIZE, between_cycles=BETWEEN_CYCLES,
                memory_gb_per_s=memory, changes=changes,
            )
        )
    )


def fig5_cycles(context: Context) -> Figure:
    """Payload injected over the memory bandwidth, of reads and of writes each."""
    series = {}
    slower = []
    for name, engine in NAMES.items():
        steps = MEMORY + FASTER if engine is TORUS else MEMORY
        series[name] = [
            (float(memory), _use(name, memory, *CHOSEN).whole_gb_per_s) for memory in steps
        ]
        slower += list(pairwise(speed for _, speed in series[name]))
        context.progress(1 / len(NAMES))
    published, in_place, improved = (_use(name, None, *CHOSEN) for name in NAMES)
    heuristic = _use("heuristic", None, *CHOSEN)
    unit, share = published.limit
    rows = [
        Row(
            setting="published organisation and size: payload injected, middle of the run",
            ours=published.injected_gb_per_s, unit="GB/s",
            why=f"{unit} is busy for {100 * share:.0f} % of the time: 4 banks with a port of 64 B "
            "each move what is read for links, sums, copies and memory, and what is written.",
        ),
        Row(
            setting="the same with partitions by bandwidth times chunk size",
            ours=heuristic.injected_gb_per_s, unit="GB/s",
            why="Four chunks at a time in a slow phase do not fill links of 500 cycles; "
            f"{heuristic.limit[0]} is busy for {100 * heuristic.limit[1]:.0f} % of the time.",
        ),
        Row(
            setting="published size, a chunk keeps its slot: payload injected",
            ours=in_place.injected_gb_per_s, unit="GB/s",
            why=f"{in_place.limit[0]} is busy for {100 * in_place.limit[1]:.0f} % of the time.",
        ),
        Row(
            setting="16 banks that read and write at once, in place: payload injected",
            ours=improved.injected_gb_per_s, unit="GB/s",
            why=f"Links allow {LINKS_GB_PER_S:.0f} GB/s; the busiest part is {improved.limit[0]}.",
        ),
        statement(
            f"more memory bandwidth never makes a run slower by {100 * ALIKE:g} %",
            below=[((1 - ALIKE) * less, more) for less, more in slower],
            why=f"At most by {100 * max(1 - more / less for less, more in slower):.2f} %, where "
            "memory limits nothing and chunks meet in another order.",
        ),
    ]
    return Figure(
        rows=rows,
        title="Fig. 5: from the cycle model of the engine",
        curves=[
            Curves(
                title="ISCA'21 Fig. 5, by cycles: all-reduce of 16 MB on 4x4x4",
                x="memory bandwidth for communication (GB/s)",
                y="vector over time (GB/s)",
                series=series,
            )
        ],
        assumptions=ASSUMPTIONS,
    )


def _fsms(engine: Engine) -> tuple[int, ...]:
    """Numbers of FSMs that an engine is tried with: those of a phase are a multiple of its four
    paths."""
    return CHOSEN[1:] if engine.config.phased else FSMS


def fig9a_cycles(context: Context) -> Figure:
    """Speed of an all-reduce over SRAM size and number of FSMs."""
    tables, curves, rows = [], [], []
    for name, engine in NAMES.items():
        numbers = _fsms(engine)
        speeds = {
            (sram, fsms): _use(name, None, sram, fsms).whole_gb_per_s
            for sram in SRAM for fsms in numbers
        }
        table = Table(
            f"{name}: vector over time (GB/s)",
            (Column("sram_bytes", "SRAM", "MiB", 0), *(Column(f"fsms_{f}", f"{f} FSMs", "", 1)
                                                      for f in numbers)),
        )
        for sram in SRAM:
            table.add(sram << 20, *(speeds[sram, fsms] for fsms in numbers))
        tables.append(table)
        base = speeds[CHOSEN]
        why = [f"2 MB: {100 * (speeds[2, 16] / base - 1):+.1f} %"]
        if 8 in numbers:
            why.append(f"8 FSMs: {100 * (speeds[4, 8] / base - 1):+.1f} %")
        rows.append(
            Row(
                setting=f"{name}: 8 MB instead of 4", ours=100 * (speeds[8, 16] / base - 1),
                unit="%", why="; ".join(why) + ".",
            )
        )
        if len(numbers) > 1:
            curves.append(
                Curves(
                    title=f"ISCA'21 Fig. 9a, by cycles: {name}",
                    x="FSMs", y="relative to 4 MB, 16 FSMs",
                    series={
                        f"{sram} MB": [(f, speeds[sram, f] / base) for f in numbers]
                        for sram in SRAM
                    },
                )
            )
        context.progress(1 / len(NAMES))
    return Figure(
        title="Fig. 9a: from the cycle model of the engine",
        rows=rows, tables=tables, curves=curves,
        assumptions=(
            *ASSUMPTIONS,
            Assumption("contexts in place: as many as have slots of 16 KiB, at most those of the "
                       "preset", "chosen"),
            Assumption("partitions in proportion to the SRAM, with as many slots", "chosen"),
        ),
    )


TRAINED = (4, 8, 4)
HALF = 0.5
"""FP16 gradients of a file in FP32."""


def _padded(workload: Workload, step: int) -> Workload:
    """Gradients of FP16, rounded up to whole beats of all banks and nodes."""
    layers = []
    for layer in workload.layers:
        gradient = layer.weight_gradient
        size = -(-int(HALF * gradient.size_bytes) // step) * step
        layers.append(replace(layer, weight_gradient=replace(gradient, size_bytes=size)))
    return replace(workload, layers=tuple(layers))


@cache
def _resnet50() -> Outcome:
    """Two iterations on the published engine, one for all nodes."""
    nodes, config = prod(TRAINED), PUBLISHED.config
    step = nodes * config.lanes * config.banks * ELEMENT_BYTES
    described = torus_of(
        PUBLISHED, level="cycles", size_bytes=step, between_cycles=BETWEEN_CYCLES, shape=TRAINED,
        changes={"max_nodes": nodes},
    )
    with TemporaryDirectory() as folder:
        path = Path(folder) / "resnet50.txt"
        path.write_text(render(_padded(shipped("resnet50"), step)))
        done = run(
            described
            | {
                "workload": {"file": str(path), "cycle_s": ISCA21_CYCLE_S},
                "run": {**described["run"], "passes": 2},
                "host": {"wait": "all"},
            }
        )
    return outcome(break_down(done.record, done.job))


def fig9b_cycles(context: Context) -> Figure:
    """Share of forward and backward passes in which the engine has a collective to work on."""
    found = _resnet50()
    forward, backward = found.active_forward, found.active_backward
    return Figure(
        title="Fig. 9b: ResNet-50 on the cycle model of the engine",
        rows=[
            statement(
                "ResNet-50: forward pass, below 1 %", below=[(forward, 0.01)],
                why=f"{100 * forward:.2f} % of the forward compute time.",
            ),
            statement(
                "ResNet-50: backward pass, more than forward, below 100 %",
                below=[(forward, backward), (backward, 1)],
                why=f"{100 * backward:.1f} % of the backward compute time. Hosts start an "
                "all-reduce for each layer and wait for all at the end of the iteration.",
            ),
            Row(setting="two iterations, published engine", ours=found.total_ms, unit="ms"),
        ],
        assumptions=(
            *ASSUMPTIONS[:5],
            ONE_IMAGE,
            Assumption("4x8x4 NPUs, two iterations, first layers' gradients first", "chosen"),
            Assumption(
                "FP16 gradients are moved as half the bytes, rounded up to 32 KiB, so that all "
                "nodes are alike", "chosen",
            ),
        ),
    )
