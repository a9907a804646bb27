"""Host memory, the AXI masters, and the units that move blocks: `fetch.py`, `store.py`."""

from sim.cycles.queues import front, pop, push, push_at, room, there
from sim.cycles.smartnic.state import (
    FETCH_BLOCKS,
    INPUT,
    ITEMS,
    MARKS,
    OUTCOME,
    OUTPUT,
    PATH,
    READ,
    READS,
    RESPONSES,
    RUNS,
    STORE_BLOCKS,
    UNDER_READ,
    UNDER_WRITE,
    VERDICTS,
    WRITE,
    WRITES,
)
from sim.cycles.smartnic.words import END, beats_of, row_of, valid_of
from sim.cycles.stalls import free_at, stalled, used
from sim.native.mark import compiled

__all__ = ["bandwidth_free", "fetch", "memory", "store"]

_AR, _AW, _W, _R, _B = range(5)  # channels, as in memory.hpp


@compiled
def memory(c, n, e, x, now, free):
    """A memory port; *free*: the node's bandwidth allows beats in this cycle."""
    below = c.memory_below
    _answer_read(c, n, e, x, now, free)
    if there(e, x, WRITE, now) and there(e, x, WRITES, now):
        e.moved = now
        if free and not stalled(e.memory_key[_W], below, now):
            _take_data(c, n, e, x, now)
    _answer_write(c, e, x, now)
    if e.ar_valid:
        e.moved = now
        if not stalled(e.memory_key[_AR], below, now):
            e.ar_valid = 0
            push_at(e, x, READS, now + c.read_latency, e.ar_beats)
    if e.aw_valid:
        e.moved = now
        if not stalled(e.memory_key[_AW], below, now):
            e.aw_valid = 0
            push(e, x, WRITES, now, e.aw_beats)


@compiled
def _answer_read(c, n, e, x, now, free):
    if not e.r_held:
        if not there(e, x, READS, now):
            return
        e.moved = now
        if not free or stalled(e.memory_key[_R], c.memory_below, now):
            return
        n.memory_free = used(n.memory_free, c.host_pace, now)
        e.r_held = 1
    if not room(e, x, READ, now):
        return
    e.r_held = 0
    push(e, x, READ, now, 0)
    if e.read_left == 0:
        e.read_left = front(e, x, READS)
    e.read_left -= 1
    if e.read_left == 0:
        pop(e, x, READS, now)
        pop(e, x, UNDER_READ, now)


@compiled
def _take_data(c, n, e, x, now):
    n.memory_free = used(n.memory_free, c.host_pace, now)
    pop(e, x, WRITE, now)
    if e.write_left == 0:
        e.write_left = front(e, x, WRITES)
    e.write_left -= 1
    if e.write_left == 0:
        pop(e, x, WRITES, now)
        push_at(e, x, RESPONSES, now + c.write_latency, 0)


@compiled
def _answer_write(c, e, x, now):
    if not e.b_held:
        if not there(e, x, RESPONSES, now):
            return
        e.moved = now
        if stalled(e.memory_key[_B], c.memory_below, now):
            return
        e.b_held = 1
    if not room(e, x, OUTCOME, now):
        return
    e.b_held = 0
    pop(e, x, RESPONSES, now)
    if pop(e, x, UNDER_WRITE, now):
        push(e, x, OUTCOME, now, 0)


@compiled
def fetch(c, e, x, now):
    """Addresses of blocks to read, and their beats: read data, or zeros behind the vector."""
    idle = e.reading == 0
    if not idle and not e.ar_valid and room(e, x, UNDER_READ, now):
        beats = min(e.reading, c.burst_beats - e.read_row)
        e.reading -= beats
        e.read_row = 0
        e.ar_valid, e.ar_beats = 1, beats
        push(e, x, UNDER_READ, now, 1 if e.reading == 0 else 0)
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


@compiled
def store(c, e, x, now):
    """Addresses of blocks to write, their beats, and the end of an all-reduce."""
    idle = e.writing == 0
    if not idle and not e.aw_valid and room(e, x, UNDER_WRITE, now):
        beats = min(e.writing, c.burst_beats - e.write_row)
        e.writing -= beats
        e.write_row = 0
        e.aw_valid, e.aw_beats = 1, beats
        push(e, x, RUNS, now, beats)
        push(e, x, UNDER_WRITE, now, 1 if e.writing == 0 else 0)
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
            e.parts += 1


@compiled
def _store_beat(c, e, x, now):
    if not there(e, x, STORE_BLOCKS, now) or not there(e, x, OUTPUT, now):
        return
    block = front(e, x, STORE_BLOCKS)
    if e.stored < valid_of(block):
        if not room(e, x, WRITE, now) or not there(e, x, RUNS, now):
            return
        push(e, x, WRITE, now, 0)
        e.sent_run += 1
        if e.sent_run == front(e, x, RUNS):
            e.sent_run = 0
            pop(e, x, RUNS, now)
    pop(e, x, OUTPUT, now)
    e.stored += 1
    if e.stored == beats_of(block):
        e.stored = 0
        pop(e, x, STORE_BLOCKS, now)


@compiled
def bandwidth_free(c, n, now):
    """True if the memory of a node may move beats in this cycle, through any port."""
    return c.host_pace == 0 or free_at(n.memory_free, now)
