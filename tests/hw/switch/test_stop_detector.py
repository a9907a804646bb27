# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""When an output has stopped, and when it sends again."""

from hw.common.testing import simulate
from hw.switch.stop_detector import StopDetector

PATIENCE, PAUSE = 16, 4


def watch(credits):
    """Cycles before which the first class has stopped, and opens; the second always has
    credits."""
    dut = StopDetector(classes=2, patience=PATIENCE, pause=PAUSE)
    stopped, opens = [], []

    async def bench(ctx):
        for cycle, credit in enumerate(credits):
            ctx.set(dut.credit, 0b10 | credit)
            assert ctx.get(dut.stopped) < 2 and ctx.get(dut.opens) < 2
            stopped.extend([cycle] * (ctx.get(dut.stopped) & 1))
            opens.extend([cycle] * (ctx.get(dut.opens) & 1))
            await ctx.tick()

    simulate(dut, bench)
    return stopped, opens


def test_an_output_without_credits_for_long_has_stopped_and_opens_a_while_after_one_comes():
    stopped, opens = watch([0] * 30 + [1] * 20)

    assert stopped == list(range(PATIENCE - 1, 30))
    assert opens == list(range(PATIENCE - 1, 30 + PAUSE - 1))


def test_credits_now_and_then_are_enough():
    assert watch(([0] * (PATIENCE - 1) + [1]) * 4) == ([], [])


def test_credits_that_are_gone_again_open_nothing():
    stopped, opens = watch([0] * 20 + [1] * (PAUSE - 2) + [0] * 10)

    assert opens == list(range(PATIENCE - 1, 20 + PAUSE - 2 + 10))
    assert stopped[-1] == opens[-1]
