"""RTL switches with RTL endpoints, from numpy arrays to numpy arrays."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
from amaranth.lib import wiring
from numpy.typing import NDArray

from gen.configured import compile_configured
from gen.waves import TracedSignal
from hw.common.register_map import RegisterMap
from hw.switch.reduction_unit import TAKEN
from hw.switch.registers import register_map as switch_registers
from hw.switch.switch import Switch
from hw.switch_dma.dma import SwitchDma
from hw.switch_dma.home import TOOK
from hw.switch_dma.layouts import AbortCause
from hw.switch_dma.registers import INTERRUPTS, CommandError, register_map
from sim.cycles.activity import LinkActivity
from sim.cycles.ring import Command, RingSettings
from sim.cycles.switch.fabric import Fabric
from sim.cycles.switch.hosts import Assembly
from sim.cycles.switch.state import COUNTED, EVENTS
from sim.rtl.ace_writes import Write
from sim.rtl.errors import (
    CommandRefusedError,
    DisagreementError,
    GivenUpError,
    MemoryAccessError,
    NoProgressError,
    PacketDroppedError,
)
from sim.rtl.host import Node
from sim.rtl.ring import RingDriver
from sim.rtl.specs import LinkDirection, LinkSpec, MemorySpec, NodeSpec
from sim.rtl.switch_orders import (
    Part,
    dtype_of,
    note_home,
    note_table,
    pulled,
    pushed,
    switches_between,
)
from sim.rtl.switch_writes import (
    FieldWrite,
    command_writes,
    member_writes,
    region_writes,
    route_writes,
)
from sim.rtl.switches import SwitchRules

__all__ = ["SwitchFabric"]

_REGION = 0
_GIVEN_UP = {AbortCause.DISAGREEMENT: DisagreementError, AbortCause.WATCHDOG: NoProgressError}
_LANE_COUNTERS = ("operands", "loads", "answers", "partials", "finished", "results", "wave_wait",
                  "barrier")
"""Counters of endpoints of which cycle models have the same."""


@dataclass
class _Log:
    """See `sim.rtl.switch_orders.Orders`."""

    taken: dict[Any, list[int]] = field(default_factory=dict)
    answers: dict[Any, list[Part]] = field(default_factory=dict)
    took: dict[Any, list[Part]] = field(default_factory=dict)


def _ports(name: str, count: int, width: int) -> tuple[TracedSignal, ...]:
    """The trace ports of a model."""
    return tuple(
        TracedSignal(path=(f"{name}_{k}",), port=f"{name}_{k}", width=width) for k in range(count)
    )


class SwitchFabric(SwitchRules, RingDriver):
    """Endpoints at switches that reduce, all of them compiled, each endpoint with a host and its
    memory. Switches have hosts, too, which program them.

    All endpoints are members of region 0, whose tree is the first one of the fabric. They join
    first; then switches are reset and programmed anew, so that their arbiters stand as in the cycle
    model. Periods of time-outs begin with the scripts.

    Parameters
    ----------
    config : Assembly
    settings : RingSettings
    options
        As of :class:`RingDriver` and :class:`sim.rtl.system.System` (threads, ...).

    Raises
    ------
    ValueError
        For what the RTL cannot do: several regions, delays of packets alone, acknowledgements.
    """

    name = "switch_dma"
    config: Assembly

    def __init__(self, config: Assembly, settings: RingSettings, **options: Any) -> None:
        self.check(config, settings)
        _check_rtl(config)
        self._switch = replace(config.system.switch, trace=True)
        self._switch_map = switch_registers(self._switch)
        fabric = config.fabric
        first = settings.nodes
        memory = MemorySpec(size_bytes=128)  # which switches do not have
        model = compile_configured(Switch, self._switch, name="switch")
        switch = NodeSpec(
            engine=model, memory=memory, watched=_ports("taken", self._switch.ports, TAKEN.size)
        )
        super().__init__(
            config,
            settings,
            registers=register_map(self._dma(config)),
            links=_links(fabric, first, LinkDirection.of_ring(settings)),
            others={first + s: switch for s in range(fabric.switches)},
            watched=_ports("took", config.system.dma.links, TOOK.size),
            skip_idle=False,  # a switch counts the cycles of its time-out
            outstanding_bursts=config.system.dma.outstanding_bursts + 1,
            **options,
        )

    # ---- What an endpoint says of itself.

    @staticmethod
    def _dma(config: Assembly) -> Any:
        return replace(config.system.dma, trace=True)

    @staticmethod
    def component(config: Assembly) -> wiring.Component:
        return SwitchDma(SwitchFabric._dma(config))

    @classmethod
    def compiled(cls, config: Assembly, lanes: int = 1) -> Any:
        return compile_configured(SwitchDma, cls._dma(config), name=cls.name, lanes=lanes)

    # ---- Setting up.

    @property
    def switches(self) -> Sequence[Node]:
        """Nodes of the switches."""
        return self.system.nodes[len(self.ranks) :]

    def set_up(self, rank: int) -> Iterable[Write]:
        return self._words(self.registers, member_writes(rank, members=self.settings.nodes))

    def start_system(self) -> None:
        self._program()
        super().start_system()
        for node in self.nodes:
            self.write(node, "control", join=1)
        self.system.run(max_cycles=_REST_CYCLES)
        for rank, node in zip(self.ranks, self.nodes, strict=True):
            if not self.read(node, "status")["ready"]:
                raise RuntimeError(f"endpoint {rank} has not heard from all others")
        for node in self.switches:
            node.reset_engine()
        self._program()
        self.system.run(max_cycles=_REST_CYCLES)
        self._sent = {
            (node.number, port): self.system.link_activity(node.number, port)
            for node in self.system.nodes for port in range(node.link_ports)
        }
        self._counted = self._counters()
        self._noted = [len(self.system.signals(n.number).samples) for n in self.system.nodes]
        timeout = self._switch_map.registers["timeout"]
        for node in self.switches:
            word = timeout.pack(cycles=self.config.system.timeout_cycles)
            node.write(self._switch_map.offset("timeout"), word)

    def _program(self) -> None:
        fabric, c = self.config.fabric, self._switch
        behind = fabric.behind()
        for s, node in enumerate(self.switches):
            writes = [
                *region_writes(
                    c, _REGION, expected=len(fabric.places), ports=fabric.trees[0][s],
                    behind=lambda p, s=s: behind(_REGION, (s, p)),  # type: ignore[misc]
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
        mode = self.config.system.mode
        return self._words(
            self.registers,
            command_writes(
                command.op, command.elements, source=command.source,
                destination=command.destination, tag=number % 256, pull=int(mode != "push"),
            ),
        )

    @classmethod
    def reduced_by(
        cls, config: Any, settings: RingSettings, command: Command, inputs: Sequence[NDArray[Any]]
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

    # ---- What came out.

    def expectations(
        self, commands: Sequence[Command], data: Sequence[Sequence[NDArray[Any]]]
    ) -> list[list[NDArray[Any]]]:
        log, dma = self._orders(), self.config.system.dma
        before = [0] * dma.links
        made = []
        for command, inputs in zip(commands, data, strict=True):
            whole = self._replayed(log, command, inputs, before)
            made.append([whole] * self.settings.nodes)
            blocks = -(-command.elements // dma.block_elements)
            before = [base + 1 + len(range(k, blocks, dma.links)) for k, base in enumerate(before)]
        return made

    def _replayed(
        self, log: _Log, command: Command, inputs: Sequence[NDArray[Any]], before: Sequence[int]
    ) -> NDArray[Any]:
        """The result by the orders that were logged; *before*: blocks that each link has seen."""
        c, size = self.config, self.config.system.dma.block_elements
        dma, op, nodes = c.system.dma, command.op, self.settings.nodes
        blocks = -(-command.elements // size)
        padded: NDArray[Any] = np.zeros((nodes, blocks * size), dtype_of(op))
        for rank, array in enumerate(inputs):
            padded[rank, : command.elements] = array
        peer = {a: b for cable in c.fabric.cables for a, b in (cable, cable[::-1])}
        places = c.fabric.places

        @cache
        def way(plane: int, source: int, requester: int) -> list[int]:
            return switches_between(peer, places[source][plane][0], places[requester][plane][0])

        total: NDArray[Any] = np.zeros(blocks * size, dtype_of(op))
        for block in range(blocks):
            plane = block % dma.links
            number = before[plane] + 1 + block // dma.links
            address = (number & (1 << dma.number_bits) - 1) * dma.payload_flits
            part = slice(block * size, (block + 1) * size)
            words = dict(enumerate(padded[:, part]))
            if c.system.mode == "push":
                total[part] = pushed(log, plane, _REGION, address, op, words)
            else:
                to = number % nodes
                total[part] = pulled(
                    log, lambda source, k=plane, to=to: way(k, source, to),  # type: ignore[misc]
                    plane, _REGION, address, to, op, words,
                )
        return total[: command.elements]

    def _orders(self) -> _Log:
        log, spots = _Log(), self.config.fabric
        plane_of = _planes(spots)
        for node in self.system.nodes:
            trace = self.system.signals(node.number)
            if not trace.complete:
                raise RuntimeError(
                    f"node {node.number} has added more operands than there is room to note: the "
                    "order of its sums is not known"
                )
            switch = node.number - len(self.ranks)
            for _, place, value in trace.changes():
                name = trace.signals[place].port
                if not value & 1:
                    continue
                if name.startswith("taken_"):
                    note_table(log, switch, plane_of[switch], TAKEN.from_bits(value))
                elif name.startswith("took_"):
                    note_home(log, int(name.removeprefix("took_")), _REGION, TOOK.from_bits(value))
        return log

    def _counters(self) -> dict[str, int]:
        """What registers have counted by now, over all nodes."""
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
        return {name: sum(each.value for each in of) for name, of in wanted.items()}

    def counts(self) -> Mapping[str, int]:
        now = self._counters()
        return {
            name: now[name] - self._counted[name] for name in (*EVENTS, *COUNTED) if name in now
        }

    def link_activity(self, rank: int, port: int) -> LinkActivity:
        """Of the *port*-th link that is counted with a rank."""
        (sender,) = self.config.links[rank][port][1]
        planes = self.config.system.dma.links
        number, own = divmod(sender, planes) if isinstance(sender, int) else (
            len(self.ranks) + sender[0], sender[1]
        )
        found = self.system.link_activity(number, own)
        joined = self._sent[number, own]
        return replace(
            found, node=rank, port=port, beats=found.beats - joined.beats,
            flits=found.flits - joined.flits,
            header_flits=found.header_flits - joined.header_flits,
        )


_QUIET = ("done", "stalled")
_REST_CYCLES = 1_000_000


def _check_rtl(config: Assembly) -> None:
    """Raise a ``ValueError`` for what the RTL does not have."""
    regions = len(config.fabric.trees)
    if regions > 1:
        raise ValueError(
            f"fabric must have 1 region for RTL, where an all-reduce is in one, not {regions}"
        )
    if config.router_cycles:
        raise ValueError(
            "router_cycles must be 0 for RTL switches, which have cycles of their own, not "
            f"{config.router_cycles}"
        )
    if config.system.acknowledged:
        raise ValueError("acknowledged must be False for RTL, which has no such packets")


def _links(fabric: Fabric, first: int, wire: LinkDirection) -> list[LinkSpec]:
    """All links; switches are numbered from *first* on."""
    ends = [((rank, k), (first + s, p)) for rank, spots in enumerate(fabric.places)
            for k, (s, p) in enumerate(spots)]
    ends += [((first + s, p), (first + t, q)) for (s, p), (t, q) in fabric.cables]
    return [
        LinkSpec(node_a=a, port_a=p, node_b=b, port_b=q, forward=wire)
        for (a, p), (b, q) in ends
    ]


def _planes(fabric: Fabric) -> dict[int, int]:
    """By switch, its plane."""
    found = {s: k for spots in fabric.places for k, (s, _) in enumerate(spots)}
    for (s, _), (t, _) in fabric.cables:
        for a, b in ((s, t), (t, s)):
            if a in found:
                found.setdefault(b, found[a])
    return found
