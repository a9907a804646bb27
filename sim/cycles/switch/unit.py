# SPDX-License-Identifier: Apache-2.0
"""Reduction units, packet by packet: `reduction_unit.py` with its parts, `reduction_port.py`."""

from sim.cycles.switch.buffers import enter, give, has, take
from sim.cycles.switch.notes import MERGE, note
from sim.cycles.switch.transit import HELD, taken
from sim.cycles.switch.words import (
    PARTIAL,
    RESPONSE,
    RESULT,
    SUBTOTAL,
    after,
    alike,
    count_of,
    first_of,
    header,
    home_of,
    kind_of,
    number_of,
    region_of,
)
from sim.native.mark import compiled

__all__ = ["BACK", "FIRST", "unit"]

FIRST, BACK = 1, 2  # of a load: this is its first switch; it goes back to its requester, too
_STORED = 1  # cycles from a flit that leaves a queue to its store
_WAITS, _GOES = 1, 2  # a load that is held: for an entry, or for room on the way out


@compiled
def unit(s, w, p, now):
    """One cycle of the unit of port *p* of switch *w*."""
    c = s.c[0]
    number = w * c.ports + p
    u = s.unit[number]
    between = u.pending == 0 and now >= u.accept_at
    due = u.due & u.valid
    u.due = u.valid & u.late  # from the next cycle on
    full = u.valid == (1 << c.entries) - 1
    lacks = False
    if u.load_held == _WAITS:
        lacks = full and s.load[number, u.load_first & s.load.shape[1] - 1].marks & FIRST != 0
    waits = full and u.load_lacked != 0  # an entry is given up for it
    u.load_lacked = 1 if lacks else 0
    if between:
        _accept(s, u, number, now, due, waits)
    if s.timeout[w] > 0 and u.valid and (now - s.period_at[w]) % s.timeout[w] == s.timeout[w] - 1:
        u.late = u.aged & u.valid
        u.aged = u.valid
    if u.pending and now >= u.accepted + 2:
        _decide(s, u, w, number, now)
    if u.load_held or u.load_first < u.load_free:
        _load(s, u, number, between, full, lacks, now)
    _fill(s, u, w, p, number, now)


@compiled
def _accept(s, u, number, now, due, waits):
    """Take a header into the pipeline, or a placeholder for an entry to be evicted: an overdue one,
    or a pushed sum for whose place a load waits."""
    leaving = first_of(due, 0)
    u.yields = 1 if leaving < 0 else 0
    if leaving < 0 and waits:
        oldest = _oldest(s, number)
        if kind_of(s.entry[number, oldest].header) != RESPONSE:
            leaving = oldest
    if leaving >= 0 and u.turn_at != now:
        u.pending, u.accepted = 1, now
        u.stands = 1
        u.found = leaving
        return
    operand = s.operand[number, u.first & s.operand.shape[1] - 1]
    if u.first == u.free or operand.at > now:
        return
    word = operand.header
    s.transit[kind_of(word), HELD] += now - operand.at
    taken(s, word, now)
    u.pending, u.accepted, u.stands, u.found = 1, now, 0, -1
    for k in range(s.c[0].entries):
        if u.valid >> k & 1 and alike(s.entry[number, k].header, word):
            u.found = k


@compiled
def _oldest(s, number):
    """The least recently used entry."""
    oldest = 0
    for k in range(s.c[0].entries):
        if s.entry[number, k].rank == s.c[0].entries - 1:
            oldest = k
    return oldest


@compiled
def _place(s, u, number):
    """The entry for a new address: a free one, else the least recently used."""
    for k in range(s.c[0].entries):
        if u.valid >> k & 1 == 0:
            return k
    return _oldest(s, number)


@compiled
def _load(s, u, number, between, full, lacks, now):
    """A load takes an entry between two packets, or goes on without."""
    load = s.load[number, u.load_first & s.load.shape[1] - 1]
    if u.load_held == _WAITS:
        if lacks and not u.load_counted:
            u.stalled += 1
            u.load_counted = 1
        word = load.header
        if not between or (full and load.marks & FIRST):
            return
        if full:
            u.bypassed += 1
        else:
            entry = header(RESPONSE, region_of(word), home_of(word), 0, number_of(word))
            _keep(s, u, number, _place(s, u, number), entry, 0, load.expected, 0, 0)
        u.load_held, u.load_at = _GOES, now + 1
    elif u.load_held == 0 and load.at <= now:
        u.load_held, u.load_counted = _WAITS, 0
        give(s, s.output[s.c[0].load_way + number].pool, now + 2)


