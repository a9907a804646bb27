"""Synthesis figures per block, through Yosys.

The hierarchy is kept: each distinct module is mapped once, and the table gives the cells of one
instance with everything below it, and the number of instances in the design. SRAM macros stay
macros: they are counted and sized, not mapped.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from amaranth.lib import wiring

from gen.arguments import typed
from gen.cache import kept
from gen.merge import merge_modules
from gen.rtlil import MacroPlatform, to_rtlil
from gen.sv.writer import write_design
from gen.table import Cell, Column, Table
from gen.tidy import readable_names
from gen.yosys import Step, run_yosys, yosys_version

__all__ = ["TARGETS", "Target", "largest_blocks", "synthesize"]

LIBERTY_OSU018 = Path("/usr/share/qflow/tech/osu018/osu018_stdcells.lib")
"""Where Debian's package qflow-tech-osu018 puts the Liberty file of the OSU 0.18 um cells."""

_NAND2_OSU018_UM2 = 24.0


@dataclass(frozen=True)
class Target:
    """One flow: Yosys commands after `proc`, and the columns that count its cells.

    Members
    -------
    commands:
        The mapping commands, as printed in the report.
    columns:
        Name of a column -> regular expression that matches the types of cells it counts.
    caveat:
        Limits of the figures, for the note of the table.
    """

    commands: tuple[str, ...]
    columns: dict[str, str]
    caveat: str
    area_unit_um2: float | None = None


TARGETS: dict[str, Target] = {
    "xcup": Target(
        ("synth_xilinx -family xcup -noiopad -noclkbuf",),
        {
            "LUT": r"LUT[1-6]",
            "MUXF": r"MUXF[789]",
            "CARRY": r"CARRY[48]",
            "FF": r"FD[RSCP]E(_1)?",
            "LUTRAM": r"RAM\d+[XMD].*",
            "SRL": r"SRL.*",
            "BRAM": r"RAMB(18|36).*",
            "DSP": r"DSP48E2",
        },
        "mapped by Yosys and neither placed nor routed; vendor tools pack and count differently",
    ),
    "ecp5": Target(
        ("synth_ecp5 -noiopad",),
        {
            "LUT4": r"LUT4",
            "PFUMX": r"PFUMX|L6MUX21",
            "CCU2C": r"CCU2C",
            "FF": r"TRELLIS_FF",
            "LUTRAM": r"TRELLIS_DPR16X4",
            "BRAM": r"DP16KD",
            "DSP": r"MULT18X18D",
        },
        "mapped by Yosys and neither placed nor routed",
    ),
    "alm": Target(
        ("synth_intel_alm -family cyclonev -noiopad",),
        {
            "ALUT": r"MISTRAL_(ALUT(_ARITH|[2-6])|NOT|BUF)",
            "FF": r"MISTRAL_FF",
            "MLAB": r"MISTRAL_MLAB",
            "M10K": r"MISTRAL_M10K",
            "DSP": r"MISTRAL_MUL(9X9|18X18|27X27)",
        },
        "mapped by Yosys for Cyclone V, whose ALM is that of Arria 10, and neither placed nor "
        "routed; an ALM holds one ALUT or two small ones",
    ),
    "generic": Target(
        ("synth", "abc -g cmos2", "opt_clean"),
        {
            "gates": r"\$_(NOT|NAND|NOR|AND|OR|XOR|XNOR|MUX)_",
            "FF": r"\$_S?DFF.*",
        },
        "two-input gates before technology mapping: a measure to compare with, not an area",
    ),
    "osu018": Target(
        (
            "synth",
            f"dfflibmap -liberty {LIBERTY_OSU018}",
            f"abc -liberty {LIBERTY_OSU018}",
            "opt_clean",
        ),
        {"FF": r"DFF(POS|NEG|SR)X\d"},
        "cell area over that of a NAND2 (24 um2); no wires, no clock tree, no placement",
        area_unit_um2=_NAND2_OSU018_UM2,
    ),
}


_TITLES = {"gates": "2-input gates"}
_MACRO = re.compile(r"^sram_(?:1rw|1r1w)_(\d+)x(\d+)")


@dataclass
class _Block:
    """Cells by type, of the block alone; the area, as Yosys states it, has everything below."""

    cells: dict[str, int]
    area: float


