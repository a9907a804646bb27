# SPDX-License-Identifier: Apache-2.0
"""Run Yosys (the `pyosys` wheel) in a child process.

An error inside Yosys ends its process, so it never runs inside ours: a job is a list of steps that
a fresh interpreter executes, and a failure comes back as an exception that carries the end of the
log. A step is a Yosys command line, or a pair of the name of a function in `gen.yosys_worker` and
its arguments, for the few things that no Yosys command does.
"""

from __future__ import annotations

import functools
import json
import math
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, TypeAlias

from gen.tether import tethered

__all__ = [
    "Step",
    "YosysError",
    "YosysTimeoutError",
    "cxxrtl_include_dir",
    "run_yosys",
    "yosys_version",
]

_Arguments: TypeAlias = dict[str, Any]
Step: TypeAlias = str | tuple[str, _Arguments]

_LOG_TAIL_LINES = 30


class YosysError(RuntimeError):
    """Yosys failed. `log` is all it wrote; the message ends with its last lines."""

    def __init__(self, what: str, log: str) -> None:
        super().__init__(what, log)  # as given: it is pickled on its way between processes
        self._what, self.log = what, log

    def __str__(self) -> str:
        lines = self.log.strip().splitlines()
        tail = lines[-_LOG_TAIL_LINES:]
        # Output to stderr can come before what stdout still buffers.
        said = [each for each in lines if each.startswith("ERROR:") and each not in tail]
        return "\n".join([f"{self._what}; the end of the Yosys log:", *tail, *said])


class YosysTimeoutError(YosysError):
    """Yosys did not finish within its time limit."""


@functools.cache
def yosys_version() -> str:
    """The version of the `pyosys` distribution, without importing it."""
    return metadata.version("pyosys")


def cxxrtl_include_dir() -> Path:
    """The folder with the CXXRTL run-time headers that `pyosys` ships."""
    distribution = metadata.distribution("pyosys")
    root = Path(str(distribution.locate_file("pyosys")))
    return root / "share" / "include" / "backends" / "cxxrtl" / "runtime"


def run_yosys(
    steps: Sequence[Step],
    *,
    cwd: Path,
    timeout: float | None = None,
    cpu_s: float | None = None,
    meanwhile: Callable[[], object] | None = None,
) -> str:
    """Execute `steps` in order in one Yosys; return its log.

    Parameters
    ----------
    steps:
        Command lines, or ``(worker function, keyword arguments)``.
    cwd:
        Folder of relative file names in the steps. Passing short relative names also keeps paths
        out of whatever Yosys writes.
    timeout:
        Seconds after which the child is killed and `YosysTimeoutError` raised.
    cpu_s:
        The same in seconds of CPU time, so that the outcome does not depend on the load.
    meanwhile:
        Called once while the child works.
    """
    if cpu_s is not None:
        steps = [("limit_cpu", {"seconds": math.ceil(cpu_s)}), *steps]
    worker = Path(__file__).with_name("yosys_worker.py")
    command = tethered([sys.executable, str(worker)])
    # Files, not pipes: nobody serves a pipe while `meanwhile` runs.
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as said:
        given.write(json.dumps(list(steps)).encode())
        given.seek(0)
        child = subprocess.Popen(
            command, stdin=given, stdout=said, stderr=subprocess.STDOUT, cwd=cwd
        )
        late = None
        try:
            if meanwhile is not None:
                meanwhile()
            child.wait(timeout)
        except subprocess.TimeoutExpired as error:
            late = error
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()
        said.seek(0)
        log = said.read().decode(errors="replace")
    if late is not None:
        raise YosysTimeoutError(f"Yosys did not finish within {timeout} s", log) from late
    if child.returncode < 0 and child.returncode == -getattr(signal, "SIGXCPU", 0):
        raise YosysTimeoutError(f"Yosys did not finish within {cpu_s:g} s of CPU time", log)
    if child.returncode != 0:
        raise YosysError(f"Yosys ended with status {child.returncode}", log)
    return log
