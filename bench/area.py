# SPDX-License-Identifier: Apache-2.0
"""Area: cells of all presets of all engines on UltraScale+, and the time that synthesis takes.

Blocks and netlists are kept by content with the CPU seconds that each took, so that the time of a
cold run is known whenever parts of it were run; what was interrupted goes on where it was.
"""

import argparse
import time
from collections.abc import Sequence

from bench.result import result
from foldwire.catalog import build, engine_presets
from foldwire.console import print_table, step
from foldwire.emission import netlist_of
from gen.mapping.blocks import map_blocks
from gen.mapping.targets import TARGETS
from gen.synth import flow_note, report
from gen.table import Cell, Column, Table
from gen.yosys import YosysError

__all__ = ["PRESETS", "main"]

TARGET = "xcup"
COLD_CPU_S, KEPT_S = 900.0, 10.0
PUBLISHED = ("ace", "isca21")
LARGE_SWITCH, LUT_BAR, LUT_GOAL = ("switch", "16-port"), 175_000, 165_000
PRESETS = engine_presets()


def main(argv: Sequence[str]) -> int:
    """Synthesise, print the table and the result line."""
    parser = argparse.ArgumentParser(prog="python -m bench area", description=__doc__)
    parser.add_argument(
        "--only", nargs="*", metavar="DESIGN/PRESET", help="some of the presets (default: all)"
    )
    options = parser.parse_args(argv)
    chosen = [each for each in PRESETS if not options.only or "/".join(each) in options.only]
    table: Table | None = None
    cold: dict[tuple[str, str], float] = {}
    kept: dict[tuple[str, str], float] = {}
    luts: dict[tuple[str, str], int] = {}
    for each in chosen:
        with step(f"synthesizing {'/'.join(each)}"):
            try:
                row, cold[each], kept[each] = _measured(*each)
            except YosysError as error:
                print(error)
                continue
        if table is None:
            columns = [Column("design"), Column("preset"), *row.columns[2:]]
            columns += [Column("cold_s", "cold", "s", 0), Column("kept_s", "kept", "s", 1)]
            table = Table("Cells of all presets", columns, note=flow_note(row))
        cells: list[Cell] = list(row.rows[0][2:])
        table.add(*each, *cells, cold[each], kept[each])
        luts[each] = int(row.value(row.rows[0][0], "lut"))
    if table is not None:
        print_table(table)
    good = len(cold) == len(PRESETS)
    good = good and cold[PUBLISHED] <= COLD_CPU_S and kept[PUBLISHED] <= KEPT_S
    good = good and luts[LARGE_SWITCH] <= LUT_BAR
    print(f"bars: {'/'.join(PUBLISHED)} cold {COLD_CPU_S:g} CPU s, kept {KEPT_S:g} s; "
          f"{'/'.join(LARGE_SWITCH)} {LUT_BAR} LUT, goal {LUT_GOAL}")
    result(
        "area",
        verdict="ok" if good else "short",
        presets=len(cold),
        cold_cpu_s=_or_missing(cold.get(PUBLISHED)),
        kept_s=_or_missing(kept.get(PUBLISHED)),
        switch16_lut=_or_missing(luts.get(LARGE_SWITCH)),
    )
    return 0


def _or_missing(value: float | None) -> object:
    return "none" if value is None else round(value, 1)


def _measured(name: str, preset: str) -> tuple[Table, float, float]:
    """Cells; CPU seconds of all that they are made of; those of a run that finds all of it."""
    flow = TARGETS[TARGET]
    for _ in range(2):  # the second time all is kept
        started = time.process_time()
        design = build(name, preset, {})
        netlist = netlist_of(design)
        mapped = map_blocks(netlist.blocks, flow)
        table = report(design.top, TARGET, flow, mapped, netlist.instances)
        kept_s = time.process_time() - started
    taken = {block.digest: mapped[block.name].cpu_s for block in netlist.blocks}
    return table, netlist.cpu_s + sum(taken.values()), kept_s
