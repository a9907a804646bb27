"""Events of the cycle model: one integer each, in a binary heap.

An event says when, what, where. It carries nothing else, so the order of events is a function of
these three alone and not of when they were entered: a run that is cut into windows, whatever their
length, is the same run. What an event is about lies in the state of its node. Events of one cycle
come in the order of their kinds: what becomes visible in a cycle before what is decided in it.
"""

from numba import njit

from sim.cycles.ace.jit import compiled

__all__ = ["pop", "post"]

# What becomes visible.
CREDIT, ARRIVE, COUNT, STORED, LOADED, SETUP, LIVE, ROOM, COMMAND = range(9)
# What is decided.
BANKS, REPORT, STORE, CLOSE, DISPATCH, WALK, ADDRESS, DATA = range(9, 17)
LOOK, ASK, START, ANSWER, PICK, UNIT = range(17, 23)
TRANSMIT, FLUSH, HOST = range(23, 26)

_TIME, _KIND, _NODE = 32, 27, 12
ARGUMENT = (1 << _NODE) - 1
# Registers of a model: events in the heap, present cycle, entries of the log.
SIZE, NOW, LOGGED = range(3)


@njit(cache=True, inline="always")
def post(s, time, kind, node, argument):
    """Enter an event. Entering it twice is harmless where the handler looks at the state."""
    _enter(s.heap, s.registers, time << _TIME | kind << _KIND | node << _NODE | argument)


@compiled
def _enter(heap, registers, key):
    at = registers[SIZE]
    if key >> _TIME < registers[NOW]:
        raise ValueError("an event of the cycle model lies in the past")
    if at == heap.size:
        raise OverflowError("too many events in the cycle model of the engine")
    registers[SIZE] = at + 1
    while at > 0:
        parent = (at - 1) >> 1
        if heap[parent] <= key:
            break
        heap[at] = heap[parent]
        at = parent
    heap[at] = key


@compiled
def pop(heap, registers):
    """Take the first event."""
    first = heap[0]
    size = registers[SIZE] - 1
    registers[SIZE] = size
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
