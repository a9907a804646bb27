# SPDX-License-Identifier: Apache-2.0
"""Rows of reproduced papers that can fail: those within tolerance leave it if they are wrong.

Every row within its tolerance is given the value of a wrong experiment: a gain with none or half of
its effect, another number halved or doubled, a statement whose two sides are swapped. It is caught
if all of these are outside. Rows are those of ``foldwire reproduce``; those of a figure are cached
until sources change, so that an interrupted run resumes.
"""

import argparse
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from bench._kept import Kept
from bench.result import result
from bench.sources import digest
from experiments.figure import Context, Figure
from experiments.reproduce import PAPERS
from foldwire.console import print_table, say, step
from gen.table import Column, Table

__all__ = ["judged", "main"]

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("hw", "gen", "sim", "experiments")
CAUGHT = 0.9


def main(argv: Sequence[str]) -> int:
    """``--papers NAME ...`` (all); ``--again`` also runs cached figures."""
    parser = argparse.ArgumentParser(prog="python -m bench rows", description=__doc__)
    parser.add_argument("--papers", nargs="*", choices=PAPERS, default=PAPERS, help="only these")
    parser.add_argument("--again", action="store_true", help="run what is kept as well")
    options = parser.parse_args(list(argv))
    kept = Kept("rows", digest(ROOT, SOURCES))
    found: dict[str, list[Mapping[str, Any]]] = {}
    for paper in options.papers:
        figures = import_module(f"experiments.{paper.replace('-', '_')}").PAPER.figures
        found[paper] = []
        for name, make in figures.items():
            part = f"{paper} {name}"
            values = None if options.again else kept.get(part, says=False)
            if values is None:
                with step(part) as progress:
                    values = {"rows": judged(make(Context(progress=progress)))}
                kept.put(part, values)
            found[paper] += [{"figure": name, **row} for row in values["rows"]]
    _print(found)
    rows = [row for of in found.values() for row in of]
    within = [row for row in rows if row["verdict"] == "within"]
    caught = sum(row["caught"] for row in within)
    no_effect = sum(row["no_effect"] for row in rows)
    result(
        "rows",
        verdict="ok" if within and caught >= CAUGHT * len(within) and not no_effect else "short",
        rows=len(within),
        caught=caught,
        no_effect=no_effect,
        by_effect=sum(row["by_effect"] for row in within),
        identities=sum(row["verdict"] == "identity" for row in rows),
    )
    return 0


def judged(figure: Figure) -> list[dict[str, Any]]:
    """Verdicts on the rows of a figure, as plain values."""
    return [
        {
            "setting": row.setting,
            "verdict": row.verdict,
            "by_effect": row.by_effect,
            "caught": bool(row.mutants)
            and all(each.verdict == "outside" for each in row.mutants),
            "no_effect": row.admits_no_effect,
        }
        for row in figure.rows
    ]


def _print(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    table = Table(
        "Rows within their tolerance, and those that a wrong experiment would leave there",
        [
            Column("paper"), Column("within"), Column("caught"),
            Column("by_effect", "of them by effect"), Column("no_effect", "admit no effect"),
        ],
    )
    left = []
    for paper, rows in found.items():
        within = [row for row in rows if row["verdict"] == "within"]
        table.add(
            paper, len(within), sum(row["caught"] for row in within),
            sum(row["by_effect"] for row in within), sum(row["no_effect"] for row in rows),
        )
        left += [
            f"{paper} {row['figure']}: {row['setting']}: {what}"
            for row in rows
            for what in _missed(row)
        ]
    print_table(table)
    for line in left:
        say(line)


def _missed(row: Mapping[str, Any]) -> list[str]:
    found = []
    if row["verdict"] == "within" and not row["caught"]:
        found.append("a wrong value is within the tolerance, too")
    if row["no_effect"]:
        found.append("no effect is within the tolerance")
    return found
