# SPDX-License-Identifier: Apache-2.0
"""The work of ``sim``, ``compare`` and ``sweep``; the parsing is in `cli`."""

import json
import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foldwire.console import interruptible, offer, open_page, print_table, say, step, tally
from foldwire.loading import loaded
from foldwire.version import __version__
from gen.extras import has_extra, missing_extras
from gen.folder import writing
from gen.table import Table

if TYPE_CHECKING:
    from sim.sweep.engine import SweepOutcome
    from sim.sweep.spec import SweepSpec

__all__ = [
    "compare", "explore", "folder_name", "run_sweep_file", "simulate", "stem_of", "view",
]

PAGE = "index.html"
MOST_ROWS = 12
MOST_POINTS = 60
MOST_NUMBERS = 5
MOST_NAME = 40


def simulate(
    path: Path,
    output: Path,
    *,
    endpoint: str | None,
    trace: bool,
    changes: Sequence[str] = (),
    short: Mapping[str, Any] | None = None,
    signals: Sequence[str] = (),
) -> None:
    """Run the system that *path* describes, print the results, and save them under *output*.

    *changes* are ``KEY=VALUE``, *short* further ones by key. The folder is named after the changes
    to the file. *signals* are those of ``[run] trace_signals``, and not part of that name.
    """
    from sim.describe.changes import parse_change
    from sim.run import run

    changed = {**dict(parse_change(text) for text in changes), **(short or {})}
    command = _command(path, endpoint, changes, short or {}, signals, trace)
    folder = output / folder_name(path, endpoint=endpoint, changes=changed)
    if signals:
        changed["run.trace_signals"] = [*signals]
    if folder.resolve() == path.resolve().parent:
        folder = folder.with_name(f"{folder.name}-again")
    with step(f"simulating {path.stem}") as report:
        done = interruptible(
            partial(
                run, path, endpoint=endpoint, trace=trace or None, changes=changed, report=report,
                load=loaded(),
            )
        )
    with step(f"writing {folder}"):
        saved = done.save(folder, command=command)
    for name in ("summary", "phases", "dimensions", "endpoints", "bounded", "limits"):
        _print(saved.tables[name], str(folder / f"{name}.csv"))
    say(f"page, tables{', figures' if has_extra('figures') else ''} and trace: {folder}")
    _say_missing()
    offer(lambda: {"folder": str(folder), **_json_of(folder / "run.json")})
    if done.data is not None and not done.data.exact:
        raise RuntimeError(
            f"{done.data.wrong} of {done.data.results} results differ from numpy's: the RTL or its "
            "program is wrong"
        )


def folder_name(
    path: Path, *more: str, endpoint: str | None, changes: Mapping[str, Any]
) -> str:
    """Name for a folder of results of the system in *path*: also after what was given for it."""
    kind, _, level = (endpoint or "").partition(":")
    varied = [_file_name(f"{key.rpartition('.')[2]}={value}") for key, value in changes.items()]
    return "-".join(part for part in (stem_of(path), *more, kind, level, *varied) if part)


def stem_of(path: Path) -> str:
    """Name of the system in *path*: that of the file, or of the run whose folder has it."""
    from sim.results.repeat import REPEAT
    from sim.results.store import SUMMARY

    parent = path.resolve().parent
    return parent.name if path.name == REPEAT and (parent / SUMMARY).exists() else path.stem


def _command(
    path: Path, endpoint: str | None, changes: Sequence[str], short: Mapping[str, Any],
    signals: Sequence[str], trace: bool,
) -> str:
    """The command line of a simulation, less its output folder."""
    words = ["foldwire", "sim", str(path), *(["--endpoint", endpoint] if endpoint else [])]
    words += [word for change in changes for word in ("--set", change)]
    words += [word for key, value in short.items() for word in ("--set", f"{key}={value}")]
    words += ["--trace"] if trace else []
    words += [word for file in loaded() for word in ("--load", str(file))]
    words += [word for signal in signals for word in ("--trace-signals", signal)]
    return shlex.join(words)


