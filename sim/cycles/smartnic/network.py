# SPDX-License-Identifier: Apache-2.0
"""Frames: `transmit.py`, `receive.py`, links, and the switch of ``sim/rtl/smartnic/port.py``."""

from sim.cycles.queues import front, pop, push, push_at, room, there
from sim.cycles.smartnic.state import FRAMES, OUT, RX, TX, WIRE
from sim.cycles.smartnic.words import (
    BLOCK_END,
    COUNT_MASK,
    CREDIT,
    HEADER,
    LAST,
    TAIL,
    credit_word,
    frame_word,
    freed_of,
    kind_of,
    payload_of,
)
from sim.cycles.stalls import free_at, stalled, used
from sim.native.mark import compiled

__all__ = ["OUTSIDE", "TRACED", "deliver", "receive", "transmit"]

_NOTHING, _CREDITS = -1, 2  # choices beside the two flows
OUTSIDE, TRACED = 1, 2  # values of `watched`: a link leads outside, or is traced
_EXAMINATION = 4  # cycles from a frame's last beat under examination to its first at a flow


@compiled
def transmit(c, e, x, now):
    """Send a header, then its payload, and meanwhile choose the next frame.

    Returns the beat that a link takes in this cycle, or 0.
    """
    token = _cross(c, e, x, now)
    taken = False
    if room(e, x, OUT, now):
        if e.left == 0:
            if e.chosen:
                taken = True
                e.left, e.payload = e.chosen_beats, e.chosen
                push(e, x, OUT, now, e.chosen | HEADER | (TAIL if e.left == 0 else 0))
        else:
            kind = kind_of(e.payload)
            queue = TX + kind - 1
            if kind == CREDIT or there(e, x, queue, now):
                if kind != CREDIT:
                    pop(e, x, queue, now)
                e.left -= 1
                push(e, x, OUT, now, e.payload | (TAIL if e.left == 0 else 0))
    choice = _NOTHING
    if taken or not e.chosen:
        choice = _choose(c, e, x, now)
    _look_ahead(c, e, x, now, choice)
    return token


@compiled
def _freed(e, flow, now):
    """Beats taken from a receive buffer; those of this cycle count in the next one."""
    return e.head[RX + flow] - int(e.popped[RX + flow] == now)


@compiled
def _look_ahead(c, e, x, now, choice):
    """Find out for the next cycle what may be chosen in it, beside the *choice* of this one."""
    for f in range(2):
        fits = False
        if choice != f and there(e, x, FRAMES + f, now):
            beats = front(e, x, FRAMES + f) >> 1
            fits = e.sent[f] + beats - e.peer_freed[f] <= c.receive_beats
        if fits != (e.fits[f] != 0):
            e.fits[f] = int(fits)
            e.moved = now
    due = choice != _CREDITS and (
        _freed(e, 0, now) - e.told[0] >= c.credit_beats
        or _freed(e, 1, now) - e.told[1] >= c.credit_beats
    )
    if due != (e.credit_due != 0):
        e.credit_due = int(due)
        e.moved = now


@compiled
def _choose(c, e, x, now):
    """Choose the next frame: a credit frame first, else of the flows in turn, if the next node has
    room. Returns the flow, `_CREDITS` or `_NOTHING`."""
    e.chosen = 0
    if e.credit_due:
        reduced, gathered = _freed(e, 0, now), _freed(e, 1, now)
        e.told[0], e.told[1] = reduced, gathered
        e.chosen = credit_word(c.control_beats, reduced, gathered)
        e.chosen_beats = c.control_beats
        e.moved = now
        return _CREDITS
    if e.fits[0] and e.fits[1]:
        flow = 1 - e.turn
    elif e.fits[0] or e.fits[1]:
        flow = 0 if e.fits[0] else 1
    else:
        return _NOTHING
    frame = pop(e, x, FRAMES + flow, now)
    e.turn = flow
    e.chosen_beats = frame >> 1
    e.sent[flow] += frame >> 1
    e.chosen = frame_word(flow + 1, frame >> 1, frame & 1)
    return flow


@compiled
def _cross(c, e, x, now):
    """Return the beat that a link takes, or 0: data to the next node, credits to the previous."""
    if not there(e, x, OUT, now):
        return 0
    e.moved = now
    token = front(e, x, OUT)
    link = 1 if kind_of(token) == CREDIT else 0
    if (c.pace > 0 and not free_at(e.link_free[link], now)) or stalled(
        e.link_key[link], c.link_below, now
    ):
        e.stalled[link] += 1
        return 0
    pop(e, x, OUT, now)
    e.link_free[link] = used(e.link_free[link], c.pace, now)
    if e.beats[link] == 0:
        e.first[link] = now
    e.last[link] = now
    e.beats[link] += 1
    e.frames[link] += token & HEADER
    return token


@compiled
def deliver(s, u, now, token):
    """Put a beat that a link has taken on its way, and into the log if the link is watched."""
    e = s.engine[u]
    link = 1 if kind_of(token) == CREDIT else 0
    watched = e.watched[link]
    if watched:
        at = s.logged[0]
        s.logged[0] = at + 1
        s.log[at].engine, s.log[at].link = u, link
        s.log[at].cycle, s.log[at].token = now, token
    if watched != OUTSIDE:
        peer = s.engine[e.peer[link]]
        cycle = now + peer.latency[WIRE]
        push_at(peer, s.slots, WIRE + 1 - link, cycle, token)
        node = s.node[e.peer[link] // s.c[0].engines]
        node.sleep = min(node.sleep, cycle)


@compiled
def receive(e, x, now):
    """Take beats from the switch's exit, where frames of both neighbours take turns."""
    if e.credited >= 0:
        for flow in range(2):
            told = freed_of(e.credited, flow)
            e.peer_freed[flow] += (told - e.peer_freed[flow]) & COUNT_MASK
        e.credited = -1
        e.moved = now
    if e.examined >= 0:
        _examine(e, x, now)
        e.examined = -1
    link = e.source
    if link < 0:
        link = 0 if there(e, x, WIRE, now) else 1
    if not there(e, x, WIRE + link, now):
        return
    token = pop(e, x, WIRE + link, now)
    e.source = -1 if token & TAIL else link
    e.examined = token


@compiled
def _examine(e, x, now):
    token = e.examined
    e.moved = now
    if not token & TAIL:
        return
    kind = kind_of(token)
    if kind == CREDIT:
        e.credited = token
        return
    beats = payload_of(token)
    for k in range(beats):
        last = LAST if k == beats - 1 and token & BLOCK_END else 0
        push_at(e, x, RX + kind - 1, now + _EXAMINATION, last)
