# SPDX-License-Identifier: Apache-2.0
"""Common style of all figures: their colours and fonts, and how they are written.

Drawn without pyplot, so that importing this module touches no global state and needs no display.
"""

import logging
import os
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from gen.extras import require_extra

try:
    import matplotlib
    from matplotlib.axes import Axes
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.font_manager import FontProperties, findfont, fontManager, get_font
    from matplotlib.text import Text
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
_LACKS = r"Glyph \d+ .*missing from|Matplotlib currently does not support .* natively"
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
            if _save(figure, draft, metadata):
                _take_fonts(figure)
                with _fewer_weights():
                    _save(figure, draft, metadata)
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)


def _save(figure: Figure, path: Path, metadata: Any) -> bool:
    """Write *figure*; return True, in place of warnings, if its fonts lack any character."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.filterwarnings("always", message=_LACKS)
        figure.savefig(path, dpi=150, metadata=metadata)
    others = [each for each in caught if not re.match(_LACKS, str(each.message))]
    for each in others:
        warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
    return len(others) < len(caught)


def _take_fonts(figure: Figure) -> None:
    """Give the texts of *figure* fonts with the characters that the usual one lacks."""
    texts = [each for each in figure.findobj(Text) if isinstance(each, Text)]
    usual = get_font(findfont(FontProperties())).get_charmap()
    characters = {ord(each) for text in texts for each in text.get_text() if each.isprintable()}
    families = _families_with(frozenset(characters - usual.keys()))
    for text in texts:
        text.set_fontfamily(["sans-serif", *families])


@contextmanager
def _fewer_weights() -> Iterator[None]:
    """Let a font that has no bold face stand for it without a word."""
    log = logging.getLogger("matplotlib.font_manager")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)


@cache
def _families_with(characters: frozenset[int]) -> tuple[str, ...]:
    """Fonts of this system that have *characters*, as few as possible; none for those that no font
    has, of which a browser that shows the figure may have one."""
    found: list[str] = []
    plain = [each for each in fontManager.ttflist if each.style == "normal"]
    left = set(characters)
    # Fonts without serifs first, as those of all other texts.
    for font in sorted(plain, key=lambda font: ("Sans" not in font.name, font.name)):
        if not left:
            break
        if font.name in found or "LastResort" in font.name.replace(" ", ""):
            continue
        if has := left & get_font(font.fname).get_charmap().keys():
            found.append(font.name)
            left -= has
    return tuple(found)


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