def _json_of(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _file_name(text: str) -> str:
    """*text* as part of the name of a folder."""
    return re.sub(r"[^\w.=+]+", "_", text)[:MOST_NAME].strip("_")


def compare(runs: Sequence[Path], output: Path) -> None:
    """Print saved runs side by side, and draw them."""
    from sim.results.compare import compare_figure, compare_layers, compare_runs
    from sim.results.store import load_run
    from sim.results.view.compare import write_comparison

    loaded = [load_run(run) for run in runs]
    table = compare_runs(loaded)
    layers = compare_layers(loaded)
    output = output / "-".join(["compare", *_distinct(runs)])
    output.mkdir(parents=True, exist_ok=True)
    for stem, each in (("compare", table), ("compare-layers", layers)):
        each.write_beside(output / stem)
    if has_extra("figures"):
        compare_figure(output / "compare.svg", loaded)
    page = output / "index.html"
    write_comparison(page, loaded)
    print_table(table)
    offer(lambda: {"folder": str(output), "runs": table.records(), "layers": layers.records()})
    say("")
    waiting = [row for row in layers.rows if any(row[1:])]
    layers = replace(layers, rows=waiting, note="Only layers that an NPU waits for.")
    _print(layers, str(output / "compare-layers.csv"))
    say(f"page{', figure' if has_extra('figures') else ''} and tables: {output}")
    _say_missing()


def view(folders: Sequence[Path], output: Path, *, browser: bool) -> None:
    """Open the page of a folder of results, or write and open that of several runs side by side."""
    from sim.results.store import load_run
    from sim.results.view.compare import write_comparison, write_saved_page

    if len(folders) == 1:
        folder = folders[0]
        page = folder if folder.name == PAGE else folder / PAGE
        if not page.is_file():
            page = write_saved_page(folder, load_run(folder))
    else:
        loaded = [load_run(folder) for folder in folders]
        page = output / "-".join(["view", *_distinct(folders)]) / PAGE
        with writing(page):
            page.parent.mkdir(parents=True, exist_ok=True)
            write_comparison(page, loaded)
    say(str(page))
    if browser and not open_page(page):
        say("no browser was found: open this file in one")


def _distinct(folders: Sequence[Path]) -> list[str]:
    """Names of *folders*, preceded by as many parent folders as make them unique."""
    parts = [folder.resolve().parts[1:] for folder in folders]
    depth = 1
    while len({each[-depth:] for each in parts}) < len(set(parts)):
        depth += 1
    return ["-".join(each[-depth:]) for each in parts]


def run_sweep_file(
    path: Path, output: Path, *, scheduler: str | None, workers: int, retry: bool
) -> int:
    """Run the sweep in *path*, resuming where it was left; print and write its table.

    Returns the number of points that failed.
    """
    from sim.sweep.report import shown, write_outcome
    from sim.sweep.training import RUNNER

    spec, outcome = _run_points(
        path, output, RUNNER, scheduler=scheduler, workers=workers, retry=retry
    )
    written = write_outcome(outcome, spec, output / path.stem)
    where = ", ".join(str(each) for each in written if each.suffix in (".csv", ".parquet"))
    print_table(shown(outcome.table, spec), most=MOST_POINTS, where=where)
    offer(lambda: {"folder": str(output / path.stem), "points": outcome.table.records()})
    return _say_outcome(outcome, written)


def explore(
    path: Path, output: Path, *, cost: str, time: str | None, synthesise: bool, workers: int,
    retry: bool,
) -> int:
    """Run the sweep in *path* with the price of each point; print and write those that no other
    beats in *cost* and *time*. With *synthesise* these are mapped to cells as well.

    Returns the number of points that failed.
    """
    from gen.estimate.model import TARGET_OF, counted
    from gen.synth import synthesize
    from sim.sweep.explore import COSTS, RUNNER, designed, front, write_exploration

    if cost not in COSTS:
        raise ValueError(f"--cost must be one of {', '.join(COSTS)}, not {cost!r}")
    spec, outcome = _run_points(path, output, RUNNER, workers=workers, retry=retry, more=COSTS)
    table = outcome.table
    known = [column.name for column in table.columns]
    if cost not in known:  # all points have failed
        return _say_outcome(outcome, ())
    time = time or spec.plot.y or next(
        name for name in known[len(spec.keys) :] if name.endswith("_s")
    )
    if time not in known:
        raise ValueError(f"--time must be one of {', '.join(known)}, not {time!r}")
    chosen = front(table, cost, time)
    mapped: dict[int, int] = {}
    for n in chosen if synthesise else ():
        design, blueprint, config = designed(
            spec.config(outcome.points[n].changes), source=spec.source
        )
        made = blueprint.component(config)
        name = design.replace("-", "_")
        cells = synthesize(made, name=name, target=TARGET_OF[cost])
        mapped[n] = counted(cells, name, cost)
    written = write_exploration(
        outcome, spec, output / path.stem, cost=cost, time=time, synthesised=mapped,
    )
    shown = replace(table, rows=[table.rows[n] for n in chosen])
    print_table(
        replace(
            shown.select([*spec.keys, cost, time]), title="Points that no other beats in both"
        ),
        most=MOST_POINTS,
    )
    offer(lambda: {"folder": str(output / path.stem), "points": shown.records()})
    return _say_outcome(outcome, written)


def _run_points(
    path: Path, output: Path, runner: str, *, scheduler: str | None = None, workers: int,
    retry: bool, more: Sequence[str] = (),
) -> "tuple[SweepSpec, SweepOutcome]":
    """Run the points of a file that are left; *more* are metrics besides those of runs."""
    from sim.results.metrics import METRICS
    from sim.sweep.engine import run_sweep
    from sim.sweep.spec import read

    spec = read(path, metrics=[*METRICS, *more])
    where = scheduler or f"{workers} process" + ("es" if workers > 1 else "")
    with tally(f"{len(spec)} points on {where}") as progress:
        outcome = run_sweep(
            spec,
            output / path.stem,
            runner=runner,
            version=__version__,
            workers=workers,
            scheduler=scheduler,
            retry=retry,
            load=loaded(),
            progress=progress,
        )
    return spec, outcome


def _say_outcome(outcome: "SweepOutcome", written: Sequence[Path]) -> int:
    """Print errors, counts and files; return the number of points that failed."""
    say("")
    errors = Counter(each.error for each in outcome.results if each.error is not None)
    for error, count in errors.most_common(MOST_NUMBERS):
        say(f"{count} failed: {error}")
    if len(errors) > MOST_NUMBERS:
        say(f"{len(errors) - MOST_NUMBERS} more errors are in the files")
    say(f"{len(outcome.points)} points, {outcome.reused} of them from before")
    if outcome.failed:
        say("--retry runs those that failed again")
    if written:
        say("written: " + ", ".join(str(each) for each in written))
    _say_missing()
    return outcome.failed


def _say_missing() -> None:
    if missing := missing_extras("tables", "figures"):
        say(missing)


def _print(table: Table, where: str) -> None:
    print_table(table, most=MOST_ROWS, where=where)
    say("")
