# SPDX-License-Identifier: Apache-2.0
"""Make the C++ of a native model from RTLIL, which Yosys simplifies first."""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from pathlib import Path

from gen.native.cells import UnsupportedError
from gen.native.module import ClockError, LoopError, NativeModule
from gen.native.netlist import Netlist, read_netlists
from gen.native.text import write_model
from gen.rtlil import DesignPort
from gen.yosys import Step, run_yosys

__all__ = ["LARGE_CELLS", "generate"]

_NETLIST = "netlist.json"

LARGE_CELLS = 150
"""A smaller module costs more to call than it saves by being skipped, or by being compiled once."""


def _steps(top: str, dissolved: Sequence[str]) -> list[Step]:
    return [
        "read_rtlil model.il",
        "read_verilog macros.v",
        f"hierarchy -top {top}",
        "proc",
        "clean",
        ("keep_large", {"cells": LARGE_CELLS, "dissolved": list(dissolved)}),
        "flatten",
        f"hierarchy -top {top}",
        "dffunmap",
        "opt_expr",
        "opt_merge",
        "wreduce -memx",  # addresses keep their bits: what is outside a memory stays outside
        "clean",
        "splitnets -driver",
        "memory_dff",
        # Memory ports of one kind, whatever wrote them.
        "memory_collect",
        "memory_unpack",
        "clean",
        f"write_json {_NETLIST}",
    ]


def generate(work: Path, top: str, ports: Sequence[DesignPort], lanes: int = 1) -> dict[str, str]:
    """The C++ of `model.il` and `macros.v` in the folder *work*: name -> contents.

    The model holds *lanes* instances. A module that makes a loop because it is kept apart is
    flattened into its parents.

    Raises
    ------
    UnsupportedError
        If something in the design is not supported; this includes a real loop.
    ClockError
        If a register has another clock than `clk`, or uses its negative edge.
    """
    dissolved: list[str] = []
    while True:
        # The design as Python objects is garbage by now, and there is a core to spare.
        run_yosys(_steps(top, dissolved), cwd=work, meanwhile=gc.collect)
        try:
            modules = _modules(read_netlists(work / _NETLIST), top)
        except LoopError as loop:
            found = sorted(loop.children - set(dissolved))
            if not found:
                raise UnsupportedError(str(loop)) from None
            dissolved += found
            continue
        # A design without registers has no reset.
        there = modules[top].netlist.ports
        return write_model(modules, top, [port for port in ports if port.name in there], lanes)


def _modules(netlists: Mapping[str, Netlist], top: str) -> dict[str, NativeModule]:
    """The module *top* and all that it holds, children first."""
    modules: dict[str, NativeModule] = {}

    def visit(name: str) -> None:
        for cell in netlists[name].cells:
            if cell.type in netlists and cell.type not in modules:
                visit(cell.type)
        modules[name] = _module(netlists[name], modules)

    visit(top)
    if modules[top].clock not in (None, "clk"):
        raise ClockError(f"the clock {modules[top].clock}")
    return modules


def _module(netlist: Netlist, children: Mapping[str, NativeModule]) -> NativeModule:
    """Build a module; cells that are in a loop as words, but maybe not as bits, are split."""
    cut: frozenset[str] = frozenset()
    while True:
        try:
            return NativeModule(netlist, children, cut)
        except LoopError as loop:
            if not loop.cells:
                raise
            cut |= loop.cells
