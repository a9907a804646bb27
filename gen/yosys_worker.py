"""What runs inside the child process of `gen.yosys`: reads steps from stdin, executes them.

Functions here are the steps that no Yosys command covers; each takes the design and keywords.
"""

import json
import sys
from typing import Any

import pyosys.libyosys as ys

__all__ = ["detach_outputs", "main"]


def _sorted_wires(module: Any) -> list[Any]:
    return sorted(module.wires_.values(), key=lambda wire: str(wire.name.str()))


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
    # An outline cannot name the data of a memory read that eval() itself never uses, so each
    # asynchronous read also feeds a register that is never enabled; the C++ compiler removes it.
    clock = module.wire(ys.IdString("\\clk"))
    for index, cell in enumerate(
        sorted(module.cells_.values(), key=lambda cell: str(cell.name.str()))
    ):
        if cell.type.str() != "$memrd_v2" or cell.getParam(ys.IdString("\\CLK_ENABLE")).as_bool():
            continue
        data = cell.getPort(ys.IdString("\\DATA"))
        unused = module.addWire(ys.IdString(f"$unused{index}"), data.size())
        module.addDffe(
            ys.IdString(f"$hold{index}"),
            ys.SigSpec(clock),
            ys.SigSpec(ys.Const(0, 1)),
            data,
            ys.SigSpec(unused),
        )


_FUNCTIONS = {"detach_outputs": detach_outputs}


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
