# SPDX-License-Identifier: Apache-2.0
"""Verilog and data for the stand-alone bench of an engine: two of them joined, and the writes."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

from foldwire.catalog import Design
from foldwire.handoff.part import HandoffBench
from foldwire.handoff.sections import placed, writes_table
from foldwire.handoff.words import words
from hw.common.axi import ATTRIBUTES
from hw.common.register_map import RegisterMap
from hw.fp.ops import ReduceOp
from sim.rtl.writes import Write

__all__ = ["Pair", "pair_bench", "pair_data", "pair_set_up", "pair_verilog"]

_NODES = 2
_MEMORY_BYTES = 1 << 14
_ELEMENTS = (150, 64, 33)
_OPS = (ReduceOp.SUM_I32, ReduceOp.SUM_F32, ReduceOp.MAX_F32)


class Pair(ABC):
    """Two of an engine on a ring: their links, and the writes of hosts."""

    @abstractmethod
    def links(self, config: Any) -> list[tuple[str, str]]:
        """Links of one engine, and the link of the other engine that each leads to."""

    @abstractmethod
    def memory_ports(self, config: Any) -> int:
        """AXI masters of an engine, ``mem_0`` and so on."""

    @abstractmethod
    def set_up(
        self, config: Any, registers: RegisterMap, rank: int, *, nodes: int, memory_bytes: int
    ) -> Iterator[Write]:
        """Writes that set up a rank."""

    @abstractmethod
    def start(
        self, config: Any, registers: RegisterMap, op: ReduceOp, elements: int, *, name: int,
        source: int, destination: int, nodes: int,
    ) -> Iterator[Write]:
        """Writes that start an all-reduce."""


def pair_verilog(manifest: Mapping[str, Any], links: list[tuple[str, str]]) -> str:
    """Verilog module ``pair``: two of the engine of `manifest`, joined by `links`.

    All other ports of engine n are ports under the prefix ``n0_`` or ``n1_``. A beat from one
    engine to the other passes through a register, which, when empty, accepts one in cycles in which
    its bit of ``go`` is high.
    """
    name, reset = manifest["name"], manifest["reset"]["port"]
    used = tuple(f"{link}_" for link, _ in links)
    loose = ("link_", "net_")
    ports, body, instances = ["input wire clk", "input wire rst"], [], []
    ports.append(f"input wire [{_NODES * len(links) - 1}:0] go")
    for node in range(_NODES):
        rows = [".clk(clk)", f".{reset}({'rst' if reset == 'rst' else '~rst'})"]
        for port in manifest["ports"]:
            wire = f"n{node}_{port['name']}"
            bits = f"[{port['width'] - 1}:0] " if port["width"] > 1 else ""
            if port["name"].startswith(used):
                body.append(f"  wire {bits}{wire};")
            elif port["name"].startswith(loose):
                wire = "" if not port["is_input"] else f"{port['width']}'d0"
            else:
                ports.append(f"{'input' if port['is_input'] else 'output'} wire {bits}{wire}")
            rows.append(f".{port['name']}({wire})")
        text = ",\n    ".join(rows)
        instances.append(f"  {name} engine_{node} (\n    {text}\n  );")
    shapes = {port["name"]: (port["width"], port["is_input"]) for port in manifest["ports"]}
    for line, (node, (here, there)) in enumerate(
        (node, link) for node in range(_NODES) for link in links
    ):
        body += _line(line, shapes, f"n{node}_", here, f"n{1 - node}_", there)
    head = f"// Two of {name}, joined by their links: for the bench in this folder."
    inside = "\n".join([*body, "", *instances])
    outside = ",\n  ".join(ports)
    return f"{head}\nmodule pair (\n  {outside}\n);\n{inside}\nendmodule\n"


def _line(
    line: int, shapes: Mapping[str, tuple[int, bool]], near: str, here: str, far: str, there: str
) -> Iterator[str]:
    """The register on the way from the sender of `here` to the receiver of `there`."""
    tx, rx = f"{here}_tx_", f"{there}_rx_"
    payload = [
        name.removeprefix(tx) for name, (_, is_input) in shapes.items()
        if name.startswith(tx) and not is_input and not name.endswith("_tvalid")
    ]
    full = f"full_{line}"
    yield f"  reg {full};"
    yield f"  assign {near}{tx}tready = go[{line}] & ~{full};"
    yield f"  assign {far}{rx}tvalid = {full};"
    copies = []
    for name, (width, is_input) in shapes.items():
        field = name.removeprefix(rx)
        if not name.startswith(rx) or not is_input or field == "tvalid":
            continue
        if field not in payload:
            yield f"  assign {far}{name} = {width}'d0;"
            continue
        yield f"  reg [{width - 1}:0] held_{line}_{field};"
        yield f"  assign {far}{name} = held_{line}_{field};"
        copies.append(f"      held_{line}_{field} <= {near}{tx}{field};")
    if f"{tx}credit" in shapes:
        yield f"  assign {near}{tx}credit = {far}{rx}credit;"
    yield "  always @(posedge clk)"
    yield f"    if (rst) {full} <= 1'b0;"
    yield f"    else if ({near}{tx}tvalid & {near}{tx}tready) begin"
    yield f"      {full} <= 1'b1;"
    yield from copies
    yield f"    end else if ({far}{rx}tready) {full} <= 1'b0;"


def pair_bench(
    design: Design, config: Any, pair: Pair, manifest: Mapping[str, Any]
) -> HandoffBench:
    """The bench of two engines on a ring."""
    extra = pair_verilog(manifest, pair.links(config))
    return HandoffBench(module="cocotb_pair", data=pair_data(design, config, pair), extra=extra)


def pair_data(design: Design, config: Any, pair: Pair) -> dict[str, Any]:
    """Data for `bench/cocotb_pair.py`: offsets and words only."""
    registers = design.registers
    assert registers is not None
    beat = config.bus_bytes
    jobs = []
    place = 0
    for name, (elements, op) in enumerate(zip(_ELEMENTS, _OPS, strict=True)):
        source = place + beat
        destination = source + -(-4 * elements // beat) * beat + beat
        place = destination + -(-4 * elements // beat) * beat
        writes = pair.start(
            config, registers, op, elements, name=name, source=source, destination=destination,
            nodes=_NODES,
        )
        jobs.append({
            "op": op.name, "elements": elements, "source": source, "destination": destination,
            "writes": words(registers, writes),
        })
    assert place <= _MEMORY_BYTES
    completed = registers.registers["completed"]
    return {
        "lines": _NODES * len(pair.links(config)),
        "bus_bytes": beat,
        "memory_bytes": _MEMORY_BYTES,
        "memory_ports": [f"mem_{port}" for port in range(pair.memory_ports(config))],
        "attributes": {name: value for name, (_, value) in ATTRIBUTES.items()},
        "set_up": [
            words(
                registers,
                pair.set_up(config, registers, rank, nodes=_NODES, memory_bytes=_MEMORY_BYTES),
            )
            for rank in range(_NODES)
        ],
        "jobs": jobs,
        "completed": {
            "offset": registers.offset("completed"),
            "mask": completed.pack(count=(1 << completed.fields[0].width) - 1),
        },
        "interrupt": {
            "offset": registers.offset("interrupt"),
            "done": registers.registers["interrupt"].pack(done=1),
        },
        "refusal": registers.offset("refusal"),
    }


def pair_set_up(design: Design, config: Any | None, pair: Pair) -> tuple[str, str]:
    """Sections of the manual: writes that set up rank 0 of the pair, and that start an all-reduce;
    none for None, an engine with one link."""
    registers = design.registers
    assert registers is not None
    set_up: list[Write] = []
    start: list[Write] = []
    if config is not None:
        set_up += pair.set_up(config, registers, 0, nodes=_NODES, memory_bytes=_MEMORY_BYTES)
        start += pair.start(
            config, registers, _OPS[0], _ELEMENTS[0], name=0, source=config.bus_bytes,
            destination=1 << 10, nodes=_NODES,
        )
    return (
        "## Recipe: set up\n\nAfter reset, on every node, before the first command of any. The "
        "words are those of rank 0 of 2 nodes. `watchdog` must be longer than a node may come "
        "late: then `interrupt.stalled` is set.\n\n" + writes_table(placed(set_up, registers)),
        "## Recipe: start\n\nOn all nodes, in the same order. The words are those of an "
        "all-reduce of 150 integers. A command that cannot be done is refused: "
        "`interrupt.refused`, and `refusal` says why.\n\n"
        + writes_table(placed(start, registers)),
    )
