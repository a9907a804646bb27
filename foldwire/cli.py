# SPDX-License-Identifier: Apache-2.0
"""The command ``foldwire``. It parses, calls and prints; the work is done in `gen` and `sim`.

Drawing and printing are imported by the commands that need them, so that help appears at once.
"""

import atexit
import difflib
import importlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial, reduce
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from foldwire import checkout
from foldwire.loading import LOAD
from foldwire.sizes import SIZE
from foldwire.version import __version__
from gen.extras import MissingExtraError

__all__ = ["main"]

USER_ERROR = 2
TOOL_ERROR = 1
INTERRUPTED = 130
END_S = 0.9  # of an interrupted command
INTERRUPTION, SHOW_CURSOR = "foldwire: interrupted", "\x1b[?25h"
ROOT = Path(__file__).resolve().parent.parent


class _Group(click.Group):
    """Suggests the nearest command for a misspelt one."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if self.get_command(ctx, args[0]) is None:
            near = difflib.get_close_matches(args[0], self.commands, n=1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            known = ", ".join(sorted(self.commands))
            raise click.UsageError(f"unknown command {args[0]!r}{hint}; there are: {known}")
        return super().resolve_command(ctx, args)


class _OfDesigns(click.Command):
    """Accepts ``--ports 16`` as ``--set ports=16``, for all parameters of all designs.

    Other names are unknown options; the catalog refuses parameters that this design does not have.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, list(self._with_changes(args)))

    def _with_changes(self, args: Sequence[str]) -> Iterator[str]:
        options = {opt for parameter in self.params for opt in parameter.opts}
        words = iter(args)
        for word in words:
            option, equals, value = word.partition("=")
            field = option.removeprefix("--").replace("-", "_")
            if not word.startswith("--") or option in options or not _is_parameter(field):
                yield word
                continue
            value = value if equals else next(words, "")
            if not value:
                raise click.UsageError(f"{option} needs a value")
            yield from ("--set", f"{field}={value}")


def _is_parameter(name: str) -> bool:
    """Return True if any design has a parameter of that name."""
    from foldwire import catalog

    presets = (preset for entry in catalog.CATALOG.values() for preset in entry.presets.values())
    return any(name in preset for preset in presets)


def _writable(ctx: click.Context, parameter: click.Parameter, folder: Any) -> Any:
    """Check that *folder* is writable before the work, not after it."""
    from gen.folder import check_writable

    if folder is not None:
        check_writable(folder)
    return folder


def _refuse_options_of_none(argument: str) -> None:
    """Refuse options of a command without *argument*, which only lists and would ignore them."""
    ctx = click.get_current_context()
    for parameter in ctx.command.params:
        assert parameter.name is not None
        if (
            isinstance(parameter, click.Option)
            and parameter.expose_value  # not of those for what is printed
            and ctx.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE
        ):
            raise click.UsageError(f"{parameter.opts[-1]} needs {argument}")


def _examples(*lines: str) -> str:
    """Text for the end of a help page; the escape keeps the lines as they are."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


OUTPUT = click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("build"),
    show_default=True,
    callback=_writable,
    help="Folder to write to.",
)
PRESET = click.option("--preset", metavar="NAME", help="Named configuration.")
SET = click.option(
    "--set",
    "changes",
    metavar="KEY=VALUE",
    multiple=True,
    help="Change one parameter of the preset; may be repeated. --KEY VALUE is the same.",
)


ENDPOINT = click.option(
    "--endpoint",
    metavar="KIND[:LEVEL]",
    help="In place of the one that is described, with its level: ideal, ace:cycles, smartnic:rtl.",
)
CHANGES = click.option(
    "--set",
    "changes",
    metavar="KEY=VALUE",
    multiple=True,
    help="A key in place of what is described: scheduler.concurrency=16; may be repeated.",
)


def _listen(ctx: click.Context, parameter: click.Parameter, given: Any) -> Any:
    """Say what is to be printed, once both options are known."""
    from foldwire.console import listen

    asked = ctx.meta.setdefault("asked", {})
    asked[parameter.name] = given
    if asked.get("quiet") and asked.get("json"):
        raise click.UsageError("--json prints, and --quiet does not: one of them")
    listen(**asked)
    ctx.call_on_close(listen)  # whatever this process prints later is heard again
    return given


def _printed(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for what is printed."""
    for name, text in (
        ("json", "Print JSON in place of tables."), ("quiet", "Print nothing but errors."),
    ):
        option = click.option(
            f"--{name}", is_flag=True, expose_value=False, callback=_listen, help=text
        )
        command = option(command)
    return command


