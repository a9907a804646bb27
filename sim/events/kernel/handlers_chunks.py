# SPDX-License-Identifier: Apache-2.0
"""Chunks at one node: admission to a phase, its program, the end of the phase and of the chunk."""

import numpy as np

from sim.events.kernel.common import column_of, enter_event, later, note_span
from sim.events.kernel.constants import (
    ADMIT,
    ADMIT_ANY,
    ADVANCE,
    BEGIN,
    CHECK,
    CHUNK_AT,
    CHUNK_END,
    CHUNK_STAGE,
    DISPATCH,
    DONE,
    ENDED,
    FREE_SLOTS,
    IN_READY_QUEUE,
    ISSUE,
    MOST_BEGUN,
    MOVES,
    PHASE_AT,
    PHASE_END,
    PHASE_SPAN,
    REQUEST,
    RUNS,
    TASK_DONE,
    TASK_END,
    THRESHOLD,
    TOGETHER,
    UNBOUND,
    WAITS,
    WRONG,
    WRONG_COUNT,
)
from sim.events.kernel.handlers_messages import send
from sim.native.mark import compiled, inlined

__all__ = [
    "admit",
    "admit_any",
    "admit_least",
    "advance",
    "begin_phase",
    "dispatch",
    "end_chunk",
    "end_phase",
    "insert",
    "request",
]


# ---- Into a phase.


@inlined
def dispatch(s, c, now, node, depth):
    """While fewer than T chunks are in their first phase, issue P more."""
    ready = node * (c.queues + 1) + c.queues
    while s.nodes[node].first_phase < s.numbers[THRESHOLD] and s.queue_head[ready] >= 0:
        issued = 0
        while issued < s.numbers[ISSUE] and s.queue_head[ready] >= 0:
            chunk = s.queue_head[ready]
            local = s.chunks[chunk].slot * c.nodes + node
            s.queue_head[ready] = s.slot_state[local].next
            s.queue_delay[s.chunks[chunk].call * c.columns] += now - s.slot_state[local].since
            issued += 1
            s.nodes[node].first_phase += 1
            s.slot_state[local].phase = 0
            s.slot_state[local].since = now
            queue = s.phases[s.chunks[chunk].phase].queue
            s.nodes[node].waiting += 1
            insert(s.chunks, s.slot_state, s.queue_head, s.queue_tail,
                   node * (c.queues + 1) + queue, chunk, node, c.nodes)
        if issued > 0 and c.pools > 0:
            depth = later(s, depth, ADMIT_ANY, 0)
        elif issued > 0:
            for queue in range(c.queues):
                depth = later(s, depth, ADMIT, queue)
    return depth


@inlined
def request(s, c, now, node, chunk, depth):
    """Enter the queue of the next phase, behind those of equal or lower rank."""
    local = s.chunks[chunk].slot * c.nodes + node
    queue = s.phases[s.chunks[chunk].phase + s.slot_state[local].phase].queue
    s.slot_state[local].since = now
    s.nodes[node].waiting += 1
    insert(s.chunks, s.slot_state, s.queue_head, s.queue_tail,
           node * (c.queues + 1) + queue, chunk, node, c.nodes)
    return later(s, depth, ADMIT, queue)


@inlined
def admit(s, c, now, node, queue, forced, depth):
    """Admit the first chunk of a queue if there is a place and memory; *forced* needs neither. The
    next one comes when it has begun: chunks begin in the order in which they are admitted.

    Chunks that other nodes have begun go before chunks that none has: a chunk needs all nodes, so
    places that nodes give to different chunks are lost until they have caught up.
    """
    head = node * (c.queues + 1) + queue
    group = s.queue_group[queue]
    agree = c.nodes > 1 and s.queue_limit[group] < UNBOUND
    place = s.queue_taken[node * c.queues + group] < s.queue_limit[group]
    if agree and place:
        _begun_to_front(s.chunks, s.slot_state, s.queue_head, s.queue_tail, s.begun,
                        s.begun_count, c.nodes, head, node, queue)
    chunk = s.queue_head[head]
    if chunk >= 0 and (place or chunk == forced):
        phase = s.slot_state[s.chunks[chunk].slot * c.nodes + node].phase
        row = s.chunks[chunk].phase + phase
        place = s.queue_taken[node * c.queues + group] < s.phases[row].places
        if chunk == forced or (place and _fits(s, c, node, chunk, row, phase == 0)):
            depth = later(s, depth, ADMIT, queue)
            depth = _enter_phase(s, c, now, node, queue, chunk, row, phase == 0, depth)
            if agree:
                _note_begun(s.chunks, s.begun, s.begun_count, c.nodes, queue, chunk, phase)
    return depth


