# SPDX-License-Identifier: Apache-2.0
"""Both ends of a link have credits counted anew at about the same time."""

from collections import deque

import pytest
from amaranth.hdl import Module
from amaranth.sim import Simulator

from hw.switch.packet import HEADER, Kind
from hw.switch.recount import Recount

GUARD, RETRY = 8, 200


@pytest.mark.parametrize("apart", range(0, 30, 3))
@pytest.mark.parametrize("latency", [1, 4, 9])
def test_both_ends_that_ask_at_once_come_to_an_end(latency, apart):
    """Each question asks the other end to count, too, which it does already."""
    m = Module()
    m.submodules.a, m.submodules.b = ends = Recount(guard=GUARD, retry=RETRY), Recount(
        guard=GUARD, retry=RETRY
    )
    asked, regrants = [0, 0], [0, 0]

    async def run(ctx):
        wires = [deque([None] * latency) for _ in ends]
        for end in ends:
            ctx.set(end.quiet, 1)
        for cycle in range(12 * GUARD + 8 * latency + apart):
            for k, end in enumerate(ends):
                ctx.set(end.start, cycle == (5, 5 + apart)[k])
                came = wires[1 - k].popleft()
                ctx.set(end.asked.count, came is not None and came[0] == Kind.COUNT.value)
                ctx.set(end.asked.counted, came is not None and came[0] == Kind.COUNTED.value)
                ctx.set(end.asked.nonce, 0 if came is None else came[1])
                ctx.set(end.asked.both, 0 if came is None else came[2])
            for k, end in enumerate(ends):
                header = HEADER.from_bits(ctx.get(end.header.as_value()))
                sent = (header.kind.value, header.tag, header.poison)
                wires[k].append(sent if ctx.get(end.valid) else None)
                asked[k] += ctx.get(end.valid) and header.kind is Kind.COUNT
                regrants[k] += ctx.get(end.asked.regrant)
            await ctx.tick()
        assert not any(ctx.get(end.counting) for end in ends)

    simulator = Simulator(m)
    simulator.add_clock(1e-9)
    simulator.add_testbench(run)
    simulator.run()

    assert max(asked) <= 3 and min(regrants) >= 1


@pytest.mark.parametrize("quiet", [0, 1])
def test_a_link_that_is_taken_out_of_service_waits_for_nothing(quiet):
    """Whether its question has been sent, or waits for the wire."""
    end = Recount(guard=GUARD, retry=RETRY)

    async def run(ctx):
        ctx.set(end.quiet, quiet)
        ctx.set(end.start, 1)
        await ctx.tick()
        ctx.set(end.start, 0)
        for _ in range(10):
            await ctx.tick()
        assert ctx.get(end.hold) and ctx.get(end.forget) == ctx.get(end.counting) == quiet
        ctx.set(end.cancel, 1)
        ctx.set(end.quiet, 1)
        await ctx.tick().repeat(2)
        for _ in range(3 * RETRY):
            assert not any(map(ctx.get, (end.hold, end.forget, end.counting, end.valid)))
            await ctx.tick()

    simulator = Simulator(end)
    simulator.add_clock(1e-9)
    simulator.add_testbench(run)
    simulator.run()
