# SPDX-License-Identifier: Apache-2.0
"""Flits per input port and cycle that a reduction unit and whole switches accept (RTL)."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from bench.options import bench_parser
from bench.result import result
from gen.configured import compile_configured
from gen.synth import synthesize
from hw.fp.ops import ReduceOp
from hw.switch.config import SwitchConfig, preset
from hw.switch.packet import Kind, encode
from hw.switch.reduction_unit import ReductionUnit
from hw.switch.switch import Switch
from hw.switch_dma.config import preset as dma_preset
from sim.cycles.switch.fabric import Fabric
from tb.switch.endpoint import payload
from tb.switch.system import System
from tb.switch_dma.fabric import AllReduce, flat, join

TARGET = 0.95
LATENCY_CYCLES = 4
UNIT_PACKETS = 400
BLOCKS = 160
PULLED_BYTES = 64 << 10
PULL_ENTRIES = 8
PULL_TIMEOUT_CYCLES = 20_000
PULL_CREDITS = 16
PULL_TARGET = 0.9
MOST_LUTS = 175_000


def main(argv: Sequence[str]) -> int:
    """Push operands as fast as they are accepted; results are compared with numpy."""
    options = bench_parser("switch_line_rate", __doc__, seed="data and order").parse_args(argv)

    config = preset("16-port")
    print(
        f"unit: {config.entries} entries, {config.alu_stages} adder stages, FP32 sums; a packet is "
        f"{config.packet_flits} flits"
    )
    units = []
    for title, order in _orders(config, options.seed).items():
        share, evicted = _unit(config, order)
        units.append(share)
        print(f"  {title:34} {share:7.2%} of cycles accepted, {evicted} evictions")

    print(
        f"switch: every endpoint pushes {BLOCKS} operands in address order, homes interleaved, "
        f"results multicast back;\n{config.buffer_packets} packets of each class at an input, "
        f"{config.queue_packets} before and behind a unit; links of {LATENCY_CYCLES} cycles"
    )
    print("  ports  speed-up  worst port  evictions  exact")
    pushed, sums_right = _rows(_switch, options.seed)
    push = min(rate for rate, _ in pushed.values())
    print(
        "Flits per input port and cycle in the middle half of the run. With speed-up 2 results "
        "have inputs and columns of\nthe crossbar of their own; with 1 all share them. The target "
        "is for 2."
    )
    print(
        f"pull through RTL endpoints, {PULLED_BYTES >> 10} KiB each, {PULL_ENTRIES} entries, "
        f"{PULL_CREDITS} packets of each class at both\nends of a link: worst port, into the "
        "switch and out of it\n  ports  speed-up          in        out  exact"
    )
    pulled, pulls_right = _rows(_pull, options.seed)
    print(
        "Of p members, each sends p - 1 answers, a result and a load in the time in which it "
        "receives an answer,\np - 1 results and p - 1 loads: 9 p + 1 flits in for 10 p - 1 out, so "
        "links out of the switch are full first.\nThe target is for these, at speed-up 2."
    )
    luts = _luts(preset("16-port"))
    print(
        f"16-port switch with the {config.buffer_packets} packets of each class that the preset "
        f"has: {luts} LUT (Yosys, UltraScale+, not placed); at most {MOST_LUTS}"
    )
    exact = sums_right and pulls_right
    out = {ports: float(told.rstrip("%")) / 100 for ports, (_, told) in pulled.items()}
    met = exact and min(*units, push) >= TARGET and luts <= MOST_LUTS
    result(
        "switch_line_rate",
        utilisation=min(units),
        switch_utilisation=push,
        pull_utilisation=min(rate for rate, _ in pulled.values()),
        pull_out_8=out[8],
        pull_out_16=out[16],
        pull_credits=PULL_CREDITS,
        switch16_lut=luts,
        target=TARGET,
        exact=exact,
        verdict="ok" if met and min(out.values()) >= PULL_TARGET else "short",
    )
    return 0


def _rows(
    measure: Callable[[SwitchConfig, int], tuple[float, str, bool]], seed: int
) -> tuple[dict[int, tuple[float, str]], bool]:
    """A row for each size and speed-up: by ports the rate at speed-up 2 and what is beside it;
    whether all is right."""
    rates: dict[int, tuple[float, str]] = {}
    exact = True
    for name, speedup in itertools.product(("8-port", "16-port"), (1, 2)):
        config = replace(preset(name), speedup=speedup)
        rate, other, right = measure(config, seed)
        if speedup == 2:
            rates[config.ports] = rate, other
        exact &= right
        judged = "yes" if right else "NO"
        print(f"  {config.ports:5} {speedup:9} {rate:11.2%} {other:>10}  {judged}")
    return rates, exact


def _orders(config: SwitchConfig, seed: int) -> dict[str, list[int]]:
    """Block numbers of a unit's operands, 8 for each block."""
    blocks = UNIT_PACKETS // 8
    rng = np.random.default_rng(seed)
    window = 3 * config.entries
    mixed = [
        block
        for first in range(0, blocks, window)
        for block in rng.permutation(np.repeat(np.arange(first, min(first + window, blocks)), 8))
    ]
    return {
        "one entry back to back": [block for block in range(blocks) for _ in range(8)],
        f"{window} blocks at random": [int(block) for block in mixed],
        "every operand evicts another": list(range(UNIT_PACKETS)),
    }


