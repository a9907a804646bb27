"""Events of the cycle model: one integer each, in a binary heap.

An event says when, what, where. It carries nothing else, so the order of events is a function of
these three alone and not of when they were entered: a run that is cut into windows, whatever their
length, is the same run. What an event is about lies in the state of its node. Events of one cycle
come in the order of their kinds: what becomes visible in a cycle before what is decided in it.
"""

from numba import njit

__all__ = ["pop", "post"]

# What becomes visible.
CREDIT, ARRIVE, COUNT, STORED, LOADED, SETUP, LIVE, ROOM, COMMAND = range(9)
# What is decided.
STORE, CLOSE, DISPATCH, WALK, ADDRESS, DATA, READ, LOOK, START, ANSWER, PICK, UNIT = range(9, 21)
TRANSMIT, FLUSH, HOST = range(21, 24)

_TIME, _KIND, _NODE = 32, 27, 12
ARGUMENT = (1 << _NODE) - 1


@njit(cache=True)
def post(s, time, kind, node, argument):  # type: ignore[no-untyped-def]
    """Enter an event. Entering it twice is harmless where the handler looks at the state."""
    heap = s.heap
    at = s.heap_size[0]
    if time < s.heap_size[1]:
        raise ValueError("an event of the cycle model lies in the past")
    if at == heap.size:
        raise OverflowError("too many events in the cycle model of the engine")
    s.heap_size[0] = at + 1
    key = time << _TIME | kind << _KIND | node << _NODE | argument
    while at > 0:
        parent = (at - 1) >> 1
        if heap[parent] <= key:
            break
        heap[at] = heap[parent]
        at = parent
    heap[at] = key


@njit(cache=True)
def pop(s):  # type: ignore[no-untyped-def]
    """Take the first event."""
    heap = s.heap
    first = heap[0]
    size = s.heap_size[0] - 1
    s.heap_size[0] = size
    key = heap[size]
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= key:
            break
        heap[at] = heap[child]
        at = child
    heap[at] = key
    return first
