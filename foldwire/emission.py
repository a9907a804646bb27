# SPDX-License-Identifier: Apache-2.0
"""Make the outputs of a design: Verilog, manifest, register map, a table of cells."""

import json
from pathlib import Path

from foldwire.catalog import Design
from foldwire.handoff.write import check_clock, write_handoff
from gen.folder import replace_text
from gen.mapping.clock import clock
from gen.mapping.levels import levels
from gen.mapping.netlist import DesignNetlist, kept_netlist
from gen.mapping.targets import check_target
from gen.synth import cells_of
from gen.table import Table
from gen.verilog import WAIVERS, WAIVERS_SV, emit_files

__all__ = ["clock_tables", "levels_tables", "netlist_of", "synthesis_table", "write_verilog"]


def write_verilog(
    design: Design,
    folder: Path,
    *,
    style: str = "sv",
    reset: str = "high",
    clock_mhz: float = 250.0,
    command: str | None = None,
    split: bool = False,
    replace: bool = False,
) -> list[Path]:
    """Write the Verilog, its manifest and the files handed over with them; return all paths.

    These are waivers for Verilator's lint (``top.vlt``), for an engine the register map as text and
    as JSON, and the files of `foldwire.handoff.write.write_handoff`. `style`, `reset`, `command`,
    `split` and `replace` are those of `gen.verilog.emit_files`; constraints ask for `clock_mhz`.
    """
    check_clock(clock_mhz)
    *verilog, manifest = emit_files(
        design.component, folder, name=design.top, header=design.parameters, style=style,
        reset=reset, command=command, split=split, replace=replace,
    )
    written = [*verilog, manifest]
    waivers = folder / f"{design.top}.vlt"
    reasons = WAIVERS if style == "plain" else WAIVERS_SV
    replace_text(waivers, reasons.read_text(encoding="utf-8"))
    written.append(waivers)
    if design.registers is not None:
        document = folder / f"{design.top}-registers.md"
        replace_text(document, design.registers.markdown())
        machine = document.with_suffix(".json")
        replace_text(machine, design.registers.to_json())
        written += [document, machine]
    about = json.loads(manifest.read_text(encoding="utf-8"))
    written += write_handoff(design, folder, verilog=verilog, manifest=about, clock_mhz=clock_mhz)
    return written


def synthesis_table(design: Design, target: str) -> Table:
    """Cells of *design* mapped to *target*, block by block."""
    check_target(target)
    return cells_of(netlist_of(design), target=target)


def levels_tables(design: Design, target: str) -> tuple[Table, Table]:
    """Longest paths of *design* in levels of logic, and those of each block."""
    check_target(target)
    return levels(netlist_of(design), target=target)


def clock_tables(design: Design) -> tuple[Table, Table]:
    """Clock of *design* on an ECP5 after place and route, and the blocks that miss 100 MHz."""
    return clock(netlist_of(design))


def netlist_of(design: Design) -> DesignNetlist:
    """Netlist that *design* is mapped from; kept by its configuration and the sources."""
    return kept_netlist(design.component, name=design.top, configuration=design.configuration)
