# SPDX-License-Identifier: Apache-2.0
"""Receive buffer, receive unit, ALU pool and forward gate of one port."""

from hw.ace.sram import READ_LATENCY
from sim.cycles.ace.events import ARRIVE, GREET, LOOK, START, post
from sim.cycles.ace.fsm import found, greet, report
from sim.cycles.ace.generator import answer_grant, wake
from sim.cycles.ace.link import OUTSIDE, give_credit, put_packet
from sim.cycles.ace.occupancy import ALUS, worked
from sim.cycles.ace.sram import add_end, request, take_end
from sim.cycles.ace.state import FLIGHTS, REQUESTS, WINDOW
from sim.cycles.ace.words import (
    FLITS,
    KEY,
    KEY_BITS,
    OFFSET,
    QUEUE,
    SLOT,
    STEP,
    block_of,
    data_word,
    field,
)
from sim.cycles.queues import NEVER
from sim.native.mark import compiled

__all__ = [
    "ahead", "arrive", "collected", "greet_taken", "issued", "left", "look", "may_offer", "offer",
    "order", "start",
]


@compiled
def arrive(s, node, p, now):
    """The last flit of a packet is here, or was while the unpacker was at another packet."""
    r = s.port[node, p]
    if r.external == OUTSIDE:
        _arrive_from_outside(s, node, p, now)
        return
    _unpack(s, node, p, now)
    entry = s.arriving[node, p, r.arrived % s.arriving.shape[2]]
    if r.arrived < r.ended and entry.ends <= now:
        post(s, now + 1, ARRIVE, node, p)


@compiled
def _unpack(s, node, p, now):
    """Unpack beats up to cycle *now*, as ``hw.link.receive`` does: in a cycle the window gives a
    header with up to a beat of payload, or a beat of payload, and takes a beat if there is room."""
    c = s.c[0]
    r = s.port[node, p]
    cycle = r.unpacks_at
    while True:
        if r.window == 0:
            if r.beat_head == r.beat_tail:
                break
            cycle = max(cycle, s.beat[node, p, r.beat_head % s.beat.shape[2]].at)
        if cycle > now:
            break
        left = r.window
        if left:
            entry = s.arriving[node, p, r.arrived % s.arriving.shape[2]]
            needs = r.needs if r.needs > 0 else field(entry.word, FLITS, 8)
            takes = min(needs, c.flits)
            if left >= takes + (r.needs < 0):
                left -= takes + (r.needs < 0)
                r.needs = needs - takes
                if r.needs == 0:
                    r.needs = -1
                    r.arrived += 1
                    entry.visible = cycle + c.parse - 1
                    post(s, entry.visible, LOOK, node, p)
        if left <= c.flits + 1 and r.beat_head < r.beat_tail:
            beat = s.beat[node, p, r.beat_head % s.beat.shape[2]]
            if beat.at <= cycle:
                left += beat.flits
                r.beat_head += 1
        r.window = left
        cycle += 1
    r.unpacks_at = cycle


