# SPDX-License-Identifier: Apache-2.0
"""Constants that a module sees once its inputs are known: operators on them are not written."""

from __future__ import annotations

from collections.abc import Mapping

from gen.sv import ir

__all__ = ["known", "plainer"]

_Inline = Mapping[ir.Var, ir.Expr]


def known(value: ir.Expr, inline: _Inline) -> int | None:
    """The bits of *value* if it is a constant, also through signals that are written in place."""
    if isinstance(value, ir.Const):
        return value.value & _ones(value.width)
    if isinstance(value, ir.Var):
        return known(inline[value], inline) if value in inline else None
    if isinstance(value, ir.Cast) and not value.value.signed:
        bits = known(value.value, inline)
        return None if bits is None else bits & _ones(value.width)
    if isinstance(value, ir.Op) and value.width == 1:
        first, *others = (known(arg, inline) for arg in value.args)
        if value.op == "~" and first is not None and value.args[0].width == 1:
            return 1 - first
        if value.op in ("==", "!=") and None not in (first, *others) and not any(
            arg.signed for arg in value.args
        ):
            return int(([first] == others) == (value.op == "=="))
        if value.op in ("<", ">=", ">", "<=") and not any(arg.signed for arg in value.args):
            return _compared(value.op, value.args[0].width, others[0])
    return None


def _compared(operator: str, width: int, limit: int | None) -> int | None:
    """Result of comparing any number of *width* bits with *limit*, if there is but one."""
    if operator in ("<", ">="):
        return int(operator == ">=") if limit == 0 else None
    return int(operator == "<=") if limit is not None and limit >= _ones(width) else None


def plainer(value: ir.Expr, inline: _Inline) -> ir.Expr:
    """*value* without operators on constants that change nothing, or decide it alone.

    Sums are left alone: in a list their constants grow from element to element.
    """
    if isinstance(value, ir.Choice):
        return _chosen(value, inline)
    if not isinstance(value, ir.Op):
        return value
    bits = known(value, inline)
    if bits is not None:
        return ir.Const(bits, value.width, value.signed)
    if value.op not in ("&", "|", "^") or value.signed or any(arg.signed for arg in value.args):
        return value
    width = value.width
    for arg, other in (value.args, value.args[::-1]):
        bits = known(arg, inline)
        if bits is None or (isinstance(arg, ir.Const) and width > 1):
            continue  # numbers of the source were looked at when they were read
        if bits == 0 and value.op == "&":
            return ir.Const(0, width)
        if bits == 0 or (bits == _ones(width) and value.op == "&"):
            return plainer(_at(other, width), inline)
        if bits == _ones(width) and value.op == "|":
            return ir.Const(bits, width)
        if bits == 1 and width == 1:  # the exclusive or
            return ir.Op("~", [other], 1, False, value.loc)
    return value


def _chosen(value: ir.Choice, inline: _Inline) -> ir.Expr:
    bits = known(value.test, inline)
    if bits is None:
        return value
    text = format(bits, f"0{value.test.width}b")
    for patterns, inner in value.cases:
        if patterns is None or any(
            all(one in ("-", bit) for one, bit in zip(pattern, text, strict=True))
            for pattern in patterns
        ):
            return plainer(ir.Cast(inner, value.width, value.signed), inline)
    return ir.Const(0, value.width, value.signed)


def _at(value: ir.Expr, width: int) -> ir.Expr:
    return value if value.width == width else ir.Cast(value, width, False)


def _ones(width: int) -> int:
    return (1 << width) - 1
