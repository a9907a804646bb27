# SPDX-License-Identifier: Apache-2.0
"""Compare two modules, as one question about logic without registers (a miter).

Registers and memories of both are cut out. The states of matched registers are the same free input
on both sides, and their next states must be equal. Contents of a memory are the same on both sides:
reads of one address are equal, and writes must leave equal data at any one address.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from gen.sv.netlists import (
    Bits,
    Constant,
    NetlistCell,
    NetlistModule,
    NetlistSlice,
    joined,
    part_of,
    said,
    width_of,
)

__all__ = ["PREPARE", "Miter", "MiterError", "miter"]

PREPARE = ("proc -norom", "opt_expr -keepdc", "memory_collect", "dffunmap")
"""Passes of Yosys on a module before it is cut."""


class MiterError(Exception):
    """The two cannot be equal, or cannot be compared; says why."""


@dataclass
class _Memory:
    """A memory that was cut out; all of its addresses and data are ports of the module.

    Attributes
    ----------
    clocked:
        Clocked read ports -> number of their register.
    transparent:
        Clocked read ports -> write ports whose data they see at the same clock edge.
    """

    width: int
    bits: int
    size: int
    reads: int
    writes: int
    start: str
    clocked: dict[int, int] = field(default_factory=dict)
    transparent: dict[int, list[int]] = field(default_factory=dict)

    def row(self, number: int) -> str:
        """Initial value of a row."""
        end = len(self.start) - number * self.width
        return self.start[max(0, end - self.width) : end].rjust(self.width, "x")


@dataclass
class _Cut:
    """A module without state.

    Attributes
    ----------
    lines:
        Lines of its text.
    states:
        Wire -> registers that hold its bits: first bit, width, register and first bit of that.
    starts:
        Initial values of the bits of wires.
    """

    module: NetlistModule
    lines: list[str]
    widths: list[int] = field(default_factory=list)
    states: dict[str, list[tuple[int, int, int, int]]] = field(
        default_factory=lambda: defaultdict(list))
    starts: dict[tuple[str, int], str] = field(default_factory=dict)
    memories: dict[str, _Memory] = field(default_factory=dict)
    clocks: set[Bits] = field(default_factory=set)

    def held(self, bits: Bits, what: str) -> list[tuple[int, int, int]]:
        """Registers that hold *bits*, the lowest first, each with first bit and width."""
        found = []
        for piece in self.module.source(bits):
            if isinstance(piece, Constant):
                raise MiterError(f"{what} is a constant")
            at, end = piece.low, piece.low + piece.width
            while at < end:
                for low, width, register, first in self.states.get(piece.wire, ()):
                    if low <= at < low + width:
                        size = min(end, low + width) - at
                        found.append((register, first + at - low, size))
                        at += size
                        break
                else:
                    raise MiterError(f"{what} is no register")
        return found

    def start(self, register: int, first: int, width: int) -> str:
        """Initial values of bits of a register, the lowest one first."""
        return "".join(self.starts.get((f"\\state:{register}", first + n), "x")
                       for n in range(width))


def _cut(module: NetlistModule) -> _Cut:
    """*module* with ports in place of registers and memories."""
    made = _Cut(module, list(module.logic))
    for cell in module.state:
        if cell.type == "$dff":
            _cut_register(made, cell)
        elif cell.type == "$mem_v2":
            _cut_memory(made, cell)
        else:
            raise MiterError(f"{cell.name[1:]} is a {cell.type}")
    for wire, start in module.starts.items():
        size = module.wires[wire].width
        value = _bits_of(start).rjust(size, "0")[::-1]
        at = 0
        for piece in module.source((NetlistSlice(wire, 0, size),)):
            if isinstance(piece, NetlistSlice):
                for low, width, register, first in made.states.get(piece.wire, ()):
                    end = min(low + width, piece.low + piece.width)
                    for bit in range(max(low, piece.low), end):
                        if value[at + bit - piece.low] in "01":
                            key = f"\\state:{register}", first + bit - low
                            made.starts[key] = value[at + bit - piece.low]
            at += piece.width
    return made


def _cut_register(made: _Cut, cell: NetlistCell) -> None:
    number = len(made.widths)
    q = made.module.bits(cell.connections["\\Q"])
    width = width_of(q)
    made.widths.append(width)
    made.clocks.add(made.module.source(made.module.bits(cell.connections["\\CLK"])))
    if _parameter(cell, "CLK_POLARITY") != 1:
        raise MiterError(f"{cell.name[1:]} has a falling clock")
    at = 0
    for piece in q:
        if isinstance(piece, NetlistSlice):
            made.states[piece.wire].append((piece.low, piece.width, number, at))
        at += piece.width
    made.lines += [
        f"  wire width {width} input 0 \\state:{number}",
        f"  wire width {width} output 0 \\next:{number}",
        f"  connect {cell.connections[chr(92) + 'Q']} \\state:{number}",
        f"  connect \\next:{number} {cell.connections[chr(92) + 'D']}",
    ]


def _cut_memory(made: _Cut, cell: NetlistCell) -> None:
    name = next(p for p in cell.parameters if p.startswith("\\MEMID")).split('"')[1].lstrip("\\")
    reads, writes = _parameter(cell, "RD_PORTS"), _parameter(cell, "WR_PORTS")
    size, width = _parameter(cell, "SIZE"), _parameter(cell, "WIDTH")
    memory = _Memory(
        width, _parameter(cell, "ABITS"), size, reads, writes,
        _bits(cell, "INIT").rjust(size * width, "x"),
    )
    made.memories[name] = memory
    for odd in ("OFFSET", "RD_WIDE_CONTINUATION", "WR_WIDE_CONTINUATION", "RD_COLLISION_X_MASK"):
        if "1" in _bits(cell, odd):
            raise MiterError(f"{name} has {odd}")
    value = made.module.bits(cell.connections["\\RD_DATA"]) if reads else ()
    for number in range(reads):
        if _flag(cell, "RD_CLK_ENABLE", number):
            register = _clocked_read(made, cell, name, number, part_of(
                value, number * width, width))
            memory.clocked[number] = register
            memory.transparent[number] = [
                write for write in range(writes)
                if _flag(cell, "RD_TRANSPARENCY_MASK", number * writes + write)
            ]
    for number in range(writes):
        if not (_flag(cell, "WR_CLK_ENABLE", number) and _flag(cell, "WR_CLK_POLARITY", number)):
            raise MiterError(f"{name} has a write without a rising clock")
        made.clocks.add(made.module.source(_of(made, cell, "WR_CLK", number)))
    ports = [("RD_ADDR", "output", reads * memory.bits), ("RD_EN", "output", reads),
             ("RD_DATA", "input", reads * width),
             ("WR_ADDR", "output", writes * memory.bits), ("WR_DATA", "output", writes * width),
             ("WR_EN", "output", writes * width)]
    for port, way, bits in ports:
        if bits:
            own, connected = f"\\{port}:{name}", cell.connections[f"\\{port}"]
            made.lines.append(f"  wire width {bits} {way} 0 {own}")
            made.lines.append(f"  connect {connected} {own}" if way == "input"
                              else f"  connect {own} {connected}")


def _clocked_read(made: _Cut, cell: NetlistCell, name: str, number: int, value: Bits) -> int:
    """Cut a read port whose register holds *value*; returns the number of the register."""
    if not _flag(cell, "RD_CLK_POLARITY", number):
        raise MiterError(f"{name} has a falling clock")
    for port in ("RD_ARST", "RD_SRST"):
        if made.module.source(_of(made, cell, port, number)) != (Constant("0"),):
            raise MiterError(f"{name} has a read with a reset")
    made.clocks.add(made.module.source(_of(made, cell, "RD_CLK", number)))
    register = len(made.widths)
    made.widths.append(width_of(value))
    start = _bits(cell, "RD_INIT_VALUE")[::-1][number * width_of(value) :]
    at = 0
    for piece in value:
        if isinstance(piece, NetlistSlice):
            made.states[piece.wire].append((piece.low, piece.width, register, at))
        at += piece.width
    for bit, one in enumerate(start[: width_of(value)]):
        if one in "01":
            made.starts[f"\\state:{register}", bit] = one
    return register


def _of(made: _Cut, cell: NetlistCell, port: str, number: int) -> Bits:
    return part_of(made.module.bits(cell.connections[f"\\{port}"]), number, 1)


def _flag(cell: NetlistCell, name: str, number: int) -> bool:
    return _bits(cell, name)[::-1][number : number + 1] == "1"


def _bits(cell: NetlistCell, name: str) -> str:
    """A parameter, the highest bit first."""
    for parameter in cell.parameters:
        word, *_, value = parameter.split()
        if word == "\\" + name:
            return _bits_of(value)
    raise MiterError(f"{cell.name[1:]} has no {name}")


def _parameter(cell: NetlistCell, name: str) -> int:
    return int(_bits(cell, name), 2)


def _bits_of(value: str) -> str:
    """A constant as bits, the highest one first."""
    if match := re.fullmatch(r"(\d+)'(s?)([01xz]+)", value):
        return match[3].rjust(int(match[1]), "0")
    if re.fullmatch(r"-?\d+", value):
        return format(int(value) & 0xFFFFFFFF, "032b")
    raise MiterError(f"{value} is no constant")


_PORT = re.compile(r"  wire (?:width (\d+) )?(?:signed )?(input|output) \d+ (\S+)$")


def _ports(lines: Iterable[str]) -> dict[str, tuple[int, str]]:
    """Ports that *lines* declare: width, and which way they go."""
    found = {}
    for line in lines:
        if match := _PORT.match(line):
            found[match[3]] = int(match[1] or 1), match[2]
    return found


@dataclass
class Miter:
    """RTLIL of two modules, and of the module that compares them.

    Attributes
    ----------
    text:
        The modules ``gold``, ``gate`` and ``top``.
    outputs:
        Names of what differs if an output of the top is not 0, in the order of the outputs.
    state:
        Registers and rows of memories that are matched.
    """

    text: str
    outputs: list[str]
    state: int


class _Top:
    """The top module, which holds and compares both."""

    def __init__(self, gold: _Cut, gate: _Cut) -> None:
        self.gold, self.gate = gold, gate
        self.gold_ports, self.gate_ports = _ports(gold.lines), _ports(gate.lines)
        self.outputs: list[str] = []
        self._lines: list[str] = []
        self._count = 0
        self._shown: dict[str, int] = {}
        self._given: dict[str, Bits] = {}
        self._next: dict[tuple[str, int], Bits] = {}
        self._assumed: list[Bits] = []
        self._holds: Bits = (NetlistSlice(self._wire(1), 0, 1),)

    def assume(self, bit: Bits) -> None:
        """Compare only where this is 1."""
        self._assumed.append(bit)

    def next(self, side: str, register: int) -> Bits:
        """Next state of a register."""
        known = self._next.get((side, register))
        if known is not None:
            return known
        ports = self.gold_ports if side == "gold" else self.gate_ports
        if f"\\next:{register}" not in ports:
            raise MiterError("a read of a memory that the text does not have is a register of it")
        return self.port(side, f"\\next:{register}")

    def will_hold(self, side: str, register: int, value: Bits) -> None:
        """Set the next state of a register that is part of a memory."""
        self._next[side, register] = value

    def unknown(self, width: int) -> Bits:
        """A free input of *width* bits."""
        return (NetlistSlice(self._wire(width, "input 0 "), 0, width),)

    def _wire(self, width: int, way: str = "") -> str:
        self._count += 1
        self._lines.append(f"  wire width {width} {way}\\n{self._count}")
        return f"\\n{self._count}"

    def cell(self, kind: str, out: int, **ports: Bits) -> Bits:
        """Add a cell of logic; returns its output."""
        y = (NetlistSlice(self._wire(out), 0, out),)
        self._count += 1
        self._lines.append(f"  cell ${kind} $c{self._count}")
        if kind == "mux":
            self._lines.append(f"    parameter \\WIDTH {out}")
        else:
            for port, bits in ports.items():
                self._lines += [f"    parameter \\{port.upper()}_SIGNED 0",
                                f"    parameter \\{port.upper()}_WIDTH {width_of(bits)}"]
            self._lines.append(f"    parameter \\Y_WIDTH {out}")
        for port, bits in [*ports.items(), ("y", y)]:
            self._lines.append(f"    connect \\{port.upper()} {said(bits)}")
        self._lines.append("  end")
        return y

    def seen(self, bits: Bits) -> Bits:
        """Bits of the netlist's module as the top has them."""
        made: list[NetlistSlice | Constant] = []
        for piece in bits:
            if isinstance(piece, Constant):
                made.append(piece)
            elif self.gold_ports.get(piece.wire, (0, ""))[1]:
                made.append(NetlistSlice(f"\\gold.{piece.wire[1:]}", piece.low, piece.width))
            else:
                # By number: `\x` and `$x` are two wires.
                number = self._shown.setdefault(piece.wire, len(self._shown))
                made.append(NetlistSlice(f"\\gold.out:{number}", piece.low, piece.width))
        return tuple(made)

    def port(self, side: str, name: str) -> Bits:
        """All bits of a port of one of the two."""
        width, _ = (self.gold_ports if side == "gold" else self.gate_ports)[name]
        return (NetlistSlice(f"\\{side}.{name[1:]}", 0, width),)

    def give(self, port: str, bits: Bits) -> None:
        """Connect an input of the text."""
        self._given[port] = bits

    def value(self, port: str) -> Bits:
        """Bits that an input of the text is connected to."""
        return self._given[port]

    def same(self, one: Bits, other: Bits, what: str) -> None:
        """Add an output that is 1 where these are not equal."""
        unequal = self.cell("ne", 1, a=one, b=other)
        differs = self.cell("and", 1, a=unequal, b=self._holds)
        out = f"\\o{len(self.outputs):06d}"
        self.outputs.append(what)
        self._lines += [f"  wire output 0 {out}", f"  connect {out} {said(differs)}"]

    def text(self) -> str:
        holds: Bits = (Constant("1"),)
        for bit in self._assumed:
            holds = self.cell("and", 1, a=holds, b=bit)
        self._lines.append(f"  connect {said(self._holds)} {said(holds)}")
        gold = list(self.gold.lines)
        for wire, number in self._shown.items():
            width = self.gold.module.wires[wire].width
            gold += [f"  wire width {width} output 0 \\out:{number}",
                     f"  connect \\out:{number} {wire}"]
        wires, cells = [], []
        for side, ports in (("gold", _ports(gold)), ("gate", self.gate_ports)):
            connections = []
            for port, (width, way) in ports.items():
                if side == "gate" and way == "input":
                    if port not in self._given:
                        raise MiterError(f"nothing is known of {port[1:]}")
                    connections.append(f"    connect {port} {said(self._given[port])}")
                    continue
                outer = f"\\{side}.{port[1:]}"
                wires.append(f"  wire width {width} {'input 0 ' * (way == 'input')}{outer}")
                connections.append(f"    connect {port} {outer}")
            cells += [f"  cell \\{side} \\{side}", *connections, "  end"]
        top = [*wires, *self._lines, *cells]
        return "\n".join(
            line
            for name, lines in (("gold", gold), ("gate", self.gate.lines), ("top", top))
            for line in (f"module \\{name}", *_numbered(lines), "end", "")
        ) + "\n"