def _from_to(first: str, last: str) -> Callable[[Any], Any]:
    """Options for sizes from *first* to *last*."""
    options = [
        click.option("--from", "first", type=SIZE, default=first, show_default=True,
                     help="Smallest size in bytes, or as 64K, 1M, as nccl-tests counts them."),
        click.option("--to", "last", type=SIZE, default=last, show_default=True,
                     help="Largest size."),
        click.option("--factor", type=click.IntRange(min=2), default=4, show_default=True,
                     help="From one size to the next."),
    ]
    return lambda command: reduce(lambda made, option: option(made), reversed(options), command)


@click.group(
    cls=_Group,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=_examples(
        "foldwire gen ace --preset isca21 -o build/",
        "foldwire sim system.toml",
        "foldwire reproduce ace-isca21",
        "foldwire synth ace --target xcup",
    ),
)
@click.version_option(__version__, prog_name="foldwire", message="%(prog)s %(version)s")
def cli() -> None:
    """Collective-communication hardware for distributed training: describe, simulate, emit."""


@cli.command(
    cls=_OfDesigns,
    epilog=_examples(
        "foldwire gen ace --preset isca21",
        "foldwire gen ace --preset test --set banks=4 -o out/",
        "foldwire gen adder --set stages=5 --style plain",
        "foldwire gen switch --preset 8-port --ports 16",
        "foldwire gen system.toml",
    )
)
@click.argument("design", required=False)
@PRESET
@SET
@click.option(
    "--style", type=click.Choice(["sv", "plain"]), default="sv", show_default=True,
    help="SystemVerilog to read, or Verilog-2005 for any tool.",
)
@click.option(
    "--reset", type=click.Choice(["high", "low"]), default="high", show_default=True,
    help="When the reset is active: rst, or rst_n.",
)
@click.option(
    "--clock", type=click.FloatRange(1e-3, 1e5), default=250.0, show_default=True,
    help="MHz that the constraints ask for.",
)
@click.option("--split", is_flag=True, help="A file for each module of SystemVerilog.")
@click.option("--replace", is_flag=True, help="Write over another configuration of this name.")
@OUTPUT
@_printed
def gen(
    design: str | None,
    preset: str | None,
    changes: Sequence[str],
    style: str,
    reset: str,
    clock: float,
    split: bool,
    replace: bool,
    output: Path,
) -> None:
    """Write Verilog of DESIGN, its manifest, and the files handed over with it.

    These are a file list, constraints and a bench, which runs by `make` in that folder without
    Foldwire; for an engine also register map, C header and programmer's manual.

    DESIGN is a name, or a description (*.toml) whose endpoint has a preset, for the engine of that
    endpoint. Without DESIGN, list all designs.
    """
    from foldwire import catalog
    from foldwire.console import offer, print_table, say, step
    from foldwire.emission import write_verilog

    if design is None:
        _refuse_options_of_none("DESIGN")
        print_table(listed := catalog.listing())
        offer(lambda: {"designs": listed.records()})
        return
    chosen = _design(design, preset, changes)
    with step(f"emitting {chosen.top}"):
        command = ["foldwire", "gen", Path(design).name]
        command += ["--preset", preset] if preset else []
        command += [word for change in changes for word in ("--set", change)]
        command += ["--style", style] if style != "sv" else []
        command += ["--reset", reset] if reset != "high" else []
        command += ["--clock", f"{clock:g}"] if clock != 250 else []
        command += ["--split"] if split else []
        written = write_verilog(
            chosen, output, style=style, reset=reset, clock_mhz=clock, command=" ".join(command),
            split=split, replace=replace,
        )
    for path in written:
        say(str(path))
    offer(lambda: {"files": [str(path) for path in written]})