@compiled
def _note_begun(chunks, begun, begun_count, n_nodes, queue, chunk, phase):
    """Note that a node has admitted a chunk: the first adds a record, the last one removes it."""
    first = queue * MOST_BEGUN
    count = begun_count[queue]
    for index in range(first, first + count):
        if begun[index].chunk == chunk and begun[index].phase == phase:
            begun[index].left -= 1
            if begun[index].left == 0:
                _forget_begun(begun, begun_count, queue, index)
            return
    if count < MOST_BEGUN:
        begun[first + count].chunk = chunk
        begun[first + count].phase = phase
        begun[first + count].left = n_nodes - 1
        begun_count[queue] = count + 1


@compiled
def _forget_begun(begun, begun_count, queue, index):
    last = queue * MOST_BEGUN + begun_count[queue] - 1
    while index < last:
        begun[index].chunk = begun[index + 1].chunk
        begun[index].phase = begun[index + 1].phase
        begun[index].left = begun[index + 1].left
        index += 1
    begun_count[queue] -= 1


@compiled
def _begun_to_front(
    chunks, slot_state, queue_head, queue_tail, begun, begun_count, n_nodes, head, node, queue
):
    """Move the chunk that others began first, of those that wait here, to the head of the queue."""
    index = queue * MOST_BEGUN
    while index < queue * MOST_BEGUN + begun_count[queue]:
        chunk = np.int64(begun[index].chunk)
        if chunks[chunk].open == 0:
            # Noted by a late node after there had been no room for it.
            _forget_begun(begun, begun_count, queue, index)
            continue
        local = chunks[chunk].slot * n_nodes + node
        waits = slot_state[local].phase == begun[index].phase and slot_state[local].running == WAITS
        if waits and _moved_to_head(chunks, slot_state, queue_head, queue_tail, n_nodes, head, node,
                                    chunk):
            return
        index += 1


@compiled
def _moved_to_head(chunks, slot_state, queue_head, queue_tail, n_nodes, head, node, chunk):
    """Move a chunk to the head of the queue; False if it is not in the queue."""
    before = np.int64(-1)
    here = np.int64(queue_head[head])
    while here >= 0 and here != chunk:
        before = here
        here = np.int64(slot_state[chunks[here].slot * n_nodes + node].next)
    if here < 0:
        return False
    if before >= 0:
        local = chunks[chunk].slot * n_nodes + node
        after = slot_state[local].next
        slot_state[chunks[before].slot * n_nodes + node].next = after
        if after < 0:
            queue_tail[head] = before
        slot_state[local].next = queue_head[head]
        queue_head[head] = chunk
    return True


@inlined
def admit_any(s, c, now, node, depth):
    """Admit the first chunk of all queues while any fits: what queues share (contexts, memory) goes
    to the chunk of lowest rank, of equals to the one that has waited longest."""
    queue = _first_that_fits(s, c, node)
    if queue >= 0:
        chunk = s.queue_head[node * (c.queues + 1) + queue]
        phase = s.slot_state[s.chunks[chunk].slot * c.nodes + node].phase
        row = s.chunks[chunk].phase + phase
        depth = later(s, depth, ADMIT_ANY, 0)
        depth = _enter_phase(s, c, now, node, queue, chunk, row, phase == 0, depth)
    return depth


@compiled
def _first_that_fits(s, c, node):
    """The queue whose head goes first of those that can be admitted; -1 if there is none."""
    chunks, slot_state = s.chunks, s.slot_state
    best = -1
    first = np.int64(-1)
    for queue in range(c.queues):
        chunk = np.int64(s.queue_head[node * (c.queues + 1) + queue])
        group = s.queue_group[queue]
        taken = s.queue_taken[node * c.queues + group]
        if chunk < 0 or taken >= s.queue_limit[group]:
            continue
        local = chunks[chunk].slot * c.nodes + node
        phase = slot_state[local].phase
        row = chunks[chunk].phase + phase
        if taken >= s.phases[row].places or not _fits(s, c, node, chunk, row, phase == 0):
            continue
        if best >= 0:
            other = chunks[first].slot * c.nodes + node
            mine, its = chunks[chunk].rank, chunks[first].rank
            if mine == its:
                mine, its = slot_state[local].since, slot_state[other].since
            if mine == its:
                mine, its = chunk, first
            if mine > its:
                continue
        best = queue
        first = chunk
    return best


