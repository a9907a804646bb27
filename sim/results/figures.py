# SPDX-License-Identifier: Apache-2.0
"""Figures: link utilisation over time, and loss curves."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from sim.fields import FieldError
from sim.results.links import LinkSeries
from sim.results.style import LINES, drawing, grouped, percent_axis

__all__ = ["loss_figure", "utilisation_figure"]

PAYLOAD, WORST = LINES[0], LINES[3]
HEADER = "#a9c4a0"


def utilisation_figure(
    path: Path, links: Sequence[LinkSeries], *, interval_cycles: int, title: str
) -> None:
    """Draw the share of its capacity that each link carried.

    Above: the mean over all links, payload and headers apart, and the worst link of each interval.
    Below: one row per link.

    Parameters
    ----------
    path
        Where to write; `.svg` and `.png` are the useful endings.
    links
        Shares between 0 and 1; all of one length.
    interval_cycles
        Clock cycles per interval.
    """
    if not links:
        raise FieldError("links", "must name at least one link")
    intervals = len(links[0].total)
    edges = np.arange(intervals + 1) * interval_cycles
    payload = np.mean([link.payload for link in links], axis=0)
    header = np.mean([link.header for link in links], axis=0)
    worst = np.min([link.total for link in links], axis=0)

    with drawing(path, title, height=2.9 + 0.23 * len(links)) as figure:
        top, rows = figure.subplots(
            2, 1, sharex=True, gridspec_kw={"height_ratios": [2.3, 0.23 * len(links) + 0.4]}
        )
        top.stairs(payload, edges, fill=True, color=PAYLOAD, label="payload, mean of links")
        top.stairs(
            payload + header, edges, baseline=payload, fill=True, color=HEADER, label="headers"
        )
        top.stairs(worst, edges, color=WORST, linewidth=1.1, label="least busy link")
        percent_axis(top)
        top.set_ylabel("share of capacity")
        # Above the axes, where no utilisation can hide behind it.
        top.legend(loc="lower right", bbox_to_anchor=(1, 0.98), ncols=3, frameon=False)

        picture = rows.pcolormesh(
            edges,
            np.arange(len(links) + 1),
            np.array([link.total for link in links]),
            vmin=0,
            vmax=1,
            cmap="YlGnBu",
            rasterized=True,
        )
        rows.set_yticks(np.arange(len(links)) + 0.5, [link.name for link in links], fontsize=8)
        rows.tick_params(axis="y", length=0)
        rows.invert_yaxis()
        rows.set_xlim(0, edges[-1])
        rows.set_xlabel("clock cycles since the command")
        rows.xaxis.set_major_formatter(grouped)
        bar = figure.colorbar(picture, ax=rows, pad=0.01, aspect=10)
        bar.ax.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        bar.outline.set_visible(False)


def loss_figure(path: Path, curves: Mapping[str, Sequence[float]], *, title: str) -> None:
    """Draw training losses, one curve per way of reducing; equal curves stay visible as dashes."""
    with drawing(path, title) as figure:
        axes = figure.subplots()
        styles = ((PAYLOAD, "-", 4.0, 0.45), (WORST, "--", 1.3, 1.0))
        for (name, losses), (colour, dashes, width, alpha) in zip(curves.items(), styles):
            steps = np.arange(1, len(losses) + 1)
            axes.plot(steps, losses, dashes, color=colour, lw=width, alpha=alpha, label=name)
        axes.set_xlabel("step")
        axes.set_ylabel("mean loss of all workers")
        axes.set_ylim(bottom=0)
        axes.set_xlim(left=1)
        axes.legend(frameon=False)
