# SPDX-License-Identifier: Apache-2.0
"""Scripts: steps of a node's host, for engines in RTL and for their cycle models alike."""

import operator
from collections.abc import Sequence
from dataclasses import dataclass, fields

from sim.fields import FieldError

__all__ = ["POLL_CYCLES", "Compute", "Interrupt", "Issue", "Reached", "Step", "check_scripts"]

POLL_CYCLES = 16
"""Cycles from the answer to one poll of a register to the next poll."""


@dataclass(frozen=True, kw_only=True)
class _Step:
    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            try:
                good = operator.index(value) >= 0
            except TypeError:
                good = False
            if not good:
                raise ValueError(f"{field.name} must be an integer at least 0, not {value!r}")


@dataclass(frozen=True, kw_only=True)
class Compute(_Step):
    """The host is busy, or the NPU with it, for a number of cycles."""

    cycles: int


@dataclass(frozen=True, kw_only=True)
class Issue(_Step):
    """Start the collective of this number; numbers count up from 0 on every node."""

    command: int


@dataclass(frozen=True, kw_only=True)
class Reached(_Step):
    """Wait until so many collectives have been completed, reading a register again and again."""

    count: int


@dataclass(frozen=True, kw_only=True)
class Interrupt(_Step):
    """Wait for the interrupt of the first completion."""


Step = Compute | Issue | Reached | Interrupt
"""One step of a host; steps follow each other."""


def check_scripts(scripts: Sequence[Sequence[Step]], *, nodes: int, commands: int) -> None:
    """Refuse scripts that are not one per rank, or that do not issue the commands in their order.

    Raises
    ------
    ValueError
    """
    if len(scripts) != nodes:
        raise FieldError("scripts", f"must be one per rank ({nodes}), not {len(scripts)}")
    for rank, script in enumerate(scripts):
        issued = [step.command for step in script if isinstance(step, Issue)]
        if issued != list(range(len(issued))) or len(issued) > commands:
            raise ValueError(
                f"the script of rank {rank} must issue commands 0 to {commands - 1} in order, "
                f"not {issued}"
            )
        waited = [step.count for step in script if isinstance(step, Reached)]
        if max(waited, default=0) > commands:
            raise ValueError(
                f"the script of rank {rank} must wait for at most {commands} completions, "
                f"not {max(waited)}"
            )
