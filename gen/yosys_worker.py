# SPDX-License-Identifier: Apache-2.0
"""Child process of `gen.yosys`: reads steps from stdin and executes them.

Functions here are the steps that no Yosys command covers; each takes the design and keywords.
"""

import contextlib
import json
import sys
from typing import Any

import pyosys.libyosys as ys

__all__ = ["detach_outputs", "keep_large", "keep_modules", "limit_cpu", "main", "open_ranges"]

_KEEP_CELLS = 60
"""Below this size a module is not worth a C++ class of its own."""

def _sorted_wires(module: Any) -> list[Any]:
    return sorted(module.wires_.values(), key=lambda wire: str(wire.name.str()))


_REGISTERS = ("$dff", "$dffe", "$sdff", "$sdffe", "$sdffce")


def _bits(signal: Any) -> list[Any]:
    return list(signal.to_sigbit_vector())


def _is_registered(design: Any, module: Any, port: Any) -> bool:
    """Return True if a register, here or in a child, drives each bit of an output directly."""
    alias: dict[Any, Any] = {}
    for left, right in module.connections_:
        alias.update(zip(_bits(left), _bits(right), strict=True))
    registered: set[Any] = set()
    for cell in module.cells_.values():
        child = design.module(cell.type)
        for name, signal in cell.connections_.items():
            if not cell.output(name):
                continue
            if _is_registered(design, child, name) if child else cell.type.str() in _REGISTERS:
                registered.update(_bits(signal))
    for bit in _bits(ys.SigSpec(module.wire(port))):
        while bit in alias:
            bit = alias[bit]
        if bit not in registered:
            return False
    return True


def keep_modules(design: Any, *, instances: dict[str, int]) -> None:
    """Mark modules that are worth compiling once: large, used several times, outputs registered.

    `instances` counts the instances of each module in the whole design. Children of a marked
    module are not marked: they are flattened into it.
    """
    inside: set[str] = set()
    for name, count in instances.items():  # parents come first
        module = design.module(ys.IdString("\\" + name))
        if module is None or module.get_bool_attribute(ys.IdString("\\top")):
            continue
        children = [cell.type.str()[1:] for cell in module.cells_.values()]
        outputs = [wire.name for wire in module.wires_.values() if wire.port_output]
        if name in inside:
            inside.update(children)
        elif (
            count > 1
            and _size(design, module) >= _KEEP_CELLS
            and all(_is_registered(design, module, port) for port in outputs)
        ):
            inside.update(children)
            module.set_bool_attribute(ys.IdString("\\keep_hierarchy"), True)


def keep_large(design: Any, *, cells: int, dissolved: list[str]) -> None:
    """Mark modules of at least *cells* cells to be kept apart, except those *dissolved*."""
    for module in design.modules_.values():
        if module.get_bool_attribute(ys.IdString("\\top")) or module.name.str()[1:] in dissolved:
            continue
        if _size(design, module) >= cells:
            module.set_bool_attribute(ys.IdString("\\keep_hierarchy"), True)


def _size(design: Any, module: Any) -> int:
    total = 0
    for cell in module.cells_.values():
        child = design.module(cell.type)
        total += 1 if child is None else _size(design, child)
    return total


