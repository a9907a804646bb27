# SPDX-License-Identifier: Apache-2.0
"""SRAM macros as memory of a device or of a chip: block RAMs, area, and whether a design fits."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gen.mapping.targets import Device, MemoryKind

__all__ = ["SRAM_UM2_PER_BIT", "Macro", "blocks_of", "fit_note", "macros_in"]

SRAM_UM2_PER_BIT = 0.528 * (28 / 45) ** 2
"""Area of a bit of SRAM at 28 nm, with its share of everything that a macro has: of 512 x 64 in the
45 nm test data of OpenROAD (17 301 um2), shrunk with the square of the length."""

_MACRO = re.compile(r"^sram_(?:1rw|1r1w)_(\d+)x(\d+)(?:_w(\d+))?$")


@dataclass(frozen=True)
class Macro:
    """A kind of SRAM macro: rows, bits of a row, bits that are written together."""

    depth: int
    width: int
    granularity: int

    @property
    def bits(self) -> int:
        """Capacity."""
        return self.depth * self.width


def macros_in(cells: Mapping[str, int]) -> list[tuple[Macro, int]]:
    """Kinds of macros among *cells*, with their numbers."""
    found = ((_MACRO.match(kind), count) for kind, count in cells.items())
    return [
        (Macro(int(m[1]), int(m[2]), int(m[3] or m[2])), count) for m, count in found if m
    ]


def blocks_of(macro: Macro, memory: MemoryKind) -> int:
    """Block RAMs that a macro takes, in the shape that takes fewest."""
    return min(
        -(-macro.depth // depth) * -(-macro.width // _usable(width, macro, memory))
        for width, depth in memory.shapes
    )


def _usable(width: int, macro: Macro, memory: MemoryKind) -> int:
    """Bits of a row of a block that hold data: parts that are written alone begin at a byte."""
    byte = memory.byte
    if macro.granularity == macro.width or width < byte:
        return width
    if macro.granularity % byte == 0:
        return width
    # The parity bit of each byte is left out, as tools do.
    return width // byte * (byte - 1)


def taken(
    device: Device, cells: Mapping[str, int], macros: Iterable[tuple[Macro, int]]
) -> dict[str, tuple[int, int]]:
    """Places that a design needs, and those of the device, by the device's name of them.

    *cells* are by column of the target; the macros come on top.
    """
    column = device.memory.column
    needed = {column: sum(blocks_of(macro, device.memory) * count for macro, count in macros)}
    return {
        device.memory.name if name == column else name: (
            cells.get(name, 0) + needed.get(name, 0)
            + sum(cells.get(k, 0) * each for k, each in device.shared.get(name, {}).items()),
            holds,
        )
        for name, holds in device.holds.items()
    }


def fit_note(device: Device, cells: Mapping[str, int], macros: Iterable[tuple[Macro, int]]) -> str:
    """A sentence: shares of the device, and whether the design fits it; arguments of `taken`."""
    kinds = list(macros)
    needs = taken(device, cells, kinds)
    parts = [f"{needed} of {holds} {name}" for name, (needed, holds) in needs.items()]
    over = [name for name, (needed, holds) in needs.items() if needed > holds]
    verdict = f"does not fit: {', '.join(over)}" if over else "fits"
    other = device.other_memory
    if kinds and other:
        instead, inside = (
            sum(blocks_of(macro, kind) * count for macro, count in kinds)
            for kind in (other, device.memory)
        )
        parts.append(f"or, for SRAM, {instead} of {other.holds} {other.name} in place of {inside}")
    return f"Device {device.name}: {', '.join(parts)}: {verdict}."
