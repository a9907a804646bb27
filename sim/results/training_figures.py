# SPDX-License-Identifier: Apache-2.0
"""Figures of training runs: where the time went, per run and per layer, and utilisation."""

import re
import textwrap
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.ticker import EngFormatter, MaxNLocator
from numpy.typing import NDArray

from sim.results.style import (
    COMMUNICATION,
    COMPUTE,
    EXPOSED,
    GREY,
    REST,
    drawing,
    grouped,
    line_look,
    percent_axis,
    value_grid,
)

__all__ = [
    "division_figure",
    "front_figure",
    "layer_labels",
    "layers_figure",
    "lines_figure",
    "series_figure",
]

LABELLED_LAYERS = 70
"""Most layers whose names all fit; of more, only every few are labelled."""

DASHES_OF_EQUALS = ("-", (0, (5, 3)), (0, (1, 2)), (0, (6, 2, 1, 2)))
"""Of lines over time, which often hide one another."""
MOST_TICKS, MOST_LETTERS = 7, 24
LOG_HEIGHTS = 20
"""Largest over smallest height from which their axis is logarithmic."""
SHORT_ROW = 8
"""Most layers whose names fit side by side."""


def division_figure(
    path: Path, bars: Mapping[str, tuple[float, float, float]], *, title: str, unit: str = "µs"
) -> None:
    """Draw one bar per entry: compute, exposed communication, the rest, on top of each other.

    Written into each bar is the total and the exposed share.
    """
    names = list(bars)
    values = np.array([bars[name] for name in names], dtype=float).reshape(-1, 3)
    totals = values.sum(axis=1)
    places = np.arange(len(names))
    with drawing(path, title, height=1.7 + 0.42 * len(names)) as figure:
        axes = figure.subplots()
        left = np.zeros(len(names))
        parts = (
            ("compute", COMPUTE),
            ("exposed communication", EXPOSED),
            ("delays and idle", REST),
        )
        for (label, colour), part in zip(parts, values.T):
            if part.any():
                axes.barh(places, part, left=left, height=0.62, color=colour, label=label)
            left += part
        for place, total, (_, exposed, _) in zip(places, totals, values):
            share = f", {exposed / total:.1%} exposed" if total else ""
            axes.annotate(
                f"{_short(total)} {unit}{share}",
                (total, place),
                xytext=(5, 0),
                textcoords="offset points",
                va="center",
                color=GREY,
                fontsize=9,
            )
        axes.set_yticks(places, names)
        axes.tick_params(axis="y", length=0)
        axes.invert_yaxis()
        axes.set_xlim(0, 1.5 * max(totals.max(initial=0.0), 1e-9))
        axes.set_xlabel(f"time ({unit})")
        axes.xaxis.set_major_formatter(grouped)
        value_grid(axes, "x")
        if values.any():  # an empty job has no bars, and one node alone takes no time
            axes.legend(loc="lower right", bbox_to_anchor=(1, 1.0), ncols=3, frameon=False)


def layers_figure(
    path: Path,
    names: Sequence[str],
    *,
    compute: Sequence[float],
    exposed: Sequence[float],
    communication: Sequence[float],
    title: str,
    unit: str = "µs",
) -> None:
    """Draw compute and exposed communication per layer, and below the communication as such."""
    places = np.arange(len(names))
    width = min(16.0, max(9.0, 0.17 * len(names)))
    with drawing(path, title, width=width, height=5.2) as figure:
        above, below = figure.subplots(2, 1, sharex=True)
        above.bar(places, compute, width=0.8, color=COMPUTE, label="compute")
        above.bar(
            places, exposed, bottom=compute, width=0.8, color=EXPOSED, label="exposed communication"
        )
        above.set_ylabel(f"time of the NPU ({unit})")
        above.legend(loc="lower right", bbox_to_anchor=(1, 0.98), ncols=2, frameon=False)
        below.bar(places, communication, width=0.8, color=COMMUNICATION, label="issue to end")
        below.bar(places, exposed, width=0.8, color=EXPOSED, label="exposed")
        below.set_ylabel(f"communication ({unit})")
        below.legend(loc="lower right", bbox_to_anchor=(1, 0.98), ncols=2, frameon=False)
        labels = layer_labels(names)
        below.set_xticks(
            list(labels),
            list(labels.values()),
            rotation=90 if len(labels) > SHORT_ROW else 0,
            fontsize=8,
        )
        below.tick_params(axis="x", length=0)
        below.set_xlim(-0.7, len(names) - 0.3)
        for axes in (above, below):
            axes.yaxis.set_major_formatter(grouped)
            value_grid(axes, "y")


