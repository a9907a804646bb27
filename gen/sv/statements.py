# SPDX-License-Identifier: Apache-2.0
"""Statements as a tree: nested as the author nested them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from gen.sv import ir, source
from gen.sv.expressions import Printer
from gen.sv.layout import fits, packed
from gen.sv.lists import compressed
from gen.sv.loops import Dims, Taken, repeated, statements
from gen.sv.tree import (
    Assignment,
    Code,
    Comment,
    Line,
    Nested,
    Number,
    Part,
    Ref,
    Stmt,
    Unary,
    concat,
    constant,
    joined,
    references,
)

__all__ = ["Statements", "static_targets"]

_WIDE = 64  # a zero of more bits is written without a width
_ARMS = 4  # arms of a case from which on they may become one with a loop
_LOOPS = 3  # loops of arms from which on they are one
_RANGE = 8  # consecutive labels from which on a comparison reads better than a list


def static_targets(stmts: Iterable[ir.Stmt], printer: Printer) -> list[ir.Stmt]:
    """*stmts* with a case statement for each target that is selected and cannot be indexed."""
    made: list[ir.Stmt] = []
    for stmt in stmts:
        if isinstance(stmt, ir.CaseSwitch):
            made.append(stmt.with_bodies(lambda body: static_targets(body, printer)))
        else:
            made += _static(stmt.lhs, stmt.rhs, stmt.loc, printer)
    return made


def _static(
    lhs: ir.Expr, rhs: ir.Expr, loc: ir.Location | None, printer: Printer
) -> list[ir.Stmt]:
    if lhs.width == 0:
        return []
    if rhs.width != lhs.width:
        rhs = ir.Cast(rhs, lhs.width, False)
    if isinstance(lhs, ir.Cast):
        return _static(lhs.value, ir.Cast(rhs, lhs.value.width, False), loc, printer)
    if isinstance(lhs, ir.Cat):
        if all(_plain(part) for part in lhs.parts):
            return [ir.Assign(lhs, rhs, loc)]
        at, made = 0, []
        for part in lhs.parts:
            made += _static(part, ir.slice_of(rhs, at, part.width, loc), loc, printer)
            at += part.width
        return made
    if isinstance(lhs, ir.Choice):
        return [
            ir.CaseSwitch(
                lhs.test,
                tuple(
                    ir.Case(
                        patterns,
                        tuple(
                            _static(
                                value,
                                ir.slice_of(rhs, 0, min(value.width, rhs.width), loc),
                                loc, printer,
                            )
                        ),
                        loc,
                    )
                    for patterns, value in lhs.cases
                ),
                loc,
            )
        ]
    if isinstance(lhs, ir.PartSelect):
        if printer.is_element(lhs):
            return [ir.Assign(lhs, rhs, loc)]
        return [_by_offset(lhs, 0, lhs.width, rhs, loc, printer)]
    if isinstance(lhs, ir.Slice) and not isinstance(lhs.value, ir.Var):
        inner = lhs.value
        if isinstance(inner, ir.Choice):
            cases = [
                (patterns, ir.slice_of(value, lhs.lo, min(lhs.width, value.width - lhs.lo)))
                for patterns, value in inner.cases
                if value.width > lhs.lo
            ]
            choice = ir.Choice(inner.test, cases, lhs.width, False, loc)
            return _static(choice, rhs, loc, printer)
        if isinstance(inner, ir.PartSelect):
            return [_by_offset(inner, lhs.lo, lhs.width, rhs, loc, printer)]
        return _static(ir.slice_of(inner, lhs.lo, lhs.width), rhs, loc, printer)
    return [ir.Assign(lhs, rhs, loc)]


def _plain(lhs: ir.Expr) -> bool:
    return isinstance(lhs, ir.Var) or (isinstance(lhs, ir.Slice) and isinstance(lhs.value, ir.Var))


def _by_offset(
    part: ir.PartSelect, lo: int, width: int, rhs: ir.Expr, loc: ir.Location | None,
    printer: Printer,
) -> ir.CaseSwitch:
    """A case for each offset: bits *lo* and up of *part* get *rhs*."""
    cases = []
    for index in range(1 << part.offset.width):
        start = index * part.stride + lo
        # What lies beyond the end is dropped, also if the part itself lies beyond it.
        kept = min(width, part.value.width - start)
        if index * part.stride >= part.value.width or kept <= 0:
            continue
        target = ir.slice_of(part.value, start, kept, loc)
        body = _static(target, ir.slice_of(rhs, 0, kept, loc), loc, printer)
        pattern = format(index, f"0{part.offset.width}b") if part.offset.width else ""
        cases.append(ir.Case((pattern,), tuple(body), loc))
    return ir.CaseSwitch(part.offset, tuple(cases), loc)


class Statements:
    """Writes the statements of one module.

    Parameters
    ----------
    printer:
        Writes their expressions.
    mixed:
        Variables with both register bits and others -> the name that the registers have of their
        own.
    lists, taken:
        Sizes of the arrays, and a test if a name is taken.
    """

    def __init__(
        self, printer: Printer, mixed: dict[ir.Var, str], lists: Dims, taken: Taken
    ) -> None:
        self._printer = printer
        self._mixed = mixed
        self._lists, self._taken = lists, taken
        self._said: set[str] = set()

    def comments(self, loc: ir.Location | None) -> list[Stmt]:
        """The comment above the statement at *loc*, unless it was written before."""
        found = [text for text in source.comment_above(loc) if text not in self._said]
        self._said.update(found)
        return [Comment(f" {text}") for text in found]

    def target(self, lhs: ir.Expr, clocked: bool) -> Part:
        """The left side of an assignment."""
        if isinstance(lhs, ir.Cat):
            parts = [self.target(part, clocked) for part in reversed(lhs.parts)]
            return concat(compressed(parts, self._lists))
        ((var, lo, width),) = ir.targets(lhs)
        if isinstance(lhs, ir.PartSelect):
            text = self._printer.element(lhs)
        else:
            text = self._printer.target(var, lo, width)
        registered = clocked and var in self._mixed
        return Ref(self._mixed[var], *text.steps) if registered else text

    def assign(self, stmt: ir.Assign, start: str, *, clocked: bool) -> Assignment:
        """An assignment that begins with *start*."""
        target = self.target(stmt.lhs, clocked)
        enum = None if isinstance(stmt.lhs, ir.Cat) else self._printer.enum_of(stmt.lhs)
        value = self._printer.at(stmt.rhs, stmt.lhs.width, enum)
        if value == constant(0, stmt.lhs.width) and stmt.lhs.width > _WIDE:
            value = "'0"
        return Assignment(start, target, "<=" if clocked else "=", value)

    def stmts(self, stmt: ir.Stmt, indent: int, *, clocked: bool) -> list[Stmt]:
        """*stmt*, which stands at *indent*, with the comment above it."""
        if isinstance(stmt, ir.Assign):
            assign = self.assign(stmt, "", clocked=clocked)
            return [*self.comments(stmt.loc), Line(assign)]
        above = self.comments(stmt.loc)
        bodies = [
            self.sequence(
                [self.stmts(inner, indent + 2, clocked=clocked) for inner in case.body], indent + 2
            )
            for case in stmt.cases
        ]
        conditions = self._as_conditions(stmt)
        if conditions is not None:
            return above + _branches(conditions, bodies, indent)
        return above + self._case(stmt, bodies, indent)

    def sequence(self, parts: Sequence[Sequence[Stmt]], indent: int) -> tuple[Stmt, ...]:
        """Statements that follow one another at *indent*, with loops where they repeat."""
        return statements(parts, self._lists, self._taken, indent)

    def _as_conditions(self, stmt: ir.CaseSwitch) -> list[Part | None] | None:
        """The conditions of a chain of if and else; None if the statement is a case."""
        test = stmt.test
        parts = test.parts if isinstance(test, ir.Cat) and test.width > 1 else (test,)
        if all(part.width == 1 for part in parts) and (
            len(parts) > 1 or test.width == 1
        ):
            bits = [_only_bit(case.patterns) for case in stmt.cases]
            if all(
                bit is not None or case.patterns is None
                for bit, case in zip(bits, stmt.cases, strict=True)
            ):
                return [None if bit is None else self._printer.full(parts[bit]) for bit in bits]
        if test.width == 1 or _overlapping(stmt):
            enum = self._printer.enum_of(test)
            return [
                None if case.patterns is None else constant(0, 1) if not case.patterns else Code(
                    *joined([self._printer.matches(test, p, enum) for p in case.patterns], " || ")
                )
                for case in stmt.cases
            ]
        return None

    def _case(
        self, stmt: ir.CaseSwitch, bodies: Sequence[tuple[Stmt, ...]], indent: int
    ) -> list[Stmt]:
        test, enum = stmt.test, self._printer.enum_of(stmt.test)
        if test.width == 0:
            return list(bodies[0]) if bodies else []
        wild = any("-" in p for case in stmt.cases for p in case.patterns or ())
        tested = self._printer.full(test)
        if any(map(_within_element, references(tested))):  # Yosys takes no part of one there
            tested = self._printer.wired(test)
        otherwise: tuple[Stmt, ...] = next(
            (body for case, body in zip(stmt.cases, bodies, strict=True) if case.patterns is None),
            (),
        )
        # No value fits two cases, so cases with equal bodies are merged.
        arms: dict[tuple[Stmt, ...], list[Part]] = {}
        for case, body in zip(stmt.cases, bodies, strict=True):
            if case.patterns is None:
                break
            if case.patterns and body != otherwise:
                arms.setdefault(body, []).extend(
                    f"{len(p)}'b{p.replace('-', '?')}" if "-" in p
                    else self._printer.at(ir.Const(int(p, 2), len(p)), len(p), enum)
                    for p in case.patterns
                )
        if len(arms) == 1 and (between := _between(tested, next(iter(arms.values())))):
            (same,) = arms
            inside, outside = between
            if not same:
                return _branches([outside], [otherwise], indent)
            return _branches([inside, None], [same, otherwise], indent)
        made: list[Stmt] = []
        for labels, inner in self._rolled_arms(tested, arms, indent + 2, bool(otherwise)):
            if not labels:
                otherwise = inner
                continue
            *above, label = packed("", labels, "", indent + 2)
            made += [*above, _arm(label, inner, indent + 2)]
        if not made:
            return list(otherwise)
        made.append(_arm(Line(Code("default")), otherwise, indent + 2))
        head = Line(Code("casez (" if wild else "case (", tested, ")"))
        return [Nested(((head, tuple(made)),), "endcase")]

    def _rolled_arms(
        self, tested: Part, arms: Mapping[tuple[Stmt, ...], list[Part]], indent: int, ends: bool
    ) -> Iterator[tuple[list[Part], tuple[Stmt, ...]]]:
        """Labels and bodies of *arms*; those that differ in growing numbers are one with a loop.

        Unless the case *ends* with an arm for all other values, most such loops of one size are one
        there, without labels.
        """
        listed = [(labels, body) for body, labels in arms.items()]
        parts = []
        for labels, body in listed:
            condition = Code(tested, " == ", labels[0])
            single = len(labels) == 1 and isinstance(labels[0], Number) and labels[0].moves
            parts.append(_branches([condition], [body], indent) if single else [])
        runs = {
            at: (size, loop)
            for at, size, loop in repeated(parts, self._lists, self._taken, indent)
            if size >= _ARMS
        }
        common, shared = ((), ()) if ends else self._in_step(tested, listed, runs, indent)
        if shared:
            yield [], shared
        at = 0
        while at < len(listed):
            size, loop = runs.get(at, (1, ()))
            if at not in common:
                labels, body = listed[at]
                yield (
                    ([each[0] for each, _ in listed[at : at + size]], loop) if size > 1
                    else (labels, body)
                )
            at += size

    def _in_step(
        self, tested: Part, listed: Sequence[tuple[list[Part], tuple[Stmt, ...]]],
        runs: Mapping[int, tuple[int, tuple[Stmt, ...]]], indent: int,
    ) -> tuple[tuple[int, ...], tuple[Stmt, ...]]:
        """Most of the *runs* that have one size, and one loop for them; nothing if they are few."""
        sizes = Counter(size for size, _ in runs.values())
        size, count = max(sizes.items(), key=lambda each: each[1], default=(0, 0))
        if count < _LOOPS:
            return (), ()
        common = tuple(at for at, (own, _) in runs.items() if own == size)
        head, rest = Line(Code("case (", tested, ")")), Line(Code("default: ;"))
        parts = [
            [Nested(((head, (
                *(_arm(Line(Code(*listed[at + turn][0])), listed[at + turn][1], indent + 6)
                  for at in common),
                rest,
            )),), "endcase")]
            for turn in range(size)
        ]
        loops = repeated(parts, self._lists, self._taken, indent + 2)
        if [each[:2] for each in loops] != [(0, size)]:
            return (), ()
        return common, loops[0][2]


def _within_element(ref: Ref) -> bool:
    """Return True if *ref* is a part of an element."""
    return any(not isinstance(step, str) for step in ref.steps[:-1])


def _between(tested: Part, labels: Sequence[Part]) -> tuple[Part, Part] | None:
    """Conditions for a value that is one of *labels* and for any other, if they are a range."""
    found = [label for label in labels if isinstance(label, Number) and label.moves]
    if len(labels) < _RANGE or len(found) < len(labels):
        return None
    low, high = found[0], found[-1]
    if [label.value for label in found] != list(range(low.value, high.value + 1)) or (
        high.value == (1 << high.width) - 1
    ):
        return None
    above, below = Code(tested, " <= ", high), Code(tested, " > ", high)
    if low.value == 0:
        return above, below
    return (
        Code("(", tested, " >= ", low, ") & (", above, ")"),
        Code("(", tested, " < ", low, ") | (", below, ")"),
    )


def _only_bit(patterns: ir.Patterns) -> int | None:
    if patterns and len(patterns) == 1:
        (pattern,) = patterns
        if pattern.count("1") == 1 and "0" not in pattern:
            return len(pattern) - 1 - pattern.index("1")
    return None


def _overlapping(stmt: ir.CaseSwitch) -> bool:
    """Return True if a value may fit two cases, of which linters warn."""
    seen: list[str] = []
    for case in stmt.cases:
        for pattern in case.patterns or ():
            for other in seen:
                if all(a == b or "-" in (a, b) for a, b in zip(pattern, other, strict=True)):
                    return True
        seen += case.patterns or ()
    return False


def _single(body: Sequence[Stmt]) -> Assignment | None:
    """The statement of *body* if that is a single simple one, else None."""
    only = body[0] if len(body) == 1 else None
    return only.code if isinstance(only, Line) and isinstance(only.code, Assignment) else None


def _arm(label: Line, body: tuple[Stmt, ...], indent: int) -> Stmt:
    """*label* with its body."""
    single = _single(body)
    if not body:
        return replace(label, code=Code(label.code, ": ;"))
    if single is not None:
        short = Code(label.code, ": ", single)
        if fits(short, indent + label.inset):
            return replace(label, code=short)
    return Nested(((replace(label, code=Code(label.code, ": begin")), body),))


def _branches(
    conditions: Sequence[Part | None], bodies: Sequence[tuple[Stmt, ...]], indent: int
) -> list[Stmt]:
    """``if``, ``else if`` and ``else``; trailing branches that do nothing are left out."""
    pairs = [
        (None if condition == constant(1, 1) else condition, body)
        for condition, body in zip(conditions, bodies, strict=True)
        if condition != constant(0, 1)
    ]
    while pairs and not pairs[-1][1]:
        pairs.pop()
    if not pairs:
        return []
    pairs = _without_empty(pairs, indent)
    condition, body = pairs[0]
    if condition is None:
        return list(body)
    single = _single(body)
    if len(pairs) == 1 and single:
        short = Code("if", " (", condition, ") ", single)
        if fits(short, indent):
            return [Line(short)]
    sections: list[tuple[Line, tuple[Stmt, ...]]] = []
    for condition, body in pairs:
        start = "end else " if sections else ""
        test = Code() if condition is None else Code("if", " (", condition, ") ")
        sections.append((Line(Code(start, test, "begin")), body))
        if condition is None:
            break
    return [Nested(tuple(sections))]


_INVERSE = {
    one: other for pair in ((" == ", " != "), (" < ", " >= "), (" > ", " <= "))
    for one, other in (pair, pair[::-1])
}
_Pairs: TypeAlias = "list[tuple[Part | None, tuple[Stmt, ...]]]"


def _without_empty(pairs: _Pairs, indent: int) -> _Pairs:
    """*pairs* without branches that do nothing: what is behind one has its inverse as condition."""
    made: _Pairs = []
    for condition, body in reversed(pairs):
        if body or condition is None:
            made.insert(0, (condition, body))
        elif len(made) == 1:
            ((later, inner),) = made
            words = [*_factors(_inverse(condition)), *([] if later is None else _factors(later))]
            made = [(Code(*joined(words, " & ")) if len(words) > 1 else words[0], inner)]
        else:
            conditions, bodies = zip(*made, strict=True)
            made = [(_inverse(condition), tuple(_branches(conditions, bodies, indent + 2)))]
    return made


def _inverse(condition: Part) -> Part:
    """The condition that *condition*, one bit, is not met."""
    if isinstance(condition, Unary) and condition.parts[0] == "~":
        inner = condition.parts[1]
        bare = type(inner) is Code and len(inner.parts) == 3 and inner.parts[0] == "("
        return inner.parts[1] if bare and isinstance(inner, Code) else inner
    for one, other in _INVERSE.items():
        if type(condition) is Code and len(condition.parts) == 3 and condition.parts[1] == one:
            return Code(condition.parts[0], other, condition.parts[2])
    return Unary("~", condition if isinstance(condition, Ref) else Code("(", condition, ")"))


def _factors(condition: Part) -> list[Part]:
    """*condition* as operands of an and."""
    if isinstance(condition, Ref | Unary | Number):
        return [condition]
    parts = condition.parts if type(condition) is Code else ()
    if len(parts) > 1 and all(part == " & " for part in parts[1::2]):
        return list(parts[::2])
    if len(parts) == 3 and parts[0] == "(" and parts[2] == ")":
        return [condition]
    return [Code("(", condition, ")")]


def unused_bits(var: ir.Expr, seen: int) -> list[tuple[int, int]]:
    """Runs of bits, first and width, that are not in the mask *seen*."""
    runs = []
    at = 0
    while at < var.width:
        if seen >> at & 1:
            at += 1
            continue
        start = at
        while at < var.width and not seen >> at & 1:
            at += 1
        runs.append((start, at - start))
    return runs


def zero(var: ir.Var, structured: bool) -> Part:
    """The initial value of *var*."""
    if structured and not var.init:
        return "'0"
    return constant(var.init, var.width)
