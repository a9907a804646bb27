# SPDX-License-Identifier: Apache-2.0
"""A link of an endpoint: waves, transmitter, receiver, home store, results: `lane.py`."""

from sim.cycles.port import memory
from sim.cycles.queues import NEVER, front, pop, push, room, there
from sim.cycles.switch.buffers import (
    ask,
    asked,
    choose,
    enter,
    give,
    has,
    move_up,
    offer,
    send,
    serve,
    take,
)
from sim.cycles.switch.crossbar import TAKEN_AT_ONCE, arrive
from sim.cycles.switch.loads import walk
from sim.cycles.switch.memory import (
    ANSWER,
    FOR_PUSH,
    OWN,
    block_of,
    gather,
    read,
    requester_of,
    use_of,
    write,
)
from sim.cycles.switch.notes import MERGE, note
from sim.cycles.switch.ordinary import deliver, inject, ordinary
from sim.cycles.switch.state import (
    BEATS,
    COMMANDS,
    COMPLETE,
    HEADERS,
    HOME,
    LOADS,
    PARTIALS,
    PAYLOAD,
    RESULTS,
    UNANSWERED,
    UNDER_WAY,
)
from sim.cycles.switch.transit import from_link, taken, waited
from sim.cycles.switch.words import (
    LOAD,
    ORDINARY,
    PUSH,
    RESPONSE,
    RESULT,
    SUBTOTAL,
    after,
    count_of,
    first_of,
    header,
    kind_of,
    number_of,
    region_of,
)
from sim.native.mark import compiled

__all__ = ["begin", "done", "lane", "transmit"]

_WRITES = 64  # results that are being stored
_COMMANDS = 2  # results of which the write has not begun
_RECEIVED = 5  # cycles from a grant in the receiver to a header at the home store or results
_STORED = 1  # cycles from the choice of a flit to send to its store
_GIVEN = 3  # cycles from the choice of a sum to the header of its result
_PUSHES, _FINISHED, _LOADS, _ANSWERS, _OTHERS = 0, 1, 3, 4, 5  # sources of packets to send
_CLASS = (0, 2, 2, 0, 1)  # of each source but the last; the third, notices, is not modelled


@compiled
def done(e):
    """True if a lane has done its part of the job."""
    return (
        e.running and not e.active and e.waves_under_way == 0 and not e.result_body
        and not e.result_held and not e.judged and e.under_way == 0 and e.walked == e.number
    )


@compiled
def begin(e, job):
    """Begin a job."""
    e.running = e.active = e.contract = 1
    e.pull, e.agreed_at = job.pull, NEVER
    e.block = e.link
    e.blocks, e.tail_beats = job.blocks, job.tail_beats
    e.source_row, e.destination_row = job.source_row, job.destination_row
    e.contract_number = e.number


@compiled
def lane(s, n, now):
    """One cycle of a lane."""
    c, e, x = s.c[0], s.lane[n], s.slots
    memory(c, e, x, now, e.read_latency, True)
    wave = (e.number >> e.size_log2) & (c.waves - 1)
    starts = e.contract or e.number & (1 << e.size_log2) - 1 == 0
    ready = not starts or (e.counts[wave] == 0 and e.waves_under_way < e.outstanding)
    arrived = _result(s, e, x, n, now)
    stored = e.moved_flit
    write(c, e, x, now)
    asks = not e.asked
    begins = read(c, e, x, now, ready)
    loads = walk(s, e, n, now, asks)
    _count(s, e, n, wave, begins, arrived)
    use = -1  # of the operand that is, or could be, sent now
    if e.left:
        use = use_of(e.sending)
    elif there(e, x, HEADERS, now):
        use = use_of(front(e, x, HEADERS))
    sent = _fill(s, e, x, n, now, use, loads)
    _fork(s, e, n, sent, stored, now)
    gather(c, e, x, now)
    _home(s, e, x, n, now)
    _merge(s, e, x, n, now, use)
    transmit(s, n, now)
    _receive(s, e, n, now)


