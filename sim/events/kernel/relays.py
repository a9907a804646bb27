# SPDX-License-Identifier: Apache-2.0
"""Switches that wait for the messages of several senders, reduce them, and send on.

A load takes entries of the table at a port before it goes on, one for each packet that it asks for.
Operands that are added there go through the adders of the port, packet by packet; when the sum is
complete the entries are free. At its first switch a load waits for entries, in order; at later ones
it goes on without.
"""

import numpy as np

from sim.events.kernel.common import (
    column_of,
    enter_event,
    message_bytes,
    time_on_link,
)
from sim.events.kernel.constants import (
    ADD,
    ARRIVE,
    BEFORE,
    BYPASSED,
    CLASSES,
    DETOUR_FS,
    ENTRY_AT,
    ENTRY_MASK,
    EVICTED,
    HOME,
    MESSAGE_KEY,
    OWN,
    PARTIAL,
    PASS,
    READS,
    RELAY_WIDTH,
    STAGE_AT,
    STALLED,
    STORE,
    STORED,
    TIMEOUT_FS,
    VERTICES,
    WAIT,
    WITHOUT,
)
from sim.events.kernel.queue import free_waiter, new_waiter
from sim.native.mark import compiled, inlined

__all__ = ["credit", "relay"]

ENTRY_FIELD = ~np.int64(ENTRY_MASK << ENTRY_AT)


@inlined
def _place(s, e, row, number, node):
    """Index of the counter of a message's arrivals at a switch."""
    place = s.relays[number].number * s.numbers[VERTICES] + node
    at = s.chunks[e.chunk].slot * s.numbers[RELAY_WIDTH] + s.phases[row].relays
    return at + place * s.phases[row].messages + e.message


@inlined
def relay(s, c, e, node):
    """A message has reached a switch; with the last one that it waits for it sends on.

    Stage 1: a load that has waited, and has its entries now.
    """
    row = s.chunks[e.chunk].phase + e.phase
    number = s.entries[e.entry].onward
    at = _place(s, e, row, number, node)
    kind = s.relays[number].kind
    now = e.now
    if kind == OWN and e.stage == 0 and c.tables:
        pool = np.int64(s.relay_tables[s.relays[number].table + node])
        turn = _turn_of_own(s, pool, now)
        if turn > now:
            enter_event(s, turn, e.key | (1 << STAGE_AT), node)
            return
    goes = e.stage > 0 and kind != OWN
    if not goes:
        s.relay_counts[at] += 1
        pool = np.int64(-1)
        if kind != PASS and c.tables:
            pool = np.int64(s.relay_tables[s.relays[number].table + node])
            if kind == ADD:
                busy = time_on_link(s, pool, message_bytes(s, e.chunk, row, e.entry))
                begin = max(now, s.pools[pool].free)
                s.pools[pool].free = begin + busy
                now = begin + busy * s.pools[pool].lanes
            elif kind == OWN:
                # It waits for the home store, and so do others behind it.
                size = s.chunks[e.chunk].size_bytes * s.relays[number].held * s.packet_bytes[0]
                size /= s.phases[row].messages
                reads = CLASSES * pool + READS
                credit(s.windows, s.credits, s.packet_bytes, reads, now, size)
                now = max(now, _before_own(s, pool, reads, now), s.pools[pool].home)
                now += time_on_link(s, pool, size)
                s.pools[pool].operands = max(s.pools[pool].operands, now)
                s.pools[pool].home = now
            elif kind == STORE and (s.relay_counts[at] == 1 or lost(s.relay_counts[at])):
                size = s.chunks[e.chunk].size_bytes * s.relays[number].held
                entries = np.int64(STORED * size / s.phases[row].messages)
                if s.relay_counts[at] == 1:
                    s.pools[pool].open += entries
                else:
                    s.relay_counts[at] += WITHOUT
                s.counts[EVICTED] += stored(
                    s.registers, s.waiters, s.pools, s.chunks, s.relay_counts, pool, entries, at,
                    e.chunk,
                )
        count = s.relay_counts[at]
        goes = count % WITHOUT == s.relay_needs[s.relays[number].needs + node]
        if goes:
            s.relay_counts[at] = 0
            if kind == HOME and c.tables:
                # The home store takes the last arrival; then the sum is read.
                size = s.chunks[e.chunk].size_bytes * s.relays[number].held * s.packet_bytes[0]
                now = max(now, s.pools[pool].home)
                now += 2 * time_on_link(s, pool, size / s.phases[row].messages)
                s.pools[pool].home = now
            elif kind == STORE and c.tables:
                size = s.chunks[e.chunk].size_bytes * s.relays[number].held
                entries = np.int64(STORED * size / s.phases[row].messages)
                s.pools[pool].open -= entries
                s.pools[pool].left += entries
                if count >= WITHOUT:
                    now = _given_way(s, pool, now) + s.numbers[DETOUR_FS]
            elif WAIT <= kind <= ADD and c.tables:
                size = s.chunks[e.chunk].size_bytes * s.relays[number].held
                needed = np.int64(np.ceil(size / s.phases[row].messages - 1e-6))
                if kind == ADD:
                    if count < WITHOUT:
                        _give(s, pool, needed, now)
                elif kind == WAIT:
                    if not taken(s.pools, pool, needed, s.pools[pool].first < 0):
                        goes = False
                        s.counts[STALLED] += 1
                        line_up(s.registers, s.waiters, s.pools, pool, e.key, node, needed)
                elif not taken(s.pools, pool, needed, True):
                    s.counts[BYPASSED] += 1
                    s.relay_counts[_place(s, e, row, s.relays[number].adds, node)] += WITHOUT
    if goes:
        _send_on(s, c, e, node, row, number, now)


