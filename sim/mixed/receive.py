"""Receive buffer, receive unit, ALU pool and forward gate of one port."""

from numba import njit

from hw.ace.sram import READ_LATENCY
from sim.mixed.events import COUNT, LOOK, START, post
from sim.mixed.fsm import answer_grant, ask, greet, park
from sim.mixed.link import give_credit, put_packet
from sim.mixed.sram import take_bank
from sim.mixed.state import WINDOW
from sim.mixed.words import FLITS, KEY, KEY_BITS, OFFSET, QUEUE, SLOT, STEP, data_word, field

__all__ = ["arrive", "look", "start"]


@njit(cache=True)
def arrive(s, node, p, now):  # type: ignore[no-untyped-def]
    """The last flit of a packet is here; its header shows when it has been parsed."""
    c = s.c[0]
    r = s.port[node, p]
    entry = s.arriving[node, p, r.arrived % s.arriving.shape[2]]
    r.arrived += 1
    takes = max(1, -(-field(entry[0], FLITS, 8) // c.flits))
    r.parsed = max(now + c.parse, r.parsed + takes)
    entry[1] = r.parsed
    post(s, r.parsed, LOOK, node, p)


@njit(cache=True)
def look(s, node, p, now):  # type: ignore[no-untyped-def]
    """The header in front: READY goes to its FSM, of DATA the FSM is asked what to do."""
    r = s.port[node, p]
    if r.looked == r.arrived:
        return
    entry = s.arriving[node, p, r.looked % s.arriving.shape[2]]
    if entry[1] > now:
        return
    if r.look_free > now:
        post(s, r.look_free, LOOK, node, p)
        return
    word = entry[0]
    f = field(word, QUEUE, 4)
    if word & 1:
        if r.asked == WINDOW:
            return
        free = s.fsm[node, f].ask_free
        if free > now:
            post(s, free, LOOK, node, p)
            return
        ask(s, node, f, now)
        at = (r.asked_head + r.asked) % WINDOW
        r.asked += 1
        s.asked[node, p, at, 0] = word
        s.asked[node, p, at, 1] = now
        post(s, now + s.c[0].lookup + 1, START, node, p)
    else:
        free = s.fsm[node, f].greet_free
        if free > now:
            post(s, free, LOOK, node, p)
            return
        greet(s, node, f, p, field(word, SLOT, 4), field(word, KEY, KEY_BITS), now)
        give_credit(s, node, p, now + 1)
    r.looked += 1
    r.look_free = now + 1
    post(s, now + 1, LOOK, node, p)


@njit(cache=True)
def start(s, node, p, now):  # type: ignore[no-untyped-def]
    """Start the next packet whose answer is here: ALU and output together, or park it."""
    c = s.c[0]
    r = s.port[node, p]
    if r.asked == 0:
        return
    word, asked = s.asked[node, p, r.asked_head]
    if asked + c.lookup + 1 > now:
        return
    if r.stream_until > now:
        post(s, r.stream_until, START, node, p)
        return
    f = field(word, QUEUE, 4)
    slot = field(word, SLOT, 4)
    offset = field(word, OFFSET, 12)
    x = s.context[node, f, slot]
    code = s.code[x.program, field(word, STEP, 11)]
    reduces = code.op & 1
    stores = code.op >> 1 & 1
    sends = code.op >> 2 & 1
    alu = s.port[node, p % c.alus]
    if reduces and alu.alu_until > now:
        post(s, alu.alu_until, START, node, p)
        return
    r.asked_head = (r.asked_head + 1) % WINDOW
    r.asked -= 1
    post(s, now + 1, LOOK, node, p)

    # Room in the forward queue, for one receive unit at a time.
    out = code.port
    forwards = False
    if sends:
        o = s.port[node, out]
        if (
            answer_grant(s, node, f, slot, out, asked + c.lookup - 1)
            and o.reserved[0] < c.tx_packets
            and (o.gate_owner == p or o.gate_until <= now)
        ):
            forwards = True
            o.reserved[0] += 1
            o.gate_owner = p
    parks = sends and not forwards

    flits = field(word, FLITS, 8)
    beats = max(1, -(-flits // c.flits))
    block = (code.block + s.node[node].rank) % c.nodes
    row = block * x.beats + offset * c.beats
    source_row = (f * c.contexts + slot) * c.slot_beats + row
    result_row = (c.slots + f * c.contexts + x.result) * c.slot_beats + row
    writes = (stores or parks) and flits > 0
    write_row = result_row if stores else source_row
    latency = READ_LATENCY + c.alu_latency
    depth = latency + 6
    issue = now
    collect = r.collected
    for n in range(beats):
        issue = max(issue + 1, r.ring[(r.outcomes - depth) & 15] + 1)
        if reduces:
            issue = take_bank(s, node, 0, source_row + n, issue)
        collect = max(collect + 1, issue + latency + 1)
        if writes:
            collect = take_bank(s, node, 1, write_row + n, collect)
        r.ring[r.outcomes & 15] = collect
        r.outcomes += 1
    r.collected = collect
    r.stream_until = issue
    if reduces:
        alu.alu_until = issue
    give_credit(s, node, p, issue + 1)
    if r.asked:
        post(s, issue, START, node, p)

    if forwards:
        o = s.port[node, out]
        o.gate_until = collect + 1
        onward = data_word(
            f, s.remote[node, f, slot, out], code.step, offset, flits, field(word, KEY, KEY_BITS)
        )
        put_packet(s, node, out, 0, onward, collect + c.queue)
    if parks:
        r.parked += 1
        park(s, node, f, slot, field(word, STEP, 11), offset, collect + c.queue + 3)
    k = s.fsm[node, f]
    done = max(collect + c.event, k.event_free)
    k.event_free = done + 1
    post(s, done + 1, COUNT, node, f << 6 | slot << 2 | 2 | forwards)
