# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""Packets that stand in no table, or whose sender falls silent in the middle of them."""

from dataclasses import replace

import pytest

from hw.common.testing import simulate
from hw.link.packet import FLIT_BITS
from hw.switch.config import preset
from hw.switch.ingress import DROPS, MOST_GAP, Ingress
from hw.switch.packet import CLASSES, Kind, encode

CONFIG = replace(preset("test"), payload_flits=4, alu_stages=3)
_HEAD = 1 << FLIT_BITS


def packet(number):
    """A PUSH of endpoint 0 to endpoint 1, its home."""
    fields = {"kind": Kind.PUSH, "region": 0, "source": 0, "address": 4 * number, "count": 1}
    return [encode(fields) | _HEAD, *range(1, 5)]


def tables(ctx, dut):
    """Write a region of endpoints 0 and 1, at the first two ports, and give room."""
    for k, region in enumerate(dut.regions):
        ctx.set(region.valid, k == 0)
        ctx.set(region.targets, 3)
        ctx.set(region.expected, 2)
        ctx.set(region.behind, 1)
    for home in dut.homes:
        ctx.set(home, 1)
    for k, route in enumerate(dut.routes):
        ctx.set(route, {"valid": k < 2, "local": k < 2, "port": k & 1})
    ctx.set(dut.current, (1 << CONFIG.regions) - 1)
    for k in range(CLASSES):
        ctx.set(dut.store.room[k], 1)


@pytest.mark.parametrize("fields, reason", [
    ({"region": 0, "source": 0}, None),
    ({"region": CONFIG.regions, "source": 0}, "region"),
    ({"region": 32, "source": 0}, "region"),
    ({"region": 0, "source": CONFIG.endpoints}, "route"),
    ({"region": 0, "source": 128}, "route"),
])
def test_what_stands_in_no_table_is_dropped(fields, reason):
    """Low bits of its number name a row that is there."""
    dut = Ingress(CONFIG, port=0)
    dropped, committed = [], []

    async def run(ctx):
        tables(ctx, dut)
        ctx.set(dut.rx.valid, 1)
        ctx.set(dut.rx.p, {"data": encode({"kind": Kind.LOAD, "count": 1, **fields}), "start": 1})
        for _ in range(8):
            await ctx.tick()
            ctx.set(dut.rx.valid, 0)
            dropped.extend(
                name for k, name in enumerate(DROPS) if ctx.get(dut.dropped) >> k & 1
            )
            committed.append(ctx.get(dut.store.valid) and ctx.get(dut.store.commit))

    simulate(dut, run)

    assert dropped == ([] if reason is None else [reason])
    assert any(committed) is (reason is None)


@pytest.mark.parametrize("came", [1, 3, 4])
@pytest.mark.parametrize("pause", [1, MOST_GAP - 8, MOST_GAP + 20])
def test_the_rest_of_a_packet_is_not_waited_for_for_ever(came, pause):
    """Else its region would be held for ever, and with it all of its other members."""
    dut = Ingress(CONFIG, port=0)
    seen = {"dropped": [], "committed": 0, "credits": 0, "held": []}

    async def step(ctx, flit=None):
        ctx.set(dut.rx.valid, flit is not None)
        if flit is not None:
            ctx.set(dut.rx.p, {"data": flit & _HEAD - 1, "start": flit >> FLIT_BITS})
        dropped = ctx.get(dut.dropped)
        seen["dropped"] += [name for k, name in enumerate(DROPS) if dropped >> k & 1]
        seen["committed"] += ctx.get(dut.store.valid) and ctx.get(dut.store.commit)
        seen["credits"] += ctx.get(dut.credit) & 1
        seen["held"].append(ctx.get(dut.holds) & 1)
        await ctx.tick()

    async def run(ctx):
        tables(ctx, dut)
        first, second = packet(0), packet(1)
        for flit in first[:came]:
            await step(ctx, flit)
        for _ in range(pause):
            await step(ctx)
        silent = seen["held"][-1]
        for flit in [*first[came:], None, None, None, *second, *[None] * 10]:
            await step(ctx, flit)
        assert ctx.get(dut.idle) and not seen["held"][-1]
        if pause > MOST_GAP:
            assert seen == {**seen, "dropped": ["truncated"], "committed": 1, "credits": 1}
            assert not silent
        else:
            assert seen == {**seen, "dropped": [], "committed": 2, "credits": 0}

    simulate(dut, run)