@compiled
def _count(s, e, n, wave, begins, arrived):
    """Update wave counters: *begins*, if a block is begun; *arrived*, the one done, or -1."""
    c = s.c[0]
    if arrived >= 0:
        of = (arrived >> e.size_log2) & (c.waves - 1)
        if e.counts[of] == 1 and not (begins and of == wave):
            e.waves_under_way -= 1
        if begins and of == wave:
            e.counts[of] += 1
            begun = True
        else:
            begun = False
        e.counts[of] -= 1
        s.pending[n, arrived & c.blocks_under_way - 1] = 0
    else:
        begun = False
    if begins:
        if not begun:
            if e.counts[wave] == 0:
                e.waves_under_way += 1
            e.counts[wave] += 1
        s.pending[n, e.number & c.blocks_under_way - 1] = UNDER_WAY | UNANSWERED
        e.number += 1


@compiled
def _there(s, e, n, q, now):
    """True if the next flit of a queue of packets can be taken."""
    return (
        e.in_first[q] < e.in_free[q]
        and s.incoming[n, q, e.in_first[q] & 1].at + e.in_place[q] <= now
    )


@compiled
def _is_subtotal(s, e, n, q):
    """True if the first packet of a queue is a partial sum for all members, or a complete one that
    all members make by themselves from such."""
    return kind_of(s.incoming[n, q, e.in_first[q] & 1].header) == SUBTOTAL


@compiled
def _next(s, e, n, q, now):
    """Take a flit of a queue of packets; the last one makes room."""
    e.in_place[q] += 1
    if e.in_place[q] == s.c[0].flits:
        e.in_place[q] = 0
        e.in_first[q] += 1
        if q == RESULTS:  # the next header is there a cycle later
            e.results_at = now + 1
        # Whether the home store may give a sum is known a cycle early.
        give(s, s.c[0].lane_pool + 4 * n + q, now + 2 if q == HOME else now + 1)


@compiled
def _put(s, e, n, q, at, word, low, high):
    packet = s.incoming[n, q, e.in_free[q] & 1]
    packet.at, packet.header, packet.low, packet.high = at, word, low, high
    e.in_free[q] += 1


@compiled
def _result(s, e, x, n, now):
    """Work on the flit of a result that was looked up; returns the block done, or -1. Then look up
    the one that is held, and hold the next one, from the link or the home store."""
    e.moved_flit = 0
    has_room = e.tail[COMMANDS] - e.head[COMMANDS] < _COMMANDS and e.under_way < _WRITES
    if e.looked:
        e.looked = 0
        push(e, x, COMMANDS, now, e.looked_block)
    arrived = -1
    if e.judged and e.judged_head:
        if e.has_room:
            arrived = _head(s, e, n)
            e.judged = e.result_place = 0
            e.result_body = 1
    elif e.judged:
        _body(s, e, x, now)
    room = e.result_held < 2
    if e.result_held and not e.judged:
        e.result_held -= 1
        e.judged, e.judged_head = 1, e.held_flits & 1
        e.held_flits >>= 1
    e.has_room = 1 if has_room else 0
    _hold(s, e, n, now, room)
    return arrived


@compiled
def _body(s, e, x, now):
    """Write a flit of a result's data, as there is room."""
    if e.writes and (not e.ends or e.result_place < e.tail_beats):
        if not room(e, x, BEATS, now):
            return
        push(e, x, BEATS, now, 0)
    e.judged = 0
    e.result_place += 1
    if e.result_place == s.c[0].payload:
        e.result_body = 0
        if e.compares:
            e.agreed_at = now + 1


