"""What the host of a node does, for engines in RTL and for their cycle model alike."""

from collections.abc import Sequence
from dataclasses import dataclass

from sim.cycles.ace.model import Command
from sim.cycles.ace.state import OP_COMMAND, OP_COUNT, OP_DELAY, OP_IRQ, OP_WRITE
from sim.rtl.ace_ring import RingCluster
from sim.rtl.ace_writes import start_writes
from sim.rtl.host import Ticket
from sim.rtl.system import Node

__all__ = [
    "POLL_CYCLES",
    "START_WRITES",
    "Compute",
    "Interrupt",
    "Issue",
    "Reached",
    "Step",
    "model_script",
    "queue_steps",
]

POLL_CYCLES = 16
START_WRITES = 8
"""Register writes that start a collective, the command among them."""


@dataclass(frozen=True, kw_only=True)
class Compute:
    """The host is busy, or the NPU with it, for a number of cycles."""

    cycles: int


@dataclass(frozen=True, kw_only=True)
class Issue:
    """Start the collective of this number; numbers count up from 0 on every node."""

    command: int


@dataclass(frozen=True, kw_only=True)
class Reached:
    """Wait until so many collectives have been completed, reading a register again and again."""

    count: int


@dataclass(frozen=True, kw_only=True)
class Interrupt:
    """Wait for the interrupt of the first completion."""


Step = Compute | Issue | Reached | Interrupt
"""One step of a host; steps follow each other."""


def model_script(steps: Sequence[Step]) -> list[tuple[int, int, int]]:
    """Operations for `EngineModel`: two for a collective, one for any other step."""
    script = []
    for step in steps:
        match step:
            case Compute(cycles=cycles):
                script.append((OP_DELAY, cycles, 0))
            case Issue():
                script += [(OP_WRITE, START_WRITES - 1, 0), (OP_COMMAND, 0, 0)]
            case Reached(count=count):
                script.append((OP_COUNT, count, POLL_CYCLES))
            case Interrupt():
                script.append((OP_IRQ, 0, 0))
    return script


def queue_steps(
    cluster: RingCluster, node: Node, steps: Sequence[Step], commands: Sequence[Command]
) -> list[Ticket]:
    """Queue the register accesses of *steps* on an RTL node; the last ticket of each step."""
    tickets = []
    registers = cluster.registers
    for step in steps:
        match step:
            case Compute(cycles=cycles):
                tickets.append(node.delay(cycles))
            case Issue(command=number):
                command = commands[number]
                for register, word in start_writes(
                    registers, command.collective, command.partition, name=number,
                    source=command.source, destination=command.destination,
                ):
                    ticket = node.write(registers.offset(register), word)
                tickets.append(ticket)
            case Reached(count=count):
                field = registers.registers["completed"].pack(count=(1 << 24) - 1)
                ticket = node.wait_at_least(
                    registers.offset("completed"), value=count, mask=field, poll_cycles=POLL_CYCLES
                )
                tickets.append(ticket)
            case Interrupt():
                tickets.append(node.wait_irq())
    return tickets
