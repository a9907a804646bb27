# SPDX-License-Identifier: Apache-2.0
"""Messages on their way: stages of the sending node, links, stages of the receiving node."""

import numpy as np

from sim.events.kernel.common import (
    Way,
    column_of,
    decode,
    deliver,
    enter_event,
    later,
    message_bytes,
    note_link,
    part_of,
    push_event,
    reception,
    serve_asked,
    serve_link,
    serve_unit,
    time_on_link,
)
from sim.events.kernel.constants import (
    ARRIVE,
    BEFORE,
    BEGIN,
    CHUNK_AT,
    CHUNK_END,
    CLASSES,
    ENTRY_AT,
    ENTRY_MASK,
    FIRST_TRANSFER,
    HOP,
    MESSAGE_KEY,
    PART_KEY,
    PHASE_AT,
    PHASE_MASK,
    READS,
    RELAYED,
    RUNS,
    STAGE_AT,
    STAGE_MASK,
    TASK_DONE,
    TASK_END,
)
from sim.events.kernel.lines import keeps_turn, line_up, must_wait, next_in_line, urgency
from sim.events.kernel.packets import inject, packet_event
from sim.events.kernel.relays import credit, relay
from sim.native.mark import compiled, inlined

__all__ = ["arrive", "hop", "link_free", "packet", "send", "stage_of_chunk", "stage_of_message"]

FROM_OUTBOX = STAGE_MASK  # stage of a message whose outbox, at its first link, is its
LOOK = (1 << 63) - 1  # its kind is LINK_FREE: after all requests for the link at that time


@inlined
def _way_of(s, c, part, way, entry):
    """The way of a part's messages by an entry: *way* itself, if it is that one."""
    key = part.key | (np.int64(entry) << ENTRY_AT)
    if way.key != key:
        kind, pause = reception(s, c, entry)
        direct = (
            s.entries[entry].hops == 1
            and s.entries[entry].before == s.entries[entry].before_end
            and c.bucket_fs == 0
            and not c.record
            and c.whole
        )
        amount = message_bytes(s, key >> CHUNK_AT, part.row, entry)
        way = Way(key, amount, np.int64(direct), np.int64(s.entries[entry].links), kind, pause)
    return way


@inlined
def send(s, c, now, node, part, way, entry, goal):
    """Start a message of a program on its way to *goal*; returns the way."""
    way = _way_of(s, c, part, way, entry)
    s.messages[part.column] += 1
    if way.direct > 0:
        # One link and nothing before it: it is requested here, without an event.
        link = s.links[way.links + node]
        if must_wait(
            s, c, link, now, urgency(s, way.key), way.amount, keeps_turn(s, c, way.key, node)
        ):
            _wait(s, c, link, now, way.key | HOP, node)
        else:
            _go(s, c, now, now, part, way, link, goal)
    else:
        _send_by_events(s, c, now, node, part, way, entry)
    return way


@inlined
def _go(s, c, now, since, part, way, link, goal):
    """A message goes over its only link, for which it has waited *since*."""
    start, busy = serve_link(s, c, link, now, way.amount)
    arrival = start + busy + s.link[link].latency_fs
    s.network_delay[part.column] += arrival - since
    push_event(s, arrival + way.pause, way.key | way.kind, goal)


@inlined
def _send_by_events(s, c, now, node, part, way, entry):
    """Start a message by events: it has more than a single link ahead."""
    before = s.entries[entry].before
    before_end = s.entries[entry].before_end
    if c.tables and s.entries[entry].hops == 0 and s.entries[entry].slot == RELAYED:
        # The node itself is the relay that waits for it.
        enter_event(s, now, way.key | (ARRIVE if before == before_end else BEFORE), node)
    elif before == before_end:
        push_event(s, now, way.key | c.first_hop, node)
    elif before + 1 == before_end and s.stages[before].unit < 0:
        # A mere delay needs no event of its own.
        pause = (
            s.stages[before].fixed_fs
            + np.int64(way.amount * s.stages[before].fs_per_byte + 0.5)
            + s.stages[before].latency_fs
        )
        s.bus_delay[part.column] += pause
        push_event(s, now + pause, way.key | c.first_hop, node)
    else:
        push_event(s, now, way.key | BEFORE, node)


