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
from gen.sv.scope import Scope, assigned
from gen.sv.statements import unused_bits
from gen.sv.types import Types

__all__ = ["Register", "Text", "write_design"]


@dataclass(frozen=True, kw_only=True)
class Register:
    """What holds state: its path and name in Amaranth's netlist and in the text; its start.

    `part` is the first bit and the width of what is a register of a signal that is none elsewhere;
    `bits` those of an element in the array that it is in.
    """

    reference: tuple[str, ...]
    name: tuple[str, ...]
    init: int
    part: tuple[int, int] | None = None
    bits: tuple[int, int] | None = None


@dataclass(frozen=True)
class Text:
    """The text of a design, how often each module is in it, and its registers.

    `state` counts the registers and rows of memories that the design has, whether the text has
    them under a name or not. `boxes` are the paths of the instances of modules that are not written
    here, in the text and in Amaranth's netlist.
    """

    text: str
    instances: dict[str, int]
    registers: list[Register]
    state: int
    boxes: list[tuple[str, str]]


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
        *_registers(top, done, scope),
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


def _registers(
    top: ir.Module, done: dict[ir.Module, tuple[str, Written]], scope: Scope
) -> tuple[list[Register], int, list[tuple[str, str]]]:
    """What holds state, how much there is of it in the design as Amaranth sees it, and boxes."""
    found: list[Register] = []
    boxes: list[tuple[str, str]] = []
    total = 0

    def visit(module: ir.Module, path: tuple[str, ...]) -> None:
        nonlocal total
        written = done[module][1]
        here = module.path[1:]
        boxes.extend(
            (".".join((*path, name)), ".".join((*here, box.name)))
            for box, name in written.boxes.items()
        )
        total += len(assigned(module.sync).keys() & scope.live)
        for var, (name, start) in written.registers.items():
            reference = module.reference_names.get(var)
            clocked = written.clocked_bits.get(var)
            if reference is not None and clocked is not None:
                for part in unused_bits(var, ~clocked):
                    init = var.init >> part[0] & ((1 << part[1]) - 1)
                    found.append(
                        Register(
                            reference=(*here, reference), name=(*path, name), init=init, part=part
                        )
                    )
            elif reference is not None:
                init = var.init & ((1 << var.width) - 1)
                bits = None if start is None else (start, var.width)
                found.append(
                    Register(
                        reference=(*here, reference), name=(*path, name), init=init, bits=bits
                    )
                )
        for memory in scope.memories(module):
            total += memory.depth + sum(port.clocked for port in memory.reads)
            rows = [*memory.init, *[0] * (memory.depth - len(memory.init))]
            for number, row in enumerate(rows):
                reference, name = f"{memory.name}[{number}]", f"{written.arrays[memory]}[{number}]"
                found.append(
                    Register(
                        reference=(*here, reference), name=(*path, name),
                        init=row & ((1 << memory.width) - 1),
                    )
                )
        for child in module.children:
            if child in done:
                visit(child, (*path, written.instances[child]))

    visit(top, ())
    return found, total, boxes
