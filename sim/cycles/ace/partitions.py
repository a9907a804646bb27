# SPDX-License-Identifier: Apache-2.0
"""Partitions by phase: hand-over from phase to phase, and the copy unit."""

from hw.ace.sram import READ_LATENCY
from sim.cycles.ace.events import DISPATCH, FREE, MOVE, STORE, UNIT, post
from sim.cycles.ace.fsm import admit, report
from sim.cycles.ace.sram import add_end, request, take_end
from sim.cycles.ace.words import CHUNK_BITS, FLITS, field
from sim.cycles.queues import NEVER
from sim.native.mark import compiled

__all__ = [
    "copied", "copy", "enter", "free", "free_final", "hand_job", "leave", "may_copy", "may_read",
    "move", "oldest", "place_free", "read", "write", "wrote",
]

_COPIES = 4  # commands of the copy unit
_BEATS = READ_LATENCY + 5  # beats that are to be read, or have been and do not wait to be written


# ---- Hand-over.


@compiled
def _fsm_after(s, node, p, first):
    """FSM, of the phase after *p* or of the last one, that the results of the next chunk to enter
    phase *p* are for; *first*: it is the first one of its collective."""
    c = s.c[0]
    turn = 0 if first else s.node[node].place_turn[p]
    return c.fsms_from[min(p + 1, c.phases - 1)] + turn


@compiled
def place_free(s, node, p, first):
    """The slot for the results of the next chunk to enter phase *p*, or -1."""
    c = s.c[0]
    f = _fsm_after(s, node, p, first)
    last = p + 1 == c.phases
    held = s.fsm[node, f].finals_held if last else s.fsm[node, f].occupied
    count = c.final_count[f] if last else c.slot_count[f]
    for slot in range(count):
        if not held >> slot & 1:
            return slot
    return -1


@compiled
def enter(s, node, f, slot, first, now):
    """A chunk enters the phase of FSM *f*, and takes the slot for its results."""
    c = s.c[0]
    p = c.phase_of[f]
    d = s.node[node]
    x = s.context[node, f, slot]
    after = place_free(s, node, p, first)
    g = _fsm_after(s, node, p, first)
    x.slot_after = after
    x.fsm_after = g
    x.finished_at = 0
    if p + 1 == c.phases:
        s.fsm[node, g].finals_held |= 1 << after
        row = c.final_row[g] + after * c.final_size[g]
    else:
        s.fsm[node, g].occupied |= 1 << after
        row = c.slot_row[g] + after * c.slot_size[g]
    x.results = row - s.firsts[node, f, x.collective] * x.beats
    turn = g - c.fsms_from[min(p + 1, c.phases - 1)] + 1
    d.place_turn[p] = 0 if turn == c.fsms_in[min(p + 1, c.phases - 1)] else turn
    q = s.chunks[node, p]
    at = (q.head + q.count) % 256
    q.chunk[at] = f << 4 | slot
    q.visible[at] = now + 1
    q.count += 1


@compiled
def free(s, node, f, slot, now):
    """A context and its slot are free."""
    s.fsm[node, f].occupied &= ~(1 << slot)
    p = s.c[0].phase_of[f]
    if p > 1:
        post(s, now, MOVE, node, p - 2)
    else:
        post(s, now, DISPATCH, node, 0)


@compiled
def free_final(s, node, f, slot, now):
    """A result is in memory."""
    c = s.c[0]
    s.fsm[node, f].finals_held &= ~(1 << slot)
    if c.phases > 1:
        post(s, now, MOVE, node, c.phases - 2)
    else:
        post(s, now, DISPATCH, node, 0)


@compiled
def oldest(s, node, p, now):
    """FSM and slot of the oldest chunk of a phase, if it may leave in this cycle, or -1."""
    q = s.chunks[node, p]
    if q.count == 0:
        return -1
    chunk = q.chunk[q.head]
    x = s.context[node, chunk >> 4, chunk & 15]
    if x.finished_at == 0:
        return -1
    at = max(x.finished_at, q.visible[q.head], q.left_at + 1) + 1
    if at > now:
        post(s, at, MOVE, node, p)
        return -1
    return chunk


