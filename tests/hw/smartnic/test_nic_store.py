# SPDX-License-Identifier: Apache-2.0
"""The store of a NIC by itself."""

import pytest

from hw.common.testing import simulate
from hw.smartnic.config import preset
from hw.smartnic.store import Store
from tests.hw.axi_memory import AXIMemory

TEST = preset("test")


@pytest.mark.parametrize("data", [True, False], ids=["data waits", "no data"])
@pytest.mark.parametrize("after", range(6))
def test_it_is_busy_from_the_command_to_the_acknowledgement(after, data):
    """A flush any number of cycles after a block was taken, the first one included, leaves no write
    behind when it ends."""
    dut = Store(TEST)
    memory = AXIMemory(dut.bus, size=1 << 12, latency=9)
    answered = []

    async def host(ctx):
        ctx.set(dut.i.valid, data)
        ctx.set(dut.item.p.beats, 4)
        ctx.set(dut.item.p.valid, 4)
        ctx.set(dut.item.p.some, 1)
        ctx.set(dut.item.valid, 1)
        await ctx.tick().until(dut.item.ready)
        ctx.set(dut.item.valid, 0)
        for _ in range(after):
            await ctx.tick()
        assert ctx.get(dut.busy)
        ctx.set(dut.flush, 1)
        await ctx.tick().until(~dut.busy)
        assert answered, "a write is left behind"
        ctx.set(dut.flush, 0)
        await ctx.tick().repeat(20)
        assert len(answered) == 1

    async def answers(ctx):
        async for *_, taken in ctx.tick().sample(dut.bus.bvalid & dut.bus.bready):
            if taken:
                answered.append(True)

    simulate(dut, host, checks=[memory.serve, answers])
