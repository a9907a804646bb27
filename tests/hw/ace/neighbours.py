# SPDX-License-Identifier: Apache-2.0
"""The other ranks of a ring, as one engine sees them: they send in any order and check what comes.

What a packet must hold is worked out from the ranks' vectors alone: a block with k contributions is
the sum of the first k ranks in the order of the ring.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from functools import reduce as fold
from typing import Any

import numpy as np

from hw.fp.model import reduce
from hw.fp.ops import ReduceOp
from hw.link.packet import PacketKind
from sim.collectives.fsm_program import FsmProgram, Instruction, ring_program
from sim.collectives.golden import ring_order
from sim.collectives.partition import Partition
from sim.rtl.ace.writes import ready_fields
from sim.workload.graph import CollectiveKind
from tests.hw.ace.rig import Rig

__all__ = ["Job", "Neighbours"]

NEXT, PREVIOUS = 0, 1  # ports
Key = tuple[int, int]  # collective, chunk


@dataclass
class Job:
    """One collective: what every rank holds, and where the engine's part lies."""

    collective: CollectiveKind
    op: ReduceOp
    arrays: Sequence[np.ndarray]  # vector of each rank; an all-gather has the first, in shards
    partition: Partition
    name: int
    source: int
    destination: int

    @property
    def gathers_only(self) -> bool:
        return self.collective is CollectiveKind.ALL_GATHER


@dataclass
class _Chunk:
    job: Job
    program: FsmProgram
    blocks: list[slice]
    packets: int
    incoming: list[dict[str, Any]]
    outgoing: dict[tuple[int, int], dict[str, Any]]  # by (step at the next rank, offset)
    # Packets with results, by the packet with the engine's contribution that they are made of.
    held: dict[tuple[int, int], dict[str, Any]] = field(default_factory=dict)
    context: int | None = None  # at the next rank, once that is ready
    ready: bool = False  # the engine is
    announced: int | None = None  # its context, then
    patience: int = 0  # cycles before the next rank gets ready