def layer_labels(names: Sequence[str]) -> dict[float, str]:
    """Labels of layers by place: all, if they fit; else one for each run of layers that are
    repeated but for a number (block0 to block95), at most `LABELLED_LAYERS`."""
    if len(names) <= LABELLED_LAYERS:
        return {float(place): name for place, name in enumerate(names)}
    stems = [re.match(r"(.*?)(\d+)?(?=[_.]|$)", name) for name in names]
    keys = [(match[1], match[2]) if match else (name, None) for match, name in zip(stems, names)]
    found: dict[float, str] = {}
    place = 0
    for stem, run in groupby(keys, key=lambda key: key[0]):
        numbers = [number for _, number in run]
        first, last = numbers[0], numbers[-1]
        several = first is not None and first != last
        found[place + (len(numbers) - 1) / 2] = (
            f"{stem}{first} to {last}" if several else names[place]
        )
        place += len(numbers)
    step = -(-len(found) // LABELLED_LAYERS)
    return dict(list(found.items())[::step])


def series_figure(
    path: Path,
    edges: NDArray[np.float64],
    *,
    compute: NDArray[np.float64] | None = None,
    network: NDArray[np.float64],
    dimensions: Sequence[NDArray[np.float64]],
    units: Mapping[str, NDArray[np.float64]],
    title: str,
    unit: str = "µs",
) -> None:
    """Draw the share of compute units, links and parts of the engines that were busy, from 0 to 1.

    `network`, the mean of all links, is empty where it was not recorded, and so are `units`;
    `compute` is None where nothing computes.
    """
    recorded = bool(len(network))
    count = (compute is not None) + recorded + bool(units)
    with drawing(path, title, height=0.8 + 1.8 * count) as figure:
        panels = list(figure.subplots(count, 1, sharex=True, squeeze=False)[:, 0])
        waiting = iter(panels)
        if compute is not None:
            axes = next(waiting)
            axes.stairs(compute, edges, fill=True, color=COMPUTE)
            axes.set_ylabel("compute units busy")
        if recorded:
            axes = next(waiting)
            axes.stairs(
                network, edges, fill=True, color=COMMUNICATION, alpha=0.6, label="all links"
            )
            if len(dimensions) > 1:
                for index, shares in enumerate(dimensions):
                    _line(axes, shares, edges, f"dimension {index}", index)
            axes.set_ylabel("links busy")
        for index, (name, shares) in enumerate(units.items()):
            _line(panels[-1], shares, edges, name, index)
        if units:
            panels[-1].set_ylabel("engine busy")
        for axes in panels:
            percent_axis(axes)
            if axes.get_legend_handles_labels()[0]:
                axes.legend(
                    loc="lower right", bbox_to_anchor=(1, 0.98), ncols=6, frameon=False, fontsize=9
                )
        panels[-1].set_xlim(0, edges[-1] or 1)  # one node alone takes no time
        panels[-1].set_xlabel(f"time ({unit})")
        panels[-1].xaxis.set_major_formatter(grouped)


def _line(
    axes: Any, shares: NDArray[np.float64], edges: NDArray[np.float64], label: str, index: int
) -> None:
    colour, dashes, _ = line_look(index)
    style = DASHES_OF_EQUALS[index % len(DASHES_OF_EQUALS)] if dashes == "-" else dashes
    axes.stairs(shares, edges, color=colour, linestyle=style, linewidth=1.3, label=label)


def lines_figure(
    path: Path,
    curves: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    *,
    x_label: str,
    y_label: str,
    title: str,
    x_names: Sequence[str] | None = None,
) -> None:
    """Draw y over x, one line per entry.

    With `x_names`, x are the places of these names, and no line joins them; otherwise numbers. An
    axis is logarithmic if its numbers span a factor of eight (x), of twenty (y) or more.
    """
    with drawing(path, title, height=4) as figure:
        axes = figure.subplots()
        for index, (name, (x, y)) in enumerate(curves.items()):
            colour, dashes, marker = line_look(index)
            axes.plot(
                x, y, linestyle="" if x_names else dashes, marker=marker, color=colour, lw=1.4,
                ms=4 if x_names is None else 6, label=name,
            )
        positions = sorted({value for x, _ in curves.values() for value in x})
        if x_names is not None:
            names = [textwrap.shorten(name, MOST_LETTERS, placeholder="…") for name in x_names]
            axes.set_xticks(
                range(len(names)), names, rotation=0 if len(names) <= SHORT_ROW else 45,
                ha="center" if len(names) <= SHORT_ROW else "right",
            )
            axes.set_xlim(-0.5, len(names) - 0.5)
        else:
            _scaled_axis(axes, positions, x_label)
        heights = [value for _, y in curves.values() for value in y]
        if min(heights, default=0) > 0 and max(heights) > LOG_HEIGHTS * min(heights):
            axes.set_yscale("log")
        else:
            axes.set_ylim(0, 1.06 * max([*heights, 0.0]) or 1)
        axes.yaxis.set_major_formatter(_prefixed(heights, y_label))
        axes.set_xlabel(_named(x_label))
        axes.set_ylabel(_named(y_label))
        value_grid(axes, "both")
        if len(curves) > 1:
            axes.legend(frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _scaled_axis(axes: Any, positions: Sequence[float], label: str) -> None:
    """An axis of numbers, logarithmic if they span a factor of eight or more; ticks at the numbers
    themselves if all of these have room."""
    if not positions or positions[0] <= 0 or positions[-1] < 8 * positions[0]:
        axes.xaxis.set_major_locator(MaxNLocator(nbins=MOST_TICKS))
    else:
        axes.set_xscale("log")
        axes.minorticks_off()
        least = (positions[-1] / positions[0]) ** (1 / MOST_TICKS)
        ticks = [positions[0]]
        for each in positions[1:]:
            if each / ticks[-1] >= least * (1 - 1e-9):
                ticks.append(each)
        axes.set_xticks(ticks)
    axes.xaxis.set_major_formatter(_prefixed(positions, label))


def _named(key: str) -> str:
    """A key or a metric in words, without the unit that ticks show."""
    ending = next((end for end in UNITS if key.endswith(end)), "")
    return key.removesuffix(ending).rstrip("_").replace("_", " ") or key


Points = Sequence[tuple[float, float]]


def front_figure(
    path: Path, points: Points, front: Points, marked: Points = (), *, x_label: str, y_label: str,
    title: str,
) -> None:
    """Draw *points*, a stepped line through those of a *front*, and *marked* ones, synthesised.

    The line is the least y that is to be had for an x.
    """
    with drawing(path, title, height=4) as figure:
        axes = figure.subplots()
        axes.plot(*zip(*points), "o", ms=4, color=REST, label="estimated")
        axes.plot(
            *zip(*front), "-o", drawstyle="steps-post", ms=5, lw=1.4, color=EXPOSED,
            label="not beaten in both",
        )
        if marked:
            axes.plot(*zip(*marked), "D", ms=5, mfc="none", color=COMPUTE, label="synthesised")
        for axis, label, values in (
            (axes.xaxis, x_label, [x for x, _ in (*points, *marked)]),
            (axes.yaxis, y_label, [y for _, y in points]),
        ):
            axis.set_major_formatter(_prefixed(values, label))
            axis.set_label_text(_named(label))
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        value_grid(axes, "both")
        axes.legend(frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _prefixed(values: Sequence[float], key: str) -> Any:
    """Numbers with the unit that *key* ends with, as ms or GB/s; others as they are, or with k, M,
    G or m, µ, n where they are large or small."""
    unit = next((unit for end, unit in UNITS.items() if key.endswith(end)), "")
    sizes = [abs(value) for value in values if value]
    if sizes and (unit or max(sizes) >= 1e5 or max(sizes) < 0.1):
        of = EngFormatter(unit=unit, sep=" ")
        return lambda value, _: of.format_data(float(f"{value:.4g}"))
    return grouped


UNITS = {"bytes_per_s": "B/s", "flops_per_s": "flop/s", "_s": "s", "bytes": "B", "_hz": "Hz"}
"""Units by the ends of keys, the longest first."""


def _short(value: float) -> str:
    return grouped(float(f"{value:.4g}"))
