# SPDX-License-Identifier: Apache-2.0
"""Columns of cells as Arrow arrays, from buffers.

``pyarrow.array`` does the same, and imports pandas wherever it is installed: 0.2 s, which is more
than most runs take.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow

__all__ = ["arrow_array"]

_INTEGERS = range(-(1 << 63), 1 << 63)


def arrow_array(values: Sequence[Any]) -> pyarrow.Array:
    """An array of booleans, ``int64``, ``float64`` or strings; None is null.

    All else, as integers beyond 64 bits, is left to ``pyarrow.array`` with its errors.
    """
    kinds = {type(value) for value in values} - {type(None)}
    if len(kinds) != 1:
        return pyarrow.array(values) if kinds else pyarrow.nulls(len(values))
    kind = kinds.pop()
    present = np.array([value is not None for value in values])
    valid = None if present.all() else _bits(present)
    filled = [kind() if value is None else value for value in values]
    if kind is str:
        texts = [value.encode() for value in filled]
        ends = np.cumsum([0, *map(len, texts)])
        if ends[-1] < 1 << 31:
            starts = pyarrow.py_buffer(ends.astype(np.int32))
            text = pyarrow.py_buffer(b"".join(texts))
            return pyarrow.StringArray.from_buffers(len(values), starts, text, valid)
    elif kind is bool:
        return _from_buffers(pyarrow.bool_(), len(values), valid, _bits(np.array(filled)))
    elif kind is float or (kind is int and all(value in _INTEGERS for value in filled)):
        type_ = pyarrow.float64() if kind is float else pyarrow.int64()
        numbers = np.array(filled, np.float64 if kind is float else np.int64)
        return _from_buffers(type_, len(values), valid, pyarrow.py_buffer(numbers))
    return pyarrow.array(values)


def _bits(flags: np.ndarray[Any, np.dtype[np.bool_]]) -> pyarrow.Buffer:
    return pyarrow.py_buffer(np.packbits(flags, bitorder="little"))


def _from_buffers(
    type_: pyarrow.DataType, length: int, valid: pyarrow.Buffer | None, data: pyarrow.Buffer
) -> pyarrow.Array:
    return pyarrow.Array.from_buffers(type_, length, [valid, data])
