# SPDX-License-Identifier: Apache-2.0
"""The event loop: instances, steps, resources and time.

The kernel knows a few words only. A *chunk* passes its *phases* on each node. In a phase a node
runs a *program* once per message: wait for a counter, send, and so on. A message occupies the
*units* of the sending endpoint (stages before), the *links* of its route, and the units of the
receiving endpoint (stages after); then it counts at the receiver. *Queues* bound how many chunks
of a node are in a phase, *pools* how many in the phases of all queues together, *partitions* of its
memory how many bytes. *Tasks* are computations and collective calls.

Resources serve in the order of requests. A request is an event, so that order is that of time and,
at equal times, of keys; see :mod:`sim.events.kernel.queue`. On links, messages of chunks with more
phases to go pass others of their collective (:mod:`sim.events.kernel.lines`). Consequences of an
event at its node at the same time are *work*, on a stack: the last is done first.
"""

import numpy as np

from sim.events.kernel.common import Constants, decode, key_of, later, no_part, no_way, part_of
from sim.events.kernel.constants import (
    ADMIT,
    ADMIT_ANY,
    ADVANCE,
    ARRIVE,
    BEFORE,
    BEGIN,
    BUCKET_FS,
    BUCKETS,
    CHUNK_END,
    CHUNK_STAGE,
    COLUMNS,
    CUT_THROUGH_BYTES,
    DISPATCH,
    DONE,
    EVENTS,
    HAS_CREDITS,
    HAS_TABLES,
    HOP,
    LINK_FREE,
    MAX_TASKS,
    NODES,
    NOW,
    PACKET,
    PARTITIONS,
    PHASE_END,
    POOLS,
    QUEUES,
    RECEIVE_FS,
    RECORD,
    REQUEST,
    RESERVE,
    SHARED_LINKS,
    STOP,
    STOPPED,
    STREAMS,
    TASK_DONE,
    TASK_END,
    TASK_READY,
    TASK_START,
    TOO_LONG,
    TOO_MANY_EVENTS,
    WIDTH,
)
from sim.events.kernel.handlers_chunks import (
    admit,
    admit_any,
    admit_least,
    advance,
    begin_phase,
    dispatch,
    end_chunk,
    end_phase,
    request,
)
from sim.events.kernel.handlers_messages import (
    arrive,
    hop,
    link_free,
    packet,
    stage_of_chunk,
    stage_of_message,
)
from sim.events.kernel.handlers_tasks import compute, end_task, enter_first_tasks, start_task
from sim.events.kernel.queue import (
    BUCKET_FREE,
    BUCKET_TOP,
    EVENT_FREE,
    EVENT_TOP,
    HEAP_SIZE,
    WAITER_TOP,
    pop_bucket,
)
from sim.native.mark import compiled, inlined, prefetch

__all__ = ["run"]

_SPARE = 1 << 20  # events and buckets that one bucket of events may enter, at most


