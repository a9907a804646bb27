# SPDX-License-Identifier: Apache-2.0
"""ACE engines in RTL that run rings, from numpy arrays to numpy arrays."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from amaranth.lib import wiring
from numpy.typing import NDArray

from gen.arguments import typed
from hw.ace.config import AceConfig, preset
from hw.ace.engine import AceEngine
from hw.ace.registers import CAUSES, INTERRUPTS, CommandError, register_map
from hw.ace.retry import RetryAce, RetryAceConfig
from hw.fp.ops import ReduceOp
from hw.link.packet import FLIT_BYTES
from hw.link.retry_frame import RetryConfig
from sim.collectives.ace_program import AceProgram
from sim.cycles.ace.model import check_command, program_of
from sim.fields import FieldError, check_type
from sim.hosts.command import Command
from sim.hosts.surroundings import Surroundings
from sim.rtl.ace.waiting import waiting
from sim.rtl.ace.writes import set_up_writes, start_writes
from sim.rtl.driver import EngineDriver, Request, reduction
from sim.rtl.errors import (
    CommandRefusedError,
    DisagreementError,
    MemoryAccessError,
    NoProgressError,
    PacketDroppedError,
    PacketLostError,
    PoisonedError,
)
from sim.rtl.harness.host import Node, Ticket
from sim.rtl.harness.specs import longest_packet, loopback_plugs, wired_links
from sim.rtl.writes import Write
from sim.workload.graph import CollectiveKind

__all__ = ["AceRing", "Completion"]

_REFUSALS = {
    CommandError.NODES: "nodes must be from 2 to what the engine supports, and rank below it",
    CommandError.EMPTY: "elements must be at least 1",
    CommandError.STRIDE: "stride must be whole beats and nodes * stride at least elements, or "
    "nodes * block where chunks are contiguous",
    CommandError.BLOCK: "block must be whole beats, and one block per node must fit a slot",
    CommandError.ALIGNMENT: "addresses must be multiples of the bus width",
    CommandError.ADDRESS: "the payload must lie within memory",
    CommandError.FSMS: "fsms must be from 1 to the number of FSMs",
    CommandError.FULL: "too many commands are outstanding",
    CommandError.ABORTING: "the engine is not idle yet after an abort",
    CommandError.HALTED: "collectives were given up and nothing was aborted since",
    CommandError.PROGRAM: "every FSM in use must have the program of the collective",
}

_LINES = 4
"""Contexts that an error names."""


@dataclass(frozen=True, kw_only=True)
class Completion:
    """An engine's record of a command that is over.

    Parameters
    ----------
    collective : int
        The command, modulo 256.
    causes : frozenset of str
        Names of ``hw.ace.registers.CAUSES``: reasons why the result is invalid; empty if it is not.
    refused : CommandError
        Reason why the command was refused; NONE if it was not.
    overrun : bool
        Records before this one were lost, since nobody took them.
    """

    collective: int
    causes: frozenset[str]
    refused: CommandError
    overrun: bool


class AceRing(EngineDriver):
    """ACE engines of one configuration on a ring, or on rings in a torus, with a memory each.

    Parameters
    ----------
    config : AceConfig or str
        The engine, or the name of a preset.
    settings : Surroundings
    options
        Those of :class:`EngineDriver` (faults, ranks) and
        :class:`sim.rtl.harness.system.System` (threads).

    Raises
    ------
    ValueError
        For a ring of more nodes than the engine supports, too few ports or FSMs, or bad settings.
    """

    name = "ace"
    in_order = False
    failures = ("refused", "dropped", "memory", "failed", "stalled")
    config: AceConfig

    @typed("config", "settings")
    def __init__(
        self,
        config: AceConfig | str,
        settings: Surroundings,
        **options: Any,
    ) -> None:
        config = preset(config) if isinstance(config, str) else config
        self.check(config, settings)
        self._epoch = 0
        flits = longest_packet(
            1 + config.packet_bytes // FLIT_BYTES, settings.retry, beat_flits=config.flits
        )
        links = wired_links(settings, packet_flits=flits)
        if settings.retry is not None:  # its ends become idle only if the other end answers
            links += loopback_plugs(links, range(settings.engines), config.ports)
        super().__init__(config, settings, registers=register_map(config), links=links, **options)

    @staticmethod
    def component(config: AceConfig | RetryAceConfig) -> wiring.Component:
        return AceEngine(config) if isinstance(config, AceConfig) else RetryAce(config)

    @staticmethod
    def with_retry(config: AceConfig, retry: RetryConfig) -> RetryAceConfig:
        return RetryAceConfig(ace=config, retry=retry, trace=True)

    @classmethod
    def check(cls, config: AceConfig, settings: Surroundings) -> None:
        ace = isinstance(config, AceConfig)
        check_type("config", config, "an AceConfig or a preset's name", ace)
        check_type("settings", settings, "Surroundings", isinstance(settings, Surroundings))
        program = program_of(config, settings)
        for kind in range(program.kinds):
            program.loaded(kind)

    @classmethod
    def check_command(cls, config: AceConfig, settings: Surroundings, command: Command) -> None:
        if command.compress:
            raise FieldError("compress", "must be False for ACE, which has no codec")
        check_command(config, settings, command)

    @classmethod
    def outstanding(cls, config: AceConfig) -> int:
        # As many wait as run; at most one fewer than both together.
        return 2 * config.commands - 1

    @classmethod
    def link_ports(cls, config: AceConfig, rank: int) -> int:
        return config.ports

    def set_up(self, rank: int) -> Iterable[Write]:
        return set_up_writes(
            self.registers, self.program, rank=rank, memory_bytes=self.settings.memory_bytes,
        )

    def start_writes(self, command: Command, number: int) -> Iterable[Write]:
        return start_writes(
            self.registers,
            command.collective,
            self.program.settings(
                command.elements, block=command.block, collective=command.collective
            ),
            name=number,
            source=command.source,
            destination=command.destination,
            op=command.op,
        )

    @classmethod
    def shard(
        cls, config: AceConfig, settings: Surroundings, command: Command, rank: int
    ) -> slice:
        program = program_of(config, settings)
        return program.shard(command.elements, rank, block=command.block)

    @classmethod
    def reduced_by(
        cls,
        config: AceConfig,
        settings: Surroundings,
        command: Command,
        inputs: Sequence[NDArray[Any]],
    ) -> NDArray[Any]:
        program = program_of(config, settings)
        if settings.folded:
            return program.rotated(
                inputs[0], op=command.op, block=command.block, collective=command.collective
            )
        return program.all_reduced(
            list(inputs), op=command.op, block=command.block, collective=command.collective
        )

    def wait(self, node: Node, commands: int = 1) -> Ticket:
        return node.wait_irq() if commands == 1 else super().wait(node, commands)

    def records(self, node: Node) -> list[Completion]:
        """Take the records of all commands of a node that are over, the oldest first."""
        return [
            Completion(
                collective=record["collective"],
                causes=frozenset(name for name in CAUSES if record[name]),
                refused=CommandError(record["error"]),
                overrun=bool(record["overrun"]),
            )
            for record in self.take_records(node)
        ]

    def judge(self, rank: int, node: Node, causes: dict[str, int]) -> None:
        records = self.records(node) if causes["failed"] else []
        found = frozenset[str]().union(*(record.causes for record in records))
        if causes["refused"]:
            error = CommandError(self.read(node, "refusal")["error"])
            raise CommandRefusedError(f"node {rank} refused the command: {_REFUSALS[error]}")
        if causes["memory"] or "memory" in found:
            raise MemoryAccessError(f"memory of node {rank} answered with an error")
        if "poisoned" in found:
            raise PoisonedError(f"node {rank} got data that memory of another node could not read")
        if "disagreement" in found:
            raise DisagreementError(f"node {rank} was told to do something else than another one")
        if causes["dropped"]:
            raise PacketDroppedError(f"node {rank} dropped a packet; the collective was aborted")
        if "lost" in found:
            raise PacketLostError(f"node {rank} was told of a lost packet and gave up")
        if causes["stalled"] and (left := self.read(node, "status")["outstanding"]):
            raise self._stalled(
                node,
                f"node {rank} has made no progress for as long as its watchdog allows; commands "
                f"outstanding: {left}",
            )

    def _stalled(self, node: Node, text: str) -> NoProgressError:
        """The error with what the contexts of a node wait for, a line each."""
        found = waiting(self, node, self.program, collectives=self._next)
        lines = [text, *map(str, found[:_LINES])]
        if found[_LINES:]:
            lines.append(f"and {len(found) - _LINES} contexts more")
        progress = found[0].progress if found else ()
        return NoProgressError("\n  ".join(lines), progress=progress)

    def recover(self) -> None:
        """Abort everything on all nodes, as the register map prescribes; the ring is as new."""
        self._epoch = (self._epoch + 1) % (1 << self.config.format.epoch)
        for node in self.system.nodes:
            self.write(node, "control", abort=1, epoch=self._epoch)
        self._come_to_rest(INTERRUPTS)

    # ---- Collectives.

    @property
    def program(self) -> AceProgram:
        """Program of this ring."""
        return program_of(self.config, self.settings)

    def golden(
        self,
        inputs: Sequence[NDArray[Any]],
        *,
        op: ReduceOp | str | None = None,
        block: int | None = None,
    ) -> NDArray[Any]:
        """Result that an all-reduce of *inputs* must give, bit for bit."""
        command = Command(
            elements=len(inputs[0]), op=reduction(op, inputs[0].dtype), block=block
        )
        return self.reduced(command, inputs)

    def reduce_scatter(
        self,
        inputs: Sequence[Any],
        *,
        op: ReduceOp | str | None = None,
        block: int | None = None,
        **options: Any,
    ) -> list[NDArray[Any]]:
        """Reduce vectors of equal length, one per rank; each rank gets its shard
        (`AceProgram.shard`)."""
        kind = CollectiveKind.REDUCE_SCATTER
        return self.run(Request(inputs=inputs, collective=kind, op=op, block=block), **options)[0]

    def all_gather(
        self, shards: Sequence[Any], elements: int, *, block: int | None = None, **options: Any
    ) -> list[NDArray[Any]]:
        """Gather the shards of a vector of *elements* (`AceProgram.shard`); every rank gets the
        vector."""
        request = Request(
            inputs=shards, collective=CollectiveKind.ALL_GATHER, elements=elements, block=block
        )
        return self.run(request, **options)[0]
