# SPDX-License-Identifier: Apache-2.0
"""A switch: requests and grants of its ports in a cycle (`switch.py`, `ingress.py`)."""

from hw.switch.packet import MOST_YOUNGER
from sim.cycles.switch.buffers import (
    ask,
    asked,
    choose,
    enter,
    has,
    move_up,
    offer,
    ready,
    send,
    serve,
    served,
    stopped,
    turn_of,
)
from sim.cycles.switch.notes import PACKET, note
from sim.cycles.switch.transit import from_table, waited
from sim.cycles.switch.unit import BACK, FIRST, unit
from sim.cycles.switch.words import (
    LOAD,
    ORDINARY,
    PARTIAL,
    PUSH,
    RESPONSE,
    RESULT,
    after,
    count_of,
    first_of,
    header,
    home_of,
    kind_of,
    number_of,
    region_of,
)
from sim.native.mark import compiled

__all__ = ["TAKEN_AT_ONCE", "arrive", "land", "switch"]

_MOST_YOUNGER = MOST_YOUNGER

TAKEN_AT_ONCE = 1 << 3
"""Target behind a receiver's queues of each class, of packets that are for none of them."""


@compiled
def switch(s, w, now):
    """One cycle of a switch."""
    c = s.c[0]
    n = c.ports
    from_links = (1 << n) - 1
    _request(s, w, now)
    _choose(s, w, now)
    for output in range(3 * n):
        requests = s.requests[output]
        if requests == 0:
            continue
        s.requests[output] = 0
        if output < n:
            o, bit = w * n + output, output
        elif output < 2 * n:
            o, bit = s.c[0].way + w * n + output - n, output
        else:
            o, bit = s.c[0].load_way + w * n + output - 2 * n, 2 * n
        allowed = requests
        if output < n and requests & from_links and s.requests[n + output]:
            # One column for the link and the unit.
            if _column_turn(s.output[o], now):
                allowed = requests & ~from_links
            else:
                s.requests[n + output] = 0
        if output < n and c.age_bits:
            sender = _oldest_first(s, o, requests, allowed, now)
        elif allowed:
            sender = first_of(allowed, turn_of(s.output[o], now))
        if allowed == 0:
            continue
        served(s.output[o], after(sender), now)
        if output < n:
            s.output[o].own = 1 if sender < n else 0
            if sender < n:
                _use_column(s.output[o], 1, now)
        elif output < 2 * n:
            _use_column(s.output[w * n + output - n], 0, now)
        b, k = s.asking[sender], s.asked[sender]
        s.granted[sender] |= 1 << bit
        slot = send(s, o, b, k, now)
        word = s.held[b, k, slot].header
        waited(s, word, s.held[b, k, slot].at, now)
        if output < n:
            if sender >= n and b < c.result_buffer:
                copies = 1
                if kind_of(word) & 3 == RESULT & 3:
                    copies = s.behind[w, region_of(word), output]
                from_table(s, word, copies, now)
            arrive(s, o, b, k, slot, now)
        elif output < 2 * n:
            _operand(s, o - s.c[0].way, b, k, slot, now)
        else:
            _load(s, o - s.c[0].load_way, b, k, slot, now)
    for sender in range(2 * n):
        if s.granted[sender]:
            b = s.asking[sender]
            serve(s, b, s.asked[sender], s.granted[sender], now)
            s.granted[sender] = 0
            if sender >= n:
                u = s.unit[w * n + sender - n]
                u.went_first, u.went_at = u.goes_first, now
                u.goes_first = 1 if b >= c.result_buffer else 0
    for p in range(w * n, (w + 1) * n):
        move_up(s, p, now)
        move_up(s, c.unit_buffer + p, now)
        move_up(s, c.result_buffer + p, now)
    for p in range(n):
        unit(s, w, p, now)


@compiled
def _column_turn(out, now):
    """1 if the unit goes first at the column that it shares with a link: turns of `turn_of`."""
    return out.column_turn if out.column_at < now - 1 else out.column_before


@compiled
def _use_column(out, turn, now):
    """A packet takes the column."""
    out.column_before, out.column_turn, out.column_at = out.column_turn, turn, now


