# SPDX-License-Identifier: Apache-2.0
"""Packets of sources while what they show is forgotten: whole or not at all, and never stuck."""

import random

import pytest

from hw.common.testing import simulate
from hw.switch.packet import HEADER, Traffic
from hw.switch_dma.config import preset
from hw.switch_dma.transmit import Transmit

CONFIG = preset("test")
CLASSES = (Traffic.REQUEST, Traffic.RESULT, Traffic.REQUEST)
DROPPED, LASTING, LEAST = 1, 2, 30
CYCLES, STUCK, CALM = 4000, 25, 600


def packets(source, rng):
    """Flits of packets that are numbered: headers alone, or with data."""
    for number in range(1, 1 << 16):
        size = rng.choice((1, CONFIG.packet_flits))
        name = number << 2 | source
        header = HEADER.const({"offload": 1, "address": name}).as_bits()
        yield [(header if n == 0 else name << 8 | n, n == 0, n == size - 1) for n in range(size)]


def drive(seed, *, shown, credits):
    """Run with `discard` for random times. Returns what was taken of each source, and sent."""
    rng = random.Random(seed)
    dut = Transmit(CONFIG, classes=CLASSES, lasting=LASTING, dropped=[DROPPED])
    taken, sent = [[] for _ in CLASSES], []
    forgotten, taken_before = [], []

    async def bench(ctx):
        nonlocal credits, taken_before
        coming = [packets(source, rng) for source in range(len(CLASSES))]
        flits, offers = [[] for _ in CLASSES], [False] * len(CLASSES)
        owed = [0, 0, 0, 0]
        discards, until, waits = False, 0, 0
        for now in range(CYCLES):
            if now == CYCLES - CALM:
                discards, credits, taken_before = False, 1.0, [len(each) for each in taken]
            elif now == until and now < CYCLES - CALM:
                discards, until = not discards, now + rng.choice((1, 2, 3, 60))
            ctx.set(dut.discard, discards)
            for k, way in enumerate(dut.i):
                flits[k] = flits[k] or next(coming[k])
                offers[k] = offers[k] or rng.random() < shown
                data, first, last = flits[k][0]
                ctx.set(way.p, {"data": data, "first": first, "last": last})
                ctx.set(way.valid, offers[k])
            gives = [k for k in range(len(owed)) if owed[k] and rng.random() < credits]
            ctx.set(dut.credit, sum(1 << k for k in gives))
            moves = [k for k, way in enumerate(dut.i) if offers[k] and ctx.get(way.ready)]
            if ctx.get(dut.tx.valid):
                sent.append((ctx.get(dut.tx.p.start), ctx.get(dut.tx.p.data)))
            waits = waits + 1 if discards and offers[DROPPED] and DROPPED not in moves else 0
            assert waits < STUCK, "what is to be forgotten is not taken"
            await ctx.tick()
            for k in gives:
                owed[k] -= 1
            for k in moves:
                flit = flits[k].pop(0)
                offers[k] = False
                taken[k].append(flit)
                if discards and k == DROPPED:
                    forgotten.append(flit)
            if sent and ctx.get(dut.tx.valid) and ctx.get(dut.tx.p.start):
                source = HEADER.from_bits(ctx.get(dut.tx.p.data)).address & 3
                owed[CLASSES[source].value] += 1

    simulate(dut, bench)
    assert len(forgotten) > LEAST
    for before, flits in zip(taken_before, taken):  # room for every class is still there
        assert len(flits) - before > LEAST
    return taken, sent


def whole(sent):
    """Names and lengths of packets, each of which is in one piece."""
    names, at = [], 0
    while at < len(sent):
        start, data = sent[at]
        assert start, "data behind no header"
        name = HEADER.from_bits(data).address
        rest = [flit for begins, flit in sent[at + 1 : at + CONFIG.packet_flits] if not begins]
        there = [flit for flit in rest if flit >> 8 == name]
        assert [flit & 0xFF for flit in there] == list(range(1, len(there) + 1))
        names.append((name, 1 + len(there)))
        at += 1 + len(there)
    return names[:-1]  # the last one may be cut by the end


@pytest.mark.parametrize("seed, shown, credits", [
    (1, 1.0, 1.0), (2, 0.5, 0.3), (3, 0.9, 0.05), (4, 0.2, 0.5),
])
def test_packets_are_forgotten_whole_and_others_all_sent(seed, shown, credits):
    taken, sent = drive(seed, shown=shown, credits=credits)

    names = whole(sent)
    for source, flits in enumerate(taken):
        came = whole([(first, data) for data, first, _ in flits])
        went = [each for each in names if each[0] & 3 == source]
        if source == DROPPED:
            assert set(went) <= set(came) and went == sorted(went) and 0 < len(went) < len(came)
        else:
            both = min(len(went), len(came))
            assert went[:both] == came[:both] and abs(len(came) - len(went)) <= 8
