# SPDX-License-Identifier: Apache-2.0
"""Arrays of users, of any shape and of most types, as the vectors that engines take."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gen.brief import Brief
from sim.fields import FieldError, check_type

__all__ = ["ENGINE_TYPES", "Vectors", "vectors_of"]

ENGINE_TYPES = tuple(np.dtype(name) for name in ("float32", "int32", "uint32"))
_ALLOWED = "real numbers or integers of at most 64 bits"


@dataclass(frozen=True, kw_only=True, repr=False)
class Vectors(Brief):
    """A vector per rank in a type of the engines, and the way back.

    Parameters
    ----------
    flat : list of 1-D arrays
    shape, dtype
        Those of the arrays that were given, and of results.
    note : str
        Says what was converted; empty if nothing was.
    """

    flat: list[NDArray[Any]]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    note: str = ""

    def restored(self, result: NDArray[Any]) -> NDArray[Any]:
        """A result in shape and type of what was given, rounded once."""
        with np.errstate(over="ignore"):
            return result.astype(self.dtype).reshape(self.shape)

    def note_on(self, result: NDArray[Any]) -> str:
        """The note, with the number of results that the type given does not hold."""
        if self.dtype.itemsize >= result.itemsize:
            finite = np.all([np.isfinite(each) for each in self.flat], axis=0)
            lost = int((finite & ~np.isfinite(result)).sum()) if self.note else 0
            return f"{self.note}; {lost} of them are beyond {result.dtype}" if lost else self.note
        lost = int(np.isfinite(result).sum() - np.isfinite(self.restored(result)).sum())
        return f"{self.note}; {lost} of them are beyond it" if lost else self.note


def vectors_of(given: Iterable[Any], *, sums: bool = True) -> Vectors:
    """The vectors of arrays of one shape and type, one per rank.

    float32, int32 and uint32 are taken as they are. Smaller types are widened. float64 is rounded
    to float32, and integers of 64 bits are narrowed if they allow it, and their *sums*, if these
    are what is wanted.

    Raises
    ------
    ValueError
        They have different shapes or types, no elements, or a type that cannot be converted.
    """
    check_type("vectors", given, "a sequence of arrays, one per rank", isinstance(given, Iterable))
    given = list(given)
    arrays = [_array(each, rank) for rank, each in enumerate(given)]
    if arrays and not any(hasattr(each, "dtype") for each in given):  # lists, some of whole numbers
        arrays = [each.astype(np.result_type(*arrays), copy=False) for each in arrays]
    if len(arrays) < 2 or any(each.shape != arrays[0].shape for each in arrays):
        shapes = sorted({each.shape for each in arrays})
        raise FieldError("vectors", f"must be two or more of one shape, not of shapes {shapes}")
    if not arrays[0].size:
        raise FieldError("vectors", f"must have elements, not shape {arrays[0].shape}")
    if any(each.dtype != arrays[0].dtype for each in arrays):
        types = ", ".join(sorted({str(each.dtype) for each in arrays}))
        raise FieldError("vectors", f"must be of one type, not {types}")
    dtype = arrays[0].dtype
    target = _target(dtype)
    flat = [each.reshape(-1) for each in arrays]
    if target.kind == "f":
        flat, note = _rounded(flat, dtype)
    else:
        note = _checked(flat, dtype, target, sums=sums)
        flat = [each.astype(target, copy=False) for each in flat]
    return Vectors(flat=flat, shape=arrays[0].shape, dtype=dtype, note=note)


def _array(given: Any, rank: int) -> NDArray[Any]:
    try:
        return np.asarray(given)
    except (ValueError, TypeError) as error:
        why = " ".join(str(error).split())
        raise FieldError("vectors", f"must be arrays, and number {rank} is none: {why}") from error


def _target(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type of the engines that stands for *dtype*."""
    of_bytes = {"i": ENGINE_TYPES[1], "u": ENGINE_TYPES[2]}
    if dtype.kind in of_bytes:
        return of_bytes[dtype.kind]
    # Types of other packages, such as bfloat16, say what they can be cast to.
    small = dtype.kind in "fV" and dtype.names is None and np.can_cast(dtype, ENGINE_TYPES[0])
    if (small and np.float32(0.5).astype(dtype) == 0.5) or dtype.newbyteorder("=") == np.float64:
        return ENGINE_TYPES[0]
    raise FieldError("vectors", f"must hold {_ALLOWED}, not {dtype}")


def _rounded(
    flat: list[NDArray[Any]], dtype: np.dtype[Any]
) -> tuple[list[NDArray[Any]], str]:
    """Real numbers as float32, and the note on it."""
    if dtype.newbyteorder("=") == ENGINE_TYPES[0]:
        return [each.astype(ENGINE_TYPES[0], copy=False) for each in flat], ""
    with np.errstate(over="ignore"):
        made = [each.astype(ENGINE_TYPES[0]) for each in flat]
    if dtype.itemsize <= 4:
        return made, f"{dtype} was widened to float32, and results rounded once to {dtype}"
    for before, after in zip(flat, made, strict=True):
        if (np.isfinite(before) & ~np.isfinite(after)).any():
            largest = float(np.abs(before[np.isfinite(before)]).max())
            raise FieldError("vectors", f"must be within float32, not {largest:.4g}")
    return made, f"{dtype} was rounded once to float32; results have no more digits"


def _checked(
    flat: list[NDArray[Any]], dtype: np.dtype[Any], target: np.dtype[Any], *, sums: bool
) -> str:
    """The note on integers in a type of the engines; they and their sums must fit both types."""
    if dtype.newbyteorder("=") == target:
        return ""
    least = max(int(np.iinfo(each).min) for each in (dtype, target))
    most = min(int(np.iinfo(each).max) for each in (dtype, target))
    narrow = dtype if dtype.itemsize < target.itemsize else target
    for each in flat:
        _within("hold numbers", each, least, most, narrow)
    if sums:
        total = np.sum([each.astype(np.int64) for each in flat], axis=0)
        _within("have sums", total, least, most, narrow)
    how = "widened" if dtype.itemsize < target.itemsize else "narrowed"
    return f"{dtype} was {how} to {target}, which all results fit"


def _within(
    what: str, values: NDArray[Any], least: int, most: int, narrow: np.dtype[Any]
) -> None:
    low, high = int(values.min()), int(values.max())
    if low < least or high > most:
        found = low if low < least else high
        raise FieldError("vectors", f"must {what} within {narrow}, not {found}")
