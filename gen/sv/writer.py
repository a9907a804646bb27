"""A component as SystemVerilog: types, then modules, the top one first."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from amaranth.lib import wiring

from gen.sv import ir
from gen.sv.context import Written
from gen.sv.design import read_design
from gen.sv.families import Member, made_with, unified
from gen.sv.header import NAME
from gen.sv.layout import wrapped
from gen.sv.module import write_module
from gen.sv.names import Names, snake
from gen.sv.record import RecordPart, recorded
from gen.sv.scope import Scope
from gen.sv.types import Types

__all__ = ["Text", "write_design"]


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
    head = ["// Structures that pass between the modules.", *types.lines] if types.lines else []
    return Text(
        "\n".join([*head, "\n\n".join(bodies)]) + "\n",
        dict(Counter(call.split()[0] for call, _ in done.values())),
        recorded(top, {module: made for module, (_, made) in done.items()}, scope,
                 reset_low=reset_low),
        _names(scope, done),
    )


_Done: TypeAlias = dict[ir.Module, tuple[str, Written]]
"""Module -> the start of its instances (name and parameters), and its text."""


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
        texts: dict[str, list[tuple[ir.Module, Written]]] = defaultdict(list)
        for module in members:
            children = {child: done[child] for child in module.children if child in done}
            low = reset_low and module is top
            written = write_module(module, scope, types, children, reset_low=low)
            texts["\n".join(written.lines)].append((module, written))
        equal = list(texts.values())
        for one in unified([Member(text, made_with(same[0][0])) for text, same in texts.items()]):
            called = name if stem == name else taken.new(stem)
            for number, values in one.values.items():
                given = ", ".join(f".{key}({value})" for key, value in values.items())
                for module, written in equal[number]:
                    done[module] = f"{called} #({given})" if given else called, written
            place = min(scope.number[equal[number][0][0]] for number in one.values)
            # Names and parameters are longer than their placeholders.
            text = one.text.replace(NAME, called, 1)
            bodies[place] = "\n".join(wrapped(text.split("\n")))
    return [bodies[place] for place in sorted(bodies)], done


def _names(scope: Scope, done: _Done) -> list[tuple[str, str, int]]:
    members = {var for module in scope.modules for _, var, _ in module.members}
    members |= {
        var
        for module in scope.modules for memory in module.memories
        for value in (*memory.inputs(), *(port.data for port in memory.reads))
        for var in (value,) if isinstance(var, ir.Var)
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
