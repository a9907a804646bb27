# SPDX-License-Identifier: Apache-2.0
"""Published synthesis tables of ACE and of reductions in switches beside our RTL."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from experiments.figure import Assumption, Context, Figure, Lost, Row, derived, statement
from experiments.targets import Exactly, Near
from foldwire.catalog import build
from foldwire.emission import synthesis_table
from gen.mapping.memory import SRAM_UM2_PER_BIT
from gen.table import Column, Table

__all__ = ["GATE_UM2", "Part", "ace_improved", "ace_published", "divide", "in_switch"]

GATE_UM2 = 0.798 * (28 / 45) ** 2
"""A NAND2 at 28 nm: that of Nangate's 45 nm library, shrunk with the square of the length."""
CELL_UM2_PER_BIT = 0.127
"""A cell of six transistors at 28 nm (TSMC, 2009), with nothing around it."""
DIE_MM2 = 331
"""A 28 nm die of a deep-learning accelerator: the first TPU's upper bound (Jouppi, 2017)."""

ALU_UM2, CONTROL_UM2, SRAM_UM2, CROSSBAR_UM2, TOTAL_UM2 = 16112, 159803, 5113696, 1084, 5339031
ALU_MW, CONTROL_MW, SRAM_MW, CROSSBAR_MW, TOTAL_MW = 7.552, 128, 4096, 0.329, 4255
ALUS, SRAM_BYTES = 4, 4 << 20
FSM_BYTES = 16 * (8 << 10)
"""SRAM by which the paper approximates its 16 FSMs."""

SWITCH_SRAM_MM2, SWITCH_SRAM_BYTES, SWITCH_PORTS, SWITCH_DIE_MM2 = 0.05, 18 << 10, 18, 106
NODE_16_OF_28 = 0.5
"""Area at 16 nm of what takes 1 at 28 nm (TSMC states twice the density of gates)."""

_CONVERSION = (
    Assumption(
        "a gate has the area of Nangate's 45 nm NAND2 (0.798 um2), shrunk with the square of the "
        "length to 28 nm", "chosen", "no 28 nm library can be had",
    ),
    Assumption("numbers of gates are those of the OSU 0.18 um library, not a 28 nm one", "chosen"),
    Assumption(
        "a bit of SRAM has 0.528 um2 at 45 nm, as a macro of 512 x 64 of OpenROAD's test data",
        "chosen",
    ),
)
_NO_POWER = Lost(
    what="power of all components", reason="the open flow has neither activity nor a library at "
    "28 nm; the paper's own values are 1 mW for each KiB of SRAM",
)


@dataclass(frozen=True, kw_only=True)
class Part:
    """Thousand gates and bits of SRAM macros of a part of an engine."""

    kge: float = 0.0
    bits: int = 0

    def __add__(self, other: "Part") -> "Part":
        return Part(kge=self.kge + other.kge, bits=self.bits + other.bits)

    def __sub__(self, other: "Part") -> "Part":
        return Part(kge=self.kge - other.kge, bits=self.bits - other.bits)

    @property
    def logic_um2(self) -> float:
        """Area of the gates at 28 nm."""
        return 1e3 * self.kge * GATE_UM2

    @property
    def sram_um2(self) -> float:
        """Area of the macros at 28 nm."""
        return self.bits * SRAM_UM2_PER_BIT

    @property
    def um2(self) -> float:
        """Area at 28 nm."""
        return self.logic_um2 + self.sram_um2


_WHERE = {
    "ALUs": "alu",
    "SRAM banks, and their crossbar": "sram",
    "FSMs": "fsm",
    "dispatcher": "dispatcher",
    "registers and control": "control",
    "ports of links": "link_port",
    "ports of memory": "memory_port",
    "copy unit": "copy_unit",
}
"""Part of an engine -> name of its block, of which there may be several."""


def divide(report: Table, top: str) -> dict[str, Part]:
    """ACE by what the published table tells apart, and by what it leaves out. The parts add up to
    the whole; what is in none of the blocks of `_WHERE` joins them: arbiters and wires."""

    parts = {
        name: _total(report, rf"{top}_(data_path_)?{block}(_\d+)?")
        for name, block in _WHERE.items()
    }
    rest = _part(report, top) - sum(parts.values(), Part())
    return {**parts, "arbiters between them": rest}


