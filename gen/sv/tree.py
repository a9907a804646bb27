# SPDX-License-Identifier: Apache-2.0
"""The text of a module as a tree, which all passes share until it is printed.

Code is made of words, numbers and nodes. Numbers are apart from the words around them, since loops
and parameters of modules take their places; references, concatenations and assignments are nodes of
their own. `gen.sv.layout` prints it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import TypeAlias

__all__ = [
    "BLANK",
    "MOST_ZEROS",
    "Assignment",
    "Code",
    "Comment",
    "Concat",
    "Declared",
    "For",
    "Form",
    "Line",
    "ModuleText",
    "Nested",
    "Number",
    "Packed",
    "Part",
    "PortLine",
    "Ref",
    "SizeCast",
    "Stmt",
    "Ternary",
    "Unary",
    "assignments",
    "bits",
    "cast",
    "concat",
    "constant",
    "index",
    "joined",
    "kept",
    "leaves",
    "lines",
    "logic",
    "mapped",
    "plain",
    "references",
    "rewritten",
    "rows",
    "side_by_side",
    "together",
    "vector",
    "walk",
]


MOST_ZEROS = 8192
"""Bits that one ``'0`` stands for at most: Verilator takes more of them for a mistake."""


class Form(Enum):
    """The form of a number: a literal, an index ``[3]``, a range ``[7:4]``, the value of a
    parameter, the width of a cast, or any other.
    """

    LITERAL = auto()
    BIT = auto()
    RANGE = auto()
    PARAMETER = auto()
    CAST = auto()
    PLAIN = auto()


_DECIMAL = 4096  # the least number that is written in hexadecimal


@dataclass(frozen=True, slots=True)
class Number:
    """A number: `value` of a literal of `width` bits, or the low index of a range of that width.

    For each of `terms`, ``a`` and a loop's variable (its number until it has a name), it has a term
    ``a * variable``.
    """

    form: Form
    value: int
    width: int = 0
    terms: tuple[tuple[int, int | str], ...] = ()

    @property
    def moves(self) -> bool:
        """True if a sum with the variable of a loop may take its place."""
        if self.form is Form.LITERAL:
            return not self.terms and self.width > 1 and self.value < _DECIMAL
        return not self.terms and self.form in (Form.BIT, Form.RANGE, Form.PARAMETER)

    def spelled(self) -> tuple[str | Number, ...]:
        """Words, plain numbers, widths of casts and literals that it is written with."""
        match self.form:
            case Form.BIT:
                return "[", *self._sum(), "]"
            case Form.RANGE if self.terms:
                return "[", *self._sum(), " +: ", plain(self.width), "]"
            case Form.RANGE:
                return "[", plain(self.value + self.width - 1), ":", plain(self.value), "]"
            case Form.LITERAL if self.terms:
                return Number(Form.CAST, self.width), "'(", *self._sum(), ")"
            case Form.PARAMETER:
                return tuple(self._sum())
        return (self,)

    def _sum(self) -> Iterator[str | Number]:
        words = [_product(a, name) for a, name in reversed(self.terms) if a > 0]
        if self.value or not words:
            words.append((plain(self.value),))
        for number, word in enumerate(words):
            yield from (" + ", *word) if number else word
        for a, name in self.terms:
            if a < 0:
                yield from (" - ", *_product(-a, name))

    def __str__(self) -> str:
        if self.form in (Form.PLAIN, Form.CAST):
            return str(self.value)
        if self.form is Form.LITERAL and not self.terms:
            if self.width == 1:
                return f"1'b{self.value}"
            small = self.value < _DECIMAL
            return f"{self.width}'d{self.value}" if small else f"{self.width}'h{self.value:x}"
        return "".join(map(str, self.spelled()))


def _product(a: int, name: int | str) -> tuple[str | Number, ...]:
    return (str(name),) if a == 1 else (plain(a), "*", str(name))


def plain(value: int) -> Number:
    """*value* as such."""
    return Number(Form.PLAIN, value)


def bits(lo: int, width: int) -> Number:
    """The suffix that selects *width* bits from bit *lo* on."""
    return Number(Form.BIT, lo) if width == 1 else Number(Form.RANGE, lo, width)


def constant(value: int, width: int) -> Number:
    """*value* as a sized number."""
    return Number(Form.LITERAL, value & ((1 << width) - 1), width)


