"""Draws the curves and bars of a figure as SVG and PNG, and writes their points as CSV."""

from itertools import cycle
from pathlib import Path
from typing import Any

from experiments.figure import Bars, Curves
from gen.table import Column, Table

__all__ = ["draw"]

COLOURS = (
    "#1f6f8b", "#e0a458", "#9b2c2c", "#4b7f52", "#6b4c9a", "#5a6470", "#c06c84", "#3fa7d6",
    "#8d6e3f", "#a3b18a",
)
NAMED_BARS = 24
"""So many bars can be told apart by names below them."""


def draw(plot: Curves | Bars, stem: Path) -> None:
    """Write ``stem.svg``, ``stem.png`` and ``stem-points.csv``."""
    from sim.results.style import drawing, value_grid

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
                axes.axhline(level, color="#5a6470", linewidth=0.8, linestyle="--")
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
    for colour, (name, points) in zip(cycle(COLOURS), curves.series.items()):
        xs, ys = [x for x, _ in points], [y for _, y in points]
        style = "o-" if len(xs) < 60 else "-"
        if name in curves.marks:
            style = "D"
        elif name in curves.dashed:
            style = "--"
        size = 6 if name in curves.marks else 3
        axes.plot(xs, ys, style, markersize=size, linewidth=1.2, color=colour, label=name)
    if curves.log_x:
        axes.set_xscale("log", base=2)
    return len(curves.series)


def _bars(axes: Any, plot: Bars) -> int:
    """Groups side by side, a gap of one bar between them; parts upon each other."""
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
    for colour, part in zip(cycle(COLOURS), shown):
        heights = [parts.get(part, 0.0) for parts in stacks]
        axes.bar(at, heights, 0.8, bottom=bottom, color=colour, label=part)
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
