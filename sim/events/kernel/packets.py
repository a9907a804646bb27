# SPDX-License-Identifier: Apache-2.0
"""Packets, flits, virtual channels and credits: messages on the network at packet granularity.

A message waits in the *injection port* of the first link of its route and is cut into packets, one
at a time. A packet needs a free *place* in a virtual channel (VC) at the far end of a link, and
holds it until its last flit has left that buffer and the credit for it is back. A VC has as many
places as whole packets fit into its buffer, and packets cross a link as one *unit* (virtual
cut-through). A packet longer than the buffer has the VC to itself and crosses flit by flit
(wormhole), every flit needing room. A link sends one unit at a time, in the order of requests; a
port asks again for its next packet when it has been served, so ports take turns.

A link that is free while a packet waits for a place or for room is *starved*; that time is counted.

A *lane* is one class of the VCs of a link, a *port* the queue of packets that come from one lane
(or from the node) and go to another: no packet waits behind one that goes elsewhere. Nothing
depends on the numbers of nodes, links or ports: requests of equal time are ordered by the key of
the message.
"""

from typing import Any, NamedTuple

import numpy as np

from sim.events.kernel.common import push_event
from sim.events.kernel.constants import PACKET
from sim.native.mark import compiled

__all__ = [
    "LANE",
    "MESSAGE",
    "PORT",
    "SEGMENT",
    "WIRE",
    "PacketState",
    "inject",
    "packet_event",
]

I8, I4 = np.int64, np.int32

# A message on its way. `route`: index of its first lane and port; `to_send` in bytes, `to_come` in
# packets.
MESSAGE = np.dtype(
    [
        ("key", I8),
        ("route", I8),
        ("to_send", I8),
        ("to_come", I8),
        ("begun", I8),
        ("arrival", I8),
        ("packet", I4),
        ("node", I4),
        ("hops", I4),
        ("next", I4),
    ]
)
# A packet at one vertex of its route: how much of it is there and how much has gone on. `held` is
# the lane whose VC it sits in, `up` the segment behind it, `down` the one ahead, `room` what is
# free in the VC that it sends to. Counts are of units, `flits` of flits per unit.
SEGMENT = np.dtype(
    [
        ("message", I4),
        ("hop", I4),
        ("bytes", I4),
        ("flits", I4),
        ("units", I4),
        ("arrived", I4),
        ("sent", I4),
        ("room", I4),
        ("held", I4),
        ("up", I4),
        ("down", I4),
        ("next", I4),
        ("moving", I4),
        ("queued", I4),
        ("since", I8),
    ]
)
# `first`, `last`: of its packets (messages, if it is an injection port); `next` asking port.
PORT = np.dtype(
    [("first", I4), ("last", I4), ("next", I4), ("lane", I4), ("injects", I4), ("since", I8)]
)
# Free places in VCs, all of them, and the ports that ask for one.
LANE = np.dtype([("free", I4), ("places", I4), ("first", I4), ("last", I4)])
# Beside the link: when it is free, when it is to be looked at again, packets that hold a VC and
# have a unit to send. `blocked`: packets that hold one and have a unit, but no room for it;
# `starves`: since when the link has been starved, -1 if it is not; `starved`: for how long so far.
WIRE = np.dtype(
    [("free", I8), ("wake", I8), ("flit_fs", I8), ("latency_fs", I8), ("credit_fs", I8),
     ("first", I4), ("last", I4), ("blocked", I8), ("starves", I8), ("starved", I8)]
)

# Numbers.
NODES, FLIT, BUFFERS, MESSAGE_TOP, MESSAGE_FREE, SEGMENT_TOP, SEGMENT_FREE, LIVE = range(8)

# Keys of events that belong to no message; they come before all others of their time: first all
# VCs and credits that come free, then the links that have something to send.
HOP_AT = 3
VC_FREE, LOOK = -9, -1
BLOCKED = 2  # value of `queued`: it would be, if there were room
CREDIT = -(1 << 63)
KEY = ~((255 << HOP_AT) | 7)


