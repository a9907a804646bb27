"""Switches that wait for the messages of several senders, reduce them, and send on."""

import numpy as np

from sim.events.kernel.common import column_of, enter_event
from sim.events.kernel.constants import (
    ARRIVE,
    ENTRY_AT,
    ENTRY_MASK,
    MESSAGE_KEY,
    RELAY_WIDTH,
    VERTICES,
)
from sim.native.mark import inlined

__all__ = ["relay"]

ENTRY_FIELD = ~np.int64(ENTRY_MASK << ENTRY_AT)


@inlined
def relay(s, c, e, node):
    """A message has reached a switch; with the last one that it waits for it sends on."""
    row = s.chunks[e.chunk].phase + e.phase
    number = s.entries[e.entry].onward
    place = s.relays[number].number * s.numbers[VERTICES] + node
    at = s.chunks[e.chunk].slot * s.numbers[RELAY_WIDTH] + s.phases[row].relays
    at += place * s.phases[row].messages + e.message
    s.relay_counts[at] += 1
    if s.relay_counts[at] == s.relay_needs[s.relays[number].needs + node]:
        s.relay_counts[at] = 0
        for entry in range(s.relays[number].first, s.relays[number].end):
            goal = s.peers[s.entries[entry].peers + node]
            if goal >= 0:
                s.messages[column_of(s, c, e.chunk, row)] += 1
                key = (e.key & MESSAGE_KEY & ENTRY_FIELD) | (np.int64(entry) << ENTRY_AT)
                if s.entries[entry].hops == 0:
                    enter_event(s, e.now, key | ARRIVE, goal)
                else:
                    enter_event(s, e.now, key | c.first_hop, node)
