"""Memories as arrays: their declaration, their reads and writes."""

from __future__ import annotations

from gen.sv import ir
from gen.sv.context import Context
from gen.sv.expressions import constant, range_of

__all__ = ["array_line", "array_start", "memory_lines"]


def array_line(c: Context, memory: ir.Memory) -> str:
    """The declaration of *memory*."""
    return f"  logic{range_of(memory.width)} {c.array(memory)} [0:{memory.depth - 1}];"


def array_start(c: Context, memory: ir.Memory) -> list[str]:
    """Statements that set the initial contents of *memory*."""
    array = c.array(memory)
    rows = [*memory.init, *[0] * (memory.depth - len(memory.init))]
    if any(rows):
        return [
            f"    {array}[{index}] = {constant(row, memory.width)};"
            for index, row in enumerate(rows)
        ]
    fill = constant(0, memory.width)
    return [f"    for (int i = 0; i < {memory.depth}; i++) {array}[i] = {fill};"]


def memory_lines(c: Context, memory: ir.Memory) -> tuple[list[str], list[str]]:
    """Asynchronous reads, and the clocked statements of a memory."""
    array, printer = c.array(memory), c.printer
    outside: list[str] = []
    inside: list[str] = []
    for write in memory.writes:
        addr = printer.full(write.addr)
        part = memory.width // write.enable.width
        for index in range(write.enable.width):
            enable = ir.slice_of(write.enable, index, 1)
            data = ir.slice_of(ir.Cast(write.data, memory.width, False), index * part, part)
            bits = "" if part == memory.width else f"[{(index + 1) * part - 1}:{index * part}]"
            text = f"{array}[{addr}]{bits} <= {printer.full(data)};"
            if isinstance(enable, ir.Const):
                inside += [f"    {text}"] if enable.value else []
            else:
                inside.append(f"    if ({printer.full(enable)}) {text}")
    for port in memory.reads:
        if isinstance(port.data, ir.Var) and port.data in c.printer.inline:
            continue
        if ir.variables(port.data).keys().isdisjoint(c.scope.live):
            continue
        target = c.statements.target(port.data, clocked=False)
        row = f"{array}[{printer.full(port.addr)}]"
        if not port.clocked:
            outside.append(f"  assign {target} = {row};")
            continue
        inside += _clocked_read(c, memory, port, target, row)
    return outside, inside


def _clocked_read(
    c: Context, memory: ir.Memory, port: ir.ReadPort, target: str, row: str
) -> list[str]:
    printer = c.printer
    lines = [f"    {target} <= {row};"]
    for index in port.transparent:
        write = memory.writes[index]
        here = ir.Op("==", [write.addr, port.addr], 1, False)
        part = memory.width // write.enable.width
        for number in range(write.enable.width):
            enable = ir.slice_of(write.enable, number, 1)
            hit = printer.full(ir.Op("&", [enable, here], 1, False))
            data = ir.slice_of(ir.Cast(write.data, memory.width, False), number * part, part)
            lo, hi = number * part, (number + 1) * part - 1
            bits = "" if part == memory.width else f"[{hi}:{lo}]"
            lines.append(f"    if ({hit}) {target}{bits} <= {printer.full(data)};")
    if isinstance(port.enable, ir.Const):
        return lines if port.enable.value else []
    enable_text = printer.full(port.enable)
    if len(lines) == 1:
        return [f"    if ({enable_text}) {lines[0].strip()}"]
    return [f"    if ({enable_text}) begin", *(f"  {line}" for line in lines), "    end"]
