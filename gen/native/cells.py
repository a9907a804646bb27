# SPDX-License-Identifier: Apache-2.0
"""Operations of RTLIL as C++ on 64-bit words, one function for each family of cells.

Sizes and signs follow the cell library of Yosys: operands are extended to the result (comparisons:
to each other), as signed numbers only if both are signed. Up to 64 bits an operation is one
expression; beyond, bitwise ones are one expression a word, the others a call into `words.h`.
A division by zero, which RTLIL leaves undefined, gives zero.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gen.native.netlist import Bit, Cell
from gen.native.words import (
    WORD,
    Nets,
    Signal,
    WordChoice,
    WordNode,
    chosen,
    extended,
    literal,
    masked,
    nonzero,
)

__all__ = ["BITWISE", "UnsupportedError", "nodes_of", "result_of"]


class UnsupportedError(Exception):
    """The design uses something that this generator has no code for."""


@dataclass
class _Operation:
    """A cell that is being translated: its operands, its results and the signals read so far."""

    cell: Cell
    nets: Nets
    results: list[Signal]
    label: str

    def __post_init__(self) -> None:
        self.a: list[Bit] = self.cell.connections.get("A", [])
        self.b: list[Bit] = self.cell.connections.get("B", [])
        self.width = sum(signal.width for signal in self.results)
        self.a_signed = self.cell.flag("A_SIGNED")
        self.b_signed = self.cell.flag("B_SIGNED")
        self.signed = self.a_signed and (self.b_signed or "B" not in self.cell.connections)
        self.uses: set[Signal] = set()

    @property
    def size(self) -> int:
        """Words of the result."""
        return -(-self.width // WORD)

    def name(self) -> str:
        return self.cell.type.removeprefix("$")

    def array(self, operand: str, bits: list[Bit], words: int) -> str:
        """A statement that defines *operand* as an array of *words* words."""
        parts = self.nets.words(bits, self.uses)
        parts += ["0"] * (words - len(parts))
        return f"const word {operand}_{self.label}[{words}] = {{{', '.join(parts)}}};"

    def one(self, expression: str) -> list[WordNode]:
        """The node of a result of one word; further words are zero."""
        values = [masked(expression, self.results[0].width), *["0"] * (len(self.results) - 1)]
        return [WordNode(self.results, values, self.uses, source=self.cell.name)]

    def truth(self, expression: str) -> list[WordNode]:
        """The node of an expression that is 0 or 1."""
        return [WordNode(self.results, [expression, *["0"] * (len(self.results) - 1)], self.uses,
                     source=self.cell.name)]

    def any(self, bits: list[Bit]) -> str:
        """Expression that is 1 if any of the *bits* is 1, else 0."""
        parts, constants = self.nets.parts(bits, self.uses)
        if 1 in constants or not parts:
            return literal(int(1 in constants))
        if len(bits) == 1:
            return f"word({self.nets.read(bits, self.uses)})"
        # Repeated bits count once.
        return nonzero(list(dict.fromkeys(chosen(signal, mask) for signal, mask in parts)))

    def called(self, function: str, operands: list[tuple[str, list[Bit]]], size: int,
               *more: str) -> list[WordNode]:
        """The node of a *function* of `words.h` on arrays of *size* words."""
        setup = [self.array(name, bits, size) for name, bits in operands]
        setup.append(f"word y_{self.label}[{size}];")
        arguments = [f"y_{self.label}", *[f"{name}_{self.label}" for name, _ in operands], *more]
        setup.append(f"{function}<{size}>({', '.join(arguments)});")
        values = [
            masked(f"y_{self.label}[{index}]", signal.width)
            for index, signal in enumerate(self.results)
        ]
        return [WordNode(self.results, values, self.uses, setup, source=self.cell.name)]


def result_of(cell: Cell) -> str | None:
    """The port that an operation drives; None if *cell* is not a known operation."""
    return "Y" if cell.type in _FAMILIES else None


def nodes_of(cell: Cell, nets: Nets, results: list[Signal], label: str) -> list[WordNode]:
    """The nodes that compute *results*, the words of the cell's output; *label* is unique."""
    return _FAMILIES[cell.type](_Operation(cell, nets, results, label)) if results else []


_SIGNS = {"$and": "&", "$or": "|", "$xor": "^", "$xnor": "^"}


