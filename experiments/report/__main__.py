# SPDX-License-Identifier: Apache-2.0
"""``python -m experiments.report [NAME ...]``: measure, write ``docs/results``, fill the documents.

Parts whose sources and tools are those of the page that is there are not measured again.
"""

import argparse
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from importlib import metadata
from multiprocessing import active_children, get_context
from pathlib import Path

from bench.stored import STORED, read
from experiments.report import price
from experiments.report.blocks import filled, pages
from experiments.report.parts import PARTS, Part, provenance
from foldwire.console import say, step
from gen.cache import announce
from gen.table import Column, Table

__all__ = ["index", "main"]

PROCESSES = 2
ROOT = Path(__file__).resolve().parents[2]
INTRODUCTION = (
    "`make report` writes this folder and the figures of the documents. What it writes follows "
    "from the sources and the tools alone: no dates, no wall times. Speeds and long benches are "
    "copied from the last stored result lines."
)


def main(argv: Sequence[str]) -> int:
    """Names of parts (all if none is given); ``--again`` measures also what is up to date,
    ``--fill`` nothing."""
    parser = argparse.ArgumentParser(prog="python -m experiments.report", description=__doc__)
    parser.add_argument("part", nargs="*", help=f"of {', '.join(PARTS)}; all if none is given")
    parser.add_argument("--again", action="store_true", help="measure what is up to date as well")
    parser.add_argument("--fill", action="store_true", help="measure nothing, fill pages alone")
    options = parser.parse_args(list(argv))
    if unknown := [name for name in options.part if name not in PARTS]:
        parser.error(f"unknown part {unknown[0]!r}; there are: {', '.join(PARTS)}")
    folder = ROOT / "docs" / "results"
    folder.mkdir(parents=True, exist_ok=True)
    stale = []
    for name in () if options.fill else options.part or PARTS:
        if not options.again and _is_current(PARTS[name], folder / f"{name}.md"):
            say(f"{name}: up to date")
        else:
            stale.append(name)
    if stale:
        with step(f"measuring {', '.join(stale)}"):
            for name, tables in _measured(stale):
                _write(folder, name, PARTS[name], tables)
                announce(f"{name}: written")
    price.write_page(folder, ROOT / "build" / "report")
    _write_index(folder)
    filling = pages(ROOT)
    for page in filling:
        page.write_text(filled(page.read_text(encoding="utf-8"), ROOT), encoding="utf-8")
    names = ", ".join(page.relative_to(ROOT).as_posix() for page in filling)
    say(f"written: {folder} and the blocks of {names}")
    return 0


def _measured(names: Sequence[str]) -> Iterator[tuple[str, Mapping[str, Table]]]:
    """Yield parts as they finish, so that the failure of one loses no other.

    An exception of a part is raised when the others are done. An interrupt does not wait for them.
    """
    waiting, failed = list(names), None
    running: dict[Future[Mapping[str, Table]], str] = {}
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        try:
            while waiting or running:
                while waiting and len(running) < PROCESSES:  # the pool starts all that it has
                    name = waiting.pop(0)
                    running[pool.submit(PARTS[name].make, ROOT)] = name
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    name = running.pop(future)
                    try:
                        tables = future.result()
                    except Exception as error:
                        announce(f"{name}: {error}")
                        failed = error
                    else:
                        yield name, tables
        except BaseException:
            for child in active_children():
                if child.pid is not None:
                    os.kill(child.pid, signal.SIGINT)  # it ends the Yosys process that it waits for
            raise
    if failed is not None:
        raise failed


def _foot(part: Part) -> str:
    return "\n".join(provenance(part, ROOT, metadata.version)) + "\n"


def _is_current(part: Part, page: Path) -> bool:
    return page.exists() and page.read_text(encoding="utf-8").endswith(_foot(part))


def _write(folder: Path, name: str, part: Part, tables: Mapping[str, Table]) -> None:
    """The page of a part and its tables as CSV; a table of a paper is a page of its own."""
    if name in price.SECTIONS:
        price.keep(folder, name, tables)
    body = [f"# {part.title}", ""]
    if part.figure is not None:
        file, shown = part.figure
        body += [f"![{shown}]({file})", ""]
    for stem, table in tables.items():
        table.write(folder / f"{stem}.csv")
        text = f"## {table.title}\n\n{table.to_markdown()}"
        if stem.startswith("paper-"):
            (folder / f"{stem}.md").write_text(f"{text[1:]}\n{_foot(part)}", encoding="utf-8")
            text = f"[{table.title}]({stem}.md)\n"
        body.append(text)
    (folder / f"{name}.md").write_text("\n".join([*body, _foot(part)]), encoding="utf-8")


def _write_index(folder: Path) -> None:
    (folder / "README.md").write_text(index(folder), encoding="utf-8")


def index(folder: Path) -> str:
    """The page that leads to the others, with the stored lines of all benches."""
    pages = Table("", [Column("page"), Column("shows"), Column("command")])
    made = {name: part for name, part in PARTS.items() if (folder / f"{name}.md").exists()}
    for name, part in made.items():
        pages.add(f"[{name}]({name}.md)", part.title, f"`{part.command}`")
    pages.add(f"[{price.PAGE}]({price.PAGE}.md)", price.TITLE, "`make report`")
    command = "`python -m bench NAME --store`"
    pages.add(f"[bench]({STORED.name})", "result lines of benches", command)
    lines = [
        "# Results",
        "",
        INTRODUCTION,
        "",
        pages.to_markdown(),
        "| bench | verdict | numbers |",
        "| --- | --- | --- |",
    ]
    for name, values in read().items():
        numbers = " ".join(f"{key}={value}" for key, value in values.items() if key != "verdict")
        lines.append(f"| `{name}` | {values['verdict']} | {numbers} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
