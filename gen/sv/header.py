"""The head of a module: what its source says of it, ports, constants, declarations."""

from __future__ import annotations

import textwrap
from collections import Counter, defaultdict

from gen.rtlil import RESET, RESET_LOW
from gen.sv import ir
from gen.sv.context import Context
from gen.sv.expressions import constant, range_of
from gen.sv.layout import WIDTH, packed
from gen.sv.memories import array_lines
from gen.sv.names import snake
from gen.sv.statements import zero

__all__ = ["NAME", "constant_lines", "declaration_lines", "head_lines"]

NAME = "@NAME@"
"""Stands for the name of the module, which depends on which other modules have the same text."""


def head_lines(c: Context) -> list[str]:
    doc = c.doc
    lines = []
    if doc is not None and doc.kind != "Module":
        lines.append(f"// {doc.kind}" + (f" ({doc.path})" if doc.path else ""))
        if doc.text:
            lines += ["//", *(f"// {line}".rstrip() for line in doc.text)]
    else:
        lines.append(f"// Part {c.module.name} of {snake(_owner(c))}.")
    registers = {var for stmt in c.sync for var in ir.writes(stmt)}
    combs = {var for stmt in c.comb for var in ir.writes(stmt)}
    ports: list[tuple[str, str, str, str]] = [
        ("input", "logic", RESET_LOW if name == RESET and c.reset_low else name, "")
        for name in c.clocked
    ]
    group = {var: str(path[0]) for path, var, _ in c.module.members}
    for var in c.order:
        direction = "output" if c.is_output(var) else "input"
        name = c.names[var]
        if var in registers and var not in combs:
            name += f" = {zero(var, bool(c.fields(var)))}"
        ports.append((direction, c.declared(var), name, group.get(var, "")))
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
        lines.append(f"    {direction:6} {kind:{wide}} {name}{comma}")
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
    registers = {var for stmt in c.sync for var in ir.writes(stmt)}
    for memory in c.memories:
        for port in memory.reads:
            if port.clocked:
                registers.update(ir.variables(port.data))
    kinds: dict[tuple[bool, str], list[str]] = defaultdict(list)
    for var in c.local:
        if var in c.hidden or not var.width:
            continue
        register = var in registers and var not in c.mixed
        name = c.names[var] + (f" = {c.initial(var)}" if register else "")
        kinds[register, c.declared(var)].append(name)
    for var, name in c.mixed.items():
        kinds[True, c.declared(var)].append(f"{name} = {c.initial(var)}")
    lines = []
    for (_, kind), words in sorted(kinds.items(), key=lambda item: item[0][0]):
        lines += packed(f"  {kind} ", words, ";")
    for memory in c.memories:
        lines += array_lines(c, memory)
    return lines