def detach_outputs(design: Any) -> None:
    """Turn the output ports of the top module into public wires that nothing else reads.

    CXXRTL then leaves the logic that only they need out of `eval()` and writes it as an outline
    that is computed on demand, *after* the registers have been committed. Every other wire becomes
    private, so that debug information covers the ports only.
    """
    module = design.top_module()
    for wire in _sorted_wires(module):
        name = wire.name.str()
        if wire.port_output:
            wire.port_output = False
            module.rename(wire, ys.IdString("$port" + name))
            seen = module.addWire(ys.IdString(name), wire.width)
            module.connect(ys.SigSpec(seen), ys.SigSpec(wire))
        elif name.startswith("\\") and not wire.port_input:
            module.rename(wire, ys.IdString("$int" + name))
    module.fixup_ports()
    for other in design.modules_.values():
        for wire in _sorted_wires(other):
            name = wire.name.str()
            if other.name != module.name and name.startswith("\\"):
                if not (wire.port_input or wire.port_output):
                    other.rename(wire, ys.IdString("$int" + name))
    # An outline can only use what eval() computes too: the data of asynchronous reads, and the
    # outputs of modules that are kept. Registers that are never enabled hold on to them; the C++
    # compiler removes both. A kept output gets a wire of its own, which `gen.compile` looks for.
    clock = module.wire(ys.IdString("\\clk"))
    if clock is None:
        clock = module.addWire(ys.IdString("\\clk"), 1)
        clock.port_input = True
        module.fixup_ports()
    cells = sorted(module.cells_.values(), key=lambda cell: str(cell.name.str()))
    for index, cell in enumerate(cells):
        child = design.module(cell.type)
        if child is not None:
            for port in _sorted_wires(child):
                if port.port_output:
                    old = cell.getPort(port.name)
                    name = f"$kept{index}_{port.port_id}"
                    kept = ys.SigSpec(module.addWire(ys.IdString(name), port.width))
                    cell.unsetPort(port.name)
                    cell.setPort(port.name, kept)
                    module.connect(old, kept)
                    _hold(module, clock, kept, f"{index}_{port.port_id}")
        elif cell.type.str() == "$memrd_v2":
            if not cell.getParam(ys.IdString("\\CLK_ENABLE")).as_bool():
                _hold(module, clock, cell.getPort(ys.IdString("\\DATA")), str(index))


def _hold(module: Any, clock: Any, data: Any, label: str) -> None:
    unused = module.addWire(ys.IdString(f"$unused{label}"), data.size())
    never = ys.SigSpec(ys.Const(0, 1))
    name = ys.IdString(f"$hold{label}")
    module.addDffe(name, ys.SigSpec(clock), never, data, ys.SigSpec(unused))


def open_ranges(design: Any) -> None:
    """Leave bits beyond the end of a vector unconstrained where it is indexed (`$shiftx`)."""
    for module in design.modules_.values():
        for number, cell in enumerate(list(module.cells_.values())):
            if cell.type.str() != "$shiftx" or cell.getParam(ys.IdString("\\B_SIGNED")).as_bool():
                continue
            value, index = cell.getPort(ys.IdString("\\A")), cell.getPort(ys.IdString("\\B"))
            width = cell.getPort(ys.IdString("\\Y")).size()
            beyond = (1 << min(index.size(), 16)) + width - value.size()
            if beyond > 0:
                any_ = module.addWire(ys.IdString(f"$beyond{number}"), beyond)
                whole = ys.SigSpec(value)
                whole.append(ys.SigSpec(any_))
                cell.setPort(ys.IdString("\\A"), whole)
                cell.setParam(ys.IdString("\\A_WIDTH"), ys.Const(whole.size(), 32))
                source = module.addCell(ys.IdString(f"$any{number}"), ys.IdString("$anyseq"))
                source.setParam(ys.IdString("\\WIDTH"), ys.Const(beyond, 32))
                source.setPort(ys.IdString("\\Y"), ys.SigSpec(any_))


def limit_cpu(design: Any, *, seconds: int) -> None:
    """End this process after so many seconds of CPU time."""
    with contextlib.suppress(ImportError):  # on a system without limits
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))


_FUNCTIONS: dict[str, Any] = {
    "open_ranges": open_ranges,
    "detach_outputs": detach_outputs,
    "keep_large": keep_large,
    "keep_modules": keep_modules,
    "limit_cpu": limit_cpu,
}


def main() -> None:
    """Execute the JSON list of steps that arrives on stdin."""
    design = ys.Design()
    for step in json.load(sys.stdin):
        if isinstance(step, str):
            ys.run_pass(step, design)
        else:
            name, arguments = step
            _FUNCTIONS[name](design, **arguments)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
