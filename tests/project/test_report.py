# SPDX-License-Identifier: Apache-2.0
import re

import numpy as np

from gen.table import Column, Table
from sim.results.figures import loss_figure, utilisation_figure
from sim.results.links import LinkSeries
from sim.results.view.page import Picture, Section, Tile, View, write_view


def table():
    columns = [Column("layer"), Column("size_bytes", "size", "B"), Column("exact")]
    table = Table("Layers", columns, note="no <b>")
    table.add("conv<1>", 37632, True)
    table.add("fc", None, False)
    return table


def links():
    shares = np.linspace(0, 0.5, 10)
    return [LinkSeries(name=f"{n} -> {n + 1}", header=shares / 8, payload=shares) for n in range(4)]


def test_figures_are_the_same_bytes_every_time(tmp_path):
    for name in ("a.svg", "b.svg"):
        utilisation_figure(tmp_path / name, links(), interval_cycles=64, title="t")

    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_page_is_self_contained_escaped_and_has_unique_ids(tmp_path):
    utilisation_figure(tmp_path / "use.svg", links(), interval_cycles=64, title="t")
    loss_figure(tmp_path / "loss.svg", {"RTL": [2.0, 1.0], "numpy": [2.0, 1.0]}, title="loss")
    figures = [Picture.read(tmp_path / name, "c") for name in ("use.svg", "loss.svg")]
    page = View(
        title="T",
        lead="L",
        tiles=[Tile(value="97 %", label="accuracy", good=True)],
        sections=[Section(title="P", pictures=figures, tables=[table()], files=["use.svg"])],
    )

    write_view(tmp_path / "index.html", page)

    html = (tmp_path / "index.html").read_text()
    assert "conv&lt;1&gt;" in html and "no &lt;b&gt;" in html
    assert html.count("<svg") == 2 and "<script" not in html
    assert not re.findall(r'(?:src|href)="(?:https?:)?//', html)
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(ids) == len(set(ids)) > 0
    used = set(re.findall(r"url\(#([^)]+)\)", html)) | set(re.findall(r'href="#([^"]+)"', html))
    assert used <= set(ids)
