# SPDX-License-Identifier: Apache-2.0
"""Compression at the edge of the datapath: `wire_codec.py`, and the pipelines of ``hw/bfp``."""

from hw.smartnic.wire_codec import ROWS_AHEAD
from sim.cycles.queues import front, held, pop, push, room, there
from sim.cycles.smartnic.state import (
    COMING,
    FRAMES,
    LEAVING,
    ORDER,
    PACKED,
    PLAIN,
    PLAIN_OUT,
    RESULTS,
    SUM,
    TX,
    UNPACK,
    WORDS,
)
from sim.cycles.smartnic.words import COMPLETE, COMPRESS, LAST, beats_of
from sim.native.mark import compiled

__all__ = ["collect", "decode", "decoded", "encode"]


@compiled
def _gear_ready(g, i_units, o_units, whole, o_ready):
    """True if a gearbox takes a beat in this cycle."""
    if i_units <= o_units:
        return g.valid == 0 or o_ready
    if not _gear_valid(g, i_units, o_units, whole):
        return True
    last = _gear_last(g, i_units, o_units, whole)
    spent = last or g.level - o_units < o_units
    return o_ready and spent and (last or g.ending == 0)


@compiled
def _gear_valid(g, i_units, o_units, whole):
    if i_units <= o_units:
        return g.valid != 0
    return g.level >= o_units or (g.ending != 0 and not whole)


@compiled
def _gear_last(g, i_units, o_units, whole):
    if i_units <= o_units:
        return g.last != 0
    return g.ending != 0 and (g.level < 2 * o_units if whole else g.level <= o_units)


@compiled
def _gather(g, o_units, whole, units, last, o_ready):
    """Simulate a cycle of a gearbox that collects narrow beats; True if it changed."""
    if g.valid and not o_ready:
        return False
    ending = g.ending != 0
    total = (0 if ending else g.level) + units
    full = total >= o_units
    rest = total - o_units if full else total
    closing = units > 0 and last
    later = closing and rest != 0 and (full or ending) and not whole
    sends = full or (closing and not whole)
    changed = units > 0 or g.valid != 0 or ending
    g.last = 1 if ending or (closing and not later) else 0
    g.valid = 1 if ending or sends else 0
    g.ending = 1 if later else 0
    g.level = 0 if closing and not later else rest
    return changed


@compiled
def _cut(g, o_units, whole, units, last, o_ready):
    """Simulate a cycle of a gearbox that steps along a wide beat; True if it changed."""
    ready = _gear_ready(g, o_units + 1, o_units, whole, o_ready)
    valid = _gear_valid(g, o_units + 1, o_units, whole)
    final = _gear_last(g, o_units + 1, o_units, whole)
    rest = g.level
    if final:
        rest = 0
    elif valid:
        rest -= o_units
    changed = valid and o_ready
    if changed:
        g.level = rest
        if final:
            g.ending = 0
    if units > 0 and ready:
        total = rest + units
        useless = last and whole and total < o_units
        g.level = 0 if useless else total
        g.ending = 1 if last and not useless else 0
        changed = True
    return changed


@compiled
def _gear_step(g, i_units, o_units, whole, units, last, o_ready):
    """Simulate a cycle of a gearbox that is offered *units* units, if any; True if it changed."""
    if i_units <= o_units:
        return _gather(g, o_units, whole, units, last, o_ready)
    return _cut(g, o_units, whole, units, last, o_ready)


@compiled
def encode(c, e, x, now):
    """Send sums to the next node, or complete ones to the gathering."""
    if there(e, x, ORDER, now):
        kind = front(e, x, ORDER)
        complete = (kind & COMPLETE) != 0
        if complete:
            ready = room(e, x, RESULTS, now)
        else:
            ready = room(e, x, TX, now) and room(e, x, FRAMES, now)
        queue = PACKED if kind & COMPRESS else PLAIN_OUT
        if there(e, x, queue, now) and ready:
            last = (pop(e, x, queue, now) & LAST) != 0
            if complete:
                push(e, x, RESULTS, now, LAST if last else 0)
            else:
                collect(c, e, x, 0, now, last, kind & COMPRESS)
            if last:
                pop(e, x, ORDER, now)
    offered = there(e, x, SUM, now)
    beat = front(e, x, SUM) if offered else 0
    admitted = e.inside != 0 or room(e, x, ORDER, now)
    if beat & COMPRESS:
        path = _compress(c, e, x, now, offered and admitted, beat & LAST)
    else:
        _compress(c, e, x, now, False, 0)
        path = room(e, x, PLAIN_OUT, now)
    if offered and admitted and path:
        pop(e, x, SUM, now)
        if not beat & COMPRESS:
            push(e, x, PLAIN_OUT, now, beat)
        if not e.inside:
            push(e, x, ORDER, now, beat)
        e.inside = 0 if beat & LAST else 1


