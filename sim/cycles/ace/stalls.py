"""Random stalls, drawn as the RTL's surroundings draw them: see ``sim/rtl/random.hpp``.

A draw depends on a key and a cycle alone, so models and RTL stall in the same cycles.
"""

import numpy as np

from sim.cycles.ace.jit import compiled

__all__ = ["LINK_CHANNEL", "MEMORY_CHANNELS", "stall_key", "threshold", "unstalled"]

LINK_CHANNEL = 48
MEMORY_CHANNELS = {"read address": 16, "write address": 17, "write": 18, "read": 19, "answer": 20}
"""Last part of the keys of a node's port."""

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31, _S32 = (np.uint64(n) for n in (30, 27, 31, 32))


def threshold(probability: float) -> int:
    """Draws below it stall."""
    return int(probability * 2**32)


@compiled
def _mix(state):  # type: ignore[no-untyped-def]
    """As ``splitmix64``."""
    z = state + _GOLDEN
    z = (z ^ (z >> _S30)) * _FIRST
    z = (z ^ (z >> _S27)) * _SECOND
    return z ^ (z >> _S31)


@compiled
def stall_key(parts):  # type: ignore[no-untyped-def]
    """As ``random_key``: *parts* are unsigned."""
    key = np.uint64(0)
    for part in parts:
        key = _mix(key ^ part)
    return key


@compiled
def unstalled(key, below, cycle):  # type: ignore[no-untyped-def]
    """The first cycle from *cycle* on in which the channel of *key* does not stall."""
    if below > 0:
        while _mix(key + np.uint64(cycle) * _GOLDEN) >> _S32 < below:
            cycle += 1
    return cycle