@inlined
def _given_way(s, pool, now):
    """Time at which the rest of a sum leaves whose first entry was evicted. The rest has taken
    another entry; operands that are still to come to the table evict that one at once, or else it
    is overdue at the end of the first whole period in which it was there."""
    period = s.numbers[TIMEOUT_FS]
    if period == 0 or s.pools[pool].open >= s.pools[pool].most or s.nodes[0].waiting > 0:
        return now
    return (now // period + 2) * period


@inlined
def _turn_of_own(s, pool, now):
    """Time at which an own operand is requested: own ones and others' take turns, so own ones get
    at most every second place to read into."""
    reads = CLASSES * pool + READS
    place = s.windows[reads].first + s.windows[reads].next
    if s.credits[place] <= now:
        return now
    turn = max(now, s.pools[pool].own)
    s.pools[pool].own = turn + 2 * s.windows[reads].away_fs // s.windows[reads].places
    return turn


@inlined
def _before_own(s, pool, reads, now):
    """Time at which the operands have left that an own one waits for. Where answers wait for reads,
    the endpoint requests own and others' operands in turn, and only those in the places to read
    into are before it; where they wait for credits, loads wait, too, and it is one of them."""
    answers = reads - READS + PARTIAL
    by_credits = s.windows[answers].away_fs * s.windows[reads].places
    by_reads = s.windows[reads].away_fs * s.windows[answers].places
    if by_credits > by_reads:
        return s.pools[pool].operands
    return min(s.pools[pool].operands, now + s.windows[reads].away_fs)


@compiled
def taken(pools, pool, needed, first):
    """Take the entries that a load needs, all of the table where it needs more; False if it is not
    the *first*, or too few are free."""
    needed = min(max(needed, 1), np.int64(pools[pool].most))
    if not first or needed > pools[pool].left:
        return False
    pools[pool].left -= needed
    return True


@compiled
def line_up(registers, waiters, pools, pool, key, node, needed):
    """Put a load, or a sum that has entries, behind others in the list of its table."""
    place = new_waiter(waiters, registers, node)
    waiters[place].key = key
    waiters[place].since = needed
    if pools[pool].first < 0:
        pools[pool].first = place
    else:
        waiters[pools[pool].last].next = place
    pools[pool].last = place


@inlined
def _give(s, pool, needed, now):
    """Free entries, and let the loads that wait for them go on."""
    s.pools[pool].left += min(max(needed, 1), np.int64(s.pools[pool].most))
    place = np.int64(s.pools[pool].first)
    while place >= 0 and taken(s.pools, pool, s.waiters[place].since, True):
        key = s.waiters[place].key
        node = np.int64(s.waiters[place].node)
        place = free_waiter(s.waiters, s.registers, place)
        s.pools[pool].first = place
        enter_event(s, now, key | (1 << STAGE_AT), node)


@inlined
def _send_on(s, c, e, node, row, number, now):
    """Make the sends of a relay, after the stages of their steps."""
    for entry in range(s.relays[number].first, s.relays[number].end):
        goal = s.peers[s.entries[entry].peers + node]
        if goal >= 0:
            s.messages[column_of(s, c, e.chunk, row)] += 1
            key = (e.key & MESSAGE_KEY & ENTRY_FIELD) | (np.int64(entry) << ENTRY_AT)
            before = s.entries[entry].before
            begin = now
            if before < s.entries[entry].before_end:
                if before + 1 == s.entries[entry].before_end and s.stages[before].unit < 0:
                    begin = now + s.stages[before].fixed_fs + s.stages[before].latency_fs
                    key |= c.first_hop
                else:
                    key |= BEFORE
            else:
                key |= c.first_hop
            if s.entries[entry].hops == 0 and key & 7 != BEFORE:
                enter_event(s, begin, (key & MESSAGE_KEY) | ARRIVE, goal)
            else:
                enter_event(s, begin, key, node)


@compiled
def credit(windows, credits, packet_bytes, window, now, amount):
    """Use credits of a class for a message of *amount* bytes; returns the time at which it may go
    on the link."""
    begin = now
    # The rest of the packet before is filled first.
    windows[window].left -= amount / packet_bytes[0]
    while windows[window].left < -1e-6:
        windows[window].left += 1
        place = windows[window].first + windows[window].next
        begin = max(begin, credits[place])
        credits[place] = begin + windows[window].away_fs
        windows[window].next = (windows[window].next + 1) % windows[window].places
    return begin


@inlined
def lost(count):
    """True if the entry of a sum was evicted, and no other operand has taken one since; with a
    second entry, its arrivals have `WITHOUT` twice."""
    return count // WITHOUT == 1


@compiled
def stored(registers, waiters, pools, chunks, relay_counts, pool, needed, at, chunk):
    """Take entries for the first operands of a message, and evict the oldest messages where too few
    are free. Returns the number of evicted messages.

    Messages stand in the list of their table in the order in which they came, until they are the
    first and complete, or are evicted.
    """
    pools[pool].left -= needed
    evicted = 0
    place = np.int64(pools[pool].first)
    while place >= 0:
        other = np.int64(waiters[place].key)
        there = relay_counts[other] % WITHOUT > 0 and not lost(relay_counts[other])
        waits = chunks[waiters[place].keeps].open > 0 and there
        if waits and pools[pool].left >= 0:
            break
        if waits:
            relay_counts[other] += WITHOUT if relay_counts[other] < WITHOUT else -WITHOUT
            pools[pool].left += waiters[place].since
            evicted += 1
        place = free_waiter(waiters, registers, place)
        pools[pool].first = place
    line_up(registers, waiters, pools, pool, at, 0, needed)
    waiters[pools[pool].last].keeps = chunk
    return evicted
