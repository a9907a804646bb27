# SPDX-License-Identifier: Apache-2.0
"""Group combinational statements into blocks, and order them.

In Amaranth a signal has one value per cycle, whatever the order of its statements; in a block of
SystemVerilog a read yields what was assigned last. So the statements of a block are ordered such
that all that is read has its final value by then; where no order will do, they are split.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from gen.checks import DesignError
from gen.sv import ir
from gen.sv.scope import assigned, decides

__all__ = ["Block", "arrange", "pruned", "reading", "untangled"]

Keep = Callable[[ir.Var, int, int], bool]
_Graph = dict[ir.Var, dict[ir.Var, int]]


@dataclass(frozen=True)
class Block:
    """Statements of one block, in an order in which they may be executed."""

    stmts: tuple[ir.Stmt, ...]
    vars: tuple[ir.Var, ...]


def pruned(stmts: Iterable[ir.Stmt], keep: Keep) -> list[ir.Stmt]:
    """*stmts* reduced to assignments to the bits (variable, first, width) that *keep* accepts."""
    left: list[ir.Stmt] = []
    for stmt in stmts:
        if isinstance(stmt, ir.CaseSwitch):
            switch = stmt.with_bodies(lambda body: pruned(body, keep))
            if any(case.body for case in switch.cases):
                left.append(switch)
            continue
        wanted = [keep(*target) for target in ir.targets(stmt.lhs)]
        if all(wanted):
            left.append(stmt)
        elif any(wanted):
            assert isinstance(stmt.lhs, ir.Cat)
            rhs = ir.Cast(stmt.rhs, stmt.lhs.width, False)
            at = 0
            for part, kept in zip(stmt.lhs.parts, wanted, strict=True):
                if kept:
                    piece = ir.slice_of(rhs, at, part.width, stmt.loc)
                    left.append(ir.Assign(part, piece, stmt.loc))
                at += part.width
    return left


def arrange(stmts: Sequence[ir.Stmt], where: str) -> list[Block]:
    """Arrange *stmts* in blocks with the same meaning."""
    needs = _needs(stmts)
    for var in needs:
        needs[var] = {other: mask for other, mask in needs[var].items() if other in needs}
    blocks = []
    for group in _groups(stmts):
        inside = tuple(dict.fromkeys(var for stmt in group for var in stmt.writes))
        if not _leaves_and_returns(inside, needs) and (ordered := _ordered(group)) is not None:
            blocks.append(Block(tuple(ordered), inside))
        elif any(_reaches(var, var, needs) for var in inside):
            blocks.append(Block(tuple(_by_parts(group, where)), inside))
        else:
            blocks += _by_level(group, inside, needs)
    return blocks


def _needs(stmts: Sequence[ir.Stmt]) -> _Graph:
    """For each variable that *stmts* write, the bits that decide its value, as masks."""
    needs: _Graph = defaultdict(dict)
    for stmt in stmts:
        for var in stmt.writes:
            decides(stmt, var, needs[var])
    return dict(needs)


def untangled(stmts: Sequence[ir.Stmt]) -> tuple[list[ir.Stmt], list[ir.Var]]:
    """*stmts*, with a variable for each part of a structure that other parts of it depend on.

    Simulators track whole variables and take a field computed from another one for a loop.
    """
    needs = _needs(stmts)
    for var, found in needs.items():
        needs[var] = {other: mask for other, mask in found.items() if other in needs}
    looked: dict[ir.Var, int] = {}
    for each in needs.values():
        for var, mask in each.items():
            looked[var] = looked.get(var, 0) | mask
    once: dict[ir.Var, int] = defaultdict(int)
    twice: dict[ir.Var, int] = defaultdict(int)
    for stmt in stmts:
        for var, mask in stmt.writes.items():
            twice[var] |= once[var] & mask
            once[var] |= mask
    parts: dict[ir.Var, list[tuple[int, ir.Var]]] = defaultdict(list)
    made: list[ir.Stmt] = []
    for stmt in stmts:
        part = stmt.lhs if isinstance(stmt, ir.Assign) else None
        if not isinstance(part, ir.Slice) or not isinstance(part.value, ir.Var):
            made.append(stmt)
            continue
        assert isinstance(stmt, ir.Assign)
        var = part.value
        mask = ((1 << part.width) - 1) << part.lo
        if twice[var] & mask or not looked.get(var, 0) & mask or not _reaches(var, var, needs):
            made.append(stmt)
            continue
        fields = [field.name for field in var.fields if (field.lo, field.width) == (
            part.lo, part.width)]
        name = "_".join([var.name.replace("__", "_"), *fields])
        alone = ir.Var(name, part.width, False, init=0, reset_less=True, loc=stmt.loc)
        parts[var].append((part.lo, alone))
        made += [ir.Assign(alone, stmt.rhs, stmt.loc), ir.Assign(part, alone, stmt.loc)]

    def other(expr: ir.Expr) -> ir.Expr | None:
        if isinstance(expr, ir.Slice) and isinstance(expr.value, ir.Var):
            for lo, alone in parts.get(expr.value, ()):
                if lo <= expr.lo and expr.lo + expr.width <= lo + alone.width:
                    return ir.slice_of(alone, expr.lo - lo, expr.width, expr.loc)
        return None

    if not parts:
        return list(stmts), []
    done: dict[ir.Expr, ir.Expr] = {}
    alone_ones = [var for each in parts.values() for _, var in each]
    return [reading(stmt, other, done) for stmt in made], alone_ones


def reading(
    stmt: ir.Stmt, new: Callable[[ir.Expr], ir.Expr | None], done: dict[ir.Expr, ir.Expr]
) -> ir.Stmt:
    """*stmt* with the expressions that it reads replaced by *new*; *done* as of `ir.replaced`."""
    if isinstance(stmt, ir.Assign):
        return ir.Assign(stmt.lhs, ir.replaced(stmt.rhs, new, done), stmt.loc)
    read = stmt.with_bodies(lambda body: [reading(inner, new, done) for inner in body])
    return replace(read, test=ir.replaced(stmt.test, new, done))


def _groups(stmts: Sequence[ir.Stmt]) -> list[list[ir.Stmt]]:
    """Group statements that write common variables, in the order of the first of each group."""
    root: dict[ir.Var, ir.Var] = {}

    def find(var: ir.Var) -> ir.Var:
        while root.setdefault(var, var) is not var:
            var = root[var]
        return var

    for stmt in stmts:
        first, *others = stmt.writes
        for other in others:
            root[find(other)] = find(first)
    groups: dict[ir.Var, list[ir.Stmt]] = defaultdict(list)
    for stmt in stmts:
        groups[find(next(iter(stmt.writes)))].append(stmt)
    return list(groups.values())


def _reaches(start: ir.Var, goal: ir.Var, needs: _Graph) -> bool:
    """Return True if the value of *start* depends on that of *goal*, in one step or more."""
    todo, seen = list(needs[start]), set()
    while todo:
        var = todo.pop()
        if var is goal:
            return True
        if var not in seen:
            seen.add(var)
            todo += needs[var]
    return False


def _leaves_and_returns(group: Sequence[ir.Var], needs: _Graph) -> bool:
    """Return True if a variable of *group* depends on one of *group* through one outside."""
    inside = set(group)
    todo = [other for var in group for other in needs[var] if other not in inside]
    seen: set[ir.Var] = set()
    while todo:
        var = todo.pop()
        if var in inside:
            return True
        if var not in seen:
            seen.add(var)
            todo += needs[var]
    return False


def _ordered(stmts: Sequence[ir.Stmt]) -> list[ir.Stmt] | None:
    """*stmts* ordered such that bits are written before they are read; None if impossible."""
    written = [stmt.writes for stmt in stmts]
    read: list[dict[ir.Var, int]] = []
    for stmt in stmts:
        found: dict[ir.Var, int] = {}
        decides(stmt, None, found)
        read.append(found)

    def clash(one: Mapping[ir.Var, int], other: Mapping[ir.Var, int]) -> bool:
        return any(other.get(var, 0) & mask for var, mask in one.items())

    count = len(stmts)
    before = [
        [
            other
            for other in range(count)
            if clash(written[other], read[index])
            or (other < index and clash(written[other], written[index]))
        ]
        for index in range(count)
    ]
    done: dict[int, None] = {}
    while len(done) < count:
        ready = (
            index
            for index in range(count)
            if index not in done and all(other in done for other in before[index])
        )
        following = next(ready, None)
        if following is None:
            return None
        done[following] = None
    return [stmts[index] for index in done]


def _by_level(
    group: Sequence[ir.Stmt], inside: Sequence[ir.Var], needs: _Graph
) -> list[Block]:
    """A block per level: variables that need no others of the group, those that need these, ..."""
    known: dict[ir.Var, int] = {}
    members = set(inside)

    def level(var: ir.Var) -> int:
        if var not in known:
            known[var] = 0
            known[var] = max(
                (level(other) + (other in members) for other in needs[var]), default=0
            )
        return known[var]

    blocks = []
    for number in sorted({level(var) for var in inside}):
        here = {var for var in inside if level(var) == number}
        some = pruned(group, lambda var, _lo, _width, here=here: var in here)  # type: ignore[misc]
        ordered = _ordered(some)
        order = tuple(var for var in inside if var in here)
        blocks.append(Block(tuple(some if ordered is None else ordered), order))
    return blocks


def _by_parts(group: Sequence[ir.Stmt], where: str) -> list[ir.Stmt]:
    """*group* split by the parts of its variables that are written or read separately."""
    edges: dict[ir.Var, set[int]] = defaultdict(set)
    inside = assigned(group)

    def bounds(lo: int, width: int, var: ir.Var) -> None:
        edges[var].update((lo, lo + width))

    def visit(stmt: ir.Stmt) -> None:
        if isinstance(stmt, ir.Assign):
            for var, lo, width in ir.targets(stmt.lhs):
                bounds(lo, width, var)
            ranges(stmt.rhs)
            return
        ranges(stmt.test)
        for case in stmt.cases:
            for inner in case.body:
                visit(inner)

    def ranges(expr: ir.Expr) -> None:
        lo, value = 0, expr
        if isinstance(value, ir.Slice):
            lo, value = value.lo, value.value
        if isinstance(value, ir.Var):
            bounds(lo, expr.width, value)
        else:
            for inner in ir.operands(expr):
                ranges(inner)

    for stmt in group:
        visit(stmt)
    parts = []
    for var in inside:
        cuts = sorted(edges[var] | {0, var.width})
        parts += [(var, lo, hi - lo) for lo, hi in pairwise(cuts)]
    # An assignment to several parts at once is cut, so that each part can be placed separately.
    fine = _cut(group, {var: sorted(edges[var] | {0, var.width}) for var in inside})
    level = _part_levels(fine, parts, where)
    ordered: list[ir.Stmt] = []
    for number in sorted(set(level.values())):
        ordered += pruned(fine, lambda *target, number=number: level.get(target) == number)
    return ordered


def _cut(stmts: Iterable[ir.Stmt], cuts: dict[ir.Var, list[int]]) -> list[ir.Stmt]:
    fine: list[ir.Stmt] = []
    for stmt in stmts:
        if isinstance(stmt, ir.CaseSwitch):
            fine.append(stmt.with_bodies(lambda body: _cut(body, cuts)))
            continue
        if isinstance(stmt.lhs, ir.PartSelect):
            fine.append(stmt)
            continue
        at = 0
        for var, lo, width in ir.targets(stmt.lhs):
            inner = [cut for cut in cuts[var] if lo <= cut <= lo + width]
            for start, stop in pairwise(inner):
                whole = ir.Cast(stmt.rhs, stmt.lhs.width, False)
                rhs = ir.slice_of(whole, at + start - lo, stop - start, stmt.loc)
                fine.append(ir.Assign(ir.slice_of(var, start, stop - start), rhs, stmt.loc))
            at += width
    return fine


def _part_levels(
    stmts: Sequence[ir.Stmt], parts: Sequence[tuple[ir.Var, int, int]], where: str
) -> dict[tuple[ir.Var, int, int], int]:
    """A level for each of *parts*, which needs only parts of lower levels."""
    needs: dict[tuple[ir.Var, int, int], list[tuple[ir.Var, int, int]]] = {}
    for part in parts:
        only = pruned(stmts, lambda *target, part=part: target == part)
        found: dict[ir.Var, int] = {}
        for stmt in only:
            decides(stmt, None, found)
        needs[part] = [
            other
            for other in parts
            if found.get(other[0], 0) >> other[1] & ((1 << other[2]) - 1)
        ]
    level: dict[tuple[ir.Var, int, int], int] = {}
    left = dict.fromkeys(parts)
    while left:
        ready = [part for part in left if not any(other in left for other in needs[part])]
        if not ready:
            names = sorted({var.name for var, _, _ in left})
            raise DesignError(f"{where}: combinational loop through {', '.join(names)}")
        number = max(level.values(), default=-1) + 1
        for part in ready:
            level[part] = number
            del left[part]
    return level
