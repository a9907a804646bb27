# SPDX-License-Identifier: Apache-2.0
"""Notes of packets and credits on links to switches and endpoints that are simulated elsewhere, and
of additions to sums: they tell the contents of a packet, since the model has no data.

A note has a kind, a place, a cycle, a header, the operands in the packet as a set of two words,
and, for a sum, those that were in it before.
"""

import numpy as np

from sim.native.mark import compiled

__all__ = ["CREDIT", "MERGE", "NOTE", "PACKET", "note"]

PACKET, CREDIT, MERGE = range(3)
"""Kinds. A packet: its place is the output that takes it in the cycle. A credit, with its class for
a header: its place is the output that it is for; a packet has left the buffer before the cycle, or,
if the credit comes in, it is there from the cycle on. An operand that is added: its place is the
unit, or, behind all units, the lane."""

NOTE = np.dtype(
    [
        (name, np.int64)
        for name in (
            "kind", "place", "cycle", "header", "low", "high", "low_before", "high_before",
        )
    ]
)
"""A note; its fields stand in this order."""


@compiled
def note(s, what, where, cycle, word, low, high, low_before, high_before):
    """Write a note."""
    row = s.outbox[s.c[0].noted]
    row.kind, row.place, row.cycle, row.header = what, where, cycle, word
    row.low, row.high = low, high
    row.low_before, row.high_before = low_before, high_before
    s.c[0].noted += 1