class PacketState(NamedTuple):
    """Arrays of the network at packet granularity; ``lane_of`` and ``port_of`` are laid out like
    ``links`` of the message kernel."""

    packet_numbers: Any
    packet_messages: Any
    packet_segments: Any
    ports: Any
    lanes: Any
    wires: Any
    lane_of: Any
    port_of: Any
    packet_bytes: Any


@compiled
def inject(s, p, now, key, node, route, hops, packet, amount):
    """Queue a message at the injection port of its route; returns False if there is no room."""
    number = p.packet_numbers
    message = number[MESSAGE_FREE]
    if message >= 0:
        number[MESSAGE_FREE] = p.packet_messages[message].next
    else:
        message = number[MESSAGE_TOP]
        if message == len(p.packet_messages):
            return False
        number[MESSAGE_TOP] = message + 1
    number[LIVE] += 1
    p.packet_messages[message].key = key & KEY
    p.packet_messages[message].route = route
    p.packet_messages[message].to_send = amount
    p.packet_messages[message].to_come = max(1, -(-amount // packet))
    p.packet_messages[message].begun = now
    p.packet_messages[message].arrival = 0
    p.packet_messages[message].packet = packet
    p.packet_messages[message].node = node
    p.packet_messages[message].hops = hops
    p.packet_messages[message].next = -1
    port = p.port_of[route]
    if p.ports[port].first < 0:
        p.ports[port].first = message
        p.ports[port].last = message
        _ask(p.ports, p.lanes, port, now)
        wire = p.lane_of[route] >> 1
        _look(s, p.wires, wire, now)
    else:
        p.packet_messages[p.ports[port].last].next = message
        p.ports[port].last = message
    return True


@compiled
def _ask(ports, lanes, port, now):
    """The port asks for a VC of its lane, after those that have asked before."""
    ports[port].since = now
    ports[port].next = -1
    lane = ports[port].lane
    if lanes[lane].first < 0:
        lanes[lane].first = port
    else:
        ports[lanes[lane].last].next = port
    lanes[lane].last = port


@compiled
def _look(s, wires, wire, now):
    """Schedule a look at the link as soon as it is free."""
    time = max(now, wires[wire].free)
    if wires[wire].wake != time:
        wires[wire].wake = time
        push_event(s, time, np.int64(LOOK), wire)


@compiled
def _move(p, segment, wire, now):
    """Queue a packet that holds a VC, if it can send a unit; returns whether it was queued."""
    sent = p.packet_segments[segment]
    if sent.moving == 0 or sent.queued or sent.arrived == sent.sent:
        return False
    if sent.room == 0:
        p.wires[wire].blocked += 1
        p.packet_segments[segment].queued = BLOCKED
        if p.wires[wire].starves < 0:
            p.wires[wire].starves = max(now, p.wires[wire].free)
        return False
    p.packet_segments[segment].queued = 1
    p.packet_segments[segment].since = now
    p.packet_segments[segment].next = -1
    if p.wires[wire].first < 0:
        p.wires[wire].first = segment
    else:
        p.packet_segments[p.wires[wire].last].next = segment
    p.wires[wire].last = segment
    return True


@compiled
def _segment(p):
    """A record for a packet at one more vertex; -1 if there is none."""
    number = p.packet_numbers
    segment = number[SEGMENT_FREE]
    if segment >= 0:
        number[SEGMENT_FREE] = p.packet_segments[segment].next
    else:
        segment = number[SEGMENT_TOP]
        if segment == len(p.packet_segments):
            return np.int64(-1)
        number[SEGMENT_TOP] = segment + 1
    return segment


@compiled
def packet_event(s, p, now, key, item):
    """Handle one event of the packet network; at most one link sends one unit.

    Returns (message, link, busy time, payload, arrival): message -1 if nothing was sent, -2 if
    memory does not suffice; arrival -1 unless the message is complete at that time. A complete
    message is given up: its record may be read until the next call only.
    """
    nothing = (np.int64(-1), np.int64(0), np.int64(0), np.int64(0), np.int64(-1))
    if key == VC_FREE:
        p.lanes[item].free += 1
        if p.lanes[item].first >= 0:
            _look(s, p.wires, item >> 1, now)
        return nothing
    if key == LOOK:
        wire = np.int64(item)
        if p.wires[wire].wake == now:
            p.wires[wire].wake = -1
    else:
        # A unit arrives at a vertex, or room is free at the next one.
        segment = np.int64(item)
        message = p.packet_segments[segment].message
        hop = p.packet_segments[segment].hop
        at = p.packet_messages[message].route + hop * p.packet_numbers[NODES]
        wire = np.int64(p.lane_of[at] >> 1)
        if key < 0:
            p.packet_segments[segment].room += 1
            if p.packet_segments[segment].queued == BLOCKED:
                p.packet_segments[segment].queued = 0
                p.wires[wire].blocked -= 1
            if not _move(p, segment, wire, now):
                return nothing
        else:
            p.packet_segments[segment].arrived += 1
            if p.packet_segments[segment].arrived > 1:
                if not _move(p, segment, wire, now):
                    return nothing
            else:
                port = p.port_of[at]
                p.packet_segments[segment].next = -1
                if p.ports[port].first >= 0:
                    p.packet_segments[p.ports[port].last].next = segment
                    p.ports[port].last = segment
                    return nothing
                p.ports[port].first = segment
                p.ports[port].last = segment
                _ask(p.ports, p.lanes, port, now)
    if p.wires[wire].free > now:
        _look(s, p.wires, wire, now)
        return nothing
    return _send(s, p, now, wire)


@compiled
def _send(s, p, now, wire):
    """Send a unit over a link that is free, if there is one that may go."""
    nothing = (np.int64(-1), np.int64(0), np.int64(0), np.int64(0), np.int64(-1))
    number = p.packet_numbers
    n_nodes = number[NODES]
    # The first request wins; ties go to packets that hold a VC, then to those past a dateline.
    segment = np.int64(p.wires[wire].first)
    oldest = p.packet_segments[segment].since if segment >= 0 else np.int64(1) << 62
    lane = np.int64(-1)
    for other in (2 * wire + 1, 2 * wire):
        if p.lanes[other].free > 0 and p.lanes[other].first >= 0:
            since = p.ports[p.lanes[other].first].since
            if since < oldest:
                oldest = since
                lane = other
    if lane >= 0:
        port = np.int64(p.lanes[lane].first)
        p.lanes[lane].first = p.ports[port].next
        p.lanes[lane].free -= 1
        if p.ports[port].injects:
            segment = _segment(p)
            if segment < 0:
                return (np.int64(-2), wire, np.int64(0), np.int64(0), np.int64(-1))
            message = p.ports[port].first
            size = min(p.packet_messages[message].to_send, p.packet_messages[message].packet)
            p.packet_messages[message].to_send -= size
            if p.packet_messages[message].to_send <= 0:
                p.ports[port].first = p.packet_messages[message].next
            flits = max(1, -(-size // number[FLIT]))
            whole = flits <= number[BUFFERS]
            p.packet_segments[segment].message = message
            p.packet_segments[segment].hop = 0
            p.packet_segments[segment].bytes = size
            p.packet_segments[segment].flits = flits if whole else 1
            p.packet_segments[segment].units = 1 if whole else flits
            p.packet_segments[segment].arrived = p.packet_segments[segment].units
            p.packet_segments[segment].held = -1
            p.packet_segments[segment].up = -1
            p.packet_segments[segment].next = -1
        else:
            segment = np.int64(p.ports[port].first)
            p.ports[port].first = p.packet_segments[segment].next
        p.packet_segments[segment].sent = 0
        p.packet_segments[segment].room = (
            1 if p.packet_segments[segment].units == 1 else number[BUFFERS]
        )
        p.packet_segments[segment].moving = 1
        p.packet_segments[segment].queued = 0
        if p.ports[port].first >= 0:
            _ask(p.ports, p.lanes, port, now)
    elif segment >= 0:
        p.wires[wire].first = p.packet_segments[segment].next
        p.packet_segments[segment].queued = 0
        at = p.packet_messages[p.packet_segments[segment].message].route
        lane = np.int64(p.lane_of[at + p.packet_segments[segment].hop * n_nodes])
    else:
        waits = p.lanes[2 * wire].first >= 0 or p.lanes[2 * wire + 1].first >= 0
        if waits and p.wires[wire].starves < 0:
            p.wires[wire].starves = now
        return nothing
    if p.wires[wire].starves >= 0:
        p.wires[wire].starved += max(0, now - p.wires[wire].starves)
        p.wires[wire].starves = -1

    message = np.int64(p.packet_segments[segment].message)
    hop = np.int64(p.packet_segments[segment].hop)
    units = p.packet_segments[segment].units
    unit = p.packet_segments[segment].sent
    flits = p.packet_segments[segment].flits
    flit_fs = p.wires[wire].flit_fs
    busy = flits * flit_fs
    p.packet_segments[segment].sent = unit + 1
    p.packet_segments[segment].room -= 1
    p.wires[wire].free = now + busy
    # Room is given back for those units only that are waited for.
    needed = unit + number[BUFFERS] < units
    tail = unit + 1 == units
    there = now + busy + p.wires[wire].latency_fs
    base = p.packet_messages[message].key
    finished = np.int64(-1)
    if hop + 1 < p.packet_messages[message].hops and (
        p.lane_of[p.packet_messages[message].route + (hop + 1) * n_nodes] >= 0
    ):
        if unit == 0:
            ahead = _segment(p)
            if ahead < 0:
                return (np.int64(-2), wire, np.int64(0), np.int64(0), np.int64(-1))
            p.packet_segments[segment].down = ahead
            p.packet_segments[ahead].message = message
            p.packet_segments[ahead].hop = hop + 1
            p.packet_segments[ahead].bytes = p.packet_segments[segment].bytes
            p.packet_segments[ahead].flits = flits
            p.packet_segments[ahead].units = units
            p.packet_segments[ahead].arrived = 0
            p.packet_segments[ahead].sent = 0
            p.packet_segments[ahead].moving = 0
            p.packet_segments[ahead].queued = 0
            p.packet_segments[ahead].held = lane
            p.packet_segments[ahead].up = segment
        ahead = np.int64(p.packet_segments[segment].down)
        # It may go on when its first flit is there, but not so early that it has to pause.
        after = p.lane_of[p.packet_messages[message].route + (hop + 1) * n_nodes] >> 1
        next_fs = p.wires[after].flit_fs
        ready = max(there - busy + flit_fs, there - (flits - 1) * next_fs)
        push_event(s, ready, base | ((hop + 1) << HOP_AT) | PACKET, ahead)
    else:
        credit = there + p.wires[wire].credit_fs
        if tail:
            push_event(s, credit, np.int64(VC_FREE), lane)
            p.packet_messages[message].arrival = max(p.packet_messages[message].arrival, there)
            p.packet_messages[message].to_come -= 1
            if p.packet_messages[message].to_come == 0:
                finished = p.packet_messages[message].arrival
                p.packet_messages[message].next = number[MESSAGE_FREE]
                number[MESSAGE_FREE] = message
                number[LIVE] -= 1
        elif needed:
            push_event(s, credit, (base | (hop << HOP_AT) | PACKET) + CREDIT, segment)
    held = np.int64(p.packet_segments[segment].held)
    if held >= 0:
        credit = now + busy + p.wires[held >> 1].credit_fs
        if tail:
            push_event(s, credit, np.int64(VC_FREE), held)
        elif needed:
            up = np.int64(p.packet_segments[segment].up)
            push_event(s, credit, (base | ((hop - 1) << HOP_AT) | PACKET) + CREDIT, up)
    payload = np.int64(0)
    if tail:
        payload = np.int64(p.packet_segments[segment].bytes)
        p.packet_segments[segment].next = number[SEGMENT_FREE]
        number[SEGMENT_FREE] = segment
    else:
        _move(p, segment, wire, now)
    if p.wires[wire].first >= 0 or p.lanes[2 * wire].first >= 0 or p.lanes[2 * wire + 1].first >= 0:
        _look(s, p.wires, wire, now)
    return (message, wire, busy, payload, finished)
