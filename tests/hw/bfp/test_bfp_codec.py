# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""Encoder and decoder against the golden model, on blocks of all kinds, as native code."""

from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from gen.compile import compile_model
from hw.bfp.codec import Compressor, Decompressor
from hw.bfp.decoder import BlockDecoder
from hw.bfp.encoder import BlockEncoder
from hw.bfp.format import PRESETS, BlockFormat, preset
from hw.bfp.model import Blocks
from tests.families import quick
from tests.hw.bfp.bfp_oracle import interesting

BLOCKS = 6000
SEED = 0xFEDCBA9876543210
FORMATS = {
    **{name: PRESETS[name] for name in ("bfp16", "bfp24", "bfp13", "mxint8")},
    **{name: PRESETS[name] for name in ("bfp16_truncate", "bfp16_stochastic")},
    "one": BlockFormat(elements=1, mantissa_bits=9),
    "shortest": BlockFormat(elements=2, exponent_bits=2, mantissa_bits=2),
    "longest": BlockFormat(elements=2, mantissa_bits=24),
    "longest_complement": BlockFormat(elements=2, mantissa_bits=24, sign="complement"),
    "long_stochastic": BlockFormat(
        elements=2, exponent_bits=6, mantissa_bits=20, rounding="stochastic"
    ),
}


class Both(wiring.Component):
    """An encoder and a decoder that never stall, one block per cycle each."""

    def __init__(self, fmt: BlockFormat) -> None:
        self.fmt = fmt
        self.encoder = BlockEncoder(fmt, lanes=fmt.elements, stages=2)
        self.decoder = BlockDecoder(fmt, lanes=fmt.elements, stages=1)
        words, bits = 32 * fmt.elements, fmt.block_bits
        super().__init__(
            {
                "values": In(words),
                "seed": In(64),
                "encoded": Out(bits),
                "blocks": In(bits),
                "decoded": Out(words),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.encoder, m.submodules.decoder = encoder, decoder = self.encoder, self.decoder
        for unit in encoder, decoder:
            m.d.comb += [unit.i.valid.eq(1), unit.o.ready.eq(1)]
        m.d.comb += [
            encoder.i.p.data.eq(self.values),
            self.encoded.eq(encoder.o.p.data),
            decoder.i.p.data.eq(self.blocks),
            self.decoded.eq(decoder.o.p.data),
        ]
        if self.fmt.rounding == "stochastic":
            m.d.comb += encoder.seed.eq(self.seed)
        return m


def to_bits(words: Any, width: int) -> np.ndarray:
    """Rows of words, least significant first, as rows of so many bits."""
    words = np.ascontiguousarray(words)
    octets = words.astype(words.dtype.newbyteorder("<")).view(np.uint8).reshape(len(words), -1)
    return np.unpackbits(octets, axis=1, bitorder="little")[:, :width]


def to_port(bits: np.ndarray) -> np.ndarray:
    """Rows of bits as what a port of that width takes."""
    width = bits.shape[1]
    size = 64 if 32 < width <= 64 else -(-width // 32) * 32
    wide = np.zeros((len(bits), size), dtype=np.uint8)
    wide[:, :width] = bits
    words = np.packbits(wide, axis=1, bitorder="little").view("<u8" if size == 64 else "<u4")
    return words[:, 0] if words.shape[1] == 1 else words


def block_bits(fmt: BlockFormat, blocks: Blocks) -> np.ndarray:
    packed = np.frombuffer(fmt.pack(blocks), dtype=np.uint8)
    return np.unpackbits(packed, bitorder="little")[: BLOCKS * fmt.block_bits].reshape(BLOCKS, -1)


def any_blocks(fmt: BlockFormat) -> Blocks:
    """Every exponent code, with magnitudes of every length."""
    rng = np.random.default_rng(11)
    mantissas = rng.integers(0, 1 << fmt.mantissa_bits, (BLOCKS, fmt.elements), dtype=np.uint32)
    shift = rng.integers(0, fmt.mantissa_bits + 1, mantissas.shape).astype(np.uint32)
    sign = mantissas & np.uint32(1 << fmt.magnitude_bits)
    short = mantissas >> shift
    if fmt.sign == "complement":
        short = np.where(rng.random(short.shape) < 0.5, -short.astype(np.int64), short)
    else:
        short = short & np.uint32(fmt.largest_magnitude) | sign
    exponents = np.arange(BLOCKS) % (fmt.special_code + 1)
    return Blocks(
        exponents.astype(np.uint8), (short & ((1 << fmt.mantissa_bits) - 1)).astype(np.uint32)
    )


@pytest.mark.parametrize("fmt", quick(3, FORMATS.values()), ids=FORMATS.keys())
def test_encoder_and_decoder_equal_the_golden_model(fmt: BlockFormat) -> None:
    values = interesting(fmt, BLOCKS, seed=12)
    blocks = any_blocks(fmt)
    both = Both(fmt)
    words = 32 * fmt.elements

    with compile_model(both, name="bfp").instance() as instance:
        instance.set("seed", SEED)
        shown = instance.run(
            {
                "values": to_port(to_bits(values.view(np.uint32), words)),
                "blocks": to_port(block_bits(fmt, blocks)),
            },
            ["encoded", "decoded"],
        )

    # Row k of what is shown holds after cycle k.
    late = both.encoder.latency - 1
    encoded = to_bits(shown["encoded"][late:], fmt.block_bits)
    expected = block_bits(fmt, fmt.encode(values, seed=SEED))[: BLOCKS - late]
    wrong = np.flatnonzero((encoded != expected).any(axis=1))
    assert wrong.size == 0, f"{len(wrong)} blocks, first {wrong[0]}: {values[wrong[0]]}"
    decoded = to_bits(shown["decoded"], words)
    expected = to_bits(fmt.decode(blocks).view(np.uint32), words)
    wrong = np.flatnonzero((decoded != expected).any(axis=1))
    assert wrong.size == 0, f"{len(wrong)} blocks, first {wrong[0]}"


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda f: BlockEncoder(f, lanes=12), ValueError, "lanes must be a power of two .* 12"),
        (lambda f: BlockDecoder(f, lanes=256), ValueError, "lanes must be .* 1 to 128, not 256"),
        (lambda f: BlockEncoder(f, lanes=16, stages=6), ValueError, "stages .* 0 to 5, not 6"),
        (lambda f: BlockEncoder(f, lanes=8, stages=0), ValueError, "stages .* 1 to 5, not 0"),
        (lambda f: BlockDecoder(f, lanes=8, stages=5), ValueError, "stages .* 0 to 4, not 5"),
        (lambda f: BlockEncoder("bfp16", lanes=8), TypeError, "fmt must be a BlockFormat, not 'b"),
        (
            lambda f: Compressor(f, lanes=16, bus_bits=100),
            ValueError,
            "Packer bus_bits must be a multiple of 8 at least 8, not 100",
        ),
        (
            lambda f: Decompressor(
                BlockFormat(elements=1, exponent_bits=2, mantissa_bits=3), lanes=1, bus_bits=64
            ),
            ValueError,
            "Unpacker bits of blocks in a beat must be an integer at least 8, not 5",
        ),
    ],
)
def test_impossible_codecs_are_named(make: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        make(preset("bfp16"))
