# SPDX-License-Identifier: Apache-2.0
"""The design as the writer of SystemVerilog sees it: expressions, statements, modules.

A value is an integer of `width` bits, signed or not; an operator's result is exact, so its width
follows from those of its operands as in Amaranth. Objects are compared by identity: an expression
that occurs twice is one that the author gave a name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

__all__ = [
    "Assign",
    "Box",
    "Case",
    "CaseSwitch",
    "Cast",
    "Cat",
    "Choice",
    "Const",
    "Enum",
    "Expr",
    "Location",
    "MemberField",
    "Memory",
    "Module",
    "Op",
    "PartSelect",
    "Patterns",
    "ReadPort",
    "Slice",
    "Stmt",
    "Var",
    "WritePort",
    "operands",
    "reads",
    "replaced",
    "slice_of",
    "targets",
    "variables",
]

Location: TypeAlias = tuple[str, int]
"""File and line of the source."""

Patterns: TypeAlias = tuple[str, ...] | None
"""Bit patterns of ``0``, ``1`` and ``-``, most significant first; None: whatever is left."""


@dataclass(frozen=True)
class Enum:
    """Names of values: a class of the source, or the states of an FSM (then without a name)."""

    name: str
    members: Mapping[int, str]


@dataclass(frozen=True)
class MemberField:
    """A part of a structure: `lo` counts from the start of the structure that it is in."""

    name: str
    lo: int
    width: int
    fields: tuple[MemberField, ...] = ()
    enum: Enum | None = None

    def key(self) -> tuple[Any, ...]:
        """Equal for structures that can share one type."""
        return tuple((f.name, f.width, f.key()) for f in self.fields)


class Expr:
    """A value: `width` bits, `signed` if the highest one counts negative."""

    __slots__ = ("loc", "signed", "width")

    def __init__(self, width: int, signed: bool, loc: Location | None = None) -> None:
        self.width, self.signed, self.loc = width, signed, loc


class Const(Expr):
    """A number."""

    __slots__ = ("value",)

    def __init__(self, value: int, width: int, signed: bool = False) -> None:
        super().__init__(width, signed)
        self.value = value


class Var(Expr):
    """A signal; `serial` grows with each that the source makes, and is -1 if the writer made it.

    Its name is *name*, or one of *longer* where that is taken; empty if the source has none.
    Signals of one *site* were made by the same calls.
    """

    __slots__ = ("enum", "fields", "init", "longer", "name", "reset_less", "serial", "site")

    def __init__(
        self,
        name: str,
        width: int,
        signed: bool,
        *,
        init: int,
        reset_less: bool,
        fields: tuple[MemberField, ...] = (),
        enum: Enum | None = None,
        loc: Location | None = None,
        serial: int = -1,
        longer: tuple[str, ...] = (),
        site: tuple[tuple[str, int, int], ...] = (),
    ) -> None:
        super().__init__(width, signed, loc)
        self.longer, self.site = longer, site
        self.name, self.init, self.reset_less = name, init, reset_less
        self.fields, self.enum, self.serial = fields, enum, serial


class Op(Expr):
    """An operator on one or two operands. ``neg`` and ``any``, ``all``, ``odd`` take one."""

    __slots__ = ("args", "op")

    def __init__(
        self, op: str, args: Iterable[Expr], width: int, signed: bool, loc: Location | None = None
    ) -> None:
        super().__init__(width, signed, loc)
        self.op, self.args = op, tuple(args)


class Cast(Expr):
    """`value` cut or, by its own sign, extended to `width` bits, which then read as `signed`."""

    __slots__ = ("value",)

    def __init__(self, value: Expr, width: int, signed: bool) -> None:
        super().__init__(width, signed, value.loc)
        self.value = value


class Slice(Expr):
    """The `width` bits of `value` from bit `lo` on."""

    __slots__ = ("lo", "value")

    def __init__(self, value: Expr, lo: int, width: int, loc: Location | None = None) -> None:
        super().__init__(width, False, loc)
        self.value, self.lo = value, lo


class PartSelect(Expr):
    """The `width` bits of `value` from bit ``offset * stride`` on."""

    __slots__ = ("offset", "stride", "value")

    def __init__(
        self, value: Expr, offset: Expr, width: int, stride: int, loc: Location | None = None
    ) -> None:
        super().__init__(width, False, loc)
        self.value, self.offset, self.stride = value, offset, stride


class Choice(Expr):
    """The first of `cases` whose patterns fit `test`; zero if none does."""

    __slots__ = ("cases", "test")

    def __init__(
        self,
        test: Expr,
        cases: Iterable[tuple[Patterns, Expr]],
        width: int,
        signed: bool,
        loc: Location | None = None,
    ) -> None:
        super().__init__(width, signed, loc)
        self.test, self.cases = test, tuple(cases)

    @property
    def ternary(self) -> tuple[Expr, Expr] | None:
        """Values for `test` not zero and for zero, if the choice is one between two; else None."""
        if len(self.cases) == 2:
            (patterns, no), (rest, yes) = self.cases
            if rest is None and patterns == ("0" * self.test.width,):
                return yes, no
        return None


class Cat(Expr):
    """`parts` side by side, the first one lowest."""

    __slots__ = ("parts",)

    def __init__(self, parts: Iterable[Expr], loc: Location | None = None) -> None:
        self.parts = tuple(part for part in parts if part.width)
        super().__init__(sum(part.width for part in self.parts), False, loc)


@dataclass(frozen=True, eq=False)
class Assign:
    """Assigns `rhs` to `lhs`: variable, slice of one, concatenation of these, or a choice."""

    lhs: Expr
    rhs: Expr
    loc: Location | None = None

    @cached_property
    def writes(self) -> Mapping[Var, int]:
        """The variables that it may write, with masks of the bits."""
        found: dict[Var, int] = {}
        for var, lo, width in targets(self.lhs):
            found[var] = found.get(var, 0) | _mask(lo, width)
        return found


@dataclass(frozen=True, eq=False)
class Case:
    """One branch."""

    patterns: Patterns
    body: tuple[Stmt, ...]
    loc: Location | None = None


@dataclass(frozen=True, eq=False)
class CaseSwitch:
    """Executes the body of the first case that fits."""

    test: Expr
    cases: tuple[Case, ...]
    loc: Location | None = None

    @cached_property
    def writes(self) -> Mapping[Var, int]:
        """The variables that it may write, with masks of the bits."""
        found: dict[Var, int] = {}
        for case in self.cases:
            for inner in case.body:
                for var, mask in inner.writes.items():
                    found[var] = found.get(var, 0) | mask
        return found

    def with_bodies(self, new: Callable[[tuple[Stmt, ...]], Iterable[Stmt]]) -> CaseSwitch:
        """The same switch with *new* applied to each body."""
        cases = (Case(case.patterns, tuple(new(case.body)), case.loc) for case in self.cases)
        return CaseSwitch(self.test, tuple(cases), self.loc)


Stmt: TypeAlias = Assign | CaseSwitch


@dataclass(frozen=True, eq=False)
class ReadPort:
    """Read port of a memory; it forwards same-cycle data of the write ports `transparent`."""

    addr: Expr
    data: Expr
    enable: Expr
    clocked: bool
    transparent: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class WritePort:
    """Write port of a memory; each bit of `enable` writes an equal part of the row."""

    addr: Expr
    data: Expr
    enable: Expr


@dataclass(frozen=True, eq=False)
class Memory:
    """An array of `depth` rows; `attributes` are for synthesis."""

    name: str
    width: int
    depth: int
    init: tuple[int, ...]
    attributes: tuple[str, ...]
    reads: tuple[ReadPort, ...]
    writes: tuple[WritePort, ...]

    def inputs(self) -> Iterator[Expr]:
        """Expressions that its ports read: addresses, enables and data to write."""
        for port in self.reads:
            yield from (port.addr, port.enable)
        for write in self.writes:
            yield from (write.addr, write.data, write.enable)


@dataclass(frozen=True, eq=False)
class Box:
    """An instance of a module that is written elsewhere."""

    name: str
    module: str
    inputs: tuple[tuple[str, Expr], ...]
    outputs: tuple[tuple[str, Expr], ...]
    parameters: tuple[tuple[str, int | str], ...] = ()


@dataclass(eq=False)
class Module:
    """One level of the hierarchy.

    `origin` is the object that was elaborated, `members` the signals of its signature with their
    paths and whether they are outputs, `reference_names` Amaranth's names of the signals here.
    """

    path: tuple[str, ...]
    parent: Module | None
    origin: object | None
    clk: Var | None = None
    rst: Var | None = None
    comb: list[Stmt] = field(default_factory=list)
    sync: list[Stmt] = field(default_factory=list)
    children: list[Module] = field(default_factory=list)
    memories: list[Memory] = field(default_factory=list)
    boxes: list[Box] = field(default_factory=list)
    members: list[tuple[tuple[str | int, ...], Var, bool]] = field(default_factory=list)
    reference_names: dict[Var, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the instance."""
        return self.path[-1]

    def all(self) -> Iterator[Module]:
        """This module and those below, parents first."""
        yield self
        for child in self.children:
            yield from child.all()

    def ancestors(self) -> list[Module]:
        """From the top down to this module."""
        chain: list[Module] = []
        module: Module | None = self
        while module is not None:
            chain.insert(0, module)
            module = module.parent
        return chain


