# SPDX-License-Identifier: Apache-2.0
"""Record of a design's text: the part of the netlist behind each instance, and its names.

The proof in `gen.sv.proof` takes this as a hint: it compares what the record matches, and checks
against the netlist that the record fits it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gen.rtlil import CLOCK, RESET, RESET_LOW
from gen.sv import ir
from gen.sv.context import Written
from gen.sv.names import plain
from gen.sv.scope import Scope, assigned
from gen.sv.statements import unused_bits

__all__ = ["Names", "RecordPart", "RecordedRegister", "recorded"]

Names = tuple[tuple[str | None, int], ...]
"""The signals of a port, the first one in the lowest bits: name in a module of the netlist (None if
it has none there) and width.
"""


@dataclass(frozen=True, kw_only=True)
class RecordedRegister:
    """A register: its name in the module of the netlist and in that of the text.

    `part` has first bit and width of the register bits in a signal that has other bits too;
    `bits` those of an element in its array.
    """

    reference: str
    name: str
    part: tuple[int, int] | None = None
    bits: tuple[int, int] | None = None


@dataclass(frozen=True, kw_only=True)
class RecordPart:
    """A module of the netlist, and the instance that the text has of it.

    Attributes
    ----------
    path:
        Path in the netlist, from the top on.
    name:
        Name of the instance in its parent.
    ports:
        Ports of the module in the text, with the signals as the netlist of the module names them.
    outside:
        The same ports, with the signals as the netlist of the parent names them.
    registers, memories, boxes:
        Names in the netlist and in the text. Boxes are instances of modules that are not written
        here.
    state:
        Number of registers and rows of memories, also of those without a name in the text.
    """

    path: tuple[str, ...]
    name: str
    ports: Mapping[str, Names]
    outside: Mapping[str, Names]
    registers: tuple[RecordedRegister, ...]
    memories: Mapping[str, str]
    boxes: Mapping[str, str]
    state: int
    children: tuple[RecordPart, ...]

    def all(self) -> Iterator[RecordPart]:
        """This part, then those inside of it."""
        yield self
        for child in self.children:
            yield from child.all()


def recorded(
    top: ir.Module, written: Mapping[ir.Module, Written], scope: Scope, *, reset_low: bool = False
) -> RecordPart:
    """The record of a design; *written* has the modules that the text has."""

    def part(module: ir.Module, name: str) -> RecordPart:
        own = written[module]
        ports = _ports(module, own)
        outer = module.parent
        memories = scope.memories(module)
        inside = {port: _names(module, signals) for port, signals in ports.items()}
        if module is top and reset_low and RESET in inside:
            del inside[RESET]
            inside[RESET_LOW] = ((RESET_LOW, 1),)
        return RecordPart(
            path=module.path, name=name, ports=inside,
            outside={port: _names(outer, signals) for port, signals in ports.items()}
            if outer is not None else {},
            registers=tuple(_registers(module, own)),
            memories={memory.name: own.arrays[memory] for memory in memories},
            boxes={box.name: called for box, called in own.boxes.items()},
            state=len(assigned(module.sync).keys() & scope.live) + sum(
                memory.depth + sum(port.clocked for port in memory.reads) for memory in memories
            ),
            children=tuple(
                part(child, own.instances[child]) for child in module.children if child in written
            ),
        )

    return part(top, top.path[0])


def _ports(module: ir.Module, own: Written) -> dict[str, tuple[ir.Var, ...]]:
    clocks = {
        name: var for name in own.clocked
        if (var := module.clk if name == CLOCK else module.rst) is not None
    }
    ports = {plain(name): signals for name, signals in own.ports}
    return {name: (var,) for name, var in clocks.items()} | ports


def _names(module: ir.Module, signals: tuple[ir.Var, ...]) -> Names:
    return tuple((module.reference_names.get(var), var.width) for var in signals)


def _registers(module: ir.Module, own: Written) -> Iterator[RecordedRegister]:
    for var, (written, start) in own.registers.items():
        name = plain(written)
        reference = module.reference_names.get(var)
        if reference is None:
            continue
        clocked = own.clocked_bits.get(var)
        if clocked is not None:
            for part in unused_bits(var, ~clocked):
                yield RecordedRegister(reference=reference, name=name, part=part)
        else:
            bits = None if start is None else (start, var.width)
            yield RecordedRegister(reference=reference, name=name, bits=bits)
