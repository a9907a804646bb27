# SPDX-License-Identifier: Apache-2.0
"""Times of packets in flight, by kind: sums over all of them.

A packet is in flight from the cycle in which its sender, an endpoint or a table, is granted the
link, to the one in which a table or an endpoint takes its header. Each copy of a multicast counts.
All that were sent have been taken when the jobs are done; so sums of cycles will do.
"""

from sim.cycles.switch.words import LOAD, RESULT, kind_of
from sim.native.mark import compiled

__all__ = [
    "COLUMNS", "HELD", "QUEUED", "READY", "SENT", "TAKEN", "TRAVEL", "from_link", "from_table",
    "taken", "waited",
]

COLUMNS = TAKEN, TRAVEL, HELD, SENT, QUEUED = range(5)
"""Packets taken; cycles in flight; cycles of these in buffers of switches, their units, and
receivers; packets of endpoints; cycles before their output took them."""

READY = 3  # cycles from the last flit's store to a request


@compiled
def from_link(s, word, stored, now):
    """Count a packet that an endpoint sends."""
    copies = 1
    if kind_of(word) == RESULT:
        copies = s.c[0].members - 1
    elif kind_of(word) == LOAD:
        copies = s.c[0].members - 1 + s.c[0].whole
    of = s.transit[kind_of(word)]
    of[TRAVEL] -= copies * now
    of[SENT] += 1
    of[QUEUED] += now - stored - READY


@compiled
def from_table(s, word, copies, now):
    """Count a packet that a reduction unit sends by a link to *copies* of its receivers."""
    if kind_of(word) != LOAD:  # it only passes
        s.transit[kind_of(word), TRAVEL] -= copies * now


@compiled
def waited(s, word, stored, now):
    """Count the time of a packet in a buffer that it had to enter as a whole."""
    s.transit[kind_of(word), HELD] += now - stored - READY


@compiled
def taken(s, word, now):
    """Count a packet that has reached its receiver."""
    of = s.transit[kind_of(word)]
    of[TAKEN] += 1
    of[TRAVEL] += now
