# SPDX-License-Identifier: Apache-2.0
"""Collectives of ACE engines on tori: their links, and the bound on their time."""

from dataclasses import dataclass

import numpy as np

from hw.ace.config import AceConfig
from hw.common.axi import aligned
from hw.link.packet import FLIT_BYTES
from sim.hosts.surroundings import Surroundings
from sim.hosts.wiring import EngineWiring
from sim.network.network import Network
from sim.workload.graph import CollectiveKind

__all__ = ["PHASES", "TorusCase"]

CLOCK_HZ = 1e9
PHASES = AceConfig(
    ports=6, bus_bytes=16, packet_bytes=64, sram_bytes=1536 << 10, banks=16, alus=6, fsms=12,
    contexts=8, program_words=512, memory_ports=6, rx_packets=128, tx_packets=16, max_nodes=64,
    address_bits=32,
)
"""FSMs for both directions of three orders of dimensions, twice; blocks of four packets; a receive
buffer holds two round trips of the link."""


@dataclass(frozen=True, kw_only=True)
class TorusCase:
    """A collective on a torus whose links are as wide as the engines' buses.

    Parameters
    ----------
    shape : tuple of int
    size_bytes : int
        The whole vector, of which each node has a shard before an all-gather.
    latency_cycles : int
        Of every link.
    style : str
        ``hamiltonian``, or one by dimension.
    engine : AceConfig
    collective : CollectiveKind
    folded : bool
        One engine stands for all.
    """

    shape: tuple[int, ...]
    size_bytes: int
    latency_cycles: int
    style: str
    engine: AceConfig
    collective: CollectiveKind = CollectiveKind.ALL_REDUCE
    folded: bool = False

    @property
    def nodes(self) -> int:
        return int(np.prod(self.shape))

    @property
    def config(self) -> AceConfig:
        """The engine that is run."""
        return self.engine

    @property
    def around(self) -> Surroundings:
        """Links, and memories with a vector and its result."""
        config = self.config
        clock_hz, bus_bytes = CLOCK_HZ, config.bus_bytes
        network = Network.torus(
            self.shape, bandwidth_bytes_per_s=config.bus_bytes * CLOCK_HZ,
            latency_s=self.latency_cycles / CLOCK_HZ,
        )
        if self.style == "hamiltonian":
            wiring = EngineWiring.hamiltonian(
                network, clock_hz=clock_hz, bus_bytes=bus_bytes
            )
        else:
            wiring = EngineWiring.by_dimension(
                network, style=self.style, fsms=config.fsms, clock_hz=clock_hz, bus_bytes=bus_bytes
            )
        memory_bytes = 2 * aligned(self.size_bytes)
        return Surroundings(
            nodes=self.nodes, wiring=wiring, memory_bytes=memory_bytes, folded=self.folded
        )

    @property
    def bound(self) -> float:
        """Cycles: the bytes that a node must send on its links, headers included, a hop, and the
        latencies of memory for one packet."""
        config, around = self.config, self.around
        passes = 2 if self.collective is CollectiveKind.ALL_REDUCE else 1
        wire = (
            passes * (self.nodes - 1) / self.nodes * self.size_bytes
            / (config.ports * config.bus_bytes)
            * (config.packet_bytes + FLIT_BYTES) / config.packet_bytes
        )
        memory = around.read_latency_cycles + around.write_latency_cycles
        return wire + self.latency_cycles + memory
