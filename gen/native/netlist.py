# SPDX-License-Identifier: Apache-2.0
"""A netlist as `write_json` of Yosys writes it, with bits as integers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

__all__ = ["Bit", "Cell", "NativeMemory", "NetPort", "Netlist", "number", "read_netlists"]

Bit: TypeAlias = int
"""0 and 1 are the constants, all others name a net of the module. Undefined bits are 0."""


@dataclass(frozen=True)
class NetPort:
    """A port of a module: its bits, least significant first."""

    name: str
    is_input: bool
    bits: list[Bit]


@dataclass(frozen=True)
class Cell:
    """An operation, a register, a memory port or an instance of another module.

    Members
    -------
    parameters:
        As Yosys writes them; `number` reads those that are numbers.
    connections:
        Port -> bits, least significant first.
    """

    name: str
    type: str
    parameters: dict[str, Any]
    connections: dict[str, list[Bit]]

    def flag(self, name: str) -> bool:
        """Return True if the parameter *name* exists and is not zero."""
        return number(self.parameters.get(name, 0)) != 0


@dataclass(frozen=True)
class NativeMemory:
    """*size* rows of *width* bits; the first has the address *offset*."""

    name: str
    width: int
    size: int
    offset: int


@dataclass(frozen=True)
class Netlist:
    """One module.

    Members
    -------
    names:
        Bit -> name of a wire with a public name, and the position of the bit in it.
    initial:
        Bits whose initial value is 1.
    """

    name: str
    ports: dict[str, NetPort]
    cells: list[Cell]
    memories: dict[str, NativeMemory]
    names: dict[Bit, tuple[str, int]] = field(default_factory=dict)
    initial: frozenset[Bit] = frozenset()


def number(value: str | int) -> int:
    """A parameter as a number; undefined bits are 0, signs are ignored."""
    if isinstance(value, int):
        return value
    return int("".join("1" if bit == "1" else "0" for bit in value) or "0", 2)


def _bits(values: Iterable[int | str]) -> list[Bit]:
    return [value if isinstance(value, int) else int(value == "1") for value in values]


def _memories(module: dict[str, Any]) -> dict[str, NativeMemory]:
    return {
        name: NativeMemory(name, item["width"], item["size"], item["start_offset"])
        for name, item in module.get("memories", {}).items()
    }


def _initial(wires: Iterable[dict[str, Any]]) -> frozenset[Bit]:
    ones: set[int | str] = set()
    for wire in wires:
        value: Sequence[str] = wire["attributes"].get("init", "")
        ones.update(
            bit for bit, one in zip(wire["bits"], reversed(value), strict=False) if one == "1"
        )
    return frozenset(bit for bit in ones if isinstance(bit, int))


def _names(wires: dict[str, dict[str, Any]]) -> dict[Bit, tuple[str, int]]:
    names: dict[Bit, tuple[str, int]] = {}
    # Of several names the one with the fewest parts, which is the nearest to the top.
    for name in sorted(wires, key=lambda name: (name.count("."), len(name), name)):
        if not wires[name]["hide_name"]:
            for place, bit in enumerate(wires[name]["bits"]):
                if isinstance(bit, int):
                    names.setdefault(bit, (name, place))
    return names


def read_netlists(path: Path) -> dict[str, Netlist]:
    """The modules in the JSON file *path* by name."""
    netlists = {}
    for name, module in json.loads(path.read_text())["modules"].items():
        netlists[name] = Netlist(
            name,
            {
                port: NetPort(port, item["direction"] == "input", _bits(item["bits"]))
                for port, item in module["ports"].items()
            },
            [
                Cell(
                    label,
                    item["type"],
                    item.get("parameters", {}),
                    {port: _bits(bits) for port, bits in item["connections"].items()},
                )
                for label, item in module["cells"].items()
                if item["type"] != "$scopeinfo"
            ],
            _memories(module),
            _names(module["netnames"]),
            _initial(module["netnames"].values()),
        )
    return netlists
