# SPDX-License-Identifier: Apache-2.0
"""NICs under test behind a switch."""

from collections.abc import Iterable

import numpy as np

from hw.common.register_map import RegisterMap
from hw.fp.ops import ReduceOp
from hw.smartnic.config import SmartNicConfig
from hw.smartnic.registers import register_map
from sim.collectives.golden import nic_all_reduce
from sim.hosts.command import Command
from sim.rtl.smartnic.writes import set_up_writes, start_writes
from sim.rtl.writes import Write
from tb.host import Job, Ring
from tb.smartnic.switch import Switch

__all__ = ["MEMORY_BYTES", "NicRing"]

MEMORY_BYTES = 1 << 15


class NicRing(Ring):
    """NICs of :class:`tb.smartnic.nics.NicGroup` and their switch."""

    config: SmartNicConfig
    memory_bytes = MEMORY_BYTES
    ordinary = 0.9

    def prepare(self) -> None:
        self.switch = Switch(self.dut, len(self.ranks), chance=self.chance, rng=self.rng)

    def registers(self) -> RegisterMap:
        return register_map(self.config)

    def memory_ports(self, rank: int) -> list[str]:
        return [f"mem_{rank}"]

    def set_up(self, rank: int) -> list[Write]:
        writes = set_up_writes(
            self.registers(),
            self.config,
            rank=rank,
            nodes=len(self.ranks),
            memory_bytes=MEMORY_BYTES,
        )
        return list(writes)

    def start_writes(self, job: Job) -> Iterable[Write]:
        command = job.command
        return start_writes(
            self.registers(),
            elements=command.elements,
            tag=job.name,
            source=command.source,
            destination=command.destination,
            op=command.op,
            compress=command.compress,
        )

    def results(self, job: Job) -> list[np.ndarray]:
        command = job.command
        result = nic_all_reduce(job.inputs, self.config, op=command.op, compress=command.compress)
        return [result] * len(job.inputs)

    def job(
        self, elements: int, *, op: ReduceOp = ReduceOp.SUM_F32, compress: bool = False
    ) -> Job:
        command = Command(
            elements=elements,
            op=op,
            compress=compress,
            source=self.place(elements),
            destination=self.place(elements),
        )
        return self.add_job(command, [self.vector(elements, op) for _ in self.ranks])