@compiled
def _decide(s, u, w, number, now):
    """The third stage: decide about a packet, which waits for room where it goes into a queue."""
    c = s.c[0]
    hit = u.found >= 0
    where = u.found if hit else _place(s, u, number)
    entry = s.entry[number, where]
    full = u.valid == (1 << c.entries) - 1
    if u.stands:
        if not _goes(s, u, number, _kind(s, entry) & 3 if entry.count else 0, now):
            return
        if entry.count:
            _leave(s, u, number, where, now)
        if u.yields:
            u.evicted += 1
        else:
            u.expired += 1
        u.valid &= ~(1 << where)
        u.turn_at = now + c.flits - 2
    else:
        operand = s.operand[number, u.first & s.operand.shape[1] - 1]
        word, low, high = operand.header, operand.low, operand.high
        pull = kind_of(word) == RESPONSE
        count = count_of(word)
        expected = s.expected[region_of(word)]
        if hit:
            count += entry.count
            expected = entry.expected
        passes = pull and not hit
        complete = not passes and count == expected
        evicts = not passes and not complete and not hit and full
        k = 0
        if passes or complete:
            k = 1 if pull else 2
        elif evicts and entry.count:
            k = _kind(s, entry) & 3
        if not _goes(s, u, number, k, now):
            return
        if evicts:
            if entry.count:
                _leave(s, u, number, where, now)
            u.evicted += 1
        if c.mixed and not passes:
            note(s, MERGE, number, now, word, low, high, entry.low if hit else 0,
                 entry.high if hit else 0)
        if hit:
            if entry.low & low or entry.high & high or count > expected:
                c.wrong += 1  # an operand twice
            low, high, word = low | entry.low, high | entry.high, entry.header
        if passes or complete:
            word = header(RESPONSE if pull else RESULT, region_of(word), home_of(word), count,
                          number_of(word))
            _put(s, u, number, k, now, word, low, high)
            if passes:
                u.passed += 1
            else:
                u.completed += 1
            if hit:
                u.valid &= ~(1 << where)
        else:
            _keep(s, u, number, where, word, count, expected, low, high)
        u.first += 1
        give(s, s.output[s.c[0].way + number].pool, now + c.flits - 1)
    u.pending = 0
    u.accept_at = now + c.flits - 2


@compiled
def _goes(s, u, number, k, now):
    """True if a packet goes on that needs room in the queue of class *k*, if it is not 0. With room
    in both queues it does so at once; else it is found in one cycle, and so in the next."""
    pools = s.c[0].unit_pool + 3 * number
    if not u.fits and not (has(s, pools + 1, now) and has(s, pools + 2, now)):
        u.fits = 1 if k == 0 or has(s, pools + k, now) else 0
        return False
    u.fits = 0
    if k:
        take(s, pools + k)
    return True


@compiled
def _kind(s, entry):
    """Kind of the packet of an incomplete entry; its class are the lowest two bits."""
    if kind_of(entry.header) == RESPONSE:
        return RESPONSE
    return SUBTOTAL if s.c[0].multicast else PARTIAL


@compiled
def _keep(s, u, number, where, word, count, expected, low, high):
    """Write an entry: it is the newest now."""
    own = s.entry[number, where].rank
    for k in range(s.c[0].entries):
        if s.entry[number, k].rank < own:
            s.entry[number, k].rank += 1
    e = s.entry[number, where]
    e.rank, e.header, e.count, e.expected, e.low, e.high = 0, word, count, expected, low, high
    bit = 1 << where
    u.valid |= bit
    u.late &= ~bit
    u.aged &= ~bit


@compiled
def _leave(s, u, number, where, now):
    """Send an incomplete entry to its home endpoint, all members or its requester."""
    e = s.entry[number, where]
    kind = _kind(s, e)
    word = header(kind, region_of(e.header), home_of(e.header), e.count, number_of(e.header))
    _put(s, u, number, kind & 3, now, word, e.low, e.high)


@compiled
def _put(s, u, number, k, now, word, low, high):
    """Put a packet that leaves the table, behind the adders, into the queue of its class."""
    packet = s.leaving[number, k, u.out_free[k] & s.leaving.shape[2] - 1]
    packet.at, packet.header, packet.low, packet.high = now + s.c[0].sum_latency, word, low, high
    u.out_free[k] += 1


@compiled
def _fill(s, u, w, p, number, now):
    """Move packets from the queues to the buffer, one by one in turn, as there is room: turns are
    those of `packet_turns`. No two queues share room, so none loses it while another one moves."""
    b = s.c[0].unit_buffer + number
    last = now == u.fill_at - 1  # flit of a packet
    if now < u.fill_at and not last:
        return
    shown = 1 if u.load_held == _GOES and u.load_at <= now else 0
    for k in range(1, 3):
        if (
            u.out_first[k] < u.out_free[k]
            and s.leaving[number, k, u.out_first[k] & s.leaving.shape[2] - 1].at <= now
        ):
            shown |= 1 << k
    may = 0
    for k in range(3):
        if has(s, s.buffer[b].pool + k, now):
            may |= 1 << k
    own = 1 << u.owner
    if not last and shown & may & own:
        if u.owner:
            _move(s, u, w, p, number, u.owner, now)
            return
        _request(s, u, w, p, number, now)
    waiting = shown & may & ~own
    if waiting:
        u.owner = first_of(waiting, after(u.owner))


@compiled
def _move(s, u, w, p, number, k, now):
    """Move the next packet of a queue."""
    c = s.c[0]
    b = c.unit_buffer + number
    packet = s.leaving[number, k, u.out_first[k] & s.leaving.shape[2] - 1]
    word = packet.header
    u.out_first[k] += 1
    take(s, s.buffer[b].pool + k)
    targets = 1 << p
    if k == 2:
        targets = s.targets[w, region_of(word)]
    enter(s, b, now + c.flits - 1 + _STORED, word, packet.low, packet.high, targets)
    give(s, c.unit_pool + 3 * number + k, now + c.flits)
    u.fill_at = now + c.flits


@compiled
def _request(s, u, w, p, number, now):
    """Forward a load to all members but those that it came from, and back if these are asked."""
    b = s.c[0].unit_buffer + number
    load = s.load[number, u.load_first & s.load.shape[1] - 1]
    word = load.header
    targets = s.targets[w, region_of(word)] & ~(1 << p)
    if load.marks & BACK:
        targets |= 1 << p
    take(s, s.buffer[b].pool)
    enter(s, b, now + _STORED, word, 0, 0, targets)
    u.load_first += 1
    u.load_held = 0
    u.fill_at = now + 1
