# SPDX-License-Identifier: Apache-2.0
"""Registers as the benches and the manual see them: offsets and words."""

from collections.abc import Iterable

from hw.common.register_map import Access, RegisterMap

__all__ = ["PATIENCE", "after_reset", "words"]

PATIENCE = 1 << 20
"""Cycles of the watchdog that recipes set: a node may be late, or the network stalled, for so long;
more than two periods of the switches' time-out."""


def words(registers: RegisterMap, writes: Iterable[tuple[str, int]]) -> list[tuple[int, int]]:
    """Offset and word of each write to a register by name."""
    return [(registers.offset(name), word) for name, word in writes]


def after_reset(registers: RegisterMap) -> list[tuple[int, int]]:
    """Offset and value after reset of every register that can be read."""
    return [
        (registers.offset(name, index), register.init)
        for name, register in registers.registers.items()
        if Access(register.access).readable
        for index in range(register.words)
    ]