@inlined
def _fits(s, c, node, chunk, row, starts):
    """See :func:`_has_room`."""
    return _has_room(
        s.chunks, s.phases, s.partition_used, s.partition_limit, s.pool_used, s.pool_limit,
        node * c.partitions, node * c.pools, chunk, row, starts,
    )


@compiled
def _has_room(
    chunks, phases, partition_used, partition_limit, pool_used, pool_limit, partitions, pools,
    chunk, row, starts,
):
    """True if there are a context and the memory that a phase needs."""
    size = chunks[chunk].size_bytes
    pool = phases[row].pool
    into = phases[row].partition_in
    out = phases[row].partition_out
    if pool >= 0 and pool_used[pools + pool] >= pool_limit[pool]:
        return False
    if starts and into >= 0:
        in_size = np.int64(size * phases[row].in_fraction + 0.5)
        if partition_used[partitions + into] + in_size > partition_limit[into]:
            return False
    if out >= 0:
        out_size = np.int64(size * phases[row].out_fraction + 0.5)
        if partition_used[partitions + out] + out_size > partition_limit[out]:
            return False
    return True


@inlined
def _enter_phase(s, c, now, node, queue, chunk, row, starts, depth):
    """Give the head of a queue the resources that its phase needs, and load or begin it."""
    head = node * (c.queues + 1) + queue
    local = s.chunks[chunk].slot * c.nodes + node
    size = s.chunks[chunk].size_bytes
    if s.phases[row].pool >= 0:
        s.pool_used[node * c.pools + s.phases[row].pool] += 1
    if starts and s.phases[row].partition_in >= 0:
        s.partition_used[node * c.partitions + s.phases[row].partition_in] += np.int64(
            size * s.phases[row].in_fraction + 0.5
        )
    if s.phases[row].partition_out >= 0:
        s.partition_used[node * c.partitions + s.phases[row].partition_out] += np.int64(
            size * s.phases[row].out_fraction + 0.5
        )
    s.queue_head[head] = s.slot_state[local].next
    s.queue_used[node * c.queues + s.queue_group[queue]] += 1
    s.queue_taken[node * c.queues + s.queue_group[queue]] += 1
    s.queue_delay[column_of(s, c, chunk, row)] += now - s.slot_state[local].since
    s.slot_state[local].since = now
    call = s.chunks[chunk].call
    if starts and s.calls[call].load < s.calls[call].load_end:
        s.slot_state[local].running = MOVES
        enter_event(s, now, (np.int64(chunk) << CHUNK_AT) | CHUNK_STAGE, node)
    else:
        depth = later(s, depth, BEGIN, chunk)
    return depth


@inlined
def begin_phase(s, c, node, chunk, depth):
    """Start the program of a phase for each of its messages, the first one first."""
    local = s.chunks[chunk].slot * c.nodes + node
    s.slot_state[local].messages = 0
    s.nodes[node].waiting -= 1
    s.slot_state[local].running = RUNS
    row = s.chunks[chunk].phase + s.slot_state[local].phase
    for piece in range(s.phases[row].messages - 1, -1, -1):
        depth = later(s, depth, ADVANCE, chunk, piece)
    return depth


# ---- In a phase.


@inlined
def advance(s, c, now, node, part, way, depth):
    """Advance the program of a part's message as far as arrivals allow; returns also the way of the
    last send."""
    at = part.program
    steps = part.steps
    if part.roles >= 0:
        program = s.role_program[part.roles + node]
        at = np.int64(s.programs[program].first)
        steps = np.int64(s.programs[program].steps)
    base = part.counters + node * part.width
    begun = np.int64(s.counters[base])
    step = begun
    at += step
    while step < steps and s.counters[base + 1 + s.steps[at].slot] >= s.steps[at].count:
        for entry in range(s.steps[at].entry, s.steps[at].entry + s.steps[at].entries):
            goal = s.peers[s.entries[entry].peers + node]
            if goal >= 0:
                way = send(s, c, now, node, part, way, entry, goal)
        step += 1
        at += 1
    if step > begun:
        s.counters[base] = step
        if step == steps:
            local = part.states + node
            s.slot_state[local].messages += 1
            if s.slot_state[local].messages == s.phases[part.row].messages:
                depth = later(s, depth, PHASE_END, part.key >> CHUNK_AT)
    return depth, way


