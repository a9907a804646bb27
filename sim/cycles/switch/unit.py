"""Reduction units, packet by packet: `reduction_unit.py`, `reduction_table.py`,
`reduction_port.py`."""

from sim.cycles.switch.buffers import enter, give, has, take
from sim.cycles.switch.words import (
    PARTIAL,
    RESULT,
    after,
    count_of,
    first_of,
    header,
    home_of,
    number_of,
    region_of,
)
from sim.native.mark import compiled

__all__ = ["unit"]

_OUT = (1, 2)  # classes of what leaves: partials, results


@compiled
def unit(s, w, p, now):
    """One cycle of the unit of port *p* of switch *w*."""
    c = s.c[0]
    number = w * c.ports + p
    u = s.unit[number]
    if u.pending == 0:
        if now >= u.accept_at:
            _accept(s, u, number, now)
    if s.timeout[w] > 0 and u.valid and (now - s.period_at[w]) % s.timeout[w] == s.timeout[w] - 1:
        u.late = u.aged & u.valid
        u.aged = u.valid
    if u.pending and now >= u.accepted + 2:
        _decide(s, u, w, number, now)
    if now >= u.fill_at:
        _fill(s, u, w, p, number, now)


@compiled
def _accept(s, u, number, now):
    """A header enters the pipeline; or what stands for an entry that is overdue."""
    overdue = u.valid & u.late
    if overdue and u.turn_at != now:
        u.pending, u.accepted = 1, now
        u.stands = 1
        u.found = first_of(overdue, 0)
        return
    if u.first == u.free or s.operand[number, u.first & s.operand.shape[1] - 1, 0] > now:
        return
    word = s.operand[number, u.first & s.operand.shape[1] - 1, 1]
    u.pending, u.accepted, u.stands, u.found = 1, now, 0, -1
    for k in range(s.c[0].entries):
        held = s.entry[number, k].header
        if (
            u.valid >> k & 1
            and number_of(held) == number_of(word)
            and region_of(held) == region_of(word)
        ):
            u.found = k


@compiled
def _place(s, u, number):
    """The entry for a new address: a free one, else the least recently used."""
    entries = s.c[0].entries
    for k in range(entries):
        if u.valid >> k & 1 == 0:
            return k
    for k in range(entries):
        if s.entry[number, k].rank == entries - 1:
            return k
    return 0


@compiled
def _decide(s, u, w, number, now):
    """The third stage: what becomes of a packet; it waits for room where it adds to a queue."""
    c = s.c[0]
    hit = u.found >= 0
    where = u.found if hit else _place(s, u, number)
    entry = s.entry[number, where]
    full = u.valid == (1 << c.entries) - 1
    pools = s.c[0].unit_pool + 3 * number
    if u.stands:
        if not has(s, pools + 1, now):
            return
        take(s, pools + 1)
        _leave(s, u, number, where, now)
        u.expired += 1
        u.valid &= ~(1 << where)
        u.turn_at = now + c.flits - 2
    else:
        slot = u.first & s.operand.shape[1] - 1
        word = s.operand[number, slot, 1]
        low, high = s.operand[number, slot, 2], s.operand[number, slot, 3]
        count = count_of(word)
        if hit:
            count += entry.count
        complete = count == s.expected[region_of(word)]
        evicts = not complete and not hit and full
        if complete:
            if not has(s, pools + 2, now):
                return
            take(s, pools + 2)
        elif evicts:
            if not has(s, pools + 1, now):
                return
            take(s, pools + 1)
            _leave(s, u, number, where, now)
            u.evicted += 1
        if hit:
            if entry.low & low or entry.high & high:
                c.wrong += 1  # an operand twice
            low, high, word = low | entry.low, high | entry.high, entry.header
        if complete:
            word = header(RESULT, region_of(word), home_of(word), count, number_of(word))
            _put(s, u, number, 2, now, word, low, high)
            u.completed += 1
            if hit:
                u.valid &= ~(1 << where)
        else:
            _keep(s, u, number, where, word, count, low, high)
        u.first += 1
        give(s, s.output[s.c[0].way + number].pool, now + c.flits - 1)
    u.pending = 0
    u.accept_at = now + c.flits - 2


@compiled
def _keep(s, u, number, where, word, count, low, high):
    """Write an entry: it is the newest now."""
    own = s.entry[number, where].rank
    for k in range(s.c[0].entries):
        if s.entry[number, k].rank < own:
            s.entry[number, k].rank += 1
    e = s.entry[number, where]
    e.rank, e.header, e.count, e.low, e.high = 0, word, count, low, high
    bit = 1 << where
    u.valid |= bit
    u.late &= ~bit
    u.aged &= ~bit


@compiled
def _leave(s, u, number, where, now):
    """An entry goes to its home endpoint, incomplete."""
    e = s.entry[number, where]
    word = header(PARTIAL, region_of(e.header), home_of(e.header), e.count, number_of(e.header))
    _put(s, u, number, 1, now, word, e.low, e.high)


@compiled
def _put(s, u, number, k, now, word, low, high):
    """What leaves the table, behind the adders, in the queue of its class."""
    slot = u.out_free[k] & s.leaving.shape[2] - 1
    s.leaving[number, k, slot, 0] = now + s.c[0].sum_latency
    s.leaving[number, k, slot, 1] = word
    s.leaving[number, k, slot, 2] = low
    s.leaving[number, k, slot, 3] = high
    u.out_free[k] += 1


@compiled
def _fill(s, u, w, p, number, now):
    """From the queues to the buffer, packet by packet in turn, as there is room."""
    c = s.c[0]
    b = s.c[0].unit_buffer + number
    requests = 0
    for k in _OUT:
        if (
            u.out_first[k] < u.out_free[k]
            and s.leaving[number, k, u.out_first[k] & s.leaving.shape[2] - 1, 0] <= now
            and has(s, s.buffer[b].pool + k, now)
        ):
            requests |= 1 << k
    k = first_of(requests, u.turn)
    if k < 0:
        return
    u.turn = after(k)
    slot = u.out_first[k] & s.leaving.shape[2] - 1
    word = s.leaving[number, k, slot, 1]
    u.out_first[k] += 1
    take(s, s.buffer[b].pool + k)
    targets = 1 << p
    if k == 2:
        targets = s.targets[w, region_of(word)]
    enter(s, b, now + c.flits - 1, word, s.leaving[number, k, slot, 2],
          s.leaving[number, k, slot, 3], targets)
    give(s, s.c[0].unit_pool + 3 * number + k, now + c.flits)
    u.fill_at = now + c.flits
