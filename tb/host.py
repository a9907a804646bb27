# SPDX-License-Identifier: Apache-2.0
"""Environment of a ring of engines in the simulator: hosts, memories, and expected contents."""

import random
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

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

from hw.common.register_map import RegisterMap
from hw.fp.ops import ReduceOp
from sim.hosts.command import Command
from sim.rtl.writes import Write
from tb.common.streams import pause_channels, reset

__all__ = ["Job", "Node", "Ring"]


@dataclass(frozen=True, kw_only=True)
class Job:
    """A collective on the ring: its command, its name, and the data of each rank."""

    command: Command
    name: int
    inputs: Sequence[np.ndarray]


class Node:
    """Host of one engine: its register bus, and its memory behind as many ports as it has.

    Parameters
    ----------
    dut
        The design under test.
    rank : int
        Number of the engine.
    registers : RegisterMap
    ports : sequence of str
        Prefixes of its memory ports.
    address_bits, memory_bytes : int
        Width of addresses; size of the memory, beyond which every access gets an error.
    chance : float
        Probability that a channel of any bus pauses in a cycle.
    rng
        Random generator of the pauses.
    """

    def __init__(
        self,
        dut: Any,
        rank: int,
        registers: RegisterMap,
        *,
        ports: Iterable[str],
        address_bits: int,
        memory_bytes: int,
        chance: float,
        rng: random.Random,
    ) -> None:
        self.rank = rank
        self._dut = dut
        self._registers = registers
        self._csr = AxiLiteMaster(AxiLiteBus.from_prefix(dut, f"csr_{rank}"), dut.clk, dut.rst)
        self._memory = MemoryRegion(memory_bytes)
        space = AddressSpace(1 << address_bits)
        space.register_region(self._memory, 0)
        slaves = [
            AxiSlave(AxiBus.from_prefix(dut, port), dut.clk, dut.rst, target=space)
            for port in ports
        ]
        for bus in (self._csr, *slaves):
            pause_channels(bus, chance, rng)

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
        """Write *word*, or read; return the response and the word read."""
        if word is not None:
            return (await self._csr.write(offset, word.to_bytes(4, "little"))).resp, 0
        read = await self._csr.read(offset, 4)
        return read.resp, int.from_bytes(read.data, "little")

    async def write(self, register: str, word: int = 0, **fields: Any) -> None:
        """Write a register: a word, or field values by name."""
        if fields:
            word = self._registers.registers[register].pack(**fields)
        answer, _ = await self.access(self._registers.offset(register), word)
        assert answer == AxiResp.OKAY, f"node {self.rank}: writing {register} gave {answer!r}"

    async def perform(self, writes: Iterable[Write]) -> None:
        """Write registers in order."""
        for register, word in writes:
            await self.write(register, word)

    async def read(self, register: str, index: int | None = None) -> dict[str, int]:
        """Read a register, field by field."""
        answer, word = await self.access(self._registers.offset(register, index))
        assert answer == AxiResp.OKAY, f"node {self.rank}: reading {register} gave {answer!r}"
        return self._registers.registers[register].unpack(word)

    async def count(self, register: str, index: int | None = 0) -> int:
        """A counter."""
        return (await self.read(register, index))["count"]

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

    async def completed(self, count: int, *, allowed: frozenset[str] = frozenset()) -> None:
        """Serve interrupts until *count* collectives in all have completed here."""
        while await self.count("completed", None) != count:
            causes = await self.interrupted()
            assert causes <= {"done"} | allowed, f"node {self.rank} was interrupted for {causes}"
        # The last one may have completed between the last acknowledgement and the read.
        assert await self.acknowledge() <= {"done"} | allowed


