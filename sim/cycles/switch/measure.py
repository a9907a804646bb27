# SPDX-License-Identifier: Apache-2.0
"""Latencies of the event endpoint at switches, on the cycle model of both."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from hw.switch.config import preset as switch_preset
from hw.switch_dma.config import preset as dma_preset
from sim.cycles.measure import LINK, POLL, READ, SCRIPT, WRITE, measured_ring
from sim.cycles.switch.fabric import Fabric
from sim.cycles.switch.hosts import Assembly, SwitchHosts
from sim.endpoint.switch_system import SwitchSystem
from sim.hosts.command import Command
from sim.hosts.script import Compute

__all__ = ["MEASURES"]


def _hosts(
    mode: str, size_bytes: int, *, link: int = LINK, buffers: int = 8, read_ahead: int = 16,
    late: int = 0,
) -> SwitchHosts:
    """Two endpoints at a switch, and an all-reduce; the second begins *late* cycles later."""
    switch = replace(switch_preset("8-port"), buffer_packets=buffers, credits=buffers)
    dma = replace(
        dma_preset("1-link"), buffer_packets=buffers, credits=buffers, read_ahead=read_ahead
    )
    system = SwitchSystem(switch=switch, dma=dma, mode=mode, clock_hz=1e9, timeout_cycles=4000)
    assembly = Assembly(system=system, fabric=Fabric.flat(2), links=((), ()))
    command = Command(elements=size_bytes // 4, destination=1 << 20)
    ring = measured_ring(nodes=2, latency_cycles=link)
    second = (Compute(cycles=late), *SCRIPT) if late else SCRIPT
    return SwitchHosts(assembly, ring, [command], [SCRIPT, second])


@dataclass(frozen=True)
class _Seen:
    """Cycles in which packets begin to leave endpoints (*lanes*) and the switch (*ports*), in which
    table entries are taken, and from which they are free again."""

    lanes: list[int]
    ports: list[int]
    taken: list[int]
    free: list[int]


def _seen(hosts: SwitchHosts) -> _Seen:
    model = hosts.model
    seen = _Seen([], [], [], [])
    lane = int(model.state.c["lane_output"][0])
    ports = hosts.config.system.switch.ports
    before, held = model.state.output["flits"].copy(), 0
    while not hosts.done:
        at = model.now
        hosts.run(at + 1)
        now = model.state.output["flits"]
        for output in np.flatnonzero(now - before).tolist():
            if output >= lane:
                seen.lanes.append(at)
            elif output < ports:
                seen.ports.append(at)
        entries = int(np.bitwise_count(model.state.unit["valid"]).sum())
        if entries > held:
            seen.taken.append(at)
        elif entries < held:
            seen.free.append(at + 1)
        before, held = now.copy(), entries
    return seen


def _way() -> dict[str, int]:
    """Latencies of a packet pushed, and of one pulled; first comes the contract, which all push."""
    hosts = _hosts("push", 128)
    pushed = _seen(hosts)
    flits = hosts.config.system.switch.packet_flits
    link = flits + LINK
    data, result = pushed.lanes[-1], pushed.ports[-1]
    end = int(hosts.completions().max()) - result - link - WRITE
    hosts = _hosts("pull", 128)
    pulled = _seen(hosts)
    load, answer, summed_on = pulled.lanes[-3:]
    load_on, summed, onward = pulled.ports[-3:]
    passes = onward - summed_on - link
    load_there = load + 1 + LINK + passes
    return {
        "switch_start": data - READ + POLL,
        "switch_end": end,
        "switch_pass": passes,
        "switch_sum": result - data - link - passes - 2 * flits,
        "switch_barrier": load - 2 * LINK - passes - 2 * flits + POLL,
        "switch_load": pulled.taken[-1] - load_there,
        "switch_load_on": load_on - load_there,
        "switch_answer": answer - load_on - 1 - LINK - READ,
        "switch_result": summed_on - summed - link - 2 * flits,
        "switch_own_result": int(hosts.completions().min()) - summed_on - WRITE,
    }


def _detour() -> int:
    """Extra time of a sum by its home, by endpoints so far apart in time that entries are overdue:
    the second's operands leave the table as partials, too."""
    hosts = _hosts("push", 128, late=9000)
    seen = _seen(hosts)
    flits = hosts.config.system.switch.packet_flits
    passes = _way()["switch_pass"]
    return seen.ports[-1] - seen.free[-1] - 2 * LINK - passes - 2 * flits


def _rate(size_bytes: int, packets: int, **changes: int) -> float:
    """Extra cycles of a push for each additional packet."""

    def cycles(size: int) -> int:
        hosts = _hosts("push", size, **changes)
        hosts.run()
        return int(hosts.completions().max())

    return (cycles(size_bytes + 128 * packets) - cycles(size_bytes)) / packets


def _operand() -> int:
    """Time for which an operand's place is taken, by places for two operands alone."""
    return round(2 * _rate(4096, 64, read_ahead=2)) - READ


def _credit() -> int:
    """Round trip of a credit, by links so long that endpoints wait for credits."""
    link, credits = 100, 8
    rate = _rate(4096, 64, link=link, buffers=credits)
    return round(rate * credits) - 2 * link - 2 * switch_preset("8-port").packet_flits


MEASURES: Mapping[str, Callable[[], Mapping[str, int]]] = {
    "the way through a switch": _way,
    "the way of a partial": lambda: {"switch_detour": _detour()},
    "operands of an endpoint": lambda: {"switch_operand": _operand()},
    "credits of a switch": lambda: {"switch_credit": _credit()},
}
