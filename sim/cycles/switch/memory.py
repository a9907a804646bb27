"""A lane's memory port, AXI masters, and the operands read: `operands.py`, `axi_read.py`,
`axi_write.py`."""

from sim.cycles.queues import front, pop, push, push_at, room, there
from sim.cycles.stalls import stalled
from sim.cycles.switch.state import (
    BEATS,
    COMMANDS,
    HEADERS,
    ITEMS,
    OUTCOME,
    PAYLOAD,
    READ,
    READS,
    RESPONSES,
    RUNS,
    UNDER_READ,
    UNDER_WRITE,
    WRITE,
    WRITES,
)
from sim.native.mark import compiled

__all__ = [
    "ANSWER", "CONTRACT", "ENDS", "FOR_PUSH", "OWN", "block_of", "gather", "item_of", "memory",
    "read", "requester_of", "use_of", "write",
]

CONTRACT, ENDS = 1, 2  # of an item: no data; the last block of the vector
FOR_PUSH, ANSWER, OWN = range(3)
"""Uses of an operand that is read: to be pushed, for a load of another, for an own load."""

_FLAGS = 2  # bits before the use
_NUMBER = 10  # bits between, up to the number

_AR, _AW, _W, _R, _B = range(5)  # channels, as in memory.hpp


@compiled
def item_of(number, use, requester):
    """Word of an operand: its block, its use, and its requester."""
    return number << _NUMBER | requester << 2 | use


@compiled
def use_of(item):
    """Use of an operand."""
    return item & 3


@compiled
def requester_of(item):
    """Requester of an operand."""
    return item >> 2 & 255


@compiled
def block_of(item):
    """Number of an operand's block on the link."""
    return item >> _NUMBER


@compiled
def memory(c, e, x, now):
    """The memory behind the port: an address, a beat, and an answer per cycle and channel."""
    below = c.memory_below
    if e.ar_valid:
        if not stalled(e.memory_key[_AR], below, now):
            e.ar_valid = 0
            push_at(e, x, READS, now + e.read_latency, e.ar_beats)
    if e.aw_valid and not stalled(e.memory_key[_AW], below, now):
        e.aw_valid = 0
        push_at(e, x, WRITES, now + 1, e.aw_beats)
    if not e.r_held and there(e, x, READS, now) and not stalled(e.memory_key[_R], below, now):
        e.r_held = 1
    if e.r_held and room(e, x, READ, now):
        e.r_held = 0
        push(e, x, READ, now, 0)
        if e.read_left == 0:
            e.read_left = front(e, x, READS)
        e.read_left -= 1
        if e.read_left == 0:
            pop(e, x, READS, now)
            pop(e, x, UNDER_READ, now)
    if (
        there(e, x, WRITES, now)
        and there(e, x, WRITE, now)
        and not stalled(e.memory_key[_W], below, now)
    ):
        pop(e, x, WRITE, now)
        if e.write_left == 0:
            e.write_left = front(e, x, WRITES)
        e.write_left -= 1
        if e.write_left == 0:
            pop(e, x, WRITES, now)
            push_at(e, x, RESPONSES, now + c.write_latency, 0)
    if not e.b_held and there(e, x, RESPONSES, now):
        e.b_held = 0 if stalled(e.memory_key[_B], below, now) else 1
    if e.b_held and room(e, x, OUTCOME, now):
        e.b_held = 0
        pop(e, x, RESPONSES, now)
        if pop(e, x, UNDER_WRITE, now):
            push(e, x, OUTCOME, now, 0)


@compiled
def read(c, e, x, now, ready):
    """Enter an item and a read for each block that is pushed, as waves permit, or that is asked
    for; True if a block is begun."""
    idle = e.reading == 0
    if e.reading and not e.ar_valid and room(e, x, UNDER_READ, now):
        beats = min(e.reading, c.burst_beats - e.read_row % c.burst_beats)
        e.reading -= beats
        e.read_row += beats
        e.ar_valid, e.ar_beats = 1, beats
        push(e, x, UNDER_READ, now, 1 if e.reading == 0 else 0)
    pushes = e.active and (e.contract or not e.pull)
    if not pushes and e.asked and room(e, x, ITEMS, now) and idle:
        e.asked = 0
        place = block_of(e.asked_item) - e.contract_number - 1
        _ask(c, e, x, now, e.asked_item, place * c.links + e.link)
    if not e.active:
        return False
    if not pushes and e.agreed_at > now:
        e.barrier += 1
        return False
    if not ready:
        e.wave_wait += 1
        return False
    if pushes and (not room(e, x, ITEMS, now) or not (e.contract or idle)):
        return False
    if e.contract:
        push(e, x, ITEMS, now, item_of(e.number, FOR_PUSH, 0) << _FLAGS | CONTRACT)
        e.contract = 0
        e.active = 1 if e.link < e.blocks else 0
        return True
    if pushes:
        _ask(c, e, x, now, item_of(e.number, FOR_PUSH, 0), e.block)
    e.block += c.links
    e.active = 1 if e.block < e.blocks else 0
    return True


@compiled
def _ask(c, e, x, now, item, block):
    """Read a block."""
    ends = block + 1 == e.blocks
    push(e, x, ITEMS, now, item << _FLAGS | (ENDS if ends else 0))
    e.reading = e.tail_beats if ends else c.payload
    e.read_row = e.source_row + block * c.payload


@compiled
def gather(c, e, x, now):
    """Form payloads of data read, of contracts and of zeros; enter a header when one is complete.
    """
    if not there(e, x, ITEMS, now):
        return
    item = front(e, x, ITEMS)
    final = e.place == c.payload - 1
    present = not item & CONTRACT and (not item & ENDS or e.place < e.tail_beats)
    if present and not there(e, x, READ, now):
        return
    if not room(e, x, PAYLOAD, now) or (final and not room(e, x, HEADERS, now)):
        return
    push(e, x, PAYLOAD, now, 0)
    if present:
        pop(e, x, READ, now)
    e.place += 1
    if final:
        e.place = 0
        pop(e, x, ITEMS, now)
        push(e, x, HEADERS, now, item >> _FLAGS)


@compiled
def write(c, e, x, now):
    """Write the results to memory: their addresses and beats."""
    idle = e.writing == 0
    if e.writing and not e.aw_valid and room(e, x, UNDER_WRITE, now):
        beats = min(e.writing, c.burst_beats - e.write_row % c.burst_beats)
        e.writing -= beats
        e.write_row += beats
        e.aw_valid, e.aw_beats = 1, beats
        push(e, x, RUNS, now, beats)
        push(e, x, UNDER_WRITE, now, 1 if e.writing == 0 else 0)
    if idle and there(e, x, COMMANDS, now):
        block = pop(e, x, COMMANDS, now)
        e.writing = e.tail_beats if block + 1 == e.blocks else c.payload
        e.write_row = e.destination_row + block * c.payload
    if there(e, x, BEATS, now) and there(e, x, RUNS, now) and room(e, x, WRITE, now):
        pop(e, x, BEATS, now)
        push(e, x, WRITE, now, 0)
        e.sent_run += 1
        if e.sent_run == front(e, x, RUNS):
            e.sent_run = 0
            pop(e, x, RUNS, now)
    if there(e, x, OUTCOME, now):
        pop(e, x, OUTCOME, now)
        e.under_way -= 1
