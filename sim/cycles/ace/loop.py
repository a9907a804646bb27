# SPDX-License-Identifier: Apache-2.0
"""The event loop of the cycle model."""

from sim.cycles.ace import events as e
from sim.cycles.ace.crossbar import serve
from sim.cycles.ace.dispatch import dispatch, host, stored
from sim.cycles.ace.dma import address, data, reported, store, walk
from sim.cycles.ace.fsm import close, count, live, loaded, over, set_up, take_report
from sim.cycles.ace.generator import answer, ask, hand_over, pick
from sim.cycles.ace.link import flush, transmit
from sim.cycles.ace.partitions import free, move
from sim.cycles.ace.receive import arrive, greet_taken, look, start
from sim.cycles.ace.send import unit
from sim.native.mark import compiled

__all__ = ["run_until"]


@compiled
def run_until(s, end):
    """Process all events before cycle *end*, up to a fault; returns how many."""
    processed = 0
    while s.registers[e.SIZE] and s.registers[e.FAULT] == 0 and s.heap[0] >> 32 < end:
        key = e.pop(s.heap, s.registers)
        processed += 1
        now = key >> 32
        s.registers[e.NOW] = now
        kind = key >> 27 & 31
        node = key >> 12 & 32767
        where = key & e.ARGUMENT
        if kind == e.CREDIT:
            s.port[node, where].credits += 1
            e.post(s, now, e.TRANSMIT, node, where)
        elif kind == e.ARRIVE:
            arrive(s, node, where, now)
        elif kind == e.COUNT:
            count(
                s, node, where >> 7, where >> 3 & 15, where >> 2 & 1, where >> 1 & 1, where & 1,
                now,
            )
        elif kind == e.STORED:
            tag = reported(s, s.storer, kind, node, where, now)
            if tag >= 0:
                stored(s, node, tag >> 4, tag & 15, now)
        elif kind == e.LOADED:
            tag = reported(s, s.loader, kind, node, where, now)
            if tag >= 0:
                loaded(s, node, tag >> 4, tag & 15, now)
        elif kind == e.SETUP:
            set_up(s, node, where, now)
        elif kind == e.LIVE:
            live(s, node, where >> 4, where & 15, now)
        elif kind == e.ROOM:
            s.port[node, where >> 1].reserved[where & 1] -= 1
            if where & 1:
                e.post(s, now, e.UNIT, node, where >> 1)
        elif kind == e.FREE:
            free(s, node, where >> 4, where & 15, now)
        elif kind == e.COMMAND:
            s.node[node].issued += 1
            e.post(s, now, e.DISPATCH, node, 0)
        elif kind == e.OVER:
            over(s, node, where >> 4, where & 15, now)
        elif kind == e.BANKS:
            serve(s, node, now)
        elif kind == e.REPORT:
            take_report(s, node, where, now)
        elif kind == e.STORE:
            store(s, node, where, now)
        elif kind == e.CLOSE:
            close(s, node, where, now)
        elif kind == e.MOVE:
            move(s, node, where, now)
        elif kind == e.DISPATCH:
            dispatch(s, node, now)
        elif kind == e.WALK:
            walk(s, node, where, now)
        elif kind == e.ADDRESS:
            address(s, node, where, now)
        elif kind == e.DATA:
            data(s, node, where, now)
        elif kind == e.GREET:
            greet_taken(s, node, where, now)
        elif kind == e.LOOK:
            look(s, node, where, now)
        elif kind == e.ASK:
            ask(s, node, where, now)
        elif kind == e.START:
            start(s, node, where, now)
        elif kind == e.ANSWER:
            answer(s, node, where, now)
        elif kind == e.HAND_OVER:
            hand_over(s, node, where, now)
        elif kind == e.PICK:
            pick(s, node, where, now)
        elif kind == e.UNIT:
            unit(s, node, where, now)
        elif kind == e.TRANSMIT:
            transmit(s, node, where, now)
        elif kind == e.FLUSH:
            flush(s, node, where, now)
        else:
            host(s, node, now)
    return processed
