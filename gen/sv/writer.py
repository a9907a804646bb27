# SPDX-License-Identifier: Apache-2.0
"""A component as SystemVerilog: types, then modules, the top one first."""

from __future__ import annotations

import textwrap
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from amaranth.lib import wiring

from gen.sv import ir
from gen.sv.context import Call, Written
from gen.sv.design import read_design
from gen.sv.families import Member, One, made_with, unified
from gen.sv.layout import WIDTH, printed
from gen.sv.module import write_module
from gen.sv.names import Names, snake
from gen.sv.peephole import without_idle
from gen.sv.record import RecordPart, recorded
from gen.sv.scope import Scope
from gen.sv.tree import Code, Comment, Line, ModuleText, PortLine, together
from gen.sv.types import Types

__all__ = ["Text", "module_lines", "write_design"]


@dataclass(frozen=True)
class Text:
    """The text of a design, the number of instances of each module, and the record of them.

    `names` lists the signals that modules declare and no interface names: path of the module, name
    in the text, and the number that Amaranth gave the signal.
    """

    text: str
    instances: dict[str, int]
    record: RecordPart
    names: list[tuple[str, str, int]]


def write_design(
    component: wiring.Component,
    *,
    name: str,
    platform: object | None = None,
    prepare: Callable[[Any], None] | None = None,
    reset_low: bool = False,
) -> Text:
    """Write *component* as module *name*; arguments as of `read_design`.

    With *reset_low* the reset of the top is an active-low port.
    """
    top, ports = read_design(component, name=name, platform=platform, prepare=prepare)
    scope = Scope(top, ports)
    types = Types(name, scope.modules)
    bodies, done = _modules(scope, types, reset_low)
    head = ["// Structures that pass between the modules."] if types.stmts else []
    head += printed(types.stmts)
    if types.functions:
        head += ["// Functions of several modules; each bit is the parity of some bits of a word."]
        head += printed(types.functions)
    return Text(
        "\n".join([*head, "\n\n".join(bodies)]) + "\n",
        dict(Counter(call.name for call, _ in done.values())),
        recorded(top, {module: made for module, (_, made) in done.items()}, scope,
                 reset_low=reset_low),
        _names(scope, done),
    )


_Done: TypeAlias = dict[ir.Module, tuple[Call, Written]]
"""Module -> the start of its instances, and its tree."""


def _modules(scope: Scope, types: Types, reset_low: bool) -> tuple[list[str], _Done]:
    """The texts of the modules, the top one first, and how each is instantiated.

    All modules of a class are written before the modules that contain them, whose text has the
    name and the parameters of each instance.
    """
    top = scope.top
    name = top.path[0]
    taken = Names(name)
    waiting: dict[str, list[ir.Module]] = defaultdict(list)
    said: set[ir.Module] = set()
    for module in reversed(scope.modules):
        if module is top or _says_something(module, scope, said):
            said.add(module)
            waiting[name if module is top else f"{name}_{_kind(module)}"].append(module)
    done: _Done = {}
    bodies: dict[int, str] = {}

    def known(module: ir.Module) -> bool:
        return all(child in done for child in module.children if child in said)

    while waiting:
        stem = next((stem for stem, each in waiting.items() if all(map(known, each))), None)
        if stem is not None:
            members = waiting.pop(stem)
        else:  # classes that contain one another: those modules that can be written now
            stem = next(stem for stem, each in waiting.items() if any(map(known, each)))
            members = [module for module in waiting[stem] if known(module)]
            waiting[stem] = [module for module in waiting[stem] if module not in members]
        texts: dict[ModuleText, list[tuple[ir.Module, Written]]] = defaultdict(list)
        for module in members:
            children = {child: done[child] for child in module.children if child in done}
            low = reset_low and module is top
            written = write_module(module, scope, types, children, reset_low=low)
            texts[written.text].append((module, written))
        equal = list(texts.values())
        members_of = [Member(text, made_with(same[0][0])) for text, same in texts.items()]
        described: dict[str, tuple[str, ModuleText]] = {}
        for one in unified(members_of):
            called = name if stem == name else taken.new(stem)
            one = _referred(one, called, [members_of[number] for number in one.values], described)
            for number, values in one.values.items():
                for module, written in equal[number]:
                    done[module] = Call(called, values), written
            place = min(scope.number[equal[number][0][0]] for number in one.values)
            plain = replace(one, text=replace(one.text, body=without_idle(one.text.body)))
            bodies[place] = "\n".join(module_lines(plain, called))
    return [bodies[place] for place in sorted(bodies)], done


