"""Hosts of the NICs: memories, registers, and what must be found in memory in the end."""

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

from hw.fp.ops import ReduceOp
from hw.smartnic.config import SmartNicConfig
from hw.smartnic.registers import INTERRUPTS, register_map
from sim.collectives.smartnic_golden import all_reduce
from sim.rtl.nic_writes import ethernet_address
from tb.common.streams import pauses, reset
from tb.smartnic.switch import Switch

__all__ = ["MEMORY_BYTES", "Host", "Job", "Ring"]

MEMORY_BYTES = 1 << 15


@dataclass(frozen=True, kw_only=True)
class Job:
    """An all-reduce: where its vectors lie, and what they hold."""

    source: int
    destination: int
    inputs: Sequence[np.ndarray]
    op: ReduceOp
    compress: bool
    tag: int

    @property
    def elements(self) -> int:
        return len(self.inputs[0])


class Host:
    """Host of one NIC: its register bus and its memory, with pauses on every channel."""

    def __init__(
        self, dut: Any, rank: int, config: SmartNicConfig, *, chance: float, rng: random.Random
    ) -> None:
        self.rank = rank
        self._dut = dut
        self._registers = register_map(config)
        self._csr = AxiLiteMaster(AxiLiteBus.from_prefix(dut, f"csr_{rank}"), dut.clk, dut.rst)
        # Beyond the memory, nothing answers but an error.
        self.memory = MemoryRegion(MEMORY_BYTES)
        space = AddressSpace(1 << config.address_bits)
        space.register_region(self.memory, 0)
        port = AxiSlave(AxiBus.from_prefix(dut, f"mem_{rank}"), dut.clk, dut.rst, target=space)
        for bus in (self._csr, port):
            for channel in (
                bus.write_if.aw_channel,
                bus.write_if.w_channel,
                bus.write_if.b_channel,
                bus.read_if.ar_channel,
                bus.read_if.r_channel,
            ):
                channel.set_pause_generator(pauses(chance, random.Random(rng.randrange(1 << 32))))

    async def write(self, register: str, **fields: Any) -> None:
        """Write field values; the fields not named become zero."""
        word = self._registers.registers[register].pack(**fields)
        offset = self._registers.offset(register)
        answer = (await self._csr.write(offset, word.to_bytes(4, "little"))).resp
        assert answer == AxiResp.OKAY, f"node {self.rank}: writing {register} gave {answer!r}"

    async def read(self, register: str, index: int | None = None) -> dict[str, int]:
        """Read a register, field by field."""
        read = await self._csr.read(self._registers.offset(register, index), 4)
        assert read.resp == AxiResp.OKAY, f"node {self.rank}: reading {register} gave {read.resp!r}"
        return self._registers.registers[register].unpack(int.from_bytes(read.data, "little"))

    async def count(self, register: str) -> int:
        """A performance counter."""
        return (await self.read(register, 0))["count"]

    async def set_up(self, nodes: int) -> None:
        """Give the NIC its place in the ring."""
        await self.write("node", rank=self.rank, nodes=nodes)
        for name, step in ("own", 0), ("next", 1), ("previous", -1):
            address = ethernet_address((self.rank + step) % nodes)
            await self.write(f"{name}_address_low", value=address & 0xFFFF_FFFF)
            await self.write(f"{name}_address_high", value=address >> 32)
        await self.write("memory_end_low", value=MEMORY_BYTES - 1)
        await self.write("interrupt_enable", **dict.fromkeys(INTERRUPTS, 1))

    async def start(self, job: Job, **changes: int) -> None:
        """Start *job*; *changes* replace values of registers on the way."""
        values = {
            "source_low": job.source,
            "source_high": 0,
            "destination_low": job.destination,
            "destination_high": 0,
            "elements": job.elements,
        }
        for name, value in (values | changes).items():
            await self.write(name, value=value)
        await self.write("command", tag=job.tag, op=job.op, compress=int(job.compress))

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
        """Serve interrupts until *count* all-reduces in all have completed here."""
        while (await self.read("completed"))["count"] != count:
            causes = await self.interrupted()
            assert causes <= {"done"} | allowed, f"node {self.rank} was interrupted for {causes}"
        # The last one may have completed between the last acknowledgement and the question.
        assert await self.acknowledge() <= {"done"} | allowed