@inlined
def stage_of_message(s, c, e, node, is_before):
    """A stage before the network, or one after it."""
    row = s.chunks[e.chunk].phase + e.phase
    amount = message_bytes(s, e.chunk, row, e.entry)
    if is_before:
        index = s.entries[e.entry].before + e.stage
        end = s.entries[e.entry].before_end
    else:
        index = s.entries[e.entry].after + e.stage
        end = s.entries[e.entry].after_end
    finish = serve_unit(s, c, index, node, e.now, amount, column_of(s, c, e.chunk, row),
                        e.chunk)
    if index + 1 < end:
        key = e.key + (1 << STAGE_AT)
    elif is_before and s.entries[e.entry].hops > 0:
        key = (e.key & MESSAGE_KEY) | c.first_hop
    elif is_before:
        key = (e.key & MESSAGE_KEY) | ARRIVE
    else:
        key = (e.key & MESSAGE_KEY) | ARRIVE
        finish += c.receive_fs
    push_event(s, finish, key, node)


@inlined
def hop(s, c, e, node):
    """A message asks for the next link of its route; events of hops are at the sender."""
    row = s.chunks[e.chunk].phase + e.phase
    amount = message_bytes(s, e.chunk, row, e.entry)
    if c.tables and s.entries[e.entry].traffic >= 0:
        # One link; stage 1: with a credit.
        link = s.links[s.entries[e.entry].links + node]
        if e.stage == 0:
            window = CLASSES * link + s.entries[e.entry].traffic
            begin = e.now
            if s.entries[e.entry].reads > 0:
                begin = max(begin, s.pools[link].operands, s.link[link].free)
            size = np.float64(amount)
            if s.entries[e.entry].asks > 0:
                # As many headers as packets are asked for.
                size = s.chunks[e.chunk].size_bytes * s.entries[e.entry].asks
                size /= s.phases[row].messages * s.packet_bytes[1]
            begin = credit(s.windows, s.credits, s.packet_bytes, window, begin, size)
            if s.entries[e.entry].reads > 0:
                window = CLASSES * link + READS
                begin = credit(s.windows, s.credits, s.packet_bytes, window, begin, size)
                s.pools[link].operands = begin + time_on_link(s, link, amount)
            if begin > e.now:
                enter_event(s, begin, e.key + (1 << STAGE_AT), node)
                return
        else:
            e = decode(e.now, (e.key & MESSAGE_KEY) | HOP)
    elif s.entries[e.entry].made >= 0:
        if e.stage == 0 and not _into_outbox(s, e, node):
            return
        if e.stage == FROM_OUTBOX:
            e = decode(e.now, (e.key & MESSAGE_KEY) | HOP)
    link = s.links[s.entries[e.entry].links + node + e.stage * c.nodes]
    if must_wait(s, c, link, e.now, urgency(s, e.key), amount, keeps_turn(s, c, e.key, node)):
        _wait(s, c, link, e.now, e.key, node)
    else:
        _cross(s, c, e, node, e.now)


@inlined
def _outbox(s, entry, chunk, node):
    """Number of the outbox of the server that makes a chunk's messages, at the link of *entry*."""
    unit = s.stages[s.entries[entry].made].unit
    servers = s.units[unit].servers
    number = chunk - s.calls[s.chunks[chunk].call].first_chunk
    link = s.links[s.entries[entry].links + node]
    return s.units[unit].outboxes + link * servers + number % servers


@compiled
def _into_outbox(s, e, node):
    """Put a message into its outbox; False if it must wait until that is empty."""
    outbox = _outbox(s, e.entry, e.chunk, node)
    goes = s.outboxes[outbox].taken == 0
    s.outboxes[outbox].taken = 1
    if not goes:
        line_up(s.registers, s.waiters, s.outboxes, s.chunks, outbox, e.now, e.key, node,
                np.int64(0), np.int64(urgency(s, e.key)))
    return goes


