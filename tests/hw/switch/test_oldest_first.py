# SPDX-License-Identifier: Apache-2.0
"""Which input goes first at a link: the one with the oldest operand, and nobody waits for ever."""

import random
from itertools import pairwise

import pytest

from hw.common.testing import simulate
from hw.switch.oldest_first import OldestFirst

N, BITS = 5, 6


def older(ages):
    """Of each, which others are older: numbers wrap around."""
    half = 1 << BITS - 1
    return [sum(1 << j for j, age in enumerate(ages) if (age - own) % (2 * half) >= half)
            for own in ages]


def ask(ctx, dut, asks, ages, granted=True):
    """Who is chosen of inputs that ask with operands of these ages."""
    ctx.set(dut.asks, sum(1 << k for k in asks))
    for k, others in enumerate(older(ages)):
        ctx.set(dut.older[k], others)
    ctx.set(dut.granted, granted)
    chosen = ctx.get(dut.chosen)
    assert chosen.bit_count() == 1
    return chosen.bit_length() - 1


@pytest.mark.parametrize("base", [0, 60, 1000])
def test_the_oldest_goes_first_and_of_the_same_age_the_lowest_input(base):
    dut = OldestFirst(N, most=1 << 20)
    rng = random.Random(base)

    async def bench(ctx):
        for _ in range(300):
            asks = [k for k in range(N) if rng.random() < 0.6] or [rng.randrange(N)]
            ages = [base + rng.randrange(4) for _ in range(N)]
            oldest = min(asks, key=lambda k: (ages[k], k))
            assert ask(ctx, dut, asks, ages, rng.random() < 0.7) == oldest
            await ctx.tick()

    simulate(dut, bench)


@pytest.mark.parametrize("most", [1, 4])
def test_each_input_goes_sooner_or_later_although_others_are_always_older(most):
    dut = OldestFirst(N, most=most)
    rng = random.Random(most)

    async def bench(ctx):
        waits = [0] * N
        for _ in range(600):
            granted = rng.random() < 0.8
            chosen = ask(ctx, dut, range(N), [20, 20, 3, 21, 2], granted)
            if granted:
                waits = [0 if k == chosen else each + 1 for k, each in enumerate(waits)]
                assert max(waits) < N * (most + 1)
            await ctx.tick()

    simulate(dut, bench)


@pytest.mark.parametrize("pause", [2, 8, 9])
def test_an_input_that_others_keep_busy_now_and_then_goes_too(pause):
    """The youngest asks in all but every so-manieth grant, and keeps its turn meanwhile."""
    inputs, most = 3, 3
    dut = OldestFirst(inputs, most=most)

    async def bench(ctx):
        since = 0
        for number in range(1000):
            asks = [k for k in range(inputs) if k != 2 or number % pause]
            chosen = ask(ctx, dut, asks, [1, 2, 9])
            since = 0 if chosen == 2 else since + 1
            assert since <= inputs * (most + 1) + 2
            await ctx.tick()

    simulate(dut, bench)


@pytest.mark.parametrize("most", [1, 3, 6])
def test_the_input_whose_turn_it_is_is_passed_as_often_as_stated(most):
    """Not once more, and not once less."""
    dut = OldestFirst(2, most=most)
    went = []

    async def bench(ctx):
        for _ in range(6 * most + 12):
            went.append(ask(ctx, dut, [0, 1], [2, 1]))
            await ctx.tick()

    simulate(dut, bench)
    # The older input has its own turn as soon as it comes.
    turns = [place for place, input in enumerate(went) if input == 0]
    assert turns[0] == most and {b - a for a, b in pairwise(turns)} == {most + 2}


@pytest.mark.parametrize("most", [1, 4])
def test_a_turn_without_an_operand_ends_after_as_many_grants(most):
    """Then the next input has its turn, and is passed as often."""
    dut = OldestFirst(3, most=most)
    went = []

    async def bench(ctx):
        for _ in range(2 * most + 3):
            went.append(ask(ctx, dut, [1, 2], [0, 2, 1]))
            await ctx.tick()

    simulate(dut, bench)
    assert went.index(1) == 2 * most + 1


def test_somebody_goes_if_each_is_older_than_another():
    """Three thirds of a turn of the numbers apart."""
    dut = OldestFirst(N)

    async def bench(ctx):
        for _ in range(10):
            assert ask(ctx, dut, [0, 1, 2], [0, 43, 22, 0, 0], True) < 3
            await ctx.tick()

    simulate(dut, bench)
