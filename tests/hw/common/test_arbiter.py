# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""Arbiters grant one requester at a time, each in its turn or by age, and lose no beat."""

import random
from itertools import pairwise

import pytest
from amaranth.hdl import ClockDomain, Module
from amaranth.lib import data

from hw.common.arbiter import AgeArbiter, RoundRobinArbiter, StreamArbiter
from hw.common.testing import check_stream, random_stalls, simulate, source

BEAT = data.StructLayout({"origin": 3, "serial": 8, "last": 1})


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8])
def test_grant_follows_the_rotating_order_of_a_model(n):
    dut = RoundRobinArbiter(n)
    rng = random.Random(n)

    async def bench(ctx):
        order = list(range(n))
        for _ in range(200):
            requests = [k for k in range(n) if rng.random() < 0.6]
            advance = rng.random() < 0.7
            ctx.set(dut.requests, sum(1 << k for k in requests))
            ctx.set(dut.advance, advance)
            granted = next((k for k in order if k in requests), None)
            assert ctx.get(dut.grant) == (0 if granted is None else 1 << granted)
            if advance and granted is not None:
                order = [(granted + 1 + k) % n for k in range(n)]
            await ctx.tick()

    simulate(dut, bench)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8])
def test_the_one_that_was_renewed_longest_ago_is_granted(n):
    dut = AgeArbiter(n)
    rng = random.Random(n)

    async def bench(ctx):
        renewed = [(-1, k) for k in range(n)]  # when, and before the first time by number
        for cycle in range(300):
            requests = [k for k in range(n) if rng.random() < 0.6]
            renew = rng.randrange(n) if rng.random() < 0.5 else None
            ctx.set(dut.requests, sum(1 << k for k in requests))
            ctx.set(dut.renew, 0 if renew is None else 1 << renew)
            granted = min(requests, key=renewed.__getitem__, default=None)
            assert ctx.get(dut.grant) == (0 if granted is None else 1 << granted)
            if renew is not None:
                renewed[renew] = (cycle, renew)
            await ctx.tick()

    top = Module()
    top.domains.sync = ClockDomain()  # one requester alone has no register
    top.submodules.dut = dut
    simulate(top, bench)


def collect(streams, stalls, count, into):
    """Testbench that takes *count* beats and files them by origin."""

    async def run(ctx):
        for _ in range(count):
            while True:
                ctx.set(streams.o.ready, not next(stalls))
                _, _, taken, beat = await ctx.tick().sample(
                    streams.o.valid & streams.o.ready, streams.o.payload
                )
                if taken:
                    break
            into.append(beat)

    return run


@pytest.mark.parametrize("gaps, stalls", [(0, 0), (0.5, 0), (0, 0.5), (0.4, 0.4)])
@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_stream_arbiter_passes_every_beat_of_each_input_in_order(n, gaps, stalls):
    dut = StreamArbiter(BEAT, n)
    sent = [
        [BEAT.const({"origin": k, "serial": s, "last": 0}) for s in range(40)] for k in range(n)
    ]
    got = []

    simulate(
        dut,
        *(source(dut.i[k], sent[k], random_stalls(k, gaps)) for k in range(n)),
        collect(dut, random_stalls(99, stalls), 40 * n, got),
        checks=[check_stream(dut.o)],
    )

    for k in range(n):
        assert [beat for beat in got if beat.origin == k] == sent[k]


@pytest.mark.parametrize("stalls", [0, 0.4])
def test_busy_inputs_get_equal_shares(stalls):
    n = 3
    dut = StreamArbiter(BEAT, n)
    sent = [
        [BEAT.const({"origin": k, "serial": s, "last": 0}) for s in range(40)] for k in range(n)
    ]
    got = []

    simulate(
        dut,
        *(source(dut.i[k], sent[k], random_stalls(k, 0)) for k in range(n)),
        collect(dut, random_stalls(7, stalls), 40 * n, got),
    )

    for start in range(0, 39 * n, n):
        assert {beat.origin for beat in got[start : start + n]} == set(range(n))


@pytest.mark.parametrize("gaps", [0, 0.5])
def test_packets_are_not_interleaved(gaps):
    n = 3
    dut = StreamArbiter(BEAT, n, last="last")
    sent = [
        [BEAT.const({"origin": k, "serial": s, "last": s % (k + 2) == 0}) for s in range(40)]
        + [BEAT.const({"origin": k, "serial": 255, "last": 1})]
        for k in range(n)
    ]
    got = []

    simulate(
        dut,
        *(source(dut.i[k], sent[k], random_stalls(k, gaps)) for k in range(n)),
        collect(dut, random_stalls(5, 0.3), 41 * n, got),
        checks=[check_stream(dut.o)],
    )

    for k in range(n):
        assert [beat for beat in got if beat.origin == k] == sent[k]
    for beat, following in pairwise(got):
        assert beat.last or following.origin == beat.origin, "a packet was interrupted"


def test_arbiters_refuse_to_have_no_requester():
    for arbiter in (RoundRobinArbiter, AgeArbiter):
        with pytest.raises(
            ValueError, match=rf"^{arbiter.__name__} n must be an integer at least 1, not 0$"
        ):
            arbiter(0)
    with pytest.raises(ValueError, match=r"^StreamArbiter n must be an integer at least 1, not 0$"):
        StreamArbiter(8, 0)


def test_stream_arbiter_refuses_an_unknown_last_field():
    with pytest.raises(ValueError, match=r"^StreamArbiter last must be the name of a field of "):
        StreamArbiter(BEAT, 2, last="final")
