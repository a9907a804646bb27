# SPDX-License-Identifier: Apache-2.0
"""Measures the present speed of this machine with a fixed program, to scale reference times.

``calibration.cc`` is compiled once for each compiler. Its CPU time is stored with the reference
times, measured on the same machine in turns with them.
"""

import hashlib
import os
import subprocess
from pathlib import Path

from gen.cache import kept
from gen.compiler import find_compiler

__all__ = ["calibration_s", "cpu_of"]

SOURCE = Path(__file__).with_name("calibration.cc")
SUM = "9144725721"
"""Output of a correct run of the program."""

NO_BYTECODE = ("PYTHONDONTWRITEBYTECODE",)


def calibration_s() -> float:
    """CPU seconds of the fixed program, in a process of its own."""
    output, cpu, _ = cpu_of([str(_program())])
    if output.strip() != SUM:
        raise RuntimeError(f"{SOURCE.name} printed {output.strip()!r}, not {SUM}")
    return cpu


def _program() -> Path:
    compiler, version = find_compiler()
    key = hashlib.sha256(SOURCE.read_bytes() + version.encode()).hexdigest()[:32]

    def make(path: Path) -> None:
        command = [compiler, "-O2", "-std=c++17", str(SOURCE), "-o", str(path)]
        subprocess.run(command, check=True)
        path.chmod(0o755)

    return kept(f"bench/{key}", make, doing="compiling the calibration program (2 s)")


def cpu_of(command: list[str]) -> tuple[str, float, float]:
    """Run a process; return its output, CPU seconds and peak resident memory in MB.

    Python keeps what it compiles, as it does for installed packages. Where it is told not to, every
    process compiles all sources anew, which takes nearly as long as a short run does else.
    """
    environment = {key: value for key, value in os.environ.items() if key not in NO_BYTECODE}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    with process.stdout:
        output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} failed")
    return output, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024
