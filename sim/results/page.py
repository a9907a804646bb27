"""A one-page HTML summary that needs no other file: figures are inside it, and also beside it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from gen.folder import replace_text
from gen.table import Table

__all__ = ["Fact", "Page", "PageFigure", "PageSection", "write_page"]


@dataclass(frozen=True, kw_only=True)
class Fact:
    """One figure at the top of the page; `good` colours it, None leaves it neutral."""

    value: str
    label: str
    good: bool | None = None


@dataclass(frozen=True, kw_only=True)
class PageFigure:
    """An SVG file in the folder of the page, and its caption."""

    file: str
    caption: str
    svg: Markup

    @classmethod
    def read(cls, path: Path, caption: str) -> "PageFigure":
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
class PageSection:
    """A section: a paragraph, figures, tables, links to files relative to the page."""

    title: str
    text: str = ""
    figures: Sequence[PageFigure] = ()
    tables: Sequence[Table] = ()
    files: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Page:
    """The whole page, from the most important to the rest."""

    title: str
    lead: str
    version: str
    facts: Sequence[Fact]
    parts: Sequence[PageSection]


def write_page(path: Path, page: Page) -> None:
    """Write *page* to *path* as HTML."""
    environment = Environment(
        loader=PackageLoader("sim.results", "."),
        autoescape=select_autoescape(["html", "j2"]),
        undefined=StrictUndefined,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    text = environment.get_template("page.html.j2").render(page=page)
    replace_text(path, text)
