# SPDX-License-Identifier: Apache-2.0
"""Runs the figures of a paper, prints them, writes CSV and pictures, and counts the verdicts."""

import argparse
import math
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.result import result
from experiments.figure import GROUNDINGS, Assumption, Context, Figure, Lost, Maker
from experiments.plot import draw, draw_published
from foldwire.console import listen, offer, print_table, say, step
from gen.extras import require_extra
from gen.table import Column, Table

__all__ = [
    "PAPERS", "Paper", "assumptions_table", "counts", "grounds", "reproduce", "rows_table",
]

PAPERS = ("ace-v1", "ace-isca21", "smartnic", "astra-sim", "klenk")
"""In the order of reports."""
COLUMNS = (
    Column("setting"),
    Column("ours", digits=3),
    Column("published"),
    Column("origin"),
    Column("unit"),
    Column("ratio", digits=3),
    Column("tolerance"),
    Column("bound"),
    Column("verdict"),
    Column("grounding"),
    Column("check"),
)
COUNTED = ("within", "outside", "identity", "contradicted", "fitted")


@dataclass(frozen=True)
class Paper:
    """The figures of one paper, as ``foldwire reproduce`` finds them in its module.

    Parameters
    ----------
    name
        As in ``foldwire reproduce``, e.g. ``ace-v1``.
    title
        Title of the paper.
    published
        Place and time of publication.
    makers
        Functions that make the figures and have their names.
    """

    name: str
    title: str
    published: str
    makers: tuple[Maker, ...]

    @property
    def figures(self) -> dict[str, Maker]:
        """Makers of the figures, by the names of these on the command line."""
        return {maker.__name__.replace("_", "-"): maker for maker in self.makers}

    def main(self, argv: Sequence[str]) -> int:
        """Run the figures named in *argv*, all of them if none is."""
        return reproduce(self.name, f"{self.title} ({self.published})", self.figures, argv)


def reproduce(name: str, paper: str, figures: Mapping[str, Maker], argv: Sequence[str]) -> int:
    """The command line of one paper.

    Parameters
    ----------
    name
        As in ``foldwire reproduce``, e.g. ``ace-v1``.
    paper
        Its title, for the first line.
    figures
        Makers of the figures, by the names of these on the command line.
    argv
        Arguments: names of figures (all if none), ``--output FOLDER``, ``--list``, ``--json`` or
        ``--quiet``, with which no line of results is printed.

    Returns
    -------
    int
        0 if everything could be run, whatever the verdicts; 2 for wrong arguments.
    """
    parser = argparse.ArgumentParser(prog=f"foldwire reproduce {name}", description=paper)
    parser.add_argument("figure", nargs="*", help="names of figures; all if none is given")
    parser.add_argument("-o", "--output", type=Path, default=Path("build", "reproduce", name))
    parser.add_argument("--list", action="store_true", help="list the figures and stop")
    printed = parser.add_mutually_exclusive_group()
    printed.add_argument("--json", action="store_true", help="print JSON in place of tables")
    printed.add_argument("--quiet", action="store_true", help="print nothing but errors")
    options = parser.parse_args(list(argv))
    if options.list:
        for key in figures:
            say(key)
        return 0
    require_extra("figures", f"foldwire reproduce {name}")
    unknown = [key for key in options.figure if key not in figures]
    if unknown:
        known = ", ".join(figures)
        print(f"reproduce: unknown figure {unknown[0]!r}; there are: {known}", file=sys.stderr)
        return 2
    listen(quiet=options.quiet, json=options.json)
    try:
        return _reproduced(name, paper, figures, options)
    finally:
        listen()


def _reproduced(
    name: str, paper: str, figures: Mapping[str, Maker],
    options: argparse.Namespace,
) -> int:
    """Run figures, print and write them."""
    say(paper)
    made: dict[str, Figure] = {}
    for key in options.figure or figures:
        with step(key) as progress:
            made[key] = figure = figures[key](Context(progress=progress))
        _print(figure)
        _write(figure, key, options.output)
    totals = counts(made.values())
    assumed = assumptions_table(made)
    if assumed.rows:
        assumed.write(options.output / "assumptions.csv")
        say("")
        _print_assumptions(assumed)
    _print_lost(made.values())
    say(f"CSV and pictures: {options.output}")
    offer(lambda: {
        "folder": str(options.output), **totals, "assumptions": assumed.records(),
        "figures": {key: _document(figure) for key, figure in made.items()},
    })
    if options.json or options.quiet:
        return 0
    result(
        f"reproduce_{name.replace('-', '_')}",
        verdict="ok" if totals["compared"] and not totals["outside"] else "short",
        **totals,
    )
    return 0


def _document(figure: Figure) -> dict[str, Any]:
    """Rows and tables of a figure, as JSON has them."""
    tables = [{"title": each.title, "rows": each.records()} for each in figure.tables]
    return {"title": figure.title, "rows": rows_table(figure).records(), "tables": tables}


def counts(figures: Iterable[Figure]) -> dict[str, int]:
    """Counts for the result line. Every row is counted once; lost results are no rows."""
    figures = list(figures)
    verdicts = Counter(row.verdict for figure in figures for row in figure.rows)
    return {
        "rows": sum(verdicts.values()),
        "compared": verdicts["within"] + verdicts["outside"],
        **{name: verdicts[name] for name in COUNTED},
        "unrecoverable": len(_lost(figures)),
    }