@compiled
def _out_of_outbox(s, c, e, node, now):
    """A message leaves its outbox: the server makes the next one for it, if there is any."""
    outbox = _outbox(s, e.entry, e.chunk, node)
    if s.outboxes[outbox].first < 0:
        s.outboxes[outbox].taken = 0
        return
    key, node, since = next_in_line(s.registers, s.waiters, s.outboxes, outbox)
    ready = now + s.stages[s.entries[(key >> ENTRY_AT) & ENTRY_MASK].made].fixed_fs
    row = s.chunks[key >> CHUNK_AT].phase + ((key >> PHASE_AT) & PHASE_MASK)
    s.bus_delay[column_of(s, c, key >> CHUNK_AT, row)] += ready - since
    enter_event(s, ready, key + (FROM_OUTBOX << STAGE_AT), np.int64(node))


@inlined
def _wait(s, c, link, now, key, node):
    """Line a message up for a link; the first in line schedules a look at the link when it is free.
    """
    keeps, left = np.int64(keeps_turn(s, c, key, node)), np.int64(urgency(s, key))
    if line_up(s.registers, s.waiters, s.link, s.chunks, link, now, key, node, keeps, left):
        enter_event(s, s.link[link].free, np.int64(LOOK), link)


@inlined
def link_free(s, c, now, part, way, link):
    """Let the first of the messages that wait for a free link go; returns its part and way."""
    key, node, since = next_in_line(s.registers, s.waiters, s.link, link)
    entry = (key >> ENTRY_AT) & ENTRY_MASK
    part = part_of(s, c, part, key & PART_KEY)
    way = _way_of(s, c, part, way, entry)
    if way.direct > 0 and not c.tables:
        _go(s, c, now, since, part, way, link, s.peers[s.entries[entry].peers + node])
    else:
        _cross(s, c, decode(now, key), np.int64(node), since)
    if s.link[link].first >= 0:
        enter_event(s, s.link[link].free, np.int64(LOOK), link)
    return part, way


@inlined
def _cross(s, c, e, node, since):
    """A message goes over a link, for which it has waited *since*."""
    row = s.chunks[e.chunk].phase + e.phase
    amount = message_bytes(s, e.chunk, row, e.entry)
    links = s.entries[e.entry].links + node
    link = s.links[links + e.stage * c.nodes]
    last = e.stage + 1 == s.entries[e.entry].hops or s.links[links + (e.stage + 1) * c.nodes] < 0
    if c.tables and s.entries[e.entry].asks > 0:
        start, busy = serve_asked(s, link, e.now, e.chunk, row, e.entry)
    else:
        start, busy = serve_link(s, c, link, e.now, amount)
    if s.entries[e.entry].made >= 0 and e.stage == 0:
        _out_of_outbox(s, c, e, node, start)
    slowest = busy
    if c.tables:
        slowest = busy * s.pools[link].lanes
    ahead = busy
    if c.cut_through > 0:
        # The message is there when its tail is: it cannot be faster than the slowest link.
        for earlier in range(e.stage):
            other = s.links[links + earlier * c.nodes]
            slowest = max(slowest, time_on_link(s, other, amount))
        if not last:
            head = min(amount, c.cut_through)
            ahead = time_on_link(s, link, head)
    arrival = start + (slowest if last else ahead) + s.link[link].latency_fs
    s.network_delay[column_of(s, c, e.chunk, row)] += arrival - since
    note_link(s, c, link, node, e.chunk, row, start, busy)
    if last:
        deliver(s, c, e.entry, node, arrival, e.key & MESSAGE_KEY)
    else:
        enter_event(s, arrival, e.key + (1 << STAGE_AT), node)