class Code:
    """Some text: words, numbers and nodes, which are `parts`. Equal if it reads the same."""

    __slots__ = ("_leaves", "parts")

    def __init__(self, *parts: Part) -> None:
        self.parts = parts
        self._leaves: tuple[str | Number, ...] | None = None

    def _spelled(self) -> Iterable[Part]:
        """Its parts with what stands between them."""
        return self.parts

    @property
    def leaves(self) -> tuple[str | Number, ...]:
        """The words and numbers."""
        if self._leaves is None:
            found: list[str | Number] = []
            for part in self._spelled():
                found += leaves(part)
            self._leaves = tuple(found)
        return self._leaves

    def __str__(self) -> str:
        return "".join(map(str, self.leaves))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Code) and self.leaves == other.leaves

    def __hash__(self) -> int:
        return hash(self.leaves)


Part: TypeAlias = str | Number | Code


def leaves(part: Part) -> tuple[str | Number, ...]:
    """The words and numbers of *part*."""
    return part.leaves if isinstance(part, Code) else (part,) if part else ()


class Ref(Code):
    """A name and what follows it: fields (``.name``), bits, and indices."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """The name at its start."""
        return str(self.parts[0])

    @property
    def steps(self) -> tuple[Part, ...]:
        """The fields, bits and indices; a field is a word."""
        return self.parts[1:]

    def then(self, *steps: Part) -> Ref:
        """A part of it."""
        return Ref(*self.parts, *steps)


class Concat(Code):
    """Values side by side, the first one highest."""

    __slots__ = ()

    def _spelled(self) -> Iterable[Part]:
        return "{", *joined(self.parts, ", "), "}"


class SizeCast(Code):
    """A value at another width; made by `cast`."""

    __slots__ = ()


class Ternary(Code):
    """A value chosen by conditions."""

    __slots__ = ()


class Unary(Code):
    """A prefix operator and its operand.

    Casts are in parentheses there: Yosys takes ``~4'(x)`` for a cast to ``~4`` bits.
    """

    __slots__ = ()

    def _spelled(self) -> Iterable[Part]:
        operator, operand = self.parts
        number = isinstance(operand, Number) and operand.terms
        if number or isinstance(operand, SizeCast):
            return operator, "(", operand, ")"
        return self.parts


class Assignment(Code):
    """An assignment: ``assign`` or nothing, target, arrow, value."""

    __slots__ = ()

    def _spelled(self) -> Iterable[Part]:
        start, target, arrow, value = self.parts
        return start, target, " ", arrow, " ", value, ";"

    @property
    def target(self) -> Part:
        """The left side."""
        return self.parts[1]

    @property
    def targets(self) -> list[Ref]:
        """The references on the left side."""
        both = self.target.parts if isinstance(self.target, Concat) else (self.target,)
        return [each for each in both if isinstance(each, Ref)]

    @property
    def value(self) -> Part:
        """The right side."""
        return self.parts[3]


class For(Code):
    """The head of a loop: ``int`` or ``genvar``, its variable, the number of iterations."""

    __slots__ = ()

    def _spelled(self) -> Iterable[Part]:
        kind, name, size = self.parts
        return "for", " (", kind, " ", name, " = 0; ", name, " < ", size, "; ", name, "++)"


class Packed(Code):
    """A start, words, and an end, written with as many words on a line as fit."""

    __slots__ = ()

    def _spelled(self) -> Iterable[Part]:
        start, *words, end = self.parts
        return start, *joined(words, ", "), end


class Declared(Packed):
    """Names of a type: the type, the names, and an end."""

    __slots__ = ()


def together(stmts: Iterable[Stmt]) -> tuple[Stmt, ...]:
    """*stmts* with one declaration for all names of a type."""
    names: dict[Part, list[Part]] = {}
    made: list[Stmt] = []
    for stmt in stmts:
        code = stmt.code if isinstance(stmt, Line) else None
        if not isinstance(code, Declared):
            made.append(stmt)
            continue
        kind, *words, _ = code.parts
        if kind not in names:
            names[kind] = []
            made.append(stmt)
        names[kind] += words
    return tuple(
        replace(stmt, code=Declared(stmt.code.parts[0], *names[stmt.code.parts[0]], ";"))
        if isinstance(stmt, Line) and isinstance(stmt.code, Declared) else stmt
        for stmt in made
    )


def side_by_side(array: str, words: Sequence[Part], out: bool) -> Packed:
    """An assignment of *words* to all of *array*, or with *out* from it."""
    if out:
        return Packed("assign {", *words, f"}} = {array};")
    return Packed(f"assign {array} = {{", *words, "};")


@dataclass(frozen=True)
class Line:
    """Code on a line, with a comment behind it; `inset` are columns more than its place asks."""

    code: Code
    note: str = ""
    inset: int = 0

    def __str__(self) -> str:
        return f"{self.code}  // {self.note}" if self.note else str(self.code)


@dataclass(frozen=True)
class Comment:
    """A line of comment."""

    text: str


@dataclass(frozen=True)
class Nested:
    """Lines, each with statements below it that are indented by `step`, and an end."""

    sections: tuple[tuple[Line, tuple[Stmt, ...]], ...]
    end: str = "end"
    step: int = 2


@dataclass(frozen=True)
class PortLine:
    """A port of a module: ``input`` or ``output``, its type, name, and comment."""

    direction: str
    kind: Code
    name: str
    note: str


Stmt: TypeAlias = Line | Comment | Nested

BLANK = Line(Code())


@dataclass(frozen=True)
class ModuleText:
    """The comments above a module, its ports with comments above them, and its statements."""

    above: tuple[Comment, ...]
    ports: tuple[Comment | PortLine, ...]
    body: tuple[Stmt, ...]


def joined(parts: Iterable[Part], between: str) -> list[Part]:
    """*parts* with words *between* them."""
    made: list[Part] = []
    for part in parts:
        made += [between, part] if made else [part]
    return made


def concat(words: Sequence[Part]) -> Part:
    """*words* side by side; the word itself if there is only one."""
    return words[0] if len(words) == 1 else Concat(*words)


def cast(width: int, value: Part) -> SizeCast:
    """*value* cast to *width* bits."""
    return SizeCast(Number(Form.CAST, width), "'(", value, ")")


def index(value: Part, width: int = 1) -> Code:
    """The suffix that selects the bit, or *width* bits, from a place that is computed."""
    return Code("[", value, "]") if width == 1 else Code("[", value, " +: ", plain(width), "]")


def vector(width: int) -> Code:
    """The type of *width* bits."""
    return logic(width) if width != 1 else logic()


def logic(*sizes: int) -> Code:
    """The type of vectors: number of elements, of elements of these, and so on; a bit if none."""
    return Code("logic", " " if sizes else "", *(Number(Form.RANGE, 0, size) for size in sizes))


def mapped(part: Part, new: Callable[[Part], Part | None]) -> Part:
    """*part* with parts replaced by *new* (None looks inside)."""
    made = new(part)
    if made is not None or not isinstance(part, Code):
        return part if made is None else made
    parts = [mapped(inner, new) for inner in part.parts]
    same = all(one is other for one, other in zip(parts, part.parts, strict=True))
    return part if same else type(part)(*parts)


def rewritten(stmts: Iterable[Stmt], new: Callable[[Part], Part | None]) -> tuple[Stmt, ...]:
    """*stmts* with parts of their code replaced by *new*."""

    def line(one: Line) -> Line:
        code = mapped(one.code, new)
        assert isinstance(code, Code)
        return one if code is one.code else replace(one, code=code)

    made: list[Stmt] = []
    for stmt in stmts:
        if isinstance(stmt, Nested):
            sections = tuple((line(head), rewritten(body, new)) for head, body in stmt.sections)
            stmt = replace(stmt, sections=sections)
        elif isinstance(stmt, Line):
            stmt = line(stmt)
        made.append(stmt)
    return tuple(made)


def kept(stmts: Iterable[Stmt], keep: Callable[[Stmt], bool]) -> tuple[Stmt, ...]:
    """The *stmts* that *keep* accepts, also of those inside of others."""
    return tuple(
        replace(stmt, sections=tuple((head, kept(body, keep)) for head, body in stmt.sections))
        if isinstance(stmt, Nested) else stmt
        for stmt in stmts if keep(stmt)
    )


def rows(stmts: Iterable[Stmt], indent: int = 0) -> Iterator[tuple[int, Line | Comment]]:
    """The lines and comments of *stmts*, each with its indentation."""
    for stmt in stmts:
        if not isinstance(stmt, Nested):
            yield indent, stmt
            continue
        for head, body in stmt.sections:
            yield indent, head
            yield from rows(body, indent + stmt.step)
        yield indent, Line(Code(stmt.end))


def lines(stmts: Iterable[Stmt]) -> Iterator[Line]:
    """The lines of *stmts*."""
    return (row for _, row in rows(stmts) if isinstance(row, Line))


def walk(found: Part | Iterable[Stmt]) -> Iterator[Code]:
    """The nodes of code or of statements, outer ones first."""
    todo: list[Part] = [found] if isinstance(found, str | Number | Code) else [
        line.code for line in lines(found)
    ]
    todo.reverse()
    while todo:
        part = todo.pop()
        if isinstance(part, Code):
            yield part
            todo += part.parts[::-1]


def references(found: Part | Iterable[Stmt]) -> Iterator[Ref]:
    """The references in code or statements."""
    return (node for node in walk(found) if isinstance(node, Ref))


def assignments(found: Iterable[Stmt]) -> Iterator[Assignment]:
    """The assignments in statements."""
    return (node for node in walk(found) if isinstance(node, Assignment))
