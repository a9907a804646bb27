"""The head of a module: its docstring, ports, constants, declarations."""

from __future__ import annotations

import textwrap
from collections import Counter, defaultdict

from gen.rtlil import RESET, RESET_LOW
from gen.sv.context import Context
from gen.sv.expressions import constant, range_of
from gen.sv.layout import WIDTH, enclosed, packed, row
from gen.sv.memories import array_line, array_start
from gen.sv.names import snake

__all__ = ["NAME", "constant_lines", "declaration_lines", "head_lines", "initial_lines",
           "join_lines"]

NAME = "@NAME@"
"""Placeholder for a module's name, which depends on which other modules have the same text."""


def head_lines(c: Context) -> list[str]:
    doc = c.doc
    lines = []
    if doc is not None and doc.kind != "Module":
        lines.append(f"// {doc.kind}" + (f" ({doc.path})" if doc.path else ""))
        if doc.text:
            lines += ["//", *(f"// {line}".rstrip() for line in doc.text)]
    else:
        lines.append(f"// Part {c.module.name} of {snake(_owner(c))}.")
    ports: list[tuple[str, str, str, str]] = [
        ("input", "logic", RESET_LOW if name == RESET and c.reset_low else name, "")
        for name in c.clocked
    ]
    kinds: dict[str, str] = {}
    group = {var: str(path[0]) for path, var, _ in c.module.members}
    for name, (var, *_) in c.port_list():
        direction = "output" if c.is_output(var) else "input"
        kind = f"logic{range_of(var.width)}" if c.top else c.declared(var)
        ports.append((direction, kind, name, group.get(var, "")))
        if not c.top and var in c.element and var.fields and not c.generic:
            kinds[name] = f"  // {c.types.name(var.fields)} each"
    lines += [f"module {NAME} ("] if ports else [f"module {NAME} ();"]
    wide = max((len(kind) for _, kind, _, _ in ports), default=0)
    members = doc.members if doc else {}
    last = ""
    count = Counter(group for _, _, _, group in ports)
    for index, (direction, kind, name, group_name) in enumerate(ports):
        if group_name != last and group_name and (members.get(group_name) or (
            count[group_name] > 1
        )):
            said = members.get(group_name, "")
            text = f"{group_name}: {said}" if said else group_name
            lines += [f"    // {line}" for line in textwrap.wrap(text, WIDTH - 7)]
        last = group_name
        comma = "," if index < len(ports) - 1 else ""
        lines.append(f"    {direction:6} {kind:{wide}} {name}{comma}{kinds.get(name, '')}")
    if ports:
        lines.append(");")
    return lines


def _owner(c: Context) -> str:
    for module in reversed(c.module.ancestors()):
        if module.origin is not None:
            return type(module.origin).__name__
    return c.module.path[0]


def constant_lines(c: Context) -> list[str]:
    by_width: dict[int, list[str]] = defaultdict(list)
    for name, (width, value) in c.constants.items():
        by_width[width].append(f"{name} = {constant(value, width)}")
    lines = [
        line
        for width, words in sorted(by_width.items())
        for line in packed(f"  localparam logic{range_of(width)} ", words, ";")
    ]
    return [*lines, ""] if lines else []


def declaration_lines(c: Context) -> list[str]:
    kinds: dict[str, list[str]] = defaultdict(list)
    for var in c.local:
        if var in c.hidden or not var.width:
            continue
        name = c.names[var]
        if var in c.element:
            array, number = c.element[var]
            if number:
                continue
            name = array.name
        kinds[c.declared(var)].append(name)
    for var, name in c.mixed.items():
        kinds[c.declared(var)].append(name)
    for array, _ in c.joined:
        kinds["logic" + array.ranges()].append(array.name)
    for kind, names in c.beside.items():
        kinds[kind] += names
    lines = []
    for kind, words in kinds.items():
        lines += packed(f"  {kind} ", words, ";")
    for memory in c.memories:
        lines.append(array_line(c, memory))
    return lines


def join_lines(c: Context) -> list[str]:
    """Assignments between ports of the top that form a list and their arrays."""
    lines = []
    for array, out in c.joined:
        ports = [c.port_name(var) for var in reversed(array.elements)]
        start, end = ("{", f"}} = {array.name};") if out else (f"{array.name} = {{", "};")
        lines.append(row(f"  assign {start}", ports, end))
    return lines


def initial_lines(c: Context) -> list[str]:
    """A block that sets the values of registers and memories after power-on.

    Declarations hold no values, since Verilator warns of a register that has one there.
    """
    parts = [[f"    {line}"] for (line,) in c.starts(c.registers(), "=")]
    parts += [[line] for memory in c.memories for line in array_start(c, memory)]
    if not parts:
        return []
    return [*enclosed("  initial", c.statements.sequence(parts)), ""]
