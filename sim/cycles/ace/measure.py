# SPDX-License-Identifier: Apache-2.0
"""Latencies of ACE's event endpoint, on its cycle model."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hw.ace.config import AceConfig, preset
from sim.cycles.ace.latencies import Latencies
from sim.cycles.ace.model import EngineModel
from sim.cycles.ace.state import BURST, OUTSTANDING
from sim.cycles.measure import LINK, READ, SCRIPT, WRITE, measured_ring
from sim.hosts.command import Command
from sim.hosts.script import POLL_CYCLES, Issue, Reached, Step
from sim.hosts.wiring import EngineWiring
from sim.network.network import Network
from sim.workload.graph import CollectiveKind

__all__ = ["MEASURES"]


def _way(name: str, *, link: int = LINK) -> dict[str, int]:
    """Latencies of a packet for each block of three nodes: READY, then four sends."""
    config = preset(name)
    packet = config.packet_beats
    command = Command(elements=3 * config.packet_elements, destination=1 << 20)
    ring = measured_ring(fsms=1, latency_cycles=link)
    model = EngineModel(config, ring, [command], [SCRIPT] * 3, trace=True)
    model.run()
    sent = model.link_activity(0, 0)
    own, summed, result, copied = sent.beat_cycles[sent.beat_header_flits > 0].tolist()
    loaded = int(model.state.loader["arrives"][0].max())
    stored = int(model.state.storer["last_write"][0].max())
    on_link = packet + 1 / config.flits
    ready = own - loaded - link - packet
    hop = summed - own - on_link - link - packet
    data = 3 * packet
    done = int(model.state.progress["done"][0, 0])
    return {
        "ready": ready,
        "hop": round(hop),
        "start": own - data - READ - link - packet - ready,
        "store": round(done - copied - on_link - link - packet - hop - data - WRITE),
        "fetch": int(model.link_activity(0, 1).beat_cycles[0]) - loaded,
        "receive": round(copied - result - on_link - link) + 1,
        "alu": (summed - own) - (copied - result),
        "end": done - stored - WRITE,
    }


def _ready(name: str) -> int:
    """Mean over links from cycle to cycle longer: a READY waits until its context is looked at."""
    period = Latencies.stored().of(preset(name))["lookup"] + 2
    return round(sum(_way(name, link=LINK + n)["ready"] for n in range(period)) / period)


def _rate(config: AceConfig, packets: int, **changes: Any) -> int:
    """Cycles of an all-gather of *packets* packets from each of two nodes."""
    command = Command(
        collective=CollectiveKind.ALL_GATHER, elements=2 * packets * config.packet_elements,
        destination=1 << 21,
    )
    ring = measured_ring(nodes=2, fsms=1, **changes)
    model = EngineModel(config, ring, [command], [SCRIPT] * 2, trace=True)
    model.run()
    sent = model.link_activity(0, 0)
    starts = sent.beat_cycles[sent.beat_header_flits > 0]
    return int(starts[-1] - starts[0])


def _generate() -> int:
    """Cycles of a packet of own data, where they follow one after the other."""
    config, packets = preset("ring"), 16
    return round(_rate(config, packets) / (packets - 1))


def _credit() -> int:
    """Round trip of a credit, by links so long that a sender waits for credits."""
    config, latency, packets = preset("test"), 300, 60
    more = _rate(config, packets, latency_cycles=latency)
    more -= _rate(config, packets - config.rx_packets, latency_cycles=latency)
    return round(more - 2 * latency - config.packet_beats - 1 / config.flits)


def _dispatch() -> int:
    """Cycles between two chunks that two FSMs get."""
    config = preset("duo")
    ring = measured_ring(nodes=2)
    command = Command(elements=4 * config.packet_elements, destination=1 << 20)
    model = EngineModel(config, ring, [command], [SCRIPT] * 2)
    admitted: dict[int, int] = {}
    for now in count():
        model.run(now)
        for fsm in np.flatnonzero(model.state.fsm["occupied"][0]).tolist():
            admitted.setdefault(fsm, now)
        if len(admitted) == config.fsms:
            break
    return admitted[1] - admitted[0]


def _burst() -> int:
    """Overhead of a burst, by memories so slow that outstanding bursts (a chunk) bound reads: much
    slower than all else that a chunk needs together."""
    config, latency = preset("test"), 2000

    def cycles(chunks: int) -> int:
        command = Command(elements=chunks * config.slot_elements, destination=1 << 21)
        ring = measured_ring(nodes=2, read_latency_cycles=latency)
        model = EngineModel(config, ring, [command], [SCRIPT] * 2)
        model.run()
        return int(model.state.progress["done"].max())

    assert config.slot_beats == BURST * OUTSTANDING
    return round((cycles(40) - cycles(20)) / 20) - latency - BURST


def _turn(hop: int) -> int:
    """Cycles of the end of a phase: one packet for each block of three times three nodes, whose
    last phase gathers along the first dimension."""
    config = replace(preset("test"), ports=4, max_nodes=9)
    first, second = _square(config, CollectiveKind.ALL_REDUCE)
    gathered = int(first[first > second[-1]][0])
    packet = config.packet_beats
    on_link = packet + 1 / config.flits
    return round(gathered - int(second[-1]) - on_link - LINK - hop - 2 * packet)


def _square(config: AceConfig, kind: CollectiveKind) -> list[NDArray[np.int64]]:
    """Cycles of the packets of a node of three times three, along both dimensions."""
    network = Network.torus((3, 3), bandwidth_bytes_per_s=16e9, latency_s=LINK * 1e-9)
    wiring = EngineWiring.by_dimension(
        network, style="dimension_ordered", fsms=1, clock_hz=1e9, bus_bytes=config.bus_bytes,
        bidirectional=False,
    )
    square = measured_ring(nodes=9, fsms=1, wiring=wiring)
    command = Command(
        collective=kind, elements=9 * config.packet_elements, destination=1 << 20
    )
    model = EngineModel(config, square, [command], [SCRIPT] * 9, trace=True)
    model.run()
    links = (model.link_activity(0, port) for port in (0, 2))
    return [sent.beat_cycles[sent.beat_header_flits > 0] for sent in links]


def _partitioned(config: AceConfig, phases: int) -> AceConfig:
    """An engine with partitions by phase, of one FSM each."""
    return replace(
        config, partitions="phase", phases=phases, fsms=phases, contexts=1,
        sram_bytes=(phases + 1) * config.sram_bytes,
        memory_ports=1,
    )


def _hand_over() -> int:
    """Cycles by which partitions delay the second phase of a reduce-scatter."""
    config = replace(preset("test"), ports=4, max_nodes=9, memory_ports=1)
    together, apart = (
        _square(each, CollectiveKind.REDUCE_SCATTER)[1][0]
        for each in (config, _partitioned(config, 3))
    )
    return int(apart - together)


def _copy() -> int:
    """Cycles of a phase that does nothing but copy a block of one packet."""
    config = preset("test")
    command = Command(
        collective=CollectiveKind.REDUCE_SCATTER, elements=3 * config.packet_elements,
        destination=1 << 20,
    )
    done = []
    for phases in (1, 2):
        ring = measured_ring(fsms=1)
        model = EngineModel(_partitioned(config, phases), ring, [command], [SCRIPT] * 3)
        model.run()
        done.append(int(model.state.progress["done"].max()))
    return done[1] - done[0] - config.packet_beats


def _polls() -> dict[str, int]:
    """Polls of the completion, by memories from run to run a cycle slower."""
    config = preset("test")
    command = Command(elements=3 * config.packet_elements, destination=1 << 20)

    def run(slower: int, script: Sequence[Step] = SCRIPT) -> tuple[int, int]:
        """Cycle of a completion, and the first after the poll that ends the script."""
        ring = measured_ring(fsms=1, read_latency_cycles=READ + slower)
        model = EngineModel(config, ring, [command], [script] * 3)
        model.run()
        return int(model.state.progress["done"][0, 0]), int(model.steps(0)[-1]) + 1

    runs = [run(slower) for slower in range(2 * POLL_CYCLES)]
    polls = sorted({end for _, end in runs})
    return {
        "ace_first_poll": run(0, (Issue(command=0), Reached(count=0)))[1],
        "ace_poll": polls[1] - polls[0],
        "ace_seen": min(end - done for done, end in runs),
    }


def _ways() -> dict[str, int]:
    narrow, wide = _way("test"), _way("ring")
    ready = _ready("test")
    return {
        "ace_turn": _turn(narrow["hop"]),
        "ace_start": narrow["start"],
        "ace_ready": ready,
        "ace_hop": narrow["hop"],
        "ace_store": narrow["store"],
        "ace_patience": wide["hop"] - narrow["hop"],
        "ace_ready_patience": _ready("ring") - ready,
        "ace_fetch": narrow["fetch"],
        "ace_receive": narrow["receive"],
        "ace_alu": narrow["alu"],
        "ace_end": narrow["end"],
    }


MEASURES: Mapping[str, Callable[[], Mapping[str, int]]] = {
    "the way through ACE": _ways,
    "polls of ACE's host": _polls,
    "partitions by phase": lambda: {"ace_hand_over": _hand_over(), "ace_copy": _copy()},
    "packets of an FSM": lambda: {"ace_generate": _generate()},
    "credits of ACE": lambda: {"ace_credit": _credit()},
    "the dispatcher of ACE": lambda: {"ace_dispatch": _dispatch()},
    "reads of ACE": lambda: {"ace_burst": _burst()},
}
