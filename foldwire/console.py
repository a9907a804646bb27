# SPDX-License-Identifier: Apache-2.0
"""Output of the commands: steps with their time, and tables."""

import json
import os
import sys
import time
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import c_ulong, py_object, pythonapi
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from threading import Event, Thread
from types import TracebackType
from typing import Any, TypeAlias, TypeVar

from rich.console import Console
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
from rich.text import Text

from gen.cache import Announcer, announce, set_announcer
from gen.interrupts import ended_by_interrupts
from gen.screen import print_sheet, width_of
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

class _UnwritableError(RuntimeError):
    """Standard output cannot be written, as on a full disk."""


class _Pipe(Console):
    """Standard output whose reader may leave, as ``| head`` does: the command goes on unseen. That
    it cannot be written for another reason is an error."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            super().__exit__(kind, error, traceback)
        except OSError as failure:
            self.on_broken_pipe()  # else what was not written is tried again as the process ends
            reason = failure.strerror or failure
            raise _UnwritableError(f"standard output: cannot be written: {reason}") from failure

    def on_broken_pipe(self) -> None:
        self.quiet = True
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


END_S = 0.3  # for work to end when it is interrupted
LOG_EVERY_S = 30.0  # between lines of progress where no bar can move
LEAST_SHARE = 0.01  # of the work, from which its rate is known
ALIVE_EVERY_S = 60.0  # until a sign of life where nothing else is printed
# A pipe or a log has no width of its own; 160 columns keep rows of tables whole.
# That of a process that was started with its output closed is None.
_on_screen = sys.stdout is not None and sys.stdout.isatty()
_out = _Pipe(highlight=False, width=None if _on_screen else width_of(160))
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

    Within work that is interruptible this calls *work*.

    When interrupted, the work ends at its next instruction of Python.
    """
    # The work must not outlive the interpreter; RTL returns to Python every 0.25 s.
    return ended_by_interrupts(work, _interrupt, wait_s=END_S)


def _interrupt(thread: Thread) -> None:
    assert thread.ident is not None
    pythonapi.PyThreadState_SetAsyncExc(c_ulong(thread.ident), py_object(KeyboardInterrupt))


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
    """Return a function that prints now and then the progress, and the time left at this rate.

    The rate counts from the first report of work that is done: compiling comes before.
    """
    told = started
    begun: tuple[float, float] | None = None

    def report(share: float) -> None:
        nonlocal told, begun
        now = time.perf_counter()
        if begun is None and share > 0:
            begun = now, share
        if begun and share - begun[1] >= LEAST_SHARE and now - told >= LOG_EVERY_S:
            told = now
            left = timedelta(seconds=round((now - begun[0]) * (1 - share) / (share - begun[1])))
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
    print_sheet(table.sheet(most, where), _out)
