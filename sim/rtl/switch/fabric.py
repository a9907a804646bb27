# SPDX-License-Identifier: Apache-2.0
"""RTL switches with RTL endpoints, from numpy arrays to numpy arrays."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from amaranth.lib import wiring
from numpy.typing import NDArray

from gen.configured import compile_configured
from hw.common.register_map import RegisterMap
from hw.link.retry_frame import RetryConfig
from hw.switch.formats import HALVES
from hw.switch.layouts import TAKEN
from hw.switch.packet import AbortCause, Format
from hw.switch.recount import GUARD_CYCLES, RETRY_CYCLES
from hw.switch.registers import register_map as switch_registers
from hw.switch.retry import RetrySwitch, RetrySwitchConfig
from hw.switch.switch import Switch
from hw.switch_dma.dma import SwitchDma
from hw.switch_dma.home import TOOK
from hw.switch_dma.registers import INTERRUPTS, CommandError, register_map
from hw.switch_dma.retry import RetrySwitchDma, RetrySwitchDmaConfig
from sim.cycles.switch.hosts import Assembly
from sim.cycles.switch.state import COUNTED, EVENTS
from sim.fields import FieldError
from sim.hosts.activity import LinkActivity
from sim.hosts.command import Command
from sim.hosts.surroundings import Surroundings
from sim.rtl.driver import EngineDriver
from sim.rtl.errors import (
    CommandRefusedError,
    DisagreementError,
    GivenUpError,
    MemoryAccessError,
    NoProgressError,
    PacketDroppedError,
)
from sim.rtl.harness.host import Node
from sim.rtl.harness.specs import LinkDirection, MemorySpec, NodeSpec
from sim.rtl.switch.formats import packed, unpacked
from sim.rtl.switch.joining import join
from sim.rtl.switch.rules import SwitchRules
from sim.rtl.switch.sums import REGION, Log, Sums, planes_of, trace_ports
from sim.rtl.switch.wire import fabric_links
from sim.rtl.switch.writes import (
    FieldWrite,
    command_writes,
    member_writes,
    region_writes,
    route_writes,
)
from sim.rtl.writes import Write

__all__ = ["SwitchFabric"]

_GIVEN_UP = {AbortCause.DISAGREEMENT: DisagreementError, AbortCause.WATCHDOG: NoProgressError}
_LANE_COUNTERS = ("operands", "loads", "answers", "partials", "finished", "results", "wave_wait",
                  "barrier")
"""Counters of endpoints that their cycle models have as well."""


class SwitchFabric(SwitchRules, EngineDriver):
    """Endpoints at switches that reduce, all of them compiled, each endpoint with a host and its
    memory. Switches have hosts, too, which program them.

    All endpoints are members of region 0, whose tree is the first one of the fabric. They join
    first; then switches are reset and programmed anew, so that their arbiters start as in the cycle
    model. Periods of time-outs begin with the scripts.

    With retry on all links switches are not reset: no model counts the cycles of such links.

    Vectors are FP32 here in every format (``config.system.format``); with 16-bit formats they are
    rounded when they are stored in memory, and results are the values of the numbers in memory.

    Parameters
    ----------
    config : Assembly
    settings : Surroundings
    ranks : sequence of int or None
        Endpoints, and switches, which are numbered after them, that are in the system, in order;
        None: all. Links to the others lead outside.
    options
        Those of :class:`EngineDriver` and :class:`sim.rtl.harness.system.System` (threads, ...).

    Members
    -------
    log : Log
        The orders of additions, up to the last call of `note_orders`.

    Raises
    ------
    ValueError
        For features that the RTL lacks: several regions, delays of packets alone, acknowledgements.
    LinkFailedError
        If links with retry do not come up.
    """

    name = "switch_dma"
    called = "endpoint"
    order_is_fixed = False
    config: Assembly

    def __init__(
        self, config: Assembly, settings: Surroundings, *, ranks: Sequence[int] | None = None,
        **options: Any,
    ) -> None:
        self.check(config, settings)
        _check_rtl(config, settings)
        self._switch = replace(config.system.switch, trace=True)
        self._switch_map = switch_registers(self._switch)
        fabric = config.fabric
        first = settings.nodes
        self.parts = list(range(self.count(config, settings)) if ranks is None else ranks)
        if len(self.parts) < self.count(config, settings):
            if config.system.format is not Format.WORDS:
                raise FieldError(
                    "format", "must be WORDS for RTL among models, which have no other"
                )
        self._switch_numbers = [part - first for part in self.parts if part >= first]
        self.log = Log()
        memory = MemorySpec(size_bytes=128)  # unused, as switches have none
        self._retry = settings.retry
        model: Any
        if self._retry is None:
            model = compile_configured(Switch, self._switch, name="switch")
        else:
            links = RetrySwitchConfig(switch=self._switch, retry=self._retry)
            model = compile_configured(RetrySwitch, links, name="retry_switch")
        wire = LinkDirection.of_ring(settings, packet_flits=config.system.switch.packet_flits)
        switch = NodeSpec(
            engine=model, memory=memory,
            watched=trace_ports("taken", self._switch.ports, TAKEN.size),
        )
        super().__init__(
            config,
            settings,
            # Without those of links, whose interrupt hosts would take for a completed collective.
            registers=register_map(self._dma(config)),
            links=fabric_links(
                fabric, first, wire, plugged=0 if self._retry is None else self._switch.ports
            ),
            ranks=[part for part in self.parts if part < first],
            others={
                first + s: replace(switch, name=f"switch {s}") for s in self._switch_numbers
            },
            watched=trace_ports("took", config.system.dma.links, TOOK.size),
            skip_idle=False,  # a switch counts the cycles of its time-out
            outstanding_bursts=config.system.dma.outstanding_bursts + 1,
            **options,
        )

    # ---- Properties of an endpoint.

    @staticmethod
    def _dma(config: Assembly) -> Any:
        return replace(config.system.dma, trace=True)

    @staticmethod
    def component(config: Assembly | RetrySwitchDmaConfig) -> wiring.Component:
        if isinstance(config, Assembly):
            return SwitchDma(SwitchFabric._dma(config))
        return RetrySwitchDma(config)

    @staticmethod
    def with_retry(config: Assembly, retry: RetryConfig) -> RetrySwitchDmaConfig:
        return RetrySwitchDmaConfig(dma=SwitchFabric._dma(config), retry=retry)

    @classmethod
    def compiled(cls, config: Assembly | RetrySwitchDmaConfig, lanes: int = 1) -> Any:
        if isinstance(config, Assembly):
            dma = cls._dma(config)
            return compile_configured(SwitchDma, dma, name=cls.name, lanes=lanes)
        return compile_configured(RetrySwitchDma, config, name="retry_dma", lanes=lanes)

    # ---- Setting up.

    @property
    def switches(self) -> Sequence[Node]:
        """Nodes of the switches."""
        return self.system.nodes[len(self.ranks) :]

    def set_up(self, rank: int) -> Iterable[Write]:
        return self._words(
            self.registers, member_writes(self.registers, rank, members=self.settings.nodes)
        )

    def start_system(self) -> None:
        self._program()
        super().start_system()
        for node in self.nodes:
            self.write(node, "control", join=1)
        if len(self.parts) < self.count(self.config, self.settings):
            join(self.system, self.parts, self.config, self.settings, limit=_REST_CYCLES)
        self.system.run(max_cycles=_REST_CYCLES)
        for rank, node in zip(self.ranks, self.nodes, strict=True):
            if not self.read(node, "status")["ready"]:
                raise RuntimeError(f"endpoint {rank} has not heard from all others")
        if self._retry is None:
            for node in self.switches:
                node.reset_engine()
            self._program()
            self.system.run(max_cycles=_REST_CYCLES)
        self._sent = {
            (node.number, port): self.system.link_activity(node.number, port)
            for node in self.system.nodes for port in range(node.link_ports)
        }
        self._counted = self._counters()
        timeout = self._switch_map.registers["timeout"]
        for node in self.switches:
            word = timeout.pack(cycles=self.config.system.timeout_cycles)
            node.write(self._switch_map.offset("timeout"), word)

    def _program(self) -> None:
        fabric, c = self.config.fabric, self._switch
        behind = fabric.behind()
        for s, node in zip(self._switch_numbers, self.switches, strict=True):
            writes = [
                *region_writes(
                    c, REGION, expected=len(fabric.places), ports=fabric.trees[0][s],
                    behind=lambda p, s=s: behind(REGION, (s, p)),  # type: ignore[misc]
                    homes=fabric.homes[0],
                ),
                *route_writes(
                    [port if port >= 0 else None for port in fabric.routes[s]],
                    [any(w == s for w, _ in spots) for spots in fabric.places],
                ),
            ]
            for name, index, fields in writes:
                word = self._switch_map.registers[name].pack(**fields)
                node.write(self._switch_map.offset(name, index), word)

    @staticmethod
    def _words(registers: RegisterMap, writes: Iterable[FieldWrite]) -> Iterable[Write]:
        return [(name, registers.registers[name].pack(**fields)) for name, _, fields in writes]

    # ---- Commands.

    def start_writes(self, command: Command, number: int) -> Iterable[Write]:
        mode, format = self.config.system.mode, self.config.system.format
        return self._words(
            self.registers,
            command_writes(
                command.op, command.elements, source=command.source,
                destination=command.destination, tag=number % 256, pull=int(mode != "push"),
                **({} if format is Format.WORDS else {"format": format}),
            ),
        )

    @classmethod
    def reduced_by(
        cls, config: Any, settings: Surroundings, command: Command, inputs: Sequence[NDArray[Any]]
    ) -> NDArray[Any]:
        raise ValueError("what switches add depends on the order in which operands arrive")

    def judge(self, rank: int, node: Node, causes: dict[str, int]) -> None:
        found = ", ".join(name for name, on in causes.items() if on and name not in _QUIET)
        if causes["refused"]:
            error = CommandError(self.read(node, "refusal")["error"])
            raise CommandRefusedError(f"endpoint {rank} refused a command: {error.name.lower()}")
        if causes["aborted"]:
            abort = self.read(node, "abort")
            cause = AbortCause(abort["cause"])
            kind = _GIVEN_UP.get(cause, GivenUpError)
            origin = f"{cause.name.lower()} at endpoint {abort['endpoint']}"
            raise kind(f"endpoint {rank} reports: {found} ({origin})")
        if causes["invalid"] or causes["memory"]:
            raise MemoryAccessError(f"endpoint {rank} reports: {found}")
        if found:
            raise PacketDroppedError(f"endpoint {rank} reports: {found}")

    def recover(self) -> None:
        self.write(self.nodes[0], "control", abort=1)
        self._come_to_rest(INTERRUPTS)

    # ---- Data in memory.

    def store(self, node: Node, command: Command, array: NDArray[Any]) -> None:
        format = self.config.system.format
        if format in HALVES:
            array = np.frombuffer(packed(format, array), np.uint16)
        super().store(node, command, array)

    def result(self, node: Node, command: Command, rank: int) -> NDArray[np.uint32]:
        format = self.config.system.format
        if format not in HALVES:
            return super().result(node, command, rank)
        end = command.destination + 2 * command.elements
        halves = node.memory[command.destination : end].tobytes()
        return unpacked(format, halves).view(np.uint32)

    # ---- Results.

    def expectations(
        self, commands: Sequence[Command], data: Sequence[Sequence[NDArray[Any]]]
    ) -> list[list[NDArray[Any]]]:
        self.note_orders()
        sums = Sums(self.config, commands, data, self.log)
        return [[sums.result(n)] * self.settings.nodes for n in range(len(commands))]

    def note_orders(self) -> None:
        """Add the additions that were traced since the last call to the log."""
        plane_of = planes_of(self.config.fabric.places, self.config.fabric.cables)
        for node, part in zip(self.system.nodes, self.parts, strict=True):
            trace = self.system.signals(node.number)
            self.log.note(trace, part, part - self.settings.nodes, plane_of)

    def _counters(self) -> dict[str, int]:
        """Present values of the registers that count, summed over all nodes."""
        wanted: dict[str, list[Any]] = {}
        for node in self.switches:
            for name in EVENTS:
                wanted.setdefault(name, []).append(node.read(self._switch_map.offset(name)))
        for node in self.nodes:
            for name in _LANE_COUNTERS:
                for k in range(self.config.system.dma.links):
                    ticket = node.read(self.registers.offset(name, k))
                    wanted.setdefault(name, []).append(ticket)
        self.system.run(drain=False)
        found = {name: sum(each.value for each in of) for name, of in wanted.items()}
        return {**found, **self._link_counts()}

    def counts(self) -> Mapping[str, int]:
        now = self._counters()
        retry = [name for name in now if name.startswith(("frames_", "wires_"))]
        return {
            name: now[name] - self._counted[name]
            for name in (*EVENTS, *COUNTED, *retry) if name in now
        }

    def link_activity(self, rank: int, port: int) -> LinkActivity:
        """Load of the *port*-th link that is counted with a rank."""
        (sender,) = self.config.links[rank][port][1]
        planes = self.config.system.dma.links
        part, own = divmod(sender, planes) if isinstance(sender, int) else (
            self.settings.nodes + sender[0], sender[1]
        )
        number = self.parts.index(part)
        found = self.system.link_activity(number, own)
        joined = self._sent[number, own]
        return replace(
            found, node=rank, port=port, beats=found.beats - joined.beats,
            flits=found.flits - joined.flits,
            header_flits=found.header_flits - joined.header_flits,
        )


MOST_LATENCY_CYCLES = (RETRY_CYCLES - GUARD_CYCLES) // 2 - 20
"""Of a link: an end that counts its credits anew asks again after `RETRY_CYCLES`, and the answer
takes the guard, a round trip and the ends' own cycles."""
_QUIET = ("done", "stalled")
_REST_CYCLES = 1_000_000


def _check_rtl(config: Assembly, settings: Surroundings) -> None:
    """Raise a ``ValueError`` for features that the RTL lacks."""
    if settings.latency_cycles > MOST_LATENCY_CYCLES:
        what = f"must be at most {MOST_LATENCY_CYCLES} for RTL of switches"
        raise FieldError("latency_cycles", f"{what}, not {settings.latency_cycles}")
    regions = len(config.fabric.trees)
    if regions > 1:
        raise FieldError(
            "fabric", f"must have 1 region for RTL, where an all-reduce is in one, not {regions}"
        )
    if config.router_cycles:
        raise FieldError(
            "router_cycles", "must be 0 for RTL switches, which have cycles of their own, not "
            f"{config.router_cycles}"
        )
    if config.system.acknowledged:
        raise FieldError("acknowledged", "must be False for RTL, which has no such packets")