@cli.command(
    cls=_OfDesigns,
    epilog=_examples(
        "foldwire synth ace --preset test --target xcup",
        "foldwire synth adder --target generic",
        "foldwire synth switch-dma examples/in_switch_cycles.toml --target xcup",
        "foldwire synth ace --preset test --target ecp5 --levels",
        "foldwire synth retry --target ecp5 --fmax",
    )
)
@click.argument("design")
@click.argument("file", required=False, metavar="[FILE]")
@PRESET
@SET
@click.option("--target", default="generic", show_default=True, help="Technology to map to.")
@click.option("--levels", is_flag=True, help="Longest paths in levels of logic (ecp5).")
@click.option("--fmax", is_flag=True, help="Clock after place and route (ecp5; minutes a seed).")
@OUTPUT
@_printed
def synth(
    design: str,
    file: str | None,
    preset: str | None,
    changes: Sequence[str],
    target: str,
    levels: bool,
    fmax: bool,
    output: Path,
) -> None:
    """Synthesize DESIGN, a name or a description (*.toml); print its cells by block.

    With FILE, a description, DESIGN says which of its engine's designs is meant. Blocks are kept as
    they are finished, so what was interrupted goes on where it was.
    """
    from foldwire.console import offer, print_table, say, step
    from foldwire.emission import clock_tables, levels_tables, synthesis_table
    from gen.mapping.targets import check_target

    if (levels or fmax) and target != "ecp5":
        raise click.UsageError(f"--levels and --fmax need --target ecp5, not {target!r}")
    check_target(target)
    chosen = _synthesized(design, file, preset, changes)
    tables = {}
    with step(f"synthesizing {chosen.top} for {target}"):
        if levels:
            tables["levels"], tables["block-levels"] = levels_tables(chosen, target)
        if fmax:
            tables["clock"], tables["block-clock"] = clock_tables(chosen)
        if not tables:
            tables[""] = synthesis_table(chosen, target)
    output.mkdir(parents=True, exist_ok=True)
    for kind, table in tables.items():
        print_table(table)
        path = output / ".".join([chosen.top, target, *([kind] if kind else []), "csv"])
        path.write_text(table.to_csv(), encoding="utf-8")
        say(f"written to {path}")
    offer(lambda: {kind or "cells": table.records() for kind, table in tables.items()})


def _synthesized(
    name: str, file: str | None, preset: str | None, changes: Sequence[str]
) -> Any:
    """A design to synthesize: of a preset, or of the engine of a description."""
    from foldwire import catalog

    if name.endswith(".toml"):
        if file is not None:
            raise click.UsageError(f"the design comes before the description: synth {file} {name}")
        if preset is not None or changes:
            raise click.UsageError(f"--preset and --set are in the description, {name}")
        return catalog.described(Path(name), default=True)
    if file is None:
        return catalog.build(name, preset, _pairs(changes), designs=catalog.SYNTHESIZED)
    if preset is not None or changes:
        raise click.UsageError(f"--preset and --set are in the description, {file}")
    return catalog.described(Path(file), name, default=True)


@cli.command(
    epilog=_examples(
        "foldwire sim system.toml",
        "foldwire sim examples/training_torus.toml --endpoint ideal",
        "foldwire sim examples/training_rtl.toml --endpoint ace:rtl --trace-signals '*.fsm_state'",
        "foldwire sim system.toml --set scheduler.concurrency=16 --fold off",
    )
)
@click.argument("system", type=click.Path(path_type=Path))
@ENDPOINT
@CHANGES
@LOAD
@click.option("--passes", type=int, help="The same as --set run.passes=N.")
@click.option(
    "--fold", type=click.Choice(["auto", "on", "off"]), help="The same as --set run.fold=..."
)
@click.option("--trace", is_flag=True, help="Record every chunk and transfer in the trace.")
@click.option(
    "--trace-signals",
    metavar="PATTERN",
    multiple=True,
    help="Waveforms of these signals of RTL nodes, '*.fsm_state'; may be repeated.",
)
@OUTPUT
@_printed
def sim(
    system: Path,
    endpoint: str | None,
    changes: Sequence[str],
    passes: int | None,
    fold: str | None,
    trace: bool,
    trace_signals: Sequence[str],
    output: Path,
) -> None:
    """Run a system: a training job or a collective, at the level of events, cycles or RTL.

    SYSTEM is a TOML file that describes it; see examples/. Prints tables and writes them, figures
    and a trace to a folder in OUTPUT; `foldwire compare` puts such folders side by side. With RTL,
    results are compared with numpy's, bit for bit.
    """
    from foldwire.systems import simulate

    short = {"run.passes": passes, "run.fold": fold}
    stated = {key: value for key, value in short.items() if value is not None}
    simulate(
        system, output, endpoint=endpoint, changes=[*changes], short=stated, trace=trace,
        signals=trace_signals,
    )


