# SPDX-License-Identifier: Apache-2.0
"""Formats on the switch's links: their cost in area, their savings in flits and in time."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from bench.switch_matrix import DMA, SWITCH, Cell, prepare
from gen.synth import synthesize
from hw.fp.ops import ReduceOp
from hw.switch.config import SwitchConfig
from hw.switch.formats import LANES
from hw.switch.packet import Format
from hw.switch.reduction_port import ReductionPort
from sim.cycles.switch.fabric import Fabric
from sim.rtl.switch.formats import packed
from sim.rtl.switch.stepped import SteppedFabric
from tb.switch.system import System
from tb.switch_dma.fabric import AllReduce
from tb.switch_dma.twin import Course

__all__ = ["FORMATS", "SHORT", "area", "flits", "periods", "times"]

SHORT: dict[str, Any] = {"half": True, "bfp": True}
"""Parameters of hardware that has all formats."""

FORMATS = (Format.WORDS, Format.FP16, Format.BFP)
"""Formats whose packets differ in length; those of bfloat16 are as long as those of binary16."""
_ROOM: dict[str, Any] = {"buffer_packets": 8, "credits": 8}
_LATENCY_CYCLES = 4
_OPERANDS = 120


def _switch(lanes: int) -> SwitchConfig:
    return replace(SWITCH, **SHORT, **_ROOM, queue_packets=3, entries=32, lanes=lanes)


def area() -> dict[tuple[str, int], tuple[int, int]]:
    """LUTs and flip-flops of a reduction unit with its buffers, by formats and width."""
    print(
        "reduction unit of a port with its buffers (xcup)\nformats    lanes     LUT      FF"
    )
    cases: list[tuple[str, dict[str, bool], tuple[int, ...]]] = [
        ("words", {}, LANES[:1]), ("half", {"half": True}, LANES[:2]),
        ("bfp", {"bfp": True}, LANES), ("half, bfp", SHORT, LANES),
    ]
    found: dict[tuple[str, int], tuple[int, int]] = {}
    for name, more, widths in cases:
        for lanes in widths:
            unit = ReductionPort(SwitchConfig(**more, lanes=lanes), port=0)
            table = synthesize(unit, name="reduction_port", target="xcup")
            found[name, lanes] = lut, ff = int(str(table["lut"][0])), int(str(table["ff"][0]))
            print(f"{name:10} {lanes:5} {lut:7} {ff:7}")
    return found


def times(cell: Cell, seed: int) -> dict[tuple[Format, int], float]:
    """Time an all-reduce through RTL endpoints in each format, with units of each width; return its
    cycles as a fraction of those of words in the same system."""
    print(
        f"{cell.mode} of {cell.size_bytes // 4} elements, {cell.members} members, RTL endpoints "
        "with memory ports of 16 bytes\nlanes  format  flits sent  cycles  of those of words"
    )
    dma = replace(DMA, **SHORT, **_ROOM, waves=16, wave_blocks=8)
    found: dict[tuple[Format, int], float] = {}
    for lanes in LANES:
        cycles: dict[Format, int] = {}
        for format in FORMATS:
            made = prepare(cell, seed, dma, _switch(lanes))
            job = AllReduce(made.system, cell.op, cell.size_bytes // 4, seed=seed, format=format)
            before = _sent(made.system)
            cycles[format] = int(Course(made.system, job, made.given, **made.until).rtl.max())
            job.check()
            sent = (_sent(made.system) - before) // cell.members
            found[format, lanes] = cycles[format] / cycles[Format.WORDS]
            print(f"{lanes:5}  {format.name:6} {sent:11} {cycles[format]:7} "
                  f"{found[format, lanes]:12.1%}")
    return found


def _sent(system: SteppedFabric) -> int:
    """Flits that endpoints have sent."""
    return sum(system.flits(*end) for end in system.at.values())


def periods(members: int, seed: int) -> dict[tuple[Format, int], float]:
    """Cycles between the operands that a switch accepts at its slowest port while every link offers
    a flit in every cycle, in each format and with units of each width."""
    print(
        f"one switch, {members} endpoints without memory that push in address order: cycles per "
        "operand at the slowest port\nlanes  " + "  ".join(f"{each.name:>6}" for each in FORMATS)
    )
    found = {(format, lanes): _period(format, lanes, members, seed)
             for lanes in LANES for format in FORMATS}
    for lanes in LANES:
        print(f"{lanes:5}  " + "  ".join(f"{found[each, lanes]:6.2f}" for each in FORMATS))
    return found


def _period(format: Format, lanes: int, members: int, seed: int) -> float:
    config = _switch(lanes)
    ports = list(range(members))
    system = System(config, Fabric.flat(members), expected={0: members},
                    latency=_LATENCY_CYCLES, seed=seed)
    system.region(ports, links=[ports])
    rng = np.random.default_rng(seed)
    short = [
        np.frombuffer(packed(format, rng.standard_normal(config.payload_bytes // 4)), np.uint8)
        for _ in ports
    ]
    for end, data in zip(system.endpoints, short):
        for block in range(_OPERANDS):
            end.push(ReduceOp.SUM_F32, 0, block * config.payload_flits, data, format=format)
    system.settle(quiet=500)
    if any(len(end.results) != _OPERANDS for end in system.endpoints):
        raise RuntimeError("results are missing")
    return max(_between(end.sent_at) for end in system.endpoints) * flits(config, format)


def flits(config: SwitchConfig, format: Format) -> int:
    """Flits of a packet in *format*, header included."""
    lengths: Mapping[Format, int] = config.lengths
    return lengths.get(format, config.packet_flits)


def _between(cycles: list[int]) -> float:
    """Cycles per flit over the middle half of *cycles*."""
    low, high = len(cycles) // 4, len(cycles) * 3 // 4
    return (cycles[high] - cycles[low]) / (high - low)
