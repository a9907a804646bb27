# SPDX-License-Identifier: Apache-2.0
"""Compressor and decompressor under random gaps and stalls, in the simulator."""

import random
from typing import Any

import cocotb
import numpy as np
from cocotb.clock import Clock

from hw.bfp.format import BlockFormat
from tb.common.streams import StreamSink, StreamSource, pauses, reset
from tb.runner import parameters

VECTORS = 25
SEED = 0x0123456789ABCDEF


def numbers(rng: random.Random, count: int) -> np.ndarray:
    """Binary32 words: close in magnitude, arbitrary, tiny, or with a special one among them."""
    words = np.array([rng.getrandbits(32) for _ in range(count)], dtype=np.uint32)
    kind = rng.randrange(4)
    if kind == 0:
        return words
    if kind == 1:
        return words & np.uint32(0x80FFFFFF)
    words = words & np.uint32(0x81FFFFFF) | np.uint32(0x3C000000)
    if kind == 2:
        words[rng.randrange(count)] = rng.choice([0x7F800000, 0xFF800000, 0x7F800001, 0x80000000])
    return words


def lane_beats(words: np.ndarray, lanes: int) -> list[int]:
    rows = words.astype("<u4").reshape(-1, lanes)
    return [
        int.from_bytes(row.tobytes(), "little") | (n == len(rows) - 1) << 32 * lanes
        for n, row in enumerate(rows)
    ]


def bus_beats(packed: bytes, bus_bits: int) -> list[int]:
    size = bus_bits // 8
    parts = [packed[at : at + size] for at in range(0, len(packed), size)]
    return [
        int.from_bytes(part, "little")
        | ((1 << len(part)) - 1) << bus_bits
        | (n == len(parts) - 1) << bus_bits + size
        for n, part in enumerate(parts)
    ]


@cocotb.test(timeout_time=100, timeout_unit="us")
@cocotb.parametrize(gaps=[0.0, 0.5], stalls=[0.0, 0.5])
async def every_vector_arrives_whole_and_in_order(dut: Any, gaps: float, stalls: float) -> None:
    given = parameters()
    fmt = BlockFormat(**given["format"])
    lanes, bus_bits = given["lanes"], given["bus_bits"]
    rng = random.Random(cocotb.RANDOM_SEED)
    loose, dense = [], []
    for _ in range(VECTORS):
        words = numbers(rng, max(lanes, fmt.elements) * rng.randrange(1, 6))
        blocks = fmt.encode(words.view(np.float32), seed=SEED)
        dense += bus_beats(fmt.pack(blocks), bus_bits)
        if not given["compress"]:
            words = fmt.decode(blocks).view(np.uint32)
        loose += lane_beats(words, lanes)
    sent, expected = (loose, dense) if given["compress"] else (dense, loose)
    dut.i_valid.value = 0
    dut.o_ready.value = 0
    if given["compress"] and fmt.rounding == "stochastic":
        dut.seed.value = SEED
    Clock(dut.clk, 2, unit="ns").start()
    await reset(dut)
    source = StreamSource(dut, "i", pauses(gaps, rng))
    sink = StreamSink(dut, "o", pauses(stalls, rng))

    sending = cocotb.start_soon(source.send(sent))
    got = await sink.take(len(expected))
    await sending

    assert got == expected
    await sink.expect_nothing()
