# SPDX-License-Identifier: Apache-2.0
"""One cycle of the banked SRAM: each bank serves one reader and one writer, in turn."""

from sim.cycles.ace.dma import fetched, moved, written
from sim.cycles.ace.events import BANKS, post
from sim.cycles.ace.occupancy import SRAM_READ, SRAM_WRITE, worked
from sim.cycles.ace.partitions import copied, may_read, read, write, wrote
from sim.cycles.ace.receive import ahead, collected, issued, left, may_offer, offer, order
from sim.cycles.ace.send import carried, passed
from sim.cycles.ace.state import REQUESTS
from sim.cycles.queues import NEVER
from sim.native.mark import compiled, inlined

__all__ = ["serve"]


@compiled
def serve(s, node, now):
    """Grant the requests of cycle *now*; let units hand over others, which ask in the next one."""
    c = s.c[0]
    d = s.node[node]
    if now <= d.banks_at:
        return
    d.banks_at = now
    readers = c.first_writer
    clients = readers + c.targets + c.memory_ports
    for n in range(clients):
        q = s.client[node, n]
        q.before = q.inside
        if n < c.ports:
            s.port[node, n].waited = s.port[node, n].waits
    asking = 0
    for n in range(clients):
        bank = _wanted(s, node, n)
        if bank < 0:
            continue
        if not asking:
            for other in range(c.banks):
                d.choice[0, other] = d.choice[1, other] = -1
        asking += 1
        d.bank_conflicts += 1  # unless it is granted
        writes = 0 if n < readers or c.shared_banks else 1
        best = d.choice[writes, bank]
        last = d.turn[writes, bank]
        # The next one after the last, in a circle.
        if best < 0 or (n > last >= best):
            d.choice[writes, bank] = n
    # Readers first: what a write frees is free in the next cycle.
    for n in range(clients):
        _hand_over(s, node, n, now)
    for n in range(clients):
        q = s.client[node, n]
        if q.before == 0:
            continue
        row = q.row[q.head]
        if row >= 0:
            writes = 0 if n < readers or c.shared_banks else 1
            bank = _bank(c, row)
            if asking == 0 or d.choice[writes, bank] != n or not _may_go(s, node, n):
                continue
            d.turn[writes, bank] = n
            worked(s, node, SRAM_READ if n < readers else SRAM_WRITE, now, 1)
            d.bank_conflicts -= 1
        elif not _may_go(s, node, n):
            continue
        tag = q.tag[q.head]
        q.head = (q.head + 1) % REQUESTS
        q.count -= 1
        q.inside -= 1
        if n < c.ports:
            issued(s, node, n, tag, now)
        elif n < 2 * c.ports:
            carried(s, node, n - c.ports, tag, now)
        elif n < 2 * c.ports + c.memory_ports:
            fetched(s, node, n - 2 * c.ports, now)
        elif n < readers:
            copied(s, node, tag, now)
        elif n < readers + c.ports:
            collected(s, node, n - readers, tag, now)
        elif n < readers + c.ports + c.memory_ports:
            written(s, node, n - readers - c.ports, now)
        else:
            wrote(s, node, tag, now)
    if c.alus < c.ports:
        order(s, node)
    following = NEVER
    for n in range(clients):
        q = s.client[node, n]
        if q.inside:
            following = now + 1
        elif q.count:
            following = min(following, max(now + 1, q.ready[q.head]))
    d.banks_next = following
    if following < NEVER:
        post(s, following, BANKS, node, 0)


@compiled
def _hand_over(s, node, n, now):
    """The unit of a client puts its next request into the registers in front of the SRAM, if two
    do not wait there and the unit may go on."""
    c = s.c[0]
    q = s.client[node, n]
    if q.before == 2 or q.count == q.before or q.ready[(q.head + q.before) % REQUESTS] > now:
        return
    copier = 2 * c.ports + c.memory_ports
    p = n - c.first_writer
    tag = q.tag[(q.head + q.before) % REQUESTS]
    if n < c.ports:
        if not may_offer(s, node, n, now):
            return
        offer(s, node, n, tag, now)
    elif n < 2 * c.ports:
        passed(s, node, n - c.ports, tag, now)
    elif n == copier < c.first_writer:
        if not may_read(s, node):
            return
        read(s, node, tag & 1, now)
    elif 0 <= p < c.ports:
        left(s, node, p, now)
    elif 0 <= p - c.ports < c.memory_ports:
        moved(s, node, p - c.ports, tag, now)
    elif p >= 0:
        write(s, node, tag, now)
    q.inside += 1


@inlined
def _may_go(s, node, n):
    """True unless the beats of a port go behind those of another one that shares its ALU."""
    return n >= s.c[0].ports or not (s.port[node, n].behind and ahead(s, node, n))


@compiled
def _wanted(s, node, n):
    """The bank that a client asks for in this cycle, or -1."""
    q = s.client[node, n]
    if q.before == 0 or q.row[q.head] < 0 or not _may_go(s, node, n):
        return -1
    return _bank(s.c[0], q.row[q.head])


@inlined
def _bank(c, row):
    """The bank of a row; its highest bits are the group."""
    return row & c.bank_mask | row >> c.group_shift & c.group_mask
