# SPDX-License-Identifier: Apache-2.0
"""Modules of RTLIL text, each separate from its submodules.

A module that is *opened* has ports in place of each instance of another one: inputs for the outputs
of the instance, and outputs for its inputs.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

__all__ = [
    "Bits",
    "Constant",
    "NetlistCell",
    "NetlistModule",
    "NetlistPort",
    "NetlistSlice",
    "OpenError",
    "joined",
    "part_of",
    "ported",
    "read_modules",
    "said",
    "through",
    "width_of",
]


class OpenError(Exception):
    """A module has an instance that cannot be taken out; says which and why."""


@dataclass(frozen=True)
class NetlistSlice:
    """*width* bits of a wire from bit *low* on."""

    wire: str
    low: int
    width: int


@dataclass(frozen=True)
class Constant:
    """Bits that are known, the most significant one first."""

    bits: str

    @property
    def width(self) -> int:
        """Number of bits."""
        return len(self.bits)


Bits: TypeAlias = tuple[NetlistSlice | Constant, ...]
"""Bits of a module side by side, the lowest first."""


@dataclass(frozen=True)
class NetlistPort:
    """A port of a module: its width, and which way it goes (``input`` or ``output``)."""

    width: int
    way: str


@dataclass(frozen=True)
class NetlistCell:
    """An instance: its type, its name, what is connected to its ports, and its parameters."""

    type: str
    name: str
    connections: Mapping[str, str]
    parameters: tuple[str, ...]


@dataclass(frozen=True)
class _Parts:
    """Contents of a module; `rest` are the lines outside of the cells in `cells` and `state`."""

    wires: dict[str, NetlistPort]
    cells: list[NetlistCell]
    state: list[tuple[NetlistCell, list[str]]]
    connects: list[tuple[str, str]]
    starts: dict[str, str]
    rest: list[str]


_INSTANCE = re.compile(r"  cell (?:\\|\$paramod)")
_STATE = re.compile(r"  cell \$(?:\w*dff\w*|ff|\w*dlatch\w*|sr|mem\w*|check) ")
_WIDTH = re.compile(r" width (\d+) ")
_WAY = re.compile(r" (input|output|inout) \d+ ")
_PORT_LINE = re.compile(r"  wire .*\b(?:input|output) \d+ ")
_INVENTED = re.compile(r"port\$\d+\$\d+")


def ported(instance: str, port: str) -> str:
    """The port that an opened module has for a port of an instance."""
    return f"\\{instance[1:]}:{port[1:]}"


class NetlistModule:
    """A module of a file of RTLIL, names as they stand there, with ``\\`` or ``$`` before them."""

    def __init__(self, name: str, lines: list[str]) -> None:
        self.name = name
        self._lines = lines

    @cached_property
    def _parts(self) -> _Parts:
        parts = _Parts({}, [], [], [], {}, [])
        wires, cells, connects, rest = parts.wires, parts.cells, parts.connects, parts.rest
        lines = iter(self._lines)
        start = ""
        for line in lines:
            if line.startswith("  attribute \\init "):
                start = line.rpartition(" ")[2]
            if line.startswith("  wire "):
                name = line.rpartition(" ")[2]
                width, way = _WIDTH.search(line), _WAY.search(line)
                wires[name] = NetlistPort(int(width[1]) if width else 1, way[1] if way else "")
                if start:
                    parts.starts[name] = start
                start = ""
            elif line.startswith("  cell ") and (
                _INSTANCE.match(line) or _STATE.match(line)
            ):
                _, kind, name = line.split()
                kept = [line]
                inside: dict[str, str] = {}
                parameters = []
                for inner in lines:
                    kept.append(inner)
                    if inner == "  end":
                        break
                    word, _, said = inner.strip().partition(" ")
                    if word == "connect":
                        port, _, value = said.partition(" ")
                        inside[port] = value
                    elif word == "parameter":
                        parameters.append(said)
                cell = NetlistCell(kind, name, inside, tuple(parameters))
                if _INSTANCE.match(line):
                    cells.append(cell)
                else:
                    parts.state.append((cell, kept))
                continue
            elif line.startswith("  connect "):
                left, right = _two(line[len("  connect ") :])
                connects.append((left, right))
            rest.append(line)
        return parts

    @property
    def wires(self) -> Mapping[str, NetlistPort]:
        """All wires; those that are no ports have an empty `way`."""
        return self._parts.wires

    @cached_property
    def ports(self) -> Mapping[str, NetlistPort]:
        """Those wires that are ports."""
        return {name: wire for name, wire in self.wires.items() if wire.way}

    @property
    def cells(self) -> list[NetlistCell]:
        """Instances of other modules."""
        return self._parts.cells

    @property
    def state(self) -> list[NetlistCell]:
        """Registers, latches and memories."""
        return [cell for cell, _ in self._parts.state]

    @property
    def starts(self) -> Mapping[str, str]:
        """Initial values of wires as they are written."""
        return self._parts.starts

    @property
    def logic(self) -> list[str]:
        """The lines of everything but instances and what holds state."""
        return self._parts.rest

    @cached_property
    def _aliases(self) -> dict[str, list[tuple[int, int, Bits]]]:
        """Wire -> what its bits are connected to: first bit, width, and bits."""
        found: dict[str, list[tuple[int, int, Bits]]] = defaultdict(list)
        for left, right in self._parts.connects:
            value = self.bits(right)
            at = 0
            for piece in self.bits(left):
                if isinstance(piece, NetlistSlice):
                    part = part_of(value, at, piece.width)
                    found[piece.wire].append((piece.low, piece.width, part))
                at += piece.width
        return found

    def bits(self, text: str) -> Bits:
        """The bits that *text* stands for."""
        pieces: list[NetlistSlice | Constant] = []
        words = text.replace("{", " ").replace("}", " ").split() if text[0] == "{" else text.split()
        for word in words:
            if word[0] == "[" and pieces:
                whole = pieces[-1]
                assert isinstance(whole, NetlistSlice)
                high, _, low = word[1:-1].partition(":")
                first = int(low or high)
                pieces[-1] = NetlistSlice(whole.wire, first, int(high) - first + 1)
            elif "'" in word and word[0].isdigit():
                width, _, value = word.partition("'")
                pieces.append(Constant(value.rjust(int(width), value[:1] if value[:1] in "xz"
                                                   else "0")))
            elif word.lstrip("-").isdigit():
                pieces.append(Constant(format(int(word) & 0xFFFFFFFF, "032b")))
            else:
                pieces.append(NetlistSlice(word, 0, self.wires[word].width))
        return tuple(reversed(pieces))

    def source(self, bits: Bits) -> Bits:
        """The sources of *bits*, found through the connections of the module."""
        made: list[NetlistSlice | Constant] = []
        for piece in bits:
            if isinstance(piece, Constant):
                made.append(piece)
                continue
            at, end = piece.low, piece.low + piece.width
            while at < end:
                stop = end
                found: Bits | None = None
                for low, width, value in self._aliases.get(piece.wire, ()):
                    if low <= at < low + width:
                        stop = min(end, low + width)
                        found = part_of(value, at - low, stop - at)
                        break
                    if at < low < stop:
                        stop = low
                if found is None:
                    made.append(NetlistSlice(piece.wire, at, stop - at))
                else:
                    made += self.source(found)
                at = stop
        return joined(made)

    @cached_property
    def shown(self) -> Mapping[str, list[tuple[int, int, str, int]]]:
        """Wire -> its bits that are at ports: first bit, width, port and first bit of that."""
        found: dict[str, list[tuple[int, int, str, int]]] = defaultdict(list)
        for port, wire in self.ports.items():
            at = 0
            for piece in self.source((NetlistSlice(port, 0, wire.width),)):
                if isinstance(piece, NetlistSlice):
                    found[piece.wire].append((piece.low, piece.width, port, at))
                at += piece.width
        return found

    def opened(
        self, known: Callable[[NetlistCell], Mapping[str, NetlistPort] | None]
    ) -> list[str]:
        """Lines of the module, with ports in place of its instances; *known* returns the ports of
        an instance. Names that a tool made are renumbered in the order of their appearance.
        """
        lines = [*self._parts.rest, *(line for _, kept in self._parts.state for line in kept)]
        boxes: list[str] = []
        for cell in self.cells:
            ports = known(cell)
            if ports is None:
                raise OpenError(f"{self.name[1:]}: {cell.name[1:]} is of an unknown module "
                                 f"{cell.type[1:]}")
            for port, value in cell.connections.items():
                if port not in ports:
                    raise OpenError(f"{self.name[1:]}: {cell.name[1:]} has no port {port[1:]}")
                out = ports[port].way == "output"
                name = ported(cell.name, port)
                bits = self.bits(value) if value else ()
                width = sum(piece.width for piece in bits)
                if width != ports[port].width:
                    raise OpenError(f"{self.name[1:]}: port {port[1:]} of {cell.name[1:]} has "
                                     f"{ports[port].width} bits, not {width}")
                boxes.append(f"  wire width {width} {'input' if out else 'output'} 0 {name}")
                lines.append(f"  connect {value} {name}" if out else f"  connect {name} {value}")
        return _canonical(_sorted_ports([*boxes, *lines]))


def _two(text: str) -> tuple[str, str]:
    """The two sides of a connection."""
    if text[0] == "{":
        end = text.index("}") + 1
    else:
        end = text.index(" ")
        if text[end + 1] == "[":
            end = text.index("]", end) + 1
    return text[:end], text[end + 1 :]


def width_of(bits: Bits) -> int:
    """Total number of bits."""
    return sum(piece.width for piece in bits)


def said(bits: Bits) -> str:
    """*bits* as RTLIL writes them."""
    words = []
    for piece in reversed(bits):
        if isinstance(piece, Constant):
            words.append(f"{piece.width}'{piece.bits}")
        else:
            words.append(f"{piece.wire} [{piece.low + piece.width - 1}:{piece.low}]")
    return words[0] if len(words) == 1 else "{ " + " ".join(words) + " }"


def part_of(bits: Bits, start: int, width: int) -> Bits:
    """*width* of *bits* from bit *start* on."""
    made: list[NetlistSlice | Constant] = []
    at = 0
    for piece in bits:
        low, high = max(start - at, 0), min(start + width - at, piece.width)
        if low < high:
            if isinstance(piece, NetlistSlice):
                made.append(NetlistSlice(piece.wire, piece.low + low, high - low))
            else:
                made.append(Constant(piece.bits[piece.width - high : piece.width - low]))
        at += piece.width
    return tuple(made)


def joined(bits: Iterable[NetlistSlice | Constant]) -> Bits:
    """*bits* with adjacent pieces merged."""
    made: list[NetlistSlice | Constant] = []
    for piece in bits:
        last = made[-1] if made else None
        if isinstance(last, Constant) and isinstance(piece, Constant):
            made[-1] = Constant(piece.bits + last.bits)
        elif isinstance(last, NetlistSlice) and isinstance(piece, NetlistSlice) and (
            last.wire == piece.wire and last.low + last.width == piece.low
        ):
            made[-1] = NetlistSlice(last.wire, last.low, last.width + piece.width)
        else:
            made.append(piece)
    return tuple(made)


def through(
    inner: NetlistModule, cell: NetlistCell, outer: NetlistModule, bits: Bits
) -> Bits | None:
    """*bits* of *inner* as *outer*, whose *cell* it is, sees them; None if it does not."""
    made: list[NetlistSlice | Constant] = []
    for piece in inner.source(bits):
        if isinstance(piece, Constant):
            made.append(piece)
            continue
        at, end = piece.low, piece.low + piece.width
        while at < end:
            for low, width, port, first in inner.shown.get(piece.wire, ()):
                if low <= at < low + width and port in cell.connections:
                    size = min(end, low + width) - at
                    outside = outer.bits(cell.connections[port])
                    made += outer.source(part_of(outside, first + at - low, size))
                    at += size
                    break
            else:
                return None
    return joined(made)


def _sorted_ports(lines: list[str]) -> list[str]:
    """*lines* with the ports first, by name: their order has no meaning.

    Invented names have no meaning; such ports keep their order, before the others.
    """
    ports = []
    rest = []
    attributes: list[str] = []
    for line in lines:
        if line.startswith("  attribute "):
            if line.startswith("  attribute \\init "):
                attributes.append(line)
            continue
        if _PORT_LINE.match(line):
            ports.append((line, attributes))
        else:
            rest += [*attributes, line]
        attributes = []
    ports.sort(key=lambda port: "" if _INVENTED.search(port[0]) else port[0].split()[-1])
    numbered = []
    for number, (line, above) in enumerate(ports, 1):
        line = re.sub(r"(input|output) \d+ +", rf"\1 {number} ", line)
        numbered += [*above, line]
    return [*numbered, *rest]


_MADE = re.compile(r"(?<= )\$\S+|port\$\d+\$\d+")


def _canonical(lines: list[str]) -> list[str]:
    """*lines* with the names that a tool made renumbered in the order of their appearance, and no
    attributes but those of initial values.
    """
    names: dict[str, str] = {}

    def name(match: re.Match[str]) -> str:
        old = match[0]
        kind = "\\$" if old[0] == "$" else "port$"
        return names.setdefault(old, f"{kind[-1]}{len(names)}" if kind == "\\$"
                                else f"port${len(names)}")

    made = []
    for line in lines:
        if line.startswith("    attribute "):
            continue
        if line.startswith("  cell "):
            head, kind, own = line[:7], *line[7:].split(" ")
            made.append(f"{head}{kind}{_MADE.sub(name, ' ' + own)}")
        elif '"' in line or line.startswith("    parameter "):
            made.append(line if "$" not in line else _MADE.sub(name, line))
        else:
            made.append(_MADE.sub(name, line))
    return made


def read_modules(text: str) -> dict[str, NetlistModule]:
    """The modules of a file, by name."""
    found: dict[str, NetlistModule] = {}
    name = ""
    lines: list[str] = []
    for line in text.split("\n"):
        if line.startswith("module "):
            name, lines = line[7:], []
        elif line == "end":
            found[name] = NetlistModule(name, lines)
            name = ""
        elif name and line:
            lines.append(f"  {line}" if line.startswith("connect ") else line)
    return found
