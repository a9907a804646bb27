# SPDX-License-Identifier: Apache-2.0
"""Ports of memories as C++ on rows of 64-bit words.

A row wider than a word is an array. Reads outside a memory give zero and writes there do nothing.
Reads with a clock see a row as it was before the edge, except for what write ports do at the same
time to which they are transparent; of two writes to one place the later port wins.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from gen.native.cells import UnsupportedError
from gen.native.netlist import Bit, Cell, NativeMemory, number
from gen.native.words import WORD, Nets, Signal, WordNode, literal, next_state, nonzero

__all__ = ["MemoryPorts", "checked_width"]


@dataclass
class MemoryPorts:
    """A memory of a module, its ports, and the code for them.

    Members
    -------
    name:
        Name of the array in the generated class.
    """

    memory: NativeMemory
    name: str
    writes: list[Cell] = field(default_factory=list)
    reads: list[tuple[Cell, list[Signal]]] = field(default_factory=list)
    """Read ports with a clock, and the registers that they fill."""
    inits: list[Cell] = field(default_factory=list)

    @property
    def words(self) -> int:
        """Words of a row."""
        return -(-self.memory.width // WORD)

    def initial_rows(self) -> Iterator[tuple[int, int]]:
        """Rows that are not zero initially, and their values."""
        width = self.memory.width
        rows: dict[int, int] = {}
        for cell in sorted(self.inits, key=lambda cell: number(cell.parameters["PRIORITY"])):
            first = _constant(cell.connections["ADDR"])
            data = _constant(cell.connections["DATA"])
            enabled = _constant(cell.connections.get("EN", [1] * width))
            for index in range(number(cell.parameters["WORDS"])):
                row, old = first + index - self.memory.offset, rows.get(first + index, 0)
                new = data >> index * width & (1 << width) - 1
                rows[row] = old & ~enabled | new & enabled
        return ((row, value) for row, value in sorted(rows.items()) if value)

    def _address(self, bits: list[Bit], nets: Nets, uses: set[Signal]) -> tuple[str, str | None]:
        """The row of an address, and a test that the row exists; None if that cannot fail."""
        if len(bits) > WORD:
            raise UnsupportedError(f"an address of {len(bits)} bits")
        row = f"word({nets.read(bits, uses)})"
        if self.memory.offset:
            row = f"({row} - {self.memory.offset})"
        inside = self.memory.offset == 0 and 1 << len(bits) <= self.memory.size
        return row, None if inside else f"word({row} < {self.memory.size})"

    def _read(self, row: str, index: int, test: str | None) -> str:
        """Word *index* of the row that the expression *row* gives; zero if a *test* fails."""
        return f"{self.name}.{'read' if test is None else 'checked_read'}({row}, {index})"

    def asynchronous(self, cell: Cell, nets: Nets, results: list[Signal]) -> list[WordNode]:
        """The node of a read without a clock."""
        uses: set[Signal] = set()
        row, test = self._address(cell.connections["ADDR"], nets, uses)
        values = [self._read(row, index, test) for index in range(len(results))]
        return [WordNode(results, values, uses, source=cell.name)]

    def read_at_edge(self, nets: Nets, uses: set[Signal]) -> list[str]:
        """Statements that fill the next state of the registers of reads with a clock."""
        lines = []
        for cell, registers in self.reads:
            row, test = self._address(cell.connections["ADDR"], nets, uses)
            enable = nets.read(cell.connections["EN"], uses)
            lines.append(f"{{ const word row = {row}, on = {enable};")
            for index, register in enumerate(registers):
                lines.append(f"word now{index} = {register.name};")
                read = self._read("row", index, test)
                lines.append(f"if (any(on)) now{index} = choose(on, {read}, now{index});")
            transparent = number(cell.parameters["TRANSPARENCY_MASK"])
            when = "on" if test is None else f"on & word(row < {self.memory.size})"
            for port, write in enumerate(self.writes):
                if transparent >> port & 1:
                    lines += self._seen_at_once(write, when, nets, uses)
            lines += self._reset(cell, registers, nets, uses)
            for index, register in enumerate(registers):
                lines.append(f"{next_state(register)} = now{index};")
            lines.append("}")
        return lines

    def _seen_at_once(
        self, write: Cell, when: str, nets: Nets, uses: set[Signal]
    ) -> list[str]:
        row, _ = self._address(write.connections["ADDR"], nets, uses)
        data = nets.words(write.connections["DATA"], uses)
        enables = nets.words(write.connections["EN"], uses)
        merged = " ".join(
            f"now{index} = choose(same, (now{index} & ~word({enable})) | ({value} & {enable}), "
            f"now{index});"
            for index, (value, enable) in enumerate(zip(data, enables, strict=True))
        )
        same = f"const word same = {when} & word(row == {row});"
        return [f"{{ {same} if (any(same)) {{ {merged} }} }}"]

    def _reset(
        self, cell: Cell, registers: list[Signal], nets: Nets, uses: set[Signal]
    ) -> list[str]:
        if any(cell.connections.get("ARST", [])):
            raise UnsupportedError("a memory port with an asynchronous reset")
        reset = cell.connections.get("SRST", [])
        if not any(reset):
            return []
        value = number(cell.parameters["SRST_VALUE"])
        when = nets.read(reset, uses) + (" & on" if cell.flag("CE_OVER_SRST") else "")
        values = [
            literal(value >> index * WORD & (1 << register.width) - 1)
            for index, register in enumerate(registers)
        ]
        chosen = " ".join(
            f"now{index} = choose(reset, {word}, now{index});" for index, word in enumerate(values)
        )
        return [f"{{ const word reset = {when}; if (any(reset)) {{ {chosen} }} }}"]

    def write_at_edge(self, nets: Nets, uses: set[Signal]) -> list[str]:
        """Statements that write; they come after all reads."""
        lines = []
        for cell in self.writes:
            row, test = self._address(cell.connections["ADDR"], nets, uses)
            enable_bits = cell.connections["EN"]
            enables = nets.words(enable_bits, uses)
            data = nets.words(cell.connections["DATA"], uses)
            whole = len(set(enable_bits)) == 1
            on = nets.read(enable_bits[:1], uses) if whole else nonzero(enables)
            inside = f" & {test}" if test else ""
            lines.append(f"{{ const word on = {on}{inside}; if (any(on)) {{")
            lines.append(f"const word row = {row};")
            for index, (value, enable) in enumerate(zip(data, enables, strict=True)):
                masks = "" if whole else f", {enable}"
                lines.append(f"changed |= {self.name}.write(on, row, {index}, {value}{masks});")
            lines.append("} }")
        return lines


def _constant(bits: list[Bit]) -> int:
    if any(bit > 1 for bit in bits):
        raise UnsupportedError("an initial value that is not constant")
    return sum(bit << index for index, bit in enumerate(bits))


def checked_width(memory: NativeMemory, cell: Cell) -> None:
    """Refuse a port that is wider than a row."""
    if number(cell.parameters["WIDTH"]) != memory.width:
        raise UnsupportedError("a memory port wider than its memory")

