# SPDX-License-Identifier: Apache-2.0
"""Longest paths of a mapped design in levels of logic, before anything is placed.

A level is a LUT4, a read of LUT-RAM, or the way into or out of a carry chain; a step along the
chain is a tenth, a multiplier is four, multiplexers behind LUTs are free. A block RAM answers as
late as four levels do. Paths go through the hierarchy, from registers, memory and inputs of the top
module to registers and memory. Wires are not counted: they are most of a path's time on an FPGA.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from gen.mapping.blocks import map_blocks, mapped_netlist
from gen.mapping.netlist import DesignNetlist
from gen.mapping.targets import TARGETS, check_target
from gen.table import Column, Table

__all__ = ["MHZ_7_LEVELS", "Levels", "Path", "levels", "levels_of"]

MHZ_7_LEVELS = 80
"""Clock of an engine with seven levels on an ECP5 of speed grade 6, when placed and routed."""

TENTHS = 10
_BLOCK_RAM = 40
"""Tenths of a level that a block RAM takes: 5.6 ns of an ECP5, where a routed level takes 1.4."""
_MOST_CELLS = 5000
"""Cells on a path, beyond which it must be a loop."""
_SHARES = (6.0, 10.0)
_LOGIC: dict[str, tuple[tuple[str, str, int], ...]] = {
    # Inputs and outputs, as patterns of ports, and tenths of a level between them.
    "LUT4": (("[ABCD]", "Z", 10),),
    "PFUMX": (("ALUT|BLUT|C0", "Z", 0),),
    "L6MUX21": (("D[01]|SD", "Z", 0),),
    "CCU2C": (
        ("[ABCD]0", "S[01]|COUT", 10), ("[ABCD]1", "S1|COUT", 10), ("CIN", "S[01]|COUT", 1),
    ),
    "TRELLIS_DPR16X4": (("RAD", "DO", 10),),
    "MULT18X18D": ((r"[ABC]\d+", r"P\d+", 40),),
}
# Outputs that begin paths; all inputs end them, but clocks and the address of an immediate read.
_STORES = {"TRELLIS_FF": "Q", "TRELLIS_DPR16X4": "", "DP16KD": r"DO[AB]\d+"}
_NO_ENDS = re.compile(r"CLK[AB]?|WCK|clk|RAD|DO")
_PINS = {"CE": " (enable)", "LSR": " (reset)"}

Bits: TypeAlias = Sequence[int | str]
_Ids: TypeAlias = "npt.NDArray[np.int64]"


@dataclass(frozen=True)
class Path:
    """The longest path to a register or memory.

    Members
    -------
    levels:
        Of logic.
    start, end:
        Instance, a dot, and the name in the source.
    block:
        Name of the block that `end` lies in.
    instance:
        Instance of that block; empty for the top module.
    """

    levels: float
    start: str
    end: str
    block: str
    instance: str


@dataclass(frozen=True)
class Levels:
    """Longest paths of a design, the longest first.

    Members
    -------
    worst:
        Paths with different ends.
    by_block:
        Name of a block -> the longest path to a register in any of its instances.
    by_part:
        The same by what instances are called, without numbers: ``fsm.generator``.
    ends:
        Number of bits that paths end at.
    above:
        A number of levels -> share of the ends with longer paths.
    """

    worst: list[Path]
    by_block: dict[str, Path]
    by_part: dict[str, Path]
    ends: int
    above: dict[float, float]


@dataclass
class _Local:
    """A mapped block with its nets numbered from 0; constants are -1."""

    count: int
    ports: dict[str, tuple[str, list[int]]]
    arcs: list[tuple[int, int, int]] = field(default_factory=list)
    starts: list[tuple[int, str, int]] = field(default_factory=list)  # with tenths of a level
    ends: list[tuple[int, str]] = field(default_factory=list)
    children: list[tuple[str, str, dict[str, list[int]]]] = field(default_factory=list)

    def store(
        self, pins: Mapping[str, list[int]], outputs: str, own: str, *, macro: bool = False,
        late: int = 0,
    ) -> None:
        """Paths begin at *outputs*, so many tenths *late*, and end at all other pins but those of
        clocks."""
        for pin, bits in pins.items():
            if re.fullmatch(outputs, pin):
                label = own if pin == "Q" else f"{own}.{pin}"
                self.starts += [(net, label, late) for net in bits if net >= 0]
            elif not _NO_ENDS.fullmatch(pin):
                label = f"{own}.{pin}" if macro else own + _PINS.get(pin, "")
                self.ends += [(net, label) for net in bits if net >= 0]


def _local(mapped: Any, children: Sequence[str], macros: Mapping[str, str]) -> _Local:
    numbers: dict[object, int] = {}

    def number(net: object) -> int:
        return numbers.setdefault(net, len(numbers))

    def nets(bits: Bits) -> list[int]:
        return [-1 if isinstance(bit, str) else number(bit) for bit in bits]

    ports = {name: (way, nets(bits)) for name, (way, bits) in mapped["ports"].items()}
    made = _Local(0, ports)
    names = _names(mapped["netnames"], ports)
    for label, (kind, connections) in mapped["cells"].items():
        pins = {port: nets(bits) for port, bits in connections.items()}
        child = children[int(kind[1:])] if kind.startswith("@") else ""
        if child in macros:
            made.store(pins, "r_data", label, macro=True, late=_BLOCK_RAM)
        elif child:
            made.children.append((child, label, pins))
        elif kind not in _LOGIC and kind not in _STORES:
            raise ValueError(f"levels of a cell {kind} are not known")
        for sources, sinks, tenths in _LOGIC.get(kind, ()):
            ins, outs = _matching(pins, sources), _matching(pins, sinks)
            if len(ins) * len(outs) > 100:  # a multiplier: fewer arcs by a net in between
                inner = number(label)
                made.arcs += [(net, inner, tenths) for net in ins]
                made.arcs += [(inner, net, 0) for net in outs]
            else:
                made.arcs += [(a, b, tenths) for a in ins for b in outs]
        if kind in _STORES:
            held = connections.get("Q", ())
            own = next((names[bit] for bit in held if bit in names), label.partition("$")[0])
            made.store(pins, _STORES[kind], own, late=_BLOCK_RAM if kind == "DP16KD" else 0)
    made.count = len(numbers)
    return made


def _matching(pins: Mapping[str, list[int]], pattern: str) -> list[int]:
    """Nets at ports of a cell; no constants."""
    found = (bits for pin, bits in pins.items() if re.fullmatch(pattern, pin))
    return [net for bits in found for net in bits if net >= 0]


def _names(netnames: Mapping[str, Bits], ports: Iterable[str]) -> dict[int, str]:
    """Name of each net, with its place in the vector: the shortest that is not of a port.

    A register that is an output has its own name as well; wires inside are called as the port with
    a number.
    """
    outside = set(ports)
    found: dict[int, tuple[bool, int, str]] = {}
    for name, bits in netnames.items():
        of_port = name in outside or re.sub(r"_\d+$", "", name) in outside
        for place, bit in enumerate(bits):
            if isinstance(bit, int):
                label = f"{name}[{place}]" if len(bits) > 1 else name
                rank = (of_port, len(name), label)
                found[bit] = min(found.get(bit, rank), rank)
    return {bit: name for bit, (_, _, name) in found.items()}


@dataclass
class _Flat:
    """All nets of the design, numbered through, with what `_Local` says of them."""

    locals: Mapping[str, _Local]
    count: int = 0
    joined: list[tuple[int, int]] = field(default_factory=list)
    arcs: list[_Ids] = field(default_factory=list)
    marks: list[tuple[str, str, _Ids]] = field(default_factory=list)

    def add(self, block: str, path: str, outside: Mapping[str, Sequence[int]]) -> None:
        """An instance of *block*, whose ports are connected to the nets *outside*."""
        own = self.locals[block]
        ids = np.full(own.count + 1, -1, dtype=np.int64)  # the last one is for constants
        for port, (_, nets) in own.ports.items():
            for net, outer in zip(nets, outside.get(port, ())):
                if net >= 0 and outer >= 0:
                    if ids[net] >= 0:  # two ports are one net
                        self.joined.append((int(ids[net]), outer))
                    ids[net] = outer
        new = np.flatnonzero(ids[:-1] < 0)
        ids[new] = np.arange(self.count, self.count + len(new))
        self.count += len(new)
        if own.arcs:
            arcs = np.array(own.arcs, dtype=np.int64)
            self.arcs.append(np.column_stack([ids[arcs[:, 0]], ids[arcs[:, 1]], arcs[:, 2]]))
        self.marks.append((block, path, ids))
        for child, label, pins in own.children:
            inner = {port: [int(ids[net]) for net in nets] for port, nets in pins.items()}
            self.add(child, f"{path}{label}.", inner)


@dataclass(frozen=True)
class _End:
    net: int
    name: str
    instance: str
    block: str


class _Search:
    """The longest distance of each net from a start, in tenths of a level; -1 for none."""

    def __init__(self, flat: _Flat, top: str) -> None:
        alias = _representatives(flat)
        arcs = np.concatenate([np.zeros((0, 3), dtype=np.int64), *flat.arcs])
        arcs[:, :2] = alias[arcs[:, :2]]
        self.arcs = arcs[np.argsort(arcs[:, 1], kind="stable")]
        self.starts: dict[int, str] = {}
        self.ends: list[_End] = []
        late: dict[int, int] = {}
        for block, path, ids in flat.marks:
            own = flat.locals[block]
            starts = [(net, f"{path}{name}", tenths) for net, name, tenths in own.starts]
            if block == top:
                ways = ((port, nets) for port, (way, nets) in own.ports.items() if way == "input")
                starts += [(net, f"input {port}", 0) for port, nets in ways for net in nets]
            for net, name, tenths in starts:
                if net >= 0:
                    self.starts[int(alias[ids[net]])] = name
                    late[int(alias[ids[net]])] = tenths
            self.ends += [
                _End(int(alias[ids[net]]), f"{path}{name}", path.rstrip("."), block)
                for net, name in own.ends
            ]
        self.distance = np.full(flat.count, -1, dtype=np.int64)
        self.distance[list(late)] = list(late.values())
        self._spread()

    def _spread(self) -> None:
        """Carry distances over all arcs until none grows any more."""
        source, sink, weight = self.arcs.T
        if not len(sink):
            return
        first = np.flatnonzero(np.diff(sink, prepend=-1))
        nets = sink[first]
        for _ in range(_MOST_CELLS):
            before = self.distance[nets]
            carried = np.where(self.distance[source] < 0, -1, self.distance[source] + weight)
            after = np.maximum(before, np.maximum.reduceat(carried, first))
            if np.array_equal(before, after):
                return
            self.distance[nets] = after
        raise ValueError("the design has a combinational loop: levels of logic have no end")

    def start_of(self, net: int) -> str:
        """The name of the start of the longest path to *net*."""
        source, sink, weight = self.arcs.T
        while net not in self.starts:
            low, high = np.searchsorted(sink, [net, net + 1])
            reached = self.distance[source[low:high]] + weight[low:high] == self.distance[net]
            reached &= self.distance[source[low:high]] >= 0
            net = int(source[low + int(np.argmax(reached))])
        return self.starts[net]

    def path(self, end: _End) -> Path:
        """The longest path to an end."""
        levels = float(self.distance[end.net]) / TENTHS
        return Path(levels, self.start_of(end.net), end.name, end.block, end.instance)


def _representatives(flat: _Flat) -> _Ids:
    """Number of the net that each net is one with."""
    alias = np.arange(flat.count + 1, dtype=np.int64)
    alias[-1] = -1

    def root(net: int) -> int:
        while alias[net] != net:
            net = int(alias[net])
        return net

    for one, other in flat.joined:
        alias[root(one)] = root(other)
    for net in {net for pair in flat.joined for net in pair}:
        alias[net] = root(net)
    return alias


def levels_of(netlist: DesignNetlist, *, target: str = "ecp5", worst: int = 5) -> Levels:
    """Longest paths of a netlist; blocks that have not been mapped to *target* are mapped now."""
    flow = check_target(target)
    if not flow.levels:
        known = ", ".join(name for name, each in TARGETS.items() if each.levels)
        raise ValueError(f"levels of logic are known of target {known} only, not of {target!r}")
    map_blocks(netlist.blocks, flow)
    flat = _Flat({
        block.name: _local(mapped_netlist(block, flow), block.children, netlist.macros)
        for block in netlist.blocks
    })
    flat.add(netlist.top, "", {})
    search = _Search(flat, netlist.top)
    ends = [end for end in search.ends if search.distance[end.net] >= 0]
    ends.sort(key=lambda end: -int(search.distance[end.net]))
    by_block: dict[str, _End] = {}
    by_part: dict[str, _End] = {}
    chosen: dict[str, _End] = {}
    for end in ends:
        by_block.setdefault(end.block, end)
        by_part.setdefault(re.sub(r"_\d+(?=\.|$)", "", end.instance), end)
        register = re.sub(r"(\[\d+\])?( \(\w+\))?$", "", end.name)
        if len(chosen) < worst:
            chosen.setdefault(register, end)
    lengths = np.array([search.distance[end.net] for end in ends], dtype=np.int64) / TENTHS

    def path(end: _End) -> Path:
        found = search.path(end)
        start, last = map(netlist.in_source, (found.start, found.end))
        return replace(found, start=start, end=last)

    return Levels(
        worst=[path(end) for end in chosen.values()],
        by_block={block: path(end) for block, end in by_block.items()},
        by_part={part: path(end) for part, end in by_part.items()},
        ends=len(ends),
        above={level: float(np.mean(lengths > level)) if len(ends) else 0.0 for level in _SHARES},
    )


def levels(netlist: DesignNetlist, *, target: str = "ecp5") -> tuple[Table, Table]:
    """Longest paths of the design, and of each block, in levels of logic."""
    found = levels_of(netlist, target=target)
    columns = [Column("levels", digits=1), Column("start"), Column("end")]
    shares = ", ".join(f"{share:.1%} more than {level:g}" for level, share in found.above.items())
    note = (
        f"Target {target}, mapped block by block. Levels: LUT4, read of LUT-RAM, way into a carry "
        "chain 1; step along it 0.1; multiplier, block RAM 4; wires none. Seven are about "
        f"{MHZ_7_LEVELS:g} MHz when routed. Of {found.ends} bits of registers, {shares}."
    )
    whole = Table("Longest paths", columns, note=note)
    for path in found.worst:
        whole.add(path.levels, path.start, path.end)
    parts = Table("Longest path to a register of each block", [Column("block"), *columns])
    for block, path in sorted(found.by_block.items(), key=lambda item: -item[1].levels):
        parts.add(block, path.levels, path.start, path.end)
    return whole, parts
