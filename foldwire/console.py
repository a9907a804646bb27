"""Output of the commands: steps with their time, and tables."""

import json
import os
import sys
import time
import webbrowser
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from ctypes import c_ulong, py_object, pythonapi
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from threading import Event, Thread
from typing import Any, TypeAlias, TypeVar

from rich.console import Console, JustifyMethod
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table as RichTable
from rich.text import Text

from gen.cache import Announcer, announce, set_announcer
from gen.table import Table

__all__ = [
    "Report", "Tally", "interruptible", "listen", "offer", "open_page", "print_table", "say",
    "step", "tally",
]

Report: TypeAlias = Callable[[float], None]
"""Called with the share of the work, 0 to 1, that is done."""

Tally: TypeAlias = Callable[[int, int, int], None]
"""Called with the numbers of pieces that are done, that failed of these, and that there are."""

Result = TypeVar("Result")

class _Pipe(Console):
    """Standard output whose reader may leave, as ``| head`` does: the command goes on unseen."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


GAP = 2  # blanks between columns
END_S = 0.5  # for work to end when it is interrupted
LOG_EVERY_S = 30.0  # between lines of progress where no bar can move
ALIVE_EVERY_S = 60.0  # until a sign of life where nothing else is printed
# A pipe or a log has no width of its own; 160 columns keep rows of tables whole.
_out = _Pipe(highlight=False, width=None if sys.stdout.isatty() else 160)
_err = Console(stderr=True, highlight=False)


def open_page(page: Path) -> bool:
    """Open *page* in a graphical browser; return False if there is none."""
    graphical = sys.platform in ("darwin", "win32") or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")
    )
    return graphical and webbrowser.open(page.resolve().as_uri())


@dataclass
class _Wanted:
    """Output that was asked for: progress, and JSON in place of text."""

    progress: bool = True
    json: bool = False


_wanted = _Wanted()


def listen(*, quiet: bool = False, json: bool = False) -> None:
    """Print everything from now on; *quiet*: nothing but errors; *json*: what commands offer, in
    place of tables and lines."""
    _out.quiet = quiet or json
    _wanted.progress, _wanted.json = not quiet, json


def offer(document: Callable[[], Any]) -> None:
    """Print what a command has found as JSON, if that was asked for."""
    if _wanted.json:
        _out.quiet = False
        _out.out(json.dumps(document(), ensure_ascii=False, indent=1), highlight=False)
        _out.quiet = True


def say(text: str) -> None:
    """Print one line of result."""
    _out.print(text, markup=False, soft_wrap=True)


def interruptible(work: Callable[[], Result]) -> Result:
    """Return or raise the outcome of *work*; Ctrl-C ends the command even in compiled code.

    Python handles signals between its own instructions, in the main thread. So the work gets a
    thread of its own, which does not keep the process from ending. When interrupted, the work ends
    at its next instruction of Python.
    """
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    thread = Thread(target=run, daemon=True)
    thread.start()
    try:
        return future.result()
    except KeyboardInterrupt:
        assert thread.ident is not None
        pythonapi.PyThreadState_SetAsyncExc(c_ulong(thread.ident), py_object(KeyboardInterrupt))
        # The work must not outlive the interpreter; RTL returns to Python every 0.25 s.
        thread.join(END_S)
        raise


@contextmanager
def _announced(announcer: Announcer) -> Iterator[None]:
    """Print notices of the cache about long work below the step that waits for it."""
    before = set_announcer(announcer)
    try:
        yield
    finally:
        set_announcer(before)


class _TimeLeft(TimeRemainingColumn):
    """Estimate of the time left, for work that reports its share."""

    def render(self, task: Task) -> Text:
        return Text("") if task.total is None else super().render(task) + Text(" left")


def _told_now_and_then(started: float) -> Report:
    """Return a function that prints now and then the progress, and the time left at this rate."""
    told = started

    def report(share: float) -> None:
        nonlocal told
        now = time.perf_counter()
        if share > 0 and now - told >= LOG_EVERY_S:
            told = now
            left = timedelta(seconds=round((now - started) * (1 - share) / share))
            announce(f"{100 * share:.0f} % done, about {left} left")

    return report


@contextmanager
def _alive(last: Callable[[], float], tell: Announcer) -> Iterator[None]:
    """Print a sign of life when work is silent for long, as in a child process."""
    started, done = time.perf_counter(), Event()

    def watch() -> None:
        while not done.wait(last() + ALIVE_EVERY_S - time.perf_counter()):
            now = time.perf_counter()
            if now - last() >= ALIVE_EVERY_S:
                tell(f"at work for {timedelta(seconds=round(now - started))}")

    watcher = Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


@contextmanager
def step(what: str) -> Iterator[Report]:
    """Show work that may take long: a moving bar on a terminal, else a line when done.

    The bar is a pulse until the work reports a share; then it shows the time left. Without a
    terminal, lines show that every half minute; for work that reports nothing, one a minute.
    """
    started = time.perf_counter()
    if not _wanted.progress:
        with _announced(lambda text: None):
            yield lambda share: None
        return
    if _err.is_terminal:
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TimeElapsedColumn(),
            _TimeLeft(),
        )
        with Progress(*columns, console=_err, transient=True) as progress:
            task = progress.add_task(what, total=None)
            with _announced(lambda text: progress.console.print(f"    {text}", markup=False)):
                yield lambda share: progress.update(task, total=1.0, completed=share)
    else:
        said: list[float] = []

        def tell(text: str) -> None:
            print(f"    {text}" if said else f"\n    {text}", file=sys.stderr, flush=True)
            said.append(time.perf_counter())

        print(f"  {what} ...", end="", file=sys.stderr, flush=True)
        try:
            with _announced(tell), _alive(lambda: said[-1] if said else started, tell):
                yield _told_now_and_then(started)
        except BaseException:
            print(file=sys.stderr)
            raise
        again = f"  {what} ..." if said else ""
        print(f"{again} {time.perf_counter() - started:.1f} s", file=sys.stderr, flush=True)
        return
    _err.print(f"  {what} ... {time.perf_counter() - started:.1f} s", markup=False)


@contextmanager
def tally(what: str) -> Iterator[Tally]:
    """Show work that consists of many pieces: a bar on a terminal, else a line when done."""
    if not _wanted.progress:
        yield lambda done, failed, total: None
        return
    if not _err.is_terminal:
        count = [0, 0, 0]
        told = time.monotonic()

        def state() -> str:
            done, failed, total = count
            return f"{done} of {total} done, {failed} failed"

        def note(done: int, failed: int, total: int) -> None:
            nonlocal told
            count[:] = done, failed, total
            if time.monotonic() - told >= LOG_EVERY_S:
                told = time.monotonic()
                announce(state())

        with step(what):
            yield note
        print(f"  {state()}", file=sys.stderr, flush=True)
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


def print_table(table: Table, *, most: int | None = None, where: str = "") -> None:
    """Print *table* and its note; nothing is cut.

    A table that is wider than the screen is stacked: a single row as a list, several rows in parts
    that repeat the leading columns of text.

    Parameters
    ----------
    most : int or None
        Rows to print; a line below states the number of those left out.
    where : str
        Where to find the rows that are left out.
    """
    left_out = 0 if most is None else len(table.rows) - most
    if left_out > 1:  # a line that says so is as long as a row
        table = replace(table, rows=table.rows[:most])
    widths, room = _widths(table), _out.width
    keys = next((i for i in range(len(widths)) if table.is_number(i)), len(widths)) or 1
    while keys > 1 and sum(least + GAP for least, _ in widths[:keys]) > room / 2:
        keys -= 1
    parts = _parts(widths, room, keys)
    if len(parts) > 1 and len(table.rows) == 1:
        _print_list(table)
    else:
        for number, part in enumerate(parts):
            _print_part(table, part, title=table.title if number == 0 else None)
    if left_out > 1:
        say(f"{left_out} more rows{f' are in {where}' if where else ''}")
    if table.note:
        _out.print(Text(table.note, style="dim"))


def _widths(table: Table) -> list[tuple[int, int]]:
    """Least width of each column, with a wrapped heading, and its width without wrapping."""
    texts = table.texts()
    cells = [max((len(row[i]) for row in texts), default=0) for i in range(len(table.columns))]
    headings = [column.heading for column in table.columns]
    return [
        (max(cell, *(len(word) for word in heading.split())), max(cell, len(heading)))
        for cell, heading in zip(cells, headings)
    ]


def _parts(widths: Sequence[tuple[int, int]], room: int, keys: int) -> list[dict[int, int]]:
    """Split columns into parts that fit into *room* characters, each with the first *keys* columns.

    Returns the width of each column of each part. A column is narrower than its least width only if
    that does not fit beside the first ones.
    """
    first = {index: min(least, room) for index, (least, _) in enumerate(widths[:keys])}
    parts = [dict(first)]
    for index, (least, _) in enumerate(widths[keys:], keys):
        taken = sum(width + GAP for width in parts[-1].values())
        if len(parts[-1]) > keys and taken + least > room:
            parts.append(dict(first))
            taken = sum(width + GAP for width in first.values())
        parts[-1][index] = max(1, min(least, room - taken))
    for part in parts:
        left = room - sum(part.values()) - GAP * (len(part) - 1)
        for index in part:
            more = min(max(0, widths[index][1] - part[index]), max(0, left))
            part[index] += more
            left -= more
    return parts


def _print_part(table: Table, part: Mapping[int, int], *, title: str | None) -> None:
    view = _view(title)
    for index, width in part.items():
        heading = Text(table.columns[index].heading)
        justify: JustifyMethod = "right" if table.is_number(index) else "left"
        view.add_column(heading, justify=justify, header_style="dim", width=width)
    for row in table.texts():
        view.add_row(*(Text(row[index]) for index in part))
    _out.print(view)


def _print_list(table: Table) -> None:
    """A table of one row, a line per column."""
    view = _view(table.title)
    view.show_header = False
    for column, text in zip(table.columns, table.texts()[0]):
        view.add_row(Text(column.heading, style="dim"), Text(text, justify="right"))
    _out.print(view)


def _view(title: str | None) -> RichTable:
    view = RichTable(title=title, title_justify="left", title_style="bold", box=None)
    view.pad_edge = False
    return view
