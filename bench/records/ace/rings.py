# SPDX-License-Identifier: Apache-2.0
"""ACE in random rings."""

import random
from dataclasses import replace

from bench.random_rtl.ring_engine import RingEngine
from hw.ace.config import AceConfig, preset

__all__ = ["RINGS"]


class _AceRings(RingEngine):
    name = "ace"
    config = AceConfig
    scatters = True

    def draw(self, rng: random.Random) -> AceConfig:
        bus_bytes, fsms, contexts = rng.choice((16, 16, 32)), rng.choice((1, 2)), rng.choice((2, 4))
        return replace(
            preset("test"),
            bus_bytes=bus_bytes,
            packet_bytes=rng.choice((64, 128)),
            fsms=fsms,
            contexts=contexts,
            banks=rng.choice((1, 2)),
            alus=rng.choice((1, fsms)),
            sram_bytes=fsms * contexts * rng.choice((2 << 10, 4 << 10)),
            memory_ports=rng.choice((1, fsms)),
            rx_packets=rng.choice((8, 16)),
            tx_packets=rng.choice((2, 4)),
        )

    def header_bits(self, rng: random.Random, config: AceConfig) -> tuple[int, ...]:
        return tuple(rng.sample(range(128), rng.choice((1, 1, 2))))


RINGS = _AceRings()
