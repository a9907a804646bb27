# SPDX-License-Identifier: Apache-2.0
"""Wave control beside a model of it."""

import random

import pytest
from amaranth.sim import Simulator

from hw.switch_dma.config import SwitchDmaConfig
from hw.switch_dma.waves import WaveControl


@pytest.mark.parametrize(
    "waves, wave_blocks, size_log2, outstanding",
    [(8, 16, 4, 8), (8, 16, 4, 3), (4, 4, 1, 4), (4, 1, 0, 2), (1, 4, 2, 1), (2, 2, 1, 1)],
)
def test_blocks_are_begun_as_waves_permit(waves, wave_blocks, size_log2, outstanding):
    config = SwitchDmaConfig(waves=waves, wave_blocks=wave_blocks)
    dut = WaveControl(config)
    rng = random.Random(waves + outstanding)
    most, seen = 0, set()

    async def bench(ctx):
        nonlocal most, seen
        ctx.set(dut.window.size_log2, size_log2)
        ctx.set(dut.window.outstanding, outstanding)
        number, first, lively = 0, True, 0.9
        under_way = {}  # number -> place in its all-reduce
        begun = 0
        answered, loaded_here = set(), set()
        for cycle in range(1200):
            if cycle % 100 == 0:
                lively = rng.choice([0.1, 0.95])
            busy = {each >> size_log2 for each in under_way}
            wave = number >> size_log2
            begins = first or number % (1 << size_log2) == 0
            free = all(each % waves != wave % waves for each in busy)
            ctx.set(dut.begin.first, first)
            asked = rng.choice([*under_way, number - 1 - rng.randrange(2 * config.slots), number])
            asked %= 1 << config.number_bits
            ctx.set(dut.waited.number, asked)
            loaded = rng.choice([*under_way, number - 1 - rng.randrange(2 * config.slots), number])
            loaded %= 1 << config.number_bits
            ctx.set(dut.answer.number, loaded)
            due = loaded in under_way and loaded not in answered
            if number - 1 - config.slots < loaded < number:
                assert ctx.get(dut.answer.due) == due, cycle
            answers = due and rng.random() < 0.5
            ctx.set(dut.answer.answered, answers)
            ahead = rng.random() < 0.5
            part = number + rng.randrange(2 * config.slots) if ahead else loaded
            part %= 1 << config.number_bits
            ahead = part - number & 1 << config.number_bits - 1 == 0
            near = part - number < config.slots if part >= number else part in under_way
            ctx.set(dut.part.number, part)
            shown = [ctx.get(each) for each in (dut.part.ahead, dut.part.near, dut.part.asked_for)]
            if part - number < 1 << config.number_bits - 1:  # else it wraps around
                assert shown == [ahead, near, part in loaded_here], cycle
                seen.add(tuple(shown))
            sending = rng.choice([*under_way, None])
            sends = sending is not None and rng.random() < 0.3
            ctx.set(dut.sent.valid, sends)
            ctx.set(dut.sent.payload, sending or 0)
            ready = not begins or (free and len(busy) < outstanding)
            assert ctx.get(dut.begin.ready) == ready, cycle
            assert ctx.get(dut.begin.number) == number
            assert ctx.get(dut.waited.known) == (asked in under_way)
            assert ctx.get(dut.idle) == (not under_way)
            if asked in under_way:
                assert ctx.get(dut.waited.position) == under_way[asked]
                assert ctx.get(dut.waited.first) == (under_way[asked] == 0)
                assert ctx.get(dut.waited.newest) == (asked == number - 1)
            take = ready and rng.random() < lively
            over = rng.choice([asked, *under_way])  # asked for now, or before
            done = over in under_way and not sends and rng.random() > lively
            clear = rng.random() < 0.002
            ctx.set(dut.begin.take, take)
            ctx.set(dut.waited.over, over)
            ctx.set(dut.waited.done, done)
            ctx.set(dut.clear, clear)
            await ctx.tick()
            if answers:
                answered.add(loaded)
            if sends:
                loaded_here.add(sending)
            if done:
                del under_way[over]
                answered.discard(over)
                loaded_here.discard(over)
            if take and first:
                answered.add(number)  # a contract is not to be loaded
            if take:
                begun = 1 if first else begun + 1
                under_way[number] = begun - 1
                number += 1
            # An all-reduce begins only when the one before is done.
            first = (first and not take) or (not under_way and rng.random() < 0.1)
            if clear:
                number, first = 0, True
                under_way.clear()
                answered.clear()
                loaded_here.clear()
            most = max(most, len(under_way))

    simulator = Simulator(dut)
    simulator.add_clock(1e-9)
    simulator.add_testbench(bench)
    simulator.run()
    assert (min(outstanding, waves) - 1) << size_log2 < most <= outstanding << size_log2
    assert seen == {(1, 0, 0), (1, 1, 0), (0, 0, 0), (0, 1, 0), (0, 1, 1)}


def test_every_region_has_numbers_of_its_own():
    config = SwitchDmaConfig(waves=4, wave_blocks=2, regions=3)
    dut = WaveControl(config)

    async def bench(ctx):
        ctx.set(dut.window.size_log2, 1)
        ctx.set(dut.window.outstanding, 4)
        numbers = [0, 0, 0]

        async def run(row, blocks, *, finish=True):
            """An all-reduce in a region."""
            ctx.set(dut.row, row)
            begun = []
            for k in range(blocks):
                ctx.set(dut.begin.first, int(k == 0))
                assert ctx.get(dut.begin.ready) and ctx.get(dut.begin.number) == numbers[row]
                ctx.set(dut.begin.take, 1)
                await ctx.tick()
                begun.append(numbers[row])
                numbers[row] += 1
            ctx.set(dut.begin.take, 0)
            for other in range(3):  # a part of each region's next block, and of one under way
                ctx.set(dut.part.row, other)
                for back in (0, 1):
                    number = numbers[other] - back
                    ctx.set(dut.part.number, number % (1 << config.number_bits))
                    ahead = back == 0
                    near = ahead or (other == row and number in begun)
                    part = dut.part
                    shown = [ctx.get(each) for each in (part.ahead, part.near, part.asked_for)]
                    assert tuple(shown) == (ahead, near, 0), (row, other, back)
            for k, number in enumerate(begun if finish else ()):
                ctx.set(dut.waited.number, number)
                assert ctx.get(dut.waited.known) and ctx.get(dut.waited.position) == k
                ctx.set(dut.waited.over, number)
                ctx.set(dut.waited.done, 1)
                await ctx.tick()
                ctx.set(dut.waited.done, 0)
            assert ctx.get(dut.idle) == finish

        async def forget(row):
            ctx.set(dut.clear, 1 << row)
            await ctx.tick()
            ctx.set(dut.clear, 0)
            numbers[row] = 0

        for row, blocks in ((0, 5), (2, 3), (0, 4), (1, 1), (2, 6)):
            await run(row, blocks)
        await forget(0)
        await run(2, 2)
        await run(0, 3)
        await run(1, 4, finish=False)
        await forget(2)  # that of another region goes on
        assert not ctx.get(dut.idle) and ctx.get(dut.begin.number) == numbers[1]
        await forget(1)
        assert ctx.get(dut.idle)
        for row in range(3):
            await run(row, 2)

    simulator = Simulator(dut)
    simulator.add_clock(1e-9)
    simulator.add_testbench(bench)
    simulator.run()