def _bitwise(o: _Operation) -> list[WordNode]:
    """Word by word: each node depends only on the bits that it really needs."""
    nodes = []
    kind, start = o.cell.type, 0
    a, b = extended(o.a, o.width, o.signed), extended(o.b, o.width, o.signed)
    for signal in o.results:
        o.uses = set()
        stop = start + signal.width
        value = o.nets.read(a[start:stop], o.uses)
        if kind in _SIGNS:
            value = f"({value} {_SIGNS[kind]} {o.nets.read(b[start:stop], o.uses)})"
        if kind in ("$not", "$xnor"):
            value = f"({value} ^ {literal((1 << signal.width) - 1)})"
        nodes.append(WordNode([signal], [value], o.uses, source=o.cell.name))
        start = stop
    return nodes


def _chosen(o: _Operation) -> list[WordNode]:
    """A two-way choice for each select, word by word; the lowest select wins."""
    nodes = []
    selects = o.cell.connections["S"]
    start = 0
    for result in o.results:
        own = slice(start, start + result.width)
        start += result.width
        other_uses: set[Signal] = set()
        other = o.nets.read(o.a[own], other_uses)
        for index in reversed(range(len(selects))):
            name = f"{result.name}_{index}"
            signal = Signal(name, result.width, "value") if index else result
            select_uses: set[Signal] = set()
            when_uses: set[Signal] = set()
            select = o.nets.read([selects[index]], select_uses)
            when = o.nets.read(o.b[index * o.width :][own], when_uses)
            choice = WordChoice(select, select_uses, when, when_uses, other, other_uses)
            nodes.append(choice.node(signal, o.cell.name))
            other, other_uses = signal.name, {signal}
    return nodes


def _reduce(o: _Operation) -> list[WordNode]:
    """Reductions: the order of bits does not matter, so they stay where they are in signals."""
    if o.cell.type == "$reduce_and":
        parts, constants = o.nets.parts(o.a, o.uses)
        tests = [
            f"word({chosen(signal, mask)} == {literal(mask)})" if mask != 1
            else f"word({chosen(signal, mask)})"
            for signal, mask in parts
        ]
        return o.truth("0" if 0 in constants else f"({' & '.join(tests) or '1'})")
    if o.cell.type in ("$reduce_xor", "$reduce_xnor"):
        parts, constants = o.nets.parts(o.a, o.uses)
        odd = f"parity({' ^ '.join(chosen(*part) for part in parts) or '0'})"
        inverted = (sum(constants) + (o.cell.type == "$reduce_xnor")) % 2
        return o.truth(f"({odd} ^ 1)" if inverted else odd)
    return o.truth(o.any(o.a))


def _logic(o: _Operation) -> list[WordNode]:
    a = o.any(o.a)
    if o.cell.type == "$logic_not":
        return o.truth(f"({a} ^ 1)")
    return o.truth(f"({a} {'&' if o.cell.type == '$logic_and' else '|'} {o.any(o.b)})")


_COMPARISONS = {
    "$eq": "==", "$eqx": "==", "$ne": "!=", "$nex": "!=",
    "$lt": "<", "$le": "<=", "$gt": ">", "$ge": ">=",
}  # fmt: skip


