"""The demonstration: a real training job and ResNet-50's gradients, reduced by RTL."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from gen.synth import synthesize
from gen.verilog import emit
from hw.ace.config import preset
from hw.ace.engine import AceEngine
from sim.demo.resnet import LayerResult, Measurement, gradient_sizes, measure_layers
from sim.demo.summary import Hardware, Training, Utilisation
from sim.describe.collective import (
    CollectiveConfig,
    LinkConfig,
    RunConfig,
    SystemConfig,
    TopologyConfig,
)
from sim.learning.training import gradient_size, load_digits, train
from sim.results.cells import cells_table
from sim.results.table import Table
from sim.rtl.ace_ring import AceRing
from sim.rtl.collective import Outcome, make_cluster, run_collective
from sim.workload.astra_text import shipped

__all__ = [
    "Step",
    "demo_system",
    "run_hardware",
    "run_layers",
    "run_training",
    "synthesis_in_background",
]

Floats: TypeAlias = npt.NDArray[np.float32]
Step: TypeAlias = Callable[[str], AbstractContextManager[Callable[[float], None]]]
"""Announces a piece of work; inside, a function takes the share that is done."""

# A node of a two-dimensional torus, with the adders and FSMs that one ring through it can use.
PRESET = "wide"
ENGINE = replace(preset(PRESET), alus=2, fsms=4)
ENGINE_NAME = f"{PRESET} with 2 ALUs and 4 FSMs"
STEPS = 60
LAYERS_BUDGET_S = 20.0
SYNTHESIZED_PRESET = "test"
TARGET = "xcup"
LARGEST_BLOCKS = 12


def demo_system() -> SystemConfig:
    """Four engines on a ring that lies in a 2 x 2 torus; links of 90 cycles."""
    return SystemConfig(
        topology=TopologyConfig(kind="torus", shape=(2, 2)),
        preset=ENGINE_NAME,
        engine=ENGINE,
        link=LinkConfig(latency_cycles=90),
        run=RunConfig(threads=min(2, os.cpu_count() or 1)),
    )


@contextmanager
def synthesis_in_background() -> Iterator[Callable[[], Table]]:
    """Synthesize the smallest engine in another process; yields a function that waits for it."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        yield pool.submit(_cells).result


def _cells() -> Table:
    engine = AceEngine(preset(SYNTHESIZED_PRESET))
    report = synthesize(engine, name=f"ace_{SYNTHESIZED_PRESET}", target=TARGET)
    return cells_table(report, largest=LARGEST_BLOCKS)


def run_training(system: SystemConfig, step: Step, *, steps: int = STEPS) -> Training:
    """Train twice, with gradients reduced by RTL and by numpy in the same order."""
    with step("loading the handwritten digits"):
        digits = load_digits()
    with step(f"compiling the engine, {system.preset} (kept in the cache)"):
        AceRing.compiled(system.engine)
    workers = system.topology.size
    cluster = make_cluster(
        replace(system, collective=CollectiveConfig(elements=gradient_size())),
    )
    cycles = 0

    def by_rtl(vectors: list[Floats]) -> list[Floats]:
        nonlocal cycles
        sums = cluster.all_reduce(vectors)
        assert cluster.last_run is not None
        cycles += cluster.last_run.cycles
        return sums

    def by_numpy(vectors: list[Floats]) -> list[Floats]:
        return [cluster.golden(vectors)] * workers

    with step(f"training {workers} workers, {steps} steps, gradients reduced by RTL") as report:
        started = time.perf_counter()
        rtl = train(
            by_rtl, digits, workers=workers, steps=steps, on_step=lambda n: report(n / steps)
        )
        wall_s = time.perf_counter() - started
    with step("training again, gradients reduced by numpy in the same order") as report:
        numpy = train(
            by_numpy, digits, workers=workers, steps=steps, on_step=lambda n: report(n / steps)
        )
    return Training(by_rtl=rtl, by_numpy=numpy, cycles=cycles, wall_s=wall_s)


def run_layers(
    system: SystemConfig, step: Step, *, budget_s: float = LAYERS_BUDGET_S
) -> tuple[Sequence[LayerResult], Utilisation]:
    """All-reduce the gradients of ResNet-50's layers; also the links' load during the largest."""
    outcomes: dict[int, Outcome] = {}

    def simulate(size_bytes: int) -> Measurement:
        config = replace(system, collective=CollectiveConfig(elements=size_bytes // 4))
        outcome = outcomes[size_bytes] = run_collective(config)
        return Measurement(
            cycles=outcome.cycles,
            link_share=outcome.link_share,
            exact=outcome.exact,
            wall_s=outcome.wall_s,
        )

    sizes = gradient_sizes(shipped("resnet50"))
    with step("all-reducing the gradients of ResNet-50's layers on RTL") as report:
        results = measure_layers(sizes, simulate, budget_s=budget_s, progress=report)
    largest = max(outcomes)
    outcome = outcomes[largest]
    what = f"All-reduce of {largest / 1e6:.2f} MB on {system.topology.size} RTL endpoints"
    return results, Utilisation(
        links=outcome.links, interval_cycles=outcome.interval_cycles, what=what
    )


def run_hardware(step: Step, folder: Path, cells: Callable[[], Table]) -> list[Hardware]:
    """Write the demonstration's engine and the smallest one as Verilog, the latter with *cells*."""
    designs = {
        "ace_demo": (ENGINE, None),
        f"ace_{SYNTHESIZED_PRESET}": (preset(SYNTHESIZED_PRESET), cells),
    }
    hardware = []
    for top, (config, wait) in designs.items():
        with step(f"emitting {top} as Verilog"):
            emitted = emit(AceEngine(config), name=top, header=config.describe())
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / f"{top}.v"
            path.write_text(emitted.text, encoding="utf-8")
        table = None
        if wait is not None:
            with step(f"synthesizing {top} for {TARGET} (in the background since the start)"):
                table = wait()
        hardware.append(
            Hardware(
                top=top, verilog=path, lines=emitted.lines, modules=emitted.modules, cells=table
            )
        )
    return hardware
