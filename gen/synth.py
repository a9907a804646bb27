"""Synthesis figures per block, through Yosys.

The hierarchy is kept: each distinct module is mapped once, and the table gives its own cells
(*local*), the cells of one instance with everything below it, and how many instances the design
has. SRAM macros stay macros: they are counted and sized, not mapped.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from amaranth.lib import wiring

from gen.cache import kept
from gen.merge import merge_modules
from gen.rtlil import MacroPlatform, to_rtlil
from gen.tidy import readable_names
from gen.yosys import Step, run_yosys, yosys_version

__all__ = ["TARGETS", "Column", "Report", "Target", "synthesize"]

LIBERTY_OSU018 = Path("/usr/share/qflow/tech/osu018/osu018_stdcells.lib")
"""Where Debian's package qflow-tech-osu018 puts the Liberty file of the OSU 0.18 um cells."""

_NAND2_OSU018_UM2 = 24.0


@dataclass(frozen=True)
class Target:
    """One flow: Yosys commands after `proc`, and what its cells are counted as.

    Members
    -------
    commands:
        The mapping commands, as printed in the report.
    columns:
        Title and unit of a column -> regular expression over cell types that it counts.
    caveat:
        What the figures are not.
    """

    commands: tuple[str, ...]
    columns: dict[tuple[str, str], str]
    caveat: str
    area_unit_um2: float | None = None