def _total(report: Table, pattern: str) -> Part:
    """All instances of the blocks that have such a name."""
    blocks = [str(row[0]) for row in report.rows if re.fullmatch(pattern, str(row[0]))]
    return sum(
        (_part(report, each, instances=int(report.value(each, "instances"))) for each in blocks),
        Part(),
    )


def _part(report: Table, block: str, instances: int = 1) -> Part:
    return Part(
        kge=instances * float(report.value(block, "kge")),
        bits=instances * int(report.value(block, "sram_bits")),
    )


def _synthesised(design: str, preset: str) -> tuple[Table, str]:
    made = build(design, preset, {})
    return synthesis_table(made, "osu018"), made.top


def ace_published(context: Context) -> Figure:
    """ACE v1 Table 6 and ISCA Table IV beside the published organisation."""
    return _ace("isca21", "the published organisation")


def ace_improved(context: Context) -> Figure:
    """The same tables beside the engine that fills the links of the papers' torus."""
    return _ace("torus", "the engine that fills the links")


def _ace(preset: str, what: str) -> Figure:
    report, top = _synthesised("ace", preset)
    parts = divide(report, top)
    alus = int(report.value(f"{top}_alu", "instances"))
    banks = parts["SRAM banks, and their crossbar"]
    fsms = parts["FSMs"]
    counted = parts["ALUs"] + banks
    control = fsms + parts["dispatcher"] + parts["registers and control"]
    whole = sum(parts.values(), Part())
    per_bit = SRAM_UM2 / (8 * SRAM_BYTES)
    rows = [
        Row(
            setting="one ALU", ours=parts["ALUs"].um2 / alus, unit="um2",
            target=Near(ALU_UM2, relative=0.3),
            why=f"{parts['ALUs'].kge / alus:.1f} thousand gates: lanes of binary32 with subnormal "
            "numbers, rounded to nearest even; the paper's 1007 um2 a lane are "
            f"{ALU_UM2 / 16 / GATE_UM2 / 1e3:.1f} thousand.",
        ),
        Row(
            setting="SRAM banks", ours=banks.sram_um2, unit="um2",
            target=Near(SRAM_UM2, relative=0.3),
            why=f"{banks.bits} bits. The paper's {per_bit:.4f} um2 a bit are "
            f"{per_bit / CELL_UM2_PER_BIT:.2f} times the bare cell, with little room for decoders "
            "and sense amplifiers.",
        ),
        Row(
            setting="SRAM banks, bare cells", ours=banks.bits * CELL_UM2_PER_BIT, unit="um2",
        ),
        Row(
            setting="crossbar between ports and banks", ours=banks.logic_um2, unit="um2",
            target=Near(CROSSBAR_UM2, relative=0.3),
            why=f"Published are {CROSSBAR_UM2 / GATE_UM2 / 1e3:.1f} thousand gates; multiplexers "
            "of 512 bits from four banks to four readers alone are 14.3 thousand.",
        ),
        derived(
            "control unit: the paper's is the area of 16 x 8 KiB of its SRAM",
            8 * FSM_BYTES * per_bit, Near(CONTROL_UM2, relative=1e-3), unit="um2",
        ),
        derived(
            "control unit: the paper's power is 1 mW for each KiB of these, as its SRAM's",
            SRAM_MW / SRAM_BYTES * FSM_BYTES, Exactly(CONTROL_MW), unit="mW",
        ),
        Row(
            setting="control: FSMs with programs, dispatcher, registers", ours=control.um2,
            unit="um2", target=Near(CONTROL_UM2, relative=0.3),
            why=f"{control.kge:.0f} thousand gates and {control.bits} bits; FSMs are "
            f"{fsms.um2 / control.um2:.0%} of it.",
        ),
        derived(
            "total: the paper's adds up with four ALUs", ALUS * ALU_UM2 + CONTROL_UM2 + SRAM_UM2
            + CROSSBAR_UM2, Exactly(TOTAL_UM2), unit="um2",
        ),
        Row(
            setting="total of what the paper counts", ours=(counted + control).um2, unit="um2",
            target=Near(TOTAL_UM2, relative=0.3),
        ),
        *(
            Row(
                setting=f"not counted there: {name}", ours=parts[name].um2, unit="um2",
            )
            for name in _UNCOUNTED if parts[name] != Part()
        ),
        Row(setting="total of our engine", ours=whole.um2, unit="um2"),
        statement(
            f"less than 2 % of an accelerator's die ({DIE_MM2} mm2 at 28 nm)",
            below=[(whole.um2 / 1e6, 0.02 * DIE_MM2)],
            why=f"{100 * whole.um2 / 1e6 / DIE_MM2:.2f} %, with all that the paper leaves out.",
        ),
    ]
    return Figure(
        title=f"ACE, Tables 6 (v1) and IV (ISCA): {what} (preset {preset})",
        rows=rows, tables=[_table(parts)], lost=[_NO_POWER], note=report.note,
        assumptions=(
            *_CONVERSION,
            Assumption(
                "the die of the NPU", "chosen", f"{DIE_MM2} mm2: the first TPU, 28 nm",
            ),
        ),
    )


