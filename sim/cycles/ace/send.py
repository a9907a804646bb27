# SPDX-License-Identifier: Apache-2.0
"""Send unit of one port, with the arbiter in front of it."""

from hw.ace.sram import READ_LATENCY
from sim.cycles.ace.events import UNIT, post
from sim.cycles.ace.fsm import report
from sim.cycles.ace.generator import sent
from sim.cycles.ace.link import put_packet
from sim.cycles.ace.partitions import copy, may_copy
from sim.cycles.ace.sram import add_end, request, take_end
from sim.cycles.ace.words import FLITS, field
from sim.cycles.queues import NEVER
from sim.native.mark import compiled

__all__ = ["carried", "passed", "unit"]

_SENT = 1


@compiled
def unit(s, node, p, now):
    """Take the command that the arbiter holds; it holds the next one a cycle later."""
    c = s.c[0]
    q = s.port[node, p]
    if q.held and q.held_at <= now:
        if p == c.ports:
            if q.unit_free <= now and may_copy(s, node, now):
                copy(s, node, now)
                _taken(s, node, p, now)
        elif q.unit_free <= now and q.reserved[1] < c.tx_packets:
            _carry_out(s, node, p, now)
            _taken(s, node, p, now)
    if not q.held and q.held_at <= now:
        f = _oldest(s, node, p, now)
        if f >= 0:
            command = s.command[node, f, p]
            q.held = f + 1
            q.held_at = now + 1
            q.held_word = command.word
            q.held_row = command.row
            q.held_place = command.place
            q.held_context = command.context
            q.held_odd = command.odd
            sent(s, node, f, p, now)
            post(s, now + 1, UNIT, node, p)


@compiled
def _taken(s, node, p, now):
    """The command that is held has been taken in this cycle."""
    q = s.port[node, p]
    q.held = 0
    q.held_at = now + 1
    post(s, now + 1, UNIT, node, p)


@compiled
def _oldest(s, node, p, now):
    """The FSM whose command for a port is next, or -1: READYs first, then the oldest chunk."""
    found, age = -1, 0
    for f in range(s.c[0].fsms):
        command = s.command[node, f, p]
        if command.valid <= now:
            mine = s.context[node, f, command.context].age if command.word & 1 else -1
            if found < 0 or mine < age:
                found, age = f, mine
    return found


@compiled
def _carry_out(s, node, p, now):
    """Read the packet from SRAM into the transmit queue."""
    c = s.c[0]
    q = s.port[node, p]
    q.reserved[1] += 1
    q.carried_word = q.held_word
    q.carried_fsm = q.held - 1
    q.carried_context = q.held_context
    q.carried_odd = q.held_odd
    q.unit_free = NEVER
    beats = max(1, -(-field(q.held_word, FLITS, 8) // c.flits))
    empty = field(q.held_word, FLITS, 8) == 0
    for n in range(beats):
        request(s, node, c.ports + p, -1 if empty else q.held_row + n, n == beats - 1, now + 1)


@compiled
def passed(s, node, p, last, now):
    """The read of a beat is asked for from the next cycle on; behind the last one the next command
    may follow."""
    if last:
        q = s.port[node, p]
        end = add_end(q, 1)
        end.word = q.carried_word
        end.fsm = q.carried_fsm
        end.event = q.carried_context << 3 | q.carried_odd << 2 | _SENT
        q.unit_free = now
        post(s, now, UNIT, node, p)


@compiled
def carried(s, node, p, last, now):
    """A beat is read; with the last one the packet is complete."""
    if not last:
        return
    end = take_end(s.port[node, p], 1)
    put_packet(s, node, p, 1, end.word, now + READ_LATENCY)
    if end.word & 1:
        report(s, node, end.fsm, s.c[0].ports + p, end.event, now + 1)
