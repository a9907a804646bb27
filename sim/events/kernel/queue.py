# SPDX-License-Identifier: Apache-2.0
"""The event queue: buckets of events with equal time and key, in a binary heap.

The key says what happens (to which chunk, phase, message, stage) and never where. So the order
of events of equal time at a node is a function of the program alone, not of node numbers: that is
what makes a folded run equal to the full one. And a symmetric system, in which the same thing
happens at all nodes at once, needs one heap operation for all of them.

Buckets and events live in arrays; free ones are chained. Memory that is never used is never
touched.
"""

from typing import Any

import numpy as np

from sim.native.mark import compiled, inlined

__all__ = [
    "BUCKET",
    "EVENT",
    "EventQueue",
    "enter",
    "free_waiter",
    "line_of",
    "new_event",
    "new_waiter",
    "pop_bucket",
    "push",
    "queue_arrays",
]

EVENT = np.dtype([("node", np.int32), ("next", np.int32)])
BUCKET = np.dtype([("time", np.int64), ("key", np.int64), ("head", np.int32), ("tail", np.int32)])
CACHE_BITS = 12
# Registers of the queue: elements of the heap, first unused and first free event, bucket and record
# of a message that waits; the bucket that the last event went into.
HEAP_SIZE, EVENT_TOP, EVENT_FREE, BUCKET_TOP, BUCKET_FREE, WAITER_TOP, WAITER_FREE = range(7)
LAST_BUCKET = 7
REGISTERS = LAST_BUCKET + 1

EventQueue = tuple[Any, ...]


def queue_arrays(events: int, buckets: int) -> EventQueue:
    """Room for that many events in flight: (events, buckets, heap, cache, registers)."""
    records = np.empty(buckets, BUCKET)
    records["time"][0] = -1  # until it is used, it is not the one of any event
    registers = np.zeros(REGISTERS, np.int64)
    registers[EVENT_FREE] = registers[BUCKET_FREE] = registers[WAITER_FREE] = -1
    return (
        np.empty(events, EVENT),
        records,
        np.empty(buckets, np.int32),
        np.full(1 << CACHE_BITS, -1, np.int32),
        registers,
    )


@inlined
def line_of(time, key):
    """The line of the cache for a bucket. All bits of a key must count: those of the chunk are its
    highest. A bucket is found there or in the other line of a pair: two that fill in turns would
    evict each other from a single line, and each event would begin a new bucket."""
    mixed = time + key * 0x1E3779B97F4A7C15
    mixed = (mixed ^ (mixed >> 29)) * 0x3F58476D1CE4E5B9
    return (mixed >> (64 - CACHE_BITS)) & ((1 << CACHE_BITS) - 1)


@inlined
def _new(records, reg, free, top, node):
    """The record that was given back last, which the caches have, or one that was never used."""
    place = reg[free]
    if place >= 0:
        reg[free] = records[place].next
    else:
        place = reg[top]
        reg[top] = place + 1
    records[place].node = node
    records[place].next = -1
    return place


@inlined
def new_event(events, reg, node):
    """A record of an event."""
    return _new(events, reg, EVENT_FREE, EVENT_TOP, node)


@inlined
def new_waiter(waiters, reg, node):
    """A record of a message that waits."""
    return _new(waiters, reg, WAITER_FREE, WAITER_TOP, node)


@inlined
def free_waiter(waiters, reg, place):
    """Give back a record; returns the next one of its line."""
    following = np.int64(waiters[place].next)
    waiters[place].next = reg[WAITER_FREE]
    reg[WAITER_FREE] = place
    return following


@inlined
def push(events, buckets, heap, cache, reg, time, key, node):
    """Enter an event."""
    event = new_event(events, reg, node)
    # Nodes that do the same one after the other fill one bucket: try the last one before the cache.
    line = np.int64(-1)
    bucket = reg[LAST_BUCKET]
    if buckets[bucket].time != time or buckets[bucket].key != key:
        line = line_of(time, key)
        bucket = np.int64(cache[line])
        if bucket < 0 or buckets[bucket].time != time or buckets[bucket].key != key:
            bucket = np.int64(cache[line ^ 1])
        if bucket >= 0 and buckets[bucket].time == time and buckets[bucket].key == key:
            line = np.int64(-1)
    if line < 0:
        events[buckets[bucket].tail].next = event
        buckets[bucket].tail = event
    else:
        bucket = reg[BUCKET_FREE]
        if bucket >= 0:
            reg[BUCKET_FREE] = buckets[bucket].head
        else:
            bucket = reg[BUCKET_TOP]
            reg[BUCKET_TOP] = bucket + 1
        buckets[bucket].time = time
        buckets[bucket].key = key
        buckets[bucket].head = event
        buckets[bucket].tail = event
        cache[line ^ 1] = cache[line]
        cache[line] = bucket
        place = reg[HEAP_SIZE]
        reg[HEAP_SIZE] = place + 1
        while place > 0:
            parent = (place - 1) >> 1
            above = heap[parent]
            if buckets[above].time < time or (
                buckets[above].time == time and buckets[above].key < key
            ):
                break
            heap[place] = above
            place = parent
        heap[place] = bucket
    reg[LAST_BUCKET] = bucket


@compiled
def enter(events, buckets, heap, cache, reg, time, key, node):
    """:func:`push` for rare events: a call, which is compiled in a fraction of the time."""
    push(events, buckets, heap, cache, reg, time, key, node)


@compiled
def pop_bucket(buckets, heap, reg):
    """Take the bucket of least (time, key) from the heap; the caller frees it."""
    top = heap[0]
    size = reg[HEAP_SIZE] - 1
    reg[HEAP_SIZE] = size
    if size > 0:
        last = heap[size]
        time = buckets[last].time
        key = buckets[last].key
        place = 0
        child = 1
        while child < size:
            if child + 1 < size:
                a = heap[child]
                b = heap[child + 1]
                if buckets[b].time < buckets[a].time or (
                    buckets[b].time == buckets[a].time and buckets[b].key < buckets[a].key
                ):
                    child += 1
            c = heap[child]
            if time < buckets[c].time or (time == buckets[c].time and key < buckets[c].key):
                break
            heap[place] = c
            place = child
            child = 2 * place + 1
        heap[place] = last
    return top
