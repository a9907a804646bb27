# SPDX-License-Identifier: Apache-2.0
"""A ring of RTL smart NICs over a switch, from numpy arrays to numpy arrays."""

from collections.abc import Iterable, Sequence
from typing import Any

from numpy.typing import NDArray

from gen.arguments import typed
from hw.fp.ops import ReduceOp
from hw.link.packet import link_flits
from hw.link.retry_frame import RetryConfig
from hw.smartnic.config import SmartNicConfig, preset
from hw.smartnic.layouts import AbortCause
from hw.smartnic.registers import INTERRUPTS, CommandError, register_map
from sim.collectives.golden import nic_all_reduce
from sim.cycles.smartnic.model import check_command, check_ring
from sim.fields import FieldError, check_type
from sim.hosts.command import Command
from sim.hosts.surroundings import Surroundings
from sim.rtl.driver import EngineDriver, reduction
from sim.rtl.errors import (
    CommandRefusedError,
    DisagreementError,
    GivenUpError,
    MemoryAccessError,
    NoProgressError,
    PacketDroppedError,
)
from sim.rtl.harness.host import Node
from sim.rtl.harness.specs import LinkDirection, LinkSpec, longest_packet
from sim.rtl.smartnic.port import RetryPortConfig, nic_component
from sim.rtl.smartnic.writes import set_up_writes, start_writes
from sim.rtl.writes import Write

__all__ = ["NicRing"]

_ON_THE_WAY = 4  # latencies within which frames in flight, and the answers to them, have arrived
_GIVEN_UP = {AbortCause.DISAGREEMENT: DisagreementError, AbortCause.WATCHDOG: NoProgressError}


