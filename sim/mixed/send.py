"""Send unit of one port, with the arbiter in front of it."""

from numba import njit

from hw.ace.sram import READ_LATENCY
from sim.mixed.events import COUNT, UNIT, post
from sim.mixed.fsm import sent
from sim.mixed.link import put_packet
from sim.mixed.sram import take_bank
from sim.mixed.words import FLITS, field

__all__ = ["unit"]

_SENT = 1


@njit(cache=True)
def unit(s, node, p, now):  # type: ignore[no-untyped-def]
    """Take the command that the arbiter holds, and let it hold the next one."""
    c = s.c[0]
    q = s.port[node, p]
    if q.held and q.held_at <= now:
        if q.unit_free > now:
            post(s, q.unit_free, UNIT, node, p)
        elif q.reserved[1] < c.tx_packets:
            _carry_out(s, node, p, now)
            q.held = 0
    if not q.held:
        for n in range(1, c.fsms + 1):
            f = (q.sender + n) % c.fsms
            k = s.fsm[node, f]
            if k.send_valid <= now and k.send_port == p:
                q.sender = f
                q.held = f + 1
                q.held_at = now + 1
                q.held_word = k.send_word
                q.held_row = k.send_row
                q.held_context = k.target
                sent(s, node, f, now)
                post(s, now + 1, UNIT, node, p)
                break


@njit(cache=True)
def _carry_out(s, node, p, now):  # type: ignore[no-untyped-def]
    """Read the packet from SRAM into the transmit queue."""
    c = s.c[0]
    q = s.port[node, p]
    q.reserved[1] += 1
    word = q.held_word
    flits = field(word, FLITS, 8)
    beats = -(-flits // c.flits)
    cycle = now
    if beats == 0:
        cycle += 1
    for n in range(beats):
        cycle = take_bank(s, node, 0, q.held_row + n, cycle + 1)
    q.unit_free = cycle
    post(s, cycle, UNIT, node, p)
    put_packet(s, node, p, 1, word, cycle + READ_LATENCY + c.queue)
    if word & 1:
        f = q.held - 1
        k = s.fsm[node, f]
        done = max(cycle + c.event, k.event_free)
        k.event_free = done + 1
        post(s, done + 1, COUNT, node, f << 6 | q.held_context << 2 | _SENT)
