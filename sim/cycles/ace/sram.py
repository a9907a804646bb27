# SPDX-License-Identifier: Apache-2.0
"""The banked SRAM: requests of its readers and writers. See ``sim.cycles.ace.crossbar``."""


from sim.cycles.ace.events import BANKS, post
from sim.cycles.ace.state import REQUESTS
from sim.native.mark import compiled, inlined

__all__ = ["add_end", "request", "take_end"]


@inlined
def request(s, node, client, row, tag, ready):
    """A client asks for a beat, after those that it asked for before: the beat is in its registers
    in front of the SRAM from the cycle after *ready* on, or later.

    Clients are numbered as in ``hw.ace.engine``: operands and send units of all ports and RX DMAs
    read, outcomes of all ports and TX DMAs write. A *row* of -1 needs no bank; *tag* is the
    client's own.
    """
    if _ask(s.client[node, client], s.node[node], row, tag, ready):
        post(s, s.node[node].banks_next, BANKS, node, 0)


@compiled
def _ask(q, d, row, tag, ready):
    at = (q.head + q.count) % REQUESTS
    q.count += 1
    q.ready[at] = ready
    q.row[at] = row
    q.tag[at] = tag
    ready = max(ready, d.banks_at + 1)
    if ready < d.banks_next or d.banks_next <= d.banks_at:
        d.banks_next = ready
        return True
    return False


@compiled
def add_end(q, unit):
    """The entry for a packet of which the last beat waits for SRAM from now on, of one unit of a
    port: receive unit, send unit, and at the first port the copy unit."""
    at = (q.ends_head[unit] + q.ends_count[unit]) % 2
    q.ends_count[unit] += 1
    return q.ends[unit, at]


@compiled
def take_end(q, unit):
    """The entry for the packet of which the last beat is granted."""
    at = q.ends_head[unit]
    q.ends_head[unit] = (at + 1) % 2
    q.ends_count[unit] -= 1
    return q.ends[unit, at]
