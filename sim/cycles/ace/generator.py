# SPDX-License-Identifier: Apache-2.0
"""The programmable FSM: questions, and the generator of sends."""

from hw.ace.isa import Opcode
from sim.cycles.ace.events import ANSWER, ASK, CLOSE, HAND_OVER, NOW, OVER, PICK, SETUP, UNIT, post
from sim.cycles.ace.occupancy import FSMS, worked
from sim.cycles.ace.words import block_of, data_word, ready_word
from sim.cycles.queues import NEVER
from sim.native.mark import compiled

__all__ = [
    "announced",
    "answer",
    "answer_grant",
    "ask",
    "hand_over",
    "measure_runs",
    "park",
    "pick",
    "resume",
    "sent",
    "wake",
]

_PARKED, _FRESH, _ENTRY, _REFUSED = range(4)
PHASE = Opcode.PHASE.value
COPY = Opcode.COPY.value


# ---- Questions: one per cycle, those of the receive units and of the own generator in turn.


@compiled
def ask(s, node, f, now):
    """The question of the generator, after those of the receive units in this cycle."""
    k = s.fsm[node, f]
    if k.own_at > now:
        return
    if k.ask_free > now:
        post(s, k.ask_free, ASK, node, f)
        return
    k.ask_free = now + 1
    k.asker = s.c[0].ports
    k.own_at = NEVER
    k.answer_at = now + s.c[0].lookup - 1
    post(s, k.answer_at, ANSWER, node, f)


@compiled
def _out(s, node, f, code):
    """Port that an instruction sends on; the copy unit is behind the last one."""
    return s.c[0].ports if code.op == COPY else s.way[node, f].port[code.port]


@compiled
def answer_grant(s, node, f, slot, port, readies, cycle):
    """True if *readies* READY packets of the peer on *port* beyond the first were known in
    *cycle*. The copy unit needs none."""
    if port == s.c[0].ports:
        return True
    return s.context[node, f, slot].grant[port, readies] <= cycle


@compiled
def announced(s, node, f, ready):
    """Ports of the node for those of a program, as masks."""
    ports = 0
    for n in range(s.c[0].ports):
        ports |= (ready >> n & 1) << s.way[node, f].port[n]
    return ports


# ---- Send generator. It looks for work in a state PICK; `busy_until` is when it is there again.


@compiled
def wake(s, node, f, cycle):
    """Have the generator look for work in *cycle*: something may have become possible."""
    k = s.fsm[node, f]
    if k.sleeping:
        resume(s, node, f, cycle)
    if k.busy_until < NEVER:
        post(s, max(cycle, k.busy_until), PICK, node, f)


@compiled
def _able(x):
    """True if the program of a context may go on, as far as the generator knows without a look."""
    return x.fresh and not (x.waiting and not x.over)


@compiled
def _has_room(s, node, f, port):
    """True if a packet may have a command at a port: there is none, and no READY goes first."""
    for slot in range(s.c[0].contexts):
        if s.context[node, f, slot].announce >> port & 1:
            return False
    return s.command[node, f, port].valid == NEVER


@compiled
def _may_look(s, node, f, slot):
    """True for a context that is `_able`, unless its packet waits for room at its port."""
    x = s.context[node, f, slot]
    return _able(x) and (not x.wants or _has_room(s, node, f, x.wants - 1))


@compiled
def _next_fresh(s, node, f):
    c = s.c[0]
    k = s.fsm[node, f]
    oldest = -1
    for _ in range(2):
        for slot in range(c.contexts):
            x = s.context[node, f, slot]
            if _may_look(s, node, f, slot) and not k.passed >> slot & 1:
                if oldest < 0 or x.age < s.context[node, f, oldest].age:
                    oldest = slot
        if oldest >= 0:
            break
        k.passed = 0
    k.target = oldest
    k.passed |= 1 << oldest
    k.source = _FRESH
    k.prefer_fresh = 0
    k.step = s.context[node, f, k.target].step
    k.offset = s.context[node, f, k.target].packet


