# SPDX-License-Identifier: Apache-2.0
"""The picture of README's first screen, drawn from runs: training, links in RTL, ASTRA-sim.

It is written twice, for light and for dark pages; the second is the first with other colours.
"""

from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from runpy import run_path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

import foldwire as fw
from bench.ring import BYTES
from bench.sim_agreement import run_times
from gen.table import Column, Table
from sim.results.links import LinkSeries
from sim.results.style import (
    COMMUNICATION,
    COMPUTE,
    EXPOSED,
    GREY,
    GRID,
    INK,
    LIGHT,
    drawing,
    grouped,
    value_grid,
)
from sim.run import run

__all__ = ["DARK_PICTURE", "PICTURE", "overview", "recoloured"]

PICTURE, DARK_PICTURE = "overview.svg", "overview-dark.svg"
ENDPOINTS = {
    "baseline_comp_opt": "2 cores", "baseline_comm_opt": "6 cores", "ace": "ACE", "ideal": "ideal",
}
"""Endpoints -> what moves and adds the data, in the words of the picture."""
DARK = {
    INK: "#e7ecf1", GREY: "#aab5c0", LIGHT: "#46525e", GRID: "#28313a", COMPUTE: "#58aecb",
    EXPOSED: "#ee8b74", COMMUNICATION: "#e6b169",
}
"""Colours of a light page -> those of a dark one."""
TITLE: Any = {"loc": "left", "fontsize": 10.5, "fontweight": "bold", "color": INK}


def overview(root: Path) -> Mapping[str, Table]:
    """Run the three, draw both pictures into ``docs/results``, and return what they show."""
    times = _training(root)
    done = run(root / "examples" / "ring.toml", changes={"workload.size_bytes": BYTES})
    series, interval = done.link_series
    assert done.engines is not None  # which RTL has
    edges = np.minimum(np.arange(len(series[0].total) + 1.0) * interval, done.engines.cycles)
    agreement = list(run_times())
    path = root / "docs" / "results" / PICTURE
    with drawing(path, "", width=9.4, height=2.9) as figure:
        figure.patch.set_visible(False)
        left, middle, right = figure.subplots(1, 3, width_ratios=(1, 1.05, 0.95))
        for axes in (left, middle, right):
            axes.patch.set_visible(False)
        _draw_training(left, times)
        _draw_links(middle, series, edges)
        _draw_agreement(right, agreement)
    dark = path.with_name(DARK_PICTURE)
    dark.write_text(recoloured(path.read_text(encoding="utf-8"), DARK), encoding="utf-8")
    return {"overview": _shown(times, series, agreement)}


def recoloured(svg: str, colours: Mapping[str, str]) -> str:
    """*svg* with colours in the place of others, all at once."""
    for number, colour in enumerate(colours):
        svg = svg.replace(colour, f"@{number}@")
    for number, colour in enumerate(colours.values()):
        svg = svg.replace(f"@{number}@", colour)
    return svg


def _training(root: Path) -> dict[str, tuple[float, float]]:
    """Endpoint -> ms of computing and of waiting in ``examples/train_system.py``."""
    with redirect_stdout(None):
        names = run_path(str(root / "examples" / "train_system.py"))
    found = {}
    for kind in ENDPOINTS:
        of = fw.run(names["torus"], endpoint=kind)
        compute = 1e3 * of.metrics["compute_s"]
        found[kind] = compute, 1e3 * of.time_s - compute
    return found


def _draw_training(axes: Axes, times: Mapping[str, tuple[float, float]]) -> None:
    axes.set_title("ResNet-50, 64 NPUs", **TITLE)
    compute, waiting = np.array(list(times.values())).T
    places = np.arange(len(times))
    axes.barh(places, compute, height=0.55, color=COMPUTE)
    axes.barh(places, waiting, left=compute, height=0.55, color=EXPOSED)
    for place, total in zip(places, compute + waiting):
        axes.annotate(
            f"{total:.2f} ms", (total, place), (4, 0), textcoords="offset points", va="center",
            color=GREY,
        )
    axes.set_yticks(places, [ENDPOINTS[kind] for kind in times])
    axes.tick_params(axis="y", length=0)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.45 * (compute + waiting).max())
    axes.set_ylim(len(times) - 0.5, -1.05)  # room for the words above the first bar
    for colour, x, side, label in (
        (COMPUTE, 0, "left", "computing"), (EXPOSED, compute[0] + waiting[0], "right", "waiting")
    ):
        axes.annotate(label, (x, -0.32), color=colour, va="bottom", ha=side)
    axes.set_xlabel("time (ms)")
    value_grid(axes, "x")


def _draw_links(axes: Axes, series: Sequence[LinkSeries], edges: NDArray[np.float64]) -> None:
    axes.set_title("Links of four ACEs in RTL", **TITLE)
    for row, link in enumerate(series):
        foot = row + 0.9
        axes.stairs(foot - 0.8 * link.total, edges, baseline=foot, fill=True, color=COMMUNICATION)
    axes.set_yticks(np.arange(len(series)) + 0.5, [link.name for link in series])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(series), 0)
    axes.set_xlim(0, edges[-1])
    axes.xaxis.set_major_formatter(grouped)
    axes.set_xlabel("clock cycles (height: share in use)")


def _draw_agreement(axes: Axes, pairs: Sequence[tuple[float, float]]) -> None:
    axes.set_title("Run times of ASTRA-sim", **TITLE)
    printed, predicted = np.array(pairs).T / 1e3
    ends = [0.5 * printed.min(), 2 * printed.max()]
    axes.plot(ends, ends, color=GREY, linewidth=0.8)
    axes.plot(printed, predicted, "o", color=COMPUTE, markersize=4, alpha=0.6, markeredgewidth=0)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("it prints (µs)")
    axes.set_ylabel("Foldwire predicts (µs)")
    value_grid(axes, "both")


def _shown(
    times: Mapping[str, tuple[float, float]],
    series: Sequence[LinkSeries],
    pairs: Sequence[tuple[float, float]],
) -> Table:
    """The numbers of the picture."""
    table = Table("What the picture shows", [Column("panel"), Column("what"), Column("value")])
    for kind, (compute, waiting) in times.items():
        for part, value in (("computing", compute), ("waiting", waiting)):
            table.add("training", f"{ENDPOINTS[kind]}, {part}", f"{value:.2f} ms")
    busy = float(np.median([link.total for link in series]))
    table.add("links", "median over links and intervals", f"{busy:.1%} in use")
    printed, predicted = np.array(pairs).T
    table.add("ASTRA-sim", "run times compared", f"{len(pairs)}")
    table.add("ASTRA-sim", "farthest", f"{np.abs(predicted / printed - 1).max():.1%} apart")
    return table
