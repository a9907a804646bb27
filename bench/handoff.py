# SPDX-License-Identifier: Apache-2.0
"""The folder that ``foldwire gen`` writes, of every preset, read by the tools that it is for.

FuseSoC lists the core and exports its sources; Bender's manifest is read by a YAML parser against
its documentation; systemrdl-compiler and peakrdl-ipxact read the registers, which are compared with
the register map; C header and example compile as C11 and C++17 with warnings as errors. On compiled
models the example all-reduces vectors of integers and of FP32, compared with numpy. Patterns are
marks of generated text in the Verilog (`bench/_handoff_patterns.py`).
"""

import json
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from amaranth.hdl import UnusedElaboratable

from bench import _manifests
from bench._c_driver import DIALECTS, all_reduced_by_c, compiled_header
from bench._handoff_patterns import found
from bench.options import bench_parser
from bench.result import result
from foldwire.catalog import CATALOG, Design, build
from foldwire.console import say
from foldwire.emission import write_verilog
from foldwire.handoff.driver import driver_files
from foldwire.handoff.packages import sources_of
from foldwire.handoff.part import handoff_of
from hw.fp.ops import ReduceOp

__all__ = ["TOOLS", "check", "drive", "driven", "main"]

DESIGNS = tuple((name, preset) for name, entry in CATALOG.items() for preset in entry.presets)
_NODES = 4
TOOLS = ("fusesoc", "pyyaml", "systemrdl-compiler", "peakrdl-ipxact", *DIALECTS)
_ELEMENTS = 1000


def check(design: Design, folder: Path) -> Iterator[str]:
    """Write the folder of a design, and say what is wrong with it, a line each."""
    top, registers = design.top, design.registers
    write_verilog(design, folder)
    sources = sources_of((folder / f"{top}.f").read_text(encoding="utf-8"))
    manifest = json.loads((folder / f"{top}.json").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as scratch:
        yield from _manifests.fusesoc(folder, top, sources, Path(scratch))
    yield from _manifests.bender(folder, {top: sources})
    yield from _manifests.ip_xact(folder / f"{top}.xml", registers, manifest)
    if not (folder / "LICENSES" / "Apache-2.0.txt").is_file():
        yield "no licence"
    if registers is not None:
        yield from _manifests.system_rdl(folder / f"{top}.rdl", top, registers)
        for dialect in DIALECTS:
            try:
                with tempfile.TemporaryDirectory() as scratch:
                    compiled_header(driver_files(design), top, Path(scratch), dialect=dialect)
            except ValueError as error:
                yield f"{dialect}: {error}"


def driven() -> list[str]:
    """Designs that all-reduce by an example, in their smallest preset, whose model is compiled in
    seconds."""
    parts = {name: handoff_of(build(name, None, {})) for name in CATALOG}
    between = {each.through for each in parts.values()}
    return [name for name, each in parts.items() if each.driver and name not in between]


def drive(name: str, nodes: int) -> Iterator[str]:
    """Let the example all-reduce, and say what is wrong with the results."""
    rng = np.random.default_rng(nodes)
    design = build(name, None, {})
    through = handoff_of(design).through
    middle = build(through, None, {}) if through else None
    for op, kind in ((ReduceOp.SUM_I32, np.int32), (ReduceOp.SUM_F32, np.float32)):
        # Integers so small that binary32 adds them without rounding, in any order.
        inputs = [rng.integers(-1000, 1000, _ELEMENTS).astype(kind) for _ in range(nodes)]
        try:
            results = all_reduced_by_c(design, inputs, op, middle=middle)
        except ValueError as error:
            yield f"{op.name}: {error}"
            continue
        wrong = [rank for rank, each in enumerate(results) if not np.array_equal(each, sum(inputs))]
        if wrong:
            yield f"{op.name}: other results than numpy's at ranks {wrong}"


def main(argv: Sequence[str]) -> int:
    """Check all presets, then drive."""
    options = bench_parser("handoff", __doc__, only="presets").parse_args(argv)
    chosen = DESIGNS[: options.only]
    # Models are compiled from configurations: the components of designs that run are not needed.
    warnings.simplefilter("ignore", UnusedElaboratable)
    failures, patterns = 0, Counter[str]()
    for name, preset in chosen:
        with tempfile.TemporaryDirectory() as folder:
            design = build(name, preset, {})
            problems = list(check(design, Path(folder)))
            patterns.update(found((Path(folder) / f"{design.top}.sv").read_text(encoding="utf-8")))
        failures += _said(f"{name}/{preset}", problems)
    for name in (names := driven()):
        failures += _said(f"{name}, {_NODES} driven by C", list(drive(name, _NODES)))
    for pattern, count in patterns.items():
        say(f"pattern {pattern}: {count}")
    total = sum(patterns.values())
    good = failures == 0 and total == 0 and len(chosen) == len(DESIGNS)
    result(
        "handoff", presets=len(chosen), tools=len(TOOLS), driven=len(names), failures=failures,
        patterns=total, verdict="ok" if good else "short",
    )
    return 0


def _said(what: str, problems: Sequence[str]) -> int:
    say(f"{what}: {'; '.join(problems) or 'accepted'}")
    return len(problems)
