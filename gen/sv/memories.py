# SPDX-License-Identifier: Apache-2.0
"""Memories as arrays: their declaration, their reads and writes."""

from __future__ import annotations

from gen.sv import ir
from gen.sv.constants import known
from gen.sv.context import Context
from gen.sv.tree import (
    Assignment,
    Code,
    For,
    Form,
    Line,
    Nested,
    Number,
    Part,
    Ref,
    Stmt,
    bits,
    constant,
    plain,
    vector,
)

__all__ = ["array_line", "array_start", "memory_stmts"]


def array_line(c: Context, memory: ir.Memory) -> Line:
    """The declaration of *memory*."""
    last = plain(memory.depth - 1)
    marks = [f"(* {name} *) " for name in memory.attributes]
    return Line(Code(*marks, vector(memory.width), " ", c.array(memory), " [0:", last, "];"))


def array_start(c: Context, memory: ir.Memory) -> list[Line]:
    """Statements that set the initial contents of *memory*."""
    array = Ref(c.array(memory))
    rows = [*memory.init, *[0] * (memory.depth - len(memory.init))]
    if any(rows):
        return [
            Line(Assignment("", array.then(bits(at, 1)), "=", constant(row, memory.width)))
            for at, row in enumerate(rows)
        ]
    each = array.then(Number(Form.BIT, 0, 0, ((1, "i"),)))
    fill = Assignment("", each, "=", constant(0, memory.width))
    return [Line(Code(For("int", "i", plain(memory.depth)), " ", fill))]


def _range(lo: int, width: int) -> Number:
    return Number(Form.RANGE, lo, width)


def memory_stmts(c: Context, memory: ir.Memory) -> tuple[list[Stmt], list[Stmt]]:
    """Asynchronous reads, and the clocked statements of a memory."""
    printer = c.printer
    outside: list[Stmt] = []
    inside: list[Stmt] = []
    for write in memory.writes:
        whole = c.row(memory, write.addr)
        part = memory.width // write.enable.width
        for index in range(write.enable.width):
            enable = ir.slice_of(write.enable, index, 1)
            data = ir.slice_of(ir.Cast(write.data, memory.width, False), index * part, part)
            place = whole if part == memory.width else whole.then(_range(index * part, part))
            text = Assignment("", place, "<=", printer.full(data))
            always = known(enable, printer.inline)
            if always is None:
                inside.append(Line(Code("if (", printer.full(enable), ") ", text)))
            elif always:
                inside.append(Line(text))
    for port in memory.reads:
        if isinstance(port.data, ir.Var) and port.data in c.printer.inline:
            continue
        if ir.variables(port.data).keys().isdisjoint(c.scope.live):
            continue
        target = c.statements.target(port.data, clocked=False)
        row = c.row(memory, port.addr)
        if not port.clocked:
            outside.append(Line(Assignment("assign ", target, "=", row)))
            continue
        inside += _clocked_read(c, memory, port, target, row)
    return outside, inside


def _clocked_read(
    c: Context, memory: ir.Memory, port: ir.ReadPort, target: Part, row: Part
) -> list[Stmt]:
    printer = c.printer
    made: list[Line] = [Line(Assignment("", target, "<=", row))]
    for index in port.transparent:
        write = memory.writes[index]
        here = ir.Op("==", [write.addr, port.addr], 1, False)
        part = memory.width // write.enable.width
        for number in range(write.enable.width):
            enable = ir.slice_of(write.enable, number, 1)
            hit = printer.full(ir.Op("&", [enable, here], 1, False))
            data = ir.slice_of(ir.Cast(write.data, memory.width, False), number * part, part)
            bits = () if part == memory.width else (_range(number * part, part),)
            assign = Assignment("", Code(target, *bits), "<=", printer.full(data))
            made.append(Line(Code("if (", hit, ") ", assign)))
    always = known(port.enable, printer.inline)
    if always is not None:
        return [*made] if always else []
    start = Code("if (", printer.full(port.enable), ") ")
    if len(made) == 1:
        return [Line(Code(start, made[0].code))]
    return [Nested(((Line(Code(start, "begin")), tuple(made)),))]
