"""What is made of a design: Verilog, manifest, register map, a table of cells."""

from pathlib import Path

from foldwire.catalog import Design
from gen.synth import synthesize
from gen.table import Table
from gen.verilog import WAIVERS, WAIVERS_SV, emit_files

__all__ = ["synthesis_table", "write_verilog"]


def write_verilog(
    design: Design,
    folder: Path,
    *,
    style: str = "sv",
    reset: str = "high",
    command: str | None = None,
) -> list[Path]:
    """Write the Verilog, its manifest, and for an engine its register map as text and as JSON.

    Beside the Verilog stands what Verilator's lint needs to be told of it (``top.vlt``). `style`,
    `reset` and `command` are those of `gen.verilog.emit`.
    """
    written = emit_files(
        design.component, folder, name=design.top, header=design.parameters, style=style,
        reset=reset, command=command,
    )
    waivers = folder / f"{design.top}.vlt"
    reasons = WAIVERS if style == "plain" else WAIVERS_SV
    waivers.write_text(reasons.read_text(encoding="utf-8"), encoding="utf-8")
    written.append(waivers)
    if design.registers is not None:
        document = folder / f"{design.top}-registers.md"
        document.write_text(design.registers.markdown(), encoding="utf-8")
        machine = document.with_suffix(".json")
        machine.write_text(design.registers.to_json(), encoding="utf-8")
        written += [document, machine]
    return written


def synthesis_table(design: Design, target: str) -> Table:
    """Cells of *design* mapped to *target*, block by block."""
    return synthesize(design.component, name=design.top, target=target)
