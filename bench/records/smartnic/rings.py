# SPDX-License-Identifier: Apache-2.0
"""Smart NICs in random rings."""

import random
from dataclasses import replace

from bench.random_rtl.ring_engine import RingEngine
from hw.smartnic.config import SmartNicConfig, preset
from hw.smartnic.layouts import HeaderLayout

__all__ = ["RINGS"]


class _NicRings(RingEngine):
    name = "smartnic"
    config = SmartNicConfig
    packets = 2
    formats = True

    def draw(self, rng: random.Random) -> SmartNicConfig:
        return replace(
            preset("test"),
            engines=rng.choice((1, 1, 2)),
            block_beats=rng.choice((4, 8, 16)),
            frame_beats=rng.choice((2, 4)),
            compressed_frame_beats=rng.choice((1, 2)),
            receive_beats=rng.choice((24, 32)),
            credit_beats=rng.choice((2, 4)),
            ethernet=rng.random() < 0.7,
            codec=rng.choice(("bfp16", "mxint8", "bfp13", "none")),
        )

    def header_bits(self, rng: random.Random, config: SmartNicConfig) -> tuple[int, ...]:
        names = ["version", "ethertype"] if config.ethernet else ["version"]
        fields = dict(HeaderLayout.as_shape())  # type: ignore[no-untyped-call]  # of Amaranth
        place = fields[rng.choice(names)]
        return (place.offset + rng.randrange(place.width),)


RINGS = _NicRings()
