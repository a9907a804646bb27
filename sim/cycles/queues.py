"""Queues of a cycle model: beats with the cycle from which they are seen.

A queue holds what the hardware's queue holds, and shows it after the same latency. Room and front
are reported as they were when the cycle began, whichever end is asked first: so the parts of an
engine may be simulated in any order, as long as each pushes and takes at most one beat per queue
and cycle.

*e* is the record of an engine, *x* the slots of all queues: the cycle from which a beat is seen,
and its value, by turns.
"""

from sim.native.mark import compiled

__all__ = ["NEVER", "front", "pop", "push", "push_at", "room", "shown", "there"]

NEVER = 1 << 40
"""A cycle that does not come."""


@compiled
def there(e, x, q, now):
    """True if a beat can be taken."""
    head = e.head[q]
    return head < e.tail[q] and x[e.origin[q] + 2 * (head & e.mask[q])] <= now


@compiled
def shown(e, x, q):
    """The cycle from which the front can be taken."""
    head = e.head[q]
    if head == e.tail[q]:
        return NEVER
    return x[e.origin[q] + 2 * (head & e.mask[q])]


@compiled
def front(e, x, q):
    """The value of the beat that can be taken."""
    return x[e.origin[q] + 2 * (e.head[q] & e.mask[q]) + 1]


@compiled
def pop(e, x, q, now):
    """Take the front; returns its value."""
    value = front(e, x, q)
    e.head[q] += 1
    e.popped[q] = now
    e.moved = now
    return value


@compiled
def room(e, x, q, now):
    """True if a beat may be pushed. Ask before pushing."""
    held = e.tail[q] - e.head[q]
    if e.popped[q] == now:
        held += 1
    return held < e.depth[q]


@compiled
def push_at(e, x, q, cycle, value):
    """Enter a beat that is seen from *cycle* on."""
    tail = e.tail[q]
    at = e.origin[q] + 2 * (tail & e.mask[q])
    x[at] = cycle
    x[at + 1] = value
    e.tail[q] = tail + 1


@compiled
def push(e, x, q, now, value):
    """Enter a beat that is seen after the queue's latency."""
    push_at(e, x, q, now + e.latency[q], value)
    e.moved = now
