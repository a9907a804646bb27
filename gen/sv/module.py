"""One module as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gen.rtlil import CLOCK, RESET, RESET_LOW
from gen.sv import ir, source
from gen.sv.blocks import Block, arrange
from gen.sv.context import Context, Written
from gen.sv.expressions import constant
from gen.sv.fold import fold, share
from gen.sv.header import constant_lines, declaration_lines, head_lines
from gen.sv.instances import instance_lines
from gen.sv.layout import WIDTH, packed, wrapped
from gen.sv.memories import memory_lines
from gen.sv.scope import Scope, assigned
from gen.sv.statements import unused_bits
from gen.sv.types import Types

__all__ = ["write_module"]


def write_module(
    module: ir.Module,
    scope: Scope,
    types: Types,
    children: Mapping[ir.Module, tuple[str, Written]],
    *,
    reset_low: bool = False,
) -> Written:
    """The text of *module*; *children* are its modules by name, written before.

    With *reset_low* its reset is active while it is low: the port is `RESET_LOW`.
    """
    c = Context(module, scope, types, children, reset_low)
    c.name_all()
    fold(c)
    for var in (*c.order, *(var for var in c.local if var not in c.hidden)):
        c.name(var)
    c.find_mixed()
    share(c)
    body: list[str] = []
    for block in arrange(c.comb, ".".join(module.path)):
        lines = _combinational(c, block)
        if len(lines) > 1 and lines[0].startswith("  always") and body:
            body.append("")
        body += lines
    body += _constant_outputs(c)
    instances = instance_lines(c)
    registered = _registers(c)
    unused = _unused(c)
    head = head_lines(c)
    inside = [f"  wire {RESET} = ~{RESET_LOW};"] if c.reset_low else []
    lines = [*head, *inside, *constant_lines(c), *declaration_lines(c), *c.wires]
    for section in (instances, body, registered, unused):
        if section:
            lines += ["", *section]
    lines.append("endmodule")
    registers = {
        var: c.mixed.get(var, c.names[var]) for stmt in c.sync for var in ir.writes(stmt)
    }
    for memory in c.memories:
        for port in memory.reads:
            if port.clocked and isinstance(port.data, ir.Var):
                registers[port.data] = c.names[port.data]
    return Written(
        list(wrapped(lines)), c.order, c.names, c.clocked, registers, c.instances, c.arrays,
        {var: mask for var, mask in assigned(c.sync).items() if var in c.mixed},
    )


def _combinational(c: Context, block: Block) -> list[str]:
    if len(block.stmts) == 1 and isinstance(block.stmts[0], ir.Assign):
        (stmt,) = block.stmts
        assert isinstance(stmt, ir.Assign)
        whole = isinstance(stmt.lhs, ir.Var) or (
            isinstance(stmt.lhs, ir.Cat) and _covers(block)
        )
        if whole and not any(var in c.mixed for var in block.vars):
            *above, line = c.statements.lines(stmt, "  ", clocked=False)
            return [*above, f"  assign {line.strip()}"]
    short = _as_choice(c, block)
    if short:
        return short
    at = source.where(block.stmts[0].loc)
    lines = ["  always_comb begin" + (f"  // {at}" if at else "")]
    covered = _unconditional(block.stmts)
    for var in block.vars:
        if var in c.mixed:
            lines.append(f"    {c.names[var]} = {c.mixed[var]};")
            free = assigned(block.stmts)[var] & ~covered.get(var, 0)
            for lo, width in unused_bits(var, ~free):
                start = constant(var.init >> lo, width)
                lines.append(f"    {c.printer.target(var, lo, width)} = {start};")
        elif covered.get(var, 0) != (1 << var.width) - 1:
            lines.append(f"    {c.names[var]} = {c.initial(var)};")
    for stmt in block.stmts:
        lines += c.statements.lines(stmt, "    ", clocked=False)
    return [*lines, "  end"]


def _as_choice(c: Context, block: Block) -> list[str]:
    """One condition that decides one signal as an assignment, if that fits a line."""
    stmt = block.stmts[0]
    if len(block.stmts) > 1 or len(block.vars) > 1 or not isinstance(stmt, ir.Switch):
        return []
    bodies = [case.body for case in stmt.cases]
    test = stmt.test
    if len(bodies) != 1 or len(bodies[0]) != 1 or test.width != 1:
        return []
    (var,), inner = block.vars, bodies[0][0]
    if not isinstance(inner, ir.Assign) or inner.lhs is not var or var in c.mixed:
        return []
    if stmt.cases[0].patterns != ("1",) or source.comment_above(inner.loc):
        return []
    condition = c.printer.full(test)
    condition = f"({condition})" if " " in condition else condition
    value = c.printer.at(inner.rhs, var.width, var.enum)
    otherwise = c.initial(var)
    if " ? " in value or c.fields(var):
        return []
    line = f"  assign {c.names[var]} = {condition} ? {value} : {otherwise};"
    return [*c.statements.comments(stmt.loc, "  "), line] if len(line) <= WIDTH else []


def _constant_outputs(c: Context) -> list[str]:
    """Ports that nobody drives."""
    return [
        f"  assign {c.names[var]} = {c.initial(var)};"
        for var in c.order
        if c.is_output(var) and var not in c.scope.driver
    ]


def _registers(c: Context) -> list[str]:
    lines: list[str] = []
    after: list[str] = []
    for memory in c.memories:
        one, other = memory_lines(c, memory)
        lines += one
        after += other
    if not c.sync and not after:
        return lines
    lines.append(f"  always_ff @(posedge {CLOCK}) begin")
    lines += after
    registers: dict[ir.Var, None] = {}
    for stmt in c.sync:
        registers.update(dict.fromkeys(ir.writes(stmt)))
        text = c.statements.lines(stmt, "    ", clocked=True)
        at = source.where(stmt.loc)
        if isinstance(stmt, ir.Switch) and at and len(text) > 1:
            first = next(i for i, line in enumerate(text) if not line.strip().startswith("//"))
            text[first] += f"  // {at}"
        lines += text
    reset = [var for var in registers if not var.reset_less and c.module.rst is not None]
    if reset:
        lines.append(f"    if ({RESET}) begin")
        for var in reset:
            lines.append(f"      {c.mixed.get(var, c.names[var])} <= {c.initial(var)};")
        lines.append("    end")
    return [*lines, "  end"]


def _unused(c: Context) -> list[str]:
    """A sink for what nobody reads, so that no linter has to ask whether that is meant."""
    words: list[str] = []
    seen = c.printer.seen
    given = {
        var for child in c.module.children for var in c.scope.ports[child]
    }
    for var in (*c.order, *c.local):
        if var in c.hidden or _is_port_out(c, var) or not var.width:
            continue
        if var in given and not (var in c.local or var in c.ports):
            continue
        words += [
            c.printer.target(var, lo, width)
            for lo, width in unused_bits(var, seen.get(var, 0))
        ]
    for expr, wire in c.printer.shared.items():
        words += [
            f"{wire}[{lo}]" if width == 1 else f"{wire}[{lo + width - 1}:{lo}]"
            for lo, width in unused_bits(expr, seen.get(expr, 0))
        ]
    own = [name for name in c.clocked if not _clock_used(c, name)]
    if not words and not own:
        return []
    sink = c.taken.new("unused")
    return packed(f"  wire {sink} = &{{", ["1'b0", *own, *words], "};")


def _is_port_out(c: Context, var: ir.Var) -> bool:
    return var in c.order and c.is_output(var)


def _clock_used(c: Context, name: str) -> bool:
    below = any(name in written.clocked for _, written in c.children.values())
    var = c.module.clk if name == CLOCK else c.module.rst
    if below or (var is not None and c.printer.seen.get(var)):
        return True
    if name == CLOCK:
        return bool(c.sync or c.memories)
    return any(not var.reset_less for stmt in c.sync for var in ir.writes(stmt))


def _covers(block: Block) -> bool:
    covered = _unconditional(block.stmts)
    return all(covered.get(var, 0) == (1 << var.width) - 1 for var in block.vars)


def _unconditional(stmts: Iterable[ir.Stmt]) -> dict[ir.Var, int]:
    """The bits that are assigned whatever happens."""
    covered: dict[ir.Var, int] = {}
    for stmt in stmts:
        if isinstance(stmt, ir.Assign) and not isinstance(stmt.lhs, ir.Part):
            for var, mask in ir.writes(stmt).items():
                covered[var] = covered.get(var, 0) | mask
    return covered
