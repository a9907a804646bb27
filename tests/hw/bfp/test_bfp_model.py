# SPDX-License-Identifier: Apache-2.0
"""The golden model against exact fractions, against ml_dtypes, and against its own law."""

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from hw.bfp import dither
from hw.bfp.format import PRESETS, BlockFormat, preset
from hw.bfp.model import Blocks
from tests.hw.bfp.bfp_oracle import decode_block, encode_block, interesting

FORMATS = {
    **PRESETS,
    "one": BlockFormat(elements=1),
    "shortest": BlockFormat(elements=2, exponent_bits=2, mantissa_bits=2),
    "longest": BlockFormat(elements=4, mantissa_bits=24),
    "longest_complement": BlockFormat(elements=4, mantissa_bits=24, sign="complement"),
    "complement_renormalize": BlockFormat(elements=8, sign="complement"),
    "magnitude_saturate": BlockFormat(elements=8, carry="saturate"),
    "short_stochastic": BlockFormat(elements=4, exponent_bits=6, rounding="stochastic"),
    "stochastic_saturate": BlockFormat(elements=4, rounding="stochastic", carry="saturate"),
}
named = pytest.mark.parametrize("fmt", FORMATS.values(), ids=FORMATS.keys())
SEED = 0x0123456789ABCDEF


def same(a: Blocks, b: Blocks) -> bool:
    return np.array_equal(a.exponents, b.exponents) and np.array_equal(a.mantissas, b.mantissas)


@named
def test_encoder_and_decoder_equal_exact_arithmetic(fmt: BlockFormat) -> None:
    blocks = 5000 // (fmt.elements + 20)
    values = interesting(fmt, blocks, seed=1)
    dithers = dither.dithers(SEED, blocks, fmt.elements)

    encoded = fmt.encode(values, seed=SEED)
    decoded = fmt.decode(encoded)

    codes = set()
    for n in range(blocks):
        code, elements = encode_block(fmt, values[n].tolist(), dithers[n])
        assert encoded.exponents[n] == code, values[n]
        assert encoded.mantissas[n].tolist() == elements, values[n]
        want = decode_block(fmt, code, elements)
        assert np.array_equal(decoded[n], np.array(want, dtype=np.float32), equal_nan=True)
        assert np.array_equal(np.signbit(decoded[n]), np.signbit(want))
        codes.add(code)
    # Both ends of the range and special blocks were among them.
    assert {0, fmt.special_code - 1, fmt.special_code} <= codes


@named
def test_every_block_that_the_encoder_makes_comes_back_unchanged(fmt: BlockFormat) -> None:
    first = fmt.encode(interesting(fmt, 20_000, seed=2), seed=1)

    again = fmt.encode(fmt.decode(first), seed=2)

    assert same(first, again)


@named
def test_packing_is_undone_by_unpacking_and_needs_no_more_than_its_bits(fmt: BlockFormat) -> None:
    blocks = fmt.encode(interesting(fmt, 37, seed=3))

    packed = fmt.pack(blocks)

    assert len(packed) == math.ceil(37 * fmt.block_bits / 8)
    assert same(fmt.unpack(packed + b"\xff", 37), blocks)
    with pytest.raises(ValueError, match=f"37 blocks need {len(packed)} bytes, not 0"):
        fmt.unpack(b"", 37)


def test_bits_on_the_wire_are_exponent_then_elements_lowest_first() -> None:
    fmt = BlockFormat(elements=2, exponent_bits=5, mantissa_bits=4)
    blocks = Blocks(
        np.array([0b10011, 1], dtype=np.uint8), np.array([[0b1010, 0b0110], [1, 0]], dtype="u4")
    )

    packed = int.from_bytes(fmt.pack(blocks), "little")

    assert packed == 0b0000_0001_00001_0110_1010_10011


@pytest.mark.parametrize("rounding", ["nearest_even", "truncate"])
@pytest.mark.parametrize(
    ("name", "exponent_bits", "magnitude_bits"), [("bfloat16", 8, 8), ("float16", 5, 11)]
)
def test_a_block_of_one_element_is_a_small_float_as_ml_dtypes_rounds_it(
    name: str, exponent_bits: int, magnitude_bits: int, rounding: str
) -> None:
    fmt = BlockFormat(
        elements=1,
        exponent_bits=exponent_bits,
        mantissa_bits=magnitude_bits + 1,
        rounding=rounding,
    )
    # Within the range of normal numbers, at whose lower end small floats lose a bit that blocks
    # keep, and at whose upper end they become infinite where blocks stay finite.
    rng = np.random.default_rng(4)
    exponent = rng.integers(2, (1 << exponent_bits) - 3, 200_000) + 127 - fmt.bias
    words = exponent << 23 | rng.integers(0, 1 << 23, len(exponent))
    values = (words | rng.integers(0, 2, len(exponent)) << 31).astype(np.uint32).view(np.float32)

    got = fmt.quantize(values)

    expected = values.astype(np.dtype(name)).astype(np.float32)
    if rounding == "truncate":
        away = np.abs(expected) > np.abs(values)
        assert 0.2 < away.mean() < 0.6
        got, expected = got[~away], expected[~away]
    assert np.array_equal(got, expected)