@compiled
def _compress(c, e, x, now, offered, last):
    """Simulate a cycle of encoder and packer; True if they take a beat."""
    if c.pack_in == 0:
        return False
    free = held(e, PACKED, now) < ROWS_AHEAD
    row = e.encoding
    stages = row.shape[0]
    block = row[stages - 1]
    units = c.pack_in if block else 0
    if _gear_valid(e.gear, c.pack_in, c.pack_out, False):
        ends = _gear_last(e.gear, c.pack_in, c.pack_out, False)
        push(e, x, PACKED, now, LAST if ends else 0)
    moves = block == 0 or _gear_ready(e.gear, c.pack_in, c.pack_out, False, True)
    if _gear_step(e.gear, c.pack_in, c.pack_out, False, units, (block & LAST) != 0, True):
        e.moved = now
    if moves:
        _shift(e, row, now)
        if offered and free:
            final = e.part == c.parts - 1
            e.part = 0 if final else e.part + 1
            if final:
                row[0] = 2 | last
    return moves and free


@compiled
def _shift(e, row, now):
    """All stages of a *row* move. A stage holds 2, and LAST in a block's last beat."""
    for stage in range(row.shape[0] - 1, 0, -1):
        row[stage] = row[stage - 1]
        if row[stage]:
            e.moved = now
    row[0] = 0


@compiled
def collect(c, e, x, flow, now, last, compress):
    """A beat enters a transmit queue; a frame is complete when full or at its block's end."""
    push(e, x, TX + flow, now, 0)
    e.collected[flow] += 1
    longest = c.compressed_frame_beats if compress else c.frame_beats
    if last or e.collected[flow] == longest:
        push(e, x, FRAMES + flow, now, e.collected[flow] << 1 | (1 if last else 0))
        e.collected[flow] = 0


@compiled
def _exit(e, x, flow):
    """The queue of which the next beat leaves a decoder."""
    return flow + (WORDS if front(e, x, LEAVING + flow) & COMPRESS else PLAIN)


@compiled
def decoded(e, x, flow, now):
    """True if a beat can leave a decoder."""
    return there(e, x, LEAVING + flow, now) and there(e, x, _exit(e, x, flow), now)


@compiled
def decode(c, e, x, flow, now, o_ready, offered, last):
    """Simulate a cycle of a decoder; True if it takes the beat that may be *offered*."""
    if o_ready and decoded(e, x, flow, now) and pop(e, x, _exit(e, x, flow), now) & LAST:
        pop(e, x, LEAVING + flow, now)
    _decompress(c, e, x, flow, now)
    if not offered or not there(e, x, COMING + flow, now):
        return False
    shape = front(e, x, COMING + flow)
    if shape & COMPRESS:
        if not room(e, x, UNPACK + flow, now):
            return False
        units = _units(c, beats_of(shape) if last else 0)
        push(e, x, UNPACK + flow, now, units << 1 | (1 if last else 0))
    else:
        if not room(e, x, PLAIN + flow, now):
            return False
        push(e, x, PLAIN + flow, now, last)
    if last:
        pop(e, x, COMING + flow, now)
    return True


@compiled
def _units(c, beats):
    """Units in the last beat of a block of so many beats when it is not compressed; 0: any other.

    The last beat counts with the bytes that hold a bit of the block.
    """
    bits = beats // c.granule_beats * c.granule_bits % c.wire_bits
    return c.unpack_in if bits == 0 else 8 * ((bits + 7) // 8) // c.unit


@compiled
def _decompress(c, e, x, flow, now):
    """Simulate a cycle of unpacker and decoder."""
    if c.unpack_in == 0:
        return
    free = held(e, WORDS + flow, now) < ROWS_AHEAD
    d = e.decoder[flow]
    row = d.held
    word = row[row.shape[0] - 1]
    if word:
        push(e, x, WORDS + flow, now, word & LAST)
    _shift(e, row, now)
    if d.block:
        e.moved = now
        final = d.part == c.parts - 1
        row[0] = 2 | (d.block & LAST if final else 0)
        d.part = 0 if final else d.part + 1
        if final:
            d.block = 0
    # A block takes the place of one whose last part leaves.
    empty = d.block == 0
    if empty and _gear_valid(d.gear, c.unpack_in, c.unpack_out, True):
        d.block = 2 | (LAST if _gear_last(d.gear, c.unpack_in, c.unpack_out, True) else 0)
    ready = _gear_ready(d.gear, c.unpack_in, c.unpack_out, True, empty)
    units, last = 0, False
    if free and there(e, x, UNPACK + flow, now):
        beat = front(e, x, UNPACK + flow)
        units, last = beat >> 1, beat & 1 != 0
        if ready:
            pop(e, x, UNPACK + flow, now)
    if _gear_step(d.gear, c.unpack_in, c.unpack_out, True, units, last, empty):
        e.moved = now