_UNCOUNTED = (
    "ports of links", "ports of memory", "copy unit", "arbiters between them",
)


def _table(parts: Mapping[str, Part]) -> Table:
    table = Table(
        "our engine, part by part",
        (
            Column("part"), Column("kge", "gates", "thousand NAND2", 1),
            Column("sram_bits", "SRAM", "bits"), Column("logic_um2", "logic", "um2", 0),
            Column("sram_um2", "SRAM", "um2", 0), Column("share", "share", "%", 1),
        ),
        note="Parts add up to the whole. Areas are conversions to 28 nm.",
    )
    whole = sum(parts.values(), Part())
    for name, part in {**parts, "all": whole}.items():
        table.add(
            name, part.kge, part.bits, part.logic_um2, part.sram_um2, 100 * part.um2 / whole.um2
        )
    return table


def in_switch(context: Context) -> Figure:
    """The buffers of an in-network reduction (Klenk et al.) beside those of our switch."""
    report, top = _synthesised("switch", "16-port")
    whole, units = _part(report, top), _total(report, rf"{top}_reduction(_\d+)?")
    published = SWITCH_SRAM_MM2 * 1e6 / (8 * SWITCH_SRAM_BYTES)
    per_bit = NODE_16_OF_28 * SRAM_UM2_PER_BIT
    logic = NODE_16_OF_28 * units.logic_um2 / 1e6
    rows = [
        derived(
            "buffers: 1 KiB for each of 18 ports", SWITCH_PORTS * 1024, Exactly(SWITCH_SRAM_BYTES),
            unit="bytes",
        ),
        Row(
            setting="18 KiB of SRAM in macros of 1 KiB", ours=8 * SWITCH_SRAM_BYTES * per_bit / 1e6,
            unit="mm2", target=Near(SWITCH_SRAM_MM2, relative=0.3),
            why=f"Published are {published:.3f} um2 a bit: macros as small as 1 KiB are mostly "
            "periphery.",
        ),
        Row(setting="SRAM of our reduction units", ours=units.bits / 8, unit="bytes"),
        Row(setting="logic of our reduction units, 16 ports", ours=logic, unit="mm2"),
        statement(
            f"reductions with logic below 1 % of the die ({SWITCH_DIE_MM2} mm2)",
            below=[(logic + units.bits * per_bit / 1e6, 0.01 * SWITCH_DIE_MM2)],
        ),
        Row(
            setting="whole switch of 16 ports, without buffers of its own network",
            ours=NODE_16_OF_28 * whole.um2 / 1e6, unit="mm2",
        ),
    ]
    return Figure(
        title="Reductions in switches: 18 KiB in 0.05 mm2 at 16 nm (16-port switch)",
        rows=rows, note=report.note,
        assumptions=(
            *_CONVERSION,
            Assumption("half the area at 16 nm of that at 28 nm", "chosen"),
        ),
    )
