# SPDX-License-Identifier: Apache-2.0
"""The programmable FSM: contexts, READY packets, completion."""

from sim.cycles.ace.events import (
    CLOSE,
    COUNT,
    DISPATCH,
    FAULT,
    LIVE,
    MOVE,
    OVER,
    PICK,
    REPORT,
    SETUP,
    STORE,
    TOO_MANY_REPORTS,
    post,
)
from sim.cycles.ace.generator import announced, measure_runs, park, resume, wake
from sim.cycles.ace.state import EVENTS, FIRST, READIES
from sim.cycles.queues import NEVER
from sim.native.mark import compiled

__all__ = [
    "admit",
    "close",
    "count",
    "found",
    "greet",
    "live",
    "loaded",
    "over",
    "report",
    "set_up",
    "take_report",
]


# ---- Admission.


@compiled
def _index_bits(s):
    """Bits that name a context of a peer in the number of a row of the READY table."""
    bits = 0
    while 1 << bits < s.c[0].contexts:
        bits += 1
    return bits


@compiled
def found(s, node, f, now):
    """True if the search of the newest context finds a READY in this cycle."""
    k = s.fsm[node, f]
    row = now - (k.setup_end - s.c[0].scan)
    if k.setup == 0 or not 0 <= row < s.c[0].scan:
        return False
    port = row >> _index_bits(s)
    return s.context[node, f, k.setup - 1].grant[port, FIRST] == now + 1


@compiled
def admit(s, node, f, slot, now):
    """The dispatcher has filled in a context."""
    c = s.c[0]
    k = s.fsm[node, f]
    x = s.context[node, f, slot]
    x.assigned = 1
    x.live = x.loaded = x.fresh = x.announce = 0
    x.step = x.packet = x.wants = 0
    k.setup = slot + 1
    k.asked = k.placed = 0
    k.setup_end = now + 2 + c.scan
    k.occupied |= 1 << slot
    index_bits = _index_bits(s)
    for p in range(c.ports):
        for n in range(READIES):
            s.context[node, f, slot].grant[p, n] = NEVER
        for other in range(c.contexts):
            if s.fsm[node, f].early[p, other] == x.key:
                s.fsm[node, f].early[p, other] = -1
                s.context[node, f, slot].grant[p, FIRST] = now + 3 + (p << index_bits | other)
                s.context[node, f, slot].remote[p] = other
    wake(s, node, f, now)
    post(s, now + 1, PICK, node, f)  # it shows in the next cycle


@compiled
def set_up(s, node, f, now):
    """The program entry of the newest chunk is known and early READY packets have been found."""
    k = s.fsm[node, f]
    if 0 <= now - k.opened_at - 2 < 6:
        # The multiplier works on a phase.
        post(s, k.opened_at + 8, SETUP, node, f)
        return
    slot = k.setup - 1
    k.setup = 0
    x = s.context[node, f, slot]
    program = s.programs[x.program]
    x.odd = 0
    measure_runs(s, node, f, slot, 0, program.run)
    x.receives[0] = program.receives * x.packets[0]
    x.sends[0] = program.sends * x.packets[0]
    x.receives[1] = x.sends[1] = 0
    p = s.c[0].phase_of[f]
    if p:
        post(s, now, MOVE, node, p - 1)
    else:
        post(s, now, DISPATCH, node, 0)
    if x.loaded:
        post(s, now + 1, LIVE, node, f << 4 | slot)


@compiled
def loaded(s, node, f, slot, now):
    """The data of a chunk is in its slot."""
    s.context[node, f, slot].loaded = 1
    if s.fsm[node, f].setup != slot + 1:
        post(s, now + 1, LIVE, node, f << 4 | slot)


@compiled
def live(s, node, f, slot, now):
    """From now on packets may come."""
    if s.fsm[node, f].sleeping:
        resume(s, node, f, now)
    x = s.context[node, f, slot]
    x.live = 1
    x.fresh = 1
    x.waiting = x.over = 0
    x.announce = announced(s, node, f, s.programs[x.program].ready_ports)
    post(s, now + 1, OVER, node, f << 4 | slot)
    wake(s, node, f, now)


