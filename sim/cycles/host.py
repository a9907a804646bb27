# SPDX-License-Identifier: Apache-2.0
"""Operations of hosts, as compiled code carries them out: two to issue a command, one for any other
step of a script."""

from collections.abc import Sequence

import numpy as np

from sim.cycles.records import integers
from sim.hosts.script import Compute, Interrupt, Issue, Reached, Step

__all__ = [
    "OPERATION", "OP_COMMAND", "OP_COUNT", "OP_DELAY", "OP_IRQ", "OP_WRITE", "operations",
]

OP_WRITE, OP_COMMAND, OP_DELAY, OP_IRQ, OP_COUNT = range(5)
"""Kinds: a number of register writes, the write of a command, and waiting: for a number of cycles,
for the interrupt, for a number of completions."""

OPERATION = np.dtype(integers("kind", "value", "end"))
"""``end``: cycle of its completion, -1 before."""


def operations(script: Sequence[Step], *, writes: int) -> list[tuple[int, int, int]]:
    """The operations of a script, none of them done, where *writes* register writes start a
    command."""
    found = []
    for step in script:
        match step:
            case Compute(cycles=cycles):
                found.append((OP_DELAY, cycles, -1))
            case Issue():
                found += [(OP_WRITE, writes - 1, -1), (OP_COMMAND, 1, -1)]
            case Reached(count=count):
                found.append((OP_COUNT, count, -1))
            case Interrupt():
                found.append((OP_IRQ, 0, -1))
    return found
