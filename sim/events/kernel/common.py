# SPDX-License-Identifier: Apache-2.0
"""Tools of all handlers: the event at hand, work still to be done, and the two kinds of resources.

Handlers share these names: *s* is the :class:`~sim.events.kernel.tables.State`, *c* its
:class:`Constants`, *e* the :class:`Event`. ``local`` indexes the state of a chunk or a task at a
node, ``row`` a phase of a chunk, ``column`` the statistics of a phase of a call. Handlers that
leave work behind return the depth of the stack of work.
"""

from typing import Any, NamedTuple

import numpy as np

from sim.events.kernel.constants import (
    AFTER,
    ARRIVE,
    CHUNK_AT,
    ENTRY_AT,
    ENTRY_MASK,
    LINK_SPAN,
    MESSAGE_AT,
    MESSAGE_MASK,
    PHASE_AT,
    PHASE_MASK,
    RELAYED,
    SPANS,
    STAGE_AT,
    STAGE_MASK,
)
from sim.events.kernel.queue import enter, push
from sim.native.mark import compiled, inlined

__all__ = [
    "Constants",
    "Event",
    "MessagePart",
    "Way",
    "column_of",
    "counters_of",
    "decode",
    "deliver",
    "enter_event",
    "key_of",
    "later",
    "message_bytes",
    "no_part",
    "no_way",
    "note_link",
    "note_span",
    "part_of",
    "push_event",
    "reception",
    "serve_asked",
    "serve_link",
    "serve_unit",
    "time_on_link",
]


class Constants(NamedTuple):
    """Entries of ``State.numbers`` that do not change, kept where the compiler sees that."""

    nodes: Any
    width: Any
    queues: Any
    partitions: Any
    pools: Any  # of contexts, which the queues of a phase share
    columns: Any
    max_tasks: Any
    receive_fs: Any
    bucket_fs: Any
    buckets: Any
    record: Any
    cut_through: Any
    streams: Any
    shared_links: Any
    tables: Any  # switches have tables, their links credits
    credited: Any  # links have a credit for each place in the buffer behind them
    whole: Any  # messages travel whole, not in packets
    first_hop: Any  # kind of the event with which a message enters the network


class Event(NamedTuple):
    """The fields of an event's key; ``chunk`` is a task for events of tasks."""

    now: Any
    key: Any
    stage: Any
    entry: Any
    message: Any
    phase: Any
    chunk: Any


class MessagePart(NamedTuple):
    """A message of every step of a chunk's phase: the data that are the same at all nodes.

    One is kept from event to event, as most events are of the same one as the event before. Its
    numbers hold as long as the chunk lives.
    """

    key: Any  # of its messages, without their entry
    row: Any
    column: Any
    states: Any  # of the chunk, from that of node 0
    counters: Any  # from those of node 0
    width: Any  # of the counters of a node
    program: Any  # its first step
    steps: Any
    roles: Any


class Way(NamedTuple):
    """A message of a part by one of its entries: the data that are the same at all nodes."""

    key: Any  # -1: of none
    amount: Any
    direct: Any  # over one link, and nothing is before it
    links: Any
    kind: Any  # of the event with which it arrives
    pause: Any  # before that


@inlined
def no_part():
    """Placeholder for a part where there has been none."""
    none = np.int64(-1)
    return MessagePart(none, none, none, none, none, none, none, none, none)


@inlined
def no_way():
    """Placeholder for a way where there has been none."""
    none = np.int64(-1)
    return Way(none, none, none, none, none, none)


@inlined
def key_of(s, c, node, chunk, message):
    """The key of the part that a node is in with a message of a chunk."""
    phase = np.int64(s.slot_state[s.chunks[chunk].slot * c.nodes + node].phase)
    return (chunk << CHUNK_AT) | (phase << PHASE_AT) | (message << MESSAGE_AT)


@inlined
def part_of(s, c, part, key):
    """The part of messages with that key: *part* itself, if it has the key."""
    if part.key != key:
        chunk = key >> CHUNK_AT
        row = s.chunks[chunk].phase + ((key >> PHASE_AT) & PHASE_MASK)
        message = (key >> MESSAGE_AT) & MESSAGE_MASK
        program = s.phases[row].program
        part = MessagePart(
            key,
            np.int64(row),
            np.int64(column_of(s, c, chunk, row)),
            np.int64(s.chunks[chunk].slot * c.nodes),
            np.int64(counters_of(s, c, chunk, row, 0, message)),
            np.int64(s.phases[row].messages * s.phases[row].width),
            np.int64(s.programs[program].first),
            np.int64(s.programs[program].steps),
            np.int64(s.phases[row].roles),
        )
    return part


@inlined
def decode(now, key):
    """The event of a key."""
    return Event(
        now,
        key,
        (key >> STAGE_AT) & STAGE_MASK,
        (key >> ENTRY_AT) & ENTRY_MASK,
        (key >> MESSAGE_AT) & MESSAGE_MASK,
        (key >> PHASE_AT) & PHASE_MASK,
        key >> CHUNK_AT,
    )


@inlined
def push_event(s, time, key, node):
    """Enter an event where it happens often."""
    push(s.events, s.buckets, s.heap, s.cache, s.registers, time, key, node)


@inlined
def enter_event(s, time, key, node):
    """Enter an event where it happens rarely, which is compiled faster."""
    enter(s.events, s.buckets, s.heap, s.cache, s.registers, time, key, node)


@inlined
def later(s, depth, work, subject, piece=0):
    """Push work at this node and time, to be done before the work that is on the stack already."""
    s.work[3 * depth] = work
    s.work[3 * depth + 1] = subject
    s.work[3 * depth + 2] = piece
    return depth + 1