def _numbered(lines: Iterable[str]) -> list[str]:
    """*lines* with the ports counted."""
    made = []
    count = 0
    for line in lines:
        if match := _PORT.match(line):
            count += 1
            line = f"{line[:match.end(2)]} {count} {match[3]}"
        made.append(line)
    return made


def miter(
    gold: NetlistModule, gate: NetlistModule, *,
    inputs: Iterable[tuple[str, tuple[Bits | int, ...]]],
    same: Iterable[tuple[Bits, str, int]], registers: Iterable[tuple[NetlistSlice, NetlistSlice]],
    memories: Iterable[tuple[str, str]],
) -> Miter:
    """Compare *gate*, a module of a text, with *gold*; both are prepared, the rest is as in
    `gen.sv.proof.Question`.

    Raises
    ------
    MiterError
        They cannot be equal, or have something that cannot be compared.
    """
    one, other = _cut(gold), _cut(gate)
    top = _Top(one, other)
    for port, values in inputs:
        top.give(port, joined(
            piece for value in values
            for piece in (top.unknown(value) if isinstance(value, int) else top.seen(value))
        ))
    for bits, port, low in same:
        width = width_of(bits)
        top.same(top.seen(bits), part_of(top.port("gate", port), low, width), port[1:])
    state = _same_memories(top, memories) + _same_registers(top, registers)
    clocks = [*(top.seen(bits) for bits in one.clocks),
              *(_gate_clock(top, bits) for bits in other.clocks)]
    for clock in clocks[1:]:
        top.same(clocks[0], clock, "the clock")
    return Miter(top.text(), top.outputs, state)