@compiled
def resume(s, node, f, cycle):
    """Make up for polls without effect, which are not simulated one by one."""
    c = s.c[0]
    k = s.fsm[node, f]
    k.sleeping = 0
    period = c.lookup + 2
    polls = max(0, cycle - k.pick_at) // period
    k.pick_at += polls * period
    waiting = 0
    for slot in range(c.contexts):
        waiting += _may_look(s, node, f, slot)
    if polls and waiting:
        k.asker = c.ports
        # After so many the order begins anew with what is able.
        for _ in range(polls if polls < 2 * waiting else 2 * waiting + polls % waiting):
            _next_fresh(s, node, f)
    if waiting and cycle > k.pick_at + c.lookup:
        _next_fresh(s, node, f)  # this poll's answer has been formed without what is new
        k.asker = c.ports
        k.pick_at += period
    k.busy_until = k.pick_at
    if waiting and cycle > k.pick_at:
        # A poll is under way; it sees what is known when its answer is formed.
        _next_fresh(s, node, f)
        k.busy_until = NEVER
        if cycle == k.pick_at + 1:
            k.own_at = cycle
            post(s, cycle, ASK, node, f)
        else:
            k.asker = c.ports
            k.answer_at = k.pick_at + c.lookup
            post(s, k.answer_at, ANSWER, node, f)


@compiled
def _question(s, node, f, now):
    k = s.fsm[node, f]
    k.busy_until = NEVER
    k.pick_at = now
    k.own_at = now + 1
    worked(s, node, FSMS, now, s.c[0].lookup + 2)
    post(s, now + 1, ASK, node, f)


@compiled
def pick(s, node, f, now):
    """Choose: entry of a new chunk, READY, then parked and fresh packets in turn."""
    c = s.c[0]
    k = s.fsm[node, f]
    if now < k.busy_until or k.sleeping:
        return
    # A chunk that is admitted in this cycle shows in the next one.
    if k.setup and not k.asked and now > k.setup_end - 2 - c.scan:
        k.asked = 1
        k.source = _ENTRY
        _question(s, node, f, now)
        return
    fresh = 0
    for n in range(1, c.contexts + 1):
        slot = (k.announcer + n) % c.contexts
        x = s.context[node, f, slot]
        fresh += _may_look(s, node, f, slot)
        for port in range(c.ports):
            if x.announce >> port & 1 and s.command[node, f, port].valid == NEVER:
                k.announcer = slot
                x.announce &= ~(1 << port)
                _send(s, node, f, port, ready_word(f, slot, x.key), 0, slot, now + 1)
                k.busy_until = now + 1
                post(s, now + 1, PICK, node, f)
                post(s, now, CLOSE, node, f)
                x.over_from = now + 2  # a cycle after the port's bit has gone
                post(s, x.over_from, OVER, node, f << 4 | slot)
                return
    if k.park_count:
        entry = s.parking[node, f, k.park_head]
        if entry.ready <= now and not (k.prefer_fresh and fresh):
            k.park_head = (k.park_head + 1) % s.parking.shape[2]
            k.park_count -= 1
            k.prefer_fresh = 1
            k.source = _PARKED
            k.target = entry.context
            k.step = entry.step
            k.offset = entry.offset
            _question(s, node, f, now)
            return
    if fresh:
        _next_fresh(s, node, f)
        _question(s, node, f, now)


@compiled
def answer(s, node, f, now):
    """The answer is formed: send, pass over, or come to the end of the sends."""
    k = s.fsm[node, f]
    if now != k.answer_at:
        return
    then = now + 2
    if k.source == _ENTRY:
        k.busy_until = then
        post(s, then, PICK, node, f)
        if s.c[0].phases and not k.placed:
            # The place of results came first.
            k.placed = 1
            k.asked = 0
            return
        # The multiplier makes two products of the entry, between registers.
        post(s, max(then + 4, k.setup_end) + 1, SETUP, node, f)
        return
    x = s.context[node, f, k.target]
    code = s.code[x.program, k.step]
    if k.source == _PARKED:
        post(s, now + 1, HAND_OVER, node, f)
        return
    k.busy_until = then
    if not code.op >> 2 & 1 or code.op >> 3 & 1:
        post(s, now + 1, HAND_OVER, node, f)
        post(s, then, PICK, node, f)
        return
    out = _out(s, node, f, code)
    if answer_grant(s, node, f, k.target, out, code.readies, now):
        post(s, now + 1, HAND_OVER, node, f)
    elif _nothing_else(s, node, f):
        k.sleeping = 1
        k.pick_at = then
        return
    post(s, then, PICK, node, f)


