# SPDX-License-Identifier: Apache-2.0
"""Queues of a cycle model: beats with the cycle from which they are seen.

A queue holds what the hardware's queue holds, and shows it after the same latency. Room and front
are reported as they were when the cycle began, whichever end is asked first: so the parts of an
engine may be simulated in any order, as long as each pushes and takes at most one beat per queue
and cycle.

*e* is the record of an engine, *x* the slots of all queues: the cycle from which a beat is seen,
and its value, by turns.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hw.common.fifo import BLOCK_MEMORY_DEPTH
from sim.cycles.records import arrays
from sim.native.mark import compiled

__all__ = [
    "NEVER", "fifo", "front", "held", "lay_out", "pop", "push", "push_at", "queue_fields", "room",
    "shown", "there",
]

NEVER = 1 << 40
"""A cycle that does not come."""


def queue_fields(count: int) -> list[Any]:
    """Fields of a record with so many queues, beside ``moved``: beats entered and taken so far,
    cycle of the last one taken, how they are built."""
    return arrays(count, "head", "tail", "popped", "depth", "latency", "origin", "mask")


def fifo(depth: int) -> tuple[int, int]:
    """Depth and latency of a FIFO."""
    return depth, 2 if depth >= BLOCK_MEMORY_DEPTH else 1


def lay_out(records: NDArray[Any], queues: Sequence[tuple[int, int]]) -> NDArray[np.int64]:
    """Build the queues of each record, of which depth and latency are given; returns the slots."""
    depths, latencies = np.array(queues).T
    rooms = 1 << np.array([(int(depth) - 1).bit_length() for depth in depths])
    every = np.tile(rooms, len(records))
    records["popped"] = records["moved"] = -1
    records["depth"], records["latency"], records["mask"] = depths, latencies, rooms - 1
    records["origin"] = 2 * (np.cumsum(every) - every).reshape(len(records), -1)
    return np.zeros(2 * int(every.sum()), np.int64)


@compiled
def there(e, x, q, now):
    """True if a beat can be taken."""
    head = e.head[q]
    return head < e.tail[q] and x[e.origin[q] + 2 * (head & e.mask[q])] <= now


@compiled
def shown(e, x, q):
    """The cycle from which the front can be taken."""
    head = e.head[q]
    if head == e.tail[q]:
        return NEVER
    return x[e.origin[q] + 2 * (head & e.mask[q])]


@compiled
def front(e, x, q):
    """The value of the beat that can be taken."""
    return x[e.origin[q] + 2 * (e.head[q] & e.mask[q]) + 1]


@compiled
def pop(e, x, q, now):
    """Take the front; returns its value."""
    value = front(e, x, q)
    e.head[q] += 1
    e.popped[q] = now
    e.moved = now
    return value


@compiled
def room(e, x, q, now):
    """True if a beat may be pushed. Ask before pushing."""
    return held(e, q, now) < e.depth[q]


@compiled
def held(e, q, now):
    """Beats held as the cycle began. Ask before pushing."""
    beats = e.tail[q] - e.head[q]
    if e.popped[q] == now:
        beats += 1
    return beats


@compiled
def push_at(e, x, q, cycle, value):
    """Enter a beat that is seen from *cycle* on."""
    tail = e.tail[q]
    at = e.origin[q] + 2 * (tail & e.mask[q])
    x[at] = cycle
    x[at + 1] = value
    e.tail[q] = tail + 1


@compiled
def push(e, x, q, now, value):
    """Enter a beat that is seen after the queue's latency."""
    push_at(e, x, q, now + e.latency[q], value)
    e.moved = now
