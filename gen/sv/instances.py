"""Instances of other modules, with their connections grouped by interface."""

from __future__ import annotations

from collections import Counter

from gen.sv import ir
from gen.sv.context import Context
from gen.sv.expressions import constant
from gen.sv.layout import packed

__all__ = ["instance_lines"]


def instance_lines(c: Context) -> list[str]:
    lines: list[str] = []
    for child in c.module.children:
        if child not in c.children:
            continue
        name, written = c.children[child]
        rows = [[_connection(clock, clock) for clock in written.clocked]]
        group = {var: _group(path) for path, var, _ in child.members}
        alone = Counter(group.values())
        last: object = "alone"
        for var in written.order:
            # One line for an interface; those of one or two signals share theirs.
            here = group.get(var)
            key = here if here is not None and alone[here] > 2 else "alone"
            if key != last:
                rows.append([])
            last = key
            rows[-1].append(_connection(written.names[var], _outside(c, var, child)))
        c.instances[child] = c.taken.new(child.name)
        lines += _instance(name, c.instances[child], rows)
    for box in c.module.boxes:
        inputs = [_connection(port, c.printer.full(v)) for port, v in box.inputs]
        outputs = [
            _connection(port, c.statements.target(v, clocked=False))
            for port, v in box.outputs
        ]
        module = box.module
        if box.parameters:
            words = ", ".join(
                f".{key}({value})" if isinstance(value, int) else f'.{key}("{value}")'
                for key, value in box.parameters
            )
            module += f" #({words})"
        lines += _instance(
            module, c.taken.new(box.name), [[each] for each in (*inputs, *outputs)]
        )
    return lines[:-1]


def _outside(c: Context, var: ir.Var, child: ir.Module) -> str:
    """What a port of *child* is connected to."""
    if c.scope.ports[child][var]:
        return c.names[var]
    if var not in c.printer.inline and var not in c.scope.driver and (
        var not in c.ports and var not in c.scope.top_ports
    ):
        return constant(var.init, var.width)
    return c.printer.full(var)


def _instance(module: str, name: str, rows: list[list[str]]) -> list[str]:
    rows = [row for row in rows if row]
    lines = [f"  {module} {name} ("]
    for index, row in enumerate(rows):
        lines += packed("      ", row, "," if index < len(rows) - 1 else "")
    return [*lines, "  );", ""]


def _connection(port: str, value: str) -> str:
    return f".{port}({value})"


def _group(path: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """The interface that a member belongs to: its name, with its number in a list."""
    return path[: 1 + next((n for n, part in enumerate(path[1:]) if isinstance(part, str)), 0)]