@cli.command(epilog=_examples("foldwire compare build/training_torus build/training_torus-ace"))
@click.argument("runs", metavar="RUN RUN...", nargs=-1, type=click.Path(path_type=Path))
@OUTPUT
@_printed
def compare(runs: Sequence[Path], output: Path) -> None:
    """Put saved runs side by side.

    A RUN is a folder that `foldwire sim` wrote. Prints where the time of each went, with ratios to
    the first one, and writes it to the folder compare-RUN-RUN in OUTPUT.
    """
    if len(runs) < 2:
        raise click.UsageError("compare takes at least two runs")
    from foldwire.systems import compare

    compare(runs, output)


@cli.command(
    epilog=_examples(
        "foldwire view build/training_torus",
        "foldwire view build/training_torus build/training_torus-ideal",
        "foldwire view build/endpoints --no-browser",
    )
)
@click.argument("folders", metavar="FOLDER...", nargs=-1, type=click.Path(path_type=Path))
@click.option("--no-browser", is_flag=True, help="Only print the path of the page.")
@OUTPUT
def view(folders: Sequence[Path], no_browser: bool, output: Path) -> None:
    """Open the page of a run, a sweep or an exploration, or of several runs side by side.

    A FOLDER is one that `foldwire sim`, `sweep`, `explore` or `compare` wrote. Pages need no other
    file and no network. That of several runs is written to the folder view-RUN-RUN in OUTPUT.
    """
    if not folders:
        raise click.UsageError("view takes at least one folder of results")
    from foldwire.systems import view as work

    work(folders, output, browser=not no_browser)


@cli.command(
    epilog=_examples(
        "foldwire sweep sweep.toml",
        "foldwire sweep sweep.toml --workers 8 -o build/",
        "foldwire sweep sweep.toml --scheduler tcp://cluster:8786",
    )
)
@click.argument("file", metavar="SWEEP", type=click.Path(path_type=Path))
@click.option("--workers", type=click.IntRange(min=1), help="Processes; one per core by default.")
@click.option("--scheduler", metavar="ADDRESS", help="Dask scheduler to run on instead.")
@click.option("--retry", is_flag=True, help="Run again those points that failed before.")
@LOAD
@OUTPUT
@_printed
def sweep(
    file: Path, workers: int | None, scheduler: str | None, retry: bool, output: Path
) -> None:
    """Run a system over ranges of parameters.

    SWEEP is a TOML file; see examples/. Results are kept as they finish: after an interruption the
    same command goes on where it was. The exit code is 1 if a point failed.
    """
    from foldwire.systems import run_sweep_file

    count = workers or os.cpu_count() or 1
    if run_sweep_file(file, output, scheduler=scheduler, workers=count, retry=retry):
        raise click.exceptions.Exit(TOOL_ERROR)


