# SPDX-License-Identifier: Apache-2.0
"""Blocks to the wire and back, compressed and not in one stream, each with its verdict."""

import random
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from hw.common.testing import check_stream, random_stalls, simulate, sink, source
from hw.smartnic.config import preset
from hw.smartnic.wire_codec import WireDecoder, WireEncoder

CONFIG = preset("test")
BLOCKS = 60
PACES = pytest.mark.parametrize(
    ("gaps", "stalls"), [(0.0, 0.0), (0.0, 0.6), (0.4, 0.4), (0.6, 0.0)]
)
CODECS = pytest.mark.parametrize("codec", ["none", "bfp16"])
# Formats whose beats of blocks are narrow, as wide as the bus, and wider, and blocks that fill up
# beats of the bus by twos and threes.
LONG_STALLS = pytest.mark.parametrize(
    "codec", ["bfp16", "1e2m2", "1e8m24", "2e2m2", "8e8m20", "32e8m14", "64e8m24"]
)


class Block:
    """A block drawn at random: its words, what becomes of it, and its beats on the wire."""

    def __init__(self, rng, config):
        fmt = config.codec_format
        self.compress = fmt is not None and rng.random() < 0.5
        self.beats = rng.randrange(1, config.block_beats + 1)
        if self.compress:
            self.beats = max(self.beats // config.granule, 1) * config.granule
        self.bad = rng.random() < 0.5
        self.complete = rng.random() < 0.5
        self.start = rng.random() < 0.5
        self.words = np.array(
            [rng.uniform(-8, 8) * 2.0 ** rng.randrange(-9, 9)
             for _ in range(self.beats * config.lanes)],
            dtype=np.float32,
        )
        raw, back = self.words.tobytes(), self.words
        if self.compress:
            blocks = fmt.encode(self.words)
            raw, back = fmt.pack(blocks), fmt.decode(blocks).ravel()
        self.wire = self._cut(raw, config)
        self.back = self._cut(back.tobytes(), config)

    @staticmethod
    def _cut(raw, config):
        """Beats of the bus, the last one filled up with zeros."""
        parts = [raw[at : at + config.bus_bytes] for at in range(0, len(raw), config.bus_bytes)]
        return [int.from_bytes(part, "little") for part in parts]


def long_stalls(seed: int, chance: float = 0.5) -> Iterator[bool]:
    """Runs of cycles that are longer than it takes to fill what is inside."""
    rng = random.Random(seed)
    while True:
        stalled = rng.random() < chance
        yield from [stalled] * rng.randrange(1, 90)


@CODECS
@PACES
def test_each_block_leaves_by_its_exit_with_its_own_verdict(codec, gaps, stalls):
    encode(replace(CONFIG, codec=codec), f"{codec}{gaps}{stalls}", gaps, random_stalls, stalls)


@LONG_STALLS
def test_encoder_loses_nothing_in_long_stalls(codec):
    encode(replace(CONFIG, codec=codec), codec, 0.0, long_stalls, 0.5)


def encode(config, seeds, gaps, pattern, stalls):
    """Send blocks drawn at random; *pattern* with *stalls* says when the exits stall."""
    rng = random.Random(seeds)
    dut = WireEncoder(config)
    given, partial, complete = [], [], []
    for block in (Block(rng, config) for _ in range(BLOCKS)):
        kind = {"compress": block.compress, "start": block.start}
        for n, beat in enumerate(Block._cut(block.words.tobytes(), config)):
            last = n == block.beats - 1
            # What is said of beats before the last one does not count.
            bad = block.bad if last else rng.random() < 0.5
            given.append(
                {"data": beat, "last": last, "bad": bad, "complete": block.complete, **kind}
            )
        for n, beat in enumerate(block.wire):
            last = n == len(block.wire) - 1
            sent = {"data": beat, "last": last, "bad": last and block.bad}
            if block.complete:
                complete.append(sent)
            else:
                partial.append({**sent, **kind})

    def seed():
        return rng.randrange(1 << 20)

    simulate(
        dut,
        source(dut.i, given, random_stalls(seed(), gaps)),
        *(
            sink(port, [port.payload.shape().const(each) for each in beats],
                 pattern(seed(), stalls))
            for port, beats in ((dut.partial, partial), (dut.complete, complete))
        ),
        checks=[check_stream(dut.partial, "partial"), check_stream(dut.complete, "complete")],
    )


@CODECS
@PACES
def test_each_block_becomes_its_words_again(codec, gaps, stalls):
    decode(replace(CONFIG, codec=codec), f"{codec}{stalls}{gaps}", gaps, random_stalls(3, stalls))


@LONG_STALLS
def test_decoder_loses_nothing_in_long_stalls(codec):
    decode(replace(CONFIG, codec=codec), codec, 0.0, long_stalls(3))


def decode(config, seeds, gaps, stalls):
    """Receive blocks drawn at random, with *stalls* of what takes their words."""
    rng = random.Random(seeds)
    dut = WireDecoder(config)
    shapes, given, expected = [], [], []
    for block in (Block(rng, config) for _ in range(BLOCKS)):
        shapes.append({"beats": block.beats, "compress": block.compress})
        given += [
            {"data": beat, "last": n == len(block.wire) - 1, "bad": 0}
            for n, beat in enumerate(block.wire)
        ]
        expected += block.back

    simulate(
        dut,
        source(dut.shape, shapes, random_stalls(1, gaps)),
        source(dut.i, given, random_stalls(2, gaps)),
        sink(dut.o, expected, stalls),
        checks=[check_stream(dut.o)],
    )
