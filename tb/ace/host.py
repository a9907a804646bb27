"""What surrounds the ring in the simulator: memories, a host on every node, stalls everywhere."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge, gather
from cocotbext.axi import (
    AddressSpace,
    AxiBus,
    AxiLiteBus,
    AxiLiteMaster,
    AxiResp,
    AxiSlave,
    MemoryRegion,
)

from hw.ace.config import AceConfig
from hw.ace.registers import register_map
from hw.fp.ops import ReduceOp
from sim.collectives.golden import ring_all_reduce
from sim.collectives.partition import Partition
from sim.rtl.ace_writes import Write, set_up_writes, start_writes
from sim.workload.graph import CollectiveKind
from tb.common.streams import pauses, reset

__all__ = ["MEMORY_BYTES", "Job", "Node", "Ring"]

MEMORY_BYTES = 1 << 14


@dataclass(frozen=True, kw_only=True)
class Job:
    """A collective on the ring: what it does and where, and the data of each rank."""

    collective: CollectiveKind
    partition: Partition
    op: ReduceOp
    name: int
    source: int
    destination: int
    inputs: Sequence[np.ndarray]

    def results(self) -> list[np.ndarray]:
        """What every rank must find at its destination, bit for bit."""
        if self.collective is CollectiveKind.ALL_GATHER:
            return [np.concatenate(self.inputs)] * len(self.inputs)
        whole = ring_all_reduce(self.inputs, self.partition, op=self.op)
        if self.collective is CollectiveKind.ALL_REDUCE:
            return [whole] * len(self.inputs)
        return [whole[self.partition.shard(rank)] for rank in range(len(self.inputs))]


class Node:
    """Host of one engine: its register bus, and its memory behind as many ports as it has.

    Parameters
    ----------
    dut
        The :class:`tb.ace.ring.EngineRing`.
    rank : int
        Which engine.
    config : AceConfig
    chance : float
        Probability that a channel of any bus pauses in a cycle.
    rng
        Where the pauses come from.
    """

    def __init__(
        self, dut: Any, rank: int, config: AceConfig, *, chance: float, rng: random.Random
    ) -> None:
        self.rank = rank
        self._dut = dut
        self._registers = register_map(config)
        self._csr = AxiLiteMaster(AxiLiteBus.from_prefix(dut, f"csr_{rank}"), dut.clk, dut.rst)
        # Beyond the memory, nothing answers but an error.
        self._memory = MemoryRegion(MEMORY_BYTES)
        space = AddressSpace(1 << config.address_bits)
        space.register_region(self._memory, 0)
        ports = [
            AxiSlave(AxiBus.from_prefix(dut, f"mem_{rank}_{port}"), dut.clk, dut.rst, target=space)
            for port in range(config.memory_ports)
        ]
        for bus in (self._csr, *ports):
            for channel in (
                bus.write_if.aw_channel,
                bus.write_if.w_channel,
                bus.write_if.b_channel,
                bus.read_if.ar_channel,
                bus.read_if.r_channel,
            ):
                channel.set_pause_generator(pauses(chance, random.Random(rng.randrange(1 << 32))))

    def offset(self, register: str) -> int:
        """Address of a register."""
        return self._registers.offset(register)

    def put(self, address: int, content: bytes) -> None:
        """Write memory, in no time."""
        self._memory.mem[address : address + len(content)] = content

    def get(self) -> bytes:
        """All that is in memory."""
        return bytes(self._memory.mem[:])

    async def access(self, offset: int, word: int | None = None) -> tuple[AxiResp, int]:
        """Write *word*, or read; the answer and what was read."""
        if word is not None:
            return (await self._csr.write(offset, word.to_bytes(4, "little"))).resp, 0
        read = await self._csr.read(offset, 4)
        return read.resp, int.from_bytes(read.data, "little")

    async def write(self, register: str, word: int = 0, **fields: int) -> None:
        """Write a register: a word, or field values by name."""
        if fields:
            word = self._registers.registers[register].pack(**fields)
        answer, _ = await self.access(self._registers.offset(register), word)
        assert answer == AxiResp.OKAY, f"node {self.rank}: writing {register} gave {answer!r}"

    async def perform(self, writes: Sequence[Write]) -> None:
        """Write registers in order."""
        for register, word in writes:
            await self.write(register, word)

    async def read(self, register: str, index: int | None = None) -> dict[str, int]:
        """Read a register, field by field."""
        answer, word = await self.access(self._registers.offset(register, index))
        assert answer == AxiResp.OKAY, f"node {self.rank}: reading {register} gave {answer!r}"
        return self._registers.registers[register].unpack(word)

    async def start(self, job: Job, **changes: int) -> None:
        """Start *job* here; *changes* replace words of registers on the way."""
        writes = dict(
            start_writes(
                self._registers,
                job.collective,
                job.partition,
                name=job.name,
                source=job.source,
                destination=job.destination,
                op=job.op,
            )
        )
        await self.perform(list((writes | changes).items()))

    @property
    def irq(self) -> bool:
        """Level of the interrupt."""
        return bool(self._dut.irq.value[self.rank])

    async def interrupted(self) -> set[str]:
        """Wait for the interrupt, acknowledge it and return its causes."""
        while not self.irq:
            await RisingEdge(self._dut.clk)
        return await self.acknowledge()

    async def acknowledge(self) -> set[str]:
        """Clear the pending interrupts and return which they were."""
        causes = {name for name, on in (await self.read("interrupt")).items() if on}
        await self.write("interrupt", **dict.fromkeys(causes, 1))
        return causes

    async def completed(self, count: int) -> None:
        """Serve interrupts until *count* collectives in all have completed here."""
        while (await self.read("completed"))["count"] != count:
            causes = await self.interrupted()
            assert causes == {"done"}, f"node {self.rank} was interrupted for {causes}"
        # The last one may have completed between the last acknowledgement and the question.
        assert await self.acknowledge() <= {"done"}


class Ring:
    """The ring under test, ready for collectives.

    Every job gets addresses of its own, so what any of them should leave in the memories is known,
    and :meth:`check` compares all of it.

    Lines whose bit is set in ``blocked`` stand still; ``names`` is the name of the next job.
    """

    def __init__(self, dut: Any, config: AceConfig, *, nodes: int, chance: float = 0.3) -> None:
        self.dut = dut
        self.config = config
        self.rng = random.Random(cocotb.RANDOM_SEED)
        self._values = np.random.default_rng(cocotb.RANDOM_SEED)
        self._chance = chance
        self.blocked = 0
        self.names = 0
        self._free = 0
        self.ranks = range(nodes)
        self.nodes = [Node(dut, rank, config, chance=chance, rng=self.rng) for rank in self.ranks]
        self._expected = [bytearray(self.rng.randbytes(MEMORY_BYTES)) for _ in self.nodes]
        for node, image in zip(self.nodes, self._expected):
            node.put(0, bytes(image))

    @classmethod
    async def ready(cls, dut: Any, config: AceConfig, *, nodes: int, chance: float = 0.3) -> "Ring":
        """A ring out of reset, with its nodes set up and stalls on its links."""
        dut.stall.value = dut.damage.value = dut.flips.value = 0
        Clock(dut.clk, 2, unit="ns").start()
        ring = cls(dut, config, nodes=nodes, chance=chance)
        cocotb.start_soon(ring._stall_links())
        await ring.reset()
        return ring

    async def reset(self) -> None:
        """Reset everything but the memories, and set the nodes up."""
        await reset(self.dut)
        for node in self.nodes:
            assert not node.irq, f"node {node.rank} interrupts after reset"
        await gather(*(node.perform(self.set_up(node.rank)) for node in self.nodes))

    def set_up(self, rank: int) -> list[Write]:
        """The register writes that set a node up."""
        writes = set_up_writes(
            register_map(self.config),
            self.config,
            rank=rank,
            nodes=len(self.ranks),
            queues=self.config.fsms,
            memory_bytes=MEMORY_BYTES,
        )
        return list(writes)

    async def _stall_links(self) -> None:
        lines = range(2 * len(self.ranks))
        while True:
            stalls = sum((self.rng.random() < self._chance) << n for n in lines)
            self.dut.stall.value = stalls | self.blocked
            await RisingEdge(self.dut.clk)

    def job(
        self,
        elements: int,
        *,
        collective: CollectiveKind = CollectiveKind.ALL_REDUCE,
        op: ReduceOp = ReduceOp.SUM_F32,
        block: int | None = None,
    ) -> Job:
        """Make up data for a collective and put it into the memories."""
        partition = Partition.plan(
            elements,
            len(self.ranks),
            queues=self.config.fsms,
            lanes=self.config.lanes,
            packet_elements=self.config.packet_elements,
            slot_elements=self.config.slot_elements,
            block=block,
        )
        inputs = [self._vector(elements, op) for _ in self.ranks]
        if collective is CollectiveKind.ALL_GATHER:
            inputs = [inputs[rank][partition.shard(rank)] for rank in self.ranks]
        job = Job(
            collective=collective,
            partition=partition,
            op=op,
            name=self.names,
            source=self._place(elements),
            destination=self._place(elements),
            inputs=inputs,
        )
        self.names += 1
        for node, image, values in zip(self.nodes, self._expected, inputs):
            image[job.source : job.source + values.nbytes] = values.tobytes()
            node.put(job.source, values.tobytes())
        return job

    def _place(self, elements: int) -> int:
        """A free piece of memory, with a gap of random size before it."""
        beat = self.config.bus_bytes
        place = self._free + beat * self.rng.randrange(1, 5)
        self._free = place + -(-4 * elements // beat) * beat
        assert self._free <= MEMORY_BYTES, "the jobs of this test do not fit the memories"
        return place

    def _vector(self, elements: int, op: ReduceOp) -> np.ndarray:
        """Ordinary values of all magnitudes, and in between any bit patterns at all."""
        patterns = self._values.integers(0, 1 << 32, elements, dtype=np.uint32)
        if op is ReduceOp.SUM_I32:
            return patterns.view(np.int32)
        normal = self._values.standard_normal(elements) * 2.0 ** self._values.integers(
            -8, 8, elements
        )
        ordinary = self._values.random(elements) < 0.75
        return np.where(ordinary, normal.astype(np.float32), patterns.view(np.float32))

    async def run(self, *jobs: Job, delays: Sequence[int] | None = None) -> None:
        """Start *jobs* on all nodes, each after its delay in cycles, and wait for all of them."""

        async def on(node: Node, delay: int) -> None:
            if delay:
                await ClockCycles(self.dut.clk, delay)
            before = (await node.read("completed"))["count"]
            for job in jobs:
                await node.start(job)
            await node.completed(before + len(jobs))

        waits = [0] * len(self.nodes) if delays is None else delays
        await gather(*(on(node, wait) for node, wait in zip(self.nodes, waits, strict=True)))
        self.expect(*jobs)

    def expect(self, *jobs: Job) -> None:
        """These jobs have been done: their results must be in the memories from now on."""
        for job in jobs:
            for image, values in zip(self._expected, job.results()):
                image[job.destination : job.destination + values.nbytes] = values.tobytes()

    def overlook(self, job: Job) -> None:
        """What is at the destination of *job* is not known, and right as it is."""
        for node, image, values in zip(self.nodes, self._expected, job.results()):
            piece = slice(job.destination, job.destination + values.nbytes)
            image[piece] = node.get()[piece]

    def check(self) -> None:
        """Every memory holds the results of the jobs that were run, and is otherwise unchanged."""
        for node, image in zip(self.nodes, self._expected):
            found = np.frombuffer(node.get(), np.uint32)
            expected = np.frombuffer(image, np.uint32)
            wrong = np.flatnonzero(found != expected)
            assert not len(wrong), (
                f"node {node.rank}: {len(wrong)} words differ, the first at {4 * wrong[0]:#x}: "
                f"{found[wrong[0]]:08x} instead of {expected[wrong[0]]:08x}"
            )

    async def settled(self, cycles: int = 200) -> None:
        """All nodes fall idle within *cycles* cycles, so no packet and no credit is left over."""
        everyone = (1 << len(self.ranks)) - 1
        for _ in range(cycles):
            if self.dut.idle.value.to_unsigned() == everyone:
                return
            await RisingEdge(self.dut.clk)
        raise AssertionError(f"idle is {self.dut.idle.value} after {cycles} cycles of quiet")
