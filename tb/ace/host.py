# SPDX-License-Identifier: Apache-2.0
"""A ring of ACE engines under test, with stalls on its links."""

from collections.abc import Iterable

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge

from hw.ace.config import AceConfig
from hw.ace.registers import register_map
from hw.common.register_map import RegisterMap
from hw.fp.ops import ReduceOp
from sim.collectives.ace_program import AceProgram
from sim.hosts.command import Command
from sim.rtl.ace.writes import set_up_writes, start_writes
from sim.rtl.writes import Write
from sim.workload.graph import CollectiveKind
from tb.host import Job, Ring

__all__ = ["MEMORY_BYTES", "AceRing"]

MEMORY_BYTES = 1 << 14


class AceRing(Ring):
    """Engines of :class:`tb.ace.ring.EngineGroup`.

    Lines whose bit is set in ``blocked`` are stalled.
    """

    config: AceConfig
    memory_bytes = MEMORY_BYTES
    ordinary = 0.75

    def prepare(self) -> None:
        self.blocked = 0
        self.dut.stall.value = self.dut.damage.value = self.dut.flips.value = 0
        cocotb.start_soon(self._stall_links())

    def registers(self) -> RegisterMap:
        return register_map(self.config)

    def memory_ports(self, rank: int) -> list[str]:
        return [f"mem_{rank}_{port}" for port in range(self.config.memory_ports)]

    def set_up(self, rank: int) -> list[Write]:
        writes = set_up_writes(
            self.registers(), self.program, rank=rank, memory_bytes=MEMORY_BYTES
        )
        return list(writes)

    def start_writes(self, job: Job) -> Iterable[Write]:
        command = job.command
        return start_writes(
            self.registers(),
            command.collective,
            self.program.settings(
                command.elements, block=command.block, collective=command.collective
            ),
            name=job.name,
            source=command.source,
            destination=command.destination,
            op=command.op,
        )

    def results(self, job: Job) -> list[np.ndarray]:
        command = job.command
        if command.collective is CollectiveKind.ALL_GATHER:
            return [np.concatenate(job.inputs)] * len(job.inputs)
        whole = self.program.all_reduced(
            job.inputs, op=command.op, block=command.block, collective=command.collective
        )
        if command.collective is CollectiveKind.ALL_REDUCE:
            return [whole] * len(job.inputs)
        return [whole[self._shard(command, rank)] for rank in self.ranks]

    @property
    def program(self) -> AceProgram:
        """Program of the ring."""
        return AceProgram(config=self.config, nodes=len(self.ranks), queues=self.config.fsms)

    def _shard(self, command: Command, rank: int) -> slice:
        return self.program.shard(command.elements, rank, block=command.block)

    def job(
        self,
        elements: int,
        *,
        collective: CollectiveKind = CollectiveKind.ALL_REDUCE,
        op: ReduceOp = ReduceOp.SUM_F32,
        block: int | None = None,
    ) -> Job:
        command = Command(
            collective=collective,
            elements=elements,
            op=op,
            block=block,
            source=self.place(elements),
            destination=self.place(elements),
        )
        inputs = [self.vector(elements, op) for _ in self.ranks]
        if collective is CollectiveKind.ALL_GATHER:
            inputs = [inputs[rank][self._shard(command, rank)] for rank in self.ranks]
        return self.add_job(command, inputs)

    async def _stall_links(self) -> None:
        lines = range(2 * len(self.ranks))
        while True:
            stalls = sum((self.rng.random() < self.chance) << n for n in lines)
            self.dut.stall.value = stalls | self.blocked
            await RisingEdge(self.dut.clk)