def _total(name: str, blocks: dict[str, _Block], known: dict[str, _Block]) -> _Block:
    if name not in known:
        own = blocks[name]
        total = _Block({}, own.area)
        for kind, count in own.cells.items():
            if kind in blocks:
                below = _total(kind, blocks, known)
                for inner, number in below.cells.items():
                    total.cells[inner] = total.cells.get(inner, 0) + count * number
            else:
                total.cells[kind] = total.cells.get(kind, 0) + count
        known[name] = total
    return known[name]


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
    ``kge`` where cells have an area), ``sram_macros`` and ``sram_bits``. The note states how the
    figures were made, and their limits.

    Parameters
    ----------
    component:
        Component to synthesise; SRAM is left as macros.
    name:
        Name of the top module.
    target:
        A key of `TARGETS`; `osu018` needs Debian's package qflow-tech-osu018.
    source:
        Input of Yosys: Amaranth's ``"netlist"``, or the emitted ``"sv"``, whose blocks are the
        classes of the components. Flattened, both have the same number of cells.
    flat:
        Flatten the hierarchy first: one row, without logic that no other block needs.
    timeout:
        Seconds after which to give up.
    """
    if not name.isidentifier():
        raise ValueError(f"name must be a Verilog identifier, not {name!r}")
    if source not in ("netlist", "sv"):
        raise ValueError(f"source must be one of netlist, sv, not {source!r}")
    if target not in TARGETS:
        raise ValueError(f"target must be one of {', '.join(TARGETS)}, not {target!r}")
    if target == "osu018" and not LIBERTY_OSU018.exists():
        raise ValueError(
            "target osu018 needs the Debian package qflow-tech-osu018 (apt-get install)"
        )
    flow = TARGETS[target]
    platform = MacroPlatform()
    if source == "sv":
        written = write_design(component, name=name, platform=platform)
        text, instances, read = written.text, written.instances, "read_verilog -sv design.sv"
    else:
        rtlil = to_rtlil(component, name=name, platform=platform, undriven=False)
        merged = merge_modules(rtlil, top=name)
        text, instances = readable_names(merged.text), merged.instances
        read = "read_rtlil design.il"
    stat = "stat -json" + (f" -liberty {LIBERTY_OSU018}" if flow.area_unit_um2 else "")
    macros = "".join(_black_box(body) for _, body in sorted(platform.sram_macros.items()))
    files = {read.split()[-1]: text, "macros.v": macros}
    steps: list[Step] = [
        "read_verilog -lib macros.v",
        read,
        f"hierarchy -check -top {name}",
        *(["proc", "flatten"] if flat else ["setattr -mod -set keep_hierarchy 1"]),
        *flow.commands,
        f"tee -o stat.json {stat}",
    ]
    told = _statistics(files, steps, timeout=timeout)
    statistics = json.loads(told[told.index("{") :])
    blocks = {
        module.lstrip("\\"): _Block(
            {
                kind.lstrip("\\"): int(count if isinstance(count, int) else count["count"])
                for kind, count in entry["num_cells_by_type"].items()
            },
            float(entry.get("area", 0.0)),
        )
        for module, entry in statistics["modules"].items()
        if module.lstrip("\\") in instances
    }
    return _report(name, target, flow, blocks, instances)


def _statistics(files: Mapping[str, str], steps: Sequence[Step], *, timeout: float | None) -> str:
    """The stat.json that the command `stat` writes; cached, since mapping takes minutes."""
    key = hashlib.sha256(repr((sorted(files.items()), steps, yosys_version())).encode())

    def make(target: Path) -> None:
        for file, text in files.items():
            (target.parent / file).write_text(text)
        run_yosys(steps, cwd=target.parent, timeout=timeout)
        (target.parent / "stat.json").replace(target)

    name = f"synth-{key.hexdigest()[:24]}.json"
    return kept(name, make, doing="mapping to cells (seconds to tens of minutes)").read_text()


def _black_box(body: str) -> str:
    """The module header of a macro, without its contents."""
    header, _, _ = body.partition(");")
    return header + ");\nendmodule\n"


def _report(
    top: str, target: str, flow: Target, blocks: dict[str, _Block], instances: dict[str, int]
) -> Table:
    area = flow.area_unit_um2
    columns = [Column("block"), Column("instances")]
    columns += [Column("kge", "kGE", "thousand NAND2")] if area else []
    columns += [Column(name.lower(), _TITLES.get(name, name)) for name in flow.columns]
    columns += [Column("sram_macros", "SRAM macros"), Column("sram_bits", "SRAM", "bits")]
    commands = "; ".join(flow.commands).replace(str(LIBERTY_OSU018), "osu018_stdcells.lib")
    table = Table(
        "Cells per block",
        columns,
        note=f"Yosys {yosys_version()} (pyosys), target {target}. Commands: {commands}. These "
        f"figures are {flow.caveat}. Each row is one instance of the block with everything below "
        "it, hierarchy kept.",
    )
    known: dict[str, _Block] = {}
    for block in sorted(instances, key=lambda block: (block != top, block)):
        if block not in blocks:
            continue
        total = _total(block, blocks, known)
        sizes = [(_MACRO.match(kind), count) for kind, count in total.cells.items()]
        table.add(
            block,
            instances[block],
            *([total.area / area / 1e3] if area else []),
            *(_count(total.cells, pattern) for pattern in flow.columns.values()),
            sum(count for macro, count in sizes if macro),
            sum(int(m[1]) * int(m[2]) * count for m, count in sizes if m),
        )
    return table


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


def _count(cells: dict[str, int], pattern: str) -> int:
    return sum(count for kind, count in cells.items() if re.fullmatch(pattern, kind))
