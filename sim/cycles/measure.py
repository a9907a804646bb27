"""Measures the latencies of event endpoints on the cycle models of their engines.

``python -m sim.cycles.measure`` writes them to the data file of `sim.endpoint.latencies`.

Most are found in a run so small that nothing waits for anything else, from the cycle of each packet
on each link: the time that events count between two of them (links, beats, memories) is taken off.
The others come from rates through a bound of few packets or bursts: from the extra time that more
data take.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from hw.ace.config import AceConfig
from hw.ace.config import preset as ace_preset
from hw.smartnic.config import preset as nic_preset
from hw.switch.config import preset as switch_preset
from hw.switch_dma.config import preset as dma_preset
from sim.cycles.ace.model import EngineModel
from sim.cycles.ace.state import BURST, OUTSTANDING
from sim.cycles.smartnic.model import NicModel
from sim.cycles.switch.fabric import Fabric
from sim.cycles.switch.hosts import Assembly, SwitchHosts
from sim.endpoint.latencies import EventLatencies
from sim.endpoint.switch_system import SWITCH_CYCLES, SwitchSystem
from sim.hosts.command import Command
from sim.hosts.script import POLL_CYCLES, Issue, Reached
from sim.hosts.surroundings import Surroundings
from sim.workload.graph import CollectiveKind

__all__ = ["MEASURES", "measure"]

READ, WRITE, LINK = 50, 10, 20
"""Cycles of memories and links."""
POLL = (POLL_CYCLES + 2) // 2
"""Mean cycles from a completion until a host sees it."""
SCRIPT = (Issue(command=0), Reached(count=1))


def _ring(**changes: Any) -> Surroundings:
    return replace(
        Surroundings(
            nodes=3, latency_cycles=LINK, read_latency_cycles=READ, write_latency_cycles=WRITE,
            memory_bytes=1 << 22, fsms=None,
        ),
        **changes,
    )


# ---- The smart NIC.


def _nic_way(*, compress: bool = False) -> dict[str, int]:
    """Latencies of a block in a ring of three: sent first, as a sum, as a result, and gathered."""
    config = nic_preset("100g")
    beats = config.granule
    command = Command(
        elements=3 * beats * config.lanes, compress=compress, destination=1 << 15
    )
    model = NicModel(config, _ring(), [command], [SCRIPT] * 3, trace=True)
    model.run()
    own, summed, result, gathered = model.link_activity(0, 0).beat_cycles[::2].tolist()
    frame = 2  # a header, and a beat
    way = frame + LINK + beats
    adder = config.alu_stages
    sums = summed - own - way - adder
    begun = own - READ - beats - adder
    ended = int(model.completions()[0, 0]) - gathered - way - WRITE
    return {
        "nic_host": begun + ended + POLL,
        "nic_sum": sums,
        "nic_result": result - summed - way - adder - sums - beats,
        "nic_gather": gathered - result - way,
    }


def _nic_burst() -> int:
    """Overhead of a burst, by memories so slow that outstanding bursts bound the reads."""
    config, latency = nic_preset("test"), 500

    def cycles(beats: int) -> int:
        command = Command(elements=2 * beats * config.lanes, destination=1 << 21)
        ring = _ring(nodes=2, read_latency_cycles=latency)
        model = NicModel(config, ring, [command], [SCRIPT] * 2)
        model.run()
        return int(model.completions().max())

    more = (cycles(1024) - cycles(512)) / (2 * 512)  # for a beat; both nodes' beats are read
    return round(more * config.max_burst * config.outstanding_bursts) - latency - config.max_burst


# ---- ACE.


def _ace_way(name: str) -> dict[str, int]:
    """Latencies of a packet for each block of three nodes: READY, then four sends."""
    config = ace_preset(name)
    packet = config.packet_beats
    command = Command(elements=3 * config.packet_elements, destination=1 << 20)
    model = EngineModel(config, _ring(fsms=1), [command], [SCRIPT] * 3, trace=True)
    model.run()
    sent = model.link_activity(0, 0)
    own, summed, _, last = sent.beat_cycles[sent.beat_header_flits > 0].tolist()
    loaded = int(model.state.loader["arrives"][0].max())
    on_link = packet + 1 / config.flits
    ready = own - loaded - LINK - packet
    hop = summed - own - on_link - LINK - packet
    data = 3 * packet
    done = int(model.state.progress["done"][0, 0])
    return {
        "ready": ready,
        "hop": round(hop),
        "start": own - data - READ - LINK - packet - ready + POLL,
        "store": round(done - last - on_link - LINK - packet - hop - data - WRITE),
    }


def _ace_rate(config: AceConfig, packets: int, **changes: Any) -> int:
    """Cycles of an all-gather of *packets* packets from each of two nodes."""
    command = Command(
        collective=CollectiveKind.ALL_GATHER, elements=2 * packets * config.packet_elements,
        destination=1 << 21,
    )
    ring = _ring(nodes=2, fsms=1, **changes)
    model = EngineModel(config, ring, [command], [SCRIPT] * 2, trace=True)
    model.run()
    sent = model.link_activity(0, 0)
    starts = sent.beat_cycles[sent.beat_header_flits > 0]
    return int(starts[-1] - starts[0])


def _ace_generate() -> int:
    """Cycles of a packet of own data, where they follow one after the other."""
    config, packets = ace_preset("ring"), 16
    return round(_ace_rate(config, packets) / (packets - 1))


def _ace_credit() -> int:
    """Round trip of a credit, by links so long that a sender waits for credits."""
    config, latency, packets = ace_preset("test"), 300, 60
    more = _ace_rate(config, packets, latency_cycles=latency)
    more -= _ace_rate(config, packets - config.rx_packets, latency_cycles=latency)
    return round(more - 2 * latency - config.packet_beats - 1 / config.flits)


def _ace_burst() -> int:
    """Overhead of a burst, by memories so slow that outstanding bursts (a chunk) bound reads."""
    config, latency = ace_preset("test"), 500

    def cycles(chunks: int) -> int:
        command = Command(elements=chunks * config.slot_elements, destination=1 << 21)
        ring = _ring(nodes=2, read_latency_cycles=latency)
        model = EngineModel(config, ring, [command], [SCRIPT] * 2)
        model.run()
        return int(model.state.progress["done"].max())

    assert config.slot_beats == BURST * OUTSTANDING
    return round((cycles(40) - cycles(20)) / 20) - latency - BURST


# ---- Switches.


def _switch(
    mode: str, size_bytes: int, *, link: int = LINK, buffers: int = 8, read_ahead: int = 16
) -> SwitchHosts:
    """Two endpoints at a switch, and an all-reduce."""
    switch = replace(switch_preset("8-port"), buffer_packets=buffers, credits=buffers)
    dma = replace(
        dma_preset("1-link"), buffer_packets=buffers, credits=buffers, read_ahead=read_ahead
    )
    system = SwitchSystem(switch=switch, dma=dma, mode=mode, clock_hz=1e9, timeout_cycles=4000)
    assembly = Assembly(system=system, fabric=Fabric.flat(2), links=((), ()))
    command = Command(elements=size_bytes // 4, destination=1 << 20)
    return SwitchHosts(assembly, _ring(nodes=2, latency_cycles=link), [command], [SCRIPT] * 2)


def _packets(hosts: SwitchHosts) -> tuple[list[int], list[int]]:
    """Cycles in which packets begin to leave endpoints, and the switch."""
    model = hosts.model
    from_ports, from_lanes = [], []
    lane = int(model.state.c["lane_output"][0])
    ports = hosts.config.system.switch.ports
    before = model.state.output["flits"].copy()
    while not hosts.done:
        at = model.now
        hosts.run(at + 1)
        now = model.state.output["flits"]
        for output in np.flatnonzero(now - before).tolist():
            if output >= lane:
                from_lanes.append(at)
            elif output < ports:
                from_ports.append(at)
        before = now.copy()
    return from_lanes, from_ports


def _switch_way() -> dict[str, int]:
    """Latencies of a packet pushed, and of one pulled; first comes the contract, which all push."""
    hosts = _switch("push", 128)
    lanes, ports = _packets(hosts)
    flits = hosts.config.system.switch.packet_flits
    link = flits + LINK
    *_, data = lanes
    *_, result = ports
    start = data - READ
    end = int(hosts.completions().max()) - result - link - WRITE
    sums = result - data - link - SWITCH_CYCLES - 2 * flits
    hosts = _switch("pull", 128)
    lanes, ports = _packets(hosts)
    load, answer, summed_on = lanes[-3:]
    load_on, summed, _ = ports[-3:]
    return {
        "switch_start": start + POLL,
        "switch_end": end,
        "switch_sum": sums,
        "switch_barrier": load - 2 * LINK - SWITCH_CYCLES - 2 * flits + POLL,
        "switch_load_on": load_on - load - 1 - LINK - SWITCH_CYCLES,
        "switch_answer": answer - load_on - 1 - LINK - READ,
        "switch_result": summed_on - summed - link - 2 * flits,
        "switch_own_result": int(hosts.completions().min()) - summed_on - WRITE,
    }


def _switch_rate(size_bytes: int, packets: int, **changes: int) -> float:
    """Extra cycles of a push for each additional packet."""

    def cycles(size: int) -> int:
        hosts = _switch("push", size, **changes)
        hosts.run()
        return int(hosts.completions().max())

    return (cycles(size_bytes + 128 * packets) - cycles(size_bytes)) / packets


def _switch_operand() -> int:
    """Time for which an operand's place is taken, by places for two operands alone."""
    return round(2 * _switch_rate(4096, 64, read_ahead=2)) - READ


