# SPDX-License-Identifier: Apache-2.0
"""Beats between the blocks of a codec."""

from typing import Any

from amaranth.lib import data

from hw.bfp.format import BlockFormat
from hw.common.params import require_int

__all__ = [
    "MAX_LANES",
    "beat_layout",
    "blocks_layout",
    "blocks_per_beat",
    "check_lanes",
    "lanes_layout",
]

MAX_LANES = 128


def check_lanes(owner: str, lanes: Any) -> int:
    """Return *lanes* if a codec can have so many, or raise."""
    return require_int(f"{owner} lanes", lanes, maximum=MAX_LANES, power_of_two=True)


def beat_layout(bus_bits: int) -> data.StructLayout:
    """A beat of bytes, each with a bit in ``keep`` that it counts; ``last`` ends a vector."""
    return data.StructLayout({"data": bus_bits, "keep": bus_bits // 8, "last": 1})


def lanes_layout(lanes: int) -> data.StructLayout:
    """A beat of binary32 words, lane 0 lowest; ``last`` ends a vector."""
    return data.StructLayout({"data": data.ArrayLayout(32, lanes), "last": 1})


def blocks_per_beat(fmt: BlockFormat, lanes: int) -> int:
    """Blocks that a codec of *lanes* handles at once."""
    return max(1, lanes // fmt.elements)


def blocks_layout(fmt: BlockFormat, lanes: int) -> data.StructLayout:
    """A beat of packed blocks, the first lowest; ``last`` ends a vector.

    A block has its exponent code lowest, then element 0, 1, ...
    """
    blocks = data.ArrayLayout(fmt.block_bits, blocks_per_beat(fmt, lanes))
    return data.StructLayout({"data": blocks, "last": 1})
