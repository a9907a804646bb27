# SPDX-License-Identifier: Apache-2.0
"""A memory port and the AXI masters at it: `axi_read.py`, `axi_write.py`, and `memory.hpp`.

The record *e* of an engine has the fields `PORT`, a `memory_key` for each channel, and the queues
of `sim.cycles.queues`, those of the port first; the settings *c* have `memory_below`,
`write_latency` and `burst_beats`.
"""

from sim.cycles.queues import front, pop, push, push_at, room, there
from sim.cycles.stalls import stalled
from sim.native.mark import inlined

__all__ = [
    "CHANNELS", "OUTCOME", "PORT", "PORT_QUEUES", "READ", "RUNS", "WRITE", "ask_read", "ask_write",
    "memory", "port_queues", "write_beat",
]

CHANNELS = 5
"""Channels of a memory port, which stall by themselves."""
PORT_QUEUES = 9
UNDER_READ, READ, UNDER_WRITE, RUNS, WRITE, OUTCOME, READS, WRITES, RESPONSES = range(PORT_QUEUES)
"""Queues of a port; the last three are bursts in the memory."""
PORT = (
    "moved",  # the last cycle in which a register changed or was about to
    "reading", "read_row", "ar_valid", "ar_beats", "r_held", "read_left",
    "writing", "write_row", "aw_valid", "aw_beats", "b_held", "write_left", "sent_run",
)

_AR, _AW, _W, _R, _B = range(CHANNELS)  # as in memory.hpp


def port_queues(bursts: int) -> list[tuple[int, int]]:
    """Depth and latency of the queues of a port with so many outstanding bursts."""
    skid, masters, inside = (2, 1), (bursts, 1), (bursts + 1, 1)
    return [masters, skid, masters, masters, skid, skid, inside, inside, inside]


@inlined
def memory(c, e, x, now, read_latency, free):
    """The memory behind a port: an address, a beat, and an answer per cycle and channel; returns
    the number of beats, which there are only if the memory is *free*."""
    below = c.memory_below
    beats = 0
    if e.ar_valid:
        e.moved = now
        if not stalled(e.memory_key[_AR], below, now):
            e.ar_valid = 0
            push_at(e, x, READS, now + read_latency, e.ar_beats)
    if e.aw_valid:
        e.moved = now
        if not stalled(e.memory_key[_AW], below, now):
            e.aw_valid = 0
            push(e, x, WRITES, now, e.aw_beats)
    if not e.r_held and there(e, x, READS, now):
        e.moved = now
        if free and not stalled(e.memory_key[_R], below, now):
            e.r_held = 1
            beats += 1
    if e.r_held and room(e, x, READ, now):
        e.r_held = 0
        push(e, x, READ, now, 0)
        if e.read_left == 0:
            e.read_left = front(e, x, READS)
        e.read_left -= 1
        if e.read_left == 0:
            pop(e, x, READS, now)
            pop(e, x, UNDER_READ, now)
    if there(e, x, WRITES, now) and there(e, x, WRITE, now):
        e.moved = now
        if free and not stalled(e.memory_key[_W], below, now):
            beats += 1
            pop(e, x, WRITE, now)
            if e.write_left == 0:
                e.write_left = front(e, x, WRITES)
            e.write_left -= 1
            if e.write_left == 0:
                pop(e, x, WRITES, now)
                push_at(e, x, RESPONSES, now + c.write_latency, 0)
    if not e.b_held and there(e, x, RESPONSES, now):
        e.moved = now
        if not stalled(e.memory_key[_B], below, now):
            e.b_held = 1
    if e.b_held and room(e, x, OUTCOME, now):
        e.b_held = 0
        pop(e, x, RESPONSES, now)
        if pop(e, x, UNDER_WRITE, now):
            push(e, x, OUTCOME, now, 0)
    return beats


@inlined
def ask_read(c, e, x, now):
    """Offer the address of the next burst that is to be read; True if there was nothing to read."""
    idle = e.reading == 0
    if not idle and not e.ar_valid and room(e, x, UNDER_READ, now):
        beats = min(e.reading, c.burst_beats - e.read_row % c.burst_beats)
        e.reading -= beats
        e.read_row += beats
        e.ar_valid, e.ar_beats = 1, beats
        push(e, x, UNDER_READ, now, 1 if e.reading == 0 else 0)
    return idle


@inlined
def ask_write(c, e, x, now):
    """Offer the address of the next burst that is to be written; True if there was none."""
    idle = e.writing == 0
    if not idle and not e.aw_valid and room(e, x, UNDER_WRITE, now):
        beats = min(e.writing, c.burst_beats - e.write_row % c.burst_beats)
        e.writing -= beats
        e.write_row += beats
        e.aw_valid, e.aw_beats = 1, beats
        push(e, x, RUNS, now, beats)
        push(e, x, UNDER_WRITE, now, 1 if e.writing == 0 else 0)
    return idle


@inlined
def write_beat(e, x, now):
    """Send a beat of the present burst; False if there is no burst, or no room."""
    if not room(e, x, WRITE, now) or not there(e, x, RUNS, now):
        return False
    push(e, x, WRITE, now, 0)
    e.sent_run += 1
    if e.sent_run == front(e, x, RUNS):
        e.sent_run = 0
        pop(e, x, RUNS, now)
    return True
