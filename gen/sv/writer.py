"""A component as SystemVerilog: types, then modules, the top one first."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from amaranth.lib import wiring

from gen.sv import ir
from gen.sv.context import Written
from gen.sv.design import read_design
from gen.sv.families import Member, made_with, unified
from gen.sv.header import NAME
from gen.sv.layout import wrapped
from gen.sv.module import write_module
from gen.sv.names import Names, snake
from gen.sv.record import Part, recorded
from gen.sv.scope import Scope
from gen.sv.types import Types

__all__ = ["Text", "write_design"]


@dataclass(frozen=True)
class Text:
    """The text of a design, how often each module is in it, and what each instance stands for."""

    text: str
    instances: dict[str, int]
    record: Part


def write_design(
    component: wiring.Component,
    *,
    name: str,
    platform: object | None = None,
    prepare: Callable[[Any], None] | None = None,
    reset_low: bool = False,
) -> Text:
    """Write *component* as module *name*; arguments as of `read_design`.

    With *reset_low* the reset of the top is a port that is active while it is low.
    """
    top, ports = read_design(component, name=name, platform=platform, prepare=prepare)
    scope = Scope(top, ports)
    types = Types(name, scope.modules)
    by_text: dict[str, ir.Module] = {}
    done: dict[ir.Module, tuple[str, Written]] = {}
    for module in reversed(scope.modules):
        if module is not top and _empty(module, scope, done):
            continue
        children = {child: done[child] for child in module.children if child in done}
        low = reset_low and module is top
        written = write_module(module, scope, types, children, reset_low=low)
        text = "\n".join(written.lines)
        by_text.setdefault(text, module)
        done[module] = _mark(by_text[text], scope), written
    bodies, calls = _modules(top, by_text, scope)
    head = ["// Structures that pass between the modules.", *types.lines] if types.lines else []
    return Text(
        "\n".join([*head, "\n\n".join(reversed(bodies))]) + "\n",
        dict(Counter(calls[mark].split()[0] for mark, _ in done.values())),
        recorded(top, {module: made for module, (_, made) in done.items()}, scope,
                 reset_low=reset_low),
    )


def _mark(module: ir.Module, scope: Scope) -> str:
    """What stands for the name of *module* until it is known which ones are one."""
    return f"@M{scope.number[module]}@"


_MARK = re.compile(r"@M\d+@")


def _modules(
    top: ir.Module, by_text: dict[str, ir.Module], scope: Scope
) -> tuple[list[str], dict[str, str]]:
    """The texts of the modules, those below first, and how an instance of each mark begins."""
    name = top.path[0]
    taken = Names(name)
    families: dict[str, list[tuple[str, ir.Module]]] = defaultdict(list)
    for text, module in by_text.items():
        families[name if module is top else f"{name}_{_kind(module)}"].append((text, module))
    calls: dict[str, str] = {}
    bodies: dict[int, str] = {}
    while families:
        # A class whose parts are known; if classes are parts of one another, the first ones.
        ready = [
            stem for stem, members in families.items()
            if all(mark in calls for text, _ in members for mark in _MARK.findall(text))
        ]
        if ready:
            stem = ready[0]
            members = families.pop(stem)
        else:
            stem, members = next(iter(families.items()))
            known = [m for m in members if all(k in calls for k in _MARK.findall(m[0]))]
            families[stem] = [m for m in members if m not in known]
            members = known
        texts = [_MARK.sub(lambda match: calls[match[0]], text) for text, _ in members]
        made = unified([
            Member(text, made_with(module))
            for text, (_, module) in zip(texts, members, strict=True)
        ])
        for one in made:
            called = name if stem == name else taken.new(stem)
            for number, values in one.values.items():
                module = members[number][1]
                given = ", ".join(f".{key}({value})" for key, value in values.items())
                calls[_mark(module, scope)] = f"{called} #({given})" if given else called
            place = min(scope.number[members[number][1]] for number in one.values)
            # Names and parameters are longer than what stood for them.
            text = one.text.replace(NAME, called, 1)
            bodies[place] = "\n".join(wrapped(text.split("\n")))
    return [bodies[place] for place in sorted(bodies, reverse=True)], calls


def _empty(
    module: ir.Module, scope: Scope, done: dict[ir.Module, tuple[str, Written]]
) -> bool:
    """Whether *module* has nothing to say."""
    if scope.ports[module] or module.boxes or any(child in done for child in module.children):
        return False
    return True


def _kind(module: ir.Module) -> str:
    kind = type(module.origin).__name__ if module.origin is not None else "Module"
    return snake(module.name.rstrip("0123456789_") if kind == "Module" else kind)
