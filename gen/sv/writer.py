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
    here, in the text and in Amaranth's netlist. `names` are those of the signals that a module of
    the design declares and no interface names: with the path of the module, and the number that
    Amaranth gave the signal.
    """

    text: str
    instances: dict[str, int]
    registers: list[Register]
    state: int
    boxes: list[tuple[str, str]]
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

    With *reset_low* the reset of the top is a port that is active while it is low.
    """
    top, ports = read_design(component, name=name, platform=platform, prepare=prepare)
    scope = Scope(top, ports)
    types = Types(name, scope.modules)
    bodies, done = _modules(scope, types, reset_low)
    head = ["// Structures that pass between the modules.", *types.lines] if types.lines else []
    return Text(
        "\n".join([*head, "\n\n".join(bodies)]) + "\n",
        dict(Counter(call.split()[0] for call, _ in done.values())),
        *_registers(top, done, scope),
        _names(scope, done),
    )


_Done: TypeAlias = dict[ir.Module, tuple[str, Written]]
"""How an instance of a module begins, with its parameters, and what was written of it."""


def _modules(scope: Scope, types: Types, reset_low: bool) -> tuple[list[str], _Done]:
    """The texts of the modules, the top one first, and what their instances are.

    All modules of a class are written before those that they are parts of: what an instance is
    called, and with which parameters, belongs to the text of what is around it.
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
        else:  # classes that are parts of one another: the first ones
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
            # Names and parameters are longer than what stood for them.
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


def _registers(
    top: ir.Module, done: _Done, scope: Scope
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
