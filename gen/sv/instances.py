# SPDX-License-Identifier: Apache-2.0
"""Instances of other modules, with their connections grouped by interface."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from gen.sv import ir
from gen.sv.context import Context
from gen.sv.elements import named_in_loop
from gen.sv.lists import common, compressed
from gen.sv.loops import Item, aligned, looped, parsed, rolled
from gen.sv.tree import (
    BLANK,
    Code,
    Form,
    Line,
    Nested,
    Number,
    Packed,
    Part,
    Ref,
    Stmt,
    bits,
    concat,
    constant,
    joined,
    logic,
    rewritten,
    side_by_side,
)

__all__ = ["instances"]


@dataclass(frozen=True)
class _Port:
    name: str
    vars: tuple[ir.Var, ...]
    text: Part


def instances(c: Context) -> list[Stmt] | None:
    """The instances of a module, those of a list as a loop; None if members of a list differ in
    more than their number, in which case the plan says what to try next.
    """
    lists: dict[str, list[tuple[list[_Port], Item]]] = defaultdict(list)
    order: list[tuple[str, Item | None]] = []
    scopes: dict[str, tuple[str, str]] = {}
    below: dict[ir.Module, list[_Port]] = {}
    for child, (_, written) in c.children.items():
        below[child] = [_Port(clock, (), Ref(clock)) for clock in written.clocked]
        below[child] += [
            _Port(name, both, _outside(c, both, child)) for name, both in written.ports
        ]
    joins = {stem: _side_by_side(c, stem, below) for stem in sorted(c.plan.beside)}
    for child, ports in below.items():
        name = _named(c, child.name, scopes)
        c.instances[child] = name[1]
        call = c.children[child][0]
        head = _head(call.name, call.values.items())
        item = parsed(_instance(head, name[0], _rows(child, ports)))
        _add(c, child.name, ports, item, lists, order)
    for box in c.module.boxes:
        ports = [_Port(port, (), c.printer.full(value)) for port, value in box.inputs]
        ports += [
            _Port(port, (), c.statements.target(value, clocked=False))
            for port, value in box.outputs
        ]
        head = _head(box.module, box.parameters)
        name = _named(c, box.name, scopes)
        c.boxes[box] = name[1]
        row = [_connection(port.name, port.text) for port in ports]
        _add(c, box.name, ports, parsed(_instance(head, name[0], [row])), lists, order)
    loops = {stem: _as_one(c, stem, members) for stem, members in lists.items()}
    if None in loops.values():
        return None
    made: list[Stmt] = []
    for stem, single in order:
        if single is not None:
            made += [*single.stmts, BLANK]
            continue
        whole = loops[stem]
        assert whole is not None
        scope, inner = scopes[stem]
        loop = looped(
            [whole], c.lists, c.taken.has, lambda _, scope=scope: scope,  # type: ignore[misc]
            lambda body, name: named_in_loop(c, body, name),
        )
        made += joins.get(stem, [])
        made += [*rewritten(loop, partial(_without_number, inner)), BLANK]
    return made[:-1]


def _without_number(name: str, part: Part) -> Part | None:
    return Ref(name) if isinstance(part, Ref) and part.name == name else None


def _named(c: Context, name: str, scopes: dict[str, tuple[str, str]]) -> tuple[Ref, str]:
    """Name of an instance in the text, and its path once loops are unrolled."""
    if name not in c.listed:
        here = c.taken.new(name)
        return Ref(here), here
    stem, number = c.listed[name]
    if stem not in scopes:
        scopes[stem] = c.taken.new(f"each_{stem}"), c.taken.new(stem)
    scope, inner = scopes[stem]
    return Ref(inner, bits(number, 1)), f"{scope}[{number}].{inner}"


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
    """The instances of a list as one item; None if they differ in more than their numbers.

    In that case the signals connected to them keep their own names in the next attempt; if the
    names still differ, the signals are put side by side in an array. If that does not help, the
    instances are written one by one.
    """
    numbers = {name: number for name, (s, number) in c.listed.items() if s == stem}
    assert len(numbers) == len(members)
    items = rolled([item for _, item in members], least=2, flat=True)
    if len(items) == 1:
        return items[0]
    uneven = [
        ports for ports in zip(*(ports for ports, _ in members), strict=True)
        if not aligned([_as_item(port) for port in ports])
    ]
    known = len(c.plan.kept)
    for ports in uneven:
        if not all(map(_is_plain, ports)) and stem not in c.plan.beside:
            c.plan.kept.update(var for port in ports for var in port.vars)
    if len(c.plan.kept) == known:
        chained = any(var in c.plan.chained for each in uneven for p in each for var in p.vars)
        (c.plan.apart if stem in c.plan.beside or chained else c.plan.beside).add(stem)
    return None


def _as_item(port: _Port) -> Item:
    return parsed([Line(Code(port.text))])


def _is_plain(port: _Port) -> bool:
    """Return True if a name or a number is connected to *port*."""
    if isinstance(port.text, Ref):
        return not port.text.steps
    return port.text == "'0" or (isinstance(port.text, Number) and port.text.width > 1)


def _side_by_side(c: Context, stem: str, below: dict[ir.Module, list[_Port]]) -> list[Stmt]:
    """Connect the list *stem* through new arrays where its connections form none; returns the
    assignments to and from these arrays.
    """
    members = {
        c.listed[child.name][1]: child
        for child in below if child.name in c.listed and c.listed[child.name][0] == stem
    }
    ordered = [members[number] for number in sorted(members)]
    made: list[Stmt] = []
    for place, ports in enumerate(list(zip(*(below[child] for child in ordered), strict=True))):
        port = ports[0]
        if not port.vars or aligned([_as_item(each) for each in ports]):
            continue
        width = sum(var.width for var in port.vars)
        stems = [common([str(each.text) for each in ports]), f"{stem}_{port.name}",
                 f"each_{stem}_{port.name}"]
        wanted, *longer = [name for name in stems if name]
        name = c.taken.new(wanted, longer)
        c.lists[name] = (len(ports), width) if width > 1 else (len(ports),)
        kind = logic(len(ports), *([width] if width > 1 else []))
        c.beside.setdefault(kind, []).append(name)
        words = [
            constant(0, width) if each.text == "'0" else each.text for each in reversed(ports)
        ]
        out = c.scope.ports[ordered[0]][port.vars[0]]
        made.append(Line(side_by_side(name, words, out)))
        for number, child in enumerate(ordered):
            below[child][place] = _Port(
                port.name, ports[number].vars, Ref(name, bits(number, 1))
            )
    return made


def _outside(c: Context, port: tuple[ir.Var, ...], child: ir.Module) -> Part:
    """Expression that a port of *child* is connected to."""
    return concat(compressed([_signal(c, var, child) for var in reversed(port)], c.lists))


def _signal(c: Context, var: ir.Var, child: ir.Module) -> Part:
    if c.scope.ports[child][var]:
        return c.names[var]
    if var not in c.printer.inline and var not in c.scope.driver and (
        var not in c.ports and var not in c.scope.top_ports
    ):
        return constant(var.init, var.width)
    return c.printer.full(var)


def _rows(child: ir.Module, ports: Sequence[_Port]) -> list[list[Code]]:
    """The connections in rows: one for each interface; those of one or two signals share rows."""
    group = {var: _group(path) for path, var, _ in child.members}
    alone = Counter(group.values())
    rows: list[list[Code]] = [[]]
    last: object = "alone"
    for port in ports:
        here = group.get(port.vars[0]) if port.vars else None
        key = here if here is not None and alone[here] > 2 else "alone"
        if key != last:
            rows.append([])
        last = key
        rows[-1].append(_connection(port.name, port.text))
    return [each for each in rows if each]


def _head(module: str, parameters: Iterable[tuple[str, int | str]]) -> Code:
    """The name of a module with the values of its parameters."""
    words = [
        _connection(key, Number(Form.PARAMETER, value) if isinstance(value, int) else f'"{value}"')
        for key, value in parameters
    ]
    return Code(module, *([" #(", *joined(words, ", "), ")"] if words else []))


def _instance(head: Code, name: Ref, rows: Sequence[Sequence[Code]]) -> list[Stmt]:
    inside = [
        Line(Packed("", *words, "," if number < len(rows) - 1 else ""))
        for number, words in enumerate(rows)
    ]
    return [Nested(((Line(Code(head, " ", name, " (")), tuple(inside)),), ");", 4)]


def _connection(port: str, value: Part) -> Code:
    return Code(".", port, "(", value, ")")


def _group(path: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """The interface that a member belongs to: its name, with its number in a list."""
    return path[: 1 + next((n for n, part in enumerate(path[1:]) if isinstance(part, str)), 0)]