def _switch_credit() -> int:
    """Round trip of a credit, by links so long that endpoints wait for credits."""
    link, credits = 100, 8
    rate = _switch_rate(4096, 64, link=link, buffers=credits)
    return round(rate * credits) - 2 * link - 2 * 9


def _ace() -> dict[str, int]:
    narrow, wide = _ace_way("test"), _ace_way("ring")
    return {
        "ace_start": narrow["start"],
        "ace_ready": narrow["ready"],
        "ace_hop": narrow["hop"],
        "ace_store": narrow["store"],
        "ace_patience": wide["hop"] - narrow["hop"],
        "ace_ready_patience": wide["ready"] - narrow["ready"],
    }


def _nic() -> dict[str, int]:
    plain, codec = _nic_way(), _nic_way(compress=True)
    return {**plain, "nic_codec": codec["nic_sum"] - plain["nic_sum"]}


MEASURES: Mapping[str, Callable[[], Mapping[str, int]]] = {
    "the way through a NIC": _nic,
    "reads of a NIC": lambda: {"nic_burst": _nic_burst()},
    "the way through ACE": _ace,
    "packets of an FSM": lambda: {"ace_generate": _ace_generate()},
    "credits of ACE": lambda: {"ace_credit": _ace_credit()},
    "reads of ACE": lambda: {"ace_burst": _ace_burst()},
    "the way through a switch": _switch_way,
    "operands of an endpoint": lambda: {"switch_operand": _switch_operand()},
    "credits of a switch": lambda: {"switch_credit": _switch_credit()},
}
"""Measurements by name; each returns the latencies that it finds."""


def measure() -> EventLatencies:
    """Measure all latencies."""
    found: dict[str, int] = {}
    for each in MEASURES.values():
        found |= each()
    return EventLatencies(**found)


if __name__ == "__main__":
    measured = measure()
    measured.store()
    print(measured)
