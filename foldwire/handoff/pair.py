"""Verilog and data for the stand-alone bench of an engine: two of them joined, and the writes."""

from collections.abc import Iterator, Mapping
from typing import Any

from foldwire.catalog import Design
from foldwire.handoff.words import PATIENCE, words
from hw.ace.config import AceConfig
from hw.common.axi import ATTRIBUTES
from hw.common.register_map import RegisterMap
from hw.fp.ops import ReduceOp
from hw.smartnic.config import SmartNicConfig
from sim.cycles.ace.model import partition_of
from sim.cycles.ring import RingSettings
from sim.rtl import ace_writes, nic_writes
from sim.rtl.ace_writes import Write
from sim.workload.graph import CollectiveKind

__all__ = ["example_writes", "joined", "pair_data", "pair_verilog"]

_NODES = 2
_MEMORY_BYTES = 1 << 14
_ELEMENTS = (150, 64, 33)
_OPS = (ReduceOp.SUM_I32, ReduceOp.SUM_F32, ReduceOp.MAX_F32)


def joined(parameters: Mapping[str, Any], engine: str) -> list[tuple[str, str]]:
    """Links of an engine that the bench joins: one of a node -> the other node's at its far end."""
    if engine == "ace":
        return [("link_0", "link_1"), ("link_1", "link_0")]
    return [(f"net_{n}", f"net_{n}") for n in range(parameters["engines"])]


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


def pair_data(design: Design, engine: str) -> dict[str, Any]:
    """Data for `bench/cocotb_pair.py`: offsets and words only."""
    registers = design.registers
    assert registers is not None
    config = _config(design, engine)
    ports = config.memory_ports if isinstance(config, AceConfig) else config.engines
    beat = config.bus_bytes
    jobs = []
    place = 0
    for name, (elements, op) in enumerate(zip(_ELEMENTS, _OPS, strict=True)):
        source = place + beat
        destination = source + -(-4 * elements // beat) * beat + beat
        place = destination + -(-4 * elements // beat) * beat
        writes = _start(config, registers, elements, op, name, source, destination)
        jobs.append({
            "op": op.name, "elements": elements, "source": source, "destination": destination,
            "writes": words(registers, writes),
        })
    assert place <= _MEMORY_BYTES
    completed = registers.registers["completed"]
    return {
        "lines": _NODES * len(joined(design.parameters, engine)),
        "bus_bytes": beat,
        "memory_bytes": _MEMORY_BYTES,
        "memory_ports": [f"mem_{port}" for port in range(ports)],
        "attributes": {name: value for name, (_, value) in ATTRIBUTES.items()},
        "set_up": [words(registers, _set_up(config, registers, rank)) for rank in range(_NODES)],
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


def _config(design: Design, engine: str) -> AceConfig | SmartNicConfig:
    values: dict[str, Any] = design.parameters
    return AceConfig(**values) if engine == "ace" else SmartNicConfig(**values)


def example_writes(
    design: Design, engine: str, registers: RegisterMap
) -> tuple[list[Write], list[Write]]:
    """Writes that set up rank 0 of the pair, and that start an all-reduce; none with one link."""
    config = _config(design, engine)
    if isinstance(config, AceConfig) and config.ports < 2:
        return [], []
    start = _start(config, registers, _ELEMENTS[0], _OPS[0], 0, config.bus_bytes, 1 << 10)
    return list(_set_up(config, registers, 0)), list(start)


def _set_up(
    config: AceConfig | SmartNicConfig, registers: RegisterMap, rank: int
) -> Iterator[Write]:
    if isinstance(config, AceConfig):
        return ace_writes.set_up_writes(
            registers, config, rank=rank, nodes=_NODES, queues=config.fsms,
            memory_bytes=_MEMORY_BYTES, watchdog_cycles=PATIENCE,
        )
    return nic_writes.set_up_writes(
        registers, config, rank=rank, nodes=_NODES, memory_bytes=_MEMORY_BYTES,
        watchdog_cycles=PATIENCE,
    )


def _start(
    config: AceConfig | SmartNicConfig,
    registers: RegisterMap,
    elements: int,
    op: ReduceOp,
    name: int,
    source: int,
    destination: int,
) -> Iterator[Write]:
    if isinstance(config, AceConfig):
        part = partition_of(config, RingSettings(nodes=_NODES), elements, block=None)
        return ace_writes.start_writes(
            registers, CollectiveKind.ALL_REDUCE, part, name=name, source=source,
            destination=destination, op=op,
        )
    return nic_writes.start_writes(
        registers, elements=elements, tag=name, source=source, destination=destination, op=op
    )