@cli.command(
    epilog=_examples(
        "foldwire explore examples/explore_ace.toml",
        "foldwire explore examples/explore_ace.toml --cost gates --synthesise",
    )
)
@click.argument("file", metavar="SWEEP", type=click.Path(path_type=Path))
@click.option(
    "--cost", default="lut", show_default=True, help="Cells to spare: lut, ff, gates or bram."
)
@click.option("--time", help="Metric to shorten; that of the plot, or the first time, by default.")
@click.option("--synthesise", is_flag=True, help="Map the engines of the best points to cells.")
@click.option("--workers", type=click.IntRange(min=1), help="Processes; one per core by default.")
@click.option("--retry", is_flag=True, help="Run again those points that failed before.")
@LOAD
@OUTPUT
@_printed
def explore(
    file: Path, cost: str, time: str | None, synthesise: bool, workers: int | None, retry: bool,
    output: Path,
) -> None:
    """Weigh the time of a system against the price of its engines.

    SWEEP is a TOML file as for foldwire sweep, of systems with an engine; each point gets its time
    from the simulator and its cells from a model. Points that no other beats in both stand in a
    table, a figure and a page. An interrupted exploration goes on where it was.
    """
    from foldwire.systems import explore as run

    count = workers or os.cpu_count() or 1
    failed = run(
        file, output, cost=cost, time=time, synthesise=synthesise, workers=count, retry=retry
    )
    if failed:
        raise click.exceptions.Exit(TOOL_ERROR)


@cli.command(
    epilog=_examples(
        "foldwire machines",
        "foldwire machines dgx-h100",
        "foldwire machines dgx-a100 --collective all_gather --algorithm ring --from 1024",
        "foldwire machines dgx-h100 --nodes 4 --start 2e-5",
        "foldwire machines dgx-h100 --algorithm ring --fit table.txt",
    )
)
@click.argument("name", required=False)
@click.option("--collective", default="all_reduce", show_default=True)
@click.option(
    "--algorithm", default="auto", show_default=True, help="Or the fastest that the machine has."
)
@click.option("--nodes", type=int, help="So many of its ranks.  [default: all]")
@_from_to("1K", "8G")
@click.option("--share", type=float, default=1.0, show_default=True,
              help="Of the bandwidth of every link.")
@click.option("--start", type=float, default=0.0, show_default=True, help="Seconds in every call.")
@click.option("--step", "after", type=float, default=0.0, show_default=True,
              help="Seconds after every message.")
@click.option(
    "--fit", "table", metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Output of nccl-tests, or CSV of size_bytes,time_us: find share, start and step.",
)
@_printed
def machines(
    name: str | None,
    collective: str,
    algorithm: str,
    nodes: int | None,
    first: int,
    last: int,
    factor: int,
    share: float,
    start: float,
    after: float,
    table: Path | None,
) -> None:
    """Run a collective on the machine NAME; print what nccl-tests would.

    Machines are described from data sheets alone, with nothing fitted. All but one of these state
    no latency: without --start or --step, only rates are printed, of the links alone, and no times.
    Without NAME, list the machines with their sources.
    """
    from foldwire import machines as work

    if name is None:
        _refuse_options_of_none("NAME")
        work.list_machines()
    elif table is not None:
        work.fit_table(name, collective, algorithm, table, nodes)
    else:
        constants = (share, start, after)
        work.run_table(name, collective, algorithm, (first, last, factor), constants, nodes)


