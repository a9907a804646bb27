# SPDX-License-Identifier: Apache-2.0
"""The cycle loop: nodes that have nothing to do are passed over."""

from sim.cycles.queues import NEVER, shown
from sim.cycles.smartnic.control import control, host, sequence
from sim.cycles.smartnic.memory import bandwidth_free, fetch, host_memory, store
from sim.cycles.smartnic.network import deliver, receive, transmit
from sim.cycles.smartnic.paths import gather, reduce
from sim.cycles.smartnic.state import QUEUES
from sim.native.mark import compiled

__all__ = ["run_until"]


@compiled
def run_until(s, now, end):
    """Simulate from cycle *now* to before cycle *end*; returns the cycle that was reached.

    That is earlier than *end* when nothing can happen any more (all nodes sleep forever), or when
    the log must be emptied.
    """
    c = s.c[0]
    while now < end:
        first = NEVER
        for node in range(c.nodes):
            first = min(first, s.node[node].sleep)
        if first == NEVER:
            return now
        now = max(now, first)
        # Within the latency of a link, nodes do not affect each other.
        stop = min(end, now + c.latency)
        if s.logged[0] + 2 * s.engine.size * (stop - now) > s.log.size:
            return now
        for node in range(c.nodes):
            _advance(s, node, now, stop)
        now = stop
    return now


@compiled
def _advance(s, node, now, stop):
    """Simulate one node alone."""
    n = s.node[node]
    while n.sleep < stop:
        now = max(now, n.sleep)
        moved = _cycle(s, node, now)
        n.sleep = now + 1
        if not moved:
            n.sleep = _wake(s, node, now)


@compiled
def _cycle(s, node, now):
    """Simulate one cycle of a node; True if something moved in it."""
    c, n, x = s.c[0], s.node[node], s.slots
    if n.op_at <= now:
        host(s, node, now)
    if n.outstanding > 0 or n.accept_at == now:
        control(s, node, now)
    free = bandwidth_free(c, n, now)
    moved = False
    for u in range(node * c.engines, (node + 1) * c.engines):
        e = s.engine[u]
        host_memory(c, n, e, x, now, free)
        fetch(c, e, x, now)
        store(c, e, x, now)
        sequence(c, e, x, s.commands, u, 0, now)
        sequence(c, e, x, s.commands, u, 1, now)
        token = transmit(c, e, x, now)
        if token:
            deliver(s, u, now, token)
        receive(e, x, now)
        gather(c, e, x, now)
        reduce(c, e, x, now)
        moved = moved or e.moved == now
    return moved


@compiled
def _wake(s, node, now):
    """The next cycle in which something may happen in a node where nothing moves."""
    c, n = s.c[0], s.node[node]
    wake = min(n.accept_at, n.op_at)
    if n.plan_at > now:
        wake = min(wake, n.plan_at)
    for u in range(node * c.engines, (node + 1) * c.engines):
        for queue in range(QUEUES):
            cycle = shown(s.engine[u], s.slots, queue)
            if cycle > now:
                wake = min(wake, cycle)
    return wake
