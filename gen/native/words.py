# SPDX-License-Identifier: Apache-2.0
"""Signals of at most 64 bits, and C++ expressions that gather bits from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from gen.native.netlist import Bit

__all__ = [
    "WORD",
    "Nets",
    "Place",
    "Signal",
    "WordChoice",
    "WordNode",
    "chosen",
    "extended",
    "joined",
    "literal",
    "masked",
    "next_state",
    "nonzero",
]

WORD = 64
"""Bits of the machine words that all values are cut into."""


@dataclass(eq=False, slots=True)
class Signal:
    """A value of up to 64 bits in the generated class.

    Members
    -------
    name:
        The C++ expression that reads it.
    kind:
        Where it comes from: an input of the module, a register, an operation, or a child.
    ports:
        Inputs of the module that it depends on within a cycle; empty until that is known.
    node:
        Node that computes it, if it is computed.
    member:
        True if it outlives the function that computes it.
    initial:
        Initial value of a register.
    label:
        Name in the source, for comments.
    """

    name: str
    width: int
    kind: Literal["input", "register", "value", "child"]
    ports: frozenset[str] = frozenset()
    node: WordNode | None = None
    member: bool = False
    initial: int = 0
    label: str = ""


@dataclass(eq=False, slots=True)
class WordChoice:
    """The value *when* if *select* is 1, else the *other*; for each the signals that it reads."""

    select: str
    select_uses: set[Signal]
    when: str
    when_uses: set[Signal]
    other: str
    other_uses: set[Signal]

    def node(self, signal: Signal, source: str) -> WordNode:
        """The node that computes *signal* by this choice."""
        uses = self.select_uses | self.when_uses | self.other_uses
        value = f"choose({self.select}, {self.when}, {self.other})"
        return WordNode([signal], [value], uses, source=source, choice=self)


@dataclass(eq=False, slots=True)
class WordNode:
    """A piece of code that computes signals from signals, or acts on a child.

    Members
    -------
    outputs, values:
        Signals, and the expression of each; no values if a child computes them.
    uses:
        Signals that the code reads.
    setup:
        Statements to run before the expressions are evaluated.
    source:
        Name of the cell, child module or port that it comes from.
    after:
        Nodes that must come before this one although no signal says so.
    ports:
        Inputs of the module that it depends on.
    leads_out:
        True if an output of the module depends on it.
    choice:
        The parts of the value, if it is a choice of two by a one-bit select.
    place:
        Index among the nodes of the module, as they were made.
    """

    outputs: list[Signal]
    values: list[str]
    uses: set[Signal]
    setup: list[str] = field(default_factory=list)
    source: str = ""
    after: list[WordNode] = field(default_factory=list)
    ports: frozenset[str] = frozenset()
    leads_out: bool = False
    choice: WordChoice | None = None
    place: int = 0

    def needs(self) -> list[WordNode]:
        """The nodes that come before this one, each once."""
        needs = {signal.node for signal in self.uses if signal.node is not None}
        return sorted(needs.union(self.after), key=lambda node: node.place)


Place: TypeAlias = tuple[Signal, int] | Bit
"""A signal and the position of a bit in it, or a constant."""


def literal(value: int) -> str:
    """*value* as an unsigned 64-bit constant."""
    return f"0x{value:x}ull"


def next_state(register: Signal) -> str:
    """Next state of a register, as an expression that can be assigned."""
    return "next." + register.name.removeprefix("state.")


def masked(expression: str, width: int) -> str:
    """The lowest *width* bits of a 64-bit *expression*."""
    return expression if width >= WORD else f"({expression} & {literal((1 << width) - 1)})"


def chosen(signal: Signal, mask: int) -> str:
    """The bits of *signal* that are in *mask*, at their positions."""
    if mask == (1 << signal.width) - 1:
        return signal.name
    return f"({signal.name} & {literal(mask)})"


def nonzero(words: Sequence[str]) -> str:
    """Expression that is 1 if any of the *words* is not zero, else 0."""
    return f"word(({' | '.join(words)}) != 0)"


def extended(bits: Sequence[Bit], width: int, signed: bool) -> list[Bit]:
    """*bits* cut to *width*, or filled up with the sign or zeros."""
    fill = bits[-1] if signed and bits else 0
    return [*bits[:width], *[fill] * (width - len(bits))]


class Nets:
    """Maps bits of a netlist to signals and positions in them."""

    def __init__(self) -> None:
        self._place: dict[Bit, tuple[Signal, int]] = {}

    def drive(self, bits: Sequence[Bit], signal: Signal, offset: int = 0) -> None:
        """Map *bits* to those of *signal* from *offset* on."""
        for index, bit in enumerate(bits):
            if bit > 1:
                self._place[bit] = (signal, offset + index)

    def tie(self, bit: Bit, constant: Bit) -> None:
        """Tie *bit* to the value of *constant*."""
        self._place[bit] = (_CONSTANTS[constant], 0)

    def driver(self, bit: Bit) -> Place:
        """The signal that *bit* is in and its position there, or its constant value."""
        if bit <= 1:
            return bit
        found = self._place.get(bit)
        if found is None:  # nothing drives it
            return 0
        return int(found[0] is _CONSTANTS[1]) if found[0] in _CONSTANTS else found

    def read(self, bits: Sequence[Bit], uses: set[Signal]) -> str:
        """Up to 64 *bits* as an unsigned expression without higher bits; adds to *uses*."""
        return joined([self.driver(bit) for bit in bits], uses)

    def words(self, bits: Sequence[Bit], uses: set[Signal]) -> list[str]:
        """Any number of *bits* as expressions of 64 each, at least one."""
        cuts = range(0, max(1, len(bits)), WORD)
        return [self.read(bits[start : start + WORD], uses) for start in cuts]

    def parts(
        self, bits: Sequence[Bit], uses: set[Signal]
    ) -> tuple[list[tuple[Signal, int]], list[int]]:
        """The signals that hold *bits*, each with a mask, in no order; and the constants.

        A bit that occurs twice is in two masks. Adds to *uses*.
        """
        masks: dict[Signal, list[int]] = {}
        constants = []
        for place in map(self.driver, bits):
            if isinstance(place, int):
                constants.append(place)
                continue
            signal, mask = place[0], 1 << place[1]
            of_signal = masks.setdefault(signal, [0])
            if of_signal[-1] & mask:
                of_signal.append(0)
            of_signal[-1] |= mask
        uses.update(masks)
        return [(signal, mask) for signal, each in masks.items() for mask in each], constants

    def signed(self, bits: Sequence[Bit], uses: set[Signal]) -> str:
        """Up to 64 *bits* as a signed 64-bit expression."""
        if not bits or len(bits) == WORD:
            return f"sword(word({self.read(bits, uses)}))"
        shift = WORD - len(bits)
        return f"(sword(word({self.read(bits, uses)}) << {shift}) >> {shift})"


_CONSTANTS = (Signal("0", 1, "value"), Signal("1", 1, "value"))


def joined(places: Sequence[Place], uses: set[Signal]) -> str:
    """The bits at up to 64 *places* as an unsigned expression; adds to *uses*."""
    parts: list[str] = []
    constant = 0
    index = 0
    while index < len(places):
        found = places[index]
        if isinstance(found, int):
            constant |= found << index
            index += 1
            continue
        signal, offset = found
        uses.add(signal)
        length, repeats = _run(places, index)
        if repeats > 2:
            part = masked(f"(0 - word({_slice(signal, offset, 1)}))", repeats)
        else:
            part = _slice(signal, offset, length)
        parts.append(f"(word({part}) << {index})" if index else part)
        index += repeats if repeats > 2 else length
    if constant or not parts:
        parts.append(literal(constant))
    return parts[0] if len(parts) == 1 else f"({' | '.join(parts)})"


def _run(places: Sequence[Place], index: int) -> tuple[int, int]:
    """Number of places from *index* on that are consecutive in a signal, and that are equal."""
    found = places[index]
    assert not isinstance(found, int)
    signal, offset = found
    length = repeats = 1
    rest = len(places) - index
    while length < rest and places[index + length] == (signal, offset + length):
        length += 1
    while repeats < rest and places[index + repeats] == found:
        repeats += 1
    return length, repeats


def _slice(signal: Signal, offset: int, length: int) -> str:
    if length == signal.width:
        return signal.name
    if offset + length == signal.width:
        return f"({signal.name} >> {offset})"
    moved = f"{signal.name} >> {offset}" if offset else signal.name
    return f"({moved} & {literal((1 << length) - 1)})"
