# SPDX-License-Identifier: Apache-2.0
"""Credits of an output of a switch, beside a model of a few lines."""

from random import Random

import pytest
from amaranth.sim import Simulator

from hw.switch.output_port import OutputPort

CREDITS, CLASSES, FLITS, SENDERS = 3, 3, 4, 2


@pytest.mark.parametrize("seed", range(4))
def test_credits_are_counted_forgotten_and_held_back(seed):
    rng = Random(seed)
    port = OutputPort(
        senders=SENDERS, classes=CLASSES, credits=CREDITS, flits=FLITS, recounts=True
    )
    counts, left, last = [CREDITS] * CLASSES, 0, 0  # cycle of the last flit
    seen = {"home again": 0, "forgot some": 0, "one too many": 0, "paid and came": 0}

    async def run(ctx):
        nonlocal counts, left, last
        for cycle in range(1, 4000):
            hold, forget = rng.random() < 0.05, rng.random() < 0.02
            credit = [rng.random() < 0.12 for _ in counts]
            ctx.set(port.hold, hold)
            ctx.set(port.forget, forget)
            ctx.set(port.credit, sum(bit << number for number, bit in enumerate(credit)))
            free = [left == 0 and count > 0 and not hold for count in counts]
            soon = [left <= 1 and count > 0 and not hold for count in counts]
            for name, wanted in (
                ("open", free), ("available", soon), ("credited", [count > 0 for count in counts]),
            ):
                found = ctx.get(getattr(port, name))
                assert found == sum(bit << number for number, bit in enumerate(wanted)), name
            assert ctx.get(port.home) == all(count == CREDITS for count in counts)
            assert ctx.get(port.busy) == (left > 0)
            assert ctx.get(port.occupied) == (left > 1)
            assert ctx.get(port.empty) == (cycle > last) <= (not ctx.get(port.valid))
            choices = [number for number, can in enumerate(free) if can]
            taken = rng.choice(choices) if choices and rng.random() < 0.5 else None
            sender = rng.randrange(SENDERS)
            ctx.set(port.request, 0 if taken is None else 1 << sender)
            if taken is not None:
                ctx.set(port.traffic[sender], taken)
            for number, came in enumerate(credit):
                paid = number == taken
                seen["one too many"] += came and counts[number] == CREDITS and not paid
                seen["paid and came"] += came and paid
                seen["home again"] += counts[number] == CREDITS - 1 and came and not paid
                seen["forgot some"] += forget and counts[number] > 0
                counts[number] = 0 if forget else min(CREDITS, counts[number] + came - paid)
            left = FLITS - 1 if taken is not None else max(0, left - 1)
            last = cycle + FLITS + 3 if taken is not None else last
            await ctx.tick()

    simulator = Simulator(port)
    simulator.add_clock(1e-9)
    simulator.add_testbench(run)
    simulator.run()
    assert min(seen.values()) > 10, seen


@pytest.mark.parametrize("held", [1, 2, 3])
def test_senders_that_are_held_back_are_passed_in_the_turns_of_the_others(held):
    rng = Random(held)
    port = OutputPort(senders=3, classes=1, credits=CREDITS, flits=2, held=held)
    seen = {"held back": 0, "goes": 0}

    async def run(ctx):
        last = -1  # the sender that had its turn last
        for _ in range(2000):
            ctx.set(port.credit, rng.random() < 0.6)
            requests = {k for k in range(3) if rng.random() < 0.5} if ctx.get(port.open) else set()
            back = rng.random() < 0.4
            ctx.set(port.request, sum(1 << k for k in requests))
            ctx.set(port.hold_back, back)
            may = {k for k in requests if not back or k >= held}
            turn = min((k for k in may if k > last), default=min(may, default=None))
            assert ctx.get(port.grant) == (0 if turn is None else 1 << turn)
            last = last if turn is None else turn
            seen["held back"] += len(requests) > len(may)
            seen["goes"] += turn is not None
            await ctx.tick()
            assert ctx.get(port.busy) == (turn is not None)

    simulator = Simulator(port)
    simulator.add_clock(1e-9)
    simulator.add_testbench(run)
    simulator.run()
    assert min(seen.values()) > 100, seen
