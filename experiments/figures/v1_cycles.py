# SPDX-License-Identifier: Apache-2.0
"""ACE v1, Fig. 9, from the cycle model of the engine in RTL: one all-reduce on tori."""

from functools import cache
from statistics import mean
from typing import NamedTuple

from bench._papers_torus import CLOCK_HZ, PUBLISHED, torus_of
from experiments.figure import Assumption, Context, Curves, Figure, Row, statement
from experiments.figures.v1_collectives import AXES, SHAPES, SIZES, seconds_of
from experiments.systems import name_of
from experiments.targets import Gain
from sim.run import run

__all__ = ["fig9_cycles"]

BETWEEN_CYCLES = round(200 * CLOCK_HZ / 1e9)
ASSUMPTIONS = (
    Assumption(
        "the engine of ISCA 2021: a partition for each phase, 4 single-ported banks of 1 MB, "
        "64-byte buses, 16 FSMs, at its 1.245 GHz; version 1 states the same sizes", "chosen",
    ),
    Assumption("links between packages take 200 ns, within one 72 ns", "stated", "Table 7"),
    Assumption("a 200 GB/s link is two lanes of 64 B, 159 GB/s", "chosen"),
    Assumption("Baseline and Ideal are those of level events", "chosen"),
    Assumption("tori 4x2x2, 4x4x2 and 4x4x4, those of Fig. 14", "chosen", "the axes are lost"),
    AXES,
)


class _Cell(NamedTuple):
    """Seconds of an all-reduce on one torus: ACE by cycles and by events, Baseline, Ideal."""

    size: int
    cycles: float
    events: float
    baseline: float
    ideal: float


@cache
def _seconds(shape: tuple[int, int, int], size: int) -> float:
    """Time of an all-reduce from the first command to the last interrupt."""
    described = torus_of(
        PUBLISHED, level="cycles", size_bytes=size, between_cycles=BETWEEN_CYCLES, shape=shape
    )
    return run(described).time_s


def fig9_cycles(context: Context) -> Figure:
    """All-reduce on tori, ACE by cycles."""
    cells = []
    for shape in SHAPES:
        for size in SIZES:
            others = (seconds_of(shape, size, name) for name in ("ACE", "Baseline", "Ideal"))
            cells.append(_Cell(size, _seconds(shape, size), *others))
        context.progress(1 / len(SHAPES))
    over_baseline = mean(each.baseline / each.cycles for each in cells)
    over_ace = mean(each.cycles / each.ideal for each in cells)
    worse = sum(each.cycles >= each.baseline for each in cells)
    largest = [each.cycles / each.events for each in cells if each.size == SIZES[-1]]
    return Figure(
        title="Fig. 9: all-reduce on tori, from the cycle model of the engine",
        rows=[
            Row(
                setting="ACE by cycles over Baseline, mean of sizes", ours=over_baseline,
                target=Gain(1.51),
                why="Its SRAM passes 319 GB/s in all, and a byte that a node sends needs 2.4 bytes "
                f"of it: at 64 MB it takes {mean(largest):.2f} times as long as at level events, "
                "where the SRAM has 12 accesses a cycle.",
            ),
            Row(
                setting="Ideal over ACE by cycles, mean of sizes", ours=over_ace,
                target=Gain(1.43),
            ),
            statement(
                "ACE by cycles faster than Baseline at every size",
                below=[(each.cycles, each.baseline) for each in cells],
                why=f"Not so in {worse} of {len(cells)} cells." if worse else "",
            ),
        ],
        curves=[
            Curves(
                title="ACE v1 Fig. 9, by cycles: all-reduce on tori",
                x="size (MB)", y="vector over time (GB/s)", log_x=True,
                series={
                    f"ACE, {name_of(shape)}": [
                        (size / 2**20, size / _seconds(shape, size) / 1e9) for size in SIZES
                    ]
                    for shape in SHAPES
                },
            )
        ],
        assumptions=ASSUMPTIONS,
    )
