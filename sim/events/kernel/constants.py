# SPDX-License-Identifier: Apache-2.0
"""Constants that the kernel shares with the code that prepares and reads its arrays."""

# Kinds of events, the lowest bits of the key. Above them: stage, entry, message, phase, chunk
# (or task), so that of two things at one time the older chunk's comes first.
ARRIVE, AFTER, BEFORE, HOP, TASK_END, TASK_START, CHUNK_STAGE, PACKET = range(8)
LINK_FREE = PACKET  # of messages that travel whole; at links, not at nodes; all bits of the kind
STAGE_AT, ENTRY_AT, MESSAGE_AT, PHASE_AT, CHUNK_AT = 3, 11, 28, 38, 42
STAGE_MASK, ENTRY_MASK, MESSAGE_MASK, PHASE_MASK = 255, (1 << 17) - 1, 1023, 15
MESSAGE_KEY = ~((STAGE_MASK << STAGE_AT) | 7)  # what stays the same on the way of a message
PART_KEY = MESSAGE_KEY & ~(ENTRY_MASK << ENTRY_AT)  # and for all that its phase sends at all nodes
LIMITS = {
    "hops": 255,
    "entries": 1 << 17,
    "messages": 1 << 10,
    "phases": 1 << 4,
    "chunks": 1 << 21,
}
OLDEST = LIMITS["chunks"]  # more than the age of any chunk

# Work at one node and time.
ADVANCE, PHASE_END, REQUEST, ADMIT, BEGIN, CHUNK_END, TASK_DONE, TASK_READY, DISPATCH = range(9)
ADMIT_ANY = 9  # the chunk that goes first in all queues, again and again
STACK = 1 << 16

MOST_BEGUN = 64  # chunks of a queue that some nodes have begun and others have not
UNBOUND = 1 << 30  # places of a queue without a bound

# Entries of State.numbers.
NODES, WIDTH, QUEUES, UNITS, PARTITIONS, COLUMNS, MAX_TASKS, THRESHOLD, ISSUE = range(9)
RECEIVE_FS, BUCKET_FS, BUCKETS, RECORD, CUT_THROUGH_BYTES, FREE_SLOTS, NOW = range(9, 16)
EVENTS, SPANS = range(16, 18)
FIRST_TRANSFER, RESERVE, CHECK, WRONG, POOLS, STREAMS, SHARED_LINKS = range(18, 25)
VERTICES, RELAY_WIDTH, HAS_TABLES, DETOUR_FS, TOGETHER, TIMEOUT_FS = range(25, 31)
HAS_CREDITS, STOP = range(31, 33)  # STOP: set from outside to end the run
NUMBERS = 33

# Kinds of spans.
LINK_SPAN, PHASE_SPAN = 0, 1

# The counter of an entry whose peer is a switch, which relays.
RELAYED = -2

# Uses of tables by relays, as in :class:`sim.collectives.program.RelayKind`; counted events.
PASS, WAIT, TRY, ADD, OWN, HOME, STORE = range(7)
COUNTED = ("evicted", "stalled", "bypassed")
EVICTED, STALLED, BYPASSED = range(3)
WITHOUT = 1 << 24  # added to the arrivals at a switch that adds without an entry, or has lost it
STORED = 1 << 20  # parts of an entry, in the tables of a switch for pushed operands
CLASSES = 4  # windows of a link: credits of three classes of traffic, places to read into
PARTIAL, READS = 1, 3

# Phases of a chunk at a node when it is in none, and whether it has been admitted to its phase.
NOT_ISSUED, IN_READY_QUEUE, ENDED = -1, -2, -3
WAITS, RUNS, MOVES = range(3)  # MOVES: between memory and engine

# Outcomes of a run.
DONE, TOO_MANY_CHUNKS, TOO_MANY_EVENTS, WRONG_COUNT, TOO_LONG, STOPPED = range(6)

# Kinds of tasks.
COMPUTE, COLLECTIVE, SEND, RECEIVE, DELAY = range(5)

__all__ = [name for name in dir() if name.isupper()]
