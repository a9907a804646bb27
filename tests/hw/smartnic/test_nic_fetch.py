# SPDX-License-Identifier: Apache-2.0
"""Blocks of a vector, read ahead: each beat as it lies in memory, its error with it alone."""

import random

import pytest

from hw.common.testing import random_stalls, simulate, source
from hw.smartnic.config import preset
from hw.smartnic.fetch import Fetch
from tests.hw.axi_memory import AXIMemory

CONFIG = preset("test")
PAGE = 4096


@pytest.mark.parametrize("seed, stall", [(1, 0.0), (2, 0.4), (3, 0.7)])
def test_only_beats_that_memory_answered_with_an_error_are_bad(seed, stall):
    rng = random.Random(seed)
    beat_bytes, most = CONFIG.bus_bytes, CONFIG.block_beats
    bad_pages = {1, 3}
    items, expected = [], []
    for _ in range(24):
        page = rng.randrange(5)
        there = rng.randint(0, most)
        address = page * PAGE + beat_bytes * rng.randrange(PAGE // beat_bytes - most)
        items.append({"address": address, "beats": most, "valid": there})
        expected += [k < there and page in bad_pages for k in range(most)]
    dut = Fetch(CONFIG)
    memory = AXIMemory(dut.bus, size=5 * PAGE, latency=3, stall=stall, seed=seed,
                       bad_pages=bad_pages)
    stalls, got = random_stalls(seed + 1, stall), []

    async def take(ctx):
        while len(got) < len(expected):
            ctx.set(dut.o.ready, not next(stalls))
            _, _, taken, bad = await ctx.tick().sample(dut.o.valid & dut.o.ready, dut.o.p.bad)
            if taken:
                got.append(bool(bad))

    simulate(dut, source(dut.item, items, random_stalls(seed, stall)), take, checks=[memory.serve])
    assert got == expected
