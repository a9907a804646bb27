# SPDX-License-Identifier: Apache-2.0
"""Costs of the engines: cells and clocks of every preset, the papers' tables, and time
against area, each a part of its own; and one page of them all, as Markdown and as HTML."""

import contextlib
import csv
import io
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.clock import Configured, configuration, placed
from experiments import tables as published
from experiments.figure import Context
from experiments.reproduce import rows_table
from foldwire.catalog import build, engine_presets
from foldwire.emission import netlist_of, synthesis_table
from gen.cache import announce
from gen.mapping.levels import levels_of
from gen.synth import flow_note, largest_blocks
from gen.table import Cell, Column, Table
from sim.results.view.page import Picture, Section, View, write_view

__all__ = [
    "FIGURE", "PAGE", "PRESETS", "SECTIONS", "TARGET", "cells", "clock", "explored", "keep",
    "levels", "published_tables", "write_page",
]

Tables = Mapping[str, Table]

PRESETS = engine_presets()
FASTER: Configured = ("smartnic", "40g", {"alu_stages": "8"})
CLOCKED: tuple[Configured, ...] = (*((*each, {}) for each in PRESETS), FASTER)
"""Configurations whose levels and clocks are measured: all presets, and one of them with the
adders of `test`, which have more stages."""
TARGET = "xcup"
PAGE, FIGURE = "price", "explored.svg"
TITLE = "What the engines cost"
LEAD = "Cells are mapped by Yosys and not placed; make report measures what has changed."
DRAWN = "Time against LUT of the engine"
EXAMPLE = Path("examples", "explore_ace.toml")
LARGEST_BLOCKS = 20
EXPLORED = ("time_s", "limited_by", "lut", "ff", "gates", "bram")
"""Columns of points beside the parameters that differ."""
SECTIONS: Mapping[str, str] = {
    "cells": "Cells of presets on an FPGA, of whole designs and of their largest blocks.",
    "levels": "Longest paths of presets, in levels of logic.",
    "clock": "Clock after place and route, of the presets that fit an ECP5-85K.",
    "tables": "The synthesis tables that papers print, and the same parts of ours.",
    "explored": "Time of a collective against the area of the engine that carries it out.",
}
"""Part of the results -> what its section of the page says."""


def cells(root: Path) -> Tables:
    """Cells of whole designs, and of the blocks of the smallest engines.

    Mappings that were finished stay in the cache when this is interrupted.
    """
    tables: dict[str, Table] = {}
    rows: list[Sequence[Cell]] = []
    first: Table | None = None
    for number, (design, preset) in enumerate(PRESETS, 1):
        announce(f"cells of {design} {preset}, {number} of {len(PRESETS)}")
        found = synthesis_table(build(design, preset, {}), TARGET)
        first = first or found
        rows.append((design, preset, *found.rows[0][2:]))
        if preset == "test":
            title = f"Blocks of {design}, preset {preset}"
            tables[f"cells-{design}"] = replace(largest_blocks(found, LARGEST_BLOCKS), title=title)
    assert first is not None
    columns = [Column("design"), Column("preset"), *first.columns[2:]]
    whole = Table("Cells of whole designs", columns, rows, flow_note(first))
    return {"cells": whole} | tables


def levels(root: Path) -> Tables:
    """Levels of logic of every preset; what was mapped stays in the cache."""
    table = Table(
        "Levels of logic",
        [
            Column("design"), Column("preset"), Column("levels", digits=1),
            Column("above_6", "ends above 6", "%", 1), Column("start"), Column("end"),
        ],
        note="Longest path between registers on ECP5: LUT, LUT RAM and the first cell of a carry "
        "chain are a level each, further cells of a chain a tenth. About six are 100 MHz.",
    )
    for number, (design, preset, changes) in enumerate(CLOCKED, 1):
        which = configuration(preset, changes)
        announce(f"levels of {design} {which}, {number} of {len(CLOCKED)}")
        found = levels_of(netlist_of(build(design, preset, changes)))
        longest = found.worst[0]
        table.add(
            design, which, longest.levels, 100 * found.above[6.0], longest.start, longest.end
        )
    return {"levels": table}