class NicRing(EngineDriver):
    """NICs of one configuration in a ring, each with a host and its memory.

    Parameters
    ----------
    config : SmartNicConfig or str
        The NIC, or the name of a preset.
    settings : Surroundings
    watchdog_cycles : int
        Cycles without progress after which all-reduces are given up; 0: never.
    options
        Those of :class:`EngineDriver` (faults, ranks) and
        :class:`sim.rtl.harness.system.System` (threads).
        Faults: on link ``2 * engine``, which leads to the next node, packet ``2 * n`` is the header
        of its frame *n* and packet ``2 * n + 1`` the second 16 bytes of the frame's last beat.

    Raises
    ------
    ValueError
        For a ring of more than 256 nodes, or bad settings.
    """

    name = "smartnic"
    in_order = True
    config: SmartNicConfig

    @typed("config", "settings")
    def __init__(
        self,
        config: SmartNicConfig | str,
        settings: Surroundings,
        *,
        watchdog_cycles: int = 0,
        **options: Any,
    ) -> None:
        if not 0 <= watchdog_cycles < 1 << 31:
            raise FieldError(
                "watchdog_cycles", f"must be in 0 to 2**31 - 1, not {watchdog_cycles!r}"
            )
        self._watchdog_cycles = watchdog_cycles
        config = preset(config) if isinstance(config, str) else config
        self.check(config, settings)
        of_beat = link_flits(config.bus_bytes)
        flits = longest_packet(
            config.compressed_frame_beats * of_beat, settings.retry, beat_flits=of_beat
        )
        wire = LinkDirection.of_ring(settings, packet_flits=flits)
        links = [
            LinkSpec(
                node_a=rank,
                port_a=2 * engine,
                node_b=(rank + 1) % settings.nodes,
                port_b=2 * engine + 1,
                forward=wire,
            )
            for rank in range(settings.nodes)
            for engine in range(config.engines)
        ]
        super().__init__(
            config,
            settings,
            registers=register_map(config),
            links=links,
            outstanding_bursts=256,
            **options,
        )

    component = staticmethod(nic_component)

    @staticmethod
    def with_retry(config: SmartNicConfig, retry: RetryConfig) -> RetryPortConfig:
        return RetryPortConfig(nic=config, retry=retry)

    @classmethod
    def check(cls, config: SmartNicConfig, settings: Surroundings) -> None:
        nic = isinstance(config, SmartNicConfig)
        check_type("config", config, "a SmartNicConfig or a preset's name", nic)
        check_type("settings", settings, "Surroundings", isinstance(settings, Surroundings))
        check_ring(settings)

    @classmethod
    def check_command(
        cls, config: SmartNicConfig, settings: Surroundings, command: Command
    ) -> None:
        check_command(config, command)

    @classmethod
    def outstanding(cls, config: SmartNicConfig) -> int:
        return config.descriptors

    @classmethod
    def link_ports(cls, config: SmartNicConfig, rank: int) -> int:
        return 2 * config.engines

    def set_up(self, rank: int) -> Iterable[Write]:
        return set_up_writes(
            self.registers,
            self.config,
            rank=rank,
            nodes=self.settings.nodes,
            memory_bytes=self.settings.memory_bytes,
            watchdog_cycles=self._watchdog_cycles,
        )

    def start_writes(self, command: Command, number: int) -> Iterable[Write]:
        return start_writes(
            self.registers,
            elements=command.elements,
            tag=number,
            source=command.source,
            destination=command.destination,
            op=command.op,
            compress=command.compress,
        )

    @classmethod
    def reduced_by(
        cls,
        config: SmartNicConfig,
        settings: Surroundings,
        command: Command,
        inputs: Sequence[NDArray[Any]],
    ) -> NDArray[Any]:
        return nic_all_reduce(list(inputs), config, op=command.op, compress=command.compress)

    def judge(self, rank: int, node: Node, causes: dict[str, int]) -> None:
        quiet = ("done", "stalled")  # by itself the latter is no error
        found = ", ".join(name for name, on in causes.items() if on and name not in quiet)
        if causes["refused"]:
            error = CommandError(self.read(node, "refusal")["error"])
            raise CommandRefusedError(
                f"the NIC of rank {rank} refused a command: {error.name.lower()}"
            )
        if causes["aborted"]:
            abort = self.read(node, "abort")
            cause = AbortCause(abort["cause"])
            kind = _GIVEN_UP.get(cause, GivenUpError)
            raise kind(
                f"the NIC of rank {rank} reports: {found} "
                f"({cause.name.lower()} at rank {abort['rank']})"
            )
        if causes["invalid"]:
            invalid = self.read(node, "invalid")
            refused = [name for name in ("read", "write") if invalid[name]]
            raise MemoryAccessError(
                f"the NIC of rank {rank} reports: {found} (memory refused a "
                f"{' and a '.join(refused)}{'' if causes['memory'] else ' at another rank'})"
            )
        if causes["memory"]:
            raise MemoryAccessError(f"the NIC of rank {rank} reports: {found}")
        if found:
            raise PacketDroppedError(f"the NIC of rank {rank} reports: {found}")

    def abort(self, rank: int) -> None:
        """Give up all all-reduces on all nodes through the host of one of them, without waiting;
        :meth:`recover` waits and clears the interrupts."""
        self.write(self.system.nodes[rank], "control", abort=1)

    def reset(self, rank: int, *, abort: bool = True) -> None:
        """Reset the NIC of one rank alone, and set it up when all frames in flight to it have
        arrived; with *abort*, its host then aborts, so that the other NICs give up all-reduces that
        they have begun with it."""
        node = self.system.nodes[rank]
        node.reset_engine()
        node.delay(_ON_THE_WAY * self.settings.latency_cycles)
        self.perform(node, self.set_up(rank))
        if abort:
            self.abort(rank)
        self.system.run(drain=False)

    def recover(self, rank: int = 0) -> None:
        """Give up all all-reduces on all nodes by one node's abort, and clear all reported
        errors."""
        self.abort(rank)
        self._come_to_rest(INTERRUPTS)

    def golden(
        self,
        inputs: Sequence[NDArray[Any]],
        *,
        op: ReduceOp | str | None = None,
        compress: bool = False,
    ) -> NDArray[Any]:
        """Result that an all-reduce of *inputs* must give, bit for bit."""
        command = Command(
            elements=len(inputs[0]), op=reduction(op, inputs[0].dtype), compress=compress
        )
        return self.reduced(command, inputs)
