# SPDX-License-Identifier: Apache-2.0
"""Expected fixed-point sums of the endpoint, from the definition of the arithmetic alone."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["headroom", "largest_exponent", "to_fixed", "to_float", "total", "unit_of"]

LEAST = -149
"""Exponent of the smallest FP32 number, which is unit 0."""


def headroom(members: int) -> int:
    """Bits that the sum of *members* integers may need beyond those of one."""
    return int(members - 1).bit_length()


def unit_of(exponent: int, members: int) -> int:
    """The unit of operands whose exponent fields are *exponent* at most."""
    # Less than 2 ** (exponent - 126) each; in units, less than 2 ** (31 - headroom).
    return max(exponent - 126 - (31 - headroom(members)) - LEAST, 0)


def largest_exponent(operands: Iterable[NDArray[Any]]) -> int:
    """Window that software sets for FP32 vectors: their largest exponent field, at least 1."""
    words = np.concatenate([np.ravel(each) for each in operands]).view(np.uint32)
    return max(1, int((words >> 23 & 255).max()))


def to_fixed(
    values: ArrayLike, unit: int, members: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Integers of FP32 *values*, rounded once to even; and a mask of those outside the window."""
    with np.errstate(invalid="ignore"):  # signalling NaNs
        values = np.asarray(values, np.float32).astype(np.float64)
    finite = np.isfinite(values)
    integers = np.rint(np.ldexp(np.where(finite, values, 0), -LEAST - unit))
    outside = ~finite | (np.abs(integers) >= 2.0 ** (31 - headroom(members)))
    return np.where(outside, 0, integers).astype(np.int64), outside


def to_float(integers: ArrayLike, unit: int) -> NDArray[np.float32]:
    """FP32 numbers nearest to *integers* in units."""
    exact = np.ldexp(np.asarray(integers, np.int64).astype(np.float64), unit + LEAST)
    with np.errstate(over="ignore"):
        return exact.astype(np.float32) + np.float32(0)


def total(operands: Sequence[NDArray[Any]] | NDArray[Any], unit: int) -> NDArray[np.float32]:
    """The sum of all *operands*, which every endpoint must store."""
    whole = np.zeros(len(operands[0]), np.int64)
    for each in operands:
        integers, outside = to_fixed(each, unit, len(operands))
        assert not outside.any(), "an operand is outside the window"
        whole += integers
    return to_float(whole, unit)
