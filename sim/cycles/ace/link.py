# SPDX-License-Identifier: Apache-2.0
"""Transmit port and link: two queues of whole packets, credits, and flits packed into beats."""

from sim.cycles.ace.events import (
    ARRIVE,
    CREDIT,
    FAULT,
    FLUSH,
    LOG_FULL,
    LOGGED,
    ROOM,
    TRANSMIT,
    post,
)
from sim.cycles.ace.words import FLITS, field
from sim.cycles.queues import NEVER
from sim.cycles.stalls import unstalled, used
from sim.native.mark import compiled

__all__ = ["flush", "give_credit", "put_packet", "transmit"]

LOG_BEAT, LOG_PACKET, LOG_CREDIT = range(3)
OUTSIDE, TRACED = 1, 2  # values of `external`: the other end of a link is outside, or traced
PATIENCE = 9  # cycles after its last packet in which a packer sends what it holds


@compiled
def _accepted(q, cycle):
    """The cycle in which the link takes a beat that is offered from *cycle* on."""
    if q.pace > 0 and q.pace_next >= (cycle + 1) << 16:
        cycle = q.pace_next >> 16
    cycle = unstalled(q.stall_key, q.stall_below, cycle)
    q.pace_next = used(q.pace_next, q.pace, cycle)
    return cycle


@compiled
def _note(s, kind, node, p, cycle, value):
    """Log a beat, packet or credit of a link that is traced or leads to a node outside."""
    at = s.registers[LOGGED]
    if at == s.log.size:
        s.registers[FAULT] = LOG_FULL
        return
    s.registers[LOGGED] = at + 1
    s.log[at].kind = kind
    s.log[at].node = node
    s.log[at].port = p
    s.log[at].cycle = cycle
    s.log[at].value = value


@compiled
def _emit(s, node, p, cycle, flits):
    """The packer forms a beat in *cycle*; packets whose last flit is in it are on their way."""
    q = s.port[node, p]
    accepted = _accepted(q, cycle + 1)
    q.accepted = accepted
    if q.beats == 0:
        q.first_beat = accepted
    q.beats += 1
    q.flits += flits
    q.stalled += accepted - cycle - 1
    held = q.held_packets
    gone = headers = 0
    inside = q.external != OUTSIDE
    r = s.port[q.peer, q.peer_port]
    arrives = accepted + q.latency
    if inside:
        beat = s.beat[q.peer, q.peer_port, r.beat_tail % s.beat.shape[2]]
        beat.at, beat.flits = arrives, flits
        r.beat_tail += 1
    room = s.arriving.shape[2]
    for n in range(q.packed):
        packet = held[n]
        start = packet.left - field(packet.word, FLITS, 8) - 1  # flits before its header
        packet.left -= flits
        if 0 <= start < flits:
            headers += 1
            if inside:
                entry = s.arriving[q.peer, q.peer_port, r.tail % room]
                entry.word, entry.ends = packet.word, NEVER
                r.tail += 1
        if packet.left <= 0:
            gone += 1
            if inside:
                s.arriving[q.peer, q.peer_port, r.ended % room].ends = arrives
                r.ended += 1
    if gone and inside:
        post(s, arrives, ARRIVE, q.peer, q.peer_port)
    if gone:
        for n in range(gone, q.packed):
            held[n - gone] = held[n]
        q.packed -= gone
    if q.external:
        _note(s, LOG_BEAT, node, p, accepted, flits | headers << 8)


@compiled
def put_packet(s, node, p, queue, word, written):
    """The last beat of a packet, for which room has been reserved, is written in this cycle."""
    c = s.c[0]
    q = s.port[node, p]
    ready = written + c.headers
    flits = field(word, FLITS, 8)
    if 0 < flits <= c.flits:
        ready = written + max(c.headers, c.payloads)  # its only beat
    room = s.queue.shape[3]
    at = (q.head[queue] + q.count[queue]) % room
    q.count[queue] += 1
    entry = s.queue[node, p, queue, at]
    entry.word, entry.seen, entry.ready = word, written + c.headers, ready
    post(s, ready, TRANSMIT, node, p)


@compiled
def transmit(s, node, p, now):
    """The packer takes the next packet, forwarded ones first, if there is credit for it."""
    q = s.port[node, p]
    if now < q.packer_free or q.credits == 0:
        return
    room = s.queue.shape[3]
    # One whose header is there goes first, also if its payload is not yet.
    queue = 0 if q.count[0] and s.queue[node, p, 0, q.head[0]].seen <= now else 1
    if q.count[queue] == 0 or s.queue[node, p, queue, q.head[queue]].ready > now:
        return
    word = s.queue[node, p, queue, q.head[queue]].word
    q.head[queue] = (q.head[queue] + 1) % room
    q.count[queue] -= 1
    q.credits -= 1
    q.packets += 1
    flits = s.c[0].flits
    left = field(word, FLITS, 8)
    if q.external == OUTSIDE:
        _note(s, LOG_PACKET, node, p, now, word)
    packet = q.held_packets[q.packed]
    packet.word, packet.left = word, q.level + 1 + left
    q.packed += 1
    cycle = now
    header = 1
    while True:
        cycle = max(cycle, q.accepted)
        arriving = header + min(left, flits)
        if q.level + arriving > 2 * flits:
            _emit(s, node, p, cycle, flits)
            q.level -= flits
            cycle += 1
            continue
        total = q.level + arriving
        if total >= flits:
            _emit(s, node, p, cycle, flits)
            total -= flits
        elif header and cycle == now and now in (q.flush_at, q.flushed_at + 1):
            # Patience has just run out, or is anew from the next cycle on. An offer while the link
            # stalls ends it.
            _emit(s, node, p, cycle, total)
            total = 0
        q.level = total
        left -= arriving - header
        header = 0
        if left == 0:
            break
        cycle += 1
    q.packer_free = cycle + 1
    # The queue has room for another packet from the cycle after the next one on.
    post(s, cycle + 2, ROOM, node, p << 1 | queue)
    post(s, cycle + 1, TRANSMIT, node, p)
    q.flush_at = -1
    if q.level > 0:
        q.flush_at = cycle + (1 if q.level >= flits else PATIENCE)
        post(s, q.flush_at, FLUSH, node, p)
    q.waiting = cycle


@compiled
def flush(s, node, p, now):
    """The packer sends what it holds: a whole beat at once, less after some patience."""
    q = s.port[node, p]
    if now != q.flush_at:
        return
    if now < q.accepted:
        q.flush_at = q.accepted
        post(s, q.accepted, FLUSH, node, p)
        return
    flits = min(q.level, s.c[0].flits)
    if flits < s.c[0].flits:
        q.flushed_at = now
    _emit(s, node, p, now, flits)
    q.level -= flits
    q.flush_at = -1
    if q.level > 0:
        q.flush_at = max(now + 1, q.waiting + PATIENCE)
        post(s, q.flush_at, FLUSH, node, p)


@compiled
def give_credit(s, node, p, cycle):
    """A packet of the receive buffer has been consumed: its credit leaves in *cycle* or later."""
    q = s.port[node, p]
    cycle = max(cycle, q.credit_free)
    q.credit_free = cycle + 1
    if q.external == OUTSIDE:
        _note(s, LOG_CREDIT, node, p, cycle, 0)
    else:
        post(s, cycle + q.latency + s.c[0].credit, CREDIT, q.peer, q.peer_port)
