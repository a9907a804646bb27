# SPDX-License-Identifier: Apache-2.0
"""Golden model of the reduction lanes: what the hardware must return, bit for bit.

Works on whole arrays with numpy's own arithmetic and shares nothing with the RTL.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hw.common.params import require_choice

__all__ = ["CANONICAL_NAN", "add_flags", "reduce"]

CANONICAL_NAN = np.uint32(0x7FC00000)
INEXACT, OVERFLOW, INVALID = 1, 4, 16

Words = NDArray[np.uint32]


def reduce(op: Any, a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """Combine *a* and *b* element by element as a reduction lane does.

    Parameters
    ----------
    op : ReduceOp or str
        The operation, or its name.
    a, b : array of float32, int32 or uint32
        Operands, taken as bit patterns: the dtype does not choose the operation.

    Returns
    -------
    array
        The results as bit patterns, in the dtype of *a*.
    """
    name = op if isinstance(op, str) else op.name
    operation = _OPERATIONS[require_choice("op", name, _OPERATIONS)]
    a = np.asarray(a)
    result = operation(_words("a", a), _words("b", np.asarray(b)))
    return result.view(a.dtype)


def add_flags(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.uint8]:
    """Return the exceptions of ``SUM_F32``, in the bit order of `hw.fp.formats.Flags`."""
    a, b = _words("a", np.asarray(a)), _words("b", np.asarray(b))
    x, y = a.view(np.float32), b.view(np.float32)
    finite = np.isfinite(x) & np.isfinite(y)
    with np.errstate(all="ignore"):
        total = x + y
        larger = np.where(np.abs(x) >= np.abs(y), x, y).astype(np.float64)
        smaller = np.where(np.abs(x) >= np.abs(y), y, x).astype(np.float64)
        # The rounding error of a binary32 sum is a binary32 number, so binary64 finds it exactly.
        error = (larger - total) + smaller
    overflow = finite & np.isinf(total)
    inexact = finite & (overflow | (error != 0))
    opposite = np.isinf(x) & np.isinf(y) & ((a ^ b) >> 31 == 1)
    invalid = _signalling(a) | _signalling(b) | opposite
    flags: NDArray[np.uint8] = (inexact * INEXACT + overflow * OVERFLOW + invalid * INVALID).astype(
        np.uint8
    )
    return flags


def _words(name: str, values: NDArray[Any]) -> Words:
    if values.dtype not in (np.float32, np.int32, np.uint32):
        raise TypeError(f"{name} must hold float32, int32 or uint32, not {values.dtype}")
    return np.ascontiguousarray(values).view(np.uint32)


def _signalling(words: Words) -> NDArray[np.bool_]:
    return (words & 0x7FC00000 == 0x7F800000) & (words & 0x003FFFFF != 0)


def _canonical(values: NDArray[np.float32]) -> Words:
    return np.where(np.isnan(values), CANONICAL_NAN, values.view(np.uint32))


def _add(a: Words, b: Words) -> Words:
    with np.errstate(all="ignore"):
        return _canonical(a.view(np.float32) + b.view(np.float32))


def _choose(a: Words, b: Words, *, largest: bool) -> Words:
    x, y = a.view(np.float32), b.view(np.float32)
    # Numbers compare by value; where values are equal only zeros can differ, by their sign.
    first = np.where(x == y, (a >> 31) < (b >> 31), x > y) == largest
    chosen = np.where(first, a, b)
    return np.where(np.isnan(x) | np.isnan(y), CANONICAL_NAN, chosen)


def _minimum(a: Words, b: Words) -> Words:
    return _choose(a, b, largest=False)


def _maximum(a: Words, b: Words) -> Words:
    return _choose(a, b, largest=True)


def _add_integers(a: Words, b: Words) -> Words:
    return a + b


_OPERATIONS = {
    "SUM_F32": _add,
    "MIN_F32": _minimum,
    "MAX_F32": _maximum,
    "SUM_I32": _add_integers,
}