@pytest.mark.parametrize("kind", [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)])
def test_sixteen_bit_floats_are_widened_exactly_and_narrowed_once(kind: Any) -> None:
    fmt = preset("bfp16")
    words = np.arange(1 << 16, dtype=np.uint16)
    np.random.default_rng(5).shuffle(words)
    values = words.view(kind)
    wide = np.array([float(x) for x in values], dtype=np.float32)

    assert same(fmt.encode(values), fmt.encode(wide))
    narrowed = fmt.quantize(values)

    assert narrowed.dtype == kind
    with np.errstate(over="ignore"):
        expected = fmt.decode(fmt.encode(wide)).ravel().astype(kind)
    assert np.array_equal(narrowed.view(np.uint16), expected.view(np.uint16))


def test_elements_of_ten_bits_keep_bfloat16_of_three_binades_exactly() -> None:
    # 8 bits of significand, and two for the distance of the lowest binade.
    fmt = BlockFormat(mantissa_bits=11)
    rng = np.random.default_rng(6)
    values = (rng.uniform(1, 7.9, 4096) * rng.choice([-1, 1], 4096)).astype(ml_dtypes.bfloat16)

    assert np.array_equal(fmt.quantize(values), values)


def test_mxint8_scales_and_elements_are_those_of_the_ocp_format() -> None:
    fmt = preset("mxint8")
    exponents = np.arange(256, dtype=np.uint8)
    elements = np.tile(np.arange(256, dtype=np.uint32), (256, 1)).reshape(-1, 32)
    blocks = Blocks(exponents.repeat(8), elements)

    decoded = fmt.decode(blocks).reshape(256, 256)

    scales = exponents.view(ml_dtypes.float8_e8m0fnu).astype(np.float64)
    integers = np.arange(256, dtype=np.uint8).view(np.int8)
    with np.errstate(over="ignore"):
        expected = (scales[:, None] * (integers / 64)).astype(np.float32)
    assert np.array_equal(decoded, expected, equal_nan=True)
    assert np.isnan(decoded[255]).all() and np.isfinite(decoded[:254]).all()


def test_blocks_that_the_encoder_never_makes_do_as_the_reference_page_says() -> None:
    bfp16, mxint8 = preset("bfp16"), preset("mxint8")

    def back(fmt: BlockFormat, code: int, *elements: int) -> tuple[int, list[int]]:
        padded = np.array([[*elements, *[0] * (fmt.elements - len(elements))]], dtype=np.uint32)
        blocks = fmt.encode(fmt.decode(Blocks(np.array([code], dtype=np.uint8), padded)))
        return int(blocks.exponents[0]), blocks.mantissas[0, : len(elements)].tolist()

    # Not normalised: the code falls until a magnitude has its highest bit, or to 0. Same values.
    assert back(bfp16, 100, 5, 0x80 | 3) == (96, [80, 0x80 | 48])
    assert back(bfp16, 3, 1) == (0, [8])
    # Zeros under a code: code 0; signs stay.
    assert back(bfp16, 200, 0, 0x80) == (0, [0, 0x80])
    # Other NaN payloads become the canonical one; two's complement has one NaN block.
    assert back(bfp16, 255, 1, 0xFF, 0x80, 0) == (255, [0x40, 0x40, 0x80, 0])
    assert back(mxint8, 255, 7, 0x80) == (255, [0, 0])
    # -128 is -2 units of the code above; what is odd beside it is rounded, ties to even.
    assert back(mxint8, 100, 0x80, 64, 3, 5) == (101, [0xC0, 32, 2, 2])
    # At the highest code it is past binary32, so infinite, and then the block is a NaN.
    assert back(mxint8, 254, 0x80, 64) == (255, [0, 0])


def test_huge_numbers_saturate_and_tiny_ones_fade() -> None:
    short = BlockFormat(elements=2, exponent_bits=5)

    assert short.quantize(np.float32([1e9, -3.0])).tolist() == [65024.0, -0.0]
    assert short.quantize(np.float32([6e4, -3e4])).tolist() == [59904.0, -30208.0]
    assert short.quantize(np.float32([2.0**-20, -(2.0**-23)])).tolist() == [2.0**-20, -0.0]
    largest = np.float32([3.4028235e38, 1.0])
    assert preset("bfp16").quantize(largest).tolist() == [127 * 2.0**121, 0.0]


@pytest.mark.parametrize("name", ["bfp16", "mxint8"])
def test_carry_either_raises_the_exponent_or_saturates(name: str) -> None:
    fmt = preset(name)
    values = np.zeros(fmt.elements, dtype=np.float32)
    values[:2] = 127.75, 1.5

    quantized = fmt.quantize(values)[:2].tolist()

    # To units of 2 both are rounded once: 1.5 goes to 2, as 0.75 units do to 1.
    assert quantized == ([128.0, 2.0] if name == "bfp16" else [127.0, 2.0])


