"""What the commands print: steps with their time, and tables."""

import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from threading import Thread
from typing import TypeAlias, TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table as RichTable
from rich.text import Text

from sim.results.table import Table

__all__ = ["Report", "Tally", "interruptible", "print_table", "say", "step", "tally"]

Report: TypeAlias = Callable[[float], None]
"""Called with the share, 0 to 1, that is done."""

Tally: TypeAlias = Callable[[int, int, int], None]
"""Called with how many are done, how many of them failed, and how many there are."""

Result = TypeVar("Result")

# A pipe or a log has no width of its own; 160 columns keep rows of tables whole.
_out = Console(highlight=False, width=None if sys.stdout.isatty() else 160)
_err = Console(stderr=True, highlight=False)


def say(text: str) -> None:
    """One line of result."""
    _out.print(text, markup=False, soft_wrap=True)


def interruptible(work: Callable[[], Result]) -> Result:
    """What *work* returns or raises; Ctrl-C ends the command also while *work* is compiled code.

    Python handles signals between its own instructions, in its first thread. So the work gets a
    thread of its own, which does not keep the process from ending.
    """
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    Thread(target=run, daemon=True).start()
    return future.result()


@contextmanager
def step(what: str) -> Iterator[Report]:
    """A piece of work that may take long: a moving bar on a terminal, else a line when done.

    The bar is a pulse until the work reports a share.
    """
    started = time.perf_counter()
    if _err.is_terminal:
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=_err, transient=True) as progress:
            task = progress.add_task(what, total=None)
            yield lambda share: progress.update(task, total=1.0, completed=share)
    else:
        print(f"  {what} ...", end="", file=sys.stderr, flush=True)
        try:
            yield lambda share: None
        except BaseException:
            print(file=sys.stderr)
            raise
        print(f" {time.perf_counter() - started:.1f} s", file=sys.stderr, flush=True)
        return
    _err.print(f"  {what} ... {time.perf_counter() - started:.1f} s", markup=False)


@contextmanager
def tally(what: str) -> Iterator[Tally]:
    """Work that consists of many pieces: a moving bar on a terminal, else a line when done."""
    if not _err.is_terminal:
        count = [0, 0, 0]

        def note(done: int, failed: int, total: int) -> None:
            count[:] = done, failed, total

        with step(what):
            yield note
        print(f"  {count[0]} of {count[2]} done, {count[1]} failed", file=sys.stderr, flush=True)
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[failed]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=_err) as progress:
        task = progress.add_task(what, total=None, failed="")

        def move(done: int, failed: int, total: int) -> None:
            text = f"{failed} failed" if failed else ""
            progress.update(task, completed=done, total=total, failed=text)

        yield move


def print_table(table: Table) -> None:
    """Print *table* and the note that belongs to it."""
    view = RichTable(title=table.title, title_justify="left", title_style="bold", box=None)
    view.pad_edge = False
    for index, column in enumerate(table.columns):
        right = table.is_number(index)
        view.add_column(
            Text(column.heading),
            justify="right" if right else "left",
            header_style="dim",
            no_wrap=not right,  # names stay whole; headings of figures may wrap
        )
    for row in table.texts():
        view.add_row(*(Text(cell) for cell in row))
    _out.print(view)
    if table.note:
        _out.print(table.note, style="dim", markup=False, soft_wrap=True)
