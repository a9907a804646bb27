# SPDX-License-Identifier: Apache-2.0
"""Work of the parts of engines, in total for each node and over time for all."""

from sim.cycles.ace.events import WINDOW
from sim.native.mark import compiled, inlined

__all__ = [
    "ALUS", "FSMS", "MEMORY_READ", "MEMORY_WRITE", "SRAM_READ", "SRAM_WRITE", "UNITS", "WINDOWS",
    "worked",
]

SRAM_READ, SRAM_WRITE, ALUS, FSMS, MEMORY_READ, MEMORY_WRITE = range(6)
UNITS = "SRAM reads", "SRAM writes", "ALUs", "FSMs", "memory read", "memory write"
"""Banks by what they do; ALUs with beats that are added; FSMs that look for a packet to send, polls
of peers that are not ready apart; memory ports."""
WINDOWS = 2048
"""Windows over time; their width is a power of two of cycles, doubled as a run goes on."""


@inlined
def worked(s, node, unit, now, cycles):
    """Count *cycles* of work of one of the *unit*'s servers that begins in cycle *now*."""
    s.work[node, unit] += cycles
    _note(s.work_over_time, s.registers, unit, now, cycles)


@compiled
def _note(over_time, registers, unit, now, cycles):
    while now >> registers[WINDOW] >= WINDOWS:
        for each in range(len(UNITS)):
            for at in range(WINDOWS // 2):
                over_time[each, at] = over_time[each, 2 * at] + over_time[each, 2 * at + 1]
            for at in range(WINDOWS // 2, WINDOWS):
                over_time[each, at] = 0
        registers[WINDOW] += 1
    over_time[unit, now >> registers[WINDOW]] += cycles