@compiled
def _hold(s, e, n, now, room):
    """Take a flit of a result, in turn from the link and the home store, if there is room."""
    offered = 0
    if (
        now >= e.results_at and _there(s, e, n, RESULTS, now)
        and not _is_subtotal(s, e, n, RESULTS)
    ):
        offered = 1
    # Only what the transmitter has begun, so that results never wait for room there.
    begun = e.in_place[HOME] or e.has_sent or _is_subtotal(s, e, n, HOME)
    if _there(s, e, n, HOME, now) and not e.has_stored and begun:
        offered |= 2
    source = e.result_owner
    shown = offered >> source & 1
    ends = not e.result_within and not shown
    if shown and room:
        q = HOME if source else RESULTS
        if e.in_place[q] == 0:
            packet = s.incoming[n, q, e.in_first[q] & 1]
            e.result_word, e.result_low, e.result_high = packet.header, packet.low, packet.high
            e.held_flits |= 1 << e.result_held
        e.result_held += 1
        ends = e.in_place[q] == s.c[0].flits - 1
        e.result_within = 0 if ends else 1
        if source:
            e.moved_flit = 1
        else:
            _next(s, e, n, RESULTS, now)
    others = offered & ~(1 << source)
    if ends and others:
        e.result_owner = first_of(others, e.result_turn)
        e.result_turn = after(e.result_owner)


@compiled
def _head(s, e, n):
    """Take the header of a result; returns the number of its block, -1 if nothing waits for it."""
    c = s.c[0]
    word = e.result_word
    number = number_of(word) * c.spread + region_of(word)
    age = e.number - number - 1
    known = (
        0 <= age < c.blocks_under_way
        and s.pending[n, number & c.blocks_under_way - 1] & UNDER_WAY
    )
    e.writes = e.compares = 0
    if not known or count_of(word) != c.members:
        e.unknown += 1
        return -1
    if e.result_low != c.everyone_low or e.result_high != c.everyone_high:
        c.wrong += 1
    position = number - e.contract_number
    if position == 0:
        e.compares = 1
    else:
        e.writes = e.looked = 1
        e.looked_block = (position - 1) * c.links + e.link
        e.ends = 1 if e.looked_block + 1 == e.blocks else 0
        e.results += 1
        e.under_way += 1
    return number


@compiled
def _fork(s, e, n, sent, stored, now):
    """Pass a flit of the home store's results to the link, if others need it, and to the results
    here."""
    if not sent and not stored:
        return
    if (sent or e.has_sent or _is_subtotal(s, e, n, HOME)) and (stored or e.has_stored):
        e.has_sent = e.has_stored = 0
        _next(s, e, n, HOME, now)
    else:
        e.has_sent = 1 if sent or e.has_sent else 0
        e.has_stored = 1 if stored or e.has_stored else 0


@compiled
def _class_of(c, source):
    """Class of the packets of a source."""
    return c.ordinary_kind & 3 if source == _OTHERS else _CLASS[source]


@compiled
def _fill(s, e, x, n, now, use, loads):
    """Put a flit into the send buffer; True if it is one of the home store."""
    c = s.c[0]
    b = s.c[0].send_buffer + n
    offered = 1 << _LOADS if loads else 0
    if use == FOR_PUSH:
        offered |= 1 << _PUSHES
    elif use == ANSWER:
        offered |= 1 << _ANSWERS
    if _there(s, e, n, HOME, now) and not e.has_sent and not _is_subtotal(s, e, n, HOME):
        offered |= 1 << _FINISHED
    if ordinary(s, n, now):
        offered |= 1 << _OTHERS
    source = e.owner
    others, may = offered & ~(1 << source), 0
    for k in range(6):
        if others >> k & 1 and has(s, s.buffer[b].pool + _class_of(c, k), now):
            may |= 1 << k
    passed_over = e.passed_over
    moves = offered >> source & 1
    if not e.within:
        moves = moves and has(s, s.buffer[b].pool + _class_of(c, source), now)
        if moves:
            e.within, e.passed_over = 1, may
            take(s, s.buffer[b].pool + _class_of(c, source))
    done = False
    if moves:
        done = _move(s, e, x, n, now, source, use)
    requests = may | others & passed_over if moves else may
    if not e.within and requests:
        e.owner = first_of(requests, e.turn)
        e.turn = after(e.owner)
    return done


