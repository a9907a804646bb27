"""A ring of RTL engines, from numpy arrays to numpy arrays."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from gen.compile import CompiledModel, compile_model
from hw.ace.config import AceConfig, preset
from hw.ace.engine import AceEngine
from hw.ace.registers import INTERRUPTS, CommandError, register_map
from hw.common.axi import MEMORY_ALIGNMENT, aligned
from hw.common.register_map import RegisterMap
from hw.fp.ops import ReduceOp
from sim.collectives.golden import ring_all_reduce
from sim.collectives.partition import Partition
from sim.collectives.ring import Collective
from sim.collectives.writes import set_up_writes, start_writes
from sim.rtl.specs import (
    HeaderFault,
    LinkDirection,
    LinkSpec,
    MemorySpec,
    NodeSpec,
    split_links,
)
from sim.rtl.system import CycleLimitError, Node, RunResult, System

__all__ = [
    "CommandRefusedError",
    "MemoryAccessError",
    "PacketDroppedError",
    "RingCluster",
    "RingSettings",
    "compiled_engine",
]

# How often to see whether nodes that have not completed ever will.
_CHECK_CYCLES = 100_000
_FAILURES = ("refused", "dropped", "memory")


class CommandRefusedError(ValueError):
    """An engine refused a command; the engine stays usable."""


class MemoryAccessError(RuntimeError):
    """Memory answered a DMA with an error, so the result of a collective is not valid."""


class PacketDroppedError(RuntimeError):
    """A packet was dropped, so a collective could not complete; the ring has been recovered."""


@dataclass(frozen=True, kw_only=True)
class RingSettings:
    """What surrounds the engines of a ring.

    Parameters
    ----------
    nodes : int
        Ranks, 2 or more.
    latency_cycles : int
        Of every link, in both directions.
    read_latency_cycles : int
        Of every memory.
    link_stalls, memory_stalls : float
        Probability that a link, or a channel of a memory port, stalls in a cycle.
    memory_bytes : int
        Memory of each node.
    queues : int or None
        FSMs in use, None for all.
    bidirectional : bool
        Whether FSMs with odd numbers run the ring backwards.
    seed : int
        Of the stalls.
    """

    nodes: int
    latency_cycles: int = 1
    read_latency_cycles: int = 50
    link_stalls: float = 0.0
    memory_stalls: float = 0.0
    memory_bytes: int = 4 << 20
    queues: int | None = None
    bidirectional: bool = True
    seed: int = 0


@cache
def compiled_engine(config: AceConfig) -> CompiledModel:
    """The engine of *config* as native code, built once."""
    return compile_model(AceEngine(config), name="ace")


class RingCluster:
    """Engines of one configuration on a ring, with a memory each.

    Parameters
    ----------
    config : AceConfig or str
        The engine, or the name of a preset.
    settings : RingSettings
    ports : sequence of (next, previous) or None
        For each rank the links to the next and the previous rank; by default port 0 leads to the
        next and port 1 to the previous one.
    links : sequence of LinkSpec or None
        Links of the topology in which the ring lies; by default the ring itself.
    ranks : sequence of int or None
        Ranks that are in the system, None for all; links to the others lead outside (see
        ``System.arrivals``). Collectives are then up to the caller.
    options
        Passed on to :class:`sim.rtl.system.System` (threads, window_cycles, bucket_cycles,
        record_beats, skip_idle).

    Raises
    ------
    ValueError
        For a ring of fewer than two nodes or more than the engine supports, too few ports, or bad
        settings.
    """

    def __init__(
        self,
        config: AceConfig | str,
        settings: RingSettings,
        *,
        ports: Sequence[tuple[int, int]] | None = None,
        links: Sequence[LinkSpec] | None = None,
        faults: Sequence[HeaderFault] = (),
        ranks: Sequence[int] | None = None,
        **options: Any,
    ) -> None:
        config = preset(config) if isinstance(config, str) else config
        nodes = settings.nodes
        if not 2 <= nodes <= config.max_nodes:
            raise ValueError(
                f"nodes must be from 2 to {config.max_nodes} for this engine, not {nodes!r}"
            )
        if config.ports < 2:
            raise ValueError(f"ports must be at least 2 for a ring, not {config.ports!r}")
        queues = config.fsms if settings.queues is None else settings.queues
        if not 1 <= queues <= config.fsms:
            raise ValueError(
                f"queues must be from 1 to {config.fsms} for this engine, not {queues!r}"
            )
        if settings.memory_bytes % MEMORY_ALIGNMENT:
            raise ValueError(
                f"memory_bytes must be a multiple of {MEMORY_ALIGNMENT}, "
                f"not {settings.memory_bytes!r}"
            )
        self.config = config
        self.settings = settings
        self.queues = queues
        self.registers: RegisterMap = register_map(config)
        self._ports = list(ports) if ports is not None else [(0, 1)] * nodes
        if links is None:
            wire = LinkDirection(
                latency_cycles=settings.latency_cycles, stall_probability=settings.link_stalls
            )
            links = [
                LinkSpec(node_a=rank, port_a=0, node_b=(rank + 1) % nodes, port_b=1, forward=wire)
                for rank in range(nodes)
            ]
        self.ranks = list(range(nodes)) if ranks is None else list(ranks)
        inside, outside = split_links(links, self.ranks)
        memory = MemorySpec(
            size_bytes=settings.memory_bytes,
            read_latency_cycles=settings.read_latency_cycles,
            stall_probability=settings.memory_stalls,
        )
        engine = compiled_engine(config)
        self.system = System(
            [NodeSpec(engine=engine, memory=memory) for _ in self.ranks],
            inside,
            external=outside,
            seed=settings.seed,
            faults=faults,
            **options,
        )
        self._collectives = 0
        self.last_run: RunResult | None = None
        for rank, node in zip(self.ranks, self.system.nodes, strict=True):
            self._set_up(rank, node)
        self.system.run()

    # ---- Registers.

    def write(self, node: Node, register: str, value: int = 0, **fields: Any) -> None:
        """Queue a register write: a number, or field values by name."""
        word = self.registers.registers[register].pack(**fields) if fields else value
        node.write(self.registers.offset(register), word)

    def read(self, node: Node, register: str, index: int | None = None) -> dict[str, int]:
        """Read a register of one node now, field by field."""
        ticket = node.read(self.registers.offset(register, index))
        self.system.run(drain=False)
        return self.registers.registers[register].unpack(ticket.value)

    def _set_up(self, rank: int, node: Node) -> None:
        writes = set_up_writes(
            self.registers,
            self.config,
            rank=rank,
            nodes=self.settings.nodes,
            queues=self.queues,
            memory_bytes=self.settings.memory_bytes,
            bidirectional=self.settings.bidirectional,
            ports=self._ports[rank],
        )
        for register, word in writes:
            self.write(node, register, word)

    # ---- Collectives.

    def plan(self, elements: int, *, block: int | None = None) -> Partition:
        """How a vector of *elements* is cut on this ring."""
        return Partition.plan(
            elements,
            self.settings.nodes,
            queues=self.queues,
            lanes=self.config.lanes,
            packet_elements=self.config.packet_elements,
            slot_elements=self.config.slot_elements,
            block=block,
        )

    def golden(
        self,
        arrays: Sequence[np.ndarray],
        *,
        op: ReduceOp = ReduceOp.SUM_F32,
        block: int | None = None,
    ) -> np.ndarray:
        """What an all-reduce of *arrays* must give, bit for bit."""
        return ring_all_reduce(
            arrays,
            self.plan(len(arrays[0]), block=block),
            op=op,
            bidirectional=self.settings.bidirectional,
        )

    def all_reduce(self, arrays: Sequence[np.ndarray], **options: Any) -> list[np.ndarray]:
        """Reduce vectors of equal length, one per rank; every rank gets the whole result."""
        return self._run(
            Collective.ALL_REDUCE, arrays, len(arrays[0]) if len(arrays) else 0, **options
        )

    def reduce_scatter(self, arrays: Sequence[np.ndarray], **options: Any) -> list[np.ndarray]:
        """Reduce vectors of equal length, one per rank; each rank gets its shard
        (``Partition.shard``)."""
        return self._run(
            Collective.REDUCE_SCATTER, arrays, len(arrays[0]) if len(arrays) else 0, **options
        )

    def all_gather(
        self, shards: Sequence[np.ndarray], elements: int, **options: Any
    ) -> list[np.ndarray]:
        """Gather the shards of a vector of *elements* (``Partition.shard``); every rank gets the
        vector."""
        return self._run(Collective.ALL_GATHER, shards, elements, **options)

    def _run(
        self,
        collective: Collective,
        inputs: Sequence[np.ndarray],
        elements: int,
        *,
        op: ReduceOp = ReduceOp.SUM_F32,
        block: int | None = None,
        start_skew_cycles: int = 0,
        max_cycles: int = 100_000_000,
        progress: Callable[[int, int], None] | None = None,
    ) -> list[np.ndarray]:
        nodes = self.settings.nodes
        if len(inputs) != nodes:
            raise ValueError(f"inputs must be one array per rank ({nodes}), not {len(inputs)}")
        partition = self.plan(elements, block=block)
        gathers = collective is Collective.ALL_GATHER
        for rank, array in enumerate(inputs):
            shard = partition.shard(rank)
            expected = shard.stop - shard.start if gathers else elements
            if array.dtype.itemsize != 4 or array.ndim != 1 or len(array) != expected:
                raise ValueError(
                    f"inputs[{rank}] must be {expected} elements of 4 bytes in one dimension, not "
                    f"{array.shape} of {array.dtype}"
                )
        # Source at the start of memory, destination behind it.
        destination = aligned(4 * max(len(array) for array in inputs))
        if destination + 4 * elements > self.settings.memory_bytes:
            raise ValueError(
                f"memory_bytes must be at least {destination + 4 * elements} for "
                f"{elements} elements, not {self.settings.memory_bytes!r}"
            )
        for node, array in zip(self.system.nodes, inputs, strict=True):
            node.memory[: array.nbytes] = np.ascontiguousarray(array).view(np.uint8)
            self.start(node, collective, partition, source=0, destination=destination, op=op)
        self.next_collective()
        self.last_run = self._complete(max_cycles, start_skew_cycles, progress)
        # Every interrupt is cleared before an error is raised, so the next collective starts clean.
        errors: list[Exception] = []
        for rank, node in enumerate(self.system.nodes):
            try:
                self.acknowledge(rank, node)
            except (CommandRefusedError, MemoryAccessError, PacketDroppedError) as error:
                errors.append(error)
        if any(isinstance(error, PacketDroppedError) for error in errors):
            self.recover()
        if errors:
            raise errors[0]

        outputs = []
        for rank, node in enumerate(self.system.nodes):
            shard = partition.shard(rank)
            length = (
                shard.stop - shard.start if collective is Collective.REDUCE_SCATTER else elements
            )
            raw = node.memory[destination : destination + 4 * length]
            outputs.append(raw.view(inputs[rank].dtype).copy())
        return outputs

    def _complete(
        self,
        max_cycles: int,
        start_skew_cycles: int,
        progress: Callable[[int, int], None] | None,
    ) -> RunResult:
        """Run until every node has raised its interrupt, or one has reported an error."""
        waits = [node.wait_irq() for node in self.system.nodes]
        parts: list[RunResult] = []
        overdue = False
        while True:
            spent = sum(part.cycles for part in parts)
            try:
                part = self.system.run(
                    max_cycles=min(_CHECK_CYCLES, max_cycles - spent),
                    start_skew_cycles=start_skew_cycles if not parts else 0,
                    progress=progress,
                )
            except CycleLimitError as error:
                parts.append(error.partial)
                if spent + error.partial.cycles >= max_cycles:
                    raise CycleLimitError(str(error), _joined(parts)) from None
            else:
                return _joined([*parts, part])
            # Some nodes are done and others have not followed for long: is something wrong?
            some_done = any(wait.done for wait in waits) and not all(wait.done for wait in waits)
            if some_done and overdue:
                self.system.give_up_waits()
                causes = [self.read(node, "interrupt") for node in self.system.nodes]
                if any(cause[name] for cause in causes for name in _FAILURES):
                    return _joined(parts)
                waits = [
                    wait if cause["done"] else node.wait_irq()
                    for wait, cause, node in zip(waits, causes, self.system.nodes, strict=True)
                ]
            overdue = some_done and not overdue

    def recover(self) -> None:
        """Abort everything on all nodes, as the register map prescribes; the ring is as new."""
        for _ in range(2):
            for node in self.system.nodes:
                self.write(node, "control", abort=1)
            self.system.run()
        for node in self.system.nodes:
            self.write(node, "interrupt", **dict.fromkeys(INTERRUPTS, 1))
        self.system.run()

    def start(
        self,
        node: Node,
        collective: Collective,
        partition: Partition,
        *,
        source: int,
        destination: int,
        op: ReduceOp = ReduceOp.SUM_F32,
    ) -> None:
        """Queue the register writes that start a collective on one node."""
        writes = start_writes(
            self.registers,
            collective,
            partition,
            name=self._collectives,
            source=source,
            destination=destination,
            op=op,
        )
        for register, word in writes:
            self.write(node, register, word)

    def next_collective(self) -> None:
        """Give the next collective a new name, the same on all nodes."""
        self._collectives += 1

    def acknowledge(self, rank: int, node: Node) -> None:
        """Clear the interrupt of a completed collective.

        Raises
        ------
        CommandRefusedError, MemoryAccessError, PacketDroppedError
            If that is what the interrupt says.
        """
        causes = self.read(node, "interrupt")
        self.write(node, "interrupt", **{name: value for name, value in causes.items() if value})
        self.system.run(drain=False)
        if causes["refused"]:
            error = CommandError(self.read(node, "refusal")["error"])
            raise CommandRefusedError(f"node {rank} refused the command: {_REFUSALS[error]}")
        if causes["memory"]:
            raise MemoryAccessError(f"memory of node {rank} answered with an error")
        if causes["dropped"]:
            raise PacketDroppedError(f"node {rank} dropped a packet; the collective was aborted")


def _joined(parts: Sequence[RunResult]) -> RunResult:
    """Runs that follow each other, as one."""
    return replace(
        parts[-1],
        first_cycle=parts[0].first_cycle,
        node_cycles=sum(part.node_cycles for part in parts),
        stepped_node_cycles=sum(part.stepped_node_cycles for part in parts),
        wall_s=sum(part.wall_s for part in parts),
    )


_REFUSALS = {
    CommandError.NODES: "nodes must be from 2 to what the engine supports, and rank below it",
    CommandError.EMPTY: "elements must be at least 1",
    CommandError.STRIDE: "stride must be whole beats and nodes * stride at least elements",
    CommandError.BLOCK: "block must be whole beats, and one block per node must fit a slot",
    CommandError.ALIGNMENT: "addresses must be multiples of the bus width",
    CommandError.ADDRESS: "the payload must lie within memory",
    CommandError.FSMS: "queues must be from 1 to the number of FSMs",
    CommandError.FULL: "too many commands are outstanding",
}
