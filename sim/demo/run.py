# SPDX-License-Identifier: Apache-2.0
"""The demonstration: a real training job and ResNet-50's gradients, reduced by RTL."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from gen.cache import set_announcer
from gen.synth import largest_blocks, synthesize
from gen.table import Table
from gen.verilog import STYLES, emit
from hw.ace.config import preset
from hw.ace.engine import AceEngine
from sim.demo.resnet import LayerResult, Measurement, gradient_sizes, measure_layers
from sim.demo.summary import Hardware, Training, Utilisation
from sim.learning.datasets import load_digits
from sim.learning.training import train
from sim.run import Run, run
from sim.runs.all_reduce import AllReducer
from sim.sweep.workers import own_processes, submit
from sim.workload.astra_text import shipped

__all__ = [
    "Step",
    "demo_system",
    "run_hardware",
    "run_layers",
    "run_training",
    "synthesis_in_background",
    "warm",
]

Step: TypeAlias = Callable[[str], AbstractContextManager[Callable[[float], None]]]
"""Announces a piece of work; the context yields a function to call with the share done."""

PRESET = "ring"
ENGINE = preset(PRESET)
CLOCK_HZ = 1.245e9
LATENCY_CYCLES = 90
WORKERS = 4
STEPS = 60
LAYERS_BUDGET_S = 20.0
SYNTHESIZED_PRESET = "test"
TARGET = "xcup"
LARGEST_BLOCKS = 12


def demo_system() -> dict[str, Any]:
    """Four engines on a ring of links of 90 cycles, as RTL."""
    return {
        "topology": {
            "kind": "ring",
            "shape": [WORKERS],
            "bandwidth_bytes_per_s": ENGINE.bus_bytes * CLOCK_HZ,
            "latency_s": LATENCY_CYCLES / CLOCK_HZ,
        },
        "endpoint": {"kind": "ace", "preset": PRESET, "level": "rtl"},
        "run": {"passes": 1, "threads": min(2, os.cpu_count() or 1)},
    }


@contextmanager
def synthesis_in_background() -> Iterator[Callable[[], Table]]:
    """Synthesize the smallest engine in another process; yields a function that waits for it.

    That process then compiles what the next commands of the README use.
    """
    with own_processes(1) as pool:
        cells = submit(pool, _cells)
        submit(pool, warm)
        yield cells.result


def warm() -> None:
    """Compile the smallest engine and ACE's cycle model, silently."""
    set_announcer(lambda text: None)
    AllReducer("ace", preset=SYNTHESIZED_PRESET).compile()
    system = demo_system()
    endpoint = {**system["endpoint"], "level": "cycles"}
    workload = {"collective": "all_reduce", "size_bytes": 4096}
    run({**system, "endpoint": endpoint, "workload": workload, "run": {"passes": 1}})


def _cells() -> Table:
    """Cells of the smallest engine, silently: others write while this goes on."""
    set_announcer(lambda text: None)
    engine = AceEngine(preset(SYNTHESIZED_PRESET))
    report = synthesize(engine, name=f"ace_{SYNTHESIZED_PRESET}", target=TARGET)
    return largest_blocks(report, LARGEST_BLOCKS)


def run_training(
    step: Step, *, preset: str = PRESET, workers: int = WORKERS, steps: int = STEPS
) -> Training:
    """Train twice, with gradients reduced by RTL and by numpy in the same order."""
    with step("loading the handwritten digits"):
        digits = load_digits()
    by_rtl = AllReducer("ace", preset=preset, latency_cycles=LATENCY_CYCLES)
    by_numpy = AllReducer("ace", preset=preset, level="golden")
    with step(f"compiling the engine, preset {preset} (kept in the cache)"):
        by_rtl.compile()
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
    return Training(by_rtl=rtl, by_numpy=numpy, cycles=by_rtl.cycles, wall_s=wall_s)


def run_layers(
    system: dict[str, Any], step: Step, *, budget_s: float = LAYERS_BUDGET_S
) -> tuple[Sequence[LayerResult], Utilisation]:
    """All-reduce the gradients of ResNet-50's layers; also the links' load during the largest."""
    runs: dict[int, Run] = {}

    def simulate(size_bytes: int) -> Measurement:
        workload = {"collective": "all_reduce", "size_bytes": size_bytes}
        done = runs[size_bytes] = run({**system, "workload": workload})
        assert done.engines is not None and done.data is not None
        return Measurement(
            cycles=done.engines.cycles,
            link_share=float(np.mean([link.total for link in done.link_series[0]])),
            exact=done.data.exact,
            wall_s=done.engines.wall_s,
        )

    sizes = gradient_sizes(shipped("resnet50"))
    with step("all-reducing the gradients of ResNet-50's layers on RTL") as report:
        results = measure_layers(sizes, simulate, budget_s=budget_s, progress=report)
    largest = max(runs)
    links, interval_cycles = runs[largest].link_series
    what = f"All-reduce of {largest / 1e6:.2f} MB on {runs[largest].record.nodes} RTL endpoints"
    return results, Utilisation(links=links, interval_cycles=interval_cycles, what=what)


def run_hardware(step: Step, folder: Path, cells: Callable[[], Table]) -> list[Hardware]:
    """Write the demonstration's engine and the smallest one as Verilog in both styles, the latter
    with *cells*."""
    designs = {
        "ace_demo": (ENGINE, None),
        f"ace_{SYNTHESIZED_PRESET}": (preset(SYNTHESIZED_PRESET), cells),
    }
    hardware = []
    for top, (config, wait) in designs.items():
        with step(f"emitting {top} as Verilog"):
            folder.mkdir(parents=True, exist_ok=True)
            files, counts = [], []
            for style, ending in STYLES.items():
                emitted = emit(AceEngine(config), name=top, header=config.describe(), style=style)
                files.append(folder / f"{top}{ending}")
                files[-1].write_text(emitted.text, encoding="utf-8")
                counts.append((emitted.lines, emitted.modules))
        table = None
        if wait is not None:
            with step(f"synthesizing {top} for {TARGET} (in the background since the start)"):
                table = wait()
        hardware.append(
            Hardware(
                top=top, verilog=files, lines=counts[0][0], modules=counts[0][1], cells=table
            )
        )
    return hardware
