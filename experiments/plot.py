"""Draws the curves of a figure as SVG and PNG, and writes their points as CSV."""

from itertools import cycle
from pathlib import Path
from typing import Any

from experiments.figure import Curves
from sim.results.table import Column, Table

__all__ = ["draw"]

COLOURS = ("#1f6f8b", "#e0a458", "#9b2c2c", "#4b7f52", "#6b4c9a", "#5a6470", "#c06c84")


def draw(curves: Curves, stem: Path) -> None:
    """Write ``stem.svg``, ``stem.png`` and ``stem-points.csv``."""
    from sim.results.style import drawing, value_grid

    table = Table(curves.title, (Column("series"), Column(curves.x), Column(curves.y)))
    for name, points in curves.series.items():
        for x, y in points:
            table.add(name, x, y)
    stem.parent.mkdir(parents=True, exist_ok=True)
    stem.with_name(f"{stem.name}-points.csv").write_text(table.to_csv(), encoding="utf-8")
    for ending in (".svg", ".png"):
        with drawing(stem.with_name(stem.name + ending), curves.title, height=4) as figure:
            axes = figure.add_subplot()
            if any(isinstance(x, str) for points in curves.series.values() for x, _ in points):
                _bars(axes, curves)
            else:
                _lines(axes, curves)
            for name, level in curves.levels.items():
                axes.axhline(level, color="#5a6470", linewidth=0.8, linestyle="--")
                axes.annotate(name, (0.01, level), xycoords=("axes fraction", "data"), fontsize=8)
            axes.set(xlabel=curves.x, ylabel=curves.y)
            axes.set_ylim(bottom=0)
            value_grid(axes, "y")
            if len(curves.series) > 1:
                axes.legend(frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(1, 1))


def _lines(axes: Any, curves: Curves) -> None:
    for colour, (name, points) in zip(cycle(COLOURS), curves.series.items()):
        xs, ys = [x for x, _ in points], [y for _, y in points]
        style = "o-" if len(xs) < 60 else "-"
        axes.plot(xs, ys, style, markersize=3, linewidth=1.2, color=colour, label=name)
    if curves.log_x:
        axes.set_xscale("log", base=2)


def _bars(axes: Any, curves: Curves) -> None:
    labels = list(dict.fromkeys(str(x) for points in curves.series.values() for x, _ in points))
    width = 0.8 / len(curves.series)
    for number, (colour, (name, points)) in enumerate(zip(cycle(COLOURS), curves.series.items())):
        at = [labels.index(str(x)) + (number + 0.5) * width - 0.4 for x, _ in points]
        axes.bar(at, [y for _, y in points], width, color=colour, label=name)
    axes.set_xticks(range(len(labels)), labels, rotation=30 if len(labels) > 6 else 0)
