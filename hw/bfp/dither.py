# SPDX-License-Identifier: Apache-2.0
"""The random numbers of stochastic rounding, defined bit by bit for model and hardware.

A 64-bit xorshift generator (13, 7, 17) takes one step per block, so what an element is rounded
with depends on the seed, on the number of its block and on its place there, and on nothing else:
not on lanes, stalls or other blocks. Element *i* of a block gets bits 0 to 11 of the state rotated
right by 49 *i*, by 2 + 37 *i* and by 41 + 63 *i*, xored. Within a block any two elements (of up to
64) get independent numbers.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hw.common.params import require_int

__all__ = ["DITHER_BITS", "STATE_BITS", "ZERO_SEED", "dithers", "rotations", "states", "step"]

DITHER_BITS = 12
STATE_BITS = 64
ZERO_SEED = 0x9E3779B97F4A7C15
"""State that stands in for a seed of 0, which the generator would never leave."""

_MASK = (1 << STATE_BITS) - 1


def step(state: Any) -> Any:
    """State of the next block, of an ``int`` or an array of uint64."""
    narrow = isinstance(state, int)
    state = state ^ (state << 13 & _MASK if narrow else state << np.uint64(13))
    state = state ^ (state >> (7 if narrow else np.uint64(7)))
    return state ^ (state << 17 & _MASK if narrow else state << np.uint64(17))


def rotations(element: int) -> tuple[int, int, int]:
    """By how much the state is rotated right for an element of a block."""
    return 49 * element % 64, (2 + 37 * element) % 64, (41 + 63 * element) % 64


def states(seed: int, blocks: int) -> NDArray[np.uint64]:
    """State of each of so many blocks from *seed* on, the seed itself being the first."""
    first = require_int("seed", seed, minimum=0, maximum=_MASK) or ZERO_SEED
    found = np.array([first], dtype=np.uint64)
    # The step is linear over bits. `images` holds what it makes of each single bit after as many
    # steps as states have been found, so one pass doubles their number.
    images = step(np.uint64(1) << np.arange(STATE_BITS, dtype=np.uint64))
    while len(found) < blocks:
        found = np.concatenate([found, _apply(images, found)])
        images = _apply(images, images)
    return found[:blocks]


def _apply(images: NDArray[np.uint64], values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    result = np.zeros_like(values)
    for low in range(0, STATE_BITS, 8):
        # What each value of these eight bits becomes.
        table = np.zeros(256, dtype=np.uint64)
        for bit in range(8):
            table[1 << bit : 2 << bit] = table[: 1 << bit] ^ images[low + bit]
        result ^= table[(values >> np.uint64(low)) & np.uint64(255)]
    return result


def dithers(seed: int, blocks: int, elements: int) -> NDArray[np.uint64]:
    """Random numbers below ``2**DITHER_BITS``, one row per block."""
    state = states(seed, blocks)
    result = np.zeros((blocks, elements), dtype=np.uint64)
    for element in range(elements):
        for amount in rotations(element):
            low, high = np.uint64(amount), np.uint64(-amount % STATE_BITS)
            result[:, element] ^= (state >> low) | (state << high)
    return result & np.uint64((1 << DITHER_BITS) - 1)
