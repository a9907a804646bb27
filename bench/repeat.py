# SPDX-License-Identifier: Apache-2.0
"""Every example is saved and run again from its own folder: the metrics are equal.

Examples are the descriptions that `foldwire sim` takes, and the first point of each sweep. Saving
is that of the command but for figures and trace; the folder is moved before it is run again.
"""

import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.options import bench_parser
from bench.result import result
from foldwire.console import print_table
from gen.table import Column, Table
from sim.results.repeat import REPEAT
from sim.run import Run, run
from sim.sweep.spec import read

__all__ = ["differences", "examples", "main"]

ROOT = Path(__file__).resolve().parent.parent
SWEEPS = ("base", "grid", "zip")


def main(argv: Sequence[str]) -> int:
    """``--only NAME``: examples whose name contains it."""
    parser = bench_parser("repeat", __doc__)
    parser.add_argument("--only", default="", metavar="NAME", help="examples whose name has it")
    options = parser.parse_args(argv)
    table = Table(
        "Examples run again from their folders",
        [Column("example"), Column("level"), Column("metrics"), Column("different"),
         Column("cpu_s", "CPU time", "s", 1)],
    )
    with tempfile.TemporaryDirectory() as folder:
        for path in examples(ROOT / "examples"):
            if options.only not in path.stem:
                continue
            begin = time.process_time()
            done = first_run(path)
            unlike = differences(done, Path(folder) / path.stem)
            used = time.process_time() - begin
            table.add(path.stem, done.level, len(done.metrics), ", ".join(unlike) or None, used)
            print(f"{path.stem}: {', '.join(unlike) or 'equal'}", flush=True)
    print_table(table)
    equal = sum(each is None for each in table["different"])
    verdict = "ok" if table.rows and equal == len(table.rows) else "short"
    result("repeat", examples=len(table.rows), equal=equal, verdict=verdict)
    return 0


def examples(folder: Path) -> Iterator[Path]:
    """All descriptions and sweeps of *folder*."""
    yield from sorted(folder.rglob("*.toml"))


def first_run(path: Path) -> Run:
    """The run of a description, or of the first point of a sweep."""
    if set(SWEEPS).isdisjoint(tomllib.loads(path.read_text(encoding="utf-8"))):
        return run(path)
    spec = read(path)
    return run(spec.config(next(spec.points())), source=spec.source)


def differences(done: Run, folder: Path) -> list[str]:
    """Names of metrics that differ when *done* is saved, its folder moved and run again."""
    saved = done.save(folder / "first", figures=False)
    moved = (folder / "first").rename(folder / "moved")
    again = run(moved / REPEAT).metrics
    names = dict.fromkeys([*saved.metrics, *again])
    return [name for name in names if saved.metrics.get(name) != again.get(name)]
