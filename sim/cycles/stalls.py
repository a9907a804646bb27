# SPDX-License-Identifier: Apache-2.0
"""Random stalls and paces as the co-simulation draws them (``sim/rtl/harness/random.hpp``)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.native.mark import compiled

__all__ = [
    "HOST", "LINK", "MEMORY", "delayed", "drawn", "free_at", "pace_of", "stall_key", "stalled",
    "threshold", "unstalled", "used",
]

MEMORY, HOST, LINK = 16, 32, 48
"""First random channel of memory ports (AR, AW, W, R, B), of hosts and of links."""

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31, _S32 = (np.uint64(n) for n in (30, 27, 31, 32))


@compiled
def _mix(state):
    """As ``splitmix64``."""
    z = state + _GOLDEN
    z = (z ^ (z >> _S30)) * _FIRST
    z = (z ^ (z >> _S27)) * _SECOND
    return z ^ (z >> _S31)


def stall_key(*parts: Any) -> NDArray[np.uint64]:
    """As ``random_key``, for integers or arrays of them: seed, node, port, channel."""
    key = np.zeros(np.broadcast_shapes(*map(np.shape, parts)), np.uint64)
    for part in parts:
        with np.errstate(over="ignore"):
            key = _mix(key ^ np.asarray(part, np.uint64))
    return key


def delayed(key: NDArray[np.uint64], cycles: int) -> NDArray[np.uint64]:
    """The key that draws in every cycle what *key* draws *cycles* cycles before."""
    with np.errstate(over="ignore"):
        return key - np.uint64(cycles) * _GOLDEN


def threshold(probability: float) -> int:
    """Bound below which a draw of 32 bits stalls."""
    return int(probability * 2**32)


@compiled
def drawn(key, cycle):
    """32 random bits of a channel in *cycle*."""
    return _mix(key + np.uint64(cycle) * _GOLDEN) >> _S32


@compiled
def stalled(key, below, cycle):
    """True if a channel stalls in *cycle*; *below* is its `threshold`."""
    if below == 0:
        return False
    return drawn(key, cycle) < below


@compiled
def unstalled(key, below, cycle):
    """The first cycle from *cycle* on in which a channel does not stall."""
    while stalled(key, below, cycle):
        cycle += 1
    return cycle


def pace_of(uses_per_cycle: float) -> int:
    """Cost of a use in 1/65536 cycle, 0 for a use in every cycle."""
    return 0 if uses_per_cycle >= 1 else int(65536 / uses_per_cycle + 0.5)


@compiled
def free_at(next_free, cycle):
    """True if a paced resource may be used in *cycle*."""
    return next_free < (cycle + 1) << 16


@compiled
def used(next_free, cost, cycle):
    """Time, in 1/65536 cycle, at which a paced resource is next free after a use in *cycle*."""
    if cost == 0:
        return next_free
    return max(next_free, cycle << 16) + cost
