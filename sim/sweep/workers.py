# SPDX-License-Identifier: Apache-2.0
"""Runs the points of a sweep: on processes of this machine, or on a Dask cluster.

Both give the same results, in the order in which they finish.
"""

import ast
import importlib
import logging
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from sim.opened import recorded
from sim.sweep.points import Metrics, Point, Result

__all__ = ["evaluate", "on_cluster", "on_processes", "own_processes", "submit"]

Answer = TypeVar("Answer")

QUEUED_PER_WORKER = 4
GUARD = (
    "foldwire: a script that runs a sweep does so below the line if __name__ == '__main__':, as "
    "its processes run the script, too"
)
CRASHED = "the process that ran this point ended abnormally (killed, or out of memory)"


def evaluate(runner: str, point: Point) -> Result:
    """Run one point. *runner* is ``module:function``, a function of configuration and source.

    An exception becomes the result of the point, and does not end the sweep.
    """
    from sim.describe.loaded import have_loaded

    module, _, name = runner.partition(":")
    run = getattr(importlib.import_module(module), name)
    with recorded() as files:
        try:
            have_loaded(point.load)
            result = Result(metrics=_plain(run(point.config, source=point.source)))
        except Exception as error:
            text = " ".join(str(error).split())
            if not isinstance(error, ValueError | OSError):
                text = f"{type(error).__name__}: {text}"
            result = Result(error=text or type(error).__name__)
    folder = Path(point.source).absolute().parent
    return replace(result, files={os.path.relpath(path, folder): files[path] for path in files})


def _plain(metrics: Any) -> Metrics:
    """Metrics as after a round trip through JSON, so that fresh and kept ones are the same."""
    plain: Metrics = {}
    for name, value in metrics.items():
        if isinstance(value, str):
            plain[name] = value
        else:
            number = value.item() if hasattr(value, "item") else value
            if type(number) not in (int, float, bool):
                raise TypeError(f"metric {name!r} must be a number or a text, not {value!r}")
            plain[name] = int(number) if type(number) is bool else number
    return plain


def on_processes(
    runner: str, points: Iterable[Point], workers: int
) -> Iterator[tuple[Point, Result]]:
    """Run *points* on *workers* processes.

    A point whose process dies is tried once more, alone: the others in flight at that time may
    have done no wrong.

    Raises
    ------
    RuntimeError
        No process can start: the script of the caller would be run anew by each of them.
    SystemExit
        The same, of a script without the line that keeps it from that: it ends with one sentence.
    """
    if _imports_the_script():
        sys.exit(1)  # the process of the script itself says why
    if _has_no_guard():
        sys.exit(GUARD)
    script = sys.modules["__main__"]
    if getattr(script, "__file__", None) == "<stdin>":  # which no process can run again
        del script.__file__
    suspects: list[Point] = []
    coming = iter(points)
    waiting = next(coming, None)  # the next one to submit; only few are submitted ahead
    while waiting is not None:
        running: dict[Future[Result], Point] = {}
        with own_processes(workers) as pool:
            try:
                _check_that_processes_start(pool)
                while waiting is not None or running:
                    while waiting is not None and len(running) < QUEUED_PER_WORKER * workers:
                        running[submit(pool, evaluate, runner, waiting)] = waiting
                        waiting = next(coming, None)
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        result = future.result()
                        yield running.pop(future), result
            except BrokenProcessPool:
                for future, point in running.items():
                    if future.done() and future.exception() is None:
                        yield point, future.result()
                    else:
                        suspects.append(point)
    for point in suspects:
        with own_processes(1) as pool:
            try:
                result = submit(pool, evaluate, runner, point).result()
            except BrokenProcessPool:
                result = Result(error=CRASHED)
        yield point, result