class Ring(ABC):
    """The ring under test, ready for collectives; each kind of engine derives its own.

    Every job gets addresses of its own, so the expected contents of all memories are known, and
    :meth:`check` compares all of them. ``names`` is the name of the next job.
    """

    memory_bytes: ClassVar[int]
    ordinary: ClassVar[float]
    """Share of elements that are ordinary values; the others are arbitrary bit patterns."""

    def __init__(self, dut: Any, config: Any, *, nodes: int, chance: float) -> None:
        self.dut = dut
        self.config = config
        self.rng = random.Random(cocotb.RANDOM_SEED)
        self.chance = chance
        self.names = 0
        self.ranks = range(nodes)
        self._values = np.random.default_rng(cocotb.RANDOM_SEED)
        self._free = 0
        self.nodes = [
            Node(
                dut,
                rank,
                self.registers(),
                ports=self.memory_ports(rank),
                address_bits=config.address_bits,
                memory_bytes=self.memory_bytes,
                chance=chance,
                rng=self.rng,
            )
            for rank in self.ranks
        ]
        self._expected = [bytearray(self.rng.randbytes(self.memory_bytes)) for _ in self.nodes]
        for node, image in zip(self.nodes, self._expected):
            node.put(0, bytes(image))
        self.prepare()

    @abstractmethod
    def prepare(self) -> None:
        """Set up everything outside the nodes."""

    @abstractmethod
    def registers(self) -> RegisterMap:
        """Registers of an engine."""

    @abstractmethod
    def memory_ports(self, rank: int) -> list[str]:
        """Prefixes of the memory ports of an engine."""

    @abstractmethod
    def set_up(self, rank: int) -> list[Write]:
        """The register writes that set a node up."""

    @abstractmethod
    def start_writes(self, job: Job) -> Iterable[Write]:
        """The register writes that start a job."""

    @abstractmethod
    def results(self, job: Job) -> list[np.ndarray]:
        """Expected contents of every rank's destination, bit for bit."""

    @classmethod
    async def ready(cls, dut: Any, config: Any, *, nodes: int, chance: float = 0.3) -> Self:
        """A ring out of reset, with its nodes set up and pauses everywhere."""
        Clock(dut.clk, 2, unit="ns").start()
        ring = cls(dut, config, nodes=nodes, chance=chance)
        await ring.reset()
        return ring

    async def reset(self) -> None:
        """Reset everything but the memories, and set the nodes up."""
        await reset(self.dut)
        for node in self.nodes:
            assert not node.irq, f"node {node.rank} interrupts after reset"
        await gather(*(node.perform(self.set_up(node.rank)) for node in self.nodes))

    def add_job(self, command: Command, inputs: Sequence[np.ndarray]) -> Job:
        """Put the data of a new job, placed by :meth:`place`, into the memories."""
        job = Job(command=command, name=self.names, inputs=inputs)
        self.names = (self.names + 1) % 256
        for node, values in zip(self.nodes, inputs):
            self.put(node, command.source, values)
        return job

    def put(self, node: Node, address: int, values: np.ndarray) -> None:
        """Write memory, in no time."""
        self._expected[node.rank][address : address + values.nbytes] = values.tobytes()
        node.put(address, values.tobytes())

    def place(self, elements: int) -> int:
        """A free piece of memory, with a gap of random size before it."""
        beat = self.config.bus_bytes
        place: int = self._free + beat * self.rng.randrange(1, 5)
        self._free = place + -(-4 * elements // beat) * beat
        assert self._free <= self.memory_bytes, "the jobs of this test do not fit the memories"
        return place

    def vector(self, elements: int, op: ReduceOp) -> np.ndarray:
        """Ordinary values of all magnitudes, mixed with arbitrary bit patterns."""
        patterns = self._values.integers(0, 1 << 32, elements, dtype=np.uint32)
        if op is ReduceOp.SUM_I32:
            return patterns.view(np.int32)
        scale = 2.0 ** self._values.integers(-8, 8, elements)
        normal = (self._values.standard_normal(elements) * scale).astype(np.float32)
        ordinary = self._values.random(elements) < self.ordinary
        return np.where(ordinary, normal, patterns.view(np.float32))

    async def start(self, node: Node, *jobs: Job, **changes: int) -> None:
        """Start *jobs* on a node; *changes* replace words of registers on the way."""
        for job in jobs:
            await node.perform((dict(self.start_writes(job)) | changes).items())

    async def start_all(self, *jobs: Job, nodes: Sequence[Node] | None = None) -> None:
        """Start *jobs* on one node after the other."""
        for node in self.nodes if nodes is None else nodes:
            await self.start(node, *jobs)

    async def run(self, *jobs: Job, delays: Sequence[int] | None = None) -> None:
        """Start *jobs* on all nodes, each after its delay in cycles, and wait for all of them."""

        async def on(node: Node, delay: int) -> None:
            if delay:
                await ClockCycles(self.dut.clk, delay)
            before = await node.count("completed", None)
            await self.start(node, *jobs)
            await node.completed(before + len(jobs))

        waits = [0] * len(self.nodes) if delays is None else delays
        await gather(*(on(node, wait) for node, wait in zip(self.nodes, waits, strict=True)))
        self.expect(*jobs)

    def expect(self, *jobs: Job) -> None:
        """Note that *jobs* are done: their results must be in the memories from now on."""
        for job in jobs:
            first = job.command.destination
            for image, values in zip(self._expected, self.results(job)):
                image[first : first + values.nbytes] = values.tobytes()

    def overlook(self, job: Job) -> None:
        """Accept the present contents of the destination of *job*, whose result is unknown."""
        first = job.command.destination
        for node, image, values in zip(self.nodes, self._expected, self.results(job)):
            piece = slice(first, first + values.nbytes)
            image[piece] = node.get()[piece]

    def check(self) -> None:
        """Check that memories hold the results of the jobs done, and are otherwise unchanged."""
        for node, image in zip(self.nodes, self._expected):
            found = np.frombuffer(node.get(), np.uint32)
            expected = np.frombuffer(image, np.uint32)
            wrong = np.flatnonzero(found != expected)
            assert not len(wrong), (
                f"node {node.rank}: {len(wrong)} words differ, the first at {4 * wrong[0]:#x}: "
                f"{found[wrong[0]]:08x} instead of {expected[wrong[0]]:08x}"
            )

    async def settled(self, cycles: int = 500) -> None:
        """Check that all nodes fall idle within *cycles* cycles, with nothing left in flight."""
        everyone = (1 << len(self.ranks)) - 1
        for _ in range(cycles):
            if self.dut.idle.value.to_unsigned() == everyone:
                return
            await RisingEdge(self.dut.clk)
        raise AssertionError(f"idle is {self.dut.idle.value} after {cycles} cycles of quiet")

    # ---- Checks that benches share.

    async def run_and_check(self, *jobs: Job, delays: Sequence[int] | None = None) -> None:
        """Run *jobs*; check that everything falls idle and the memories are right."""
        await self.run(*jobs, delays=delays)
        await self.settled()
        self.check()

    async def interrupts_until_acknowledged_or_masked(self, job: Job, others: set[str]) -> None:
        """Check that node 0's interrupt after *job* stays until masked or acknowledged itself."""
        node, *rest = self.nodes
        await self.start_all(job)
        for other in rest:
            assert await other.interrupted() == {"done"}
        await self.settled(3000)
        seen = []
        for action in (None, {"done": 0}, {"done": 1}):
            if action is not None:
                await node.write("interrupt_enable", **action)
            await ClockCycles(self.dut.clk, 20)
            seen.append(node.irq)
        assert seen == [True, False, True]
        await node.write("interrupt", **dict.fromkeys(others, 1))
        await ClockCycles(self.dut.clk, 5)
        assert node.irq, "acknowledging other interrupts cleared this one"
        assert await node.acknowledge() == {"done"}
        await ClockCycles(self.dut.clk, 5)
        assert not node.irq
        assert await node.acknowledge() == set()

    async def refuses_beyond(self, limit: int, refusal: dict[str, int], name: str) -> None:
        """Check that node 0 refuses a command beyond *limit* with *refusal*; others complete."""
        jobs = [self.job(3) for _ in range(limit + 1)]
        node, *others = self.nodes
        await self.start(node, *jobs)  # alone, so none of them can complete
        assert await node.interrupted() == {"refused"}
        assert await node.read("refusal") == refusal | {name: jobs[-1].name, "count": 1}
        assert (await node.read("status"))["outstanding"] == limit
        await self.start_all(*jobs[:-1], nodes=others)
        for each in self.nodes:
            await each.completed(limit)
        await self.settled()
        self.expect(*jobs[:-1])
        self.check()

    async def signals_memory_errors(self, bad: Job) -> None:
        """Let node 0 read *bad* from outside memory: it reports that, and the next job works."""
        node, *others = self.nodes
        await node.write("memory_end_low", 2 * self.memory_bytes - 1)  # there is less than that
        await self.start(node, bad, source_low=self.memory_bytes)
        await self.start_all(bad, nodes=others)
        assert "memory" in await node.interrupted()
        for each in self.nodes:
            known = {"memory", "failed"} if each is node else {"failed"}
            await each.completed(1, allowed=frozenset(known))
        self.overlook(bad)
        await self.run_and_check(self.job(44))

    @abstractmethod
    def job(self, elements: int) -> Job:
        """Make up data for a job and put it into the memories."""
