# SPDX-License-Identifier: Apache-2.0
"""Tasks of a node: computations, collective calls, messages to other nodes, delays."""

import numpy as np

from sim.events.kernel.common import column_of, enter_event, later
from sim.events.kernel.constants import (
    ARRIVE,
    BEFORE,
    CHUNK_AT,
    COLLECTIVE,
    COMPUTE,
    DISPATCH,
    DONE,
    ENTRY_AT,
    FIRST_TRANSFER,
    FREE_SLOTS,
    IN_READY_QUEUE,
    MAX_TASKS,
    MESSAGE_AT,
    NODES,
    NOT_ISSUED,
    RECEIVE,
    SEND,
    TASK_DONE,
    TASK_END,
    TASK_READY,
    TASK_START,
    TOO_MANY_CHUNKS,
    WAITS,
)
from sim.events.kernel.handlers_chunks import insert
from sim.events.kernel.queue import enter
from sim.native.mark import compiled, inlined

__all__ = ["compute", "end_task", "enter_first_tasks", "start_task"]


@compiled
def enter_first_tasks(s):
    """Enter the tasks that wait for nothing."""
    for node in range(s.numbers[NODES]):
        graph = s.node_graph[node]
        first = s.graph_first[graph]
        for task in range(s.graph_first[graph + 1] - first):
            s.task_waits[node * s.numbers[MAX_TASKS] + task] = s.tasks[first + task].waits
            if s.tasks[first + task].waits == 0:
                enter(s.events, s.buckets, s.heap, s.cache, s.registers, np.int64(0),
                      (np.int64(task) << CHUNK_AT) | TASK_START, node)


@inlined
def start_task(s, c, now, node, task, depth):
    """Start a task that waits for nothing any more. Returns also whether its chunks found room."""
    record = s.graph_first[s.node_graph[node]] + task
    local = node * c.max_tasks + task
    if s.task_ready[local] < 0:
        s.task_ready[local] = now
    status = DONE
    kind = s.tasks[record].kind
    if kind == COMPUTE:
        _queue_computation(s, c, node, task, local)
    elif (kind == COLLECTIVE or kind == SEND) and not _takes_turn(
        s, c, node, task, s.tasks[record].call
    ):
        pass
    else:
        s.task_start[local] = now
        if kind == COLLECTIVE:
            call = s.tasks[record].call
            s.call_left[call * c.nodes + node] = s.calls[call].chunks
            s.call_left[(len(s.calls) + call) * c.nodes + node] = task
            if s.calls[call].chunks == 0:
                depth = later(s, depth, TASK_DONE, task)
            status = _issue_chunks(s, c, now, node, call)
            depth = later(s, depth, DISPATCH, 0)
        elif kind == SEND:
            _start_transfer(s, c, now, node, np.int64(s.task_transfer[local]))
        elif kind == RECEIVE:
            if s.task_next[local] > 0:
                depth = later(s, depth, TASK_DONE, task)
        else:
            end = now + s.tasks[record].duration_fs
            enter_event(s, end, (np.int64(task) << CHUNK_AT) | TASK_END, node)
    return depth, status


@inlined
def _takes_turn(s, c, node, task, call):
    """Take the stream of a collective or of messages if it is free or has been handed to the task,
    and return True; else line up."""
    stream = s.calls[call].stream
    if stream < 0:
        return True
    at = node * c.streams + stream
    if s.stream_task[at] < 0:
        s.stream_task[at] = task
    elif s.stream_task[at] != task:
        s.task_next[node * c.max_tasks + task] = -1
        if s.stream_head[at] < 0:
            s.stream_head[at] = task
        else:
            s.task_next[node * c.max_tasks + s.stream_tail[at]] = task
        s.stream_tail[at] = task
        return False
    return True


@inlined
def _pass_stream(s, c, node, call, depth):
    """Hand the stream of a collective or message that has ended to the task that waited longest."""
    stream = s.calls[call].stream
    if stream >= 0:
        at = node * c.streams + stream
        following = s.stream_head[at]
        s.stream_task[at] = following
        if following >= 0:
            s.stream_head[at] = s.task_next[node * c.max_tasks + following]
            depth = later(s, depth, TASK_READY, following)
    return depth