@cli.command(
    epilog=_examples(
        "foldwire bandwidth examples/rails.toml",
        "foldwire bandwidth system.toml --nodes 64 --collective all_gather --from 64K --to 1G",
    )
)
@click.argument("system", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--collective", help="By default that of FILE, or all_reduce in place of a job.")
@click.option("--nodes", type=int, help="So many, by the size of the last dimension.")
@_from_to("1K", "256M")
@ENDPOINT
@CHANGES
@LOAD
@OUTPUT
@_printed
def bandwidth(
    system: Path, collective: str | None, nodes: int | None, first: int, last: int, factor: int,
    endpoint: str | None, changes: Sequence[str], output: Path,
) -> None:
    """Run a collective of many sizes on the system in FILE; print what nccl-tests would.

    FILE is a description as for foldwire sim. algbw is the size of the vector over the time, busbw
    what each rank sends for it; both also stand in a CSV file and a figure in OUTPUT.
    """
    from foldwire.bandwidth import run_sizes
    from sim.describe.changes import parse_change

    changed = dict(parse_change(text) for text in changes)
    run_sizes(
        system, output, (first, last, factor), collective=collective, nodes=nodes,
        endpoint=endpoint, changes=changed,
    )


@cli.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    epilog=_examples("foldwire reproduce", "foldwire reproduce ace-isca21"),
)
@click.argument("name", required=False)
@click.argument("arguments", metavar="[ARGUMENTS]...", nargs=-1, type=click.UNPROCESSED)
def reproduce(name: str | None, arguments: Sequence[str]) -> int:
    """Reproduce a paper: simulated values beside the published ones.

    Without NAME, list the papers. ARGUMENTS are those of the experiment; --help lists them.
    Experiments are part of a checkout of the repository, not of an installed package.
    """
    from foldwire.console import interruptible, say

    experiments = checkout.experiments(ROOT)
    if name is None:
        for each, what in experiments.items():
            say(f"{each:12} {what}")
        return 0
    if name not in experiments:
        known = ", ".join(experiments)
        raise click.UsageError(f"unknown experiment {name!r}; there are: {known}")
    # An installed command does not have the checkout on its path.
    sys.path.insert(0, str(ROOT))
    module = importlib.import_module(f"experiments.{name.replace('-', '_')}")
    code: int = interruptible(partial(module.main, list(arguments)))
    return code


@cli.command(epilog=_examples("foldwire tb", "foldwire tb fp", "foldwire tb ace --full"))
@click.argument("name", required=False)
@click.option("--full", is_flag=True, help="Also run what takes minutes.")
def tb(name: str | None, full: bool) -> None:
    """Run the cocotb test bench NAME on emitted Verilog.

    Without NAME, list the benches. They are part of a checkout of the repository, not of an
    installed package.
    """
    from foldwire.console import say
    from gen.benches import SIMULATOR, choose_simulator

    benches = checkout.benches(ROOT)
    if name is None:
        _refuse_options_of_none("NAME")
        for each, what in benches.items():
            say(f"{each:10} {what}")
        return
    if name not in benches:
        raise click.UsageError(f"unknown bench {name!r}; there are: {', '.join(benches)}")
    choose_simulator(os.environ.get(SIMULATOR))  # or else it says what to install
    command = [sys.executable, "-m", "pytest", "-v", "--no-header",
               f"tb/{name.replace('-', '_')}"]
    if full:
        command += ["-m", ""]
    # In a group of its own, which Ctrl-C reaches through this command alone.
    bench = subprocess.Popen(command, cwd=ROOT, process_group=0)
    try:
        code = bench.wait()
    except KeyboardInterrupt:
        os.killpg(bench.pid, signal.SIGTERM)
        raise
    if code:
        raise click.exceptions.Exit(1)


@cli.command(epilog=_examples("foldwire examples", "foldwire examples -o mine/"))
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    callback=_writable,
    help="Folder to copy them to.",
)
@_printed
def examples(output: Path | None) -> None:
    """List descriptions, sweeps and scripts to start from, or copy them."""
    from foldwire.console import offer, print_table, say
    from gen.table import Column, Table

    if output is None:
        table = Table("Examples", [Column("file"), Column("what_it_is")])
        for name, what in checkout.examples(ROOT).items():
            table.add(name, what)
        print_table(table)
        offer(lambda: {"examples": table.records()})
        return
    copied = checkout.copy_examples(ROOT, output)
    for path in copied:
        say(str(path))
    offer(lambda: {"files": [str(path) for path in copied]})


@cli.command(epilog=_examples("foldwire demo", "foldwire demo -o out/"))
@OUTPUT
def demo(output: Path) -> None:
    """Train through RTL; run ResNet-50's all-reduces; compare endpoints.

    Writes Verilog, a synthesis table, figures and the page OUTPUT/report/index.html.
    """
    from foldwire.console import interruptible

    if not interruptible(partial(_demonstrate, output)):
        raise click.exceptions.Exit(1)


