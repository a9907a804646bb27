"""What is made of a design: Verilog, manifest, register map, a table of cells."""

from pathlib import Path

from foldwire.catalog import Design
from gen.synth import synthesize
from gen.verilog import emit_files
from sim.results.cells import cells_table
from sim.results.table import Table

__all__ = ["synthesis_table", "write_verilog"]


def write_verilog(design: Design, folder: Path) -> list[Path]:
    """Write ``top.v``, its manifest, and for an engine its register map as text and as JSON."""
    written = emit_files(design.component, folder, name=design.top, header=design.parameters)
    if design.registers is not None:
        document = folder / f"{design.top}-registers.md"
        document.write_text(design.registers.markdown(), encoding="utf-8")
        machine = document.with_suffix(".json")
        machine.write_text(design.registers.to_json(), encoding="utf-8")
        written += [document, machine]
    return written


def synthesis_table(design: Design, target: str) -> Table:
    """Cells of *design* mapped to *target*, block by block."""
    return cells_table(synthesize(design.component, name=design.top, target=target))
