"""A component as SystemVerilog: types, then modules, the top one first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from amaranth.lib import wiring

from gen.sv import ir
from gen.sv.context import Written
from gen.sv.design import read_design
from gen.sv.header import NAME
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
    taken = Names(name)
    by_text: dict[str, str] = {}
    done: dict[ir.Module, tuple[str, Written]] = {}
    for module in reversed(scope.modules):
        if module is not top and _empty(module, scope, done):
            continue
        children = {child: done[child] for child in module.children if child in done}
        low = reset_low and module is top
        written = write_module(module, scope, types, children, reset_low=low)
        text = "\n".join(written.lines)
        if text not in by_text:
            by_text[text] = name if module is top else taken.new(f"{name}_{_kind(module)}")
        done[module] = by_text[text], written
    bodies = [text.replace(NAME, called, 1) for text, called in by_text.items()]
    head = ["// Structures that pass between the modules.", *types.lines] if types.lines else []
    return Text(
        "\n".join([*head, "\n\n".join(reversed(bodies))]) + "\n",
        dict(Counter(called for called, _ in done.values())),
        *_registers(top, done, scope),
    )


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
