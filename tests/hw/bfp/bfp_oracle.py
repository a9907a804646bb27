# SPDX-License-Identifier: Apache-2.0
"""An independent model of block floating point: exact fractions, one element at a time.

Written from the definition in `hw.bfp.format.BlockFormat`, in the opposite direction of model and
hardware: it tries the codes from 0 on and takes the first one that will do.
"""

import math
from fractions import Fraction
from typing import Any

import numpy as np

from hw.bfp.format import BlockFormat

__all__ = ["decode_block", "encode_block", "interesting"]

DITHER_STEPS = 4096


def _rounded(fmt: BlockFormat, value: Fraction, dither: int) -> int:
    if fmt.rounding == "nearest_even":
        return round(value)
    if fmt.rounding == "truncate":
        return math.floor(value)
    return math.floor(Fraction(math.floor(value * DITHER_STEPS) + dither, DITHER_STEPS))


def encode_block(fmt: BlockFormat, numbers: Any, dithers: Any = None) -> tuple[int, list[int]]:
    """Exponent code and element codes of one block of Python floats."""
    top = 2**fmt.exponent_bits - 2
    highest = 2 ** (fmt.mantissa_bits - 1)
    dithers = [0] * fmt.elements if dithers is None else [int(d) for d in dithers]
    if not all(math.isfinite(x) for x in numbers):
        if fmt.sign == "complement":
            return top + 1, [0] * fmt.elements
        return top + 1, [highest * (x < 0) if math.isinf(x) else highest // 2 for x in numbers]
    for code in range(top + 1):
        unit = Fraction(2) ** (code - fmt.bias - (fmt.mantissa_bits - 2))
        exact = [abs(Fraction(x)) / unit for x in numbers]
        rounded = [_rounded(fmt, x, d) for x, d in zip(exact, dithers, strict=True)]
        fits = rounded if fmt.carry == "renormalize" else [math.floor(x) for x in exact]
        if all(m < highest for m in fits):
            break
    rounded = [min(m, highest - 1) for m in rounded]
    negative = [math.copysign(1, x) < 0 for x in numbers]
    if fmt.sign == "magnitude":
        return code, [m + highest * n for m, n in zip(rounded, negative, strict=True)]
    return code, [(-m if n else m) % (2 * highest) for m, n in zip(rounded, negative, strict=True)]


def decode_block(fmt: BlockFormat, code: int, codes: Any) -> list[float]:
    """Python floats of one block: those of binary32, with NaN for any NaN."""
    highest = 2 ** (fmt.mantissa_bits - 1)
    unit = Fraction(2) ** (code - fmt.bias - (fmt.mantissa_bits - 2))
    numbers = []
    for element in map(int, codes):
        if fmt.sign == "magnitude":
            sign, magnitude = (-1 if element >= highest else 1), element % highest
        else:
            sign = -1 if element >= highest else 1
            magnitude = 2 * highest - element if element >= highest else element
        if code == 2**fmt.exponent_bits - 1:
            infinite = fmt.sign == "magnitude" and magnitude == 0
            number = sign * math.inf if infinite else math.nan
        else:
            exact = magnitude * unit
            number = math.inf if exact >= 2**128 else float(exact)
            assert exact >= 2**128 or float(np.float32(number)) == exact
            number = math.copysign(number, sign)
        numbers.append(number)
    return numbers


def interesting(fmt: BlockFormat, blocks: int, seed: int) -> np.ndarray:
    """Binary32 blocks of all kinds: random words, equal exponents, carries, ties, tiny, huge."""
    rng = np.random.default_rng(seed)
    shape = (blocks, fmt.elements)
    words = rng.integers(0, 1 << 32, shape, dtype=np.uint32)
    fraction = words & np.uint32(0x807FFFFF)
    base = rng.integers(8, 247, (blocks, 1), dtype=np.uint32)
    near = (base - rng.integers(0, 8, shape, dtype=np.uint32)) << np.uint32(23) | fraction
    # All ones down to somewhere around the place where this format rounds.
    kept = rng.integers(
        max(0, 22 - fmt.magnitude_bits), min(22, 26 - fmt.magnitude_bits), shape
    ).astype(np.uint32)
    ones = near | (np.uint32(0x7FFFFF) >> kept << kept)
    # Nothing but zeros below that place: exact values and ties.
    ties = near >> kept << kept
    kinds = [
        words,
        np.where(words >> 23 & 0xFF == 0xFF, 0, words),
        near,
        ones,
        ties,
        words & np.uint32(0x80FFFFFF),  # exponent fields 0 and 1
        words & np.uint32(0x807FFFFF),  # subnormal
        (words | np.uint32(0x7E000000)) & np.uint32(0xFF7FFFFF),  # fields 252 and 254
        np.where(words & 7 == 0, words | np.uint32(0x7F800000), near),  # a few special elements
        np.where(words & 7 == 0, (words | np.uint32(0x7FFFFFFF)) ^ np.uint32(0x7FFFFF), near),
        np.where(words & 3 == 0, near, words & np.uint32(0x80000000)),  # zeros of both signs
        words & np.uint32(0x80000000),
    ]
    chosen = rng.integers(0, len(kinds), (blocks, 1))
    return np.choose(chosen, kinds).astype(np.uint32).view(np.float32)