@compiled
def greet(s, node, f, port, remote, key, now):
    """A READY of the peer on *port*: to the context that waits for it, or into the table."""
    k = s.fsm[node, f]
    for slot in range(s.c[0].contexts):
        x = s.context[node, f, slot]
        if x.assigned and x.key == key:
            n = 0
            while n < READIES - 1 and s.context[node, f, slot].grant[port, n] < NEVER:
                n += 1
            known = now + 1
            if k.setup == slot + 1 and now == k.setup_end - s.c[0].scan - 2:
                # It is admitted in this cycle, so the search finds the READY in the table.
                known += 2 + (port << _index_bits(s) | remote)
            s.context[node, f, slot].grant[port, n] = known
            s.context[node, f, slot].remote[port] = remote
            wake(s, node, f, now)
            return
    k.early[port, remote] = key


# ---- Events and completion. An event: offset 12, step 11, parked, slot 4, odd, received, sent.


@compiled
def report(s, node, f, source, event, now):
    """A unit reports in cycle *now*; receive units are the first *source*s, then send units."""
    q = s.port[node, source % s.c[0].ports]
    unit = source // s.c[0].ports
    if q.event_count[unit] == EVENTS:
        s.registers[FAULT] = TOO_MANY_REPORTS
        return
    entry = q.events[unit, (q.event_head[unit] + q.event_count[unit]) % EVENTS]
    q.event_count[unit] += 1
    entry.visible = now + s.c[0].event - 1
    entry.fsm = f
    entry.event = event
    if q.event_count[unit] == 1:
        post(s, entry.visible, REPORT, node, f)


@compiled
def take_report(s, node, f, now):
    """The FSM takes one event per cycle, of its units in turn. A unit offers one at a time."""
    k = s.fsm[node, f]
    sources = s.c[0].ports + s.c[0].targets
    if k.reported_at == now:
        return
    for n in range(1, sources + 1):
        source = (k.reporter + n) % sources
        q = s.port[node, source % s.c[0].ports]
        unit = source // s.c[0].ports
        entry = q.events[unit, q.event_head[unit]]
        if q.event_count[unit] and entry.fsm == f and entry.visible <= now:
            k.reporter = source
            k.reported_at = now
            event = entry.event
            q.event_head[unit] = (q.event_head[unit] + 1) % EVENTS
            q.event_count[unit] -= 1
            if q.event_count[unit]:
                following = q.events[unit, q.event_head[unit]]
                following.visible = max(following.visible, now + 1)
                post(s, following.visible, REPORT, node, following.fsm)
            slot = event >> 3 & 15
            post(s, now + 2, COUNT, node, f << 7 | event & 127)
            if event >> 7 & 1:
                park(s, node, f, slot, event >> 8 & 0x7FF, event >> 19, now + 1)
            post(s, now + 1, REPORT, node, f)
            return


@compiled
def count(s, node, f, slot, odd, received, sent, now):
    """A packet of a context has been received or sent, in a phase of even or odd number."""
    x = s.context[node, f, slot]
    settles = odd == x.odd and x.receives[odd] == received and x.sends[odd] == sent
    x.receives[odd] -= received
    x.sends[odd] -= sent
    if settles:
        post(s, now, CLOSE, node, f)
        post(s, now + 1, OVER, node, f << 4 | slot)


@compiled
def over(s, node, f, slot, now):
    """The generator knows that all packets and READYs of a context's phase are gone."""
    x = s.context[node, f, slot]
    left = x.receives[x.odd] or x.sends[x.odd] or x.announce
    if x.over or left or now < x.over_from:
        return
    if x.waiting and s.fsm[node, f].sleeping:
        resume(s, node, f, now)
    x.over = 1
    if x.waiting:
        wake(s, node, f, now)


@compiled
def close(s, node, f, now):
    """A chunk whose packets have all arrived and left goes to the RX DMA."""
    c = s.c[0]
    k = s.fsm[node, f]
    if c.phases:
        _finish(s, node, f, now)
        return
    if k.store:
        return
    for n in range(1, c.contexts + 1):
        slot = (k.closer + n) % c.contexts
        x = s.context[node, f, slot]
        left = x.receives[x.odd] or x.sends[x.odd] or x.announce
        if x.live and not x.fresh and not left:
            k.closer = slot
            x.assigned = 0
            x.live = 0
            k.store = slot + 1
            k.store_at = now + 1
            post(s, now + 1, STORE, node, f % c.memory_ports)
            post(s, now + 1, DISPATCH, node, 0)
            return


@compiled
def _finish(s, node, f, now):
    """Note which contexts have finished their phase."""
    for slot in range(s.c[0].contexts):
        x = s.context[node, f, slot]
        left = x.receives[x.odd] or x.sends[x.odd] or x.announce
        if x.live and not x.fresh and not left and x.finished_at == 0:
            x.finished_at = now
            post(s, now, MOVE, node, s.c[0].phase_of[f])