def _demonstrate(output: Path) -> bool:
    """Run the demonstration; returns True if all of it passed."""
    from foldwire.console import print_table, say, step
    from sim.demo.endpoints import endpoints_table, run_endpoints
    from sim.demo.run import (
        demo_system,
        run_hardware,
        run_layers,
        run_training,
        synthesis_in_background,
    )
    from sim.demo.summary import DemoResults, layers_table, training_table, write_report
    from sim.describe.system import describe

    system = demo_system()
    with synthesis_in_background() as cells:
        training = run_training(step)
        layers, utilisation = run_layers(system, step)
        with step("training ResNet-50 on 64 simulated NPUs, with five kinds of endpoint"):
            endpoints = run_endpoints()
        hardware = run_hardware(step, output / "verilog", cells)
    results = DemoResults(
        training=training,
        layers=layers,
        system=describe({**system, "workload": {"shipped": "resnet50"}}),
        utilisation=utilisation,
        hardware=hardware,
        endpoints=endpoints,
    )
    with step("writing the report"):
        page = write_report(results, output / "report")
    tables = [each.cells for each in hardware if each.cells is not None]
    shown = (training_table(training), layers_table(results), endpoints_table(endpoints))
    for table in (*shown, *tables):
        print_table(table)
        say("")
    say(f"report: {page}")
    say(f"demo: {'passed' if results.passed else 'FAILED: see the tables above'}")
    return results.passed


def _design(name: str, preset: str | None, changes: Sequence[str]) -> Any:
    """A design of the catalog, or the engine of a description."""
    from foldwire import catalog

    if not name.endswith(".toml"):
        return catalog.build(name, preset, _pairs(changes))
    if preset is not None or changes:
        raise click.UsageError(f"--preset and --set are in the description, {name}")
    return catalog.described(Path(name))


def _pairs(changes: Sequence[str]) -> dict[str, str]:
    pairs = {}
    for text in changes:
        key, equals, value = text.partition("=")
        if not (key and equals and value):
            raise click.UsageError(f"--set takes KEY=VALUE, not {text!r}")
        pairs[key] = value
    return pairs


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; a user's mistake is one line on stderr and exit code 2.

    Failures of tools (a compiler, Yosys, a simulation) give their message and exit code 1. With
    FOLDWIRE_DEBUG set in the environment, errors keep their traceback.
    """
    arguments = list(sys.argv[1:] if argv is None else argv) or ["--help"]
    if argv is None and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    try:
        code = cli.main(args=arguments, prog_name="foldwire", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except (click.Abort, KeyboardInterrupt):
        return _interrupted(argv is None)
    except click.ClickException as error:
        return _fail(error.format_message())
    except SystemExit:
        if type(sys.stdout).__module__.startswith("click."):  # as the reader of help has left
            return 0
        raise
    except (ValueError, OSError) as error:
        # All our checks of user input raise ValueError with a complete message.
        if os.environ.get("FOLDWIRE_DEBUG"):
            raise
        return _fail(str(error))
    except (RuntimeError, MissingExtraError) as error:
        if isinstance(error.__cause__, KeyboardInterrupt):  # while Python made a class
            return _interrupted(argv is None)
        if os.environ.get("FOLDWIRE_DEBUG"):
            raise
        print(f"foldwire: {error}", file=sys.stderr)
        return TOOL_ERROR


def _interrupt(signum: int, frame: object) -> None:
    """Interrupt the command, and end the process within a second, whatever is at work in it;
    further interrupts would disturb what is on its way."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end = threading.Timer(END_S, _leave)
    end.daemon = True
    end.start()
    raise KeyboardInterrupt


def _interrupted(ends: bool) -> int:
    """Return the exit code of a command that was interrupted; end the process if it is all of it.

    The interpreter's own end would wait for threads in compiled code.
    """
    if ends:
        with suppress(Exception):
            atexit._run_exitfuncs()
        _leave()
    print(INTERRUPTION, file=sys.stderr, flush=True)
    return INTERRUPTED


def _leave() -> None:
    shown = SHOW_CURSOR if sys.stderr.isatty() else ""  # a bar of progress hides it
    print(f"{shown}{INTERRUPTION}", file=sys.stderr, flush=True)
    os._exit(INTERRUPTED)


def _fail(message: str) -> int:
    print("foldwire: " + " ".join(message.split()), file=sys.stderr)
    return USER_ERROR
