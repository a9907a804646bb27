# SPDX-License-Identifier: Apache-2.0
"""Technologies that designs are mapped to: Yosys commands, columns, and what a device holds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

__all__ = [
    "LIBERTY_OSU018", "TARGETS", "UNUSED_IF_WRITTEN", "Device", "MemoryKind", "Target",
    "check_target",
]

LIBERTY_OSU018 = Path("/usr/share/qflow/tech/osu018/osu018_stdcells.lib")
"""Where Debian's package qflow-tech-osu018 puts the Liberty file of the OSU 0.18 um cells."""

_NAND2_OSU018_UM2 = 24.0


@dataclass(frozen=True)
class MemoryKind:
    """A kind of block RAM.

    Members
    -------
    shapes:
        Bits of a row and rows, of each shape that a block may have with one port to read and one
        to write.
    byte:
        Bits that are written together, at least, in rows of several.
    column:
        The column of `Target.columns` that counts it; empty if Yosys maps nothing to it.
    holds:
        Blocks in the device; 0 if `Device.holds` says so.
    """

    name: str
    shapes: tuple[tuple[int, int], ...]
    byte: int
    column: str = ""
    holds: int = 0


@dataclass(frozen=True)
class Device:
    """A device that figures of an FPGA target are set against.

    Members
    -------
    holds:
        Name of a column -> number of such cells in the device.
    memory, other_memory:
        Its block RAM, and a larger one if it has any.
    shared:
        Name of a column of `holds` -> other columns whose cells take such places too, and how many.
    """

    name: str
    holds: Mapping[str, int]
    memory: MemoryKind
    other_memory: MemoryKind | None = None
    shared: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


UNUSED_IF_WRITTEN = "setparam -set COLLISION_X_MASK 1'1 t:$memrd_v2 r:CLK_ENABLE=1 %i"
"""Says that no word is used that is read while it is written. The attribute `no_rw_check`, which
all such memories have, tells Yosys of memories that it finds, not of those that it is given. Block
RAM of this family does not return the old word: registers and a comparison would stand in."""

_BRAM36 = MemoryKind(
    "BRAM36",
    ((72, 512), (36, 1024), (18, 2048), (9, 4096), (4, 8192), (2, 16384), (1, 32768)),
    9, "BRAM",
)
_DP16KD = MemoryKind(
    "DP16KD", ((36, 512), (18, 1024), (9, 2048), (4, 4096), (2, 8192), (1, 16384)), 9, "BRAM"
)
_M10K = MemoryKind(
    "M10K", ((40, 256), (20, 512), (10, 1024), (5, 2048), (2, 4096), (1, 8192)), 10, "M10K"
)


@dataclass(frozen=True)
class Target:
    """One flow: Yosys commands, and the columns that count its cells.

    Members
    -------
    commands:
        The mapping commands, as printed in the report.
    columns:
        Name of a column -> regular expression that matches the types of cells it counts.
    caveat:
        Limits of the figures, for the note of the table.
    device:
        The device that memory and logic are set against; None for standard cells.
    liberty:
        File of its standard cells.
    levels:
        Levels of logic of its cells are known: mapped netlists are kept.
    """

    commands: tuple[str, ...]
    columns: dict[str, str]
    caveat: str
    area_unit_um2: float | None = None
    device: Device | None = None
    liberty: Path | None = None
    levels: bool = False

    @property
    def statistics(self) -> str:
        """The command that counts cells."""
        return "stat -json" + (f" -liberty {self.liberty}" if self.liberty else "")

    def count(self, cells: Mapping[str, int]) -> dict[str, int]:
        """Cells by column out of those by type."""
        return {
            column: sum(count for kind, count in cells.items() if re.fullmatch(pattern, kind))
            for column, pattern in self.columns.items()
        }


def _osu018(liberty: Path) -> Target:
    return Target(
        ("synth", f"dfflibmap -liberty {liberty}", f"abc -liberty {liberty}", "opt_clean"),
        {"FF": r"DFF(POS|NEG|SR)X\d"},
        "cell area over that of a NAND2 (24 um2); no wires, no clock tree, no placement",
        area_unit_um2=_NAND2_OSU018_UM2,
        liberty=liberty,
    )


_VENDOR = "mapped by Yosys and neither placed nor routed; vendor tools pack and count differently"