TARGETS: dict[str, Target] = {
    "xcup": Target(
        ("synth_xilinx -family xcup -noiopad -noclkbuf",),
        {
            ("LUT", "cells"): r"LUT[1-6]",
            ("MUXF", "cells"): r"MUXF[789]",
            ("CARRY", "cells"): r"CARRY[48]",
            ("FF", "cells"): r"FD[RSCP]E(_1)?",
            ("LUTRAM", "cells"): r"RAM\d+[XMD].*",
            ("SRL", "cells"): r"SRL.*",
            ("BRAM", "cells"): r"RAMB(18|36).*",
            ("DSP", "cells"): r"DSP48E2",
        },
        "mapped by Yosys and neither placed nor routed; vendor tools pack and count differently",
    ),
    "ecp5": Target(
        ("synth_ecp5 -noiopad",),
        {
            ("LUT4", "cells"): r"LUT4",
            ("PFUMX", "cells"): r"PFUMX|L6MUX21",
            ("CCU2C", "cells"): r"CCU2C",
            ("FF", "cells"): r"TRELLIS_FF",
            ("LUTRAM", "cells"): r"TRELLIS_DPR16X4",
            ("BRAM", "cells"): r"DP16KD",
            ("DSP", "cells"): r"MULT18X18D",
        },
        "mapped by Yosys and neither placed nor routed",
    ),
    "alm": Target(
        ("synth_intel_alm -family cyclonev -noiopad",),
        {
            ("ALUT", "cells"): r"MISTRAL_(ALUT(_ARITH|[2-6])|NOT|BUF)",
            ("FF", "cells"): r"MISTRAL_FF",
            ("MLAB", "cells"): r"MISTRAL_MLAB",
            ("M10K", "cells"): r"MISTRAL_M10K",
            ("DSP", "cells"): r"MISTRAL_MUL(9X9|18X18|27X27)",
        },
        "mapped by Yosys for Cyclone V, whose ALM is that of Arria 10, and neither placed nor "
        "routed; an ALM holds one ALUT or two small ones",
    ),
    "generic": Target(
        ("synth", "abc -g cmos2", "opt_clean"),
        {
            ("gates", "2-input gates"): r"\$_(NOT|NAND|NOR|AND|OR|XOR|XNOR|MUX)_",
            ("FF", "cells"): r"\$_S?DFF.*",
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
        {("FF", "cells"): r"DFF(POS|NEG|SR)X\d"},
        "cell area over that of a NAND2 (24 um2); no wires, no clock tree, no placement",
        area_unit_um2=_NAND2_OSU018_UM2,
    ),
}


@dataclass(frozen=True)
class Column:
    """A column of a report: `title` and `unit`."""

    title: str
    unit: str


@dataclass(frozen=True)
class Report:
    """A table with units, and what stands above it.

    Members
    -------
    preamble:
        Tool, version, command, and what the figures are not; one line each.
    columns, rows:
        The table; a row has one value per column. The first row is the whole design.
    """

    preamble: tuple[str, ...]
    columns: tuple[Column, ...]
    rows: tuple[tuple[str | int | float, ...], ...]

    def to_markdown(self) -> str:
        """The preamble as a list, then the table."""
        titles = [f"{column.title} ({column.unit})" if column.unit else column.title
                  for column in self.columns]  # fmt: skip
        lines = [f"- {line}" for line in self.preamble]
        lines += ["", "| " + " | ".join(titles) + " |"]
        lines.append("|" + "|".join([" --- "] + [" ---: "] * (len(titles) - 1)) + "|")
        lines += ["| " + " | ".join(_text(value) for value in row) + " |" for row in self.rows]
        return "\n".join(lines) + "\n"

    def to_csv(self) -> str:
        """The table with a title line; the preamble as comments."""
        buffer = io.StringIO()
        buffer.writelines(f"# {line}\n" for line in self.preamble)
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerow([f"{c.title} [{c.unit}]" if c.unit else c.title for c in self.columns])
        writer.writerows(self.rows)
        return buffer.getvalue()

    def to_json(self) -> str:
        """Everything, as one object."""
        return json.dumps(
            {
                "preamble": self.preamble,
                "columns": [{"title": c.title, "unit": c.unit} for c in self.columns],
                "rows": self.rows,
            },
            indent=2,
        ) + "\n"  # fmt: skip

    def value(self, block: str, title: str) -> str | int | float:
        """The value in the row of `block` and the column called `title`."""
        (index,) = (n for n, column in enumerate(self.columns) if column.title == title)
        (row,) = (row for row in self.rows if row[0] == block)
        return row[index]


def _text(value: str | float) -> str:
    return f"{value:,.2f}" if isinstance(value, float) else str(value)


_MACRO = re.compile(r"^sram_(?:1rw|1r1w)_(\d+)x(\d+)")


@dataclass
class _Block:
    """Cells by type, those of the block alone; Yosys states the area with everything below."""

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


def synthesize(
    component: wiring.Component, *, name: str, target: str = "generic", timeout: float | None = None
) -> Report:
    """Map `component` to `target` and report its cells, block by block.

    Parameters
    ----------
    component:
        What to synthesise; SRAM is left as macros.
    name:
        Name of the top module.
    target:
        A key of `TARGETS`; `osu018` needs Debian's package qflow-tech-osu018.
    timeout:
        Seconds after which to give up.
    """
    if target not in TARGETS:
        raise ValueError(f"target must be one of {', '.join(TARGETS)}, not {target!r}")
    if target == "osu018" and not LIBERTY_OSU018.exists():
        raise ValueError(
            "target osu018 needs the Debian package qflow-tech-osu018 (apt-get install)"
        )
    flow = TARGETS[target]
    platform = MacroPlatform()
    merged = merge_modules(to_rtlil(component, name=name, platform=platform), top=name)
    stat = "stat -json" + (f" -liberty {LIBERTY_OSU018}" if flow.area_unit_um2 else "")
    macros = "".join(_black_box(body) for _, body in sorted(platform.sram_macros.items()))
    files = {"design.il": readable_names(merged.text), "macros.v": macros}
    steps: list[Step] = [
        "read_rtlil design.il",
        "read_verilog -lib macros.v",
        f"hierarchy -check -top {name}",
        "setattr -mod -set keep_hierarchy 1",
        *flow.commands,
        f"tee -o stat.json {stat}",
    ]
    text = _statistics(files, steps, timeout=timeout)
    statistics = json.loads(text[text.index("{") :])
    blocks = {
        module.lstrip("\\"): _Block(
            {
                kind.lstrip("\\"): int(count if isinstance(count, int) else count["count"])
                for kind, count in entry["num_cells_by_type"].items()
            },
            float(entry.get("area", 0.0)),
        )
        for module, entry in statistics["modules"].items()
        if module.lstrip("\\") in merged.instances
    }
    return _report(name, target, flow, blocks, merged.instances)


def _statistics(files: Mapping[str, str], steps: Sequence[Step], *, timeout: float | None) -> str:
    """What `stat` writes into stat.json; kept, since mapping takes minutes."""
    key = hashlib.sha256(repr((sorted(files.items()), steps, yosys_version())).encode())

    def make(target: Path) -> None:
        for file, text in files.items():
            (target.parent / file).write_text(text)
        run_yosys(steps, cwd=target.parent, timeout=timeout)
        (target.parent / "stat.json").replace(target)

    name = f"synth-{key.hexdigest()[:24]}.json"
    return kept(name, make, doing="mapping to cells (seconds to minutes)").read_text()


def _black_box(body: str) -> str:
    """The module header of a macro, without its contents."""
    header, _, _ = body.partition(");")
    return header + ");\nendmodule\n"


def _report(
    top: str, target: str, flow: Target, blocks: dict[str, _Block], instances: dict[str, int]
) -> Report:
    area = flow.area_unit_um2
    columns = [Column("block", ""), Column("instances", "")]
    columns += [Column("kGE", "thousand NAND2")] if area else []
    columns += [Column(title, unit) for title, unit in flow.columns]
    columns += [Column("SRAM macros", "macros"), Column("SRAM", "bits")]
    rows: list[tuple[str | int | float, ...]] = []
    known: dict[str, _Block] = {}
    order = sorted(instances, key=lambda block: (block != top, block))
    for block in order:
        if block not in blocks:
            continue
        total = _total(block, blocks, known)
        row: list[str | int | float] = [block, instances[block]]
        row += [total.area / area / 1e3] if area else []
        row += [_count(total.cells, pattern) for pattern in flow.columns.values()]
        sizes = [(_MACRO.match(kind), count) for kind, count in total.cells.items()]
        row.append(sum(count for macro, count in sizes if macro))
        row.append(sum(int(m[1]) * int(m[2]) * count for m, count in sizes if m))
        rows.append(tuple(row))
    preamble = (
        f"Yosys {yosys_version()} (pyosys), target {target}",
        "commands: " + "; ".join(flow.commands).replace(str(LIBERTY_OSU018), "osu018_stdcells.lib"),
        f"these figures are {flow.caveat}",
        "each row is one instance of the block with everything below it, hierarchy kept",
    )
    return Report(preamble, tuple(columns), tuple(rows))


def _count(cells: dict[str, int], pattern: str) -> int:
    return sum(count for kind, count in cells.items() if re.fullmatch(pattern, kind))
