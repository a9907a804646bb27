# SPDX-License-Identifier: Apache-2.0
"""Dispatcher, interrupt, and the host that gives commands."""

from sim.cycles.ace.events import COMMAND, DISPATCH, HOST, WALK, post
from sim.cycles.ace.fsm import admit
from sim.cycles.ace.partitions import enter, free_final, place_free
from sim.cycles.ace.words import CHUNK_BITS
from sim.cycles.host import OP_COMMAND, OP_COUNT, OP_DELAY, OP_IRQ
from sim.native.mark import compiled

__all__ = ["dispatch", "host", "stored"]

_IDLE, _SLOT, _LOAD, _ADMIT = range(4)
_ADMITTING = 1 << 40


@compiled
def dispatch(s, node, now):
    """Accept a command, find a context for a chunk, admit it."""
    c = s.c[0]
    d = s.node[node]
    if now < d.ready_at:
        return
    if d.phase == _IDLE:
        # Those that end in this cycle or later, one per cycle, still have their places.
        if d.accepted == d.issued or d.running + max(0, d.pulse_free - now) == c.commands:
            return
        d.current = d.accepted
        d.accepted += 1
        d.running += 1
        d.offset = d.chunk = d.fsm = 0
        s.progress[node, d.current].left = _ADMITTING
        d.phase = _SLOT
        d.ready_at = now + c.check + s.commands[d.current].tail_block
    elif d.phase == _SLOT:
        k = s.fsm[node, d.fsm]
        slot = 0
        count = c.slot_count[d.fsm]
        while slot < count and k.occupied >> slot & 1:
            slot += 1
        if slot == count or k.setup or (c.phases and place_free(s, node, 0, d.chunk == 0) < 0):
            return
        d.slot = slot
        d.phase = _LOAD
        d.ready_at = now + c.chunk
    elif d.phase == _LOAD:
        if s.loader[node, d.fsm % c.memory_ports].jobs == 2:
            return
        _load_chunk(s, node, now)
        d.phase = _ADMIT
        d.ready_at = now + 1
    else:
        _admit_chunk(s, node, now)
    post(s, d.ready_at, DISPATCH, node, 0)


@compiled
def _piece(s, node):
    """Elements of each shard, or of the vector, that the present chunk takes."""
    d = s.node[node]
    command = s.commands[d.current]
    if command.contiguous:
        return command.stride
    return min(command.stride - d.offset, command.block)


@compiled
def _load_chunk(s, node, now):
    """Make a chunk; its TX DMA has the job."""
    c = s.c[0]
    d = s.node[node]
    command = s.commands[d.current]
    f = d.fsm
    rank = d.rank
    m = f % c.memory_ports
    piece = _piece(s, node)
    size = command.block if command.contiguous else piece
    tail = command.elements - command.tail_block * command.stride
    tail = min(max(0, tail - d.offset), piece)
    x = s.context[node, f, d.slot]
    x.beats = size // c.lanes
    x.elements = command.tail_block * size + tail
    x.program = c.program_of[f, command.program]
    x.collective = command.program
    x.key = (d.current & 127) << CHUNK_BITS | d.chunk
    x.age = d.admitted
    d.admitted += 1
    row = c.slot_row[f] + d.slot * c.slot_size[f]
    x.row = x.results = row
    own_rows = 0 if command.load_all else rank * x.beats
    if c.phases:
        # An own shard lies alone in the first slot.
        x.row = row - own_rows
        row -= own_rows

    loader = s.loader[node, m]
    job = loader.waiting[(loader.job_head + loader.jobs) % 4]
    loader.jobs += 1
    job.at = now + 1
    job.address = command.source + d.offset // c.lanes
    job.tag = f << 4 | d.slot
    _walk_of(job, command, x, rank, c, command.load_all, row, tail)
    job = s.fsm[node, f].results[d.slot]
    job.address = command.destination + d.offset // c.lanes
    job.tag = f << 4 | d.slot
    job.at = d.current
    _walk_of(job, command, x, rank, c, command.store_all, 0 if c.phases else row, tail)
    post(s, now + 1, WALK, node, m)


@compiled
def _admit_chunk(s, node, now):
    """The chunk takes its context."""
    c = s.c[0]
    d = s.node[node]
    command = s.commands[d.current]
    f = d.fsm
    s.progress[node, d.current].left += 1
    admit(s, node, f, d.slot, now)
    if c.phases:
        enter(s, node, f, d.slot, d.chunk == 0, now)
    d.offset += _piece(s, node)
    d.chunk += 1
    d.fsm = 0 if f + 1 == c.queues else f + 1
    d.phase = _SLOT
    d.ready_at = now + 2
    if d.offset >= (command.elements if command.contiguous else command.stride):
        s.progress[node, d.current].left -= _ADMITTING
        d.phase = _IDLE
        d.ready_at = now + 1


@compiled
def _walk_of(job, command, x, rank, c, everything, row, tail):
    job.first = 0 if everything else rank
    job.last = job.first if command.contiguous or not everything else c.nodes - 1
    job.row = row if everything else row + rank * x.beats
    job.stride = command.stride // c.lanes
    job.beats = x.beats
    job.tail_block = command.tail_block
    job.tail = tail


@compiled
def stored(s, node, f, slot, now):
    """The result of a chunk is in memory."""
    c = s.c[0]
    d = s.node[node]
    command = s.fsm[node, f].results[slot].at
    if c.phases:
        command = s.fsm[node, f].finals[slot].at
        free_final(s, node, f, slot, now)
    else:
        s.fsm[node, f].occupied &= ~(1 << slot)
        post(s, now, DISPATCH, node, 0)
    s.progress[node, command].left -= 1
    if s.progress[node, command].left == 0:
        pulse = max(now, d.pulse_free) + 1
        d.pulse_free = pulse
        d.running -= 1
        s.progress[node, command].done = pulse
        post(s, pulse, DISPATCH, node, 0)
        if not d.irq:
            d.irq = 1
            d.irq_at = pulse + c.interrupt
            post(s, d.irq_at, HOST, node, 0)


@compiled
def _completed(s, node, cycle):
    """Collectives that a register read in *cycle* reports as completed."""
    total = 0
    for command in range(s.node[node].accepted):
        total += 0 <= s.progress[node, command].done < cycle
    return total


@compiled
def host(s, node, now):
    """One step of the script of a node. Each operation starts in the cycle after the last one."""
    c = s.c[0]
    d = s.node[node]
    if d.op == d.op_end or now < d.op_at:
        return
    operation = s.script[d.op]
    kind, value = operation.kind, operation.value
    end = now
    if kind == OP_DELAY:
        end = now + value
    elif kind == OP_IRQ:
        if not d.irq or d.irq_at > now:
            return
    elif kind == OP_COUNT:
        end = now + c.register_read - 1
        if _completed(s, node, end - c.sample) < value:
            d.op_at = end + c.poll
            post(s, d.op_at, HOST, node, 0)
            return
    else:
        end = now + value * c.register_write - 1
        if kind == OP_COMMAND:
            post(s, end + c.command, COMMAND, node, 0)
    operation.end = end
    d.op += 1
    d.op_at = end + 1
    post(s, end + 1, HOST, node, 0)
