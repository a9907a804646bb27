# SPDX-License-Identifier: Apache-2.0
"""Streams given to one of several, with random back-pressure on each."""

import random

import pytest
from amaranth.hdl import ClockDomain, Module
from amaranth.sim import Simulator

from hw.common.demux import StreamDemux
from hw.common.params import FieldError


@pytest.mark.parametrize("outputs, seed", [(1, 1), (2, 2), (3, 3), (3, 4)])
def test_every_beat_leaves_once_by_its_output(outputs, seed):
    rng = random.Random(seed)
    dut = StreamDemux(8, outputs)
    beats = [(rng.randrange(outputs), rng.randrange(256)) for _ in range(300)]
    seen = [[] for _ in range(outputs)]

    async def bench(ctx):
        waiting = list(beats)
        while waiting:
            where, value = waiting[0]
            valid = rng.random() < 0.7
            ctx.set(dut.i.valid, valid)
            ctx.set(dut.i.payload, value)
            ctx.set(dut.chosen, 1 << where)
            for port in dut.o:
                ctx.set(port.ready, rng.random() < 0.5)
            leaves = [k for k, port in enumerate(dut.o)
                      if ctx.get(port.valid) and ctx.get(port.ready)]
            for k in leaves:
                seen[k].append(ctx.get(dut.o[k].payload))
            taken = valid and ctx.get(dut.i.ready)
            assert leaves == ([where] if taken else [])
            await ctx.tick()
            if taken:
                waiting.pop(0)

    m = Module()
    m.domains.sync = ClockDomain()  # the block itself needs none
    m.submodules.dut = dut
    simulator = Simulator(m)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    assert seen == [[value for where, value in beats if where == k] for k in range(outputs)]


def test_a_demux_has_an_output():
    with pytest.raises(FieldError, match="StreamDemux n"):
        StreamDemux(8, 0)
