# SPDX-License-Identifier: Apache-2.0
"""Exits of a reduction unit's port: what is purged leaves, whatever its buffer is full of."""

import numpy as np
import pytest

from hw.common.testing import simulate
from hw.switch.config import preset
from hw.switch.packet import FLIT
from hw.switch.reduction_port import ReductionPort
from tests.hw.switch.rig import packet

CONFIG = preset("test")
WORDS = np.arange(4 * CONFIG.payload_flits, dtype=np.int32)
LONG = 80  # cycles in which a packet passes the unit


@pytest.mark.parametrize("purged", [1, 0])
def test_what_is_purged_does_not_wait_for_room(purged):
    """Sums of two regions: nobody takes that of the first, and that of the other one waits behind
    it for room in the buffer."""
    dut = ReductionPort(CONFIG, port=0)
    held = []

    async def drive(ctx):
        for region in range(CONFIG.regions):
            ctx.set(dut.expected[region], 1)
            ctx.set(dut.targets[region], (1 << CONFIG.ports) - 1)
        for region in (0, 1):
            for flit in packet(WORDS, region=region, count=1, op=3):
                ctx.set(dut.flit, FLIT.from_bits(flit))
                ctx.set(dut.valid, 1)
                await ctx.tick()
            ctx.set(dut.valid, 0)
            await ctx.tick().repeat(LONG)
        held.append(ctx.get(dut.holds))
        ctx.set(dut.purging, 1 << purged)
        await ctx.tick().repeat(LONG)
        held.append(ctx.get(dut.holds))

    simulate(dut, drive)

    assert held == [0b11, 0b11 & ~(1 << purged)]
