# SPDX-License-Identifier: Apache-2.0
"""Draws the curves and bars of a figure as SVG and PNG, and writes their points as CSV."""

import textwrap
from pathlib import Path
from typing import Any

from experiments.figure import Bars, Curves, Figure, Row
from gen.table import Column, Table

__all__ = ["draw", "draw_published"]

MOST_COMPARED, MOST_LETTERS = 40, 70
NAMED_BARS = 24
"""So many bars can be told apart by names below them."""


def draw(plot: Curves | Bars, stem: Path) -> None:
    """Write ``stem.svg``, ``stem.png`` and ``stem-points.csv``."""
    from sim.results.style import GREY, drawing, value_grid

    stem.parent.mkdir(parents=True, exist_ok=True)
    points = _bar_points(plot) if isinstance(plot, Bars) else _curve_points(plot)
    stem.with_name(f"{stem.name}-points.csv").write_text(points.to_csv(), encoding="utf-8")
    for ending in (".svg", ".png"):
        with drawing(stem.with_name(stem.name + ending), plot.title, height=4) as figure:
            axes = figure.add_subplot()
            if isinstance(plot, Bars):
                entries = _bars(axes, plot)
            else:
                entries = _lines(axes, plot)
            for name, level in plot.levels.items():
                axes.axhline(level, color=GREY, linewidth=0.8, linestyle="--")
                axes.annotate(
                    name,
                    (0.99, level),
                    xycoords=("axes fraction", "data"),
                    fontsize=8,
                    ha="right",
                    va="bottom",
                    bbox={"color": "white", "alpha": 0.7, "pad": 0.5},
                )
            axes.set(xlabel=plot.x, ylabel=plot.y)
            axes.set_ylim(bottom=0)
            value_grid(axes, "y")
            if entries > 1:
                axes.legend(frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(1, 1))


def draw_published(figure: Figure, stem: Path) -> list[Row]:
    """Write ``stem.svg`` and ``stem.png``: our values over the published ones, a line for each row
    that has a number; returns the rows that are drawn."""
    from sim.results.style import EXPOSED, GREY, LINES, drawing

    rows = [row for row in figure.rows if (row.ratio or 0) > 0][:MOST_COMPARED]
    if not rows:
        return []
    height = 1.5 + 0.28 * len(rows)
    for ending in (".svg", ".png"):
        title = f"{figure.title}: ours over published"
        with drawing(stem.with_name(stem.name + ending), title, height=height) as canvas:
            axes = canvas.add_subplot()
            for place, row in enumerate(rows):
                assert row.ratio is not None and row.target is not None
                far = row.verdict in ("outside", "contradicted")
                axes.plot([1, row.ratio], [place, place], color=GREY, linewidth=1)
                axes.plot(row.ratio, place, "o", color=EXPOSED if far else LINES[0])
                axes.plot(1, place, "D", color=GREY, markersize=6, mfc="none")
                numbers = f"{row.ours:.4g} for {row.target.published:.4g} {row.unit}".rstrip()
                axes.annotate(
                    numbers, (1.01, place), xycoords=("axes fraction", "data"), va="center",
                    fontsize=8, color=GREY,
                )
            names = [textwrap.shorten(row.setting, MOST_LETTERS, placeholder="…") for row in rows]
            axes.set_yticks(range(len(rows)), names, fontsize=8)
            axes.invert_yaxis()
            axes.set_xscale("log")
            ratios = [row.ratio for row in rows if row.ratio is not None]
            low, high = min(0.8, 0.9 * min(ratios)), max(1.25, 1.1 * max(ratios))
            axes.set_xlim(low, high)
            ticks = [each for each in (0.01, 0.1, 0.2, 0.5, 0.8, 1, 1.25, 2, 5, 10, 100)
                     if low <= each <= high]
            axes.set_xticks(ticks, [f"{each:g}" for each in ticks])
            axes.minorticks_off()
            axes.set_xlabel("ours over published (diamonds); red: outside its tolerance")
    return rows


def _curve_points(curves: Curves) -> Table:
    table = Table(curves.title, (Column("series"), Column(curves.x), Column(curves.y)))
    for name, points in curves.series.items():
        for x, y in points:
            table.add(name, x, y)
    return table


def _bar_points(bars: Bars) -> Table:
    names = ("group", "bar", "part", bars.y)
    table = Table(bars.title, [Column(name) for name in names])
    for group, inside in bars.groups.items():
        for bar, parts in inside.items():
            for part, value in parts.items():
                table.add(group, bar, part, value)
    return table


def _lines(axes: Any, curves: Curves) -> int:
    from sim.results.style import colour_of

    for index, (name, points) in enumerate(curves.series.items()):
        xs, ys = [x for x, _ in points], [y for _, y in points]
        style = "o-" if len(xs) < 60 else "-"
        if name in curves.marks:
            style = "D"
        elif name in curves.dashed:
            style = "--"
        size = 6 if name in curves.marks else 3
        axes.plot(
            xs, ys, style, markersize=size, linewidth=1.2, color=colour_of(name, index),
            label=name,
        )
    if curves.log_x:
        axes.set_xscale("log", base=2)
    return len(curves.series)


def _bars(axes: Any, plot: Bars) -> int:
    """Groups side by side, a gap of one bar between them; parts upon each other."""
    from sim.results.style import colour_of

    at, names, middles, position = [], [], [], 0.0
    for inside in plot.groups.values():
        start = position
        for bar in inside:
            at.append(position)
            names.append(bar)
            position += 1
        middles.append((start + position - 1) / 2)
        position += 1 if len(inside) > 1 else 0
    stacks = [parts for inside in plot.groups.values() for parts in inside.values()]
    shown = list(dict.fromkeys(part for parts in stacks for part in parts))
    bottom = [0.0] * len(stacks)
    for index, part in enumerate(shown):
        heights = [parts.get(part, 0.0) for parts in stacks]
        axes.bar(at, heights, 0.8, bottom=bottom, color=colour_of(part, index), label=part)
        bottom = [low + height for low, height in zip(bottom, heights)]
    if len(plot.groups) == len(stacks):
        few = len(stacks) <= NAMED_BARS
        named = range(0, len(stacks), 1 if few else len(stacks) // NAMED_BARS + 1)
        labels = list(plot.groups)
        axes.set_xticks([at[n] for n in named], [labels[n] for n in named])
    else:
        axes.set_xticks(at, names, rotation=45, ha="right", fontsize=8)
        below = axes.secondary_xaxis(location=1)
        below.set_xticks(middles, list(plot.groups))
        below.tick_params(length=0)
        below.spines["top"].set_visible(False)
    return len(shown)