@inlined
def _queue_computation(s, c, node, task, local):
    """Insert a task into the list of ready computations, in the order of numbers."""
    before = np.int32(-1)
    after = s.nodes[node].task_head
    while after >= 0 and after < task:
        before = after
        after = s.task_next[node * c.max_tasks + after]
    s.task_next[local] = after
    if before < 0:
        s.nodes[node].task_head = task
    else:
        s.task_next[node * c.max_tasks + before] = task


@inlined
def _issue_chunks(s, c, now, node, call):
    """Put the chunks of a call into the ready queue."""
    status = DONE
    first = s.calls[call].first_chunk
    s.nodes[node].least = min(s.nodes[node].least, first)
    s.nodes[node].most = max(s.nodes[node].most, first + s.calls[call].chunks)
    for chunk in range(first, first + s.calls[call].chunks):
        if s.chunks[chunk].slot < 0:
            if s.numbers[FREE_SLOTS] == 0:
                status = TOO_MANY_CHUNKS
                break
            _take_slot(s, c, chunk)
        local = s.chunks[chunk].slot * c.nodes + node
        s.slot_state[local].phase = IN_READY_QUEUE
        s.slot_state[local].since = now
        if s.nodes[node].chunks == 0:
            s.nodes[node].since = now
        s.nodes[node].chunks += 1
        insert(s.chunks, s.slot_state, s.queue_head, s.queue_tail,
               node * (c.queues + 1) + c.queues, chunk, node, c.nodes)
    return status


@inlined
def _take_slot(s, c, chunk):
    """Give a chunk a slot, at rest on all nodes, when the first node issues it."""
    s.numbers[FREE_SLOTS] -= 1
    slot = s.free_slots[s.numbers[FREE_SLOTS]]
    s.chunks[chunk].slot = slot
    s.chunks[chunk].open = c.nodes
    for local in range(slot * c.nodes, (slot + 1) * c.nodes):
        s.slot_state[local].phase = NOT_ISSUED
        s.slot_state[local].running = WAITS
        s.slot_state[local].messages = 0
    for counter in range(slot * c.nodes * c.width, (slot + 1) * c.nodes * c.width):
        s.counters[counter] = 0


@inlined
def _start_transfer(s, c, now, node, chunk):
    """Start all parts of a message to another node on their way."""
    row = s.chunks[chunk].phase
    entry = np.int64(s.transfers[chunk - s.numbers[FIRST_TRANSFER]].entry)
    s.messages[column_of(s, c, chunk, row)] += s.phases[row].messages
    key = (chunk << CHUNK_AT) | (entry << ENTRY_AT)
    if s.peers[s.entries[entry].peers + node] == node:
        key |= ARRIVE
    elif s.entries[entry].before < s.entries[entry].before_end:
        key |= BEFORE
    else:
        key |= c.first_hop
    for piece in range(s.phases[row].messages):
        enter_event(s, now, key | (piece << MESSAGE_AT), node)


@inlined
def end_task(s, c, now, node, task, depth):
    """A task has ended; tasks that waited for nothing else are ready."""
    record = s.graph_first[s.node_graph[node]] + task
    s.task_end[node * c.max_tasks + task] = now
    if s.nodes[node].busy == task:
        s.nodes[node].busy = -1
    kind = s.tasks[record].kind
    if c.streams > 0 and (kind == COLLECTIVE or kind == SEND):
        depth = _pass_stream(s, c, node, s.tasks[record].call, depth)
    for index in range(s.tasks[record].after_end - 1, s.tasks[record].after - 1, -1):
        follower = s.successors[index]
        s.task_waits[node * c.max_tasks + follower] -= 1
        if s.task_waits[node * c.max_tasks + follower] == 0:
            depth = later(s, depth, TASK_READY, follower)
    return depth


@inlined
def compute(s, c, now, node):
    """Compute units that are free take the first of the ready computations."""
    if s.nodes[node].busy < 0 and s.nodes[node].task_head >= 0:
        task = s.nodes[node].task_head
        local = node * c.max_tasks + task
        s.nodes[node].task_head = s.task_next[local]
        s.nodes[node].busy = task
        s.task_start[local] = now
        lasts = s.tasks[s.graph_first[s.node_graph[node]] + task].duration_fs
        end = now + np.int64(lasts * s.node_scale[node] + 0.5)
        enter_event(s, end, (np.int64(task) << CHUNK_AT) | TASK_END, node)