def _gate_clock(top: _Top, bits: Bits) -> Bits:
    (piece,) = bits
    if isinstance(piece, Constant):
        return bits
    if piece.wire not in top.gate_ports or top.gate_ports[piece.wire][1] != "input":
        raise MiterError(f"{piece.wire[1:]} is a clock that comes from inside")
    return part_of(top.value(piece.wire), piece.low, piece.width)


def _same_registers(top: _Top, registers: Iterable[tuple[NetlistSlice, NetlistSlice]]) -> int:
    gold, gate = top.gold, top.gate
    values: dict[int, dict[int, tuple[Bits, int]]] = defaultdict(dict)
    count = 0
    for own, other in registers:
        name = other.wire[1:]
        reference, text = _whole(gold.module, own), _whole(gate.module, other)
        if reference.width != text.width:
            raise MiterError(f"{name} has {text.width} bits, not {reference.width}")
        count += 1
        at = 0
        bits: Bits = (reference,)
        held = gold.held(bits, f"{own.wire[1:]} of the netlist")
        for register, first, width in gate.held((text,), name):
            if first in values[register]:
                raise MiterError(f"{name} is two registers")
            values[register][first] = part_of(bits, at, width), width
            nexts: list[NetlistSlice | Constant] = []
            starts = ""
            low = 0
            for number, start, size in held:
                a, b = max(low, at), min(low + size, at + width)
                if a < b:
                    nexts += part_of(top.next("gold", number), start + a - low, b - a)
                    starts += gold.start(number, start + a - low, b - a)
                low += size
            now = gate.start(register, first, width)
            if any(one not in ("x", bit) for one, bit in zip(starts, now, strict=True)):
                raise MiterError(f"{name} starts as {starts[::-1]} and as {now[::-1]}")
            top.same(tuple(nexts), part_of(top.next("gate", register), first, width), name)
            at += width
    for register, width in enumerate(gate.widths):
        made: list[NetlistSlice | Constant] = []
        at = 0
        for first, (bits, size) in sorted(values[register].items()):
            if first < at:
                raise MiterError("two registers are one in the text")
            made += [*(top.unknown(first - at) if first > at else ()), *top.seen(bits)]
            at = first + size
        made += top.unknown(width - at) if width > at else ()
        top.give(f"\\state:{register}", tuple(made))
    return count