def _xilinx(family: str, cells: Mapping[str, str], device: Device) -> Target:
    columns = {"LUT": r"LUT[1-6]", "FF": r"FD[RSCP]E(_1)?", "SRL": r"SRL.*"} | dict(cells)
    columns |= {"LUTRAM": r"RAM\d+[XMD].*", "BRAM": r"RAMB(18|36).*"}
    shown = ("LUT", "MUXF", "CARRY", "FF", "LUTRAM", "SRL", "BRAM", "DSP")
    command = f"synth_xilinx -family {family} -noiopad -noclkbuf"
    return Target((command,), {name: columns[name] for name in shown}, _VENDOR, device=device)


TARGETS: dict[str, Target] = {
    "xcup": _xilinx(
        "xcup",
        {"MUXF": r"MUXF[789]", "CARRY": r"CARRY[48]", "DSP": r"DSP48E2"},
        # DS890, table of Virtex UltraScale+; a LUT is one of 6 inputs.
        Device(
            "VU9P", {"LUT": 1_182_240, "FF": 2_364_480, "BRAM": 2160, "DSP": 6840},
            _BRAM36, MemoryKind("URAM", ((72, 4096),), 9, holds=960),
        ),
    ),
    "xc7": _xilinx(
        "xc7",
        {"MUXF": r"MUXF[78]", "CARRY": r"CARRY4", "DSP": r"DSP48E1"},
        # DS180, table of Virtex-7.
        Device("XC7VX690T", {"LUT": 433_200, "FF": 866_400, "BRAM": 1470, "DSP": 3600}, _BRAM36),
    ),
    "ecp5": Target(
        (UNUSED_IF_WRITTEN, "synth_ecp5 -noiopad"),
        {
            "LUT4": r"LUT4", "PFUMX": r"PFUMX|L6MUX21", "CCU2C": r"CCU2C", "FF": r"TRELLIS_FF",
            "LUTRAM": r"TRELLIS_DPR16X4", "BRAM": r"DP16KD", "DSP": r"MULT18X18D",
        },
        "mapped by Yosys and neither placed nor routed",
        # FPGA-DS-02012, family table: LFE5UM-85.
        device=Device(
            "ECP5-85K", {"LUT4": 83_640, "FF": 83_640, "BRAM": 208, "DSP": 156}, _DP16KD,
            # A carry cell is two LUTs in another mode, a LUT RAM four.
            shared={"LUT4": {"CCU2C": 2, "LUTRAM": 4}},
        ),
        levels=True,
    ),
    "alm": Target(
        ("synth_intel_alm -family cyclonev -noiopad",),
        {
            "ALUT": r"MISTRAL_(ALUT(_ARITH|[2-6])|NOT|BUF)", "FF": r"MISTRAL_FF",
            "MLAB": r"MISTRAL_MLAB", "M10K": r"MISTRAL_M10K",
            "DSP": r"MISTRAL_MUL(9X9|18X18|27X27)",
        },
        "mapped by Yosys for Cyclone V, whose ALM is that of Arria 10, and neither placed nor "
        "routed; an ALM holds one ALUT or two small ones",
        # Cyclone V overview, 5CGXC9: 113 560 ALMs of two ALUTs and four registers.
        device=Device(
            "5CGXC9", {"ALUT": 227_120, "FF": 454_240, "M10K": 1220, "DSP": 684}, _M10K
        ),
    ),
    "generic": Target(
        ("synth", "abc -g cmos2", "opt_clean"),
        {
            "gates": r"\$_(NOT|NAND|NOR|AND|OR|XOR|XNOR|MUX)_",
            "FF": r"\$_S?DFF.*",
        },
        "two-input gates before technology mapping: a measure to compare with, not an area",
    ),
    "osu018": _osu018(LIBERTY_OSU018),
}


def check_target(target: str) -> Target:
    """The flow of that name, once its Liberty file is there and has what mapping needs."""
    if target not in TARGETS:
        raise ValueError(f"target must be one of {', '.join(TARGETS)}, not {target!r}")
    flow = TARGETS[target]
    if flow.liberty is not None:
        _check_liberty(target, flow.liberty)
    return flow


def _check_liberty(target: str, liberty: Path) -> None:
    try:
        text = liberty.read_text(encoding="utf-8", errors="replace")
    except OSError:
        raise ValueError(
            f"target {target} needs the Debian package qflow-tech-osu018 (apt-get install)"
        ) from None
    missing = [
        what
        for what, pattern in (
            ("a flip-flop", r"\bff\s*\("),
            ("an inverter", r"function\s*:\s*\"[\s(]*(!\s*\w+|\w+\s*')[\s)]*\""),
            ("areas of cells", r"\barea\s*:"),
        )
        if not re.search(pattern, text)
    ]
    if missing:
        raise ValueError(
            f"target {target}: the Liberty file {liberty.name} lacks {', '.join(missing)}; "
            "take a complete library of standard cells"
        )