@inlined
def packet(s, p, c, e, node):
    """An event of the packet network; returns False if there is no room for what follows."""
    if e.key > 0 and e.stage == 0:
        row = s.chunks[e.chunk].phase + e.phase
        return inject(
            s, p, e.now, e.key, node,
            s.entries[e.entry].links + node, s.entries[e.entry].hops, p.packet_bytes[e.entry],
            message_bytes(s, e.chunk, row, e.entry),
        )
    message, link, busy, amount, arrival = packet_event(s, p, e.now, e.key, node)
    if message >= 0:
        key = p.packet_messages[message].key
        sender = p.packet_messages[message].node
        chunk = key >> CHUNK_AT
        row = s.chunks[chunk].phase + ((key >> PHASE_AT) & PHASE_MASK)
        s.link[link].bytes += amount
        s.link[link].busy += busy
        note_link(s, c, link, sender, chunk, row, e.now, busy)
        if arrival >= 0:
            took = arrival - p.packet_messages[message].begun
            s.network_delay[column_of(s, c, chunk, row)] += took
            deliver(s, c, (key >> ENTRY_AT) & ENTRY_MASK, sender, arrival, key)
    return message != -2


@inlined
def arrive(s, c, e, part, node):
    """A message has passed all stages of the node it was sent to.

    Returns True if the program of its part may go on there, the depth, and the part at hand.
    """
    goes = False
    depth = 0
    counter = s.entries[e.entry].slot
    if counter >= 0:
        part = part_of(s, c, part, e.key & PART_KEY)
        s.counters[part.counters + node * part.width + 1 + counter] += 1
        local = part.states + node
        goes = s.slot_state[local].phase == e.phase and s.slot_state[local].running == RUNS
    elif counter == RELAYED:
        relay(s, c, e, node)
    elif s.entries[e.entry].onward >= 0:
        _pass_on(s, c, e, node)
    else:
        depth = _part_of_transfer(s, c, e, node, depth)
    return goes, depth, part


@inlined
def _pass_on(s, c, e, node):
    """Forward the message to the next node of its way."""
    row = s.chunks[e.chunk].phase + e.phase
    s.messages[column_of(s, c, e.chunk, row)] += 1
    onward = np.int64(s.entries[e.entry].onward)
    key = (e.key & ~np.int64(ENTRY_MASK << ENTRY_AT)) | (onward << ENTRY_AT)
    if s.entries[onward].before < s.entries[onward].before_end:
        key |= BEFORE
    else:
        key |= c.first_hop
    enter_event(s, e.now, key, node)


@inlined
def _part_of_transfer(s, c, e, node, depth):
    """Count a part of a transfer; the last one ends its two tasks."""
    transfer = e.chunk - s.numbers[FIRST_TRANSFER]
    s.transfers[transfer].left -= 1
    if s.transfers[transfer].left == 0:
        sends = np.int64(s.transfers[transfer].send)
        enter_event(s, e.now, (sends << CHUNK_AT) | TASK_END, s.transfers[transfer].source)
        receives = s.transfers[transfer].receive
        local = node * c.max_tasks + receives
        if s.task_start[local] >= 0:
            depth = later(s, depth, TASK_DONE, receives)
        else:
            s.task_next[local] = 1
    return depth


@inlined
def stage_of_chunk(s, c, e, node):
    """A chunk is loaded into the engine's memory (phase 0) or stored from there (phase 1)."""
    depth = 0
    call = s.chunks[e.chunk].call
    if e.phase == 0:
        index = s.calls[call].load + e.stage
        end = s.calls[call].load_end
    else:
        index = s.calls[call].store + e.stage
        end = s.calls[call].store_end
    if index == end:
        depth = later(s, depth, BEGIN if e.phase == 0 else CHUNK_END, e.chunk)
    else:
        column = column_of(s, c, e.chunk, s.chunks[e.chunk].phase)
        finish = serve_unit(s, c, index, node, e.now, s.chunks[e.chunk].size_bytes, column,
                            e.chunk)
        enter_event(s, finish, e.key + (1 << STAGE_AT), node)
    return depth
