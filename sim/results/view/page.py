# SPDX-License-Identifier: Apache-2.0
"""A page of results: tiles, charts that a small script draws, figures and tables, in one HTML file.

Charts are data in the page: `Chart.kind` names the function of ``view.js`` that draws them. What is
drawn is bounded, so that a page has less than 2 MB however long the run; captions say what is left
out.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from gen.extras import version_of
from gen.folder import replace_text
from gen.table import Table

__all__ = ["Chart", "Picture", "Section", "Tile", "View", "part_of", "write_view"]

MOST_ROWS = 400


@dataclass(frozen=True, kw_only=True)
class Tile:
    """A figure at the top of the page, and a line below it."""

    value: str
    label: str
    good: bool | None = None
    """Colours the figure; None leaves it neutral."""


@dataclass(frozen=True, kw_only=True)
class Picture:
    """An SVG file in the folder of the page, and its caption."""

    file: str
    caption: str
    svg: Markup

    @classmethod
    def read(cls, path: Path, caption: str) -> "Picture":
        """Take the figure in *path*, whose folder is the page's."""
        text = path.read_text(encoding="utf-8")
        # The text before <svg is the XML prologue, which is not allowed inside HTML. Ids are made
        # unique, since two figures in one page may otherwise share clip paths and glyphs.
        text = text[text.index("<svg") :]
        stem = re.sub(r"\W", "-", path.stem)
        for name in sorted(set(re.findall(r'\bid="([^"]+)"', text)), key=len, reverse=True):
            text = re.sub(rf'(\bid="|#){re.escape(name)}(?=["\)])', rf"\g<1>{stem}-{name}", text)
        return cls(file=path.name, caption=caption, svg=Markup(text))


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A chart: ``kind`` is timeline, network, lines, bars or sweep, and ``data`` what its function
    in ``view.js`` takes."""

    kind: str
    label: str
    data: Mapping[str, Any]
    caption: str = ""


@dataclass(frozen=True, kw_only=True)
class Section:
    """A part of the page; ``text`` is preformatted, ``folded``: closed at first. It links to
    ``files``, whose names are relative to the page."""

    title: str
    lead: str = ""
    charts: Sequence[Chart] = ()
    pictures: Sequence[Picture] = ()
    tables: Sequence[Table] = ()
    text: str = ""
    folded: bool = False
    files: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class View:
    """The whole page, from the most important to the rest."""

    title: str
    lead: str
    tiles: Sequence[Tile] = ()
    sections: Sequence[Section] = field(default_factory=list)

    @property
    def drawn(self) -> bool:
        """True if it has charts, which need the script; it also sorts tables then."""
        return any(section.charts for section in self.sections)


def part_of(table: Table, most: int = MOST_ROWS) -> Table:
    """The first rows of *table*, and a note of how many there are."""
    if len(table.rows) <= most:
        return table
    more = f"The first {most} of {len(table.rows)} rows; all are in the files beside this page."
    return replace(table, rows=list(table.rows[:most]), note=f"{more} {table.note}".strip())


def write_view(path: Path, view: View) -> None:
    """Write *view* to *path*, at once."""
    environment = Environment(
        loader=PackageLoader("sim.results.view", "."),
        autoescape=select_autoescape(["html", "j2"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["data"] = _script_data
    beside = files("sim.results.view")
    text = environment.get_template("view.html.j2").render(
        view=view,
        part_of=part_of,
        version=version_of("foldwire"),
        style=Markup(beside.joinpath("view.css").read_text("utf-8")),
        script=Markup(beside.joinpath("view.js").read_text("utf-8")),
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_text(path, text)


def _script_data(data: Mapping[str, Any]) -> Markup:
    """JSON that can stand in a script element; numbers that JSON lacks are gaps."""
    text = json.dumps(_finite(data), ensure_ascii=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c"))


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    if isinstance(value, float) and (value != value or abs(value) == float("inf")):
        return None
    return value