def _unit(config: SwitchConfig, order: list[int]) -> tuple[float, int]:
    """Share of cycles in which a flit is accepted, its input always offering one; evictions."""
    model = compile_configured(_reduction_unit, config, name="reduction_unit")
    words = payload(np.ones(config.payload_bytes // 4, np.float32))
    accepted, evicted = [], 0
    with model.instance() as unit:
        unit.set("partial_ready", 1)
        unit.set("result_ready", 1)
        unit.set("i_valid", 1)
        cycle = 0
        for block in order:
            header = encode({"kind": Kind.PUSH, "op": ReduceOp.SUM_F32.value, "count": 1,
                             "address": block * config.payload_flits})
            for place, flit in enumerate([header, *words]):
                marks = (place == 0) | (place == config.payload_flits) << 1
                unit.set("i_payload", flit | marks << 128 | 8 << 130)
                while True:
                    taken = unit.get("i_ready")
                    evicted += unit.get("evicted")
                    unit.cycle()
                    cycle += 1
                    if taken:
                        break
                accepted.append(cycle)
    return _rate(accepted), evicted


def _reduction_unit(config: SwitchConfig) -> ReductionUnit:
    return ReductionUnit(
        entries=config.entries, payload_flits=config.payload_flits, alu_stages=config.alu_stages,
        queue_packets=config.queue_packets, timeout_bits=config.timeout_bits,
    )


def _switch(config: SwitchConfig, seed: int) -> tuple[float, str, bool]:
    """Rate of the worst port, evictions, and whether all results are right."""
    members = list(range(config.ports))
    config = replace(config, endpoints=max(config.endpoints, config.ports))
    system = System(config, Fabric.flat(len(members)), expected={0: len(members)},
                    latency=LATENCY_CYCLES, seed=seed)
    system.region(members, links=[members])
    rng = np.random.default_rng(seed)
    words = config.payload_bytes // 4
    data = rng.integers(-(1 << 31), 1 << 31, (len(members), BLOCKS, words)).astype(np.int32)
    for member in members:
        for block in range(BLOCKS):
            system.endpoints[member].push(
                ReduceOp.SUM_I32, 0, block * config.payload_flits, data[member, block]
            )
    system.switches[0].write("timeout", cycles=2000)
    system.settle(quiet=4200)
    sums = data.sum(axis=0, dtype=np.int32)
    right = all(
        len(end.results) == BLOCKS
        and all(np.array_equal(end.results[0, block * config.payload_flits][0], sums[block])
                for block in range(BLOCKS))
        for end in system.endpoints
    )
    evicted = system.switches[0].counters().get("evicted", 0)
    rates = [_rate(end.sent_at[: BLOCKS * config.packet_flits]) for end in system.endpoints]
    return min(rates), str(evicted), right


def _pull(config: SwitchConfig, seed: int) -> tuple[float, str, bool]:
    """Rates of the worst port into the switch and out of it; whether all results are right."""
    members = config.ports
    config = replace(
        config, endpoints=max(config.endpoints, members), entries=PULL_ENTRIES,
        buffer_packets=PULL_CREDITS, credits=PULL_CREDITS,
    )
    dma = replace(dma_preset("1-link"), buffer_packets=PULL_CREDITS, credits=PULL_CREDITS)
    system = flat(config, dma, members, latency=LATENCY_CYCLES, seed=seed,
                  timeout=PULL_TIMEOUT_CYCLES, mode="pull", memory_bytes=4 * PULLED_BYTES,
                  record_beats=True)
    join(system)
    begin = system.cycle
    job = AllReduce(system, ReduceOp.SUM_I32, PULLED_BYTES // 4, seed=seed)
    job.start()
    system.run(lambda: all(node.output("irq") for node in system.nodes), deadline=1_000_000)
    rates = {
        wire: _rate(each[each >= begin].tolist())
        for wire in system.wires
        for each in [system.system.link_activity(*wire).beat_cycles]
    }
    least = [min(rate for (number, _), rate in rates.items() if (number < members) is sends)
             for sends in (True, False)]
    wanted = sum(job.inputs[1:], job.inputs[0])
    right = all(np.array_equal(each, wanted) for each in job.results())
    return least[0], f"{least[1]:.2%}", right


def _luts(config: SwitchConfig) -> int:
    """LUTs of a switch; a mapping takes minutes, and is kept by what is mapped."""
    table = synthesize(Switch(config), name="switch_16_port", target="xcup")
    place = [column.name for column in table.columns].index("lut")
    return int(str(table.rows[0][place]))


def _rate(cycles: Sequence[int]) -> float:
    """Flits per cycle in the middle half."""
    low, high = len(cycles) // 4, len(cycles) * 3 // 4
    return (high - low) / (cycles[high] - cycles[low])