class Ring:
    """NICs and switch, ready for all-reduces.

    Every job gets addresses of its own, so what any of them should leave in the memories is known,
    and :meth:`check` compares all of it.
    """

    def __init__(self, dut: Any, config: SmartNicConfig, *, nodes: int, chance: float) -> None:
        self.dut = dut
        self.config = config
        self.rng = random.Random(cocotb.RANDOM_SEED)
        self._values = np.random.default_rng(cocotb.RANDOM_SEED)
        self._free = 0
        self._tags = 0
        self.switch = Switch(dut, nodes, chance=chance, rng=self.rng)
        self.hosts = [Host(dut, n, config, chance=chance, rng=self.rng) for n in range(nodes)]
        self._expected = [bytearray(self.rng.randbytes(MEMORY_BYTES)) for _ in self.hosts]
        for host, image in zip(self.hosts, self._expected):
            host.memory.mem[:] = image

    @classmethod
    async def ready(
        cls, dut: Any, config: SmartNicConfig, *, nodes: int, chance: float = 0.25
    ) -> "Ring":
        """NICs out of reset, set up, with pauses everywhere."""
        Clock(dut.clk, 2, unit="ns").start()
        ring = cls(dut, config, nodes=nodes, chance=chance)
        await reset(dut)
        await gather(*(host.set_up(nodes) for host in ring.hosts))
        return ring

    def job(self, elements: int, *, op: ReduceOp = ReduceOp.SUM_F32, compress: bool = False) -> Job:
        """Make up vectors and put them into the memories."""
        inputs = [self._vector(elements, op) for _ in self.hosts]
        job = Job(
            source=self._place(elements),
            destination=self._place(elements),
            inputs=inputs,
            op=op,
            compress=compress,
            tag=self._tags,
        )
        self._tags = (self._tags + 1) % 256
        for host, values in zip(self.hosts, inputs):
            self.put(host, job.source, values)
        return job

    def put(self, host: Host, address: int, values: np.ndarray) -> None:
        """Write memory, in no time."""
        piece = slice(address, address + values.nbytes)
        self._expected[host.rank][piece] = values.tobytes()
        host.memory.mem[piece] = values.tobytes()

    def _place(self, elements: int) -> int:
        beat = self.config.bus_bytes
        place = self._free + beat * self.rng.randrange(1, 4)
        self._free = place + -(-4 * elements // beat) * beat
        assert self._free <= MEMORY_BYTES, "the jobs of this test do not fit the memories"
        return place

    def _vector(self, elements: int, op: ReduceOp) -> np.ndarray:
        """Ordinary values of all magnitudes, and in between any bit patterns at all."""
        patterns = self._values.integers(0, 1 << 32, elements, dtype=np.uint32)
        if op is ReduceOp.SUM_I32:
            return patterns.view(np.int32)
        scale = 2.0 ** self._values.integers(-8, 8, elements)
        normal = (self._values.standard_normal(elements) * scale).astype(np.float32)
        ordinary = self._values.random(elements) < 0.9
        return np.where(ordinary, normal, patterns.view(np.float32))

    async def run(self, *jobs: Job, delays: Sequence[int] | None = None) -> None:
        """Start *jobs* on all nodes, each after its delay in cycles, and wait for all of them."""

        async def on(host: Host, delay: int) -> None:
            if delay:
                await ClockCycles(self.dut.clk, delay)
            before = (await host.read("completed"))["count"]
            for job in jobs:
                await host.start(job)
            await host.completed(before + len(jobs))

        waits = [0] * len(self.hosts) if delays is None else delays
        await gather(*(on(host, wait) for host, wait in zip(self.hosts, waits, strict=True)))
        self.expect(*jobs)

    def expect(self, *jobs: Job) -> None:
        """These jobs have been done: their results must be in the memories from now on."""
        for job in jobs:
            result = all_reduce(job.inputs, self.config, op=job.op, compress=job.compress)
            for image in self._expected:
                image[job.destination : job.destination + result.nbytes] = result.tobytes()

    def overlook(self, job: Job) -> None:
        """What is at the destination of *job* is not known, and right as it is."""
        piece = slice(job.destination, job.destination + 4 * job.elements)
        for host, image in zip(self.hosts, self._expected):
            image[piece] = host.memory.mem[piece]

    def check(self) -> None:
        """Every memory holds the results of the jobs that were run, and is otherwise unchanged."""
        for host, image in zip(self.hosts, self._expected):
            found = np.frombuffer(bytes(host.memory.mem[:]), np.uint32)
            expected = np.frombuffer(image, np.uint32)
            wrong = np.flatnonzero(found != expected)
            assert not len(wrong), (
                f"node {host.rank}: {len(wrong)} words differ, the first at {4 * wrong[0]:#x}: "
                f"{found[wrong[0]]:08x} instead of {expected[wrong[0]]:08x}"
            )

    async def settled(self, cycles: int = 500) -> None:
        """All nodes fall idle within *cycles* cycles."""
        everyone = (1 << len(self.hosts)) - 1
        for _ in range(cycles):
            if self.dut.idle.value.to_unsigned() == everyone:
                return
            await RisingEdge(self.dut.clk)
        raise AssertionError(f"idle is {self.dut.idle.value} after {cycles} cycles of quiet")
