"""Runs the figures of a paper, prints them, writes CSV and pictures, and counts the verdicts."""

import argparse
import math
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from bench.result import result
from experiments.figure import Context, Figure, Maker
from experiments.plot import draw
from foldwire.console import print_table, say, step
from sim.results.table import Column, Table

__all__ = ["counts", "reproduce", "rows_table"]

COLUMNS = (
    Column("setting"),
    Column("ours", decimals=3),
    Column("published"),
    Column("unit"),
    Column("ratio", decimals=3),
    Column("tolerance"),
    Column("verdict"),
    Column("check"),
)


def reproduce(name: str, paper: str, figures: Mapping[str, Maker], argv: Sequence[str]) -> int:
    """The command line of one paper.

    Parameters
    ----------
    name
        As in ``foldwire reproduce``, e.g. ``ace-v1``.
    paper
        Its title, for the first line.
    figures
        What makes each figure, by the name under which it can be asked for.
    argv
        Arguments: names of figures (all if none), ``--output FOLDER``, ``--list``.

    Returns
    -------
    int
        0 if everything could be run, whatever the verdicts; 2 for wrong arguments.
    """
    parser = argparse.ArgumentParser(prog=f"foldwire reproduce {name}", description=paper)
    parser.add_argument("figure", nargs="*", help="names of figures; all if none is given")
    parser.add_argument("-o", "--output", type=Path, default=Path("build", "reproduce", name))
    parser.add_argument("--list", action="store_true", help="list the figures and stop")
    options = parser.parse_args(list(argv))
    if options.list:
        for key in figures:
            say(key)
        return 0
    unknown = [key for key in options.figure if key not in figures]
    if unknown:
        known = ", ".join(figures)
        print(f"reproduce: unknown figure {unknown[0]!r}; there are: {known}", file=sys.stderr)
        return 2
    say(paper)
    made: list[Figure] = []
    for key in options.figure or figures:
        with step(key) as progress:
            figure = figures[key](Context(progress=progress))
        made.append(figure)
        _print(figure)
        _write(figure, key, options.output)
    totals = counts(made)
    _print_lost(made)
    say(f"CSV and pictures: {options.output}")
    result(
        f"reproduce_{name.replace('-', '_')}",
        verdict="ok" if totals["compared"] and not totals["outside"] else "short",
        **totals,
    )
    return 0


def counts(figures: Sequence[Figure]) -> dict[str, int]:
    """The keys of the result line. Every row is counted once; what is lost is no row."""
    verdicts = Counter(row.verdict for figure in figures for row in figure.rows)
    return {
        "rows": sum(verdicts.values()),
        "compared": verdicts["within"] + verdicts["outside"],
        "within": verdicts["within"],
        "outside": verdicts["outside"],
        "fitted": verdicts["fitted"],
        "unrecoverable": sum(len(figure.lost) for figure in figures),
    }


def rows_table(figure: Figure) -> Table:
    """The rows of a figure; what explains one is in the note, by its number."""
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
        statement = isinstance(published, str)
        table.add(
            setting,
            ("yes" if row.ours else "no") if statement else _short(row.ours),
            published if statement or published is None else _short(published),
            row.unit,
            row.ratio,
            tolerance,
            row.verdict,
            row.check,
        )
    return replace(table, note="\n".join(notes))


def _short(value: float) -> str:
    """Four significant digits, without an exponent where a person would not write one."""
    if math.isinf(value):
        return "never"
    if value == int(value) and abs(value) < 1e6:
        return str(int(value))
    return f"{value:.4g}"


def _print(figure: Figure) -> None:
    say("")
    if figure.rows:
        print_table(rows_table(figure))
    else:
        say(figure.title)
        if figure.note:
            say(figure.note)
    for table in figure.tables:
        say("")
        print_table(table)


def _print_lost(figures: Sequence[Figure]) -> None:
    lost = [each for figure in figures for each in figure.lost]
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


def _rows_csv(figure: Figure) -> str:
    table = Table(figure.title, [*COLUMNS, Column("why")])
    for row in figure.rows:
        target = row.target
        table.add(
            row.setting,
            row.ours,
            None if target is None else target.published,
            row.unit,
            row.ratio,
            None if target is None else target.tolerance,
            row.verdict,
            row.check,
            row.why,
        )
    return table.to_csv()