@inlined
def column_of(s, c, chunk, row):
    """Index of the statistics of a chunk's phase."""
    return s.chunks[chunk].call * c.columns + s.phases[row].column


@inlined
def counters_of(s, c, chunk, row, node, message):
    """Index of the step of a message's program; its counters of arrivals follow there."""
    base = (s.chunks[chunk].slot * c.width + s.phases[row].state) * c.nodes
    return base + (node * s.phases[row].messages + message) * s.phases[row].width


@inlined
def message_bytes(s, chunk, row, entry):
    """Bytes of a message; up to rounding errors, a started grain counts as a whole one."""
    grain = s.phases[row].grain
    size = s.chunks[chunk].size_bytes * s.entries[entry].fraction / s.phases[row].messages
    return np.int64(np.ceil(size / grain - 1e-6)) * grain


@inlined
def serve_unit(s, c, index, node, now, size, column, chunk):
    """Stage *index* of an endpoint serves *size* bytes of a chunk; returns when they have passed.
    """
    unit = s.stages[index].unit
    fixed = s.stages[index].fixed_fs
    busy = fixed + np.int64(size * s.stages[index].fs_per_byte + 0.5)
    finish = now + busy
    if unit >= 0:
        base = s.units[unit].first + node * s.units[unit].servers
        best = base
        if s.units[unit].turns > 0:
            number = chunk - s.calls[s.chunks[chunk].call].first_chunk
            best = base + number % s.units[unit].turns % s.units[unit].servers
        else:
            for server in range(base + 1, base + s.units[unit].servers):
                if s.unit_free[server] < s.unit_free[best]:
                    best = server
        start = max(now - s.stages[index].ahead_fs, s.unit_free[best])
        s.unit_free[best] = start + busy
        finish = max(now, start + busy)
        s.unit_busy[unit * c.nodes + node] += busy
        s.unit_bytes[unit * c.nodes + node] += np.int64(size * s.stages[index].share + 0.5)
    finish += s.stages[index].latency_fs
    s.bus_delay[column] += finish - now
    return finish


@inlined
def time_on_link(s, link, amount):
    """Time for which *amount* bytes keep a link busy."""
    return max(np.int64(amount * s.link[link].fs_per_byte + s.link[link].header_fs + 0.5), 1)


@inlined
def serve_asked(s, link, now, chunk, row, entry):
    """As `serve_link`, for the headers of a message that asks for data."""
    amount = s.chunks[chunk].size_bytes * s.entries[entry].asks / s.phases[row].messages
    busy = time_on_link(s, link, amount)
    start = max(now, s.link[link].free)
    s.link[link].free = start + busy
    s.link[link].busy += busy
    return start, busy


@inlined
def serve_link(s, c, link, now, amount):
    """A link takes *amount* bytes when it is free (if it is shared); returns when, and for how
    long."""
    if amount == 0:
        # A request has a virtual channel of its own, and its header is in the share of payload.
        return now, np.int64(0)
    busy = time_on_link(s, link, amount)
    start = max(now, s.link[link].free)
    if c.shared_links:
        s.link[link].free = start + busy
    if c.credited:
        _use_credit(s, link, start)
    s.link[link].bytes += amount
    s.link[link].busy += busy
    return start, busy


@inlined
def _use_credit(s, link, start):
    """A message that begins at *start* uses a credit of the link, which is not free without one."""
    place = s.windows[link].first + s.windows[link].next
    s.credits[place] = start + s.windows[link].away_fs
    s.windows[link].next = (s.windows[link].next + 1) % s.windows[link].places
    place = s.windows[link].first + s.windows[link].next
    s.link[link].free = max(s.link[link].free, s.credits[place])


@inlined
def reception(s, c, entry):
    """Kind of the event with which a message reaches its node, with or without stages there, and
    its delay after the last link."""
    stages = s.entries[entry].after < s.entries[entry].after_end
    relayed = s.entries[entry].slot == RELAYED
    kind = AFTER if stages and not relayed else ARRIVE
    return np.int64(kind), np.int64(0 if stages or relayed else c.receive_fs)


@inlined
def deliver(s, c, entry, sender, arrival, message_key):
    """A message reaches the node that *sender* sent it to."""
    kind, pause = reception(s, c, entry)
    push_event(s, arrival + pause, message_key | kind, s.peers[s.entries[entry].peers + sender])


@inlined
def note_link(s, c, link, sender, chunk, row, start, busy):
    """Enter a busy interval of a link into the series and the trace, where these are kept."""
    if c.bucket_fs > 0:
        _into_series(
            s.link_series, s.link[link].dimension * c.buckets, c.buckets, c.bucket_fs, start, busy
        )
    if c.record:
        note_span(s, LINK_SPAN, sender, link, chunk, row, start, start + busy)


@inlined
def note_span(s, kind, node, lane, chunk, row, start, end):
    """Write an interval into the trace, if there is room, and count it."""
    span = s.numbers[SPANS]
    s.numbers[SPANS] = span + 1
    if span < len(s.spans):
        call = s.chunks[chunk].call
        s.spans[span].kind = kind
        s.spans[span].row = node
        s.spans[span].lane = lane
        s.spans[span].call = call
        s.spans[span].chunk = chunk - s.calls[call].first_chunk
        s.spans[span].phase = s.phases[row].column
        s.spans[span].start_fs = start
        s.spans[span].end_fs = end


@compiled
def _into_series(series, base, buckets, bucket_fs, start, busy):
    """Spread a busy interval over the buckets of the utilisation over time."""
    bucket = start // bucket_fs
    left = (bucket + 1) * bucket_fs - start
    while busy > 0 and bucket < buckets:
        part = min(busy, left)
        series[base + bucket] += part
        busy -= part
        bucket += 1
        left = bucket_fs
