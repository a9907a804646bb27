# SPDX-License-Identifier: Apache-2.0
"""Run cocotb tests on Verilog: build with Verilator or Icarus, run, and count the tests that ran.

Verilator is two-state: registers without an initial value start at random, by the seed. Icarus
starts them unknown, and a value with an unknown bit compares as unequal.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from gen.compiler import CompileError, find_compiler
from gen.verilator import VerilatorError, find_verilator

__all__ = [
    "SIMULATOR", "SIMULATORS", "BenchError", "build_bench", "choose_simulator", "run_bench",
]

SIMULATOR = "FOLDWIRE_SIMULATOR"
"""Environment variable with the simulator of the benches in `tb`."""
SIMULATORS = ("verilator", "icarus")
_OLDEST = (5, 36)
"""Oldest version of Verilator that cocotb supports."""


class BenchError(RuntimeError):
    """A design did not build, a test failed, or none ran."""


def _usable_verilator() -> str:
    """Return why Verilator cannot be used; empty if it can."""
    try:
        version = find_verilator().version
        find_compiler()
    except (VerilatorError, CompileError) as error:
        return str(error)
    if shutil.which("make") is None:
        return "Verilator needs make, which is not on PATH (Debian, Ubuntu: apt-get install make)"
    numbers = tuple(int(each) for each in re.findall(r"\d+", version)[:2])
    if numbers < _OLDEST:
        return f"Verilator {version} is older than 5.036, which cocotb needs at least"
    return ""


def choose_simulator(wanted: str | None = None) -> str:
    """Return `wanted`; if that is not given, Verilator if it can be used, else Icarus.

    Raises
    ------
    BenchError
        `wanted` is unknown or not installed, or there is none; the text says what to install.
    """
    if wanted and wanted not in SIMULATORS:
        raise BenchError(f"the simulator must be one of {', '.join(SIMULATORS)}, not {wanted!r}")
    trouble = _usable_verilator() if wanted != "icarus" else ""
    if wanted != "icarus" and not trouble:
        return "verilator"
    if wanted != "verilator" and shutil.which("iverilog"):
        return "icarus"
    if wanted == "icarus":
        trouble = "Icarus Verilog is missing (Debian, Ubuntu: apt-get install iverilog)"
    raise BenchError(trouble)


def build_bench(
    sources: Sequence[Path], *, top: str, folder: Path, simulator: str, jobs: int = 2
) -> None:
    """Build module `top` into `folder` with its ports accessible to cocotb.

    Raises
    ------
    BenchError
        The build fails; the text ends with the output of the simulator.
    """
    if simulator == "verilator":
        from cocotb_tools import config

        libraries = str(config.libs_dir)
        link = f"-Wl,-rpath,{libraries} -L{libraries} -lcocotbvpi_verilator"
        main = Path(config.share_dir) / "lib" / "verilator" / "verilator.cpp"
        options = ["--vpi", "--public-depth", "1", "--x-initial", "unique", "-Wno-fatal"]
        options += ["--assert", "--timescale", "1ns/1ps", "-LDFLAGS", link]
        options += [f"-I{each}" for each in sorted({str(source.parent) for source in sources})]
        try:
            find_verilator().build(
                [main, *sources], top=top, folder=folder, arguments=options, flags="-O1", jobs=jobs
            )
        except CompileError as error:
            raise BenchError(str(error)) from error
        except VerilatorError as error:
            raise BenchError(f"{top} does not build under Verilator\n{error}") from error
        return
    from cocotb_tools.runner import get_runner

    log = folder / "build.log"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        get_runner("icarus").build(
            sources=list(sources), hdl_toplevel=top, build_dir=folder, always=True, log_file=log,
            timescale=("1ns", "1ps"),  # Amaranth emits none, and Icarus then refuses 1 ns
        )
    except (RuntimeError, SystemExit) as error:
        raise BenchError(f"{top} does not build under Icarus\n{tail(log)}") from error


def run_bench(
    module: str,
    *,
    top: str,
    folder: Path,
    work: Path,
    simulator: str,
    seed: int,
    test_filter: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> Path:
    """Run the cocotb tests of `module` on what `build_bench` built; return the path of results.

    Parameters
    ----------
    module:
        Dotted name.
    work:
        Folder to run in; gets ``results.xml`` and ``test.log``.
    seed:
        Seed of the tests, and of random initial values.
    test_filter:
        Regular expression that selects the tests to run.
    environment:
        Environment variables for the tests.

    Raises
    ------
    BenchError
        A test failed, or none ran; the text ends with the log.
    """
    from cocotb_tools.check_results import get_results
    from cocotb_tools.runner import get_runner

    results, log = work / "results.xml", work / "test.log"
    plus = [f"+verilator+seed+{seed % (1 << 31) or 1}", "+verilator+rand+reset+2"]
    try:
        get_runner(simulator).test(
            hdl_toplevel=top, hdl_toplevel_lang="verilog", test_module=module, build_dir=folder,
            test_dir=work, seed=seed, results_xml=str(results), log_file=log,
            test_filter=test_filter, plusargs=plus if simulator == "verilator" else [],
            extra_env={"COCOTB_ANSI_OUTPUT": "0", **(environment or {})},
        )
        ran, failed = get_results(results)
    except (RuntimeError, SystemExit) as error:
        # Under pytest the runner exits by itself when a test has failed.
        raise BenchError(f"cocotb tests of {module} failed\n{tail(log)}") from error
    if failed:
        raise BenchError(f"{failed} of {ran} cocotb tests of {module} failed\n{tail(log)}")
    if ran == 0:
        raise BenchError(f"no cocotb test ran in {module}\n{tail(log)}")
    return results


def tail(log: Path, lines: int = 40) -> str:
    """The last *lines* lines of a log."""
    if not log.exists():
        return "(no log was written)"
    text = log.read_text(encoding="utf-8", errors="replace")
    return f"(end of {log.name})\n" + "\n".join(text.splitlines()[-lines:])
