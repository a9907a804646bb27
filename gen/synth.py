# SPDX-License-Identifier: Apache-2.0
"""Cells per block of a design.

The hierarchy is kept: each distinct module is mapped once, and the table gives the cells of one
instance with everything below it, and the number of instances in the design. SRAM macros stay
macros: they are counted and sized, not mapped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from amaranth.lib import wiring

from gen.arguments import typed
from gen.mapping.blocks import Mapped, map_blocks, total
from gen.mapping.memory import SRAM_UM2_PER_BIT, blocks_of, fit_note, macros_in
from gen.mapping.netlist import DesignNetlist, netlist_of
from gen.mapping.targets import LIBERTY_OSU018, TARGETS, Target, check_target
from gen.mapping.whole import map_whole
from gen.rtlil import MacroPlatform
from gen.sv.writer import write_design
from gen.table import Cell, Column, Table
from gen.yosys import yosys_version

__all__ = [
    "LIBERTY_OSU018", "TARGETS", "Target", "cells_of", "flow_note", "largest_blocks", "report",
    "synthesize",
]

_TITLES = {"gates": "2-input gates"}


@typed("component", above={"timeout": 0})
def synthesize(
    component: wiring.Component,
    *,
    name: str,
    target: str = "generic",
    source: str = "netlist",
    flat: bool = False,
    timeout: float | None = None,
) -> Table:
    """Map `component` to `target` and count its cells, block by block; the whole design first.

    Columns are ``block``, ``instances``, those of the target in lower case (``lut``, ``ff``, and
    ``kge`` where cells have an area), ``sram_macros``, ``sram_bits``, and ``sram_blocks`` (as block
    RAM of the target's device) or ``sram_mm2`` (area at 28 nm, converted). The note states how the
    figures were made, their limits, and whether the design fits the device.

    Parameters
    ----------
    component:
        Component to synthesise; SRAM is left as macros.
    name:
        Name of the top module.
    target:
        A key of `gen.synth.TARGETS`; `osu018` needs Debian's package qflow-tech-osu018.
    source:
        Input of Yosys: Amaranth's ``"netlist"``, or the emitted ``"sv"``, whose blocks are the
        classes of the components. Flattened, both have the same number of cells.
    flat:
        Flatten the hierarchy first: one row, without logic that no other block needs.
    timeout:
        Seconds after which to give up. Blocks that were finished are kept.
    """
    if not name.isidentifier():
        raise ValueError(f"name must be a Verilog identifier, not {name!r}")
    if source not in ("netlist", "sv"):
        raise ValueError(f"source must be one of netlist, sv, not {source!r}")
    flow = check_target(target)
    if source == "sv":
        platform = MacroPlatform()
        written = write_design(component, name=name, platform=platform)
        instances = written.instances
        blocks = map_whole(
            ("design.sv", written.text), platform.sram_macros, flow, name=name,
            instances=instances, flat=flat, timeout=timeout,
        )
        return report(name, target, flow, blocks, instances)
    netlist = netlist_of(component, name=name)
    if flat:
        blocks = map_whole(
            ("design.il", netlist.text), netlist.macros, flow, name=name,
            instances=netlist.instances, flat=True, timeout=timeout,
        )
        return report(name, target, flow, blocks, netlist.instances)
    return cells_of(netlist, target=target, timeout=timeout)


def cells_of(netlist: DesignNetlist, *, target: str, timeout: float | None = None) -> Table:
    """The table of `synthesize` of a netlist, which may be a kept one."""
    flow = check_target(target)
    blocks = map_blocks(netlist.blocks, flow, timeout=timeout)
    return report(netlist.top, target, flow, blocks, netlist.instances)


def report(
    top: str, target: str, flow: Target, blocks: Mapping[str, Mapped], instances: dict[str, int]
) -> Table:
    """The table of `synthesize` out of the cells of each block."""
    area = flow.area_unit_um2
    columns = [Column("block"), Column("instances")]
    columns += [Column("kge", "kGE", "thousand NAND2")] if area else []
    columns += [Column(name.lower(), _TITLES.get(name, name)) for name in flow.columns]
    columns += [Column("sram_macros", "SRAM macros"), Column("sram_bits", "SRAM", "bits")]
    device = flow.device
    if device:
        columns.append(Column("sram_blocks", f"SRAM as {device.memory.name}"))
    else:
        columns.append(Column("sram_mm2", "SRAM at 28 nm", "mm2", digits=3))
    commands = "; ".join(flow.commands)
    if flow.liberty:
        commands = commands.replace(str(flow.liberty), flow.liberty.name)
    note = (
        f"Yosys {yosys_version()} (pyosys), target {target}. Commands: {commands}. These figures "
        f"are {flow.caveat}. Each row is one instance of the block with everything below it, "
        "hierarchy kept."
    )
    known: dict[str, Mapped] = {}
    whole = total(top, blocks, known).cells
    if device:
        note += " " + fit_note(device, flow.count(whole), macros_in(whole))
    else:
        note += (
            f" SRAM at 28 nm is a conversion by bits, {SRAM_UM2_PER_BIT:.3f} um2 each: OpenROAD's "
            "45 nm test data, shrunk."
        )
    table = Table("Cells per block", columns, note=note)
    for block in sorted(instances, key=lambda block: (block != top, block)):
        if block not in blocks:
            continue
        below = total(block, blocks, known)
        macros = macros_in(below.cells)
        bits = sum(macro.bits * count for macro, count in macros)
        table.add(
            block,
            instances[block],
            *([below.area / area / 1e3] if area else []),
            *flow.count(below.cells).values(),
            sum(count for _, count in macros),
            bits,
            sum(blocks_of(macro, device.memory) * count for macro, count in macros) if device
            else bits * SRAM_UM2_PER_BIT / 1e6,
        )
    return table


def flow_note(table: Table) -> str:
    """The note of a table of :func:`synthesize`, without the shares of a device."""
    return table.note.partition(" Device ")[0]


def largest_blocks(table: Table, count: int) -> Table:
    """Reduce a table of :func:`synthesize` to the whole design and its *count* largest blocks.

    Blocks are ranked by the first figure after the instances.
    """

    def figure(row: Sequence[Cell]) -> float:
        return float(row[2] or 0)

    whole, *blocks = table.rows
    if len(blocks) <= count:
        return table
    chosen = sorted(blocks, key=figure, reverse=True)[:count]
    return replace(
        table,
        rows=[whole, *(row for row in blocks if row in chosen)],
        note=f"The {count} largest of {len(blocks)} blocks. {table.note}",
    )
