"""Notes of what crosses links to switches and endpoints that are simulated elsewhere, and of what
becomes part of a sum: from it follows what is in a packet, since the model knows no data.

A note is what it is of, where, a cycle, a header, the operands in the packet as a set of two words,
and, of a sum, those that were in it before.
"""

from sim.native.mark import compiled

__all__ = ["CREDIT", "MERGE", "NOTE_WORDS", "PACKET", "note"]

PACKET, CREDIT, MERGE = range(3)
"""A packet, by an output that takes it in the cycle; a credit of the class that stands for the
header, for an output, from a buffer that a packet has left before the cycle (or, if it comes, that
is there from the cycle on); an operand that a unit adds, or behind all units a lane."""

NOTE_WORDS = 8


@compiled
def note(s, what, where, cycle, word, low, high, low_before, high_before):
    """Something happened."""
    row = s.outbox[s.c[0].noted]
    row[0], row[1], row[2], row[3] = what, where, cycle, word
    row[4], row[5], row[6], row[7] = low, high, low_before, high_before
    s.c[0].noted += 1
