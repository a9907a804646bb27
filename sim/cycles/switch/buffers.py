# SPDX-License-Identifier: Apache-2.0
"""Whole packets in buffers, and outputs that take them: `send_buffer.py`, `output_port.py`.

Credits and room, which come back after a time, are kept in *pools*: some are there, more are due.
"""

from hw.switch.packet import MOST_PASSED, REOPENING_CYCLES, STOPPED_CYCLES
from sim.cycles.switch.notes import CREDIT, note
from sim.cycles.switch.words import ORDINARY, after, first_of, kind_of
from sim.native.mark import compiled

__all__ = [
    "ask", "asked", "choose", "enter", "give", "has", "length", "move_up", "offer", "ready", "send",
    "serve", "served", "stopped", "take", "turn_of",
]

_DATA = 4  # the bit of a kind
_MOST_PASSED = MOST_PASSED
_CHANGES = 2  # cycles from a grant to a buffer that has changed
_STOPPED, _REOPENING = STOPPED_CYCLES, REOPENING_CYCLES


@compiled
def has(s, pool, now):
    """True if a pool can give one: it is not empty, and has reopened if it was empty for long."""
    _collect(s, pool, now)
    p = s.pool[pool]
    return p.level > 0 and now >= p.opens_at


@compiled
def ready(s, pool, now):
    """The same as it is known for choices: if the last one was taken in the cycle before, that is
    not."""
    return has(s, pool, now) or (s.pool[pool].level == 0 and s.pool[pool].emptied == now - 1)


@compiled
def stopped(s, pool, now):
    """True if a pool has been empty for long: `StopDetector`."""
    _collect(s, pool, now)
    p = s.pool[pool]
    if p.level > 0:
        return now == p.opens_at - _REOPENING
    return p.watched and now - p.emptied > _STOPPED


@compiled
def _collect(s, pool, now):
    """Add what has come back."""
    p = s.pool[pool]
    mask = s.due.shape[1] - 1
    while p.first < p.free and s.due[pool, p.first & mask] <= now:
        if p.level == 0 and p.watched and s.due[pool, p.first & mask] - p.emptied > _STOPPED:
            p.opens_at = s.due[pool, p.first & mask] + _REOPENING
        p.first += 1
        p.level += 1


@compiled
def take(s, pool):
    """Take one of a pool that has some."""
    s.pool[pool].level -= 1


@compiled
def give(s, pool, cycle):
    """Give one back, which is there from *cycle* on. Cycles do not decrease."""
    p = s.pool[pool]
    s.due[pool, p.free & s.due.shape[1] - 1] = cycle
    p.free += 1


@compiled
def length(s, word):
    """Flits of a packet with this header."""
    return s.c[0].flits if kind_of(word) & _DATA else 1


@compiled
def enter(s, b, committed, word, low, high, targets):
    """Enter a packet into a buffer; its last flit is stored in cycle *committed*."""
    k = word & 3
    u = s.buffer[b]
    slot = u.free[k] & s.held.shape[2] - 1
    packet = s.held[b, k, slot]
    packet.at, packet.header, packet.targets = committed, word, targets
    packet.low, packet.high = low, high
    u.free[k] += 1


@compiled
def asked(s, b, now):
    """Outputs that a buffer requests in this cycle, as it chose in the one before; none if one was
    granted meanwhile."""
    u = s.buffer[b]
    u.pending = -1
    if u.busy > now:
        return 0
    u.channel, u.place = u.chosen_channel, u.chosen
    if u.request and kind_of(_header(s, u, b, u.channel, u.place)) & _DATA == 0:
        u.pending = u.channel
    return u.request


@compiled
def _header(s, u, b, k, place):
    """The header of a packet of a class."""
    return s.held[b, k, u.first[k] + place & s.held.shape[2] - 1].header


@compiled
def _may_leave(u, k, now):
    """True if a packet of a class may be leaving: one that is a header alone asks now, or one was
    granted in the cycle before. Behind packets with data nothing else is read."""
    return u.pending == k or u.changed[k] > now


@compiled
def choose(s, b, k, wanted):
    """Request outputs for a packet of class *k* in the next cycle."""
    u = s.buffer[b]
    u.request, u.chosen_channel = wanted, k


