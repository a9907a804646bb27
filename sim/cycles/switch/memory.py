# SPDX-License-Identifier: Apache-2.0
"""The operands that a lane reads, and the results that it writes: `operands.py`."""

from sim.cycles.port import OUTCOME, READ, ask_read, ask_write, write_beat
from sim.cycles.queues import front, pop, push, room, there
from sim.cycles.switch.state import BEATS, COMMANDS, HEADERS, ITEMS, PAYLOAD
from sim.native.mark import compiled, inlined

__all__ = [
    "ANSWER", "CONTRACT", "ENDS", "FOR_PUSH", "OWN", "block_of", "gather", "item_of", "read",
    "requester_of", "use_of", "write",
]

CONTRACT, ENDS = 1, 2  # of an item: no data; the last block of the vector
FOR_PUSH, ANSWER, OWN = range(3)
"""Uses of an operand that is read: to be pushed, for a load of another, for an own load."""

_FLAGS = 2  # bits before the use
_NUMBER = 10  # bits between, up to the number


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


@inlined
def read(c, e, x, now, ready):
    """Enter an item and a read for each block that is pushed, as waves permit, or that is asked
    for; True if a block is begun."""
    idle = ask_read(c, e, x, now)
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


@inlined
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


@inlined
def write(c, e, x, now):
    """Write the results to memory: their addresses and beats."""
    if ask_write(c, e, x, now) and there(e, x, COMMANDS, now):
        block = pop(e, x, COMMANDS, now)
        e.writing = e.tail_beats if block + 1 == e.blocks else c.payload
        e.write_row = e.destination_row + block * c.payload
    if there(e, x, BEATS, now) and write_beat(e, x, now):
        pop(e, x, BEATS, now)
    if there(e, x, OUTCOME, now):
        pop(e, x, OUTCOME, now)
        e.under_way -= 1
