# SPDX-License-Identifier: Apache-2.0
"""Writes of a driver to registers, in their order."""

from collections.abc import Iterator

__all__ = ["Write", "halves"]

Write = tuple[str, int]
"""Name of a register, and the word to write."""

_WORD = 0xFFFF_FFFF


def halves(register: str, value: int) -> Iterator[Write]:
    """The writes of a register of two words."""
    yield f"{register}_low", value & _WORD
    yield f"{register}_high", value >> 32