@compiled
def ask(s, b, now, first, second, third, late_second, late_third):
    """The class for which a buffer is to request outputs, of those that are available to each; -1
    for none. *late_...*: outputs that have stopped."""
    u = s.buffer[b]
    if u.busy > now:
        return -1
    wanted = 0
    if u.rest[0] & first and not _may_leave(u, 0, now):
        wanted |= 1
    if _limit(s, u, b, 1, late_second) & second and not _may_leave(u, 1, now):
        wanted |= 2
    if _limit(s, u, b, 2, late_third) & third and not _may_leave(u, 2, now):
        wanted |= 4
    return first_of(wanted, turn_of(u, now))


@compiled
def turn_of(x, now):
    """Who goes first of those that a buffer, or an output, chooses from: who is served is counted a
    cycle later."""
    return x.turn if x.served_at < now - 1 else x.turn_before


@compiled
def served(x, turn, now):
    """Somebody is served, so that *turn* goes first."""
    x.turn_before, x.turn, x.served_at = x.turn, turn, now


@compiled
def _limit(s, u, b, k, late):
    """Outputs that a class may request: those of all its packets, or of the oldest alone."""
    if u.seen[k] > u.first[k] and _waits(s, u, b, k, late):
        return s.held[b, k, u.first[k] & s.held.shape[2] - 1].targets
    return u.rest[k]


@compiled
def _waits(s, u, b, k, late):
    """True if all packets of a class wait for the oldest: others have passed it often enough, and
    one of its outputs has not stopped."""
    if u.passed[k] < _MOST_PASSED:
        return False
    return s.held[b, k, u.first[k] & s.held.shape[2] - 1].targets & ~late != 0


@compiled
def _end(s, u, k):
    """End of the packets of a class that may request: behind all, or behind the oldest."""
    return u.seen[k] if s.c[0].passing >> k & 1 else min(u.seen[k], u.first[k] + 1)


@compiled
def offer(s, b, k, free, late):
    """The free outputs that a class is to request: those of the oldest packet that is next for any
    of them; it may pass older ones."""
    u = s.buffer[b]
    older = 0
    end = _end(s, u, k)
    if _waits(s, u, b, k, late):
        end = min(end, u.first[k] + 1)
    for i in range(u.first[k], end):
        rest = s.held[b, k, i & s.held.shape[2] - 1].targets
        wanted = rest & free & ~older
        if wanted:
            u.chosen = i - u.first[k]
            return wanted
        older |= rest
    return 0


@compiled
def serve(s, b, k, granted, now):
    """Outputs take the packet that requested them; it leaves when all of its outputs have."""
    u = s.buffer[b]
    mask = s.held.shape[2] - 1
    place = u.first[k] + u.place
    flits = length(s, s.held[b, k, place & mask].header)
    served(u, after(k), now)
    if flits > 1:
        u.busy = now + max(flits - 1, _CHANGES)
    u.changed[k] = now + _CHANGES
    u.passed[k] = u.passed[k] + 1 if u.place else 0
    s.held[b, k, place & mask].targets &= ~granted
    if s.held[b, k, place & mask].targets == 0:
        while place > u.first[k]:  # those before close up
            s.held[b, k, place & mask] = s.held[b, k, place - 1 & mask]
            place -= 1
        u.first[k] += 1
        if u.sender:
            note(s, CREDIT, u.sender - 1, now + flits + 1, k, 0, 0, 0, 0)
        else:
            give(s, u.pool + k, now + flits + u.refund)
    u.rest[k] = 0
    for i in range(u.first[k], _end(s, u, k)):
        u.rest[k] |= s.held[b, k, i & mask].targets


@compiled
def move_up(s, b, now):
    """Let packets that have been committed request outputs from the next cycle on."""
    u = s.buffer[b]
    for k in range(3):
        while u.seen[k] < u.free[k]:
            slot = u.seen[k] & s.held.shape[2] - 1
            packet = s.held[b, k, slot]
            if packet.at >= now:
                break
            if u.seen[k] == u.first[k] or s.c[0].passing >> k & 1:
                u.rest[k] |= packet.targets
            u.seen[k] += 1


@compiled
def send(s, o, b, k, now):
    """Output *o* takes the packet that requested it. Returns its slot in the buffer."""
    out = s.output[o]
    slot = s.buffer[b].first[k] + s.buffer[b].place & s.held.shape[2] - 1
    word = s.held[b, k, slot].header
    flits = length(s, word)
    pool = out.pool + (k if out.classes > 1 else 0)
    take(s, pool)
    s.pool[pool].emptied = now
    out.open_at = now + flits + (out.beside >> kind_of(word) & 1)
    out.flits += flits
    if word & ORDINARY:
        out.ordinary += flits
    return slot
