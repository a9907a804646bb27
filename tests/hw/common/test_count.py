# SPDX-License-Identifier: Apache-2.0
"""Counters whose strobes come late count as others do."""

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.common.count import stepped, stepped_to
from hw.common.testing import simulate


class Counter(wiring.Component):
    def __init__(self, most):
        self.most = most
        super().__init__(
            {"up": In(1), "down": In(1), "count": Out(range(most + 1)), "at": Out(most + 1)}
        )

    def elaborate(self, platform):
        m = Module()
        strobes = {"up": self.up, "down": self.down}
        m.d.sync += self.count.eq(stepped(self.count, **strobes))
        for value in range(self.most + 1):
            at = Signal(name=f"at_{value}", init=value == 0)
            m.d.sync += at.eq(stepped_to(self.count, value, **strobes))
            m.d.comb += self.at[value].eq(at)
        return m


@pytest.mark.parametrize("most", [1, 2, 3, 5, 8])
def test_a_counter_steps_and_knows_where_it_is(most):
    dut = Counter(most)

    async def bench(ctx):
        count = 0
        # Up and down between none and all, with and without the other strobe.
        for up, down in [(1, 0)] * most + [(1, 1), (0, 0)] + [(0, 1)] * most + [(1, 0), (1, 1)]:
            ctx.set(dut.up, up)
            ctx.set(dut.down, down)
            await ctx.tick()
            count += up - down
            assert ctx.get(dut.count) == count
            assert ctx.get(dut.at) == 1 << count

    simulate(dut, bench)