@compiled
def _request(s, w, now):
    """Enter requests of packets that were chosen in the cycle before, for outputs that are free and
    have credits now."""
    c = s.c[0]
    n = c.ports
    for sender in range(2 * n):
        if sender < n:
            b = w * n + sender
            wanted = asked(s, b, now)
        else:
            # Both ask at once never; neither does if one of them was granted an output.
            b, other = c.unit_buffer + w * n + sender - n, c.result_buffer + w * n + sender - n
            wanted, wanted_by_other = asked(s, b, now), asked(s, other, now)
            if s.buffer[b].busy > now or s.buffer[other].busy > now:
                continue
            if wanted_by_other:
                wanted, b = wanted_by_other, other
        if wanted == 0:
            continue
        k = s.buffer[b].channel
        s.asking[sender], s.asked[sender] = b, k
        output = 0
        while wanted >> output:
            if wanted >> output & 1 and _open(s, w, sender, output, k, now):
                s.requests[2 * n + sender if output == 2 * n else output] |= 1 << sender
            output += 1


@compiled
def _open(s, w, sender, output, k, now):
    """True if an output can take a packet of class *k* now, and its column too."""
    n = s.c[0].ports
    if output < n:
        way = s.output[s.c[0].way + w * n + output]
        out = s.output[w * n + output]
        beside = sender >= n or way.open_at <= now
        pool = out.pool + k
    elif output < 2 * n:
        link = s.output[w * n + output - n]
        out = s.output[s.c[0].way + w * n + output - n]
        beside = link.open_at <= now or not link.own
        pool = out.pool
    else:
        out = s.output[s.c[0].load_way + w * n + sender]
        beside = True
        pool = out.pool
    return beside and out.open_at <= now and has(s, pool, now)


@compiled
def _choose(s, w, now):
    """Find the outputs that are free in the next cycle and have credits, and let buffers choose
    packets for them."""
    n = s.c[0].ports
    first = second = third = ways = late_second = late_third = late_ways = 0
    by_units = 0  # columns in use by units
    for p in range(n):
        out = s.output[w * n + p]
        if out.open_at <= now + 1 and out.peer >= 0:
            if ready(s, out.pool, now):
                first |= 1 << p
            if ready(s, out.pool + 1, now):
                second |= 1 << p
            if ready(s, out.pool + 2, now):
                third |= 1 << p
        if stopped(s, out.pool + 1, now):
            late_second |= 1 << p
        if stopped(s, out.pool + 2, now):
            late_third |= 1 << p
        way = s.output[s.c[0].way + w * n + p]
        if way.open_at > now + 1:
            by_units |= 1 << p
        elif (out.open_at <= now + 1 or not out.own) and has(s, way.pool, now):
            ways |= 1 << n + p
        if stopped(s, way.pool, now):
            late_ways |= 1 << n + p
    late_inputs = late_second | late_ways
    for sender in range(2 * n):
        to_units = ways if sender < n else 0
        loads = to_units
        if sender < n:
            b = w * n + sender
            load = s.output[s.c[0].load_way + w * n + sender]
            choose(s, b, 0, 0)
            if load.open_at <= now + 1 and has(s, load.pool, now):
                loads |= 1 << 2 * n
            own_first, own_second = first & ~by_units, second & ~by_units
            k = ask(s, b, now, own_first | loads, own_second | to_units, 0, late_inputs, 0)
        else:
            p = w * n + sender - n
            own, other = s.c[0].unit_buffer + p, s.c[0].result_buffer + p
            choose(s, own, 0, 0)
            choose(s, other, 0, 0)
            if s.buffer[own].busy > now or s.buffer[other].busy > now:
                continue
            b, k = own, ask(s, own, now, first, second, third, late_second, late_third)
            u = s.unit[p]
            if k < 0 or not (u.goes_first if u.went_at < now - 1 else u.went_first):
                results = ask(s, other, now, 0, 0, third, 0, late_third)
                if results >= 0:
                    b, k = other, results
        if k < 0:
            continue
        free, late = first | loads, 0
        if k == 1:
            free, late = second | to_units, late_inputs if sender < n else late_second
        elif k == 2:
            free, late = third, late_third
        if sender < n:
            free &= ~by_units
        choose(s, b, k, offer(s, b, k, free, late))


