"""What ``sim``, ``compare`` and ``sweep`` do; the parsing is in `cli`."""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from foldwire.console import interruptible, print_table, say, step, tally
from foldwire.version import __version__
from sim.results.table import Table

__all__ = ["compare", "run_sweep_file", "simulate_collective", "simulate_system"]

MOST_ROWS = 12
MOST_NUMBERS = 5


def simulate_system(path: Path, output: Path, *, endpoint: str | None, trace: bool) -> None:
    """Run the training system in *path*, print what came out, and save it under *output*."""
    from sim.results.store import save

    kind, _, level = (endpoint or "").partition(":")
    folder = output / "-".join(part for part in (path.stem, kind, level) if part)
    if level:
        if (kind, level) != ("ace", "rtl"):
            raise ValueError(f"--endpoint must be a kind of endpoint or ace:rtl, not {endpoint!r}")
        from sim.on_rtl import run_on_rtl

        with step(f"simulating {path.stem} on RTL"):
            run = run_on_rtl(path, threads=os.cpu_count() or 1)
    else:
        from sim.described import run_recorded

        with step(f"simulating {path.stem}"):
            run = interruptible(partial(run_recorded, path, endpoint=endpoint, trace=trace or None))
    with step(f"writing {folder}"):
        saved = save(run.record, run.job, folder, network=run.network)
    for name in ("summary", "phases", "dimensions", "endpoints", "limits"):
        _print(saved.tables[name])
    say(f"tables, figures and trace: {folder}")


def simulate_collective(path: Path, output: Path) -> None:
    """Run the collective on RTL in *path*, print its table and draw link utilisation."""
    from sim.describe.collective import read
    from sim.results.figures import utilisation_figure
    from sim.rtl.collective import make_cluster, run_collective

    config = read(path)
    with step("compiling the endpoint (kept for the next run)"):
        cluster = make_cluster(config)
    with step(f"simulating {config.topology.size} endpoints") as report:
        outcome = run_collective(config, cluster=cluster, progress=report)
    table = outcome.table()
    print_table(table)
    figure = output / f"{path.stem}.svg"
    utilisation_figure(
        figure, outcome.links, interval_cycles=outcome.interval_cycles, title=table.title
    )
    say(f"link utilisation over time: {figure}")
    if not outcome.exact:
        raise RuntimeError("the result differs from numpy's: the RTL or its program is wrong")


def compare(runs: Sequence[Path], output: Path) -> None:
    """Print saved runs side by side, and draw them."""
    from sim.results.compare import compare_figure, compare_layers, compare_runs
    from sim.results.store import load

    loaded = [load(run) for run in runs]
    table = compare_runs(loaded)
    layers = compare_layers(loaded)
    output.mkdir(parents=True, exist_ok=True)
    for stem, each in (("compare", table), ("compare-layers", layers)):
        each.write(output / f"{stem}.csv")
        each.write(output / f"{stem}.parquet")
    compare_figure(output / "compare.svg", loaded)
    _print(table)
    waiting = [row for row in layers.rows if any(row[1:])]
    _print(replace(layers, rows=waiting, note="Only layers that an NPU waits for."))
    say(f"figure: {output / 'compare.svg'}")


def run_sweep_file(
    path: Path, output: Path, *, scheduler: str | None, workers: int, retry: bool
) -> None:
    """Run the sweep in *path* from where it was left; print and write its table."""
    from sim.sweep.engine import run_sweep
    from sim.sweep.report import write_outcome
    from sim.sweep.spec import read
    from sim.sweep.training import TRAINING

    spec = read(path)
    folder = output / path.stem
    where = scheduler or f"{workers} process" + ("es" if workers > 1 else "")
    with tally(f"{len(spec)} points on {where}") as progress:
        outcome = run_sweep(
            spec,
            folder,
            runner=TRAINING,
            version=__version__,
            workers=workers,
            scheduler=scheduler,
            retry=retry,
            progress=progress,
        )
    written = write_outcome(outcome, spec, folder)
    _print(_narrowed(outcome.table, len(spec.keys)))
    errors = Counter(each.error for each in outcome.results if each.error is not None)
    for error, count in errors.most_common(MOST_NUMBERS):
        say(f"{count} failed: {error}")
    if len(errors) > MOST_NUMBERS:
        say(f"{len(errors) - MOST_NUMBERS} more errors are in the files")
    say(f"{len(outcome.points)} points, {outcome.reused} of them from before")
    if outcome.failed:
        say("--retry runs those that failed again")
    say("written: " + ", ".join(str(each) for each in written))


def _narrowed(table: Table, keys: int) -> Table:
    """The varied keys, and the first of the numbers that vary with them."""
    varying = [
        index
        for index in range(keys, len(table.columns))
        if table.columns[index].name != "error" and len({row[index] for row in table.rows}) > 1
    ]
    chosen = [*range(keys), *varying[:MOST_NUMBERS]]
    return Table(
        table.title,
        [table.columns[index] for index in chosen],
        rows=[[row[index] for index in chosen] for row in table.rows],
        note="All columns are in the files." if len(chosen) < len(table.columns) else "",
    )


def _print(table: Table) -> None:
    """The table, or its first rows and how many there are."""
    left_out = len(table.rows) - MOST_ROWS
    if left_out > 1:
        note = f"The first {MOST_ROWS} of {len(table.rows)} rows. {table.note}".strip()
        table = replace(table, rows=table.rows[:MOST_ROWS], note=note)
    print_table(table)
    say("")
