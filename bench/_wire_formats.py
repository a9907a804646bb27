"""What formats on the switch's links cost in area, and what they save on links and in time."""

from dataclasses import replace

from bench.switch_matrix import DMA, SWITCH, Cell, prepare
from gen.synth import synthesize
from hw.switch.config import SwitchConfig
from hw.switch.packet import Format
from hw.switch.reduction_port import ReductionPort
from tb.switch_dma.fabric import AllReduce
from tb.switch_dma.twin import Course

__all__ = ["SHORT", "area", "traffic"]

SHORT = {"half": True, "bfp": True}
"""Parameters of hardware that has all formats."""

_OPTIONS: dict[str, dict[str, bool]] = {
    "words": {}, "half": {"half": True}, "bfp": {"bfp": True},
}


def area() -> None:
    """LUTs and flip-flops of a reduction unit with its buffers, with each option and without."""
    found = {}
    for name, more in _OPTIONS.items():
        unit = ReductionPort(SwitchConfig(**more), port=0)
        table = synthesize(unit, name="reduction_port", target="xcup")
        found[name] = {each: table[each][0] for each in ("lut", "ff")}
    plain = found.pop("words")
    print(
        f"formats in the reduction unit of a port (xcup, {plain['lut']} LUT, {plain['ff']} FF): "
        + "; ".join(
            f"{name} + {each['lut'] - plain['lut']} LUT, + {each['ff'] - plain['ff']} FF"
            for name, each in found.items()
        )
    )


def traffic(cell: Cell, seed: int) -> None:
    """Flits that an endpoint sends, and cycles, of one all-reduce in every format."""
    found = []
    for format in Format:
        made = prepare(cell, seed, replace(DMA, **SHORT), replace(SWITCH, **SHORT))
        job = AllReduce(made.system, cell.op, cell.size_bytes // 4, seed=seed, format=format)
        before = sum(made.system.flits.values())
        cycles = int(Course(made.system, job, made.given, **made.until).rtl.max())
        sent = (sum(made.system.flits.values()) - before) // cell.members
        found.append(f"{format.name} {sent} flits, {cycles} cycles")
    print(
        f"{cell.mode} of {cell.size_bytes // 4} elements, {cell.members} members: "
        + "; ".join(found)
    )
