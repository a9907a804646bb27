# SPDX-License-Identifier: Apache-2.0
"""RTL endpoints beside the cycle model: collectives and training iterations, bits and cycles."""

import random
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bench.options import bench_parser
from bench.result import result
from hw.ace.config import AceConfig, preset
from hw.common.axi import aligned
from sim.collectives.fsm_program import PROGRAM_ENTRY
from sim.hosts.command import Command
from sim.hosts.script import Compute, Interrupt, Issue, Step
from sim.hosts.surroundings import Surroundings
from sim.runs.job import plan_job
from sim.runs.scripts import EngineRun, Level, draw_inputs, run_engines
from sim.workload.graph import CollectiveKind, Job
from sim.workload.loops import LoopStep as LayerStep
from sim.workload.loops import TrainingLayer
from sim.workload.training import Parallelism, layers_job

CLOCK_HZ = 1e9
TARGET_MEDIAN_PCT = 1.0
TARGET_WORST_PCT = 5.0

_RING64: dict[str, Any] = {"max_nodes": 64, "program_words": 512}
# Engines that compile in seconds and are fast enough to simulate 64 of them; all support 64 nodes.
ENGINES: dict[str, AceConfig] = {
    "one FSM": replace(preset("test"), sram_bytes=64 << 10, **_RING64),
    "two FSMs": replace(
        preset("duo"), sram_bytes=128 << 10, rx_packets=32, tx_packets=4, **_RING64
    ),
    "64 bytes": replace(
        preset("duo"), bus_bytes=64, packet_bytes=256, banks=4, sram_bytes=128 << 10,
        rx_packets=32, tx_packets=4, **_RING64,
    ),
}


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One collective on one ring."""

    engine: str
    ring: Surroundings
    collective: CollectiveKind
    elements: int
    skew: int


def draw_cells(rng: random.Random, nodes: int, count: int) -> Iterator[Cell]:
    """*count* cells; every third one has random stalls, of links or of links and memories."""
    for number in range(count):
        engine = rng.choice(list(ENGINES))
        config = ENGINES[engine]
        stalls = rng.choice((0.05, 0.1, 0.2)) if number % 3 == 0 else 0.0
        yield Cell(
            engine=engine,
            ring=Surroundings(
                nodes=nodes,
                latency_cycles=rng.choice((1, 5, 20, 50, 100)),
                read_latency_cycles=rng.choice((20, 50, 150)),
                link_stalls=stalls,
                memory_stalls=stalls if number % 6 == 3 else 0.0,
                fsms=rng.randint(1, config.fsms),
                bidirectional=rng.random() < 0.7,
                seed=rng.getrandbits(32),
            ),
            collective=rng.choice(list(PROGRAM_ENTRY)),
            elements=round(2 ** rng.uniform(6, 14 if nodes == 8 else 12.5)),
            skew=rng.choice((0, 0, 300)),
        )


def run_cell(cell: Cell, threads: int) -> tuple[EngineRun, EngineRun]:
    """Run the cell on RTL and on the model."""
    config, ring = ENGINES[cell.engine], cell.ring
    command = Command(
        collective=cell.collective, elements=cell.elements, destination=aligned(4 * cell.elements)
    )
    rng = random.Random(ring.seed)
    steps: list[list[Step]] = [
        [Compute(cycles=rng.randint(0, cell.skew)), Issue(command=0), Interrupt()]
        for _ in range(ring.nodes)
    ]
    inputs = draw_inputs([command], ring.nodes, seed=ring.seed)
    rtl = run_engines("ace", config, ring, [command], steps, inputs, threads=threads)
    model = run_engines(
        "ace", config, ring, [command], steps, levels="cycles", start_cycle=rtl.begin
    )
    return rtl, model


def draw_job(rng: random.Random, keyword: str, nodes: int) -> Job:
    """Two iterations of six layers; computations last about as long as their collectives."""
    layers = []
    for number in range(6):
        size = 4 * round(2 ** rng.uniform(9, 12))
        sums = keyword == "MODEL"
        layers.append(
            TrainingLayer(
                name=f"layer {number}",
                forward=LayerStep(
                    duration_s=rng.randint(500, 4000) / CLOCK_HZ,
                    collective=CollectiveKind.ALL_GATHER if sums else None,
                    size_bytes=size // nodes // 4 * 4 if sums else 0,
                ),
                input_gradient=LayerStep(
                    duration_s=rng.randint(500, 4000) / CLOCK_HZ,
                    collective=CollectiveKind.REDUCE_SCATTER if sums else None,
                    size_bytes=size if sums else 0,
                ),
                weight_gradient=LayerStep(
                    duration_s=rng.randint(500, 4000) / CLOCK_HZ,
                    collective=None if sums else CollectiveKind.ALL_REDUCE,
                    size_bytes=0 if sums else size,
                ),
                update_s=rng.randint(0, 200) / CLOCK_HZ,
            )
        )
    return layers_job(keyword, layers, Parallelism(keyword=keyword), shape=(nodes,), passes=2)


def percent(model: EngineRun, rtl: EngineRun) -> float:
    """Error of the model's cycles, in percent of the RTL's."""
    return 100 * abs(model.cycles - rtl.cycles) / rtl.cycles


@dataclass
class Tally:
    """Totals of the comparisons, and the models' errors in percent."""

    checked: int = 0
    wrong: int = 0
    packets: int = 0
    errors: list[float] = field(default_factory=list)

    def add(self, rtl: EngineRun, error: float) -> None:
        self.checked += rtl.checked
        self.wrong += rtl.wrong
        self.packets += rtl.packets
        self.errors.append(error)


