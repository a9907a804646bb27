# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""Streams of the codec in Amaranth's simulator: stalls, vectors, latency, no bubbles."""

import random
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Module, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.bfp.codec import Compressor, Decompressor
from hw.bfp.decoder import BlockDecoder
from hw.bfp.encoder import BlockEncoder
from hw.bfp.format import BlockFormat, preset
from hw.bfp.layouts import lanes_layout
from hw.common.testing import check_stream, random_stalls, simulate, sink, source, stream_put
from tests.families import quick
from tests.hw.bfp.bfp_oracle import interesting

SEED = 0xA5A5_0123_4567_89AB
ONE = BlockFormat(elements=1, exponent_bits=6, mantissa_bits=7)
FINE = BlockFormat(elements=8, exponent_bits=5, mantissa_bits=3)  # 29 bits: the unit is a bit
WAVES = BlockFormat(elements=4, rounding="stochastic")

# Format, lanes, bus bits, stages of the encoder, stages of the decoder.
CODECS = {
    "8 lanes, 256 bit": (preset("bfp16"), 8, 256, 5, 4),
    "16 lanes, 256 bit": (preset("bfp16"), 16, 256, 4, 2),
    "16 lanes, 512 bit": (preset("bfp16"), 16, 512, 3, 1),
    "64 lanes on a bus too narrow": (preset("bfp16"), 64, 512, 2, 0),
    "two blocks per beat": (preset("bfp16x8"), 16, 128, 0, 3),
    "four beats per block": (preset("mxint8"), 8, 64, 5, 2),
    "blocks of odd length": (FINE, 2, 64, 4, 1),
    "blocks of odd length, at once": (FINE, 8, 24, 2, 1),
    "one lane": (ONE, 1, 8, 4, 2),
    "bus of one beat of blocks": (preset("bfp16x8"), 8, 72, 4, 2),
    "random numbers, 2 beats per block": (WAVES, 2, 64, 4, 2),
    "random numbers, 4 blocks per beat": (WAVES, 16, 64, 3, 2),
}
codecs = pytest.mark.parametrize(
    ("fmt", "lanes", "bus_bits", "encode", "decode"), CODECS.values(), ids=CODECS.keys()
)


def constants(port: stream.Interface, beats: Iterable[Any]) -> list[Any]:
    """Beats as the simulator returns them."""
    return [port.payload.shape().const(beat) for beat in beats]


def lane_beats(vector: np.ndarray, lanes: int) -> list[Any]:
    rows = vector.view(np.uint32).reshape(-1, lanes).tolist()
    return [{"data": row, "last": n == len(rows) - 1} for n, row in enumerate(rows)]


def bus_beats(packed: bytes, bus_bits: int) -> list[Any]:
    size = bus_bits // 8
    parts = [packed[at : at + size] for at in range(0, len(packed), size)]
    return [
        {
            "data": int.from_bytes(part, "little"),
            "keep": (1 << len(part)) - 1,
            "last": n == len(parts) - 1,
        }
        for n, part in enumerate(parts)
    ]


