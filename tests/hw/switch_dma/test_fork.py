# SPDX-License-Identifier: Apache-2.0
"""Results for others and for this endpoint, with random back-pressure on both."""

import random

import pytest
from amaranth.sim import Simulator

from hw.switch_dma.fork import ResultFork


@pytest.mark.parametrize("seed, sends, stores", [(1, 0.5, 0.5), (2, 0.1, 0.9), (3, 0.9, 0.1)])
def test_every_flit_leaves_once_by_each_output_and_others_begin_first(seed, sends, stores):
    rng = random.Random(seed)
    dut = ResultFork()
    flits = []  # data, first, last, stays
    for packet in range(60):
        length, stays = rng.randint(1, 4), rng.random() < 0.3
        flits += [(packet << 8 | k, k == 0, k == length - 1, stays) for k in range(length)]
    sent, stored = [], []

    async def bench(ctx):
        waiting = list(flits)
        while waiting:
            data, first, last, stays = waiting[0]
            valid = rng.random() < 0.8
            ctx.set(dut.i.valid, valid)
            ctx.set(dut.i.p, {"data": data, "first": first, "last": last})
            ctx.set(dut.stays, stays)
            ctx.set(dut.sent.ready, rng.random() < sends)
            ctx.set(dut.stored.ready, rng.random() < stores and ctx.get(dut.stored.valid))
            for port, out in ((dut.sent, sent), (dut.stored, stored)):
                if ctx.get(port.valid) and ctx.get(port.ready):
                    out.append(ctx.get(port.p.data))
            taken = valid and ctx.get(dut.i.ready)
            begun = ctx.get(dut.stored.valid) and first and not stays
            assert not begun or data in sent, "it begins a packet that the others have not begun"
            await ctx.tick()
            if taken:
                waiting.pop(0)

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    assert sent == [data for data, *_, stays in flits if not stays]
    assert stored == [data for data, *_ in flits]