def grounds(figures: Iterable[Figure]) -> dict[str, int]:
    """Counts that tell the worth of the compared values: speed-ups judged by their effect, those of
    them within tolerance, and values by their least firm ground."""
    rows = [
        (figure.grounding(row), row)
        for figure in figures
        for row in figure.rows
        if row.verdict in ("within", "outside")
    ]
    by_effect = [row for _, row in rows if row.by_effect]
    resting = Counter(ground for ground, _ in rows)
    return {
        "effects": len(by_effect),
        "effects_within": sum(row.verdict == "within" for row in by_effect),
        **{f"on_{ground}": resting[ground] for ground in GROUNDINGS},
    }


def assumptions_table(figures: Mapping[str, Figure]) -> Table:
    """Table of the assumptions, the least firm last, with the figures that make them."""
    users: dict[Assumption, list[str]] = {}
    for key, figure in figures.items():
        for each in figure.assumptions:
            users.setdefault(each, []).append(key)
    table = Table(
        "what the figures assume",
        [Column("assumption"), Column("grounding"), Column("source"), Column("figures")],
        note="stated: in the paper's words; data: in files that its authors released; chosen: "
        "left open by both; fitted: made to meet a published result. A row bears the least firm.",
    )
    for each in sorted(users, key=lambda assumption: GROUNDINGS.index(assumption.grounding)):
        table.add(each.what, each.grounding, each.source, ", ".join(users[each]))
    return table


def rows_table(figure: Figure) -> Table:
    """Table of the rows of a figure; its note has the explanations, by number of the row."""
    table = Table(figure.title, COLUMNS)
    notes = [figure.note] if figure.note else []
    for row in figure.rows:
        setting = row.setting
        if row.why:
            mark = f"[{sum(1 for n in notes if n.startswith('[')) + 1}]"
            notes.append(f"{mark} {row.why}")
            setting = f"{setting} {mark}"
        published = tolerance = None
        if row.target is not None:
            published, tolerance = row.target.published, row.target.tolerance
        table.add(
            setting,
            ("yes" if row.ours else "no") if isinstance(published, str) else _short(row.ours),
            published if published is None or isinstance(published, str) else _short(published),
            row.origin if row.target is not None else None,
            row.unit,
            row.ratio,
            tolerance,
            str(row.bound) if row.bound is not None else None,
            row.verdict,
            figure.grounding(row),
            row.check,
        )
    return replace(table, note="\n".join(notes))


def _short(value: float) -> str:
    """Format with four significant digits, without an exponent where a person would omit it."""
    if math.isinf(value):
        return "never"
    if value == int(value) and abs(value) < 1e6:
        return str(int(value))
    return f"{value:.4g}"


def _print(figure: Figure) -> None:
    say("")
    if figure.rows:
        table = rows_table(figure)
        filled = [c.name for i, c in enumerate(table.columns) if any(row[i] for row in table.rows)]
        print_table(table.select(filled))
    else:
        say(figure.title)
        if figure.note:
            say(figure.note)
    for table in figure.tables:
        say("")
        print_table(table)


def _print_assumptions(assumed: Table) -> None:
    """Print the assumptions; on a screen their long texts share a column."""
    columns = [Column("grounding"), Column("assumption")]
    table = Table(assumed.title, columns, note=assumed.note)
    for what, grounding, source, figures in assumed.rows:
        table.add(grounding, f"{what}{f' ({source})' if source else ''}: {figures}")
    print_table(table)


def _lost(figures: Iterable[Figure]) -> list[Lost]:
    """Results that cannot be compared, each once though several figures say so."""
    return list(dict.fromkeys(each for figure in figures for each in figure.lost))


def _print_lost(figures: Iterable[Figure]) -> None:
    lost = _lost(figures)
    if not lost:
        return
    table = Table("published, but not to be compared", (Column("what"), Column("reason")))
    for each in lost:
        table.add(each.what, each.reason)
    say("")
    print_table(table)


def _write(figure: Figure, key: str, output: Path) -> None:
    output.mkdir(parents=True, exist_ok=True)
    if figure.rows:
        (output / f"{key}.csv").write_text(_rows_csv(figure), encoding="utf-8")
    for number, table in enumerate(figure.tables):
        (output / f"{key}-table{number}.csv").write_text(table.to_csv(), encoding="utf-8")
    for number, curves in enumerate(figure.curves):
        draw(curves, output / f"{key}-{number}")
    draw_published(figure, output / f"{key}-published")


def _rows_csv(figure: Figure) -> str:
    table = Table(figure.title, [*COLUMNS, Column("why")])
    for row in figure.rows:
        target = row.target
        table.add(
            row.setting,
            float(row.ours),
            None if target is None else str(target.published),
            None if target is None else row.origin,
            row.unit,
            row.ratio,
            None if target is None else target.tolerance,
            None if row.bound is None else str(row.bound),
            row.verdict,
            figure.grounding(row),
            row.check,
            row.why,
        )
    return table.to_csv()
