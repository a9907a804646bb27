# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""StreamFIFO and skid buffers keep every beat, in order, at the promised pace."""

import random

import pytest
from amaranth.lib import data

from gen.rtlil import MacroPlatform, to_rtlil
from hw.common import sram
from hw.common.fifo import StreamFIFO
from hw.common.skid import SkidBuffer
from hw.common.testing import check_stream, random_stalls, simulate, sink, source

BEAT = data.StructLayout({"value": 12, "last": 1, "more": 3})
SIZES = [(1, False), (1, True), (2, False), (2, True), (3, False), (3, True), (5, False), (8, True)]
PACES = [(0.0, 0.0), (0.6, 0.0), (0.0, 0.6), (0.4, 0.4)]
KEPT = {"memory": False, "kept": True}
PARTS = [{"memory": False, "kept": fields} for fields in (("value", "more"), ("last",))]
KINDS = [
    *((depth, {"memory": memory}) for depth, memory in SIZES),
    (3, KEPT), (5, KEPT), *((depth, part) for part in PARTS for depth in (1, 2, 3, 5)),
]


def beats(count, seed=1):
    rng = random.Random(seed)
    return [
        BEAT.const({name: rng.randrange(1 << field.width) for name, field in BEAT})
        for _ in range(count)
    ]


@pytest.fixture(params=[False, True], ids=["rows", "macro"], autouse=True)
def macros(request, monkeypatch):
    """Block memory of any size as it is for large FIFOs: an SRAM macro."""
    if request.param:
        monkeypatch.setattr(sram, "MACRO_BITS", 0)


@pytest.mark.parametrize("gaps, stalls", PACES)
@pytest.mark.parametrize("depth, kind", KINDS)
def test_fifo_passes_every_beat_in_order(depth, kind, gaps, stalls):
    dut = StreamFIFO(BEAT, depth, **kind)
    sent = beats(60)

    simulate(
        dut,
        source(dut.i, sent, random_stalls(2, gaps)),
        sink(dut.o, sent, random_stalls(3, stalls)),
        checks=[check_stream(dut.o)],
    )


@pytest.mark.parametrize("gaps, stalls", PACES)
def test_skid_buffer_passes_every_beat_in_order(gaps, stalls):
    dut = SkidBuffer(BEAT)
    sent = beats(100)

    simulate(
        dut,
        source(dut.i, sent, random_stalls(2, gaps)),
        sink(dut.o, sent, random_stalls(3, stalls)),
        checks=[check_stream(dut.o)],
    )


@pytest.mark.parametrize("depth, kind", KINDS)
def test_fifo_stalls_only_when_full_and_level_counts_what_it_holds(depth, kind):
    dut = StreamFIFO(BEAT, depth, **kind)

    async def bench(ctx):
        ctx.set(dut.i.valid, 1)
        for held in range(depth):
            assert ctx.get(dut.i.ready), f"stalled with {held} of {depth} beats"
            assert ctx.get(dut.level) == held
            await ctx.tick()
        for _ in range(3):
            assert not ctx.get(dut.i.ready)
            assert ctx.get(dut.level) == depth
            await ctx.tick()
        ctx.set(dut.i.valid, 0)
        ctx.set(dut.o.ready, 1)
        await ctx.tick().repeat(depth)
        assert ctx.get(dut.level) == 0
        assert not ctx.get(dut.o.valid)

    simulate(dut, bench)


@pytest.mark.parametrize("depth, kind", KINDS)
def test_fifo_latency_is_the_documented_one(depth, kind):
    dut = StreamFIFO(BEAT, depth, **kind)

    async def bench(ctx):
        ctx.set(dut.i.valid, 1)
        ctx.set(dut.i.payload.value, 0xA5)
        await ctx.tick()
        ctx.set(dut.i.valid, 0)
        cycles = 1
        while not ctx.get(dut.o.valid):
            await ctx.tick()
            cycles += 1
        assert ctx.get(dut.o.payload.value) == 0xA5
        assert cycles == dut.latency

    simulate(dut, bench)


@pytest.mark.parametrize(
    "dut",
    [
        SkidBuffer(16),
        StreamFIFO(16, 2, memory=False),
        StreamFIFO(16, 3, memory=False),
        StreamFIFO(16, 7, memory=False),
        StreamFIFO(16, 7, memory=False, kept=True),
        StreamFIFO(16, 3, memory=True),
        StreamFIFO(16, 64),
    ],
    ids=["skid", "fifo2", "fifo3", "fifo7", "fifo7-kept", "fifo3-block", "fifo64-block"],
)
def test_one_beat_per_cycle_is_sustained(dut):
    arrived = []

    async def bench(ctx):
        ctx.set(dut.i.valid, 1)
        ctx.set(dut.o.ready, 1)
        for cycle in range(100):
            ctx.set(dut.i.payload, cycle)
            assert ctx.get(dut.i.ready)
            if ctx.get(dut.o.valid):
                arrived.append((cycle, ctx.get(dut.o.payload)))
            await ctx.tick()

    simulate(dut, bench)

    first, _ = arrived[0]
    assert first <= 2
    assert arrived == [(cycle, cycle - first) for cycle in range(first, 100)]


def test_storage_is_block_memory_from_64_beats_on():
    assert StreamFIFO(8, 63).latency == 1
    assert StreamFIFO(8, 64).latency == 2


@pytest.mark.parametrize("depth", [0, -1])
def test_fifo_refuses_a_depth_below_one(depth):
    with pytest.raises(
        ValueError, match=rf"^StreamFIFO depth must be an integer at least 1, not {depth}$"
    ):
        StreamFIFO(8, depth)


@pytest.mark.parametrize("depth", [2.0, "4", True, None])
def test_fifo_refuses_a_depth_that_is_no_integer(depth):
    with pytest.raises(TypeError, match=r"^StreamFIFO depth must be an integer at least 1, not "):
        StreamFIFO(8, depth)


def test_large_block_memory_is_a_macro():
    platforms = {depth: MacroPlatform() for depth in (256, 255, 63, 16)}
    for depth, platform in platforms.items():
        to_rtlil(StreamFIFO(16, depth), name="fifo", platform=platform)
    assert [*platforms[256].sram_macros] == ["sram_1r1w_256x16"]
    assert bool(platforms[255].sram_macros) == (sram.MACRO_BITS == 0)
    assert not platforms[63].sram_macros and not platforms[16].sram_macros
