# SPDX-License-Identifier: Apache-2.0
"""The banked SRAM: requests of its readers and writers. See ``sim.cycles.ace.crossbar``."""


from sim.cycles.ace.events import BANKS, post
from sim.cycles.ace.state import REQUESTS
from sim.native.mark import compiled, inlined

__all__ = ["request"]


@inlined
def request(s, node, client, row, ready):
    """A client asks for a beat from cycle *ready* on, after those that it asked for before.

    Clients are numbered as in ``hw.ace.engine``: operands and send units of all ports and RX DMAs
    read, outcomes of all ports and TX DMAs write. A *row* of -1 needs no bank.
    """
    if _ask(s.client[node, client], s.node[node], row, ready):
        post(s, s.node[node].banks_next, BANKS, node, 0)


@compiled
def _ask(q, d, row, ready):
    at = (q.head + q.count) % REQUESTS
    q.count += 1
    q.ready[at] = ready
    q.row[at] = row
    ready = max(ready, d.banks_at + 1)
    if ready < d.banks_next or d.banks_next <= d.banks_at:
        d.banks_next = ready
        return True
    return False
