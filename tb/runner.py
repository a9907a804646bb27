"""Build emitted Verilog with Icarus, run cocotb tests on it, and tell what ran.

cocotb's own runner returns normally when no test matched, and outside pytest also when tests
failed; so nothing else in the project calls it.
"""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from amaranth.lib import wiring
from cocotb_tools.check_results import get_results
from cocotb_tools.runner import get_runner

from gen.verilog import emit

__all__ = ["CosimError", "Results", "parameters", "simulate"]

BUILD = Path(__file__).resolve().parent.parent / "build" / "tb"
PARAMETERS = "FOLDWIRE_TB_PARAMETERS"
LOG_TAIL_LINES = 40


class CosimError(AssertionError):
    """A bench failed, did not build, or ran no test at all; the message ends with the log."""


@dataclass(frozen=True)
class Results:
    """Names of the cocotb tests that ran (all of them passed), and the simulator's log.

    A test with parameters has one name, however many of them there are.
    """

    ran: frozenset[str]
    log: Path


def simulate(
    design: wiring.Component | str | Path,
    module: str,
    *,
    top: str,
    seed: int,
    parameters: Mapping[str, Any] | None = None,
    test: str | None = None,
) -> Results:
    """Run the cocotb tests of *module* on *design*; raise :class:`CosimError` unless all pass.

    Parameters
    ----------
    design
        A component, which is emitted first; or Verilog text; or the path of a Verilog file.
    module
        Dotted name of the Python module with the cocotb tests.
    top
        Name of the top-level Verilog module.
    seed
        ``cocotb.RANDOM_SEED`` of the run.
    parameters
        Values for the tests, read inside the simulator by :func:`parameters`; plain JSON.
    test
        Run only the tests whose name ends with this; all by default.
    """
    if shutil.which("iverilog") is None:
        raise CosimError("Icarus Verilog is missing; please run: sudo apt-get install iverilog")
    verilog = _verilog(design, top)
    values = json.dumps(dict(parameters or {}), sort_keys=True)

    # One folder per distinct run, so that parallel test workers never share one.
    key = hashlib.sha256(f"{verilog}\0{values}\0{seed}\0{test}".encode()).hexdigest()[:10]
    work = BUILD / module.removeprefix("tb.").replace(".", "-") / f"{top}-{key}"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    source = work / f"{top}.v"
    source.write_text(verilog, encoding="utf-8")

    runner = get_runner("icarus")
    build_log, test_log = work / "build.log", work / "test.log"
    try:
        runner.build(
            sources=[source],
            hdl_toplevel=top,
            build_dir=work,
            always=True,
            timescale=("1ns", "1ps"),  # Amaranth emits none, and Icarus then refuses 1 ns
            log_file=build_log,
        )
    except (RuntimeError, SystemExit) as error:
        raise CosimError(f"{top} does not build under Icarus\n{_tail(build_log)}") from error

    results_xml = work / "results.xml"
    try:
        runner.test(
            hdl_toplevel=top,
            test_module=module,
            build_dir=work,
            test_dir=work,
            seed=seed,
            results_xml=str(results_xml),
            log_file=test_log,
            test_filter=None if test is None else rf"{re.escape(test)}$",
            extra_env={PARAMETERS: values, "COCOTB_ANSI_OUTPUT": "0"},
        )
        ran, failed = get_results(results_xml)
    except (RuntimeError, SystemExit) as error:
        # Under pytest the runner exits by itself when a test has failed.
        raise CosimError(f"cocotb tests of {module} failed\n{_tail(test_log)}") from error
    if failed:
        raise CosimError(f"{failed} of {ran} cocotb tests of {module} failed\n{_tail(test_log)}")
    if ran == 0:
        raise CosimError(f"no cocotb test ran in {module}\n{_tail(test_log)}")
    return Results(ran=_names(results_xml), log=test_log)


def parameters() -> dict[str, Any]:
    """Inside the simulator: the values that the pytest side passed to :func:`simulate`."""
    values: dict[str, Any] = json.loads(os.environ.get(PARAMETERS, "{}"))
    return values


def _verilog(design: wiring.Component | str | Path, top: str) -> str:
    if isinstance(design, wiring.Component):
        # Icarus Verilog does not read the structures of the other style.
        return emit(design, name=top, style="plain").text
    if isinstance(design, Path):
        return design.read_text(encoding="utf-8")
    if isinstance(design, str):
        return design
    raise TypeError(f"design must be a Component, Verilog text or a Path, not {design!r}")


def _names(results_xml: Path) -> frozenset[str]:
    cases = ElementTree.parse(results_xml).getroot().iter("testcase")
    return frozenset(case.attrib["name"].partition("/")[0] for case in cases)


def _tail(log: Path) -> str:
    if not log.exists():
        return "(no log was written)"
    text = log.read_text(encoding="utf-8", errors="replace")
    return f"(end of {log.name})\n" + "\n".join(text.splitlines()[-LOG_TAIL_LINES:])
