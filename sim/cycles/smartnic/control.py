# SPDX-License-Identifier: Apache-2.0
"""Host, register accesses, `control.py`, and the sequencers that cut an all-reduce into blocks."""

from hw.smartnic.control import DIVISION_CYCLES
from sim.cycles.host import OP_COMMAND, OP_COUNT, OP_DELAY, OP_IRQ
from sim.cycles.queues import NEVER, pop, push, room, there
from sim.cycles.smartnic.state import DESCRIPTORS, ITEMS, JOBS
from sim.cycles.smartnic.words import COMPLETE, COMPRESS, END, FIRST, item_word
from sim.cycles.stalls import stalled
from sim.native.mark import compiled

__all__ = ["control", "host", "sequence"]

_WRITE, _READ = 2, 3  # cycles from the start of a register access to its answer
_JUDGED = 4  # from the start of a command's write to its acceptance
_PLANNED = 2 + DIVISION_CYCLES  # from the planner taking a descriptor to offering the job

_READING, _POLLING, _WAITING = 1, 2, 3  # states of a host in the middle of an operation
_IDLE, _START, _SELECT, _WALK, _END = range(5)


@compiled
def _answered(s, node, cycle, access):
    """The cycle in which the host accepts the response to an *access* started in *cycle*."""
    cycle += access
    while stalled(s.node[node].host_key, s.c[0].host_below, cycle):
        cycle += 1
    return cycle


@compiled
def host(s, node, now):
    """Run the operation of a script that is due; the next starts in the cycle after its end."""
    n = s.node[node]
    if n.op == n.op_end:
        n.op_at = NEVER
        return
    kind, value = s.script[n.op].kind, s.script[n.op].value
    if kind == OP_IRQ:
        if not n.irq:
            n.op_at, n.doing = NEVER, _WAITING  # a completion wakes the host
            return
        end = now
    elif kind == OP_DELAY:
        end = now + value
    elif kind == OP_COUNT:
        if n.doing == 0:
            n.op_at, n.doing = now + 1, _READING  # the register is read in the second cycle
            return
        end = _answered(s, node, now - 1, _READ)
        if n.completed < value:
            # Polls that find nothing are not simulated: the next completion wakes the host.
            n.op_at, n.doing, n.poll_at = NEVER, _POLLING, end + s.c[0].poll
            return
    else:
        end = now - 1
        for _ in range(value):
            end = _answered(s, node, end + 1, _WRITE)
        if kind == OP_COMMAND:
            n.accepting = n.issued
            n.issued += 1
            n.accept_at = now + _JUDGED
    s.script[n.op].end = end
    n.op += 1
    n.op_at, n.doing = end + 1, 0


@compiled
def control(s, node, now):
    """Acceptance, planning and completion of all-reduces."""
    c, n = s.c[0], s.node[node]
    u = node * c.engines
    if n.accept_at == now:
        n.accept_at = NEVER
        s.engine[u].moved = now
        if n.outstanding == c.descriptors:
            n.refused = n.accepting + 1
        else:
            push(s.engine[u], s.slots, DESCRIPTORS, now, n.accepting)
            n.outstanding += 1
    if n.plan < 0:
        if n.plan_free <= now and there(s.engine[u], s.slots, DESCRIPTORS, now):
            n.plan = pop(s.engine[u], s.slots, DESCRIPTORS, now)
            n.plan_at = now + _PLANNED
    elif n.plan_at <= now:
        _hand_out(s, node, now)
    for k in range(u, u + c.engines):
        if s.engine[k].parts == 0:
            return
    for k in range(u, u + c.engines):
        s.engine[k].parts -= 1
        s.engine[k].moved = now
    s.done[node, n.completed] = now
    n.completed += 1
    n.irq = 1
    if n.doing == _WAITING:
        n.op_at = now + 1
    elif n.doing == _POLLING:
        while n.poll_at < now:
            n.poll_at = _answered(s, node, n.poll_at, _READ) + c.poll
        n.op_at, n.doing = n.poll_at + 1, _READING
    n.outstanding -= 1


@compiled
def _hand_out(s, node, now):
    """Every engine takes every job, each when it can."""
    c, n = s.c[0], s.node[node]
    every = True
    for u in range(node * c.engines, (node + 1) * c.engines):
        e = s.engine[u]
        if not e.job_taken and room(e, s.slots, JOBS, now) and room(e, s.slots, JOBS + 1, now):
            push(e, s.slots, JOBS, now, n.plan)
            push(e, s.slots, JOBS + 1, now, n.plan)
            e.job_taken = 1
        every = every and e.job_taken == 1
    if every:
        for u in range(node * c.engines, (node + 1) * c.engines):
            s.engine[u].job_taken = 0
        n.plan, n.plan_at, n.plan_free = -1, NEVER, now + 1


@compiled
def sequence(c, e, x, commands, place, flow, now):
    """Cut an all-reduce into blocks, one a cycle: those of the reduction, or of the gathering.

    *place* counts the engines of all nodes.
    """
    q = e.sequencer[flow]
    if q.state == _IDLE:
        if there(e, x, JOBS + flow, now):
            q.job = pop(e, x, JOBS + flow, now)
            q.state = _START
        return
    if q.state == _START:
        q.number = place % c.engines
        q.state = _SELECT
        e.moved = now
        return
    job = commands[q.job]
    rank = place // c.engines
    if q.state == _SELECT:
        e.moved = now
        full = q.number < job.rounds
        q.block = c.block_beats if full else job.rest
        if not full and (q.number != job.rounds or job.rest == 0):
            q.state = _END if flow == 1 else _IDLE
            return
        q.index = (rank + flow) % c.nodes
        q.offset = q.number * c.nodes * c.block_beats + q.index * q.block
        q.passed = 0
        q.state = _WALK
        return
    if not room(e, x, ITEMS + flow, now):
        return
    if q.state == _END:
        push(e, x, ITEMS + flow, now, item_word(0, 0, 0, END))
        q.state = _IDLE
        return
    flags = COMPRESS if job.compressed else 0
    if q.passed == 0:
        flags |= FIRST
    if q.passed == c.nodes - 1:
        flags |= COMPLETE
        q.number += c.engines
        q.state = _SELECT
    valid = min(max(job.beats - q.offset, 0), q.block)
    row = ((job.destination if flow == 1 else job.source) + q.offset) % c.burst_beats
    push(e, x, ITEMS + flow, now, item_word(q.block, valid, row, flags))
    q.passed += 1
    q.offset += (c.nodes - 1) * q.block if q.index == 0 else -q.block
    q.index = c.nodes - 1 if q.index == 0 else q.index - 1
