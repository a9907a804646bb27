# SPDX-License-Identifier: Apache-2.0
"""Operations of a reduction lane."""

from amaranth.lib import enum

__all__ = ["ReduceOp"]


class ReduceOp(enum.Enum, shape=2):
    """Operation of a reduction lane on two 32-bit words."""

    SUM_F32 = 0
    MIN_F32 = 1
    MAX_F32 = 2
    SUM_I32 = 3