@compiled
def hand_over(s, node, f, now):
    """Act on an answer: come to the end of the sends or of a phase, give a packet to its port, or
    park it again."""
    c = s.c[0]
    k = s.fsm[node, f]
    x = s.context[node, f, k.target]
    code = s.code[x.program, k.step]
    if k.source == _FRESH and (not code.op >> 2 & 1 or code.op >> 3 & 1):
        if code.op == PHASE:
            _open_phase(s, node, f, now)
        else:
            x.fresh = 0
            post(s, now + 1, CLOSE, node, f)
        return
    if k.source == _REFUSED:
        _park_again(s, node, f, now)
        return
    out = _out(s, node, f, code)
    granted = answer_grant(s, node, f, k.target, out, code.readies, now - 1)
    if not granted or not _has_room(s, node, f, out):
        if k.source == _PARKED:
            _park_again(s, node, f, now)
        else:
            x.wants = out + 1
            k.passed &= ~(1 << k.target)
        return
    row = block_of(s, node, f, code) * x.beats + k.offset * c.beats
    elements = min(c.elements, (x.span[code.odd] - k.offset * c.beats) * c.lanes)
    elements = max(0, min(elements, x.elements - row * c.lanes))
    place = row + (x.results if code.op >> 1 & 1 else x.row)
    row = place if k.source == _PARKED else row + x.row
    remote = 0 if out == c.ports else s.context[node, f, k.target].remote[out]
    word = data_word(f, remote, code.step, k.offset, -(-elements // 4), x.key)
    s.command[node, f, out].odd = code.odd
    s.command[node, f, out].place = place
    _send(s, node, f, out, word, row, k.target, now + 1)
    if k.source == _PARKED:
        k.busy_until = now + 1
        post(s, now + 1, PICK, node, f)
    else:
        k.passed = 0
        x.wants = 0
        x.packet += 1
        if x.packet == x.packets[x.odd]:
            x.packet = 0
            x.step += 1


@compiled
def measure_runs(s, node, f, slot, odd, run):
    """Beats and packets of a run of so many blocks, of the phase of even or odd number."""
    x = s.context[node, f, slot]
    x.span[odd] = run * x.beats
    x.packets[odd] = -(-x.span[odd] // s.c[0].beats)


@compiled
def _open_phase(s, node, f, now):
    """The end of a phase: open the next one if all packets of it have arrived and left."""
    k = s.fsm[node, f]
    x = s.context[node, f, k.target]
    if not x.over:
        x.waiting = 1
        return
    code = s.code[x.program, x.step]
    x.waiting = x.over = 0
    x.step += 1
    x.odd = 1 - x.odd
    measure_runs(s, node, f, k.target, x.odd, code.run)
    # Packets that have come before the phase began count, too.
    x.receives[x.odd] += code.block * x.packets[x.odd]
    x.sends[x.odd] += code.step * x.packets[x.odd]
    x.announce |= announced(s, node, f, code.port)
    k.opened_at = now
    post(s, now + 2, OVER, node, f << 4 | k.target)


@compiled
def _nothing_else(s, node, f):
    """True if only polls of peers that are not ready are left."""
    c = s.c[0]
    k = s.fsm[node, f]
    if k.park_count or (k.setup and not k.asked):
        return False
    for slot in range(c.contexts):
        x = s.context[node, f, slot]
        if x.announce:
            return False
        if _may_look(s, node, f, slot):
            code = s.code[x.program, x.step]
            if not code.op >> 2 & 1 or code.op >> 3 & 1:
                return False
            out = _out(s, node, f, code)
            if out == c.ports or s.context[node, f, slot].grant[out, code.readies] < NEVER:
                return False
    return True


@compiled
def _send(s, node, f, port, word, row, slot, valid):
    """A send command waits for its port from cycle *valid* on."""
    command = s.command[node, f, port]
    command.valid = valid
    command.word = word
    command.row = row
    command.context = slot
    post(s, valid, UNIT, node, port)


@compiled
def sent(s, node, f, port, now):
    """A command has been taken; there is room for the next one of its port."""
    if s.fsm[node, f].sleeping:
        resume(s, node, f, now + 1)
    s.command[node, f, port].valid = NEVER
    wake(s, node, f, now + 1)


@compiled
def _park_again(s, node, f, now):
    """Put a parked packet whose peer is not ready into the queue again, in the next cycle; packets
    that come go first."""
    k = s.fsm[node, f]
    if k.parked_at == now + 1:
        k.source = _REFUSED
        post(s, now + 1, HAND_OVER, node, f)
        return
    k.busy_until = now + 2
    park(s, node, f, k.target, k.step, k.offset, now + 1)


@compiled
def park(s, node, f, slot, step, offset, at):
    """A packet that could not be sent at once is left to the generator: written in cycle *at*."""
    k = s.fsm[node, f]
    ready = at + s.c[0].parking
    k.parked_at = at
    entry = s.parking[node, f, (k.park_head + k.park_count) % s.parking.shape[2]]
    entry.ready = ready
    entry.context = slot
    entry.step = step
    entry.offset = offset
    k.park_count += 1
    wake(s, node, f, s.registers[NOW])
    post(s, ready, PICK, node, f)
    if ready < k.busy_until < NEVER:
        post(s, k.busy_until, PICK, node, f)
