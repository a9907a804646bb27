# SPDX-License-Identifier: Apache-2.0
"""Messages that wait for a link: collectives take turns in order of time, and a turn of a
collective goes to the message of the chunk with most phases to go.

The phases that a chunk has left after a message are part of the critical path to the end of its
collective, so the message of a last phase can wait best. But chunks that have begun at a node hold
places, contexts and memory. While chunks of the node wait to begin a phase, and may need these, its
messages keep the turns with which they come: nothing passes them. Phases of different collectives
are not compared. A message on a link is not interrupted. If nothing may pass a message and no other
waits, its time of service is known at once, so a link that carries one phase needs no extra event.

An engine may take the oldest chunk first instead, and before its own data what a node sends on.
Where servers have an outbox for each link, one message of each is in the line; those that it makes
later are in a line of their own, with the same rule.
"""

import numpy as np

from sim.events.kernel.constants import (
    CHUNK_AT,
    ENTRY_AT,
    ENTRY_MASK,
    OLDEST,
    PHASE_AT,
    PHASE_MASK,
)
from sim.events.kernel.queue import free_waiter, new_waiter
from sim.native.mark import compiled, inlined

__all__ = ["keeps_turn", "line_up", "must_wait", "next_in_line", "urgency"]


@inlined
def keeps_turn(s, c, key, node):
    """True if nothing may pass a message that *node* sends now; switches have no chunks. Where the
    oldest chunk goes first, it always does."""
    return node < c.nodes and s.nodes[node].waiting > 0 and s.chunks[key >> CHUNK_AT].age == 0


@inlined
def must_wait(s, c, link, now, left, amount, keeps):
    """True if a message of *amount* bytes lines up: others do, or it may be passed on a busy link.

    Requests, which have no payload, have a virtual channel of their own. Messages to single nodes
    are chunks without phases, which nothing passes.
    """
    return amount > 0 and (
        s.link[link].first >= 0
        or (0 < left < s.link[link].most_left and s.link[link].free > now and not keeps)
    )


@inlined
def urgency(s, key):
    """Phases that the chunk of a message has to go; where the oldest goes first, its age, and more
    than that of any if the message is sent on."""
    chunk = key >> CHUNK_AT
    if s.chunks[chunk].age == 0:
        left = s.chunks[chunk].phases - ((key >> PHASE_AT) & PHASE_MASK)
    elif s.entries[(key >> ENTRY_AT) & ENTRY_MASK].forwards > 0:
        left = np.int64(OLDEST)
    else:
        left = np.int64(s.chunks[chunk].age)
    return left


@inlined
def _stays(chunks, waiters, place, call, left):
    """True if a message of *call*, with *left* phases to go, may not pass the one at *place*."""
    return chunks[waiters[place].key >> CHUNK_AT].call == call and (
        waiters[place].keeps > 0 or waiters[place].left >= left
    )


@compiled
def line_up(registers, waiters, link, chunks, number, now, key, node, keeps, left):
    """Put a message into the line of link *number*; returns True if it is alone there.

    It goes behind the last one of its collective that it may not pass: there each moves to the
    place of the next one of the collective, the last of them to the end of the line.
    """
    first = link[number].first
    last = link[number].last
    call = chunks[key >> CHUNK_AT].call
    begin = np.int64(first)
    here = np.int64(first)
    if first >= 0 and _stays(chunks, waiters, last, call, left):
        here = np.int64(-1)
        begin = np.int64(-1)  # behind them all
    while here >= 0:
        following = np.int64(waiters[here].next)
        if _stays(chunks, waiters, here, call, left):
            begin = following
        here = following
    since = now
    here = begin
    while here >= 0:
        other = waiters[here].key
        if chunks[other >> CHUNK_AT].call == call:
            began = waiters[here].since
            kept = waiters[here].keeps
            sender = np.int64(waiters[here].node)
            its = waiters[here].left
            waiters[here].key = key
            waiters[here].since = since
            waiters[here].keeps = keeps
            waiters[here].node = node
            waiters[here].left = left
            key = other
            since = began
            keeps = kept
            node = sender
            left = its
        here = np.int64(waiters[here].next)
    place = new_waiter(waiters, registers, node)
    waiters[place].key = key
    waiters[place].since = since
    waiters[place].keeps = keeps
    waiters[place].left = left
    link[number].last = place
    if first < 0:
        link[number].first = place
        return True
    waiters[last].next = place
    return False


@compiled
def next_in_line(registers, waiters, link, number):
    """Take the first message; returns its key, its node, and since when it has waited."""
    place = np.int64(link[number].first)
    key, since = waiters[place].key, waiters[place].since
    node = waiters[place].node
    link[number].first = free_waiter(waiters, registers, place)
    return key, node, since