def operands(expr: Expr) -> tuple[Expr, ...]:
    """The expressions that *expr* is made of directly."""
    if isinstance(expr, Op):
        return expr.args
    if isinstance(expr, Slice | Cast):
        return (expr.value,)
    if isinstance(expr, PartSelect):
        return (expr.value, expr.offset)
    if isinstance(expr, Choice):
        return (expr.test, *(value for _, value in expr.cases))
    if isinstance(expr, Cat):
        return expr.parts
    return ()


def _mask(lo: int, width: int) -> int:
    return ((1 << width) - 1) << lo


def reads(expr: Expr, into: dict[Var, int]) -> dict[Var, int]:
    """Add the bits of variables that *expr* reads, as masks."""
    lo, value = 0, expr
    while isinstance(value, Slice):
        lo, value = lo + value.lo, value.value
    if isinstance(value, Var):
        into[value] = into.get(value, 0) | _mask(lo, expr.width)
    else:
        for inner in operands(value):
            reads(inner, into)
    return into


def variables(expr: Expr) -> dict[Var, int]:
    """The variables that *expr* reads, with masks of the bits."""
    return reads(expr, {})


def targets(lhs: Expr) -> Iterator[tuple[Var, int, int]]:
    """Every variable that an assignment to *lhs* may write: variable, first bit, width."""
    if isinstance(lhs, Var):
        yield lhs, 0, lhs.width
    elif isinstance(lhs, Slice):
        inner = lhs.value
        if isinstance(inner, Slice):
            yield from targets(Slice(inner.value, inner.lo + lhs.lo, lhs.width))
        elif isinstance(inner, Var):
            yield inner, lhs.lo, lhs.width
        else:
            yield from targets(inner)
    elif isinstance(lhs, PartSelect):
        yield from targets(lhs.value)
    elif isinstance(lhs, Cast):
        yield from targets(lhs.value)
    elif isinstance(lhs, Choice):
        for _, value in lhs.cases:
            yield from targets(value)
    elif isinstance(lhs, Cat):
        for part in lhs.parts:
            yield from targets(part)
    else:
        raise TypeError(f"cannot assign to {type(lhs).__name__}")


