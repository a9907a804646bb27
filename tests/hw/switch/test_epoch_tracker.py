# SPDX-License-Identifier: Apache-2.0
"""Epochs of regions, beside a model of what the tracker's page says."""

from collections import Counter
from random import Random

import pytest
from amaranth.sim import Simulator

from hw.switch.config import preset
from hw.switch.epochs import EpochTracker

CONFIG = preset("test")
STRETCH = CONFIG.packet_flits + 8
"""Cycles in which what leaves one part may not have reached the next."""


class Region:
    """What is known of a region: its epoch, who has told it, from whom packets are taken."""

    def __init__(self):
        self.epoch = 0
        self.told = set()
        self.taken = set(range(CONFIG.ports))
        self.purging = False
        self.quiet = STRETCH  # cycles since something was held, or a purge began

    def judge(self, port, epoch, fresh):
        """Whether a notice goes on, asks again, or is answered; and whether a purge begins."""
        if fresh:
            return "answered", False
        if epoch > self.epoch:
            if self.purging:
                return "postponed", False
            self.epoch, self.told, self.taken = epoch, {port}, set()
            return "postponed", True
        if epoch == self.epoch:
            self.told |= {port}
            if not self.purging:
                self.taken |= {port}
        return ("postponed" if self.purging else "passed"), False

    def answer(self, port, epoch):
        return max(epoch, self.epoch + (port in self.told))

    def step(self, begins, holds):
        held = self.held(holds)
        self.purging = True if begins else self.purging and held
        self.quiet = 0 if begins or holds else min(STRETCH, self.quiet + 1)

    def held(self, holds):
        return holds or self.quiet < STRETCH


@pytest.mark.parametrize("seed", range(4))
def test_notices_are_judged_and_regions_purged_as_the_page_says(seed):
    rng = Random(seed)
    tracker = EpochTracker(CONFIG)
    regions = [Region() for _ in range(CONFIG.regions)]
    questions = [None] * CONFIG.ports
    seen = Counter()

    async def run(ctx):
        judged = None  # port and question of which the verdict is due
        holding = [0] * CONFIG.regions
        held = [False] * CONFIG.regions  # in the cycle before
        for _ in range(6000):
            for port in range(CONFIG.ports):
                if questions[port] is None and rng.random() < 0.05:
                    row = rng.randrange(CONFIG.regions)
                    epoch = max(0, regions[row].epoch + rng.choice((-1, 0, 0, 0, 1, 2)))
                    questions[port] = row, epoch, rng.random() < 0.15
                asks = questions[port] or (0, 0, False)
                for name, value in zip(("row", "epoch", "fresh"), asks):
                    ctx.set(getattr(tracker.question[port], name), value)
            ctx.set(tracker.asks, sum(1 << k for k, each in enumerate(questions) if each))
            for k, region in enumerate(regions):
                if region.purging and rng.random() < 0.03:
                    holding[k] = rng.randrange(1, 5)
                holding[k] = max(0, holding[k] - 1)
            holds = [left > 0 for left in holding]
            ctx.set(tracker.holds, sum(bit << k for k, bit in enumerate(holds)))
            purge = [rng.random() < 0.005 for _ in regions]
            ctx.set(tracker.purge, sum(bit << k for k, bit in enumerate(purge)))

            begins = list(purge)
            verdicts = {name: ctx.get(getattr(tracker, name))
                        for name in ("passed", "postponed", "answered")}
            for k, region in enumerate(regions):
                assert ctx.get(tracker.purging[k]) == region.purging
                assert ctx.get(tracker.held[k]) == region.held(held[k])
                current = set() if region.purging else region.taken
                assert ctx.get(tracker.current[k]) == sum(1 << port for port in current)
            if judged is None:
                assert not any(verdicts.values())
            else:
                (port,) = judged
                row, epoch, fresh = questions[port]
                region = regions[row]
                if fresh:
                    assert ctx.get(tracker.answer) == region.answer(port, epoch)
                    seen["a member again"] += port in region.told and epoch <= region.epoch
                verdict, adopts = region.judge(port, epoch, fresh)
                assert verdicts == {
                    name: (1 << port) * (name == verdict) for name in verdicts
                }
                seen[verdict] += 1
                seen["adopted"] += adopts
                begins[row] = begins[row] or adopts
                questions[port] = None if verdict != "postponed" else questions[port]
            for k, region in enumerate(regions):
                seen["held again"] += region.purging and held[k] and 0 < region.quiet < STRETCH
                if purge[k]:
                    region.taken = set()
                region.step(begins[k], held[k])
            held = holds
            await ctx.tick()
            judged = next_judged(ctx, judged)

    def next_judged(ctx, before):
        """Turns are the arbiter's: whose notice is judged next is seen from outside."""
        if before is not None:
            return None
        found = [name for name in ("passed", "postponed", "answered")
                 if ctx.get(getattr(tracker, name))]
        if not found:
            return None
        bits = ctx.get(getattr(tracker, found[0]))
        return (bits.bit_length() - 1,)

    simulator = Simulator(tracker)
    simulator.add_clock(1e-9)
    simulator.add_testbench(run)
    simulator.run()
    assert min(seen[name] for name in (
        "passed", "postponed", "answered", "adopted", "held again", "a member again"
    )) > 5, seen