@compiled
def _arrive_from_outside(s, node, p, now):
    """The last flit of a packet is here; its beats are not known, but for the last one."""
    c = s.c[0]
    r = s.port[node, p]
    entry = s.arriving[node, p, r.arrived % s.arriving.shape[2]]
    r.arrived += 1
    flits = field(entry.word, FLITS, 8)
    takes = max(1, -(-flits // c.flits))
    # Beats of the packet that can be taken before its last flits are here.
    before = max(0, flits - entry.last_flits) // c.flits
    r.parsed = max(now + c.parse + takes - before - 1, r.parsed + takes)
    entry.visible = r.parsed
    post(s, r.parsed, LOOK, node, p)


@compiled
def _offers(s, node, p, f, kind, now):
    """True if the header in front is for FSM *f* and of this kind: 1 for DATA, 0 for READY."""
    r = s.port[node, p]
    if r.looked == r.arrived or r.look_free > now or (kind and r.asked == WINDOW):
        return False
    entry = s.arriving[node, p, r.looked % s.arriving.shape[2]]
    return entry.visible <= now and entry.word & 1 == kind and field(entry.word, QUEUE, 4) == f


@compiled
def _may_ask(s, node, f, p, now):
    """Take the question of port *p*, if it is its turn among all ports and the generator."""
    k = s.fsm[node, f]
    own = s.c[0].ports
    if k.sleeping:
        wake(s, node, f, now)
    if k.ask_free > now:
        return False
    for n in range(1, own + 2):
        other = (k.asker + n) % (own + 1)
        if other == p:
            break
        if k.own_at <= now if other == own else _offers(s, node, other, f, 1, now):
            return False
    k.ask_free = now + 1
    k.asker = p
    return True


@compiled
def _may_greet(s, node, f, p, now):
    """Take the READY of port *p*, if it is its turn among all ports and none waits."""
    k = s.fsm[node, f]
    ports = s.c[0].ports
    if k.greeted:
        return False
    for n in range(1, ports + 1):
        other = (k.greeter + n) % ports
        if other == p:
            break
        if _offers(s, node, other, f, 0, now):
            return False
    k.greeted = 1
    k.greeter = p
    k.greeted_word = s.arriving[node, p, s.port[node, p].looked % s.arriving.shape[2]].word
    post(s, now + 1, GREET, node, f)
    return True


@compiled
def greet_taken(s, node, f, now):
    """The READY that was taken goes to its context or into the table, unless a search finds one."""
    k = s.fsm[node, f]
    if found(s, node, f, now):
        post(s, now + 1, GREET, node, f)
        return
    k.greeted = 0
    word = k.greeted_word
    greet(s, node, f, k.greeter, field(word, SLOT, 4), field(word, KEY, KEY_BITS), now)


@compiled
def look(s, node, p, now):
    """Handle the header in front: give READY to its FSM, ask the FSM what to do with DATA."""
    r = s.port[node, p]
    if r.looked == r.arrived:
        return
    entry = s.arriving[node, p, r.looked % s.arriving.shape[2]]
    if entry.visible > now:
        return
    if r.look_free > now:
        post(s, r.look_free, LOOK, node, p)
        return
    word = entry.word
    f = field(word, QUEUE, 4)
    if word & 1:
        if r.asked == WINDOW:
            return
        if not _may_ask(s, node, f, p, now):
            post(s, now + 1, LOOK, node, p)
            return
        asked = r.asked_words[(r.asked_head + r.asked) % WINDOW]
        r.asked += 1
        asked.word, asked.at = word, now
        post(s, now + s.c[0].lookup + 1, START, node, p)
    else:
        if not _may_greet(s, node, f, p, now):
            post(s, now + 1, LOOK, node, p)
            return
        give_credit(s, node, p, now + 3)
    r.looked += 1
    r.look_free = now + 1
    post(s, now + 1, LOOK, node, p)


@compiled
def _code(s, node, word):
    """The instruction that a packet is for."""
    x = s.context[node, field(word, QUEUE, 4), field(word, SLOT, 4)]
    return s.code[x.program, field(word, STEP, 11)]


@compiled
def _next_is_ready(s, node, p, now):
    """True if the next packet has its answer, and a flight is free."""
    r = s.port[node, p]
    return (
        r.asked > 0
        and r.asked_words[r.asked_head].at + s.c[0].lookup + 1 <= now
        and r.flights + (r.flown_at == now) < FLIGHTS
    )


@compiled
def _wants_alu(s, node, p, now):
    """True if the next packet is reduced and ready, and there is no beat left of the one before, or
    the last one alone, whether that goes on in this cycle or not."""
    r = s.port[node, p]
    at_last = r.issue_left == 1 and r.offered_at < now
    if not (r.stream_until <= now or at_last) or not _next_is_ready(s, node, p, now):
        return False
    return _code(s, node, r.asked_words[r.asked_head].word).op & 1 == 1


@compiled
def _gets_alu(s, node, p, now):
    """True if the ALU is free and it is this port's turn among those that want it."""
    c = s.c[0]
    alu = s.port[node, p % c.alus]
    if alu.alu_until > now:
        return False
    sharers = (c.ports - 1 - p % c.alus) // c.alus + 1
    for n in range(1, sharers + 1):
        other = p % c.alus + (alu.alu_user + n) % sharers * c.alus
        if other == p:
            return True
        if _wants_alu(s, node, other, now):
            return False
    return True


@compiled
def start(s, node, p, now):
    """Start the next packet whose answer is here: ALU and output together, or park it."""
    c = s.c[0]
    r = s.port[node, p]
    if r.stream_until > now or not _next_is_ready(s, node, p, now):
        return
    word = r.asked_words[r.asked_head].word
    asked_at = r.asked_words[r.asked_head].at
    f = field(word, QUEUE, 4)
    slot = field(word, SLOT, 4)
    offset = field(word, OFFSET, 12)
    x = s.context[node, f, slot]
    code = _code(s, node, word)
    reduces = code.op & 1
    stores = code.op >> 1 & 1
    sends = code.op >> 2 & 1
    if reduces:
        if not _gets_alu(s, node, p, now):
            if r.alu_since == 0:
                r.alu_since = now
            return
        if r.alu_since > 0:
            s.node[node].alu_conflicts += now - r.alu_since
            r.alu_since = 0
    r.asked_head = (r.asked_head + 1) % WINDOW
    r.asked -= 1
    post(s, now + 1, LOOK, node, p)

    # Room in the forward queue, for one receive unit at a time.
    out = s.way[node, f].port[code.port]
    forwards = False
    if sends:
        o = s.port[node, out]
        if (
            answer_grant(s, node, f, slot, out, code.readies, asked_at + c.lookup - 1)
            and o.reserved[0] < c.tx_packets
            and (o.gate_owner == p or o.gate_until <= now)
        ):
            forwards = True
            o.reserved[0] += 1
            o.gate_owner = p
            o.gate_until = NEVER
            o.gate_flights += 1
    parks = sends and not forwards

    flits = field(word, FLITS, 8)
    beats = max(1, -(-flits // c.flits))
    row = block_of(s, node, f, code) * x.beats + offset * c.beats
    outcome = -1
    if (stores or parks) and flits > 0:
        outcome = row + (x.results if stores else x.row)
    row += x.row
    r.issue_left = beats
    r.offered_at = now
    r.stream_until = NEVER
    r.reduces = reduces
    if reduces:
        alu = s.port[node, p % c.alus]
        alu.alu_until = NEVER
        alu.alu_user = p // c.alus
    flight = r.flying[(r.flight_head + r.flights) % FLIGHTS]
    r.flights += 1
    flight.word = word
    flight.left = beats
    flight.parks = parks
    flight.out = out if forwards else -1
    if forwards:
        flight.onward = data_word(
            f,
            s.context[node, f, slot].remote[out],
            code.step,
            offset,
            flits,
            field(word, KEY, KEY_BITS),
        )
    for n in range(beats):
        tag = (outcome + n + 1 if outcome >= 0 else 0) << 1 | (n == beats - 1)
        request(s, node, p, row + n if reduces else -1, tag, now + 1)


@compiled
def ahead(s, node, p):
    """True if a beat of another port that shares the ALU waits for its operand."""
    c = s.c[0]
    for other in range(p % c.alus, c.ports, c.alus):
        if other != p and s.port[node, other].waited:
            return True
    return False


@compiled
def order(s, node):
    """Beats go behind those of another port that waited when the first of them was offered, until
    none is left of these."""
    for p in range(s.c[0].ports):
        r = s.port[node, p]
        r.behind = (r.behind or r.offers) and ahead(s, node, p)
        r.offers = 0


@compiled
def may_offer(s, node, p, now):
    """True if there is a place for the outcome of the next beat, and no beat of another port is
    behind those in its ALU; a place is free two cycles after an outcome has left."""
    c = s.c[0]
    r = s.port[node, p]
    if r.reduces:
        for other in range(p % c.alus, c.ports, c.alus):
            if other != p and s.port[node, other].behind:
                return False
    return r.promised + (r.collected_at == now - 1) < c.results


@compiled
def offer(s, node, p, tag, now):
    """The next beat waits for its operand from now on. Behind the last one another packet may
    start."""
    c = s.c[0]
    r = s.port[node, p]
    alu = p % c.alus
    r.promised += 1
    r.issue_left -= 1
    r.offered_at = now
    if r.reduces:
        r.waits += 1
        r.offers = 1
    if tag & 1:
        r.stream_until = now
        if r.reduces:
            s.port[node, alu].alu_until = now
            for other in range(alu, c.ports, c.alus):
                post(s, now, START, node, other)
        post(s, now, START, node, p)


@compiled
def issued(s, node, p, tag, now):
    """A beat gets its operand, or needs none; its outcome follows after the latency of SRAM and
    ALU."""
    c = s.c[0]
    r = s.port[node, p]
    q = s.client[node, p]
    outcome = now + READ_LATENCY + c.alu_latency + 1
    request(s, node, c.first_writer + p, (tag >> 1) - 1, tag & 1, outcome)
    if q.row[(q.head - 1) % REQUESTS] >= 0:
        r.waits -= 1
        worked(s, node, ALUS, now, 1)
    if tag & 1:
        give_credit(s, node, p, now + 3)


@compiled
def left(s, node, p, now):
    """The outcome of a beat goes on: it is forwarded in this cycle, and stored in this one or
    later; with the last one the packet is complete."""
    r = s.port[node, p]
    r.promised -= 1
    r.collected_at = now
    flight = r.flying[r.flight_head]
    flight.left -= 1
    if flight.left:
        return
    r.flight_head = (r.flight_head + 1) % FLIGHTS
    r.flights -= 1
    r.flown_at = now
    if r.flights == FLIGHTS - 1:
        post(s, now + 1, START, node, p)
    word = flight.word
    f = field(word, QUEUE, 4)
    slot = field(word, SLOT, 4)
    if flight.out >= 0:
        o = s.port[node, flight.out]
        o.gate_flights -= 1
        if o.gate_flights == 0:
            o.gate_until = now + 2
        put_packet(s, node, flight.out, 0, flight.onward, now + 1)
    if flight.parks:
        r.parked += 1
    # The offset, the step, whether it was parked, the context, its phase, and what is counted.
    event = word >> OFFSET & 0xFFF
    event = event << 11 | field(word, STEP, 11)
    event = event << 1 | flight.parks
    event = event << 4 | slot
    event = event << 1 | _code(s, node, word).odd
    end = add_end(r, 0)
    end.fsm = f
    end.event = event << 2 | 2 | (flight.out >= 0)


@compiled
def collected(s, node, p, last, now):
    """The outcome of a beat is stored, if it is at all; the last one reports the packet."""
    if last:
        end = take_end(s.port[node, p], 0)
        report(s, node, end.fsm, p, end.event, now + 1)
