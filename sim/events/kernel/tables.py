# SPDX-License-Identifier: Apache-2.0
"""The arrays that the kernel runs on: those that are given, and those that change.

Names of indices: node n of N, chunk c (one per call and piece), phase p, message m of a step,
queue q, unit u, task t. A *chunk state* is the state of one chunk at one node; there is a slot for
every chunk in flight.
"""

from typing import Any, NamedTuple

import numpy as np

from sim.native.mark import indexed_from_begin

__all__ = [
    "BEGUN",
    "CALL",
    "CHUNK",
    "CHUNK_AT_NODE",
    "ENTRY",
    "LINK",
    "NODE",
    "OUTBOX",
    "PHASE",
    "POOL",
    "PROGRAM",
    "RELAY",
    "SPAN",
    "STAGE",
    "STEP",
    "TASK",
    "TRANSFER",
    "UNIT",
    "WAITER",
    "WINDOW",
    "State",
]

I8, I4, I2, I1, F8 = np.int64, np.int32, np.int16, np.int8, np.float64

# A step of a program: when `count` messages have come to the counter of `slot`, those of `entries`
# from `entry` on are sent.
STEP = np.dtype([("slot", I4), ("count", I4), ("entry", I4), ("entries", I4)])
PROGRAM = np.dtype([("first", I4), ("steps", I4)])
# A send: `hops` routes at `links`, the peers at `peers`; classes are ranges of stages. `slot` -1:
# the peer forwards it as entry `onward`, or it is of a transfer, if that is -1 too; -2: the peer
# is a switch, relay `onward`. `asks`: headers that ask for data, as a fraction likewise, which take
# time of links; `traffic`: the class whose credits it needs, or -1; `reads`: 1 for an operand,
# behind which others wait until it has left. `made`: the stage whose unit has outboxes that the
# message passes, or -1.
ENTRY = np.dtype(
    [
        ("fraction", F8),
        ("peers", I8),
        ("links", I8),
        ("hops", I4),
        ("slot", I4),
        ("before", I4),
        ("before_end", I4),
        ("made", I4),
        ("after", I4),
        ("after_end", I4),
        ("onward", I4),
        ("asks", F8),
        ("traffic", I4),
        ("reads", I4),
        ("forwards", I4),
    ]
)
# A switch waits for as many messages as stand at `needs`, one number for each vertex, and sends
# the entries from `first` to `end`. `number`: its number among the relays of its phase. `kind`: its
# use of packets' entries of the tables at `table`, one number for each vertex: it takes `held` of
# them, as a fraction of the chunk over a packet's bytes, or adds and gives them back; `adds`: the
# relay that does so.
RELAY = np.dtype([("needs", I8), ("number", I4), ("first", I4), ("end", I4), ("kind", I4),
                  ("adds", I4), ("table", I8), ("held", F8)])
# The table at the port of a link, or, behind those of all links, the tables of a switch: `left` of
# `most` entries are free; `free`: when its adders are; `first`, `last`: the loads that wait, as
# messages do for links, or the sums that have entries; `open`: entries of sums that are not
# complete, evicted ones included. For the endpoint behind the port: when the next operand can leave
# (`operands`), when the home store is free (`home`), and when the next own operand has its turn
# (`own`). `lanes`: links in parallel that are one here; each takes its own time for a message.
POOL = np.dtype([("left", I8), ("most", I8), ("free", I8), ("first", I4), ("last", I4),
                 ("operands", I8), ("home", I8), ("lanes", I4), ("open", I8), ("own", I8)])
# The credits of a class on a link, from `first` on: when each is back; `next`: the one that is used
# next; `away_fs`: time until it is back; `left`: the part of the last packet that is not filled.
WINDOW = np.dtype([("first", I8), ("places", I4), ("next", I4), ("away_fs", I8), ("left", F8)])
# `programs`: index into role_program, N entries, where the role matters, else -1.
PHASE = np.dtype(
    [
        ("program", I4),
        ("queue", I4),
        ("places", I4),
        ("state", I4),
        ("messages", I4),
        ("grain", I4),
        ("width", I4),
        ("column", I4),
        ("roles", I8),
        ("partition_in", I4),
        ("partition_out", I4),
        ("pool", I4),
        ("in_fraction", F8),
        ("out_fraction", F8),
        ("expected", I8),
        ("relays", I8),
    ]
)
# `ahead_fs`: time by which the unit works ahead; `share`: bytes that it moves, over the size.
STAGE = np.dtype([("unit", I4), ("fs_per_byte", F8), ("fixed_fs", I8), ("latency_fs", I8),
                  ("ahead_fs", I8), ("share", F8)])
# `outboxes`: the first of its outboxes, one for each link and server, if it has any.
UNIT = np.dtype([("first", I8), ("servers", I4), ("turns", I4), ("outboxes", I8)])
# `taken`: 1 while a message waits for the link; `first` and `last`: of those that are made later,
# -1 for none.
OUTBOX = np.dtype([("taken", I4), ("first", I4), ("last", I4)])
# `stream`: collectives and messages of a stream run one at a time on a node; -1: whenever they are
# issued. The last call stands for all messages to other nodes.
CALL = np.dtype([("first_chunk", I4), ("chunks", I4), ("load", I4), ("load_end", I4),
                 ("store", I4), ("store_end", I4), ("stream", I4), ("poll_fs", I8),
                 ("first_poll_fs", I8), ("seen_fs", I8)])
