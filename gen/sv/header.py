# SPDX-License-Identifier: Apache-2.0
"""The head of a module: its docstring, ports, constants, declarations."""

from __future__ import annotations

import textwrap
from collections import Counter

from gen.rtlil import RESET, RESET_LOW
from gen.sv.context import Context
from gen.sv.layout import WIDTH, enclosed
from gen.sv.memories import array_line, array_start
from gen.sv.names import snake
from gen.sv.tree import (
    BLANK,
    Code,
    Comment,
    Declared,
    Line,
    Packed,
    PortLine,
    Stmt,
    constant,
    logic,
    side_by_side,
    vector,
)

__all__ = ["declarations", "doc_comments", "enum_rows", "initial_block", "joins", "port_rows"]


def doc_comments(c: Context) -> list[Comment]:
    """The docstring of the module's class; of a part without one, whose part it is."""
    doc = c.doc
    if doc is None or doc.kind == "Module":
        return [Comment(f" Part {c.module.name} of {snake(_owner(c))}.")]
    lines = [doc.kind + (f" ({doc.path})" if doc.path else ""), *([""] if doc.text else ())]
    return [Comment(f" {line}".rstrip()) for line in (*lines, *doc.text)]


def port_rows(c: Context) -> list[Comment | PortLine]:
    """The ports in groups, with a comment above each."""
    ports: list[tuple[str, Code, str, str]] = [
        ("input", _net(logic()), RESET_LOW if name == RESET and c.reset_low else name, "")
        for name in c.clocked
    ]
    notes: dict[str, str] = {}
    group = {var: str(path[0]) for path, var, _ in c.module.members}
    for name, (var, *_) in c.port_list():
        direction = "output" if c.is_output(var) else "input"
        kind = vector(var.width) if c.top else c.declared(var)
        kind = kind if c.is_output(var) else _net(kind)
        ports.append((direction, kind, name, group.get(var, "")))
        if not c.top and var in c.element and var.fields and not c.generic:
            notes[name] = f"{c.types.name(var.fields)} each"
    made: list[Comment | PortLine] = []
    members = c.doc.members if c.doc else {}
    last = ""
    count = Counter(group for _, _, _, group in ports)
    for direction, kind, name, group_name in ports:
        if group_name != last and group_name and (members.get(group_name) or (
            count[group_name] > 1
        )):
            said = members.get(group_name, "")
            text = f"{group_name}: {said}" if said else group_name
            made += [Comment(f" {line}") for line in textwrap.wrap(text, WIDTH - 7)]
        last = group_name
        made.append(PortLine(direction, kind, name, notes.get(name, "")))
    return made


def _net(kind: Code) -> Code:
    """*kind* of an input; its net type must be named where there is no default one."""
    return Code("wire ", kind)


def _owner(c: Context) -> str:
    for module in reversed(c.module.ancestors()):
        if module.origin is not None:
            return type(module.origin).__name__
    return c.module.path[0]


def enum_rows(c: Context) -> list[Stmt]:
    """The types of named values: all of them if a signal has the type, else those that are used."""
    return [
        Line(Packed(
            Code("typedef enum ", vector(enum.width), " {"),
            *(Code(label, " = ", constant(value, enum.width))
              for value, label in enum.labels.items()
              if enum.name in c.typed or label in c.used_labels),
            f"}} {enum.name};",
        ))
        for enum in c.enums.values()
    ]


def declarations(c: Context) -> list[Stmt]:
    """The signals, each on its own, and memories."""
    found: list[tuple[Code, str]] = []
    for var in c.local:
        if var in c.hidden or not var.width:
            continue
        name = str(c.names[var])
        if var in c.element:
            array, number = c.element[var]
            if number:
                continue
            name = array.name
        found.append((c.declared(var), name))
    found += [(c.declared(var), name) for var, name in c.mixed.items()]
    found += [(array.declared(), array.name) for array, _ in c.joined]
    found += [(kind, name) for kind, names in c.beside.items() for name in names]
    rows = [Line(Declared(Code(kind, " "), name, ";")) for kind, name in found]
    return [*rows, *(array_line(c, memory) for memory in c.memories)]


def joins(c: Context) -> list[Stmt]:
    """Assignments between ports of the top that form a list and their arrays."""
    made: list[Stmt] = []
    for array, out in c.joined:
        ports = [c.port_name(var) for var in reversed(array.elements)]
        made.append(Line(side_by_side(array.name, ports, out)))
    return made


def initial_block(c: Context) -> list[Stmt]:
    """A block that sets the values of registers and memories after power-on.

    Declarations hold no values, since Verilator warns of a register that has one there.
    """
    parts = [[line] for line in c.starts(c.registers(), "=")]
    parts += [[line] for memory in c.memories for line in array_start(c, memory)]
    if not parts:
        return []
    return [enclosed(Code("initial"), c.statements.sequence(parts, 4), 2), BLANK]
