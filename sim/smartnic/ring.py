"""A ring of RTL smart NICs over a switch, from numpy arrays to numpy arrays."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gen.compile import CompiledModel, compile_model
from hw.common.axi import aligned
from hw.common.register_map import RegisterMap
from hw.fp.ops import ReduceOp
from hw.smartnic.config import SmartNicConfig, preset
from hw.smartnic.registers import INTERRUPTS, register_map
from sim.rtl.host import Node
from sim.rtl.specs import HeaderFault, LinkDirection, LinkSpec, MemorySpec, NodeSpec
from sim.rtl.system import RunResult, System
from sim.smartnic.switch_port import SwitchPort

__all__ = ["AllReduce", "NicRing", "NicRingSettings", "compiled_nic", "ethernet_address"]

_JUDGING_CYCLES = 8
"""More than it takes until a command counts as outstanding."""


def ethernet_address(rank: int) -> int:
    """Locally administered address of a rank's first port, first byte least significant."""
    return int.from_bytes(bytes([0x02, 0xF0, 0x1D, rank >> 8, rank & 0xFF, 0]), "little")


@cache
def compiled_nic(config: SmartNicConfig) -> CompiledModel:
    """The NIC of *config*, with its port of the switch, as native code, built once."""
    return compile_model(SwitchPort(config), name="smartnic")