@contextmanager
def own_processes(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Processes for `submit` that end with this one, and at once if the context is left by an
    error: stopping does not wait for what is in flight."""
    # Fresh processes: a fork would copy whatever threads hold at that moment.
    spawned = multiprocessing.get_context("spawn")
    with _uninterrupted(), _quiet_tracker():
        made = ProcessPoolExecutor(workers, spawned, initializer=_end_with_parent)
    with made as pool:
        try:
            yield pool
        except BaseException:
            with _uninterrupted():
                processes = list((pool._processes or {}).values())
                pool.shutdown(wait=False, cancel_futures=True)
                for process in processes:
                    process.terminate()
            raise


def submit(
    pool: ProcessPoolExecutor, work: Callable[..., Answer], *arguments: Any
) -> "Future[Answer]":
    """Submit work, for which processes may be started: those that ignore Ctrl-C from the beginning,
    which the command alone answers."""
    with _uninterrupted():
        return pool.submit(work, *arguments)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Hold Ctrl-C back; processes that are started meanwhile never get it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _quiet_tracker() -> Iterator[None]:
    """Start Python's tracker of semaphores, which the first pool does, such that it cleans up
    without a word after a command that ended at once: half-done work is no fault to be told."""
    before = os.environ.get("PYTHONWARNINGS")
    quiet = "ignore:resource_tracker"
    os.environ["PYTHONWARNINGS"] = f"{before},{quiet}" if before else quiet
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONWARNINGS"]
        else:
            os.environ["PYTHONWARNINGS"] = before


def _check_that_processes_start(pool: ProcessPoolExecutor) -> None:
    try:
        submit(pool, os.getpid).result()
    except BrokenProcessPool as error:
        what = GUARD.removeprefix("foldwire: ")
        raise RuntimeError(f"no worker process could start; {what}") from error


def _has_no_guard() -> bool:
    """True if the program is a script that never asks for its own name, so that each process of a
    pool would run all of it."""
    script = sys.modules["__main__"]
    path, spec = getattr(script, "__file__", None), getattr(script, "__spec__", None)
    if path is None or (spec is not None and spec.name.endswith("__main__")):  # is not run again
        return False
    try:
        tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError):
        return False
    return not any(
        isinstance(each, ast.Constant) and each.value == "__main__" for each in ast.walk(tree)
    )


def _imports_the_script() -> bool:
    """True if this is a new process of a pool that runs its parent's script before any work.

    Python calls the script's module ``__mp_main__``, and ``__main__`` as well once it has run.
    """
    script = sys.modules.get("__mp_main__")
    return script is not None and script is not sys.modules["__main__"]


def _end_with_parent() -> None:
    """End this process when the one that started it does, in whatever way.

    A pool tells its processes to end; one that is killed cannot, and they would wait for ever.
    """
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    sentinel = parent.sentinel

    def watch() -> None:
        multiprocessing.connection.wait([sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def on_cluster(
    runner: str, points: Iterable[Point], scheduler: str
) -> Iterator[tuple[Point, Result]]:
    """Run *points* on the Dask cluster whose scheduler listens at *scheduler*.

    Raises
    ------
    RuntimeError
        Dask is not installed, or the scheduler does not answer.
    """
    try:
        import distributed
    except ImportError as error:
        raise RuntimeError(
            "a cluster needs Dask; install it with: pip install 'foldwire[sweep]'"
        ) from error
    dask: Any = distributed
    points = list(points)
    if not points:
        return
    try:
        client = dask.Client(scheduler, timeout=20, set_as_default=False)
    except (OSError, ValueError) as error:
        raise RuntimeError(f"no Dask scheduler answers at {scheduler}: {error}") from error
    with _said_once(), client:
        of = {
            # Not pure: Dask would name the task by its contents, and may have kept an old result.
            client.submit(evaluate, runner, point, pure=False): point
            for point in points
        }
        try:
            for future in dask.as_completed(list(of), loop=client.loop):
                point = of.pop(future)
                yield point, _gathered(future)
                future.release()
        finally:
            with suppress(Exception):
                client.cancel(list(of))


@contextmanager
def _said_once() -> Iterator[None]:
    """Keeps Dask from logging, with its traceback, the failure that is raised here anyway."""
    # Dask's configuration gives these levels of their own; others of its parts have the first's.
    names = "distributed", "distributed.client", "distributed.core"
    loggers = [logging.getLogger(name) for name in names]
    levels = [each.level for each in loggers]
    try:
        for each in loggers:
            each.setLevel(logging.CRITICAL)
        yield
    finally:
        for each, level in zip(loggers, levels, strict=True):
            each.setLevel(level)


def _gathered(future: Any) -> Result:
    try:
        result: Result = future.result()
    except (CancelledError, OSError) as error:
        # Not caused by the point: its own errors are results.
        raise RuntimeError(
            "the Dask scheduler went away; run the same command again to go on"
        ) from error
    except Exception as error:
        return Result(error=f"{type(error).__name__}: {' '.join(str(error).split())}")
    return result
