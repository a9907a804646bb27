# SPDX-License-Identifier: Apache-2.0
"""Ordinary packets of a link of an endpoint: those that go out, and those that come."""

import numpy as np

from sim.cycles.stalls import drawn, stalled
from sim.cycles.switch.transit import QUEUED, READY, taken
from sim.cycles.switch.words import count_of, header, home_of, number_of
from sim.native.mark import compiled

__all__ = ["deliver", "inject", "ordinary"]

_ALL = 1 << 32  # number of values of a draw


@compiled
def _born(s, t, cycle):
    """The first cycle from *cycle* on in which a packet is offered."""
    while not stalled(t.when, s.c[0].ordinary_below, cycle):
        cycle += 1
    return cycle


@compiled
def ordinary(s, n, now):
    """True if a packet of link *n* is there to be sent, or is being stored."""
    if not s.c[0].ordinary_on:
        return s.source[n].place > 0
    t = s.source[n]
    if t.born < 0:
        t.born = _born(s, t, now)
    return t.place > 0 or t.born <= now


@compiled
def inject(s, n, now):
    """Store a flit of the packet that link *n* sends; returns its header with the last one, else 0.
    """
    c, t, e = s.c[0], s.source[n], s.lane[n]
    if t.place == 0:
        c.ordinary_under_way += 1
    t.place += 1
    if t.place < c.flits:
        return 0
    t.place = 0
    goal = t.partner
    if goal < 0:
        spread = drawn(t.where, t.sent) * np.uint64(c.members - 1)
        goal = np.int64(spread // np.uint64(_ALL))
        if goal >= e.endpoint:
            goal += 1
    # `from_link` counts from the last flit's store on; the packet has waited since it was born.
    s.transit[c.ordinary_kind, QUEUED] += now + READY - t.born
    t.born = _born(s, t, t.born + 1)
    t.sent += 1
    number = s.sent_to[n, goal]
    s.sent_to[n, goal] += 1
    return header(c.ordinary_kind, 0, goal, e.endpoint, number)


@compiled
def deliver(s, n, word, now):
    """Take a packet; it is wrong if it is not the next that the same link of its source sent here.
    """
    c, e = s.c[0], s.lane[n]
    source = count_of(word)
    if home_of(word) != e.endpoint or number_of(word) != s.taken_from[n, source]:
        c.astray += 1
    s.taken_from[n, source] += 1
    c.ordinary_under_way -= 1
    taken(s, word, now)
