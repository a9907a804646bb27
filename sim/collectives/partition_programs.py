# SPDX-License-Identifier: Apache-2.0
"""Programs of engines with partitions by phase: one for each phase, and what is where between them.

A phase begins with blocks in one partition and leaves others in the next. What no packet brings
there is copied: the own part of a gather, and everything in phases that a collective lacks.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from hw.ace.isa import Opcode
from sim.collectives.fsm_program import (
    FsmProgram,
    Instruction,
    RingPhase,
    copying_program,
    phase_program,
)
from sim.fields import FieldError
from sim.workload.graph import CollectiveKind

__all__ = ["HeldBlocks", "PartitionedProgram", "partitioned"]


class HeldBlocks(NamedTuple):
    """Blocks of a chunk that a node has in a partition: runs of so many, by their first ones."""

    firsts: tuple[int, ...]
    run: int = 1

    @property
    def first(self) -> int:
        """The first block of all."""
        return min(self.firsts)

    @property
    def span(self) -> int:
        """Blocks from the first one to the last one, which a slot has room for."""
        return max(self.firsts) + self.run - self.first

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return len(self.firsts) * self.run

    @property
    def joined(self) -> "HeldBlocks":
        """One run, where it has no gaps."""
        return HeldBlocks((self.first,), self.blocks) if self.blocks == self.span else self


@dataclass(frozen=True, kw_only=True)
class PartitionedProgram:
    """A collective of one node on engines with partitions by phase.

    Parameters
    ----------
    codes : tuple of FsmProgram
        By phase.
    held : tuple of HeldBlocks
        By partition, that of results the last one.
    """

    codes: tuple[FsmProgram, ...]
    held: tuple[HeldBlocks, ...]

    @property
    def copied(self) -> int:
        """Blocks that the copy unit has to move."""
        return sum(
            code.first.run for code in self.codes for each in code.instructions
            if each.op is Opcode.COPY
        )

    @property
    def idle_phases(self) -> int:
        """Phases in which no packet arrives."""
        return sum(code.first.receives == 0 for code in self.codes)


def partitioned(
    phases: Sequence[RingPhase], held: HeldBlocks, *, count: int, joins: bool
) -> PartitionedProgram:
    """Programs of *count* phases for a node that begins with blocks *held*, the first ones of which
    do *phases*. *joins*: parts of a chunk are runs of blocks; else blocks are moved one by one, and
    in the same order on all nodes.

    Raises
    ------
    ValueError
        For more phases than there are.
    """
    if len(phases) > count:
        raise FieldError(
            "phases", f"must be at least the {len(phases)} of the programs, not {count}"
        )
    codes, places = [], [held]
    for phase in phases:
        gathers = phase.collective is CollectiveKind.ALL_GATHER
        code = phase_program([phase], copies=held.firsts if gathers else ())
        stored = (
            each.block for each in code.instructions
            if isinstance(each, Instruction) and each.op.value & 2
        )
        held = HeldBlocks(tuple(stored), phase.run)
        held = held.joined if joins else held
        codes.append(replace(code, results=held.first))
        places.append(held)
    for _ in range(len(phases), count):
        codes.append(replace(copying_program(held.firsts, run=held.run), results=held.first))
        places.append(held)
    assert all(each.op is not Opcode.PHASE for code in codes for each in code.instructions)
    return PartitionedProgram(codes=tuple(codes), held=tuple(places))