def _collectives(rng: random.Random, counts: Mapping[int, int], threads: int) -> Tally:
    """Run random cells; *counts* maps numbers of NPUs to numbers of cells."""
    tally = Tally()
    print("collectives: all NPUs in RTL beside all models; cycles from the first register write")
    print("to the last interrupt. The model draws the stalls of links and memories (*) from the")
    print("same seed as the co-simulation.")
    print(
        "NPUs engine   collective      elements link mem  FSMs  ways skew stalls   bits     RTL"
        "   model   error  wall: RTL  model"
    )
    for nodes, count in counts.items():
        for cell in draw_cells(rng, nodes, count):
            rtl, model = run_cell(cell, threads)
            tally.add(rtl, error := percent(model, rtl))
            ring = cell.ring
            print(
                f"{nodes:4} {cell.engine:8} {cell.collective.name.lower():14} {cell.elements:9} "
                f"{ring.latency_cycles:4} {ring.read_latency_cycles:4} {ring.fsms:4} "
                f"{2 if ring.bidirectional else 1:5} {cell.skew:4} {ring.link_stalls:5.2f}"
                f"{'*' if ring.memory_stalls else ' '} {'NO' if rtl.wrong else 'equal':>6} "
                f"{rtl.cycles:7} {model.cycles:7} "
                f"{error:6.2f}% "
                f"{rtl.wall_s:9.2f}s {model.wall_s:5.2f}s",
                flush=True,
            )
    return tally


def _training(rng: random.Random, seed: int, threads: int) -> Tally:
    """Training with 8 RTL NPUs, and with one or two among models."""
    tally = Tally()
    print("training: two iterations of six layers; time from the first task to the last one")
    print("NPUs in RTL   engine   loop     cycles  model   error   bits  packets compared")
    for engine, keyword, nodes, ranks in (
        ("one FSM", "DATA", 8, None),
        ("two FSMs", "DATA", 8, None),
        ("two FSMs", "MODEL", 8, None),
        ("two FSMs", "DATA", 8, (2, 5)),
        ("one FSM", "DATA", 64, (17,)),
        ("two FSMs", "MODEL", 64, (40,)),
    ):
        config = ENGINES[engine]
        ring = Surroundings(nodes=nodes, latency_cycles=20, seed=seed)
        plan = plan_job(draw_job(rng, keyword, nodes), "ace", config, ring, clock_hz=CLOCK_HZ)
        inputs = draw_inputs(plan.commands, nodes, seed=seed)
        model = run_engines(
            "ace", config, ring, plan.commands, plan.steps, levels="cycles"
        )
        levels: list[Level] = [
            "rtl" if ranks is None or n in ranks else "cycles" for n in range(nodes)
        ]
        rtl = run_engines(
            "ace", config, ring, plan.commands, plan.steps, inputs,
            levels=levels, threads=threads,
        )
        tally.add(rtl, error := percent(model, rtl))
        print(
            f"{nodes if ranks is None else len(ranks):2} of {nodes:4}   {engine:8} {keyword:6} "
            f"{rtl.cycles:8} {model.cycles:7} {error:6.2f}% {'NO' if rtl.wrong else 'equal':>6} "
            f"{rtl.packets:8}",
            flush=True,
        )
    return tally


def main(argv: Sequence[str]) -> int:
    """Collectives on 8 and 64 NPUs, then training with 8 RTL NPUs and with one among 63 models."""
    parser = bench_parser("cosim", __doc__, seed="the cells")
    parser.add_argument("--cells-8", type=int, default=24, help="collectives on 8 NPUs")
    parser.add_argument("--cells-64", type=int, default=9, help="collectives on 64 NPUs")
    parser.add_argument("--threads", type=int, default=2, help="for the RTL (default: 2)")
    options = parser.parse_args(argv)
    rng = random.Random(options.seed)
    cells = _collectives(rng, {8: options.cells_8, 64: options.cells_64}, options.threads)
    print()
    training = _training(rng, options.seed, options.threads)
    wrong = cells.wrong + training.wrong
    median, worst = statistics.median(cells.errors), max(cells.errors)
    train_worst = max(training.errors)
    print()
    print(
        f"{cells.checked + training.checked} results of RTL nodes compared with numpy bit for bit, "
        f"{wrong} differ; "
        f"{training.packets} packets from RTL nodes to models compared, all equal."
    )
    met = (
        wrong == 0
        and median <= TARGET_MEDIAN_PCT
        and worst <= TARGET_WORST_PCT
        and train_worst <= TARGET_WORST_PCT
    )
    result(
        "cosim",
        cells=len(cells.errors),
        correct=len(cells.errors) if wrong == 0 else 0,
        median_error_pct=median,
        worst_error_pct=worst,
        compared_cells=len(cells.errors),
        train_cells=len(training.errors),
        train_worst_error_pct=train_worst,
        target_median_pct=TARGET_MEDIAN_PCT,
        target_worst_pct=TARGET_WORST_PCT,
        verdict="ok" if met else "short",
    )
    return 0
