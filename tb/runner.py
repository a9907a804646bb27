# SPDX-License-Identifier: Apache-2.0
"""Build emitted Verilog, run cocotb tests on it, and tell what ran.

`gen.benches` knows both simulators; here are designs, parameters and folders. A program that
Verilator has made of a design is kept for all runs on that design, in ``build/tb``.
"""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from amaranth.lib import wiring

from gen import benches, verilator
from gen.benches import SIMULATOR, BenchError, build_bench, choose_simulator, run_bench
from gen.cache import kept
from gen.compiler import find_compiler
from gen.verilator import find_verilator
from gen.verilog import emit

__all__ = ["CosimError", "Results", "parameters", "simulate"]

BUILD = Path(__file__).resolve().parent.parent / "build" / "tb"
PARAMETERS = "FOLDWIRE_TB_PARAMETERS"


class CosimError(AssertionError):
    """A bench failed, did not build, or ran no test at all; the message ends with the log."""


@dataclass(frozen=True)
class Results:
    """Names of the cocotb tests that ran (all of them passed), the simulator and its log.

    A test with parameters has one name, however many of them there are.
    """

    ran: frozenset[str]
    log: Path
    simulator: str


def simulate(
    design: wiring.Component | str | Path,
    module: str,
    *,
    top: str,
    seed: int,
    parameters: Mapping[str, Any] | None = None,
    tests: Collection[str] = (),
    simulator: str | None = None,
) -> Results:
    """Run the cocotb tests of *module* on *design*; raise :class:`CosimError` unless all pass.

    Parameters
    ----------
    design
        A component, which is emitted first: as SystemVerilog for Verilator, in the plain style for
        Icarus, which does not read the structures of the other one. Or Verilog text; or the path
        of a Verilog file.
    module
        Dotted name of the Python module with the cocotb tests.
    top
        Name of the top-level Verilog module.
    seed
        ``cocotb.RANDOM_SEED`` of the run, and of what Verilator has for registers at first.
    parameters
        Values for the tests, read inside the simulator by :func:`parameters`; plain JSON.
    tests
        Run only the tests of these names, each with all of its parameters; all by default.
    simulator
        "verilator" or "icarus"; ``$FOLDWIRE_SIMULATOR`` unless given, else Verilator if it is
        there, else Icarus.
    """
    try:
        simulator = choose_simulator(simulator or os.environ.get(SIMULATOR))
        verilog = _verilog(design, top, simulator)
        values = json.dumps(dict(parameters or {}), sort_keys=True)
        # One folder per distinct run, so that parallel test workers never share one.
        parts = (verilog, values, seed, *sorted(tests), simulator)
        work = BUILD / module.removeprefix("tb.").replace(".", "-") / f"{top}-{_hash(*parts)}"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        results = run_bench(
            module, top=top, folder=_built(verilog, top, simulator, work), work=work,
            simulator=simulator, seed=seed, environment={PARAMETERS: values},
            test_filter=rf"\b(?:{'|'.join(map(re.escape, tests))})(?:/|$)" if tests else None,
        )
    except BenchError as error:
        raise CosimError(str(error)) from error
    return Results(ran=_names(results), log=work / "test.log", simulator=simulator)


def _hash(*parts: object) -> str:
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:10]


def _built(verilog: str, top: str, simulator: str, work: Path) -> Path:
    """The folder of the built design: *work* or, for a program that takes long, one of its own."""
    name = f"{top}.{'sv' if simulator == 'verilator' else 'v'}"
    if simulator != "verilator":
        (work / name).write_text(verilog, encoding="utf-8")
        build_bench([work / name], top=top, folder=work, simulator=simulator)
        return work

    def build(program: Path) -> None:
        source = program.parent / name
        source.write_text(verilog, encoding="utf-8")
        build_bench([source], top=top, folder=program.parent, simulator=simulator)

    recipe = [Path(str(each.__file__)).read_text(encoding="utf-8") for each in (benches, verilator)]
    key = _hash(verilog, find_verilator().version, metadata.version("cocotb"), find_compiler()[1],
                *recipe)
    program = kept(f"{top}-{key}/{top}", build, doing=f"building {top} with Verilator",
                   folder=BUILD / "verilator")
    return program.parent


def parameters() -> dict[str, Any]:
    """Inside the simulator: the values that the pytest side passed to :func:`simulate`."""
    values: dict[str, Any] = json.loads(os.environ.get(PARAMETERS, "{}"))
    return values


def _verilog(design: wiring.Component | str | Path, top: str, simulator: str) -> str:
    if isinstance(design, wiring.Component):
        style = "plain" if simulator == "icarus" else "sv"
        return emit(design, name=top, style=style).text
    if isinstance(design, Path):
        return design.read_text(encoding="utf-8")
    if isinstance(design, str):
        return design
    raise TypeError(f"design must be a Component, Verilog text or a Path, not {design!r}")


def _names(results_xml: Path) -> frozenset[str]:
    cases = ElementTree.parse(results_xml).getroot().iter("testcase")
    return frozenset(case.attrib["name"].partition("/")[0] for case in cases)
