# SPDX-License-Identifier: Apache-2.0
"""Every cycle of the watchdog against a model."""

import random

import pytest

from hw.common.testing import simulate
from hw.common.watchdog import Watchdog


@pytest.mark.parametrize("tries", [None, 0, 1, 3])
@pytest.mark.parametrize("limit", [0, 1, 6, 31])
def test_watchdog_counts_cycles_without_progress(limit, tries):
    dut = Watchdog(5, tries_bits=0 if tries is None else 2)
    rng = random.Random(limit)

    async def run(ctx):
        waited = times = barks = failures = 0
        ctx.set(dut.limit, limit)
        if tries is not None:
            ctx.set(dut.tries, tries)
        for _ in range(2000):
            outstanding, progress = rng.random() < 0.99, rng.random() < 0.02
            ctx.set(dut.outstanding, outstanding)
            ctx.set(dut.progress, progress)
            watching = outstanding and limit
            stalled = bool(watching and waited == limit)
            assert ctx.get(dut.stalled) == stalled
            assert ctx.get(dut.refresh) == bool(watching and waited == limit // 2)
            failed = stalled and tries is not None and times == tries
            if tries is not None:
                assert ctx.get(dut.failed) == failed
            barks, failures = barks + stalled, failures + failed
            restarts = progress or not watching
            times = 0 if restarts or failed else times + stalled
            waited = 0 if restarts or stalled else waited + 1
            await ctx.tick()
        assert bool(barks) == bool(limit)
        assert bool(failures) == (tries is not None and bool(limit))

    simulate(dut, run)
