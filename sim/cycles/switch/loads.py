# SPDX-License-Identifier: Apache-2.0
"""Pull: the blocks that an endpoint loads, and the loads of others that it answers: `loads.py`."""

from sim.cycles.switch.buffers import give
from sim.cycles.switch.memory import ANSWER, OWN, item_of
from sim.cycles.switch.state import LOADS, UNANSWERED
from sim.cycles.switch.words import home_of, number_of, region_of
from sim.native.mark import compiled

__all__ = ["walk"]


@compiled
def walk(s, e, n, now, may_ask):
    """Walk over the blocks that were begun, and judge a load that came; True if a load is to be
    sent. *may_ask*: no operand was asked for when the cycle began."""
    c = s.c[0]
    walking = e.walked != e.number
    own = (
        e.pull and e.walked != e.contract_number and e.walked % c.members == e.endpoint
    )
    loads = walking and own and not e.loaded
    asks = 1 if walking and own and e.loaded and not c.whole else 0
    number = number_of(e.heard_word) * c.spread + region_of(e.heard_word)
    if e.heard and e.heard_at == now - 1:  # judged from the next cycle on
        pass
    elif e.heard and e.number_seen - c.blocks_under_way <= number < e.number_seen:
        if s.pending[n, number & c.blocks_under_way - 1] & UNANSWERED:
            asks |= 2
        else:
            e.unknown += 1
            e.heard = 0
    elif not e.heard:
        _hear(s, e, n, now)
    granted = -1
    if may_ask:
        if asks & 1 and not e.heard_waits:
            granted = 0
        elif asks & 2:
            granted = 1
    e.heard_waits = 1 if asks & 2 and e.heard_first else 0
    if granted >= 0:
        e.heard_first = 1 - granted
        e.asked = 1
    if granted == 0:
        e.asked_item = item_of(e.walked, OWN, e.endpoint)
    elif granted == 1:
        e.asked_item = item_of(number, ANSWER, home_of(e.heard_word))
        s.pending[n, number & c.blocks_under_way - 1] &= ~UNANSWERED
        e.heard = 0
    if walking and (not own or (e.loaded and (c.whole or granted == 0))):
        e.walked += 1
        e.loaded = 0
    e.number_seen = e.number
    return loads


@compiled
def _hear(s, e, n, now):
    """Take a load that came."""
    packet = s.incoming[n, LOADS, e.in_first[LOADS] & 1]
    if e.in_first[LOADS] < e.in_free[LOADS] and packet.at <= now:
        e.heard, e.heard_word, e.heard_at = 1, packet.header, now
        e.in_first[LOADS] += 1
        give(s, s.c[0].lane_pool + 4 * n + LOADS, now + 1)
