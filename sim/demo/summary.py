# SPDX-License-Identifier: Apache-2.0
"""Results of the demonstration, as facts, tables and a page."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gen.table import Column, Table
from sim.demo.endpoints import ENDPOINTS, EndpointRun, endpoints_table
from sim.demo.resnet import LayerResult, results_table
from sim.describe.sections import Description, EngineSection
from sim.learning.training import TrainingRun
from sim.results.figures import loss_figure, utilisation_figure
from sim.results.links import LinkSeries
from sim.results.training_figures import division_figure
from sim.results.view.page import Picture, Section, Tile, View, write_view
from sim.units import FS_PER_S, seconds_to_cycles

__all__ = [
    "DemoResults",
    "Hardware",
    "Training",
    "Utilisation",
    "layers_table",
    "training_table",
    "write_report",
]

LOWEST_ACCURACY = 0.9


@dataclass(frozen=True, kw_only=True)
class Training:
    """The same training twice; `cycles` is the simulated time of all all-reduces together."""

    by_rtl: TrainingRun
    by_numpy: TrainingRun
    cycles: int
    wall_s: float

    @property
    def losses_equal(self) -> bool:
        return self.by_rtl.losses == self.by_numpy.losses

    @property
    def weights_equal(self) -> bool:
        """True if every worker ended with the bits that numpy gave."""
        pairs = zip(self.by_rtl.weights, self.by_numpy.weights, strict=True)
        return all(np.array_equal(a.view(np.uint32), b.view(np.uint32)) for a, b in pairs)

    @property
    def passed(self) -> bool:
        return (
            self.by_rtl.diverged_at is None
            and self.losses_equal
            and self.weights_equal
            and self.by_rtl.accuracy > LOWEST_ACCURACY
        )


@dataclass(frozen=True, kw_only=True)
class Utilisation:
    """Links over time, during the all-reduce of one layer."""

    links: Sequence[LinkSeries]
    interval_cycles: int
    what: str


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """An emitted design: its files, their size, and its cells if it was synthesized.

    `lines` and `modules` are those of the first file.
    """

    top: str
    verilog: Sequence[Path]
    lines: int
    modules: int
    cells: Table | None


@dataclass(frozen=True, kw_only=True)
class DemoResults:
    """Everything that the demonstration measured; `passed` is its verdict."""

    training: Training
    layers: Sequence[LayerResult]
    system: Description
    utilisation: Utilisation
    hardware: Sequence[Hardware]
    endpoints: Sequence[EndpointRun]

    @property
    def passed(self) -> bool:
        return self.training.passed and all(layer.measurement.exact for layer in self.layers)


def layers_table(results: DemoResults) -> Table:
    """One row per gradient size of ResNet-50."""
    return results_table(results.layers, clock_hz=_engine(results.system).clock_hz)


def training_table(training: Training) -> Table:
    """Gradients reduced by RTL beside gradients reduced by numpy."""
    table = Table(
        "Training",
        [
            Column("reduced_by", "gradients reduced by"),
            Column("workers"),
            Column("steps"),
            Column("first_loss", digits=4),
            Column("last_loss", digits=4),
            Column("accuracy_percent", "test accuracy", "%", 1),
            Column("agree", "workers agree"),
        ],
        note=f"Weights of every worker, RTL against numpy: {_equal(training.weights_equal)}. "
        f"Loss curves: {_equal(training.losses_equal)}.",
    )
    for name, run in (
        ("RTL", training.by_rtl),
        ("numpy, in the same order", training.by_numpy),
    ):
        table.add(
            name,
            len(run.weights),
            len(run.losses),
            run.losses[0],
            run.losses[-1],
            100 * run.accuracy,
            run.diverged_at is None,
        )
    return table


def write_report(results: DemoResults, folder: Path) -> Path:
    """Write figures, tables as CSV and the page into *folder*; return the path of the page."""
    folder.mkdir(parents=True, exist_ok=True)
    training, use = results.training, results.utilisation
    loss = folder / "loss.svg"
    curves = {
        "gradients reduced by RTL": training.by_rtl.losses,
        "gradients reduced by numpy": training.by_numpy.losses,
    }
    loss_figure(loss, curves, title="Training loss")
    links = folder / "utilisation.svg"
    utilisation_figure(links, use.links, interval_cycles=use.interval_cycles, title=use.what)
    utilisation_figure(
        links.with_suffix(".png"), use.links, interval_cycles=use.interval_cycles, title=use.what
    )

    division = folder / "endpoints.svg"
    bars = {}
    for run in results.endpoints:
        compute, exposed, *rest = (1e3 * float(part) / FS_PER_S for part in run.result.mean_fs)
        bars[ENDPOINTS[run.kind]] = (compute, exposed, sum(rest))
    division_figure(division, bars, title="ResNet-50 on 64 NPUs, two iterations", unit="ms")
    endpoints = endpoints_table(results.endpoints)
    (folder / "endpoints.csv").write_text(endpoints.to_csv(), encoding="utf-8")

    layers = layers_table(results)
    (folder / "resnet50.csv").write_text(layers.to_csv(), encoding="utf-8")
    for hardware in results.hardware:
        if hardware.cells is not None:
            path = folder / f"{hardware.top}-cells.csv"
            path.write_text(hardware.cells.to_csv(), encoding="utf-8")

    page = View(
        title="Foldwire: first light",
        lead="Gradients of a real training job, reduced by hardware that is simulated clock cycle "
        "by clock cycle from its register-transfer description.",
        tiles=_tiles(results),
        sections=[
            Section(
                title="Training with gradients reduced by RTL",
                lead=(
                    f"{len(training.by_rtl.weights)} workers train one network on the handwritten "
                    "digits of scikit-learn, each on its own share of them. In every step each "
                    f"worker writes its {_grouped(len(training.by_rtl.weights[0]))} gradients to "
                    "its memory; the engines of a ring add them up and write the sums back. "
                    "Nothing else connects the workers."
                ),
                pictures=[Picture.read(loss, "Two curves, one on top of the other.")],
                tables=[training_table(training)],
            ),
            Section(
                title="ResNet-50's gradients, layer by layer",
                lead=_ring_text(results.system),
                pictures=[
                    Picture.read(
                        links,
                        "Each direction of each link of the ring. A link carries headers and "
                        "payload; the rest of its capacity is idle.",
                    )
                ],
                tables=[layers],
                files=["resnet50.csv", "utilisation.png"],
            ),
            Section(
                title="What an engine is worth: 64 NPUs, five kinds of endpoint",
                lead=(
                    "The system simulator runs whole training jobs. Here the NPUs of a 4 x 4 x 4 "
                    "torus train ResNet-50 for two iterations; only the endpoint changes. An NPU "
                    "that runs collectives itself gives up cores and memory bandwidth; the engine "
                    "reads every gradient once and leaves the cores alone."
                ),
                pictures=[
                    Picture.read(division, "One bar per endpoint: what the NPUs wait for.")
                ],
                tables=[endpoints],
                files=["endpoints.csv"],
            ),
            *(_hardware_part(each, folder) for each in results.hardware),
        ],
    )
    path = folder / "index.html"
    write_view(path, page)
    return path


def _tiles(results: DemoResults) -> list[Tile]:
    training = results.training
    agree = training.by_rtl.diverged_at is None
    accuracy = training.by_rtl.accuracy
    exact = sum(layer.measurement.exact for layer in results.layers)
    shares = [float(np.mean(link.total)) for link in results.utilisation.links]
    return [
        Tile(
            value=f"{100 * accuracy:.1f} %",
            label="test accuracy of the trained network",
            good=accuracy > LOWEST_ACCURACY,
        ),
        Tile(
            value="identical" if agree else f"differ at step {training.by_rtl.diverged_at}",
            label=f"weights of all {len(training.by_rtl.weights)} workers, after every step",
            good=agree,
        ),
        Tile(
            value="identical" if training.losses_equal else "different",
            label="loss curve, RTL against numpy",
            good=training.losses_equal,
        ),
        Tile(
            value=f"{exact} of {len(results.layers)}",
            label="gradient sizes of ResNet-50 reduced exactly",
            good=exact == len(results.layers),
        ),
        Tile(value=f"{100 * min(shares):.0f} %", label="use of the least busy link, start to end"),
    ]


def _engine(system: Description) -> EngineSection:
    assert system.engine is not None
    return system.engine


def _ring_text(system: Description) -> str:
    section = _engine(system)
    engine, (ring,) = section.config, system.dimensions
    return (
        f"Each layer's gradients, at their real sizes, are all-reduced by {ring.size} engines on a "
        f"ring. Engine: preset {section.preset}; {engine.ports} ports of {engine.bus_bytes} bytes, "
        f"{engine.alus} x {engine.lanes} adder lanes, {engine.fsms} FSMs, "
        f"{engine.sram_bytes >> 10} KiB of SRAM. Links take "
        f"{seconds_to_cycles(ring.latency_s, section.clock_hz)} cycles. Times are for a clock of "
        f"{section.clock_hz / 1e6:g} MHz."
    )


def _hardware_part(hardware: Hardware, folder: Path) -> Section:
    files = [Path(os.path.relpath(file, folder)).as_posix() for file in hardware.verilog]
    return Section(
        title=f"The hardware: {hardware.top}",
        lead=(
            f"The emitted SystemVerilog has {_grouped(hardware.lines)} lines in "
            f"{_grouped(hardware.modules)} modules; every distinct module stands there once. The "
            "file beside it says the same in Verilog-2005."
        ),
        tables=[] if hardware.cells is None else [hardware.cells],
        files=files if hardware.cells is None else [*files, f"{hardware.top}-cells.csv"],
    )


def _equal(equal: bool) -> str:
    return "identical, bit for bit" if equal else "DIFFERENT"


def _grouped(number: int) -> str:
    return f"{number:,}".replace(",", " ")
