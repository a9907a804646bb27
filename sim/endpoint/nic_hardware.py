# SPDX-License-Identifier: Apache-2.0
"""The event endpoint of the smart NIC, from the configuration of the hardware."""

from collections.abc import Sequence
from dataclasses import replace

from hw.smartnic.config import SmartNicConfig
from sim.endpoint.latencies import EventLatencies
from sim.endpoint.memory_times import MemoryTimes
from sim.endpoint.nic_ring import NicRingTimes, nic_link_share
from sim.endpoint.smartnic import SmartNicEndpoint
from sim.network.dimension import Dimension

__all__ = ["nic_dimension", "nic_endpoint"]


def nic_endpoint(
    config: SmartNicConfig,
    dimensions: Sequence[Dimension],
    *,
    clock_hz: float,
    memory: MemoryTimes,
    compress: bool,
    base: SmartNicEndpoint,
    latencies: EventLatencies | None = None,
) -> SmartNicEndpoint:
    """*base* with everything that the NIC's configuration fixes; in a single dimension as a ring of
    its engines."""
    known = EventLatencies.stored() if latencies is None else latencies
    ring = None
    if len(dimensions) == 1:
        ring = NicRingTimes(
            config=config,
            nodes=dimensions[0].size,
            clock_hz=clock_hz,
            compress=compress,
            read_cycles=memory.read_cycles,
            write_cycles=memory.write_cycles,
            hop_s=dimensions[0].hop_s,
            frame_s=_frame_s(config, dimensions[0], compress=compress),
            latencies=known,
        )
    return replace(
        base,
        lanes=config.engines * config.lanes,
        clock_hz=clock_hz,
        host_bytes_per_s=config.engines * config.bus_bytes * clock_hz,
        codec=config.codec if compress else "none",
        host_latency_s=memory.read_cycles / clock_hz,
        hop_cycles=known.nic_sum + config.alu_stages + (known.nic_codec if compress else 0),
        ring=ring,
    )


def _frame_s(config: SmartNicConfig, dim: Dimension, *, compress: bool) -> float:
    """A full frame's time on an engine's link."""
    beats = config.compressed_frame_beats if compress else config.frame_beats
    size = beats * config.bus_bytes / nic_link_share(config, compress=compress)
    return size * config.engines / dim.bandwidth_bytes_per_s


def nic_dimension(config: SmartNicConfig, dim: Dimension, *, compress: bool) -> Dimension:
    """A dimension as events see it: the ports of each engine are links of their own."""
    return replace(
        dim,
        lanes=config.engines,
        bandwidth_bytes_per_s=dim.bandwidth_bytes_per_s / config.engines,
        efficiency=nic_link_share(config, compress=compress),
    )