@compiled
def _oldest_first(s, o, requests, allowed, now):
    """The input that is granted a link, -1 if none of the requests is *allowed*. Of those with
    operands only the one with the oldest competes: `OldestFirst`."""
    out, n = s.output[o], s.c[0].ports
    operands = 0
    for k in range(n):
        if requests >> k & 1 and s.asked[k] == 0 and not kind_of(_word_at(s, k)) & ORDINARY:
            operands |= 1 << k
    if operands == 0:
        return first_of(allowed, turn_of(out, now)) if allowed else -1
    owner, late = out.turn_of_operands, out.younger == _MOST_YOUNGER
    own = operands >> owner & 1
    lowest = oldest = -1
    for k in range(n - 1, -1, -1):
        if operands >> k & 1:
            lowest = k
            if not _waits_for_older(s, operands, k):
                oldest = k
    chosen = owner if late and own else oldest if oldest >= 0 else lowest
    rest = (requests & ~operands | 1 << chosen) & allowed
    sender = first_of(rest, turn_of(out, now)) if rest else -1
    gives_up = late and not own and not out.turn_asked
    if own:
        out.turn_asked = 1
    if sender == chosen:
        if chosen == owner or gives_up:
            out.turn_of_operands = owner + 1 if owner + 1 < n else 0
            out.younger = out.turn_asked = 0
        elif not late:
            out.younger += 1
    return sender


@compiled
def _waits_for_older(s, operands, k):
    """True if another requesting input has an older operand than input *k*."""
    c = s.c[0]
    own = _number_at(s, k)
    for j in range(c.ports):
        if operands >> j & 1 and (_number_at(s, j) - own) >> c.age_bits - 1 & 1:
            return True
    return False


@compiled
def _number_at(s, k):
    """Number of the block of input *k*'s oldest operand, in its region."""
    return number_of(_word_at(s, k))


@compiled
def _word_at(s, k):
    """The header of input *k*'s oldest operand."""
    b = s.asking[k]
    return s.held[b, 0, s.buffer[b].first[0] & s.held.shape[2] - 1].header


@compiled
def _operand(s, number, b, k, slot, now):
    """Pass a packet on to a reduction unit."""
    u, packet = s.unit[number], s.held[b, k, slot]
    operand = s.operand[number, u.free & s.operand.shape[1] - 1]
    operand.at, operand.header = now + s.c[0].operand_latency, packet.header
    operand.low, operand.high = packet.low, packet.high
    u.free += 1


@compiled
def _load(s, number, b, k, slot, now):
    """Pass a load on to a reduction unit."""
    u, packet = s.unit[number], s.held[b, k, slot]
    load = s.load[number, u.load_free & s.load.shape[1] - 1]
    load.at, load.header = now + s.c[0].load_latency, packet.header
    load.expected, load.marks = packet.low, packet.high
    u.load_free += 1


@compiled
def arrive(s, o, b, k, slot, now):
    """Put a packet of a buffer on a link."""
    packet = s.held[b, k, slot]
    if s.output[o].leaves:
        note(s, PACKET, o, now, packet.header, packet.low, packet.high, 0, 0)
    else:
        land(s, o, packet.header, packet.low, packet.high, now)


@compiled
def land(s, o, word, low, high, now):
    """Enter a packet of output *o* into the buffer at the other end, with its target outputs."""
    c = s.c[0]
    out = s.output[o]
    k = word & 3
    targets = 1 << k
    if out.peer < s.c[0].unit_buffer:
        w, p = out.peer // c.ports, out.peer % c.ports
        kind = kind_of(word)
        region = region_of(word)
        if kind == PUSH:
            number = number_of(word)
            home = s.home[region, number % c.homes]
            word = header(PUSH, region, home, count_of(word), number)
            targets = 1 << s.route[w, home]
            if s.local[w, home]:
                targets <<= c.ports
        elif kind == LOAD:
            # In place of operands: the number that this switch's answer has, and two flags.
            first = s.local[w, home_of(word)]
            back = 1 if first and count_of(word) == s.expected[region] else 0
            low = count_of(word) if first else s.expected[region] - s.behind[w, region, p]
            high = FIRST * first + BACK * back
            targets = 1 << 2 * c.ports
        elif kind & ORDINARY or kind & 3 == PARTIAL & 3:
            targets = 1 << s.route[w, home_of(word)]
            if kind == RESPONSE:
                targets <<= c.ports
        else:
            targets = s.targets[w, region] & ~(1 << p)
    elif word & ORDINARY:
        targets = TAKEN_AT_ONCE
    flits = c.flits if kind_of(word) & 4 else 1
    to = out.peer
    if to < s.c[0].unit_buffer and k == RESULT & 3:
        to += s.c[0].result_buffer
    enter(s, to, now + flits + out.flight, word, low, high, targets)
