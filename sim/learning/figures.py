# SPDX-License-Identifier: Apache-2.0
"""Loss curves and accuracies of training with compressed all-reduces."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sim.fields import FieldError
from sim.learning.accuracy import FormatResult
from sim.results.style import LINES, drawing, value_grid

__all__ = ["study_figure"]

SMOOTHED = 9  # steps


def study_figure(path: Path, results: Sequence[FormatResult], *, title: str) -> None:
    """Above: losses, mean of the seeds, smoothed, on a logarithmic scale. Below: the accuracy of
    every seed, and their mean, by format.

    Parameters
    ----------
    path
        Where to write; `.svg` and `.png` are the useful endings.
    results
        Those of one data set, with equal numbers of steps.
    """
    if not results:
        raise FieldError("results", "must hold at least one format")
    names = ["binary32" if each.codec == "none" else each.codec for each in results]
    with drawing(path, title, height=7) as figure:
        losses, accuracies = figure.subplots(2, 1)
        window = min(SMOOTHED, results[0].losses.shape[1])
        for name, each in zip(names, results):
            smooth = np.convolve(each.losses.mean(axis=0), np.ones(window) / window, "valid")
            steps = np.arange(len(smooth)) + (window + 1) / 2
            losses.plot(steps, smooth, linewidth=2.2 if name == "binary32" else 1.0, label=name)
        losses.set_yscale("log")
        losses.set(xlabel="step", ylabel=f"loss, mean of {window} steps")
        losses.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
        for place, each in enumerate(results):
            values = [100 * accuracy for accuracy in each.accuracies]
            accuracies.plot([place] * len(values), values, "o", color=LINES[0], markersize=3.5)
            accuracies.plot(place, 100 * each.accuracy, "_", color=LINES[3], markersize=18)
        labels = [f"{name}\n{each.ratio:.2f} : 1" for name, each in zip(names, results)]
        accuracies.set_xticks(range(len(results)), labels, fontsize=7)
        accuracies.set_ylabel("test accuracy (%), each seed and mean")
        value_grid(accuracies, "y")