def _compare(o: _Operation) -> list[WordNode]:
    sign = _COMPARISONS[o.cell.type]
    width = max(len(o.a), len(o.b))
    if width == 1 and sign in ("==", "!="):
        differs = f"({o.nets.read(o.a, o.uses)} ^ {o.nets.read(o.b, o.uses)})"
        return o.truth(differs if sign == "!=" else f"({differs} ^ 1)")
    if width <= WORD:
        read = o.nets.signed if o.signed else o.nets.read
        left, right = read(o.a, o.uses), read(o.b, o.uses)
        if not o.signed:
            left, right = f"word({left})", f"word({right})"
        return o.truth(f"word({left} {sign} {right})")
    size = -(-width // WORD)
    a = extended(o.a, size * WORD, o.signed)
    b = extended(o.b, size * WORD, o.signed)
    if sign in ("==", "!="):
        pairs = zip(o.nets.words(a, o.uses), o.nets.words(b, o.uses), strict=True)
        differs = nonzero([f"({left} ^ {right})" for left, right in pairs])
        return o.truth(differs if sign == "!=" else f"({differs} ^ 1)")
    function = "less_signed" if o.signed else "less"
    operands = [("b", b), ("a", a)] if sign in (">", "<=") else [("a", a), ("b", b)]
    setup = [o.array(name, bits, size) for name, bits in operands]
    less = f"word({function}<{size}>({operands[0][0]}_{o.label}, {operands[1][0]}_{o.label}))"
    (node,) = o.truth(less if sign in ("<", ">") else f"({less} ^ 1)")
    node.setup = setup
    return [node]


def _arithmetic(o: _Operation) -> list[WordNode]:
    """Sums, differences and products: the lowest bits depend on the lowest bits only."""
    name = o.name()
    a, b = extended(o.a, o.width, o.signed), extended(o.b, o.width, o.signed)
    if o.size > 1:
        operands = [("a", a)] if name == "neg" else [("a", a), ("b", b)]
        return o.called(name, operands, o.size)

    def read(bits: list[Bit]) -> str:
        short = bits[: o.width]
        if o.signed and len(short) < o.width:
            return f"word({o.nets.signed(short, o.uses)})"
        return f"word({o.nets.read(short, o.uses)})"

    if name == "neg":
        return o.one(f"(0 - {read(o.a)})")
    sign = {"add": "+", "sub": "-", "mul": "*"}[name]
    return o.one(f"({read(o.a)} {sign} {read(o.b)})")


def _division(o: _Operation) -> list[WordNode]:
    name = o.name() + ("_signed" if o.signed else "")
    size = -(-max(o.width, len(o.a), len(o.b)) // WORD)
    a, b = extended(o.a, size * WORD, o.signed), extended(o.b, size * WORD, o.signed)
    return o.called(name, [("a", a), ("b", b)], size)


def _shift(o: _Operation) -> list[WordNode]:
    kind = o.name()
    both = kind in ("shift", "shiftx") and o.b_signed
    # Only an arithmetic shift moves copies of the sign in from the left.
    arithmetic = kind == "sshr" and o.a_signed
    width = o.width if kind in ("shl", "sshl") else max(o.width, len(o.a))
    size = -(-width // WORD)
    a = extended(o.a, size * WORD if arithmetic else width, o.a_signed)
    function = {"shl": "shl", "sshl": "shl"}.get(kind, "sshr" if arithmetic else "shr")
    if both:
        function = "shift"
    amount = _amount(o, both)
    if size > 1:
        return o.called(function, [("a", a)], size, amount)
    value = f"word({o.nets.read(a, o.uses)})"
    sign = {"shl": "<<", "shr": ">>"}.get(function)
    if sign and 1 << len(o.b) <= WORD:  # always by less than a word
        return o.one(f"({value} {sign} {amount})")
    return o.one(f"{function}({value}, {amount})")


def _amount(o: _Operation, signed: bool) -> str:
    """Expression of the shift distance; 64 bits suffice, since no value is 2**64 bits wide."""
    if signed and len(o.b) > WORD:
        raise UnsupportedError(f"a shift by a signed number of {len(o.b)} bits")
    if signed:
        return o.nets.signed(o.b, o.uses)
    low, *high = o.nets.words(o.b, o.uses)
    return f"choose({nonzero(high)}, ~word(0), {low})" if high else f"word({low})"


BITWISE = frozenset(["$and", "$or", "$xor", "$xnor", "$not", "$pos", "$buf", "$mux", "$pmux"])
"""Operations in which a result bit depends on one position of the operands (and on selects)."""

_FAMILIES: dict[str, Callable[[_Operation], list[WordNode]]] = {
    **dict.fromkeys(BITWISE - {"$mux", "$pmux"}, _bitwise),
    **dict.fromkeys(["$mux", "$pmux"], _chosen),
    **dict.fromkeys(
        ["$reduce_and", "$reduce_or", "$reduce_bool", "$reduce_xor", "$reduce_xnor"], _reduce
    ),
    **dict.fromkeys(["$logic_not", "$logic_and", "$logic_or"], _logic),
    **dict.fromkeys(_COMPARISONS, _compare),
    **dict.fromkeys(["$add", "$sub", "$mul", "$neg"], _arithmetic),
    **dict.fromkeys(["$div", "$mod", "$divfloor", "$modfloor"], _division),
    **dict.fromkeys(["$shl", "$sshl", "$shr", "$sshr", "$shift", "$shiftx"], _shift),
}