def vectors(fmt: BlockFormat, lanes: int, lengths: Iterable[int]) -> list[np.ndarray]:
    """Vectors of so many of the smallest length that is allowed."""
    unit = max(1, lanes // fmt.elements)
    return [
        interesting(fmt, n * unit, seed).ravel() for seed, n in enumerate(lengths, start=SEED % 97)
    ]


def seeded(component: Any) -> Any:
    async def run(ctx: Any) -> None:
        if component.fmt.rounding == "stochastic":
            ctx.set(component.seed, SEED)

    return run


@codecs
@pytest.mark.parametrize(("gaps", "stalls"), quick(1, [(0.4, 0.4), (0.0, 0.6), (0.6, 0.0)]))
def test_vectors_cross_the_wire_unharmed_under_any_stalls(
    fmt: BlockFormat,
    lanes: int,
    bus_bits: int,
    encode: int,
    decode: int,
    gaps: float,
    stalls: float,
) -> None:
    rng = random.Random(f"{fmt}{lanes}{gaps}{stalls}")
    sent = vectors(fmt, lanes, [1, 2, 1, 1, 3, *(rng.randrange(1, 9) for _ in range(6))])
    blocks = [fmt.encode(vector, seed=SEED) for vector in sent]
    wire = [beat for each in blocks for beat in bus_beats(fmt.pack(each), bus_bits)]
    offered = [beat for vector in sent for beat in lane_beats(vector, lanes)]
    back = [beat for each in blocks for beat in lane_beats(fmt.decode(each).ravel(), lanes)]
    compressor = Compressor(fmt, lanes=lanes, bus_bits=bus_bits, stages=encode)
    decompressor = Decompressor(fmt, lanes=lanes, bus_bits=bus_bits, stages=decode)

    for unit, given, expected in (compressor, offered, wire), (decompressor, wire, back):
        simulate(
            unit,
            *([seeded(unit)] if unit is compressor else []),
            source(unit.i, given, random_stalls(rng.randrange(1000), gaps)),
            sink(unit.o, constants(unit.o, expected), random_stalls(rng.randrange(1000), stalls)),
            checks=[check_stream(unit.o)],
        )


def cycles(unit: Any, beats: list[Any], seen: list[tuple[int, bool]]) -> list[Any]:
    """Run with neither gaps nor stalls; note the cycles with a beat at `o` and when `i` waits."""

    async def drive(ctx: Any) -> None:
        for beat in beats:
            await stream_put(ctx, unit.i, beat)

    async def watch(ctx: Any) -> None:
        if unit.fmt.rounding == "stochastic":
            ctx.set(unit.seed, SEED)
        ctx.set(unit.o.ready, 1)
        quiet, cycle = 0, 0
        while quiet < 20:
            _, _, valid, waits = await ctx.tick().sample(unit.o.valid, unit.i.valid & ~unit.i.ready)
            quiet = 0 if valid else quiet + 1
            seen.append((valid, waits))
            cycle += 1

    return [drive, watch]


@pytest.mark.parametrize(
    ("lanes", "stages"),
    [(lanes, stages) for lanes in (4, 16, 32) for stages in range(lanes < 16, 6)],
)
def test_encoder_has_the_stated_latency_and_takes_a_beat_per_cycle(lanes: int, stages: int) -> None:
    fmt = preset("bfp16")
    parts = max(1, fmt.elements // lanes)
    encoder = BlockEncoder(fmt, lanes=lanes, stages=stages)
    (vector,) = vectors(fmt, lanes, [7])
    seen: list[tuple[int, bool]] = []

    simulate(encoder, *cycles(encoder, lane_beats(vector, lanes), seen))

    valid = [n for n, (valid, _) in enumerate(seen) if valid]
    assert valid == [parts - 1 + stages + parts * n for n in range(len(valid))]
    assert len(valid) * max(fmt.elements, lanes) == vector.size
    assert not any(waits for _, waits in seen)
    assert encoder.latency == stages


@pytest.mark.parametrize("stages", range(1, 6))
@pytest.mark.parametrize("lanes", [4, 16])
def test_a_block_is_shown_while_nobody_is_ready(lanes: int, stages: int) -> None:
    fmt = preset("bfp16")
    parts = fmt.elements // lanes
    encoder = BlockEncoder(fmt, lanes=lanes, stages=stages)
    (vector,) = vectors(fmt, lanes, [stages + 3])
    left = lane_beats(vector, lanes)
    seen: list[tuple[bool, int]] = []

    async def bench(ctx: Any) -> None:
        for _ in range(parts + stages + 6):
            ctx.set(encoder.i.valid, 1)
            ctx.set(encoder.i.payload, left[0])
            seen.append((ctx.get(encoder.o.valid), ctx.get(Value.cast(encoder.o.p.data))))
            if ctx.get(encoder.i.ready):
                left.pop(0)
            await ctx.tick()

    simulate(encoder, bench)

    shown = parts - 1 + stages
    assert [valid for valid, _ in seen] == [0] * shown + [1] * (len(seen) - shown)
    packed = fmt.pack(fmt.encode(vector))[: fmt.block_bits // 8]
    assert {data for valid, data in seen if valid} == {int.from_bytes(packed, "little")}


@pytest.mark.parametrize("stages", range(5))
@pytest.mark.parametrize("lanes", [4, 16, 32])
def test_decoder_has_the_stated_latency_and_gives_a_beat_per_cycle(lanes: int, stages: int) -> None:
    fmt = preset("bfp16")
    decoder = BlockDecoder(fmt, lanes=lanes, stages=stages)
    (vector,) = vectors(fmt, lanes, [7])
    blocks = fmt.encode(vector)
    each = max(1, lanes // fmt.elements)
    packed = fmt.pack(blocks)
    size = each * fmt.block_bits // 8
    beats = [
        {
            "data": [
                int.from_bytes(packed[at + b * size // each :][: size // each], "little")
                for b in range(each)
            ],
            "last": at + size == len(packed),
        }
        for at in range(0, len(packed), size)
    ]
    seen: list[tuple[int, bool]] = []

    simulate(decoder, *cycles(decoder, beats, seen))

    valid = [n for n, (valid, _) in enumerate(seen) if valid]
    assert valid == list(range(stages, stages + vector.size // lanes))
    assert decoder.latency == stages


@pytest.mark.parametrize(("lanes", "bus_bits"), [(8, 256), (16, 256), (16, 512), (16, 136)])
def test_compressor_never_waits_even_between_short_vectors(lanes: int, bus_bits: int) -> None:
    fmt = preset("bfp16")
    compressor = Compressor(fmt, lanes=lanes, bus_bits=bus_bits)
    sent = vectors(fmt, lanes, [1, 1, 2, 1, 3, 2, 5, 1, 1, 8])
    seen: list[tuple[int, bool]] = []

    simulate(
        compressor,
        *cycles(compressor, [b for vector in sent for b in lane_beats(vector, lanes)], seen),
    )

    assert not any(waits for _, waits in seen)
    first = next(n for n, (valid, _) in enumerate(seen) if valid)
    assert first == max(1, 16 // lanes) - 1 + compressor.latency


def test_narrow_bus_carries_a_beat_in_every_cycle() -> None:
    # 64 lanes make 544 bits per beat: the bus is the bottleneck and must never idle.
    fmt, lanes, bus_bits = preset("bfp16"), 64, 512
    compressor = Compressor(fmt, lanes=lanes, bus_bits=bus_bits)
    (vector,) = vectors(fmt, lanes, [40])
    seen: list[tuple[int, bool]] = []

    simulate(compressor, *cycles(compressor, lane_beats(vector, lanes), seen))

    valid = [n for n, (valid, _) in enumerate(seen) if valid]
    assert len(valid) == -(-40 * 544 // 512)
    assert valid == list(range(valid[0], valid[0] + len(valid)))


@pytest.mark.parametrize(("lanes", "bus_bits"), [(8, 256), (16, 256), (16, 512), (16, 136)])
def test_decompressor_gives_a_beat_in_every_cycle_across_vectors(lanes: int, bus_bits: int) -> None:
    fmt = preset("bfp16")
    decompressor = Decompressor(fmt, lanes=lanes, bus_bits=bus_bits)
    # Where a vector is shorter than a bus beat, the bus itself brings less than a beat per cycle.
    sent = vectors(fmt, lanes, [4, 6, 4, 9, 5, 12, 8])
    beats = [b for each in sent for b in bus_beats(fmt.pack(fmt.encode(each)), bus_bits)]
    seen: list[tuple[int, bool]] = []

    simulate(decompressor, *cycles(decompressor, beats, seen))

    valid = [n for n, (valid, _) in enumerate(seen) if valid]
    assert len(valid) == sum(each.size for each in sent) // lanes
    assert valid == list(range(decompressor.latency, decompressor.latency + len(valid)))


class Loop(wiring.Component):
    """A compressor whose bus is the decompressor's."""

    def __init__(self, fmt: BlockFormat) -> None:
        self.fmt = fmt
        self.compressor = Compressor(fmt, lanes=16, bus_bits=256)
        self.decompressor = Decompressor(fmt, lanes=16, bus_bits=256)
        super().__init__(
            {
                "i": In(stream.Signature(lanes_layout(16))),
                "o": Out(stream.Signature(lanes_layout(16))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.compressor = self.compressor
        m.submodules.decompressor = self.decompressor
        connect(m, flipped(self.i), self.compressor.i)
        connect(m, self.compressor.o, self.decompressor.i)
        connect(m, self.decompressor.o, flipped(self.o))
        return m


def test_sixteen_numbers_come_out_of_the_whole_codec_after_eight_cycles() -> None:
    loop = Loop(preset("bfp16"))
    (vector,) = vectors(loop.fmt, 16, [1])
    seen: list[tuple[int, bool]] = []

    simulate(loop, *cycles(loop, lane_beats(vector, 16), seen))

    assert [n for n, (valid, _) in enumerate(seen) if valid] == [8]
    assert loop.compressor.latency + loop.decompressor.latency == 8


def test_every_vector_begins_with_the_seed_that_is_set() -> None:
    fmt = preset("bfp16_stochastic")
    encoder = BlockEncoder(fmt, lanes=8, stages=4)
    sent = vectors(fmt, 8, [3, 1, 2])
    seeds = [5, 0, 1 << 63]
    expected = [
        {"data": [int.from_bytes(packed[at : at + 17], "little")], "last": at + 17 == len(packed)}
        for vector, seed in zip(sent, seeds, strict=True)
        for packed in [fmt.pack(fmt.encode(vector, seed=seed))]
        for at in range(0, len(packed), 17)
    ]

    async def drive(ctx: Any) -> None:
        for vector, seed in zip(sent, seeds, strict=True):
            ctx.set(encoder.seed, seed)
            for beat in lane_beats(vector, 8):
                await stream_put(ctx, encoder.i, beat)
                ctx.set(encoder.seed, 12345)  # of no consequence within a vector

    simulate(
        encoder,
        drive,
        sink(encoder.o, constants(encoder.o, expected), random_stalls(3, 0.5)),
    )


@pytest.mark.parametrize("lanes", [4, 32])
def test_carry_of_any_element_is_decided_by_its_own_random_number(lanes: int) -> None:
    fmt = preset("bfp16_stochastic")
    rng = np.random.default_rng(8)
    # One element per block is all ones down to where it is rounded; the others are far below it.
    vector = np.ones((96, 16), dtype=np.float32)
    tails = rng.integers(0, 1 << 17, 96)
    vector[np.arange(96), np.arange(96) % 16] = (0x42FE0000 | tails).astype("<u4").view("<f4")
    blocks = fmt.encode(vector, seed=SEED)
    assert 30 < (blocks.exponents == 0x86).sum() < 66
    packed = fmt.pack(blocks)
    size = 17 * max(1, lanes // 16)
    whole = [packed[at : at + size] for at in range(0, len(packed), size)]
    expected = [
        {
            "data": [int.from_bytes(part[at : at + 17], "little") for at in range(0, size, 17)],
            "last": n == len(whole) - 1,
        }
        for n, part in enumerate(whole)
    ]
    encoder = BlockEncoder(fmt, lanes=lanes)

    simulate(
        encoder,
        seeded(encoder),
        source(encoder.i, lane_beats(vector.ravel(), lanes), random_stalls(1, 0.2)),
        sink(encoder.o, constants(encoder.o, expected), random_stalls(2, 0.2)),
    )
