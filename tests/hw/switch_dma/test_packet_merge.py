# SPDX-License-Identifier: Apache-2.0
"""Packets of several streams: whole, in order, in turn, and without gaps."""

import random

import pytest

from hw.common.testing import simulate
from hw.switch_dma.packet_merge import PacketMerge


def drive(n, seed, *, shown=1.0, ready=1.0, may=1.0, cycles=1500):
    """Offer packets of one to four flits on *n* streams. Returns what left, by cycle, and the
    streams that showed a packet that might begin, by cycle."""
    dut, rng = PacketMerge(n), random.Random(seed)
    left, waiting = [], []

    async def bench(ctx):
        flits = [[] for _ in range(n)]
        number = [0] * n
        offers, allowed = [False] * n, [True] * n
        stalled = False
        for _ in range(cycles):
            for k in range(n):
                if not flits[k]:
                    size = rng.choice((1, 1, 2, 4))
                    flits[k] = [(number[k], place == 0, place == size - 1)
                                for place in range(size)]
                    number[k] += 1
                if not offers[k]:
                    offers[k] = rng.random() < shown
                if not stalled:
                    allowed[k] = rng.random() < may
                data, first, last = flits[k][0]
                ctx.set(dut.i[k].p, {"data": n * data + k, "first": first, "last": last})
                ctx.set(dut.i[k].valid, offers[k])
                ctx.set(dut.may[k], allowed[k])
            ctx.set(dut.o.ready, rng.random() < ready)
            moves = ctx.get(dut.o.valid) and ctx.get(dut.o.ready)
            stalled = bool(ctx.get(dut.o.valid)) and not moves
            out = ctx.get(dut.o.p)
            left.append((out.data % n, out.data // n, out.first, out.last) if moves else None)
            waiting.append([offers[k] and flits[k][0][1] and allowed[k] for k in range(n)])
            taken = [k for k in range(n)
                     if offers[k] and ctx.get(dut.i[k].valid) and ctx.get(dut.i[k].ready)]
            assert taken == ([out.data % n] if moves else [])
            await ctx.tick()
            for k in taken:
                flits[k].pop(0)
                offers[k] = False

    simulate(dut, bench)
    return left, waiting


@pytest.mark.parametrize("n, seed, shown, ready, may", [
    (2, 1, 1.0, 1.0, 1.0), (2, 2, 0.5, 0.6, 1.0), (5, 3, 0.3, 1.0, 0.5), (3, 4, 0.9, 0.5, 0.8),
    (1, 5, 0.7, 0.7, 0.7),
])
def test_packets_leave_whole_and_in_order(n, seed, shown, ready, may):
    left, _ = drive(n, seed, shown=shown, ready=ready, may=may)

    within, numbers = None, [0] * n
    for k, number, first, last in filter(None, left):
        assert bool(first) == (within is None)
        assert within in (None, (k, number)), "another packet comes between"
        assert number == numbers[k]
        within = None if last else (k, number)
        numbers[k] += bool(last)
    assert min(numbers) > 30


@pytest.mark.parametrize("n", [2, 3, 5])
def test_streams_that_wait_have_their_turns_without_a_gap(n):
    left, _ = drive(n, n)

    assert None not in left[2:], "a gap"
    begun = [k for k, _, first, _ in filter(None, left) if first]
    for at in range(n, len(begun) - n):
        assert sorted(begun[at : at + n]) == list(range(n))


@pytest.mark.parametrize("seed", range(3))
def test_none_waits_for_more_than_a_packet_of_each_other_stream(seed):
    n = 4
    left, waiting = drive(n, 10 + seed, shown=0.4)

    passed = [0] * n  # packets begun while this stream waited
    for flit, waits in zip(left, waiting):
        for k in range(n):
            if not waits[k] or (flit and flit[0] == k):
                passed[k] = 0
            elif flit and flit[2]:
                passed[k] += 1
            assert passed[k] <= n, "one more may begin in the cycle in which it comes"


def begun_with_room_for_one(n, cycles=400):
    """All of *n* streams always show packets of four flits. There is room for one: it is taken as
    one begins, and there again a few cycles after it has ended. Returns who began, in order."""
    dut, begun = PacketMerge(n), []

    async def bench(ctx):
        place, room = [0] * n, 0  # cycles until there is room
        for _ in range(cycles):
            for k in range(n):
                ctx.set(dut.i[k].p, {"data": k, "first": place[k] == 0, "last": place[k] == 3})
                ctx.set(dut.i[k].valid, 1)
            ctx.set(dut.may, (1 << n) - 1 if room == 0 else 0)
            ctx.set(dut.o.ready, 1)
            room = max(0, room - 1)
            if ctx.get(dut.o.valid):
                k = ctx.get(dut.o.p.data)
                if place[k] == 0:
                    begun.append(k)
                    room = 7
                place[k] = (place[k] + 1) % 4
            await ctx.tick()

    simulate(dut, bench)
    return begun


@pytest.mark.parametrize("n", [2, 4])
def test_streams_that_share_scarce_room_take_turns(n):
    begun = begun_with_room_for_one(n)

    assert len(begun) > 40
    for at in range(n, len(begun) - n):
        assert sorted(begun[at : at + n]) == list(range(n))
