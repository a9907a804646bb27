# SPDX-License-Identifier: Apache-2.0
"""One cycle of the banked SRAM: each bank serves one reader and one writer, in turn."""

from hw.ace.sram import READ_LATENCY
from sim.cycles.ace.dma import fetched, moved, written
from sim.cycles.ace.events import BANKS, post
from sim.cycles.ace.occupancy import SRAM_READ, SRAM_WRITE, worked
from sim.cycles.ace.partitions import copied, may_read, wrote
from sim.cycles.ace.receive import collected, issued, left, may_offer, offer
from sim.cycles.ace.send import carried, passed
from sim.cycles.ace.state import REQUESTS
from sim.cycles.queues import NEVER
from sim.native.mark import compiled, inlined

__all__ = ["serve"]


@compiled
def serve(s, node, now):
    """Grant the requests of cycle *now*."""
    c = s.c[0]
    d = s.node[node]
    if now <= d.banks_at:
        return
    d.banks_at = now
    readers = c.first_writer
    clients = readers + c.targets + c.memory_ports
    for n in range(c.ports):
        q = s.client[node, n]
        if q.count and q.ready[q.head] <= now and not q.offered and may_offer(s, node, n, now):
            offer(s, node, n, now)
            q.offered = now
    asking = 0
    for n in range(clients):
        bank = _wanted(s, node, n, now)
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
    # Reads before writes: what a write frees is free in the next cycle.
    for n in range(clients):
        q = s.client[node, n]
        if q.count == 0 or q.ready[q.head] > now:
            continue
        row = q.row[q.head]
        if not q.offered and n >= c.ports:
            q.offered = now
            _go_on(s, node, n, now)
        if row >= 0:
            writes = 0 if n < readers or c.shared_banks else 1
            bank = _bank(c, row)
            if asking == 0 or d.choice[writes, bank] != n:
                continue
            d.turn[writes, bank] = n
            worked(s, node, SRAM_READ if n < readers else SRAM_WRITE, now, 1)
            d.bank_conflicts -= 1
        elif n < c.ports and not _may_issue(s, node, n, now):
            continue
        q.head = (q.head + 1) % REQUESTS
        q.count -= 1
        q.offered = 0
        if n < c.ports:
            issued(s, node, n, now)
        elif n < 2 * c.ports:
            carried(s, node, n - c.ports, now)
        elif n < 2 * c.ports + c.memory_ports:
            fetched(s, node, n - 2 * c.ports, now)
        elif n < readers:
            copied(s, node, now)
        elif n < readers + c.ports:
            collected(s, node, n - readers, now)
        elif n < readers + c.ports + c.memory_ports:
            written(s, node, n - readers - c.ports, now)
        else:
            wrote(s, node, now)
    following = NEVER
    for n in range(clients):
        q = s.client[node, n]
        if q.count:
            following = min(following, max(now + 1, q.ready[q.head]))
    d.banks_next = following
    if following < NEVER:
        post(s, following, BANKS, node, 0)


@inlined
def _go_on(s, node, n, now):
    """Units that send, receive and load go on before it is known whether SRAM grants what they ask
    for."""
    c = s.c[0]
    p = n - c.first_writer
    if n < 2 * c.ports:
        passed(s, node, n - c.ports, now)
    elif 0 <= p < c.ports:
        left(s, node, p, now)
    elif 0 <= p - c.ports < c.memory_ports:
        moved(s, node, p - c.ports, now)


@compiled
def _may_issue(s, node, p, now):
    """True if a beat is offered and there is a place for its outcome; beats that were issued or
    collected in the cycle before are not counted yet."""
    r = s.port[node, p]
    if not s.client[node, p].offered:
        return False
    promised = r.promised - (r.issued_at == now - 1) + (r.collected_at == now - 1)
    return promised < READ_LATENCY + s.c[0].alu_latency + 7


@compiled
def _wanted(s, node, n, now):
    """The bank that a client asks for in this cycle, or -1."""
    c = s.c[0]
    q = s.client[node, n]
    if q.count == 0 or q.ready[q.head] > now or q.row[q.head] < 0:
        return -1
    if n < c.ports and not _may_issue(s, node, n, now):
        return -1
    if n == 2 * c.ports + c.memory_ports < c.first_writer and not may_read(s, node):
        return -1
    return _bank(c, q.row[q.head])


@inlined
def _bank(c, row):
    """The bank of a row; its highest bits are the group."""
    return row & c.bank_mask | row >> c.group_shift & c.group_mask
