# SPDX-License-Identifier: Apache-2.0
"""Operators on numbers that change nothing, left out of a text once its loops are found.

Before, numbers of neighbours may differ and grow: ``x + 8'd0`` is the first of a list.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gen.sv.tree import (
    Code,
    Form,
    Line,
    Nested,
    Number,
    Part,
    Ref,
    Stmt,
    Unary,
    constant,
)

__all__ = ["without_idle"]


def without_idle(stmts: Iterable[Stmt]) -> tuple[Stmt, ...]:
    """*stmts* without terms of zero, factors of one, and bits that decide nothing."""
    made: list[Stmt] = []
    for stmt in stmts:
        if isinstance(stmt, Nested):
            sections = tuple((_line(head), without_idle(body)) for head, body in stmt.sections)
            stmt = replace(stmt, sections=sections)
        elif isinstance(stmt, Line):
            stmt = _line(stmt)
        made.append(stmt)
    return tuple(made)


def _line(line: Line) -> Line:
    code = _plainer(line.code)
    assert isinstance(code, Code)
    return line if code is line.code else replace(line, code=code)


def _plainer(part: Part) -> Part:
    if not isinstance(part, Code):
        return part
    parts = [_plainer(inner) for inner in part.parts]
    if any(one is not other for one, other in zip(parts, part.parts, strict=True)):
        part = type(part)(*parts)
    if isinstance(part, Unary) and parts[0] == "~" and (bit := _bit(parts[1])) is not None:
        return constant(1 - bit, 1)
    if isinstance(part, Unary) and parts[0] == "~":
        inner = parts[1]
        if type(inner) is Code and inner.parts[0] == "(" and len(inner.parts) == _BINARY:
            inner = inner.parts[1]
        return inner.parts[1] if isinstance(inner, Unary) and inner.parts[0] == "~" else part
    if type(part) is not Code or len(parts) < _BINARY:
        return part
    if len(parts) == _BINARY and parts[0] == "(" and parts[2] == ")":
        return parts[1] if _atom(parts[1]) else part
    operator = parts[1]
    if not all(each == operator for each in parts[1::2]) or len(parts) % 2 == 0:
        return part
    operands = parts[::2]
    return _operated(str(operator), operands, part)


_BINARY = 3  # operand, operator, operand


def _operated(operator: str, operands: list[Part], part: Part) -> Part:
    first, *others = operands
    numbers = [_value(each) for each in operands]
    if operator == " == " and None not in numbers and len(operands) == 2:
        return constant(numbers[0] == numbers[1], 1)
    if operator in (" - ", " * ", " + ") and len(operands) == 2:
        idle = 1 if operator == " * " else 0
        return first if numbers[1] == idle else others[0] if (
            numbers[0] == idle and operator != " - "
        ) else part
    if operator not in (" & ", " | "):
        return part
    bits = [_bit(each) for each in operands]
    decides = 0 if operator == " & " else 1
    if decides in bits:
        return constant(decides, 1)
    left = [each for each, bit in zip(operands, bits, strict=True) if bit is None]
    if len(left) == len(operands):
        return part
    if not left:
        return constant(1 - decides, 1)
    made: list[Part] = []
    for each in left:
        made += [operator, each] if made else [each]
    return Code(*made) if len(left) > 1 else left[0]


def _atom(part: Part) -> bool:
    """Return True if *part* needs no parentheses."""
    return isinstance(part, Number | Ref)


def _value(part: Part) -> int | None:
    return part.value if (
        isinstance(part, Number) and part.form is Form.LITERAL and not part.terms
    ) else None


def _bit(part: Part) -> int | None:
    one = isinstance(part, Number) and part.width == 1
    return _value(part) if one else None