# ---- Out of a phase.


@inlined
def end_phase(s, c, now, node, chunk, depth):
    """End a phase whose messages have all ended: free its resources, let others and the chunk on.
    """
    local = s.chunks[chunk].slot * c.nodes + node
    phase = s.slot_state[local].phase
    row = s.chunks[chunk].phase + phase
    call = s.chunks[chunk].call
    queue = s.phases[row].queue
    since = s.slot_state[local].since
    s.phase_time[column_of(s, c, chunk, row)] += now - since
    if c.record:
        note_span(s, PHASE_SPAN, node, queue, chunk, row, since, now)
    s.slot_state[local].running = WAITS
    places = node * c.queues + s.queue_group[queue]
    s.queue_used[places] -= 1
    if not s.numbers[TOGETHER] or s.queue_used[places] == 0:
        s.queue_taken[places] = s.queue_used[places]
    if s.phases[row].partition_in >= 0:
        s.partition_used[node * c.partitions + s.phases[row].partition_in] -= np.int64(
            s.chunks[chunk].size_bytes * s.phases[row].in_fraction + 0.5
        )
    if s.phases[row].pool >= 0:
        s.pool_used[node * c.pools + s.phases[row].pool] -= 1
    if c.pools > 0:
        # Chunks of any queue may wait for the memory or the context.
        depth = later(s, depth, ADMIT_ANY, 0)
    elif s.phases[row].partition_in >= 0:
        for other in range(c.queues):
            if other != queue:
                depth = later(s, depth, ADMIT, other)
    if phase == 0:
        s.nodes[node].first_phase -= 1
        depth = later(s, depth, DISPATCH, 0)
    if c.pools == 0:
        depth = later(s, depth, ADMIT, queue)
    if phase + 1 < s.chunks[chunk].phases:
        s.slot_state[local].phase = phase + 1
        depth = later(s, depth, REQUEST, chunk)
    elif s.calls[call].store < s.calls[call].store_end:
        s.slot_state[local].running = MOVES
        enter_event(s, now, (chunk << CHUNK_AT) | (np.int64(1) << PHASE_AT) | CHUNK_STAGE, node)
    else:
        depth = later(s, depth, CHUNK_END, chunk)
    return depth


@inlined
def end_chunk(s, c, now, node, chunk, depth):
    """End a chunk at a node; the last one of a call ends the task there.

    Returns also the status: WRONG_COUNT if counts are checked and a node's messages are not right.
    """
    status = DONE
    local = s.chunks[chunk].slot * c.nodes + node
    row = s.chunks[chunk].phase + s.slot_state[local].phase
    if s.chunks[chunk].phases > 0 and s.phases[row].partition_out >= 0:
        s.partition_used[node * c.partitions + s.phases[row].partition_out] -= np.int64(
            s.chunks[chunk].size_bytes * s.phases[row].out_fraction + 0.5
        )
        if c.pools > 0:
            depth = later(s, depth, ADMIT_ANY, 0)
        else:
            for queue in range(c.queues):
                depth = later(s, depth, ADMIT, queue)
    s.slot_state[local].phase = ENDED
    s.chunks[chunk].open -= 1
    if s.chunks[chunk].open == 0:
        if s.numbers[CHECK] and not _counts_agree(
            s.chunks, s.phases, s.counters, s.expected, c.nodes, c.width, chunk
        ):
            s.numbers[WRONG] = chunk
            status = WRONG_COUNT
        s.free_slots[s.numbers[FREE_SLOTS]] = s.chunks[chunk].slot
        s.numbers[FREE_SLOTS] += 1
    s.nodes[node].chunks -= 1
    if s.nodes[node].chunks == 0:
        s.engine_busy[node] += now - s.nodes[node].since
    call = s.chunks[chunk].call
    s.call_left[call * c.nodes + node] -= 1
    if s.call_left[call * c.nodes + node] == 0:
        task = s.call_left[(len(s.calls) + call) * c.nodes + node]
        end = now + s.tasks[s.graph_first[s.node_graph[node]] + task].duration_fs
        if s.calls[call].poll_fs > 0:
            end = _seen(s, call, s.task_start[node * c.max_tasks + task], end)
        if end > now:
            enter_event(s, end, (np.int64(task) << CHUNK_AT) | TASK_END, node)
        else:
            depth = later(s, depth, TASK_DONE, task)
    return depth, status


