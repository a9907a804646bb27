# SPDX-License-Identifier: Apache-2.0
"""Common style of all figures: their colours and fonts, and how they are written.

Drawn without pyplot, so that importing this module touches no global state and needs no display.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gen.extras import require_extra

try:
    import matplotlib
    from matplotlib.axes import Axes
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
except ImportError:
    require_extra("figures", "a figure")
    raise

__all__ = [
    "COMMUNICATION",
    "COMPUTE",
    "EXPOSED",
    "GREY",
    "GRID",
    "INK",
    "LIGHT",
    "LINES",
    "REST",
    "colour_of",
    "drawing",
    "grouped",
    "line_look",
    "percent_axis",
    "value_grid",
]

INK = "#1d2530"
GREY = "#5a6470"
LIGHT = "#c4ccd4"
GRID = "#e6eaee"
# One colour for a meaning, in all figures; lines of anything else have those of `LINES`.
COMPUTE = "#1f6f8b"
EXPOSED = "#c8553d"
COMMUNICATION = "#e0a458"
REST = LIGHT
LINES = ("#4b7f52", "#6b4c9a", "#96700f", "#b0457b", "#3b5bb5", "#5a6470", "#3fa7d6")
_MEANINGS = {
    "compute": COMPUTE, "exposed": EXPOSED, "exposed communication": EXPOSED,
    "communication": COMMUNICATION, "raw communication": COMMUNICATION,
    "issue to end": COMMUNICATION, "delays and idle": REST,
}
_DASHES, _MARKERS = ("-", "--", ":", "-."), ("o", "s", "^", "D")
# Typed as Any: matplotlib lists its several hundred keys as literals, differently per release.
STYLE: Any = {
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.edgecolor": LIGHT,
    "axes.labelcolor": GREY,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.fonttype": "none",  # text stays text, so the page can be searched
    "svg.hashsalt": "foldwire",
}


@contextmanager
def drawing(path: Path, title: str, *, width: float = 9, height: float = 3) -> Iterator[Figure]:
    """An empty figure of *width* x *height* inches, written to *path* at the end.

    `.svg` and `.png` are the useful endings. The same drawing gives the same bytes.
    """
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)
        figure.suptitle(title, x=0.01, ha="left", fontweight="bold", color=INK)
        yield figure
        path.parent.mkdir(parents=True, exist_ok=True)
        metadata = {"Date": None} if path.suffix == ".svg" else None
        # At once, for those who read it while a second command writes the same folder.
        draft = path.with_name(f".{os.getpid()}.{path.name}")
        try:
            figure.savefig(draft, dpi=150, metadata=metadata)
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)


def grouped(value: float, _: object = None) -> str:
    """*value* with its digits in groups of three, without needless decimals."""
    return f"{value:,.10g}".replace(",", " ")


def percent_axis(axes: Axes) -> None:
    """Shares from 0 to 1 upwards, written as per cent."""
    axes.set_ylim(0, 1.02)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1.0])
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    value_grid(axes, "y")


def value_grid(axes: Axes, axis: Any) -> None:
    """Faint lines behind the data."""
    axes.grid(axis=axis, color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)


def colour_of(name: str, index: int) -> str:
    """The colour of what *name* means; of anything else, that of the *index*-th line."""
    return _MEANINGS.get(name.lower(), LINES[index % len(LINES)])


def line_look(index: int) -> tuple[str, str, str]:
    """Colour, dashes and marker of the *index*-th line; no two of the first 28 look the same."""
    again, colour = divmod(index, len(LINES))
    return LINES[colour], _DASHES[again % len(_DASHES)], _MARKERS[again % len(_MARKERS)]
