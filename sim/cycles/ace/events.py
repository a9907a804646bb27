# SPDX-License-Identifier: Apache-2.0
"""Events of the cycle model: one integer each, in a binary heap.

An event says when, what, where. It carries nothing else, so the order of events is a function of
these three alone and not of when they were entered: a run that is cut into windows, whatever their
length, is the same run. The data of an event are in the state of its node. Events of one cycle come
in the order of their kinds: first those that make something visible, then those that decide.
"""


from sim.native.mark import compiled, inlined

__all__ = ["pop", "post"]

# Those that make something visible.
CREDIT, ARRIVE, COUNT, STORED, LOADED, SETUP, LIVE, ROOM, FREE, COMMAND, OVER = range(11)
# Those that decide.
BANKS, REPORT, STORE, CLOSE, MOVE, DISPATCH, WALK, ADDRESS, DATA = range(11, 20)
GREET, LOOK, ASK, START, ANSWER, HAND_OVER, PICK, UNIT = range(20, 28)
TRANSMIT, FLUSH, HOST = range(28, 31)

_TIME, _KIND, _NODE = 32, 27, 12
ARGUMENT = (1 << _NODE) - 1
# Registers of a model: events in the heap, present cycle, entries of the log, first fault, and the
# logarithm of the cycles of a window of occupancy.
SIZE, NOW, LOGGED, FAULT, WINDOW = range(5)
FAULTS = {
    1: "an event of the cycle model lies in the past",
    2: "too many events in the cycle model of the engine",
    3: "too many reports wait in the cycle model of the engine",
    4: "the log of the cycle model is full",
}
IN_THE_PAST, TOO_MANY_EVENTS, TOO_MANY_REPORTS, LOG_FULL = FAULTS


@inlined
def post(s, time, kind, node, argument):
    """Enter an event. Entering it twice is harmless where the handler looks at the state."""
    _enter(s.heap, s.registers, time << _TIME | kind << _KIND | node << _NODE | argument)


@compiled
def _enter(heap, registers, key):
    at = registers[SIZE]
    if key >> _TIME < registers[NOW]:
        registers[FAULT] = IN_THE_PAST
        return
    if at == heap.size:
        registers[FAULT] = TOO_MANY_EVENTS
        return
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