def clock(root: Path) -> Tables:
    """Clocks of the presets that fit the device; what was placed and routed stays in the cache."""
    return {"clocks": placed(CLOCKED)}


def published_tables(root: Path) -> Tables:
    """Rows of the papers' synthesis tables, and our parts beside them."""
    tables: dict[str, Table] = {}
    for key, make in published.PAPER.figures.items():
        announce(f"published tables: {key}")
        figure = make(Context())
        tables[f"tables-{key}"] = replace(rows_table(figure), title=figure.title)
        tables |= {f"tables-{key}-{n}": each for n, each in enumerate(figure.tables)}
    return tables


def explored(root: Path) -> Tables:
    """The points of the example that no other beats; their figure is written beside the page."""
    from foldwire.systems import explore

    with TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        explore(
            root / EXAMPLE, Path(folder), cost="lut", time=None, synthesise=False, workers=1,
            retry=False,
        )
        made = Path(folder, EXAMPLE.stem)
        shutil.copy(made / "explore.svg", root / "docs" / "results" / FIGURE)
        with (made / "front.csv").open(newline="", encoding="utf-8") as file:
            names, *rows = csv.reader(file)
    values: list[Sequence[Cell]] = [[_value(cell) for cell in row] for row in rows]
    columns = [
        Column.fitting(name, column)
        for name, column in zip(names, zip(*values, strict=True), strict=True)
    ]
    title = f"Points of {EXAMPLE} that no other beats in LUT and time"
    front = Table(title, columns, values, note="Cells: model of the parameters.")
    return {"explored": front.select([*(name for name in names if "." in name), *EXPLORED])}


def _value(text: str) -> Cell:
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return text or None


def keep(folder: Path, name: str, tables: Tables) -> None:
    """Keep the tables of a part whole, for the page; their CSV files have no titles and units."""
    kept = [[stem, json.loads(table.to_json())] for stem, table in tables.items()]
    path = folder / f"{name}.json"
    path.write_text(json.dumps(kept, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")


def _kept(folder: Path, name: str) -> Tables:
    """The tables that `keep` wrote; none if the part has not been measured.

    Raises
    ------
    ValueError
        The file is not one of them.
    """
    path = folder / f"{name}.json"
    if not path.exists():
        return {}
    try:
        kept = [(str(stem), json.dumps(table)) for stem, table in json.loads(path.read_bytes())]
    except (ValueError, TypeError) as error:
        again = f"python -m experiments.report --again {name}"
        raise ValueError(f"{path}: not tables of a part ({error}); {again}") from error
    return {stem: Table.from_json(text, source=f"{path}: {stem}") for stem, text in kept}


def write_page(folder: Path, built: Path) -> None:
    """Write the page of all parts that have been measured, from the tables kept in *folder*: as
    Markdown beside them, as HTML to *built*."""
    body, sections = [f"# {TITLE}", "", LEAD, ""], []
    for name, says in SECTIONS.items():
        tables, title = _kept(folder, name), name.capitalize()
        lead = says if tables else f"Not measured yet: python -m experiments.report {name}"
        pictures = []
        more = f" ([page]({name}.md))" if tables else ""
        body += [f"## {title}", "", f"{lead}{more}", ""]
        if name == "explored" and tables:
            pictures = [Picture.read(folder / FIGURE, DRAWN)]
            body += [f"![{DRAWN}]({FIGURE})", ""]
        body += [f"### {table.title}\n\n{table.to_markdown()}" for table in tables.values()]
        sections.append(
            Section(title=title, lead=lead, tables=[*tables.values()], pictures=pictures)
        )
    (folder / f"{PAGE}.md").write_text("\n".join(body), encoding="utf-8")
    write_view(built / f"{PAGE}.html", View(title=TITLE, lead=LEAD, sections=sections))