@dataclass(frozen=True, kw_only=True)
class NicRingSettings:
    """What surrounds the NICs of a ring.

    Parameters
    ----------
    nodes : int
        Ranks, 2 to 256.
    latency_cycles : int
        From one NIC's port to another's: cables and switch.
    read_latency_cycles, write_latency_cycles : int
        Of host memory.
    host_bytes_per_cycle : float or None
        Bounds reads plus writes of a node; None: the width of the bus in each direction.
    net_beats_per_cycle : float
        Pace of the Ethernet port, at most 1.
    link_stalls, memory_stalls, host_stalls : float
        Probability that a port, a channel of the memory, or the host's acceptance of a response
        stalls in a cycle.
    memory_bytes : int
        Of each node.
    seed : int
        Of the stalls.
    """

    nodes: int
    latency_cycles: int = 50
    read_latency_cycles: int = 50
    write_latency_cycles: int = 10
    host_bytes_per_cycle: float | None = None
    net_beats_per_cycle: float = 1.0
    link_stalls: float = 0.0
    memory_stalls: float = 0.0
    host_stalls: float = 0.0
    memory_bytes: int = 1 << 20
    seed: int = 0

    def __post_init__(self) -> None:
        if not 2 <= self.nodes <= 256:
            raise ValueError(f"nodes must be from 2 to 256, not {self.nodes!r}")
        for name in (
            "latency_cycles",
            "read_latency_cycles",
            "write_latency_cycles",
            "memory_bytes",
        ):
            if not getattr(self, name) >= 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)!r}")
        for name in ("link_stalls", "memory_stalls", "host_stalls"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(
                    f"{name} must be at least 0 and below 1, not {getattr(self, name)!r}"
                )
        if not 0 < self.net_beats_per_cycle <= 1:
            raise ValueError(
                "net_beats_per_cycle must be above 0 and at most 1, "
                f"not {self.net_beats_per_cycle!r}"
            )
        if self.host_bytes_per_cycle is not None and not self.host_bytes_per_cycle > 0:
            raise ValueError(
                f"host_bytes_per_cycle must be above 0, not {self.host_bytes_per_cycle!r}"
            )


@dataclass(frozen=True, kw_only=True)
class AllReduce:
    """One all-reduce for :meth:`NicRing.run`: a vector per rank, and what to do with them."""

    arrays: Sequence[NDArray[Any]]
    op: ReduceOp = ReduceOp.SUM_F32
    compress: bool = False
    in_place: bool = False


class NicRing:
    """NICs of one configuration in a ring, each with a host and its memory.

    Parameters
    ----------
    config : SmartNicConfig or str
        The NIC, or the name of a preset.
    settings : NicRingSettings
    faults : sequence of HeaderFault
        On link ``2 * engine``, which leads to the next node, packet ``2 * n`` is the header of its
        frame *n* and packet ``2 * n + 1`` the second 16 bytes of the frame's last beat.
    options
        Passed on to :class:`sim.rtl.system.System`.
    """

    def __init__(
        self,
        config: SmartNicConfig | str,
        settings: NicRingSettings,
        *,
        faults: Sequence[HeaderFault] = (),
        **options: Any,
    ) -> None:
        self.config = preset(config) if isinstance(config, str) else config
        self.settings = settings
        self.registers: RegisterMap = register_map(self.config)
        self.last_run: RunResult | None = None
        wire = LinkDirection(
            latency_cycles=settings.latency_cycles,
            stall_probability=settings.link_stalls,
            beats_per_cycle=settings.net_beats_per_cycle,
        )
        links = [
            LinkSpec(
                node_a=rank,
                port_a=2 * engine,
                node_b=(rank + 1) % settings.nodes,
                port_b=2 * engine + 1,
                forward=wire,
            )
            for rank in range(settings.nodes)
            for engine in range(self.config.engines)
        ]
        memory = MemorySpec(
            size_bytes=settings.memory_bytes,
            read_latency_cycles=settings.read_latency_cycles,
            write_latency_cycles=settings.write_latency_cycles,
            bytes_per_cycle=settings.host_bytes_per_cycle,
            outstanding_bursts=256,
            stall_probability=settings.memory_stalls,
        )
        node = NodeSpec(
            engine=compiled_nic(self.config),
            memory=memory,
            host_stall_probability=settings.host_stalls,
        )
        self.system = System(
            [node] * settings.nodes, links, seed=settings.seed, faults=faults, **options
        )
        for rank, each in enumerate(self.system.nodes):
            self.set_up(each, rank)
        # A NIC without an address would drop the first frames of one that starts early.
        self.system.run()

    def set_up(self, node: Node, rank: int) -> None:
        """Queue the register writes that give a node its place in the ring."""
        nodes = self.settings.nodes
        self.write(node, "node", rank=rank, nodes=nodes)
        if self.config.ethernet:
            for name, step in ("own", 0), ("next", 1), ("previous", -1):
                address = ethernet_address((rank + step) % nodes)
                self.write(node, f"{name}_address_low", value=address & 0xFFFF_FFFF)
                self.write(node, f"{name}_address_high", value=address >> 32)
        last_byte = self.settings.memory_bytes - 1
        self.write(node, "memory_end_low", value=last_byte & 0xFFFF_FFFF)
        self.write(node, "memory_end_high", value=last_byte >> 32)
        self.write(node, "interrupt_enable", **dict.fromkeys(INTERRUPTS, 1))

    def write(self, node: Node, register: str, **fields: Any) -> None:
        """Queue the write of a register."""
        node.write(
            self.registers.offset(register), self.registers.registers[register].pack(**fields)
        )

    def read(self, node: Node, register: str, index: int | None = None) -> dict[str, int]:
        """Read a register now; the system runs on meanwhile."""
        ticket = node.read(self.registers.offset(register, index))
        self.system.run(drain=False)
        return self.registers.registers[register].unpack(ticket.value)

    def start(
        self,
        node: Node,
        *,
        source: int,
        destination: int,
        elements: int,
        tag: int = 0,
        op: ReduceOp = ReduceOp.SUM_F32,
        compress: bool = False,
    ) -> None:
        """Queue the register writes that start an all-reduce on one node."""
        for name, address in ("source", source), ("destination", destination):
            self.write(node, f"{name}_low", value=address & 0xFFFF_FFFF)
            self.write(node, f"{name}_high", value=address >> 32)
        self.write(node, "elements", value=elements)
        self.write(node, "command", tag=tag, op=op, compress=int(compress))

    def run(
        self, *reductions: AllReduce, max_cycles: int = 20_000_000, start_skew_cycles: int = 0
    ) -> list[list[NDArray[Any]]]:
        """Do all of them, one queued behind the other; the results by all-reduce and rank.

        Raises
        ------
        ValueError
            If the memory is too small or there are more than can be queued.
        RuntimeError
            If a NIC reports anything but completion.
        """
        if len(reductions) > self.config.descriptors:
            raise ValueError(
                f"at most {self.config.descriptors} all-reduces can be queued, "
                f"not {len(reductions)}"
            )
        places = []
        free = 0
        for each in reductions:
            size = aligned(each.arrays[0].nbytes)
            source, destination = free, free if each.in_place else free + size
            free = destination + size
            places.append((source, destination))
        if free > self.settings.memory_bytes:
            raise ValueError(
                f"memory_bytes must be at least {free} for these vectors, "
                f"not {self.settings.memory_bytes}"
            )
        for tag, (each, (source, destination)) in enumerate(zip(reductions, places)):
            for node, array in zip(self.system.nodes, each.arrays, strict=True):
                raw = np.ascontiguousarray(array).view(np.uint8)
                node.memory[source : source + len(raw)] = raw
                self.start(
                    node,
                    source=source,
                    destination=destination,
                    elements=len(array),
                    tag=tag,
                    op=each.op,
                    compress=each.compress,
                )
        for node in self.system.nodes:
            self._wait(node)
        self.last_run = self.system.run(max_cycles=max_cycles, start_skew_cycles=start_skew_cycles)
        for rank, node in enumerate(self.system.nodes):
            self._acknowledge(rank, node)
        return [
            [
                node.memory[destination : destination + array.nbytes].view(array.dtype).copy()
                for node, array in zip(self.system.nodes, each.arrays)
            ]
            for each, (_, destination) in zip(reductions, places)
        ]

    def _wait(self, node: Node) -> None:
        """Until everything given to the node is completed, or given up."""
        node.delay(_JUDGING_CYCLES)
        node.wait_register(
            self.registers.offset("status"),
            value=0,
            mask=self.registers.registers["status"].pack(outstanding=127),
            poll_cycles=4,
        )

    def _acknowledge(self, rank: int, node: Node) -> None:
        causes = self.read(node, "interrupt")
        self.write(node, "interrupt", **dict.fromkeys(INTERRUPTS, 1))
        self.system.run(drain=False)
        wrong = [name for name, value in causes.items() if value and name != "done"]
        if wrong:
            raise RuntimeError(f"the NIC of rank {rank} reports: {', '.join(wrong)}")
