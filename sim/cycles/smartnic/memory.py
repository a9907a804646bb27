# SPDX-License-Identifier: Apache-2.0
"""Host memory, the AXI masters, and the units that move blocks: `fetch.py`, `store.py`."""

from sim.cycles.port import OUTCOME, READ, ask_read, ask_write, memory, write_beat
from sim.cycles.queues import front, pop, push, room, there
from sim.cycles.smartnic.state import (
    FETCH_BLOCKS,
    INPUT,
    ITEMS,
    MARKS,
    OUTPUT,
    PATH,
    STORE_BLOCKS,
    VERDICTS,
)
from sim.cycles.smartnic.words import END, beats_of, row_of, valid_of
from sim.cycles.stalls import free_at, used
from sim.native.mark import compiled, inlined

__all__ = ["bandwidth_free", "fetch", "host_memory", "store"]

@inlined
def host_memory(c, n, e, x, now, free):
    """A memory port; *free*: the node's bandwidth allows beats in this cycle."""
    for _ in range(memory(c, e, x, now, c.read_latency, free)):
        n.memory_free = used(n.memory_free, c.host_pace, now)


@inlined
def fetch(c, e, x, now):
    """Addresses of blocks to read, and their beats: read data, or zeros behind the vector."""
    idle = ask_read(c, e, x, now)
    if (
        there(e, x, ITEMS, now)
        and room(e, x, PATH, now)
        and room(e, x, FETCH_BLOCKS, now)
    ):
        item = front(e, x, ITEMS)
        valid = valid_of(item)
        if valid == 0 or idle:
            pop(e, x, ITEMS, now)
            push(e, x, PATH, now, item)
            push(e, x, FETCH_BLOCKS, now, item)
            if valid:
                e.reading, e.read_row = valid, row_of(item)
    if there(e, x, FETCH_BLOCKS, now) and room(e, x, INPUT, now):
        block = front(e, x, FETCH_BLOCKS)
        if e.fetched < valid_of(block):
            if not there(e, x, READ, now):
                return
            pop(e, x, READ, now)
        push(e, x, INPUT, now, 0)
        e.fetched += 1
        if e.fetched == beats_of(block):
            e.fetched = 0
            pop(e, x, FETCH_BLOCKS, now)


@inlined
def store(c, e, x, now):
    """Addresses of blocks to write, their beats, and the end of an all-reduce."""
    if e.ended:
        e.ended = 0
        e.parts += 1
        e.moved = now
    idle = ask_write(c, e, x, now)
    if there(e, x, ITEMS + 1, now) and room(e, x, MARKS, now):
        item = front(e, x, ITEMS + 1)
        valid = valid_of(item)
        ends = item & END
        if (valid == 0 or idle) and (
            ends or (room(e, x, STORE_BLOCKS, now) and room(e, x, PATH + 1, now))
        ):
            pop(e, x, ITEMS + 1, now)
            push(e, x, MARKS, now, item)
            if not ends:
                push(e, x, PATH + 1, now, item)
                push(e, x, STORE_BLOCKS, now, item)
            if valid:
                e.writing, e.write_row = valid, row_of(item)
    _store_beat(c, e, x, now)
    if there(e, x, MARKS, now):
        mark = front(e, x, MARKS)
        if valid_of(mark):
            if not there(e, x, OUTCOME, now) or not there(e, x, VERDICTS, now):
                return
            pop(e, x, OUTCOME, now)
            pop(e, x, VERDICTS, now)
        pop(e, x, MARKS, now)
        if mark & END:
            e.ended = 1  # told in the next cycle


@inlined
def _store_beat(c, e, x, now):
    if not there(e, x, STORE_BLOCKS, now) or not there(e, x, OUTPUT, now):
        return
    block = front(e, x, STORE_BLOCKS)
    if e.stored < valid_of(block) and not write_beat(e, x, now):
        return
    pop(e, x, OUTPUT, now)
    e.stored += 1
    if e.stored == beats_of(block):
        e.stored = 0
        pop(e, x, STORE_BLOCKS, now)


@compiled
def bandwidth_free(c, n, now):
    """True if the memory of a node may move beats in this cycle, through any port."""
    return c.host_pace == 0 or free_at(n.memory_free, now)
