# SPDX-License-Identifier: Apache-2.0
"""Golden model of block floating point: what encoder, decoder and packer must do, bit for bit.

Works on whole arrays with numpy and shares nothing with the RTL but the format and the definition
of the random numbers.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hw.bfp.dither import DITHER_BITS, dithers
from hw.bfp.parameters import BlockParameters

__all__ = ["CANONICAL_NAN", "Blocks", "decode", "encode", "pack", "quantize", "unpack"]

CANONICAL_NAN = np.uint32(0x7FC00000)
PRECISION = 24  # bits of a binary32 significand
SOURCE_TYPES = ("float32", "float16", "bfloat16")

Words = NDArray[np.uint32]


class Blocks(NamedTuple):
    """Blocks as codes.

    Members
    -------
    exponents : array of uint8, shape (n,)
        Exponent code of each block.
    mantissas : array of uint32, shape (n, elements)
        Element codes of `mantissa_bits` bits, sign on top.
    """

    exponents: NDArray[np.uint8]
    mantissas: Words


def encode(fmt: BlockParameters, values: Any, *, seed: int = 0) -> Blocks:
    """Blocks of *values*, taken in C order and padded with +0 to whole blocks.

    Parameters
    ----------
    fmt : BlockParameters
        The format.
    values : array of float32, float16 or bfloat16
        Elements; 16-bit ones are widened first, which is exact.
    seed : int
        Of stochastic rounding: state of the generator for the first block, 0 to 2**64 - 1.

    Raises
    ------
    TypeError
        *values* are of another type: float64 would be rounded twice.
    ValueError
        *seed* is out of range.
    """
    words = _words(fmt, values)
    exponent = (words >> 23 & 0xFF).astype(np.int32)
    fraction = words & 0x7FFFFF
    # A subnormal's fraction moved up by one has the weight that exponent field 0 would give it.
    significand = np.where(exponent == 0, fraction << 1, fraction | 1 << 23)
    # In a block that is found special, the magnitudes below are thrown away.
    special = (exponent == 0xFF).any(axis=1)
    stochastic = fmt.rounding == "stochastic"
    random = dithers(seed, len(words), fmt.elements) if stochastic else None
    code = np.clip(exponent.max(axis=1) - fmt.offset, 0, fmt.special_code - 1)
    magnitude = _round(fmt, significand, (code + fmt.offset)[:, None] - exponent, random)
    if fmt.carry == "renormalize":
        passed = (magnitude > fmt.largest_magnitude).any(axis=1)
        passed &= code < fmt.special_code - 1
        again = np.flatnonzero(passed)
        code[again] += 1
        magnitude[again] = _round(
            fmt,
            significand[again],
            (code[again] + fmt.offset)[:, None] - exponent[again],
            None if random is None else random[again],
        )
    magnitude = np.minimum(magnitude, fmt.largest_magnitude)
    sign = words >> 31
    code[special] = fmt.special_code
    if fmt.sign == "magnitude":
        infinite = (exponent == 0xFF) & (fraction == 0)
        magnitude = np.where(special[:, None], ~infinite * _nan_magnitude(fmt), magnitude)
        sign &= infinite | ~special[:, None]
        mantissas = sign << fmt.magnitude_bits | magnitude
    else:
        complement = np.where(sign == 1, -magnitude, magnitude) * ~special[:, None]
        mantissas = complement & ((1 << fmt.mantissa_bits) - 1)
    return Blocks(code.astype(np.uint8), mantissas.astype(np.uint32))


def decode(fmt: BlockParameters, blocks: Blocks) -> NDArray[np.float32]:
    """Elements of *blocks* as binary32, one row per block; any code is allowed.

    A NaN is the canonical one. Numbers past the range of binary32, which only the most negative
    magnitude of two's complement can reach, become infinite.
    """
    codes = np.asarray(blocks.mantissas, dtype=np.int64)
    if fmt.sign == "magnitude":
        negative = codes >> fmt.magnitude_bits == 1
        magnitude = codes & fmt.largest_magnitude
    else:
        negative = codes >= 1 << fmt.magnitude_bits
        magnitude = np.where(negative, (1 << fmt.mantissa_bits) - codes, codes)
    exponents = np.asarray(blocks.exponents, dtype=np.int32)
    unit = np.ldexp(1.0, exponents - fmt.bias - (fmt.magnitude_bits - 1))
    with np.errstate(over="ignore"):
        # A product of at most 24 significant bits: exact in binary64.
        result = np.copysign(magnitude * unit[:, None], np.where(negative, -1.0, 1.0)).astype(
            np.float32
        )
    special = exponents == fmt.special_code
    nan = CANONICAL_NAN.view(np.float32)
    if fmt.sign == "magnitude":
        infinity = np.where(negative[special], -np.inf, np.inf).astype(np.float32)
        result[special] = np.where(magnitude[special] == 0, infinity, nan)
    else:
        result[special] = nan
    return result


def quantize(fmt: BlockParameters, values: Any, *, seed: int = 0) -> NDArray[Any]:
    """Encode *values* and decode them again; shape and type are kept.

    Values of a 16-bit type are rounded once more, to nearest even, which changes nothing where the
    type has the range and the precision of the format.
    """
    values = np.asarray(values)
    result = decode(fmt, encode(fmt, values, seed=seed)).ravel()[: values.size]
    with np.errstate(over="ignore"):
        return result.reshape(values.shape).astype(values.dtype)


def pack(fmt: BlockParameters, blocks: Blocks) -> bytes:
    """Blocks as they cross the wire: back to back, lowest bit first, zeros to a whole byte.

    A block begins with its exponent code, followed by element 0, 1, ... Bit *n* of the stream is
    bit *n* % 8 of byte *n* // 8.
    """
    exponents = np.asarray(blocks.exponents, dtype=np.uint8)[:, None]
    mantissas = np.ascontiguousarray(blocks.mantissas, dtype="<u4")
    count = len(exponents)
    head = np.unpackbits(exponents, axis=1, bitorder="little")[:, : fmt.exponent_bits]
    body = np.unpackbits(mantissas.view(np.uint8), axis=1, bitorder="little")
    body = body.reshape(count, fmt.elements, 32)[:, :, : fmt.mantissa_bits]
    bits = np.concatenate([head, body.reshape(count, -1)], axis=1)
    return np.packbits(bits, bitorder="little").tobytes()


def unpack(fmt: BlockParameters, packed: bytes, blocks: int) -> Blocks:
    """The first *blocks* blocks of what `pack` has made; what follows is ignored.

    Raises
    ------
    ValueError
        *packed* is too short.
    """
    needed = -(-blocks * fmt.block_bits // 8)
    if len(packed) < needed:
        raise ValueError(f"{blocks} blocks need {needed} bytes, not {len(packed)}")
    octets = np.frombuffer(packed, dtype=np.uint8, count=needed)
    bits = np.unpackbits(octets, bitorder="little", count=blocks * fmt.block_bits)
    rows = bits.reshape(blocks, fmt.block_bits)
    exponents = np.packbits(rows[:, : fmt.exponent_bits], axis=1, bitorder="little")
    wide = np.zeros((blocks, fmt.elements, 32), dtype=np.uint8)
    wide[:, :, : fmt.mantissa_bits] = rows[:, fmt.exponent_bits :].reshape(
        blocks, fmt.elements, fmt.mantissa_bits
    )
    mantissas = np.packbits(wide.reshape(blocks, -1), axis=1, bitorder="little")
    return Blocks(exponents.reshape(blocks), mantissas.view("<u4").astype(np.uint32))


def _words(fmt: BlockParameters, values: Any) -> Words:
    """Bit patterns of binary32, one row per block."""
    values = np.asarray(values)
    if values.dtype.name not in SOURCE_TYPES:
        allowed = ", ".join(SOURCE_TYPES)
        raise TypeError(f"values must be of type {allowed}, not {values.dtype.name}")
    count = fmt.blocks(values.size)
    padded = np.zeros(count * fmt.elements, dtype=np.float32)
    padded[: values.size] = values.ravel()
    return padded.view(np.uint32).reshape(count, fmt.elements)


def _nan_magnitude(fmt: BlockParameters) -> int:
    return 1 << (fmt.magnitude_bits - 1)


def _round(
    fmt: BlockParameters,
    significand: NDArray[Any],
    shift: NDArray[np.int32],
    random: NDArray[np.uint64] | None,
) -> NDArray[np.int64]:
    """Magnitudes of significands that lie *shift* places below the exponent of their block.

    May exceed the largest magnitude; a negative shift, above the range, always does.
    """
    above = shift < 0
    # Past all bits of a significand, and of the random number, a longer shift changes nothing.
    cut = np.clip(shift + PRECISION - fmt.magnitude_bits, 1, 2 * PRECISION).astype(np.uint64)
    value = significand.astype(np.uint64)
    if fmt.rounding == "nearest_even":
        half = np.uint64(1) << (cut - np.uint64(1))
        odd = value >> cut & np.uint64(1)
        magnitude = (value + half - np.uint64(1) + odd) >> cut
    elif random is None:
        magnitude = value >> cut
    else:
        dithered = (value << np.uint64(DITHER_BITS) >> cut) + random
        magnitude = dithered >> np.uint64(DITHER_BITS)
    return np.where(above, np.int64(fmt.largest_magnitude + 1), magnitude.astype(np.int64))