@inlined
def _seen(s, call, start, end):
    """The time at which a host that polls sees the end of a call."""
    period = s.calls[call].poll_fs
    first = start + s.calls[call].first_poll_fs
    late = max(0, end + s.calls[call].seen_fs - first)
    return first + (late + period - 1) // period * period


@compiled
def _counts_agree(chunks, phases, counters, expected, n_nodes, width, chunk):
    """True if every node has got exactly the messages of a chunk that ended."""
    for row in range(chunks[chunk].phase, chunks[chunk].phase + chunks[chunk].phases):
        slots = phases[row].width - 1
        for node in range(n_nodes):
            for message in range(phases[row].messages):
                base = (chunks[chunk].slot * width + phases[row].state) * n_nodes + 1
                base += (node * phases[row].messages + message) * phases[row].width
                for slot in range(slots):
                    wanted = expected[phases[row].expected + node * slots + slot]
                    if counters[base + slot] != wanted:
                        return False
    return True


# ---- Waiting lists.


@compiled
def insert(chunks, slot_state, queue_head, queue_tail, head, chunk, node, n_nodes):
    """Put a chunk into a waiting list, after those whose rank is not higher than its own."""
    rank = chunks[chunk].rank
    before = np.int64(-1)
    after = queue_head[head]
    if after >= 0 and chunks[queue_tail[head]].rank <= rank:
        before = queue_tail[head]
        after = np.int32(-1)
    else:
        while after >= 0 and chunks[after].rank <= rank:
            before = after
            after = slot_state[chunks[after].slot * n_nodes + node].next
    slot_state[chunks[chunk].slot * n_nodes + node].next = after
    if before < 0:
        queue_head[head] = chunk
    else:
        slot_state[chunks[before].slot * n_nodes + node].next = chunk
    if after < 0:
        queue_tail[head] = chunk


@compiled
def admit_least(s, c, now, node):
    """If the node's least live chunk waits for admission, move it to the front of its queue.

    Returns the chunk and the queue; chunk -1 if there is nothing to do. Chunks are numbered alike
    everywhere, so the least chunk of all that are live makes progress on every node.
    """
    chunks, slot_state, nodes = s.chunks, s.slot_state, s.nodes
    least = nodes[node].least
    phase = np.int32(ENDED)
    while least < nodes[node].most:
        if chunks[least].open > 0:
            phase = slot_state[chunks[least].slot * c.nodes + node].phase
            if phase >= 0 or phase == IN_READY_QUEUE:
                break
        least += 1
    nodes[node].least = least
    if least >= nodes[node].most:
        return np.int64(-1), np.int64(0)
    local = chunks[least].slot * c.nodes + node
    if phase >= 0 and slot_state[local].running != WAITS:
        return np.int64(-1), np.int64(0)
    queue = np.int64(s.phases[chunks[least].phase + max(phase, 0)].queue)
    waits_in = node * (c.queues + 1) + (c.queues if phase == IN_READY_QUEUE else queue)
    before = np.int64(-1)
    after = np.int64(s.queue_head[waits_in])
    while after != least:
        before = after
        after = np.int64(slot_state[chunks[after].slot * c.nodes + node].next)
    after = np.int64(slot_state[local].next)
    if before < 0:
        s.queue_head[waits_in] = after
    else:
        slot_state[chunks[before].slot * c.nodes + node].next = after
    if after < 0:
        s.queue_tail[waits_in] = before
    if phase == IN_READY_QUEUE:
        s.queue_delay[chunks[least].call * c.columns] += now - slot_state[local].since
        nodes[node].first_phase += 1
        nodes[node].waiting += 1
        slot_state[local].phase = 0
        slot_state[local].since = now
    front = node * (c.queues + 1) + queue
    slot_state[local].next = s.queue_head[front]
    if s.queue_head[front] < 0:
        s.queue_tail[front] = least
    s.queue_head[front] = least
    return np.int64(least), queue