def lhs_reads(lhs: Expr, into: dict[Var, int]) -> None:
    """Add the bits that select the target of an assignment to *lhs*."""
    if isinstance(lhs, PartSelect):
        reads(lhs.offset, into)
        lhs_reads(lhs.value, into)
    elif isinstance(lhs, Choice):
        reads(lhs.test, into)
        for _, value in lhs.cases:
            lhs_reads(value, into)
    else:
        for inner in operands(lhs):
            lhs_reads(inner, into)


def replaced(expr: Expr, new: Callable[[Expr], Expr | None], done: dict[Expr, Expr]) -> Expr:
    """*expr* with parts replaced by *new* (None keeps a part); *done* caches the results."""
    if expr in done:
        return done[expr]

    def inner(part: Expr) -> Expr:
        return replaced(part, new, done)

    made = new(expr)
    if made is None:
        made = expr
        if isinstance(expr, Op):
            args = [inner(arg) for arg in expr.args]
            made = Op(expr.op, args, expr.width, expr.signed, expr.loc)
        elif isinstance(expr, Cast):
            made = Cast(inner(expr.value), expr.width, expr.signed)
        elif isinstance(expr, Slice):
            made = slice_of(inner(expr.value), expr.lo, expr.width, expr.loc)
        elif isinstance(expr, PartSelect):
            value, offset = inner(expr.value), inner(expr.offset)
            made = PartSelect(value, offset, expr.width, expr.stride, expr.loc)
        elif isinstance(expr, Choice):
            cases = [(patterns, inner(value)) for patterns, value in expr.cases]
            made = Choice(inner(expr.test), cases, expr.width, expr.signed, expr.loc)
        elif isinstance(expr, Cat):
            made = Cat([inner(part) for part in expr.parts], expr.loc)
    done[expr] = made
    return made


def slice_of(value: Expr, lo: int, width: int, loc: Location | None = None) -> Expr:
    """Bits of *value*, without slices of slices."""
    if isinstance(value, Slice):
        return slice_of(value.value, value.lo + lo, width, loc)
    if lo == 0 and width == value.width:
        return Cast(value, width, False) if value.signed else value
    if isinstance(value, Const):
        return Const(value.value >> lo & ((1 << width) - 1), width)
    if isinstance(value, Cast):
        inner = value.value
        if value.width == inner.width or lo + width <= min(value.width, inner.width):
            return slice_of(inner, lo, width, loc)
    if isinstance(value, Cat):
        start, parts = 0, []
        for part in value.parts:
            first, last = max(lo, start), min(lo + width, start + part.width)
            if first < last:
                parts.append(slice_of(part, first - start, last - first, loc))
            start += part.width
        return parts[0] if len(parts) == 1 else Cat(parts, loc)
    return Slice(value, lo, width, loc)
