"""Instances of other modules, with their connections grouped by interface."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from gen.sv import ir
from gen.sv.context import Apart, Context
from gen.sv.elements import named_in_loop
from gen.sv.expressions import constant
from gen.sv.layout import row
from gen.sv.lists import compressed
from gen.sv.loops import Item, aligned, looped, parsed, rolled

__all__ = ["instance_lines"]


@dataclass(frozen=True)
class _Port:
    name: str
    vars: tuple[ir.Var, ...]
    text: str


def instance_lines(c: Context) -> list[str]:
    """The instances of a module, those of a list as a loop."""
    lists: dict[str, list[tuple[list[_Port], Item]]] = defaultdict(list)
    order: list[tuple[str, Item | None]] = []
    scopes: dict[str, tuple[str, str]] = {}
    for child in c.module.children:
        if child not in c.children:
            continue
        kind, written = c.children[child]
        ports = [_Port(clock, (), clock) for clock in written.clocked]
        ports += [_Port(name, both, _outside(c, both, child)) for name, both in written.ports]
        name = _named(c, child.name, scopes)
        c.instances[child] = name[1]
        item = parsed(_instance(kind, name[0], _rows(child, ports)))
        _add(c, child.name, ports, item, lists, order)
    for box in c.module.boxes:
        ports = [_Port(port, (), c.printer.full(value)) for port, value in box.inputs]
        ports += [
            _Port(port, (), c.statements.target(value, clocked=False))
            for port, value in box.outputs
        ]
        module = box.module
        if box.parameters:
            words = ", ".join(
                f".{key}({value})" if isinstance(value, int) else f'.{key}("{value}")'
                for key, value in box.parameters
            )
            module += f" #({words})"
        name = _named(c, box.name, scopes)
        c.boxes[box] = name[1]
        each = [[_connection(port.name, port.text)] for port in ports]
        _add(c, box.name, ports, parsed(_instance(module, name[0], each)), lists, order)
    loops = {stem: _as_one(c, stem, members) for stem, members in lists.items()}
    if None in loops.values():
        raise Apart
    lines: list[str] = []
    for stem, single in order:
        if single is not None:
            lines += [*single.lines(c.lists), ""]
            continue
        whole = loops[stem]
        assert whole is not None
        scope, inner = scopes[stem]
        loop = looped(
            [whole], c.lists, c.taken.has, lambda _, scope=scope: scope,  # type: ignore[misc]
            lambda body, name: named_in_loop(c, body, name),
        )
        lines += [re.sub(rf"\b{inner}\[\w+\] \($", f"{inner} (", line) for line in loop]
        lines.append("")
    return lines[:-1]


def _named(c: Context, name: str, scopes: dict[str, tuple[str, str]]) -> tuple[str, str]:
    """How an instance is called in the text, and its path in the design."""
    if name not in c.listed:
        here = c.taken.new(name)
        return here, here
    stem, number = c.listed[name]
    if stem not in scopes:
        scopes[stem] = c.taken.new(f"each_{stem}"), c.taken.new(stem)
    scope, inner = scopes[stem]
    return f"{inner}[{number}]", f"{scope}[{number}].{inner}"


def _add(
    c: Context,
    name: str,
    ports: list[_Port],
    item: Item,
    lists: dict[str, list[tuple[list[_Port], Item]]],
    order: list[tuple[str, Item | None]],
) -> None:
    if name not in c.listed:
        order.append((name, item))
        return
    stem = c.listed[name][0]
    if stem not in lists:
        order.append((stem, None))
    lists[stem].append((ports, item))


def _as_one(c: Context, stem: str, members: Sequence[tuple[list[_Port], Item]]) -> Item | None:
    """The instances of a list as one item, or None.

    If they differ in more than their numbers, what is connected to them is kept under its own
    name at the next attempt, or else the list is written one by one.
    """
    numbers = {name: number for name, (s, number) in c.listed.items() if s == stem}
    assert len(numbers) == len(members)
    items = rolled([item for _, item in members], least=2, flat=True)
    if len(items) == 1:
        return items[0]
    known = len(c.plan.kept)
    for ports in zip(*(ports for ports, _ in members), strict=True):
        if not aligned([parsed([f"({port.text})"]) for port in ports]):
            c.plan.kept.update(var for port in ports for var in port.vars)
    if len(c.plan.kept) == known:
        c.plan.apart.add(stem)
    return None


def _outside(c: Context, port: tuple[ir.Var, ...], child: ir.Module) -> str:
    """What a port of *child* is connected to."""
    words = compressed([_signal(c, var, child) for var in reversed(port)], c.lists)
    return words[0] if len(words) == 1 else f"{{{', '.join(words)}}}"


def _signal(c: Context, var: ir.Var, child: ir.Module) -> str:
    if c.scope.ports[child][var]:
        return c.names[var]
    if var not in c.printer.inline and var not in c.scope.driver and (
        var not in c.ports and var not in c.scope.top_ports
    ):
        return constant(var.init, var.width)
    return c.printer.full(var)


def _rows(child: ir.Module, ports: Sequence[_Port]) -> list[list[str]]:
    """The connections in rows: one for an interface; those of one or two signals share theirs."""
    group = {var: _group(path) for path, var, _ in child.members}
    alone = Counter(group.values())
    rows: list[list[str]] = [[]]
    last: object = "alone"
    for port in ports:
        here = group.get(port.vars[0]) if port.vars else None
        key = here if here is not None and alone[here] > 2 else "alone"
        if key != last:
            rows.append([])
        last = key
        rows[-1].append(_connection(port.name, port.text))
    return [each for each in rows if each]


def _instance(module: str, name: str, rows: list[list[str]]) -> list[str]:
    lines = [f"  {module} {name} ("]
    for index, words in enumerate(rows):
        lines.append(row("      ", words, "," if index < len(rows) - 1 else ""))
    return [*lines, "  );"]


def _connection(port: str, value: str) -> str:
    return f".{port}({value})"


def _group(path: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """The interface that a member belongs to: its name, with its number in a list."""
    return path[: 1 + next((n for n, part in enumerate(path[1:]) if isinstance(part, str)), 0)]