def _referred(
    one: One, name: str, members: Sequence[Member], described: dict[str, tuple[str, ModuleText]]
) -> One:
    """*one*, with a reference to the module of the same class that has been *described* before, and
    what it was made with, in place of the same comments."""
    text = one.text
    kind = text.above[0].text
    if len(text.above) == 1:
        return one
    first, before = described.setdefault(kind, (name, text))
    if text.above != before.above or first == name:
        return one
    made = [
        f"{key.lower()} {value}" for key, value in members[0].made_with.items()
        if key not in next(iter(one.values.values()))
        and all(each.made_with.get(key) == value for each in members)
    ]
    with_ = f", made with {', '.join(made)}" if made else ""
    above = [
        Comment(f" {line}")
        for line in textwrap.wrap(f"{kind.strip()}: described at {first}{with_}.", WIDTH - 3)
    ]
    said = {port for port in before.ports if isinstance(port, Comment)}
    ports = tuple(port for port in text.ports if port not in said)
    return replace(one, text=replace(text, above=tuple(above), ports=ports))


def module_lines(one: One, name: str) -> Iterator[str]:
    """The lines of a module called *name*."""
    text = one.text
    values = next(iter(one.values.values()))
    yield from printed(text.above)
    given = [f"    parameter int {key} = {value}" for key, value in values.items()]
    given += [f"    localparam int {key} = {means}" for key, means in one.derived.items()]
    ports = [port for port in text.ports if isinstance(port, PortLine)]
    yield f"module {name}" + (" #(" if given else " (" if ports else " ();")
    for line in given:
        yield line + ("," if line is not given[-1] else "")
    yield from [") ("] if given else []
    wide = max((len(str(port.kind)) for port in ports), default=0)
    for each in text.ports:
        if isinstance(each, PortLine):
            code = f"{each.direction:6} {each.kind!s:{wide}} {each.name}"
            comma = "," if each is not ports[-1] else ""
            yield from printed([Line(Code(code, comma), each.note)], 4)
        else:
            yield from printed([each], 4)
    yield from [");"] if ports or given else []
    yield from printed(together(text.body), 2)
    yield "endmodule"


def _names(scope: Scope, done: _Done) -> list[tuple[str, str, int]]:
    members = {var for module in scope.modules for _, var, _ in module.members}
    members |= {
        var
        for module in scope.modules for memory in module.memories
        for value in (*memory.inputs(), *(port.data for port in memory.reads))
        for var in (value,) if isinstance(var, ir.Var)
    }
    members |= {
        value
        for module in scope.modules for box in module.boxes
        for _, value in (*box.inputs, *box.outputs) if isinstance(value, ir.Var)
    }
    return [
        (".".join(module.path), name, var.serial)
        for module in scope.modules if module in done
        for var, name in done[module][1].names.items()
        if var.serial >= 0 and var not in members
    ]


def _says_something(module: ir.Module, scope: Scope, said: set[ir.Module]) -> bool:
    return bool(
        scope.ports[module] or module.boxes or any(child in said for child in module.children)
    )


def _kind(module: ir.Module) -> str:
    kind = type(module.origin).__name__ if module.origin is not None else "Module"
    return snake(module.name.rstrip("0123456789_") if kind == "Module" else kind)