@compiled
def leave(s, node, p, now):
    """The oldest chunk of a phase leaves its context."""
    q = s.chunks[node, p]
    chunk = q.chunk[q.head]
    x = s.context[node, chunk >> 4, chunk & 15]
    x.assigned = x.live = 0
    q.head = (q.head + 1) % 256
    q.count -= 1
    q.left_at = now
    post(s, now + 1, FREE, node, chunk)
    post(s, now + 2, MOVE, node, p)


@compiled
def move(s, node, p, now):
    """The oldest chunk of a phase moves on to the next one, if it may."""
    c = s.c[0]
    chunk = oldest(s, node, p, now)
    if chunk < 0:
        return
    if p + 1 == c.phases:
        g = s.context[node, chunk >> 4, chunk & 15].fsm_after
        post(s, now, STORE, node, g % c.memory_ports)
        return
    x = s.context[node, chunk >> 4, chunk & 15]
    g, slot = x.fsm_after, x.slot_after
    first = x.key & ((1 << CHUNK_BITS) - 1) == 0
    if s.fsm[node, g].setup or place_free(s, node, p + 1, first) < 0:
        return
    y = s.context[node, g, slot]
    y.beats = x.beats
    y.elements = x.elements
    y.program = c.program_of[g, x.collective]
    y.collective = x.collective
    y.key = x.key
    y.age = x.age
    y.row = x.results
    hand_job(s.fsm[node, chunk >> 4].results[chunk & 15], s.fsm[node, g].results[slot])
    leave(s, node, p, now)
    admit(s, node, g, slot, now)
    enter(s, node, g, slot, first, now)
    s.context[node, g, slot].loaded = 1


@compiled
def hand_job(job, to):
    """Copy a job of the RX DMA."""
    to.at = job.at
    to.address = job.address
    to.stride = job.stride
    to.first = job.first
    to.last = job.last
    to.row = job.row
    to.beats = job.beats
    to.tail_block = job.tail_block
    to.tail = job.tail
    to.tag = job.tag


# ---- Copy unit.


@compiled
def may_copy(s, node, now):
    """True if the unit has room for a command; one that ends in this cycle still counts."""
    u = s.copier[node]
    return u.copies + (u.freed_at == now) < _COPIES


@compiled
def copy(s, node, now):
    """Take the command that is held at the port of the unit, and read."""
    c = s.c[0]
    q = s.port[node, c.ports]
    u = s.copier[node]
    flits = field(q.held_word, FLITS, 8)
    beats = max(1, -(-flits // c.flits))
    at = (u.head + u.count) % 8
    u.fsm[at] = q.held - 1
    u.context[at] = q.held_context
    u.count += 1
    u.copies += 1
    q.unit_free = NEVER
    for n in range(beats):
        tag = (q.held_place + n + 1 if flits else 0) << 1 | (n == beats - 1)
        request(s, node, c.first_writer - 1, q.held_row + n if flits else -1, tag, now + 1)


@compiled
def may_read(s, node):
    """True if there is room for another beat that has been read and does not wait to be written."""
    return s.copier[node].promised < _BEATS


@compiled
def read(s, node, last, now):
    """The read of a beat is asked for from the next cycle on; behind the last one the next command
    may follow."""
    q = s.port[node, s.c[0].ports]
    s.copier[node].promised += 1
    if last:
        q.unit_free = now
        post(s, now, UNIT, node, s.c[0].ports)


@compiled
def copied(s, node, tag, now):
    """A beat is read; it is written when it is there."""
    c = s.c[0]
    writer = c.first_writer + c.ports + c.memory_ports
    request(s, node, writer, (tag >> 1) - 1, tag & 1, now + READ_LATENCY + 1)


@compiled
def write(s, node, last, now):
    """A beat waits to be written from now on; behind the last one the unit has room for another
    command."""
    c = s.c[0]
    u = s.copier[node]
    u.promised -= 1
    if last:
        source = 2 * c.ports
        end = add_end(s.port[node, source % c.ports], source // c.ports)
        end.fsm = u.fsm[u.head]
        end.event = u.context[u.head] << 3 | 1
        u.head = (u.head + 1) % 8
        u.count -= 1
        u.copies -= 1
        u.freed_at = now
        post(s, now + 1, UNIT, node, c.ports)


@compiled
def wrote(s, node, last, now):
    """A beat is written; with the last one the copy is complete."""
    if last:
        ports = s.c[0].ports
        source = 2 * ports
        end = take_end(s.port[node, source % ports], source // ports)
        report(s, node, end.fsm, source, end.event, now + 1)