def test_stochastic_rounding_is_right_on_average() -> None:
    fmt = preset("bfp16_stochastic")
    fractions = np.linspace(0, 1, 15, endpoint=False)
    block = np.concatenate([[100.0], 10 + fractions]).astype(np.float32)
    repeats = 60_000

    quantized = fmt.quantize(np.tile(block, repeats), seed=SEED).reshape(repeats, 16)

    assert (quantized[:, :2] == block[:2]).all()  # nothing to round
    assert set(np.unique(quantized[:, 2:])) == {10.0, 11.0}
    error = quantized.mean(axis=0) - block
    assert np.abs(error).max() < 5 * 0.5 / math.sqrt(repeats) + 2.0**-12
    # Neighbours are rounded independently.
    up = (quantized == 11)[:, 6:10].astype(float)
    assert np.abs(np.corrcoef(up.T) - np.eye(4)).max() < 5 / math.sqrt(repeats)


def test_stochastic_rounding_depends_on_seed_and_place_only() -> None:
    fmt = preset("bfp16_stochastic")
    values = np.random.default_rng(7).normal(size=16 * 50).astype(np.float32)

    whole = fmt.encode(values, seed=SEED)

    assert same(whole, fmt.encode(values, seed=SEED))
    assert not same(whole, fmt.encode(values, seed=SEED + 1))
    later = int(dither.states(SEED, 21)[20])
    rest = fmt.encode(values[20 * 16 :], seed=later)
    assert np.array_equal(rest.mantissas, whole.mantissas[20:])


def test_generator_states_follow_each_other_and_zero_is_replaced() -> None:
    state, expected = SEED, []
    for _ in range(1000):
        expected.append(state)
        state = dither.step(state)

    assert dither.states(SEED, 1000).tolist() == expected
    assert dither.states(0, 1).tolist() == [dither.ZERO_SEED]
    assert dither.states(SEED, 0).tolist() == []


def test_any_two_elements_of_a_block_have_independent_random_numbers() -> None:
    def rank(rows: list[int]) -> int:
        basis: list[int] = []
        for row in rows:
            for other in basis:
                row = min(row, row ^ other)
            if row:
                basis.append(row)
        return len(basis)

    def rows(element: int) -> list[int]:
        """Each bit of the random number as the set of state bits that it is the sum of."""
        made = [0] * dither.DITHER_BITS
        for amount in dither.rotations(element):
            for bit in range(dither.DITHER_BITS):
                made[bit] ^= 1 << (bit + amount) % dither.STATE_BITS
        return made

    every = [rows(element) for element in range(64)]
    for a in range(64):
        for b in range(a):
            assert rank(every[a] + every[b]) == 2 * dither.DITHER_BITS, (a, b)


@pytest.mark.parametrize(
    ("values", "seed", "error", "text"),
    [
        (np.zeros(16), 0, TypeError, "values must be of type float32, float16, bfloat16, not flo"),
        ([1, 2], 0, TypeError, "values must be of type .*, not int64"),
        (np.zeros(16, dtype=np.float32), -1, ValueError, "seed must be .* from 0 to .*, not -1"),
    ],
)
def test_values_and_seeds_that_cannot_be_encoded_are_refused(
    values: Any, seed: int, error: Any, text: str
) -> None:
    with pytest.raises(error, match=text):
        preset("bfp16_stochastic").encode(values, seed=seed)


@pytest.mark.parametrize(
    ("parameters", "error", "text"),
    [
        ({"elements": 12}, ValueError, "elements must be a power of two from 1 to 64, not 12"),
        ({"elements": 16.0}, TypeError, "elements must be a power of two .*, not 16.0"),
        ({"exponent_bits": 9}, ValueError, "exponent_bits must be an integer from 2 to 8, not 9"),
        ({"mantissa_bits": 25}, ValueError, "mantissa_bits must be .* from 2 to 24, not 25"),
        ({"rounding": "up"}, ValueError, "rounding must be one of 'nearest_even', .*, not 'up'"),
        ({"sign": 1}, TypeError, "sign must be one of 'magnitude', 'complement', not 1"),
        ({"carry": None}, TypeError, "carry must be one of 'renormalize', 'saturate', not None"),
    ],
)
def test_impossible_formats_are_named(parameters: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=f"BlockFormat {text}"):
        BlockFormat(**parameters)


def test_unknown_presets_are_answered_with_those_that_exist() -> None:
    with pytest.raises(ValueError, match=r"preset must be one of 'bfp16', .*, not 'bfp15'"):
        preset("bfp15")


def test_bfp16_is_the_format_of_the_paper() -> None:
    fmt = preset("bfp16")

    assert (fmt.block_bits, round(fmt.ratio, 2)) == (136, 3.76)
    assert (preset("mxint8").block_bits, preset("bfp12").block_bits) == (264, 72)