# `age`: above 0 if the oldest chunk goes first, and larger for older ones.
CHUNK = np.dtype(
    [("size_bytes", F8), ("rank", I8), ("call", I4), ("phase", I4), ("phases", I4), ("slot", I4),
     ("open", I4), ("age", I4)]
)
# Most events read and write this, the counters and the links: they are kept small, and the fields
# that an event needs lie together, because large systems are bound by memory.
CHUNK_AT_NODE = np.dtype(
    [("since", I8), ("next", I4), ("messages", I2), ("phase", I1), ("running", I1)]
)
# `first` and `last`: of the messages that wait for it, -1 for none. `most_left`: phases that the
# chunks of its messages have to go at most; 0 if they all have as many.
LINK = np.dtype([("free", I8), ("bytes", I8), ("busy", I8), ("fs_per_byte", F8), ("header_fs", F8),
                 ("latency_fs", I8), ("dimension", I2), ("most_left", I4), ("first", I4),
                 ("last", I4)])
# A message that waits for a link or an entry of a table, and the next one behind it. `keeps`: it
# keeps its turn, nothing passes it; for a sum that has entries: its chunk.
# `left`: how urgent it is.
WAITER = np.dtype([("key", I8), ("since", I8), ("node", I4), ("next", I4), ("keeps", I4),
                   ("left", I4)])
# `waiting`: chunks in the queues or being loaded.
NODE = np.dtype(
    [("task_head", I4), ("busy", I4), ("first_phase", I4), ("chunks", I4), ("least", I4),
     ("most", I4), ("since", I8), ("waiting", I8)]
)
# A message of a node to another: the task that sends it and the one that waits for it.
TRANSFER = np.dtype(
    [("entry", I4), ("left", I4), ("source", I4), ("send", I4), ("goal", I4), ("receive", I4)]
)
# `call`: of a collective; of a SEND the one that stands for all messages.
TASK = np.dtype([("kind", I4), ("call", I4), ("waits", I4), ("after", I4), ("after_end", I4),
                 ("duration_fs", I8)])
# A chunk of a queue that some nodes have admitted to a phase, and `left` have not.
BEGUN = np.dtype([("chunk", I4), ("phase", I4), ("left", I4)])
SPAN = np.dtype(
    [
        ("kind", np.int8),
        ("row", I4),
        ("lane", I4),
        ("call", I4),
        ("chunk", I4),
        ("phase", I2),
        ("start_fs", I8),
        ("end_fs", I8),
    ]
)


@indexed_from_begin
class State(NamedTuple):
    """Everything the kernel reads and writes.

    Given: ``numbers`` (see :mod:`sim.events.kernel.constants`), tables of records as above,
    ``peers`` and ``links`` of the channels (one row of N per hop),
    ``queue_group`` (of each queue; queues of a group share its places), ``queue_limit`` (places of
    each group: ``queue_taken`` are not free, ``queue_used`` have a chunk), ``partition_limit``
    (bytes), ``pool_limit`` (contexts). Changing: ``link``, a record for
    each directed link; ``outboxes``, one for each link and server of a unit that has them;
    ``waiters``, as many as events, or a single one if no message waits;
    ``slot_state`` (slots, N) records; ``counters`` (slots, phases, N, messages, width of the phase)
    int32: the step and the counters of arrivals; ``relay_counts`` (slots, relays of each phase,
    vertices, messages) int32: arrivals at switches; ``begun`` (queues, MOST_BEGUN) records, of
    which the first ``begun_count`` of each queue are there; ``pools``, a table for each link, and
    those of each vertex;
    ``windows``, as many as there are classes for each link where switches have tables, one where
    links have credits, and ``credits``; ``counts``, by
    :data:`sim.events.kernel.constants.COUNTED`. Peers and links of what passes through switches
    have a column for each vertex.
    """

    numbers: Any
    events: Any
    buckets: Any
    heap: Any
    cache: Any
    registers: Any
    steps: Any
    programs: Any
    role_program: Any
    entries: Any
    relays: Any
    relay_needs: Any
    relay_counts: Any
    relay_tables: Any
    pools: Any
    windows: Any
    credits: Any
    packet_bytes: Any
    counts: Any
    phases: Any
    stages: Any
    units: Any
    unit_free: Any
    unit_busy: Any
    unit_bytes: Any
    outboxes: Any
    peers: Any
    links: Any
    link: Any
    waiters: Any
    link_series: Any
    calls: Any
    chunks: Any
    free_slots: Any
    slot_state: Any
    counters: Any
    call_left: Any
    queue_group: Any
    queue_limit: Any
    queue_used: Any
    queue_taken: Any
    queue_head: Any
    queue_tail: Any
    begun: Any
    begun_count: Any
    partition_limit: Any
    partition_used: Any
    pool_limit: Any
    pool_used: Any
    stream_task: Any
    stream_head: Any
    stream_tail: Any
    nodes: Any
    node_graph: Any
    node_scale: Any
    graph_first: Any
    tasks: Any
    successors: Any
    transfers: Any
    task_transfer: Any
    expected: Any
    task_waits: Any
    task_next: Any
    task_ready: Any
    task_start: Any
    task_end: Any
    engine_busy: Any
    queue_delay: Any
    phase_time: Any
    network_delay: Any
    bus_delay: Any
    messages: Any
    spans: Any
    work: Any
