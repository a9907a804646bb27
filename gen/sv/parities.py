# SPDX-License-Identifier: Apache-2.0
"""Checksums and digests: words of which each bit is a parity of other bits."""

from __future__ import annotations

from collections.abc import Sequence

from gen.sv import ir

__all__ = ["parities"]

_LEAST = 4  # bits from which on a function reads better than the expression


def parities(
    value: ir.Cat,
) -> tuple[tuple[ir.Expr, ...], tuple[tuple[tuple[int, ...], bool], ...]] | None:
    """The words that *value* is computed from, with masks and inversion for each of its bits.

    None if *value* is anything else.
    """
    if len(value.parts) < _LEAST:
        return None
    rows = [_parity(part) for part in value.parts]
    found: dict[ir.Expr, None] = {}
    for row in rows:
        if row is None:
            return None
        found.update(dict.fromkeys(row[0]))
    words = tuple(found)
    if not words or any(word.width < _LEAST for word in words):
        return None
    return words, tuple(
        (tuple(row[0].get(word, 0) for word in words), row[1]) for row in rows if row is not None
    )


def _parity(part: ir.Expr) -> tuple[dict[ir.Expr, int], bool] | None:
    """The masks of words of which *part*, one bit, is the parity, and if it is the inverse."""
    if part.width != 1:
        return None
    if isinstance(part, ir.Const):
        return {}, bool(part.value & 1)
    if not isinstance(part, ir.Op):
        return None
    if part.op == "odd":
        return _masked(part.args[0])
    if part.op != "^":
        return None
    masks: dict[ir.Expr, int] = {}
    inverted = False
    for arg in part.args:
        found = _parity(arg)
        if found is None:
            return None
        for word, mask in found[0].items():
            masks[word] = masks.get(word, 0) ^ mask
        inverted ^= found[1]
    return masks, inverted


def _masked(word: ir.Expr) -> tuple[dict[ir.Expr, int], bool] | None:
    if isinstance(word, ir.Op) and word.op == "&" and not word.signed:
        constants = [arg for arg in word.args if isinstance(arg, ir.Const)]
        others: Sequence[ir.Expr] = [arg for arg in word.args if not isinstance(arg, ir.Const)]
        if len(constants) == 1 and len(others) == 1 and not others[0].signed:
            mask = constants[0].value & ((1 << others[0].width) - 1)
            return {others[0]: mask}, False
    return None if word.signed else ({word: (1 << word.width) - 1}, False)
