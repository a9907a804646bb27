# SPDX-License-Identifier: Apache-2.0
"""The receive unit by itself: short packets in flight, with outputs that hold them back."""

import random
from itertools import count

import pytest

from hw.ace import receive_unit
from hw.ace.config import preset
from hw.ace.lookup import LOOKUP_LATENCY
from hw.ace.receive_unit import ReceiveUnit
from hw.common.testing import random_stalls, simulate, source
from hw.link.packet import PacketKind
from tests.hw.ace.sram_port import writes
from tests.hw.common.prover import with_change

CONFIG = preset("test")
PACKETS = 40


def streamed(dut, seed, *, stalled_until):
    """Stores *PACKETS* packets of one beat, with SRAM and FSM that grant nothing before a cycle and
    whenever they like after it. Returns rows written and steps reported, in order."""
    rng = random.Random(seed)
    rows, steps = [], []
    layout = CONFIG.format.layout
    headers = [
        layout.const({
            "kind": PacketKind.DATA, "sequence": n % (1 << CONFIG.format.sequence),
            "length": CONFIG.bus_bytes, "step": n,
        })
        for n in range(PACKETS)
    ]

    async def fsm(ctx):
        """Answers each question as long after it: the packet is to be stored in the row of its
        step."""
        coming = [None] * (LOOKUP_LATENCY - 1)
        ctx.set(dut.lookup.ready, 1)
        async for *_, asks, step in ctx.tick().sample(dut.lookup.valid, dut.lookup.p.step):
            coming.append(step if asks else None)
            answer = coming.pop(0)
            ctx.set(dut.resolved.valid, answer is not None)
            if answer is not None:
                ctx.set(dut.resolved.p, {"valid": 1, "op": {"store": 1, "receive": 1},
                                         "row": answer})

    async def outputs(ctx):
        cycle = 0
        async for *_, tells, step, ready in ctx.tick().sample(
            dut.event.valid, dut.event.p.step, dut.event.ready
        ):
            if tells and ready:
                steps.append(step)
            cycle += 1
            ctx.set(dut.event.ready, cycle >= stalled_until and rng.random() < 0.5)

    cycles = count()
    store = writes(
        dut.store, lambda row, _: rows.append(row),
        lambda: next(cycles) >= stalled_until and rng.random() < 0.5,
    )

    async def until_idle(ctx):
        for _ in range(stalled_until + 20 * PACKETS):
            await ctx.tick()
        assert ctx.get(dut.idle)

    simulate(dut, source(dut.header, headers, random_stalls(seed, 0.0)), until_idle,
             checks=[fsm, outputs, store])
    return rows, steps


@pytest.mark.parametrize("stalled_until", [0, 80])
@pytest.mark.parametrize("seed", range(3))
def test_packets_of_one_beat_are_stored_and_reported_once_each_in_order(seed, stalled_until):
    rows, steps = streamed(ReceiveUnit(CONFIG), seed, stalled_until=stalled_until)
    assert rows == steps == list(range(PACKETS))


def test_a_packet_that_begins_without_a_place_behind_it_is_lost():
    changed = with_change(
        receive_unit, "ReceiveUnit", "resolved.valid & outcome.ready", "resolved.valid"
    )
    rows, steps = streamed(changed(CONFIG), 0, stalled_until=80)
    assert rows != list(range(PACKETS)) or steps != list(range(PACKETS))