def _whole(module: NetlistModule, piece: NetlistSlice) -> NetlistSlice:
    if piece.wire not in module.wires:
        raise MiterError(f"registers not found: {piece.wire[1:]}")
    width = module.wires[piece.wire].width if piece.width < 0 else piece.width
    return NetlistSlice(piece.wire, piece.low, width)


def _same_memories(top: _Top, memories: Iterable[tuple[str, str]]) -> int:
    count = 0
    matched = set()
    for reference, name in memories:
        one = top.gold.memories.get(reference)
        other = top.gate.memories.get(name)
        if one is None or other is None:
            raise MiterError(f"memories not found: {reference if one is None else name}")
        if (one.width, one.size) != (other.width, other.size):
            raise MiterError(f"{name} has {other.size} rows of {other.width} bits, not "
                             f"{one.size} of {one.width}")
        for row in range(one.size):
            was, now = one.row(row), other.row(row)
            if any(a not in ("x", b) for a, b in zip(was, now, strict=True)):
                raise MiterError(f"row {row} of {name} starts as {was} and as {now}")
        count += one.size
        matched.add(name)
        bits = max(one.bits, other.bits)
        sides = [("gold", reference, one), ("gate", name, other)]
        if other.clocked:
            raise MiterError(f"{name} has a read with a clock")
        reads: list[tuple[Bits, Bits]] = []
        for number in range(one.reads):
            address = _address(top, "gold", reference, "RD_ADDR", one, number, bits)
            value = part_of(top.port("gold", f"\\RD_DATA:{reference}"), number * one.width,
                            one.width)
            if number in one.clocked:
                held = top.unknown(one.width)
                seen = _written(top, "gold", reference, one, one.transparent[number], address,
                                held, bits)
                enable = part_of(top.port("gold", f"\\RD_EN:{reference}"), number, 1)
                top.will_hold("gold", one.clocked[number],
                              top.cell("mux", one.width, a=value, b=seen, s=enable))
                value = held
            for before, known in reads:  # reads of one address give the same
                apart = top.cell("ne", 1, a=address, b=before)
                top.assume(top.cell("or", 1, a=apart, b=top.cell("eq", 1, a=value, b=known)))
            reads.append((address, value))
        data: list[NetlistSlice | Constant] = []
        for number in range(other.reads):
            address = _address(top, "gate", name, "RD_ADDR", other, number, bits)
            data += _read(top, address, reads, one.width, number)
        if data:
            top.give(f"\\RD_DATA:{name}", tuple(data))
        where, before = top.unknown(bits), top.unknown(one.width)
        after = [_written(top, side, own, memory, range(memory.writes), where, before, bits)
                 for side, own, memory in sides]
        top.same(after[0], after[1], name)
    for name in set(top.gate.memories) - matched:
        other = top.gate.memories[name]
        if other.reads:
            top.give(f"\\RD_DATA:{name}", top.unknown(other.reads * other.width))
    return count


