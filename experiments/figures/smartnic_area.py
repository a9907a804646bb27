# SPDX-License-Identifier: Apache-2.0
"""Smart NIC, Table I: resources of our RTL beside the paper's, block by block."""

import re
from dataclasses import dataclass

from experiments.figure import Assumption, Context, Figure, Lost, Row, statement
from experiments.targets import Between, Exactly
from gen.synth import synthesize
from gen.table import Column, Table
from hw.smartnic.config import preset
from hw.smartnic.nic import SmartNic

__all__ = ["Share", "at_400g", "divide", "table1"]

TOP = "smartnic"
PUBLISHED = {"all-reduce": (2233, 46), "BFP": (2857, 120)}
DEVICE_ALMS, DEVICE_M20KS, DEVICE_DSPS = 427_200, 2713, 1518  # Arria 10 1150, data sheet
ASSUMPTIONS = (
    Assumption("an ALM holds one ALUT or two small ones", "chosen", "not placed"),
    Assumption("Yosys in place of Quartus, M10K in place of M20K", "chosen"),
)
COUNTED = ("alut", "ff", "m10k", "sram_blocks")


@dataclass(frozen=True, kw_only=True)
class Share:
    """ALUTs, flip-flops and M10K blocks of a part of the NIC."""

    aluts: int = 0
    registers: int = 0
    m10ks: int = 0

    def __add__(self, other: "Share") -> "Share":
        return Share(
            aluts=self.aluts + other.aluts,
            registers=self.registers + other.registers,
            m10ks=self.m10ks + other.m10ks,
        )

    def __sub__(self, other: "Share") -> "Share":
        return self + Share(aluts=-other.aluts, registers=-other.registers, m10ks=-other.m10ks)


def divide(report: Table, top: str = TOP) -> dict[str, Share]:
    """The NIC by what Table I tells apart; the parts add up to the whole.

    The datapath of the all-reduce is the engine without adders (DSP blocks in the paper), without
    codec, and without what reads and writes host memory and makes and checks frames (OPAE and IKL
    in the paper).
    """

    def share(block: str) -> Share:
        aluts, registers, *m10ks = (int(report.value(block, name)) for name in COUNTED)
        return Share(aluts=aluts, registers=registers, m10ks=sum(m10ks))

    def total(*parts: str) -> Share:
        found = Share()
        for part in parts:
            for block, instances in _variants(report, top, part).items():
                for _ in range(instances):
                    found += share(block)
        return found

    adders = total("alu")
    compressor, decompressors = total("compressor"), total("decompressor")
    edges = total("fetch", "store", "transmit", "receive")
    engine = total("engine")
    return {
        "all-reduce": engine - adders - compressor - decompressors - edges,
        "adders": adders,
        "compressor": compressor,
        "decompressors": decompressors,
        "host and network interface": edges,
        "registers and control": share(top) - engine,
    }


def _variants(report: Table, top: str, part: str) -> dict[str, int]:
    """Blocks that a part of the NIC is, one for each of its configurations, with the instances of
    each: engines differ in their numbers, and what is inside them may."""
    name = re.compile(rf"{top}_(engine_)?{part}(_\d+)?")
    found = {
        str(block): int(report.value(str(block), "instances"))
        for block in report["block"] if name.fullmatch(str(block))
    }
    if not found:
        raise ValueError(f"{top} has no block {part}")
    return found


