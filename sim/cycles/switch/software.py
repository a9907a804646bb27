# SPDX-License-Identifier: Apache-2.0
"""Endpoints whose software sends messages: the network is the same, packets go to one endpoint.

A message is a number of packets on every link. With *fence*, data are followed by a flag that the
sender may send only when all data were acknowledged; without, the data bring their flag.
"""

from sim.cycles.switch.buffers import ask, asked, choose, enter, has, move_up, serve, take
from sim.cycles.switch.crossbar import TAKEN_AT_ONCE
from sim.cycles.switch.lane import transmit
from sim.cycles.switch.words import ALONE, MESSAGE, count_of, header, number_of
from sim.native.mark import compiled

__all__ = ["software"]

_DATA, _LAST, _ACKNOWLEDGED, _FLAG = range(4)  # kinds of packets, in place of the count
_CLASS = 1  # of all packets


@compiled
def software(s, endpoint, now):
    """Simulate one cycle of an endpoint; returns 1 if messages are still to reach it, else 0."""
    c = s.c[0]
    p = s.endpoint[endpoint]
    while p.woken < p.arrived and s.arrived[endpoint, p.woken].at <= now:
        message = s.arrived[endpoint, p.woken].message
        p.woken += 1
        p.missing -= 1
        for k in range(s.message[message].follow_at, s.message[message].follow_end):
            _release(s, s.follow[k])
    for n in range(endpoint * c.links, (endpoint + 1) * c.links):
        _fill(s, endpoint, n, now)
        transmit(s, n, now)
        _receive(s, endpoint, n, now)
    return 1 if p.missing > 0 else 0


@compiled
def _release(s, message):
    """One of the messages that *message* waits for has come."""
    m = s.message[message]
    m.waits -= 1
    if m.waits == 0:
        p = s.endpoint[m.source]
        s.ready[m.source, p.ready] = message
        p.ready += 1


@compiled
def _fill(s, endpoint, n, now):
    """Put the next packet into the send buffer: notes first, then messages in turn."""
    c, e = s.c[0], s.sender[n]
    b = c.send_buffer + n
    if now < e.open_at or not has(s, s.buffer[b].pool + _CLASS, now):
        return
    if e.told < e.noted:
        word = s.note[n, e.told & s.note.shape[1] - 1]
        e.told += 1
        e.open_at = now + 1
        take(s, s.buffer[b].pool + _CLASS)
        enter(s, b, now, word, 0, 0, 1)
        return
    if e.message >= s.endpoint[endpoint].ready:
        return
    number = s.ready[endpoint, e.message]
    m = s.message[number]
    e.sent += 1
    what = _DATA
    if e.sent == m.packets:
        what = _LAST
        e.sent = 0
        e.message += 1
    e.open_at = now + c.flits
    take(s, s.buffer[b].pool + _CLASS)
    enter(s, b, now + c.flits - 1, header(MESSAGE, 0, m.target, what, number), 0, 0, 1)


@compiled
def _note(s, n, to, what, number):
    """Note a packet without data that is to be sent."""
    e = s.sender[n]
    if e.noted - e.told == s.note.shape[1]:
        s.c[0].wrong += 1
        return
    s.note[n, e.noted & s.note.shape[1] - 1] = header(ALONE, 0, to, what, number)
    e.noted += 1


@compiled
def _receive(s, endpoint, n, now):
    """Packets are taken as they come."""
    c = s.c[0]
    b = c.receive_buffer + n
    granted = asked(s, b, now)
    wanted = 1 if ask(s, b, now, 0, TAKEN_AT_ONCE | 2, 0, 0, 0) >= 0 else 0
    choose(s, b, _CLASS, wanted)
    if granted:
        u = s.buffer[b]
        word = s.held[b, _CLASS, u.first[_CLASS] & s.held.shape[2] - 1].header
        serve(s, b, _CLASS, TAKEN_AT_ONCE | 2, now)
        what, number = count_of(word), number_of(word)
        m = s.message[number]
        if what == _LAST and c.fence:
            _note(s, n, m.source, _ACKNOWLEDGED, number)
        elif what == _LAST or what == _ACKNOWLEDGED:
            m.shares += 1
            if m.shares == c.links:
                if what == _LAST:
                    _arrive(s, number, now)
                else:
                    _note(s, n, m.target, _FLAG, number)
        elif what == _FLAG:
            _arrive(s, number, now)
    move_up(s, b, now)


@compiled
def _arrive(s, number, now):
    """A message has arrived, with its flag; the software sees it some cycles later."""
    target = s.message[number].target
    p = s.endpoint[target]
    arrival = s.arrived[target, p.arrived]
    arrival.at, arrival.message = now + s.c[0].work, number
    p.arrived += 1