def _address(
    top: _Top, side: str, name: str, port: str, memory: _Memory, number: int, bits: int
) -> Bits:
    own = part_of(top.port(side, f"\\{port}:{name}"), number * memory.bits, memory.bits)
    return (*own, Constant("0" * (bits - memory.bits))) if bits > memory.bits else own


def _read(
    top: _Top, address: Bits, reads: list[tuple[Bits, Bits]], width: int, number: int
) -> Bits:
    """Value of a read of the text: that which the netlist reads at the same address, or free."""
    value = top.unknown(width)
    for own, data in [*reads[:number], *reads[number + 1 :], *reads[number : number + 1]]:
        value = top.cell("mux", width, a=value, b=data, s=top.cell("eq", 1, a=address, b=own))
    return value


def _written(
    top: _Top, side: str, name: str, memory: _Memory, writes: Iterable[int], where: Bits,
    before: Bits, bits: int,
) -> Bits:
    """Value of the row *where* after the *writes* of one clock edge."""
    value, width = before, memory.width
    for number in writes:
        address = _address(top, side, name, "WR_ADDR", memory, number, bits)
        data, enable = (
            part_of(top.port(side, f"\\{port}:{name}"), number * width, width)
            for port in ("WR_DATA", "WR_EN")
        )
        kept = top.cell("and", width, a=value, b=top.cell("not", width, a=enable))
        new = top.cell("or", width, a=kept, b=top.cell("and", width, a=data, b=enable))
        here = top.cell("eq", 1, a=address, b=where)
        value = top.cell("mux", width, a=value, b=new, s=here)
    return value
