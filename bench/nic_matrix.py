# SPDX-License-Identifier: Apache-2.0
"""Ring all-reduces of RTL smart NICs: bits against the golden model, cycles against the model."""

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from bench.options import bench_parser
from bench.result import result
from hw.common.axi import aligned
from hw.smartnic.config import SmartNicConfig, preset
from sim.hosts.command import Command
from sim.hosts.script import Interrupt, Issue, Step
from sim.hosts.surroundings import Surroundings
from sim.runs.scripts import run_engines

NODES = range(2, 17)
LONGEST = 1 << 20
FORMATS = {"fp32": None, "bfp16": "bfp16", "mxint8": "mxint8"}
STALLED_SHARE = 0.4
EDGES = ((2, 1), (16, 1), (16, 17), (2, LONGEST), (16, LONGEST))
TARGET_MEDIAN, TARGET_WORST = 0.5, 3.0


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One all-reduce of the matrix."""

    format: str
    nodes: int
    elements: int
    latency_cycles: int
    stalls: float
    seed: int


def main(argv: Sequence[str]) -> int:
    """Compare every cell bit for bit on all ranks, and its cycles with the model's."""
    parser = bench_parser("nic_matrix", __doc__, seed="cells, data, stalls")
    parser.add_argument("--longest", type=int, default=LONGEST, help="elements (default: 1 Mi)")
    options = parser.parse_args(argv)
    cells = _draw(options.seed, options.longest)
    print(
        "format  nodes  elements  latency  stalls  exact  RTL cycles  model cycles   error    time"
    )
    correct = 0
    errors = []
    for cell in cells:
        begin = time.perf_counter()
        exact, cycles, modelled = _run(cell)
        correct += exact
        errors.append(100 * abs(modelled / cycles - 1))
        print(
            f"{cell.format:7} {cell.nodes:5} {cell.elements:9} {cell.latency_cycles:8} "
            f"{cell.stalls:7.2f}  {'yes' if exact else 'NO':5} {cycles:11} "
            f"{modelled:13}  {errors[-1]:6.3f} %  "
            f"{time.perf_counter() - begin:5.1f} s",
            flush=True,
        )
    median, worst = statistics.median(errors), max(errors)
    stalled = sum(cell.stalls > 0 for cell in cells)
    print(
        f"{len(cells)} cells, {stalled} with random stalls of network, memory and host. Cycles: "
        f"from the\nstart of the hosts to the interrupt on the rank that takes longest."
    )
    met = correct == len(cells) and median <= TARGET_MEDIAN and worst <= TARGET_WORST
    result(
        "nic_matrix",
        cells=len(cells),
        correct=correct,
        timed=len(errors),
        median_error_pct=median,
        worst_error_pct=worst,
        verdict="ok" if met else "short",
    )
    return 0


def _draw(seed: int, longest: int) -> list[Cell]:
    """Every number of nodes with every format, at random lengths, and the edges."""
    rng = np.random.default_rng(seed)
    shapes = [(nodes, int(longest ** rng.random())) for nodes in NODES for _ in FORMATS]
    formats = [name for _ in NODES for name in FORMATS]
    cells = []
    for format, (nodes, elements) in zip(formats, shapes):
        cells.append((format, nodes, elements, rng.random() < STALLED_SHARE))
    for k, (nodes, elements) in enumerate(EDGES):
        cells.append((list(FORMATS)[k % len(FORMATS)], nodes, min(elements, longest), False))
    cells += [(name, 6, longest, False) for name in FORMATS]
    return [
        Cell(
            format=format,
            nodes=nodes,
            elements=elements,
            latency_cycles=int(rng.integers(5, 300)),
            stalls=float(rng.choice([0.05, 0.2, 0.5])) if stalled else 0.0,
            seed=int(rng.integers(1 << 32)),
        )
        for format, nodes, elements, stalled in cells
    ]


def _config(format: str) -> SmartNicConfig:
    # A NIC with a codec does plain all-reduces as well.
    return replace(preset("40g"), codec=FORMATS[format] or "bfp16")


def _run(cell: Cell) -> tuple[bool, int, int]:
    """True if all ranks have the golden bits; then the cycles of the RTL and of the model."""
    config = _config(cell.format)
    ring = Surroundings(
        nodes=cell.nodes,
        latency_cycles=cell.latency_cycles,
        write_latency_cycles=10,
        link_stalls=cell.stalls,
        memory_stalls=cell.stalls,
        host_stalls=cell.stalls,
        seed=cell.seed,
    )
    command = Command(
        elements=cell.elements,
        compress=FORMATS[cell.format] is not None,
        destination=aligned(4 * cell.elements),
    )
    rng = np.random.default_rng(cell.seed)
    scale = 2.0 ** rng.integers(-6, 6, cell.elements)
    arrays = [
        (rng.standard_normal(cell.elements) * scale).astype(np.float32) for _ in range(cell.nodes)
    ]
    scripts: list[list[Step]] = [[Issue(command=0), Interrupt()]] * cell.nodes
    rtl = run_engines("smartnic", config, ring, [command], scripts, [arrays])
    # Stalls are drawn per cycle number, so the model starts in the cycle of the RTL.
    model = run_engines(
        "smartnic", config, ring, [command], scripts, levels="cycles", start_cycle=rtl.begin
    )
    return rtl.checked == cell.nodes and rtl.wrong == 0, rtl.cycles, model.cycles
