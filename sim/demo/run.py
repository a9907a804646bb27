"""The demonstration: a real training job and ResNet-50's gradients, reduced by RTL."""

import os
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from gen.synth import synthesize
from gen.verilog import emit
from hw.ace.config import preset
from hw.ace.engine import AceEngine
from sim.collectives.driver import compiled_engine
from sim.config import CollectiveConfig, LinkConfig, RunConfig, SystemConfig, TopologyConfig
from sim.demo.resnet import LayerResult, Measurement, gradient_sizes, measure_layers
from sim.demo.summary import Hardware, Training, Utilisation
from sim.demo.training import gradient_size, load_digits, train
from sim.report.cells import cells_table
from sim.run import Outcome, make_cluster, run_collective
from sim.workload.astra_text import shipped

__all__ = ["Step", "demo_system", "run_hardware", "run_layers", "run_training"]

Floats: TypeAlias = npt.NDArray[np.float32]
Step: TypeAlias = Callable[[str], AbstractContextManager[Callable[[float], None]]]
"""Announces a piece of work; inside, a function takes the share that is done."""

PRESET = "wide"
STEPS = 60
LAYERS_BUDGET_S = 25.0
SYNTHESIZED_PRESET = "test"
TARGET = "xcup"


def demo_system() -> SystemConfig:
    """Four engines on a ring that lies in a 2 x 2 torus; links of 90 cycles."""
    return SystemConfig(
        topology=TopologyConfig(kind="torus", shape=(2, 2)),
        preset=PRESET,
        engine=preset(PRESET),
        link=LinkConfig(latency_cycles=90),
        run=RunConfig(threads=min(2, os.cpu_count() or 1)),
    )


def run_training(system: SystemConfig, step: Step, *, steps: int = STEPS) -> Training:
    """Train twice, with gradients reduced by RTL and by numpy in the same order."""
    with step("loading the handwritten digits"):
        digits = load_digits()
    with step(f"compiling the engine, preset {system.preset} (kept in the cache)"):
        compiled_engine(system.engine)
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
    return Training(by_rtl=rtl, by_numpy=numpy, preset=system.preset, cycles=cycles, wall_s=wall_s)


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


def run_hardware(step: Step, folder: Path) -> list[Hardware]:
    """Write the engine of the demonstration as Verilog; map the smallest one to an FPGA."""
    hardware = []
    for name in (PRESET, SYNTHESIZED_PRESET):
        config, top = preset(name), f"ace_{name}"
        with step(f"emitting {top} as Verilog"):
            emitted = emit(AceEngine(config), name=top, header=config.describe())
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / f"{top}.v"
            path.write_text(emitted.text, encoding="utf-8")
        cells = None
        if name == SYNTHESIZED_PRESET:
            with step(f"synthesizing {top} for {TARGET}"):
                cells = cells_table(synthesize(AceEngine(config), name=top, target=TARGET))
        hardware.append(
            Hardware(
                top=top,
                verilog=path,
                lines=emitted.lines,
                modules=emitted.modules,
                cells=cells,
            )
        )
    return hardware