@dataclass
class Neighbours:
    """Both neighbours of *rank*.

    ``ready`` says when the next rank announces that it is ready for a chunk: ``"early"``, at once;
    ``"late"``, after all packets for the chunk have been sent; ``"random"``.
    """

    rig: Rig
    rank: int
    nodes: int
    jobs: Sequence[Job]
    ready: str
    chunks: dict[Key, _Chunk] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for job in self.jobs:
            for chunk in range(job.partition.chunks):
                self.chunks[job.name, chunk] = self._plan(job, chunk)
        # A context of the next rank is free again when all packets of its chunk have come.
        self._free_contexts = list(range(self.rig.config.contexts))
        self._silent = list(self.chunks.values())
        self._sendable: list[dict[str, Any]] = []
        self.rig.random.shuffle(self._free_contexts)

    def _plan(self, job: Job, chunk: int) -> _Chunk:
        config = self.rig.config
        cut = job.partition
        size = min(cut.block, cut.stride - chunk * cut.block)
        packets = -(-size // config.packet_elements)
        blocks = [part for number, _, part in cut.blocks() if number == chunk]
        program = ring_program(
            job.collective, rank=self.rank, nodes=self.nodes, direction=1, to_port=NEXT,
            from_port=PREVIOUS,
        )
        plan = _Chunk(job, program, blocks, packets, [], {})
        plan.patience = self.rig.random.randrange(400)
        contributed: dict[tuple[int, int], tuple[int, int]] = {}  # block, offset: outgoing
        for step, instruction in enumerate(program.instructions):
            assert isinstance(instruction, Instruction)
            parts = instruction.op.value
            for offset in range(packets):
                common = {
                    "kind": PacketKind.DATA.value,
                    "op": job.op.value,
                    "collective": job.name,
                    "chunk": chunk,
                    "fsm": 0,
                    "offset": offset,
                }
                piece = partial(self._piece, plan, block=instruction.block, at=offset)
                leaves = instruction.contributions
                arrives = instruction.arriving
                place = instruction.block, offset
                if parts & 0b1000:
                    fields = {
                        "step": step,
                        "contributions": arrives,
                        "payload": piece(count=arrives),
                    }
                    packet = common | fields
                    if place in contributed and not parts & 1:
                        plan.held[contributed[place]] = packet
                    else:
                        plan.incoming.append(packet)
                if parts & 0b0100:
                    step_there = instruction.peer_step
                    fields = {
                        "step": step_there,
                        "contributions": leaves,
                        "payload": piece(count=leaves),
                    }
                    plan.outgoing[step_there, offset] = common | fields
                    contributed.setdefault(place, (step_there, offset))
        return plan

    def _piece(self, chunk: _Chunk, *, block: int, count: int, at: int) -> bytes:
        job, part = chunk.job, chunk.blocks[block]
        if job.gathers_only:
            data = job.arrays[0][part]
        else:
            ranks = ring_order(block, nodes=self.nodes, direction=1)[:count]
            data = fold(
                lambda a, b: reduce(job.op, a, b), [job.arrays[rank][part] for rank in ranks]
            )
        size = self.rig.config.packet_elements
        return data[at * size : (at + 1) * size].tobytes()

    # ---- Software of the engine.

    def store_inputs(self) -> None:
        """Put the engine's vectors into its memory."""
        for job in self.jobs:
            data = job.arrays[self.rank]
            if job.gathers_only:
                data = job.arrays[0][job.partition.shard(self.rank)]
            place = self.rig.memory[job.source : job.source + data.nbytes]
            place[:] = data.view(np.uint8)[: len(place)]

    def start(self) -> None:
        """Queue all commands."""
        for job in self.jobs:
            self.rig.start(
                job.collective, job.partition, name=job.name, source=job.source,
                destination=job.destination, op=job.op,
            )

    # ---- The links.

    def act(self) -> None:
        """What the neighbours do in a cycle."""
        self._announce()
        for packet in self.rig.take(PREVIOUS):
            self._engine_is_ready(*packet)
        for packet in self.rig.take(NEXT):
            self._check(*packet)
        sending = self.rig.links[PREVIOUS].to_send
        if self._sendable and len(sending) < 2:
            at = self.rig.random.randrange(len(self._sendable))
            self._sendable[at], self._sendable[-1] = self._sendable[-1], self._sendable[at]
            self.rig.send(PREVIOUS, **self._sendable.pop())

    def _announce(self) -> None:
        """READY for the oldest chunk that the next rank has a context for."""
        if not (self._silent and self._free_contexts):
            return
        chunk = self._silent[0]
        if self.ready == "late" and (chunk.incoming or not chunk.ready or self._sendable):
            return
        if self.ready != "early" and chunk.patience:
            chunk.patience -= 1
            return
        self._silent.pop(0)
        chunk.context = self._free_contexts.pop()
        name, number = next(key for key, value in self.chunks.items() if value is chunk)
        self.rig.send(
            NEXT, kind=PacketKind.READY.value, collective=name, chunk=number, fsm=0,
            context=chunk.context, **self._agreed(chunk.job),
        )

    def _agreed(self, job: Job) -> dict[str, int]:
        program = self.rig.program(self.nodes)
        return ready_fields(program, job.collective, job.partition.settings, op=job.op)

    def _engine_is_ready(self, header: dict[str, int], payload: bytes) -> None:
        assert header["kind"] == PacketKind.READY.value
        assert payload == b""
        assert header["source"] == self.rank
        assert header["fsm"] == 0
        chunk = self.chunks[header["collective"], header["chunk"]]
        assert not chunk.ready, "READY twice"
        for name, value in self._agreed(chunk.job).items():
            assert header[name] == value, name
        chunk.ready = True
        chunk.announced = header["context"]
        for packet in chunk.incoming:
            self._sendable.append(packet | {"context": header["context"]})
        chunk.incoming = []

    def _check(self, header: dict[str, int], payload: bytes) -> None:
        chunk = self.chunks[header["collective"], header["chunk"]]
        assert chunk.context is not None, "sent to a context that was not announced"
        place = header["step"], header["offset"]
        expected = chunk.outgoing.pop(place)
        if place in chunk.held:
            self._sendable.append(chunk.held.pop(place) | {"context": chunk.announced})
        assert payload == expected["payload"]
        expected |= {"context": chunk.context, "source": self.rank, "length": len(payload)}
        for name, value in expected.items():
            assert name == "payload" or header[name] == value, name
        if not chunk.outgoing:
            self._free_contexts.append(chunk.context)

    @property
    def done(self) -> bool:
        """All packets have been sent and seen."""
        return not self._sendable and all(
            chunk.ready and not chunk.incoming and not chunk.held and not chunk.outgoing
            for chunk in self.chunks.values()
        )

    def results(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """What memory holds and what it should, for each job, as far as memory goes."""
        pairs = []
        for job in self.jobs:
            whole = np.concatenate(
                [self._whole(job, part, block) for _, block, part in sorted_blocks(job.partition)]
            )
            if job.collective is CollectiveKind.REDUCE_SCATTER:
                whole = whole[job.partition.shard(self.rank)]
            raw = self.rig.memory[job.destination : job.destination + whole.nbytes]
            pairs.append((raw.view(np.uint32), whole.view(np.uint32)[: len(raw) // 4]))
        return pairs

    def _whole(self, job: Job, part: slice, block: int) -> np.ndarray:
        if job.gathers_only:
            return job.arrays[0][part]
        ranks = ring_order(block, nodes=self.nodes, direction=1)
        return fold(lambda a, b: reduce(job.op, a, b), [job.arrays[rank][part] for rank in ranks])


def sorted_blocks(partition: Partition) -> list[tuple[int, int, slice]]:
    """Blocks in the order of their elements."""
    return sorted(partition.blocks(), key=lambda block: block[2].start)
