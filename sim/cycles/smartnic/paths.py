# SPDX-License-Identifier: Apache-2.0
"""The two halves of the ring: `reduce_path.py` and `gather_path.py`."""

from sim.cycles.queues import front, pop, push, room, there
from sim.cycles.smartnic.codec import collect, decode, decoded, encode
from sim.cycles.smartnic.state import (
    COMING,
    FRAMES,
    INPUT,
    LEAVING,
    OUTPUT,
    PATH,
    RESULTS,
    RX,
    SUM,
    TX,
    VERDICTS,
    WORK,
)
from sim.cycles.smartnic.words import COMPLETE, COMPRESS, FIRST, LAST, beats_of, valid_of
from sim.native.mark import compiled

__all__ = ["gather", "reduce"]


@compiled
def _take_item(c, e, x, flow, now):
    """Pass an item to the datapath of its flow, and to its decoder unless nothing is received."""
    if not there(e, x, PATH + flow, now) or not room(e, x, WORK + flow, now):
        return
    item = front(e, x, PATH + flow)
    decodes = flow == 1 or not item & FIRST
    if decodes and not (room(e, x, COMING + flow, now) and room(e, x, LEAVING + flow, now)):
        return
    pop(e, x, PATH + flow, now)
    push(e, x, WORK + flow, now, item)
    if decodes:
        push(e, x, COMING + flow, now, item)
        push(e, x, LEAVING + flow, now, item)


@compiled
def reduce(c, e, x, now):
    """Send local beats to the encoder; after the first block of a round, add received ones."""
    adds = False
    if there(e, x, WORK, now) and there(e, x, INPUT, now) and room(e, x, SUM, now):
        item = front(e, x, WORK)
        first = (item & FIRST) != 0
        if first or decoded(e, x, 0, now):
            adds = not first
            pop(e, x, INPUT, now)
            e.summed += 1
            last = e.summed == beats_of(item)
            push(e, x, SUM, now, item & (COMPRESS | COMPLETE) | (LAST if last else 0))
            if last:
                e.summed = 0
                pop(e, x, WORK, now)
    offered = there(e, x, RX, now)
    last = front(e, x, RX) & LAST if offered else 0
    if decode(c, e, x, 0, now, adds, offered, last):
        pop(e, x, RX, now)
    _take_item(c, e, x, 0, now)
    encode(c, e, x, now)


@compiled
def gather(c, e, x, now):
    """Send own and received results to host memory, and on to the next node."""
    offered = False
    onward = False
    source, last, compress = RESULTS, 0, 0
    if there(e, x, WORK + 1, now):
        item = front(e, x, WORK + 1)
        compress = item & COMPRESS
        onward = (item & COMPLETE) == 0
        if not item & FIRST:
            source = RX + 1
        sendable = not onward or (room(e, x, TX + 1, now) and room(e, x, FRAMES + 1, now))
        if sendable and there(e, x, source, now):
            offered = True
            last = front(e, x, source) & LAST
    ready = room(e, x, OUTPUT, now)
    if ready and decoded(e, x, 1, now):
        push(e, x, OUTPUT, now, 0)
    if decode(c, e, x, 1, now, ready, offered, last):
        pop(e, x, source, now)
        if onward:
            collect(c, e, x, 1, now, last != 0, compress)
        if last:
            if valid_of(pop(e, x, WORK + 1, now)):
                push(e, x, VERDICTS, now, 0)
    _take_item(c, e, x, 1, now)
