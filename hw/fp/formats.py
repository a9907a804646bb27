# SPDX-License-Identifier: Apache-2.0
"""Binary floating-point formats and the exception flags of IEEE 754."""

from dataclasses import dataclass

from amaranth.lib import data

from hw.common.params import require_int

__all__ = ["BINARY16", "BINARY32", "Flags", "FloatFormat"]


@dataclass(frozen=True, kw_only=True)
class FloatFormat:
    """An IEEE 754 binary interchange format: one sign bit, exponent, fraction.

    Parameters
    ----------
    exponent : int
        Width of the exponent field, at least 3.
    fraction : int
        Width of the fraction field (the significand without its hidden bit), at least 2.

    Raises
    ------
    TypeError
        A width is not an integer.
    ValueError
        A width is too small, or the exponent range cannot hold a normalisation shift.
    """

    exponent: int
    fraction: int

    def __post_init__(self) -> None:
        exponent = require_int("FloatFormat exponent", self.exponent, minimum=3)
        require_int("FloatFormat fraction", self.fraction, minimum=2, maximum=(1 << exponent) - 4)

    @property
    def width(self) -> int:
        """Bits of one number."""
        return 1 + self.exponent + self.fraction

    @property
    def precision(self) -> int:
        """Bits of the significand, hidden bit included."""
        return self.fraction + 1

    @property
    def infinity(self) -> int:
        """Encoding of plus infinity."""
        return ((1 << self.exponent) - 1) << self.fraction

    @property
    def canonical_nan(self) -> int:
        """Encoding of the quiet NaN that every operation here returns."""
        return self.infinity | 1 << (self.fraction - 1)


BINARY16 = FloatFormat(exponent=5, fraction=10)
BINARY32 = FloatFormat(exponent=8, fraction=23)


class Flags(data.Struct):
    """Exceptions of one operation, in the bit order of SoftFloat and of RISC-V ``fflags``."""

    inexact: 1
    underflow: 1
    overflow: 1
    divide_by_zero: 1
    invalid: 1
