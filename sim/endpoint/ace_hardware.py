# SPDX-License-Identifier: Apache-2.0
"""The event endpoint of ACE, from the configuration of the hardware."""

import math
from collections.abc import Sequence
from dataclasses import fields, replace

from hw.ace.config import AceConfig
from hw.link.packet import FLIT_BYTES
from sim.endpoint.ace import AceEndpoint
from sim.endpoint.ace_ring import AceRingTimes
from sim.endpoint.ace_torus import AceTorusTimes
from sim.endpoint.kinds import Bus, Npu
from sim.endpoint.latencies import EventLatencies
from sim.endpoint.memory_times import MemoryTimes
from sim.network.dimension import Dimension

__all__ = [
    "ace_after_ready", "ace_endpoint", "ace_link_share", "ace_on_rings", "ace_on_torus",
    "ace_wire_share",
]


def ace_endpoint(
    config: AceConfig, *, npu: Npu, memory: MemoryTimes, base: AceEndpoint
) -> AceEndpoint:
    """*base* with everything that the engine's configuration fixes.

    The memory ports set the bandwidth of the DMA, with no other bus between them and the SRAM; a
    packet is the unit of forwarding, and the latencies of memory come on top of those of the
    engine's blocks.
    """
    ports = config.memory_ports * config.bus_bytes * npu.clock_hz
    return replace(
        base,
        npu=npu,
        memory_bytes_per_s=ports * memory.pace(ports),
        bus=Bus(bytes_per_s=math.inf),
        sram_bytes=config.sram_bytes,
        sram_accesses=config.slot_banks * (2 if config.bank_ports == "1r1w" else 1),
        bus_bytes=config.bus_bytes,
        fsms=config.fsms,
        contexts=config.contexts,
        alus=config.alus,
        lanes=config.lanes,
        message_bytes=float(config.packet_bytes),
        read_latency_s=memory.read_cycles / npu.clock_hz,
        store_cycles=base.store_cycles + memory.write_cycles,
        partition="even",
    )


def ace_on_rings(
    endpoint: AceEndpoint,
    config: AceConfig,
    dimensions: Sequence[Dimension],
    *,
    memory: MemoryTimes,
    latencies: EventLatencies | None = None,
) -> AceEndpoint:
    """*endpoint*, on a ring of one dimension, or on the rings of style ``hamiltonian`` in several,
    whose links count as the slowest of them."""
    linked = [each for each in dimensions if each.size > 1] or list(dimensions)[:1]
    rate = min(each.bandwidth_bytes_per_s for each in linked)
    ring = AceRingTimes(
        config=config,
        nodes=math.prod(each.size for each in linked),
        clock_hz=endpoint.npu.clock_hz,
        read_cycles=memory.read_cycles,
        write_cycles=memory.write_cycles,
        memory_pace=memory.pace(config.memory_ports * config.bus_bytes * endpoint.npu.clock_hz),
        hop_s=max(each.hop_s for each in linked),
        packet_s=config.packet_bytes / ace_wire_share(config) / rate,
        latencies=EventLatencies.stored() if latencies is None else latencies,
        rings=1 if len(dimensions) == 1 else sum(each.lanes for each in linked),
    )
    return replace(endpoint, ring=ring)


def ace_on_torus(
    endpoint: AceEndpoint,
    config: AceConfig,
    dimensions: Sequence[Dimension],
    *,
    style: str,
    memory: MemoryTimes,
) -> AceEndpoint:
    """*endpoint* on a torus, whose collectives go dimension by dimension in a style."""
    ring = ace_on_rings(endpoint, config, dimensions, memory=memory).ring
    assert isinstance(ring, AceRingTimes)
    known = {each.name: getattr(ring, each.name) for each in fields(ring)}
    return replace(endpoint, ring=AceTorusTimes(**known, style=style))


def ace_after_ready(endpoint: AceEndpoint, dimensions: Sequence[Dimension]) -> AceEndpoint:
    """*endpoint* whose chunks begin when their data are read and the next node has sent READY."""
    ready = EventLatencies.stored().ace_ready
    ready_s = ready / endpoint.npu.clock_hz + max(dim.hop_s for dim in dimensions)
    return replace(endpoint, read_latency_s=max(endpoint.read_latency_s, ready_s))


def ace_wire_share(config: AceConfig) -> float:
    """Payload over everything on a link: full packets and their headers."""
    return config.packet_bytes / (config.packet_bytes + FLIT_BYTES)


def ace_link_share(config: AceConfig, dim: Dimension, *, clock_hz: float) -> float:
    """Payload over the capacity of a link: headers and waiting for credits take the rest.

    A sender has as many packets in flight as the receive buffer has places, each for a round trip
    and the cycles in which the receiver handles it.
    """
    packet_s = config.packet_bytes / ace_wire_share(config) / dim.bandwidth_bytes_per_s
    round_trip_s = 2 * dim.hop_s + EventLatencies.stored().ace_credit / clock_hz
    under_way = min(1.0, config.rx_packets * packet_s / (round_trip_s + packet_s))
    return ace_wire_share(config) * under_way
