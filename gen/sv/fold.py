# SPDX-License-Identifier: Apache-2.0
"""Decide which signals and expressions are written inline where used, and which get a wire."""

from __future__ import annotations

from collections import Counter

from gen.sv import ir, source
from gen.sv.context import Context, roots
from gen.sv.expressions import Raw

__all__ = ["fold", "share"]

_SMALL = 4  # most operators of an expression that is written in place of a signal


def _size(expr: ir.Expr) -> int:
    own = isinstance(expr, ir.Op | ir.PartSelect) or (
        isinstance(expr, ir.Choice) and len(expr.cases)
    )
    return int(own) + sum(_size(inner) for inner in ir.operands(expr))


def fold(c: Context) -> None:
    """Find the signals that need no declaration."""
    reads: Counter[ir.Var] = Counter()
    sliced: set[ir.Var] = set()

    def visit(expr: ir.Expr) -> None:
        if isinstance(expr, ir.Var):
            reads[expr] += 1
        elif isinstance(expr, ir.Slice | ir.PartSelect) and isinstance(expr.value, ir.Var):
            sliced.add(expr.value)
        for inner in ir.operands(expr):
            visit(inner)

    for stmt in (*c.comb, *c.sync):
        for root in roots(stmt):
            visit(root)
    beside: Counter[ir.Var] = Counter()
    for memory in c.memories:
        for value in memory.inputs():
            beside.update(ir.variables(value).keys())
    for box in c.module.boxes:
        for _, value in box.inputs:
            beside.update(ir.variables(value).keys())
    driven_below: set[ir.Var] = set()
    below: Counter[ir.Var] = Counter()
    for child in c.module.children:
        for var, out in c.scope.ports[child].items():
            if out:
                driven_below.add(var)
            else:
                below[var] += 1
    sole = _sole(c)
    local = set(c.local)
    _fold_undriven(c, reads, beside)
    in_list = _in_lists(c)
    for var, stmt in sole.items():
        if var not in local or var in c.plan.kept:
            continue
        if var in in_list and not isinstance(stmt.rhs, ir.Var):
            continue
        uses, elsewhere = reads[var], beside[var] + below[var]
        private = not var.name and uses + elsewhere <= 1
        passed = not uses and elsewhere == 1 and _size(stmt.rhs) <= _SMALL
        if private or passed or (not var.name and _size(stmt.rhs) <= 2):
            _in_place(c, var, stmt)
    # An output of a child or memory that one statement copies drives its target directly.
    for var, stmt in list(sole.items()):
        given = stmt.rhs
        if (
            isinstance(given, ir.Var)
            and given in local
            and given not in c.plan.kept
            and given not in c.names.keys() & c.printer.inline.keys()
            and reads[given] == 1
            and not beside[given]
            and not below[given]
            and given not in sliced
            and given.width == var.width
            and var not in c.printer.inline
            and (given in driven_below or _from_memory(c, given))
        ):
            c.hidden.add(given)
            c.names[given] = c.name(var)
            c.comb.remove(stmt)
    for memory in c.memories:
        for port in memory.reads:
            data = port.data
            once = isinstance(data, ir.Var) and reads[data] + below[data] == 1
            if (
                not port.clocked and once and isinstance(data, ir.Var) and data in local
                and data not in sliced and not beside[data] and data not in c.hidden
            ):
                _row_in_place(c, memory, port, data)


def _in_lists(c: Context) -> set[ir.Var]:
    """Signals that are passed to a submodule as part of an array."""
    return {
        var
        for _, written in c.children.values() for _, elements in written.ports
        if len(elements) > 1 for var in elements
    }


def _sole(c: Context) -> dict[ir.Var, ir.Assign]:
    """Variables that one unconditional statement drives as a whole."""
    count: Counter[ir.Var] = Counter()
    found: dict[ir.Var, ir.Assign] = {}
    for stmt in (*c.comb, *c.sync):
        count.update(stmt.writes.keys())
    for stmt in c.comb:
        if isinstance(stmt, ir.Assign) and isinstance(stmt.lhs, ir.Var):
            found[stmt.lhs] = stmt
    return {var: stmt for var, stmt in found.items() if count[var] == 1}


def _fold_undriven(c: Context, reads: Counter[ir.Var], beside: Counter[ir.Var]) -> None:
    known = {c.module.clk, c.module.rst, *c.ports, *c.local}
    for var in (*reads, *beside):
        declared = var in known or var in c.scope.driver
        if not declared and var not in c.scope.top_ports:
            c.printer.inline[var] = ir.Const(var.init, var.width, var.signed)


def _in_place(c: Context, var: ir.Var, stmt: ir.Assign) -> None:
    c.printer.inline[var] = ir.Cast(stmt.rhs, var.width, var.signed)
    c.hidden.add(var)
    c.comb.remove(stmt)


def _from_memory(c: Context, var: ir.Var) -> bool:
    return any(port.data is var and port.clocked for m in c.memories for port in m.reads)


def _row_in_place(c: Context, memory: ir.Memory, port: ir.ReadPort, data: ir.Var) -> None:
    c.printer.inline[data] = Raw(c.row(memory, port.addr), memory.width)
    c.hidden.add(data)


def share(c: Context) -> None:
    """Give a wire to expressions that occur more than once, or of which bits are taken."""
    count: Counter[ir.Expr] = Counter()
    order: dict[ir.Expr, None] = {}
    cut: set[ir.Expr] = set()
    cuttable = ("+", "-", "*", "<<", ">>", "neg", "//", "%")

    def visit(expr: ir.Expr) -> None:
        if isinstance(expr, ir.Var):
            if expr in c.printer.inline and count[expr] == 0:
                count[expr] += 1
                visit(c.printer.inline[expr])
            return
        count[expr] += 1
        if isinstance(expr, ir.Slice):
            inner = expr.value
            while isinstance(inner, ir.Cast):
                inner = inner.value
            if expr.lo and isinstance(inner, ir.Op) and inner.op in cuttable:
                cut.add(inner)
        if count[expr] == 1:
            for inner in ir.operands(expr):
                visit(inner)
            order[expr] = None

    for stmt in (*c.comb, *c.sync):
        for root in roots(stmt):
            visit(root)
    for expr in order:
        often = count[expr] > 1 and _size(expr) >= 3
        if not isinstance(expr, ir.Op | ir.Choice | ir.PartSelect) or not (often or expr in cut):
            continue
        if source.name_of(expr.loc) is None:
            continue
        text = c.printer.full(expr)
        c.printer.shared[expr] = c.wire(text, expr.width, expr)