@compiled
def _move(s, e, x, n, now, source, use):
    """Move a flit of a source into the send buffer; True if it is one of the home store."""
    c = s.c[0]
    b = s.c[0].send_buffer + n
    if source == _OTHERS:
        word = inject(s, n, now)
        if word:
            e.within = 0
            enter(s, b, now + _STORED, word, 0, 0, 1)
        return False
    if source == _FINISHED:
        if e.in_place[HOME] == c.flits - 1:
            e.within = 0
            packet = s.incoming[n, HOME, e.in_first[HOME] & 1]
            enter(s, b, now + _STORED, packet.header, packet.low, packet.high, 1)
        return True
    if source == _LOADS:
        word = header(LOAD, e.walked % c.spread, e.endpoint, c.members - 1 + c.whole,
                      e.walked // c.spread)
        enter(s, b, now + _STORED, word, 0, 0, 1)
        e.within = 0
        e.loaded = 1
        e.loads += 1
        return False
    if e.left == 0:
        e.sending = pop(e, x, HEADERS, now)
        e.left = c.payload
        return False
    pop(e, x, PAYLOAD, now)
    e.left -= 1
    if e.left == 0:
        e.within = 0
        enter(s, b, now + _STORED, _operand(c, e, use), _low(e), _high(e), 1)
        if use == ANSWER:
            e.answers += 1
        else:
            e.operands += 1
    return False


@compiled
def _operand(c, e, use):
    """Header of the operand that is sent."""
    number = block_of(e.sending)
    kind = PUSH if use == FOR_PUSH else RESPONSE
    return header(kind, number % c.spread, requester_of(e.sending), 1, number // c.spread)


@compiled
def _low(e):
    """Low word of the set that has this endpoint's operand alone; `_high`: the other word."""
    return 1 << e.endpoint if e.endpoint < 64 else 0


@compiled
def _high(e):
    return 1 << e.endpoint - 64 if e.endpoint >= 64 else 0


@compiled
def _merge(s, e, x, n, now, use):
    """Take packets from links, and own operands, in turn into the register before the home store.

    The flits of a packet follow its header from the cycle on in which the home store takes it.
    """
    if e.merged:
        return
    if use == OWN and e.left:
        pop(e, x, PAYLOAD, now)
        e.left -= 1
    if now < e.merge_at - 1:
        return
    offered = 1 if _there(s, e, n, PARTIALS, now) else 0
    if use == OWN:
        offered |= 2
    if (
        now >= e.results_at and _there(s, e, n, RESULTS, now) and not e.in_place[RESULTS]
        and _is_subtotal(s, e, n, RESULTS)
    ):
        offered |= 4
    source = e.merge_owner
    if now >= e.merge_at and offered >> source & 1:
        e.merged, e.merge_at = 1 + source, now + 1
        if source == 1:
            e.sending = pop(e, x, HEADERS, now)
            e.left = s.c[0].payload
        return
    offered &= ~(1 << source)
    if offered:
        e.merge_owner = first_of(offered, e.merge_turn)
        e.merge_turn = after(e.merge_owner)


@compiled
def _home(s, e, x, n, now):
    """Add a partial, an answer or an own operand, or send a sum that is complete."""
    c = s.c[0]
    if now < e.home_at:
        return
    takes = e.merged and e.merge_at <= now
    gives = there(e, x, COMPLETE, now) and has(s, s.c[0].lane_pool + 4 * n + HOME, now)
    if takes and gives:
        takes = e.home_turn == 0
        gives = not takes
    if not takes and not gives:
        return
    e.home_at = now + c.flits
    e.home_turn = 1 if takes else 0
    if takes:
        if e.merged == 2:
            _add(s, e, x, n, now, _operand(c, e, OWN), _low(e), _high(e))
        else:
            q = PARTIALS
            if e.merged == 3:
                q = RESULTS
                e.results_at = now + c.flits - 1
            packet = s.incoming[n, q, e.in_first[q] & 1]
            e.in_first[q] += 1
            give(s, s.c[0].lane_pool + 4 * n + q, now + c.flits - 1)
            _add(s, e, x, n, now, packet.header, packet.low, packet.high)
        e.merged, e.merge_at = 0, now + c.flits - 1
        return
    place = pop(e, x, COMPLETE, now)
    take(s, s.c[0].lane_pool + 4 * n + HOME)
    total = s.total[n, place]
    word = total.header
    kind = SUBTOTAL if kind_of(word) == SUBTOTAL else RESULT
    _put(s, e, n, HOME, now + _GIVEN, header(
        kind, region_of(word), e.endpoint, c.members, number_of(word)
    ), total.low, total.high)
    total.count = 0


@compiled
def _add(s, e, x, n, now, word, low, high):
    """Add operands to a sum."""
    c = s.c[0]
    number = number_of(word) * c.spread + region_of(word)
    place = number & c.sums - 1
    total = s.total[n, place]
    if total.count == 0:
        total.header = word
        total.low = total.high = 0
    if number_of(total.header) != number_of(word) or total.low & low or total.high & high:
        c.wrong += 1
        return
    if c.mixed:
        note(s, MERGE, s.unit.size + n, now, word, low, high, total.low, total.high)
    total.count += count_of(word)
    total.low |= low
    total.high |= high
    e.partials += 1
    if total.count == c.members:
        e.finished += 1
        push(e, x, COMPLETE, now, place)


@compiled
def transmit(s, n, now):
    """Simulate the output of the link."""
    b, o = s.c[0].send_buffer + n, s.c[0].lane_output + n
    out = s.output[o]
    requests, k = asked(s, b, now), s.buffer[b].channel
    if out.open_at > now or not has(s, out.pool + k, now):
        requests = 0
    chosen = -1
    if out.open_at <= now + 1:
        chosen = ask(
            s, b, now, 1 if has(s, out.pool, now) else 0,
            1 if has(s, out.pool + 1, now) else 0, 1 if has(s, out.pool + 2, now) else 0, 0, 0,
        )
    choose(s, b, max(chosen, 0), 1 if chosen >= 0 else 0)
    if requests:
        slot = send(s, o, b, k, now)
        from_link(s, s.held[b, k, slot].header, s.held[b, k, slot].at, now)
        arrive(s, o, b, k, slot, now)
        serve(s, b, k, 1, now)
    move_up(s, b, now)


@compiled
def _receive(s, e, n, now):
    """Move a packet from the receive buffer to the queue of loads, home store or results."""
    b = s.c[0].receive_buffer + n
    pools = s.c[0].lane_pool + 4 * n
    loads = 1 if has(s, pools + LOADS, now) else 0
    partials = 2 if has(s, pools + PARTIALS, now) else 0
    results = 4 if has(s, pools + RESULTS, now) else 0
    granted, k = asked(s, b, now), s.buffer[b].channel
    chosen = ask(s, b, now, TAKEN_AT_ONCE | loads, TAKEN_AT_ONCE | partials, results, 0, 0)
    wanted = 0
    if chosen >= 0:
        wanted = offer(s, b, chosen, TAKEN_AT_ONCE | loads | partials | results, 0)
    choose(s, b, max(chosen, 0), wanted)
    if granted:
        slot = s.buffer[b].first[k] + s.buffer[b].place & s.held.shape[2] - 1
        packet = s.held[b, k, slot]
        word = packet.header
        waited(s, word, packet.at, now)
        if word & ORDINARY:
            deliver(s, n, word, now)
        else:
            take(s, pools + k)
            taken(s, word, now)
            _put(s, e, n, k, now + _RECEIVED, word, packet.low, packet.high)
        serve(s, b, k, granted, now)
    move_up(s, b, now)