@compiled
def run(s, p):
    """Run until nothing is left to do; returns DONE or the reason for which the run ended.

    *p* is the :class:`~sim.events.kernel.packets.PacketState`, or None for messages that travel
    whole. Each is compiled apart.
    """
    c = Constants(
        s.numbers[NODES],
        s.numbers[WIDTH],
        s.numbers[QUEUES],
        s.numbers[PARTITIONS],
        s.numbers[POOLS],
        s.numbers[COLUMNS],
        s.numbers[MAX_TASKS],
        s.numbers[RECEIVE_FS],
        s.numbers[BUCKET_FS],
        s.numbers[BUCKETS],
        s.numbers[RECORD],
        s.numbers[CUT_THROUGH_BYTES],
        s.numbers[STREAMS],
        s.numbers[SHARED_LINKS] > 0,
        s.numbers[HAS_TABLES] > 0,
        s.numbers[HAS_CREDITS] > 0,
        p is None,
        HOP if p is None else PACKET,
    )
    reserve = s.numbers[RESERVE] > 0
    events, buckets, registers = s.events, s.buckets, s.registers
    event_limit = len(events) - _SPARE
    bucket_limit = len(buckets) - _SPARE
    handled = 0
    part, way = no_part(), no_way()
    enter_first_tasks(s)
    while registers[HEAP_SIZE] > 0:
        bucket = pop_bucket(buckets, s.heap, registers)
        now = buckets[bucket].time
        key = buckets[bucket].key
        event = buckets[bucket].head
        # Free the bucket at once; a time that cannot come again keeps the cache from using it.
        buckets[bucket].time = -1
        buckets[bucket].head = registers[BUCKET_FREE]
        registers[BUCKET_FREE] = bucket
        if now < 0:
            return TOO_LONG  # femtoseconds have passed the end of 64 bits
        if s.numbers[STOP] > 0:
            return STOPPED
        if max(registers[EVENT_TOP], registers[WAITER_TOP]) > event_limit or (
            registers[BUCKET_TOP] > bucket_limit
        ):
            return TOO_MANY_EVENTS
        kind = key & 7
        e = decode(now, key)
        while event >= 0:
            node = events[event].node
            following = events[event].next
            events[event].next = registers[EVENT_FREE]
            registers[EVENT_FREE] = event
            event = following
            handled += 1
            depth = 0
            goes = False
            if kind == ARRIVE:
                if event >= 0:
                    _fetch(s, c, part, way, events[event].node)
                goes, depth, part = arrive(s, c, e, part, node)
            elif kind == TASK_END:
                depth = later(s, depth, TASK_DONE, e.chunk)
            elif kind == TASK_START:
                depth = later(s, depth, TASK_READY, e.chunk)
            elif kind == CHUNK_STAGE:
                depth = stage_of_chunk(s, c, e, node)
            elif p is not None and kind == PACKET:
                if not packet(s, p, c, e, node):
                    return TOO_MANY_EVENTS
                continue
            elif p is None and kind == LINK_FREE:
                part, way = link_free(s, c, now, part, way, node)
                continue
            elif kind == HOP:
                hop(s, c, e, node)
            else:
                stage_of_message(s, c, e, node, kind == BEFORE)
            if node >= c.nodes:
                continue  # a switch has neither chunks nor computations
            if goes or depth > 0 or reserve:
                status, tasks, part, way = _work_off(
                    s, c, now, node, part, way, goes, depth, reserve
                )
                if status != DONE:
                    return status
                if tasks:
                    compute(s, c, now, node)
        s.numbers[NOW] = now
    s.numbers[EVENTS] = handled
    return DONE


@inlined
def _fetch(s, c, part, way, node):
    """Prefetch the data of the next node, which does the same as this one: large systems do not fit
    into the caches."""
    if part.key >= 0 and node < c.nodes:
        prefetch(s.counters, part.counters + node * part.width)
        prefetch(s.slot_state, part.states + node)
        if way.direct > 0:
            prefetch(s.link, s.links[way.links + node])


@inlined
def _work_off(s, c, now, node, part, way, goes, depth, reserve):
    """Do all work at this node and time, first (if it *goes*) the program of the part at hand.

    Returns the status, whether work concerned tasks, and the part and way at hand.
    """
    status = DONE
    tasks = False
    forced = np.int64(-1)
    while status == DONE and (goes or depth > 0 or reserve):
        if goes:
            depth, way = advance(s, c, now, node, part, way, depth)
            goes = False
            continue
        if depth == 0:
            # The least of the node's live chunks never waits for room.
            forced, queue = admit_least(s, c, now, node)
            if forced < 0:
                break
            depth = later(s, depth, ADMIT, queue)
        depth -= 1
        work = s.work[3 * depth]
        subject = s.work[3 * depth + 1]
        if work == ADVANCE:
            part = part_of(s, c, part, key_of(s, c, node, subject, s.work[3 * depth + 2]))
            goes = True
        elif work == PHASE_END:
            depth = end_phase(s, c, now, node, subject, depth)
        elif work == REQUEST:
            depth = request(s, c, now, node, subject, depth)
        elif work == ADMIT:
            depth = admit(s, c, now, node, subject, forced, depth)
        elif work == ADMIT_ANY:
            depth = admit_any(s, c, now, node, depth)
        elif work == BEGIN:
            depth = begin_phase(s, c, node, subject, depth)
        elif work == CHUNK_END:
            depth, status = end_chunk(s, c, now, node, subject, depth)
        elif work == DISPATCH:
            depth = dispatch(s, c, now, node, depth)
        elif work == TASK_READY:
            depth, status = start_task(s, c, now, node, subject, depth)
            tasks = True
        elif work == TASK_DONE:
            depth = end_task(s, c, now, node, subject, depth)
            tasks = True
    return status, tasks, part, way