def table1(context: Context) -> Figure:
    """Our 40G NIC, mapped by Yosys for Intel ALMs; the paper's went through Quartus."""
    config = preset("40g")
    report = synthesize(SmartNic(config), name=TOP, target="alm")
    parts = divide(report)
    bfp = parts["compressor"] + parts["decompressors"]
    # One in each direction; we have a second decompressor, for the other half of the ring.
    decoders = sum(_variants(report, TOP, "decompressor").values())
    pair = parts["compressor"].aluts + parts["decompressors"].aluts // decoders
    whole = sum((share for share in parts.values()), Share())
    alms, m20ks = PUBLISHED["all-reduce"]
    bfp_alms, bfp_m20ks = PUBLISHED["BFP"]
    core = parts["all-reduce"]
    rows = [
        Row(
            setting="binary32 adders, a DSP block each in the paper",
            ours=config.lanes * config.engines,
            target=Exactly(8),
            identity=True,
        ),
        _bracket("all-reduce without adders", core.aluts, alms, _why_core(core, alms)),
        _bracket("BFP, one compressor and one decompressor", pair, bfp_alms, ""),
        statement(
            "block RAM of the whole NIC no more than the paper's 166 M20K",
            at_most=[(whole.m10ks, m20ks + bfp_m20ks)],
            why=f"{whole.m10ks} M10K, which are {-(-whole.m10ks // 2)} M20K if two fit into each; "
            f"of these the codec has {bfp.m10ks}, the paper's {bfp_m20ks}.",
        ),
        Row(
            setting="added logic (all-reduce and BFP) of the device, at best",
            ours=100 * (core.aluts + bfp.aluts) / 2 / DEVICE_ALMS,
            unit="%",
        ),
        Row(
            setting="added logic of the device, at worst",
            ours=100 * (core.aluts + bfp.aluts) / DEVICE_ALMS,
            unit="%",
        ),
    ]
    return Figure(
        title="Table I: resources of the 40G NIC (synthesised)",
        rows=rows,
        tables=[_parts_table(parts)],
        lost=[
            Lost(
                what="Table I: 64480 ALMs of OPAE and IKL",
                reason="PCIe, Ethernet MAC and the vendor's shell; ours ends at AXI",
            ),
        ],
        note=report.note,
        assumptions=ASSUMPTIONS,
    )


def at_400g(context: Context) -> Figure:
    """Shares of the device at 400 Gbit/s, extrapolated in the paper, of our four engines."""
    config = preset("400g")
    report = synthesize(SmartNic(config), name=f"{TOP}_400g", target="alm")
    parts = divide(report, f"{TOP}_400g")
    added = parts["all-reduce"] + parts["compressor"] + parts["decompressors"]
    whole = sum(parts.values(), Share())
    logic = 100 * added.aluts / DEVICE_ALMS
    memory = 100 * whole.m10ks / 2 / DEVICE_M20KS
    adders = config.lanes * config.engines
    return Figure(
        title="400 Gbit/s: shares of the device (synthesised)",
        rows=[
            statement(
                "added logic under 2 %, if an ALM holds two ALUTs", below=[(logic / 2, 2)],
                why=f"{logic / 2:.2f} to {logic:.2f} %: four engines of {config.bus_bytes} bytes "
                f"with {adders} lanes, and a codec in each.",
            ),
            statement(
                "block RAM under 9 %", below=[(memory, 9)],
                why=f"{memory:.2f} %, where two M10K fit an M20K.",
            ),
            statement(
                "DSP blocks under 5 %, one for each adder", below=[(100 * adders / DEVICE_DSPS, 5)],
                why=f"{adders} of {DEVICE_DSPS}.",
            ),
        ],
        tables=[_parts_table(parts)],
        note=report.note,
        assumptions=ASSUMPTIONS,
    )


def _bracket(what: str, aluts: int, published: int, why: str) -> Row:
    return Row(
        setting=f"{what}: ALUTs, beside ALMs that hold one or two each",
        ours=aluts,
        target=Between(published, published, 2 * published),
        why=why,
    )


def _why_core(core: Share, published: int) -> str:
    return (
        f"{core.aluts} ALUTs and {core.registers} flip-flops, "
        f"{core.aluts / 2 / published:.2f}x of the paper's logic at best: two flows run side by "
        "side, so that both halves of the ring overlap, each with its own sequencer and queues."
    )


def _parts_table(parts: dict[str, Share]) -> Table:
    table = Table(
        "our NIC, part by part",
        (
            Column("part"),
            Column("alut", "ALUT"),
            Column("alms_at_best", "ALMs at best"),
            Column("ff", "flip-flops"),
            Column("m10k", "M10K"),
            Column("paper_alms", "paper: ALMs"),
            Column("paper_m20k", "paper: M20K"),
        ),
        note="An ALM holds one ALUT or two small ones. Parts add up to the whole. Adders: DSP "
        "blocks in the paper.",
    )
    parts = {**parts, "all": sum(parts.values(), Share())}
    beside: dict[str, tuple[int | None, int | None]] = {
        "all-reduce": PUBLISHED["all-reduce"],
        "compressor": PUBLISHED["BFP"],
    }
    for name, share in parts.items():
        table.add(
            name,
            share.aluts,
            -(-share.aluts // 2),
            share.registers,
            share.m10ks,
            *beside.get(name, (None, None)),
        )
    return table
