# SPDX-License-Identifier: Apache-2.0
"""RTL endpoints on RTL switches, cycle by cycle: programs, faults and registers as a test says."""

import random
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from gen.compile import CompiledModel
from gen.configured import compile_configured
from hw.common.register_map import Register, RegisterMap
from hw.fp.ops import ReduceOp
from hw.link.retry_frame import RetryConfig
from hw.switch.config import SwitchConfig
from hw.switch.layouts import TAKEN
from hw.switch.registers import COUNTERS
from hw.switch.registers import register_map as switch_registers
from hw.switch.retry import RetrySwitch, RetrySwitchConfig
from hw.switch.switch import Switch
from hw.switch_dma.config import SwitchDmaConfig
from hw.switch_dma.dma import SwitchDma
from hw.switch_dma.home import TOOK
from hw.switch_dma.registers import register_map
from hw.switch_dma.retry import RetrySwitchDma, RetrySwitchDmaConfig
from sim.cycles.switch.fabric import Fabric
from sim.rtl.harness.host import Node, Ticket
from sim.rtl.harness.specs import (
    ExternalLink,
    HeaderFault,
    LinkDirection,
    MemorySpec,
    NodeSpec,
    PacketFault,
    StutterFault,
    split_links,
)
from sim.rtl.harness.system import System
from sim.rtl.switch.orders import Spot
from sim.rtl.switch.sums import Log, planes_of, trace_ports
from sim.rtl.switch.wire import fabric_links
from sim.rtl.switch.writes import (
    FieldWrite,
    command_writes,
    member_writes,
    region_writes,
    route_writes,
    unplugged_writes,
    withdrawal,
)

__all__ = ["WRITE_LATENCY", "EndpointNode", "RegisterNode", "SteppedFabric",
           "SteppedSwitches"]

WRITE_LATENCY = 2
"""Cycles from the last beat of a write burst to its response."""


@dataclass(frozen=True)
class RegisterRead:
    """A read of a register under way."""

    register: Register
    ticket: Ticket


class RegisterNode:
    """A node of a `SteppedFabric`, and its registers by name."""

    def __init__(self, system: "SteppedSwitches", node: Node, registers: RegisterMap) -> None:
        self.system, self.node, self.map = system, node, registers
        self.output = node.output

    def restart(self) -> None:
        """Reset: all state of the engine and its host is gone, memory stays."""
        self.node.reset_engine(host=True)

    def write(self, name: str, index: int | None = None, **fields: int) -> Ticket:
        """Queue a write, which must not be refused."""
        word = self.map.registers[name].pack(**fields)
        return self.node.write(self.map.offset(name, index), word)

    def try_write(self, name: str, index: int | None = None, **fields: int) -> Ticket:
        """Queue a write that may be refused."""
        word = self.map.registers[name].pack(**fields)
        return self.node.write(self.map.offset(name, index), word, allow_error=True)

    def offer(self, name: str, index: int | None = None, **fields: int) -> int:
        """Write a register now; return the response."""
        ticket = self.try_write(name, index, **fields)
        self.system.run(lambda: ticket.done)
        return ticket.response

    def perform(self, writes: Iterable[FieldWrite]) -> None:
        """Queue writes."""
        for name, index, fields in writes:
            self.write(name, index, **fields)

    def read(self, name: str, index: int | None = None) -> RegisterRead:
        """Queue a read, for `SteppedFabric.answers`."""
        return RegisterRead(self.map.registers[name], self.node.read(self.map.offset(name, index)))

    def ask(self, name: str, index: int | None = None) -> dict[str, int]:
        """Read a register now."""
        return self.system.answers([self.read(name, index)])[0]

    def counters(self) -> dict[str, int]:
        """All counters of a switch that are not 0, now."""
        found = self.system.answers([self.read(name) for name in COUNTERS])
        return {name: each["count"] for name, each in zip(COUNTERS, found) if each["count"]}


class EndpointNode(RegisterNode):
    """An endpoint, its memory, and its host, with one register access at a time.

    Members
    -------
    memory : array of uint8
    rows : dict of int to int
        Region -> the endpoint's row.
    """

    def __init__(self, system: "SteppedFabric", node: Node, registers: RegisterMap) -> None:
        super().__init__(system, node, registers)
        self.fabric = system
        self.number, self.memory = node.number, node.memory
        self.rows: dict[int, int] = {}

    def configure(self, *, region: int = 0, row: int = 0, **settings: int) -> None:
        """Queue what makes it a member; *settings* as of `member_writes`."""
        self.rows = {r: k for r, k in self.rows.items() if k != row} | {region: row}
        self.perform(member_writes(self.map, self.number, region=region, row=row, **settings))

    def join(self) -> None:
        for row in self.rows.values():
            self.write("control", row, join=1)

    def all_reduce(self, op: ReduceOp, elements: int, *, region: int = 0, **fields: Any) -> None:
        """Queue a command; *fields* as of `command_writes`."""
        if self.fabric.dma.regions > 1:
            fields["region"] = self.rows[region]
        self.perform(command_writes(op, elements, **fields))

    def refuse(self, reads: range = range(0), writes: range = range(0)) -> None:
        """Answer reads, and writes, of these addresses with errors from now on."""
        for span in filter(None, (reads, writes)):
            self.node.fail_memory(span.start, len(span), reads=span is reads, writes=span is writes)

    def put(self, address: int, words: NDArray[Any]) -> None:
        raw = np.ascontiguousarray(words).view(np.uint8)
        self.memory[address : address + len(raw)] = raw

    def words(self, address: int, count: int, dtype: DTypeLike) -> NDArray[Any]:
        end = address + np.dtype(dtype).itemsize * count
        return self.memory[address:end].view(dtype).copy()


class SteppedSwitches:
    """Switches of one or several planes, and cables between them; endpoints are in the same system,
    or outside.

    Ports of switches without a cable are open ends: what is sent there is lost.

    Parameters
    ----------
    config : SwitchConfig
    model : compiled switch
    fabric : Fabric
        Ports at which the links of each endpoint end, cables, and routes.
    endpoints : sequence of NodeSpec
        Without any, links to endpoints lead outside.
    latency : int
        Cycles of every link.
    seed : int
        Seed of all random draws.
    options
        Those of `System`.

    Members
    -------
    system : System
        Endpoints, then switches.
    switches : list of RegisterNode
    groups : dict of int to list of int
        Region -> its members.
    """

    def __init__(
        self, config: SwitchConfig, model: CompiledModel, fabric: Fabric,
        endpoints: Sequence[NodeSpec] = (), *, latency: int = 3, seed: int = 1, **options: Any,
    ) -> None:
        self.config, self.fabric, self.places = config, fabric, fabric.places
        self.latency, self.seed = latency, seed
        self.patience = 0  # cycles without progress in which a lost frame is resent
        self.peer = {a: b for cable in fabric.cables for a, b in (cable, cable[::-1])}
        self.at = {spot: (node, k) for node, each in enumerate(self.places)
                   for k, spot in enumerate(each)}
        self.ends = [*self.peer, *self.at]
        wire = LinkDirection(latency_cycles=latency, packet_flits=config.packet_flits)
        self._first, count = len(endpoints), len(self.places)
        inside, outside = split_links(
            fabric_links(fabric, count, wire),
            [*range(self._first), *range(count, count + fabric.switches)],
        )
        outside += [ExternalLink(node=self._first + s, port=p, outward=wire)
                    for s in range(fabric.switches) for p in range(config.ports)
                    if (s, p) not in self.ends]
        taken = trace_ports("taken", config.ports, TAKEN.size) if config.trace else ()
        self.system = System(
            [*endpoints, *[NodeSpec(engine=model, watched=taken)] * fabric.switches], inside,
            external=outside, seed=seed, skip_idle=False, **options,
        )
        registers = switch_registers(config)
        self.switches = [RegisterNode(self, each, registers)
                         for each in self.system.nodes[self._first :]]
        self.groups: dict[int, list[int]] = {}
        self._programmed: list[tuple[int, FieldWrite]] = []
        self._log = Log()
        self._planes = planes_of(self.places, fabric.cables)

    @property
    def cycle(self) -> int:
        return self.system.cycle

    @property
    def log(self) -> Log:
        """Additions of all switches and endpoints that have ``trace``."""
        for node in self.system.nodes:
            trace = self.system.signals(node.number)
            self._log.note(trace, node.number, node.number - self._first, self._planes)
        return self._log

    # ---- Programming.

    def region(
        self, members: Iterable[int], *, links: Sequence[Sequence[int]], region: int = 0,
        timeout: int | None = None, homes: Sequence[int] | None = None,
    ) -> None:
        """Program a region on all switches; *links* gives each switch's ports of its tree. With
        *timeout*, in cycles, that of tables, too."""
        members = list(members)
        self.groups[region] = sorted(members)
        rows = self.region_rows(members, links=links, region=region, homes=homes)
        periods = [(s, ("timeout", None, {"cycles": timeout})) for s, _ in enumerate(links)
                   if timeout is not None]
        self.program([*rows, *periods])

    def region_rows(
        self, members: Sequence[int], *, links: Sequence[Sequence[int]], region: int = 0,
        homes: Sequence[int] | None = None,
    ) -> Iterator[tuple[int, FieldWrite]]:
        """Writes of a region, each with the number of its switch; homes default to members."""
        for s, ports in enumerate(links):
            for write in region_writes(
                self.config, region, expected=len(members), ports=ports,
                behind=lambda p, s=s: self.behind((s, p), members, links),  # type: ignore[misc]
                homes=members if homes is None else homes,
            ):
                yield s, write

    def route_rows(self) -> Iterator[tuple[int, FieldWrite]]:
        """Writes of the fabric's routes, each with the number of its switch."""
        for s, row in enumerate(self.fabric.routes):
            ports = [None if port < 0 else port for port in row]
            local = [any(which == s for which, _ in spots) for spots in self.places]
            used = [p for which, p in self.ends if which == s]
            for write in (*route_writes(ports, local), *unplugged_writes(self.config, used)):
                yield s, write

    def withdraw(self, region: int) -> None:
        """Remove a region from all switches."""
        del self.groups[region]
        self.program((s, withdrawal(region)) for s, _ in enumerate(self.switches))

    def program(self, rows: Iterable[tuple[int, FieldWrite]]) -> None:
        """Write rows to switches now, and whenever they are restarted."""
        rows = list(rows)
        self._programmed += rows
        self._perform(rows)

    def _perform(self, rows: Iterable[tuple[int, FieldWrite]]) -> None:
        last = {s: self.switches[s].write(name, index, **fields)
                for s, (name, index, fields) in rows}
        self.run(lambda: all(each.done for each in last.values()))

    def behind(
        self, end: Spot, members: Collection[int], links: Sequence[Iterable[int]]
    ) -> int:
        """Number of members behind the link at a port."""
        if end in self.peer:
            s, p = self.peer[end]
            return sum(self.behind((s, q), members, links) for q in links[s] if q != p)
        return int(end in self.at and self.at[end][0] in members)

    def pruned(self, members: Collection[int]) -> list[list[int]]:
        """Ports of the fabric's first tree that lead to some of *members* but not to all."""
        links = self.fabric.trees[0]
        behind = [{p: self.behind((s, p), members, links) for p in ports}
                  for s, ports in enumerate(links)]
        return [[p for p, count in each.items() if 0 < count < len(members)] for each in behind]

    def restart_switches(self, *numbers: int) -> None:
        """Reset these switches, or all of them, alone, and program them as before; only links with
        retry notice that."""
        chosen = numbers or range(len(self.switches))
        for s in chosen:
            self.switches[s].restart()
        self._perform(each for each in self._programmed if each[0] in chosen)

    # ---- Time.

    def step(self, cycles: int = 1) -> None:
        self.system.advance(self.cycle + int(cycles))

    def run(self, until: Callable[[], bool], *, deadline: int = 60_000) -> int:
        """Run until *until()* is true; return the cycles spent."""
        begin = self.cycle
        while not until():
            assert self.cycle - begin < deadline, "no end"
            self.step()
        return self.cycle - begin

    @property
    def quiet_since(self) -> int:
        """See `System.quiet_since`."""
        return self.system.quiet_since

    def settle(self, *, quiet: int = 100, deadline: int = 60_000) -> None:
        """Run until hosts have no accesses left and nothing has moved for *quiet* cycles."""
        begin, quiet = self.cycle, quiet + self.patience
        self.step()  # hosts begin
        while (left := max(begin, self.quiet_since) + quiet - self.cycle) > 0:
            assert self.cycle - begin < deadline, "no end"
            self.step(min(left, deadline))

    def answers(self, readings: Sequence[RegisterRead]) -> list[dict[str, int]]:
        """Run until reads are done; return what they read."""
        self.run(lambda: all(each.ticket.done for each in readings))
        return [each.register.unpack(each.ticket.value) for each in readings]


class SteppedFabric(SteppedSwitches):
    """Switches of one or several planes, cables between them, endpoints with a link per plane.

    All random draws follow from *seed*, as in the cycle model.

    Parameters
    ----------
    switch, dma : configurations
    fabric : Fabric
        Ports at which the links of each endpoint end, and cables.
    latency : int
        Cycles of every link.
    seed : int
    stalls : float
        Stall rate of memories, 0 to 1.
    memory_bytes : int
        Size of each endpoint's memory.
    retry : RetryConfig or None
        Configuration of all links; None without retry, so that wires must be error-free.
    faults : float
        Probability with which every wire loses, repeats and damages a frame, each.
    mode : str
        Mode of reduction: ``push``; ``pull``; ``whole``, pull in which own operands travel,
        too.
    switch_type : type
        Type of the switches, without *retry*: `Switch`, or one like it.

    Members
    -------
    nodes : list of EndpointNode
    """

    timeout: int

    def __init__(
        self,
        switch: SwitchConfig,
        dma: SwitchDmaConfig,
        fabric: Fabric,
        *,
        latency: int = 3,
        seed: int = 1,
        stalls: float = 0.0,
        memory_bytes: int = 1 << 16,
        retry: RetryConfig | None = None,
        faults: float = 0.0,
        mode: str = "push",
        switch_type: type[Switch] = Switch,
        **options: Any,
    ) -> None:
        assert mode in ("push", "pull", "whole")
        if retry is None:
            switch_model = compile_configured(switch_type, switch, name="switch")
            dma_model = compile_configured(SwitchDma, dma, name="switch_dma")
        else:
            links = RetrySwitchConfig(switch=switch, retry=retry)
            ends = RetrySwitchDmaConfig(dma=dma, retry=retry)
            switch_model = compile_configured(RetrySwitch, links, name="retry_switch")
            dma_model = compile_configured(RetrySwitchDma, ends, name="retry_dma")
            switch, dma = links.switch, ends.dma
        rng = random.Random(seed)
        self.read_latency = [rng.randrange(2, 9) for _ in fabric.places]
        took = trace_ports("took", dma.links, TOOK.size) if dma.trace else ()
        specs = [
            NodeSpec(
                engine=dma_model, watched=took, memory=MemorySpec(
                    size_bytes=memory_bytes, read_latency_cycles=cycles, stall_probability=stalls,
                    write_latency_cycles=WRITE_LATENCY,
                    outstanding_bursts=dma.outstanding_bursts + 1,
                ),
            )
            for cycles in self.read_latency
        ]
        super().__init__(
            switch, switch_model, fabric, specs, latency=latency, seed=seed, **options
        )
        self.dma, self.retry, self.mode, self.stalls = dma, retry, mode, stalls
        self.patience = 0 if retry is None else 3 * retry.timeout_cycles
        registers = register_map(dma)
        first = len(specs)
        self.nodes = [EndpointNode(self, each, registers) for each in self.system.nodes[:first]]
        self.wires = [*((first + s, p) for s, p in self.ends), *self.at.values()]
        self.strain(faults, faults, faults)

    def restart(self) -> None:
        """Reset everything but memories; program the switches as before."""
        for mended in (False, True):  # nothing stays on wires
            for wire in self.wires:
                self.system.cut(*wire, mended=mended)
        for node in self.nodes:
            node.restart()
        self.restart_switches()

    # ---- Faults, of the wire of the sending end: number of a node in `system`, and its port.

    def to_node(self, spot: Spot) -> Spot:
        """The wire to the endpoint at *spot*."""
        return len(self.nodes) + spot[0], spot[1]

    def to_switch(self, spot: Spot) -> Spot:
        """The wire to the switch at *spot*, from an endpoint or another switch."""
        other = self.peer.get(spot)
        return self.at[spot] if other is None else self.to_node(other)

    def strain(self, loss: float = 0.0, repetition: float = 0.0, damage: float = 0.0) -> None:
        """Let every wire lose, repeat and damage frames with these probabilities from now on. Half
        of the damaged ones have wrong bits, the others a flit too few or too many, or a wrong mark.
        """
        for wire in self.wires:
            self.system.strain(*wire, loss=loss, repetition=repetition, damage=damage / 2,
                               mangling=damage / 2)

    def met(self) -> dict[str, int]:
        """Frames that wires have damaged, lost and repeated at random."""
        every = [self.system.met(*wire) for wire in self.wires]
        return {name: sum(each[name] for each in every) for name in every[0]}

    def hit(self, wire: Spot, *hits: int | None, stutter: int | None = None) -> None:
        """Hit the next packets on a wire, one by one: None loses it, a number is of the bits that
        are inverted in its header. Or *stutter*: this flit of the next one that has it, counted
        from the header, is sent twice."""
        node, port = wire
        begun = self.system.link_activity(*wire).header_flits
        for packet, hit in enumerate(hits, begun):
            self.system.inject(
                PacketFault(node=node, port=port, packet=packet) if hit is None else HeaderFault(
                    node=node, port=port, packet=packet,
                    bits=tuple(bit for bit in range(hit.bit_length()) if hit >> bit & 1),
                )
            )
        if stutter is not None:
            self.system.inject(StutterFault(node=node, port=port, packet=begun, flit=stutter))

    def tap(self, wire: Spot) -> Spot:
        """Prepare a wire for added packets, see `System.tap`, and return it."""
        self.system.tap(*wire, self.dma.payload_flits)
        return wire

    def add(self, wire: Spot, packet: tuple[Sequence[int], int | None]) -> None:
        """Add a packet on a wire that is tapped: its flits, and its class, see
        `System.add_packet`."""
        self.system.add_packet(*wire, *packet)

    def added(self, *wires: Spot) -> int:
        """Number of packets of `add` that have not been sent."""
        return sum(self.system.added(*wire) for wire in wires)

    def links(self, name: str) -> list[int]:
        """A signal of the links of all ends, with retry only: ``up`` or ``failed``."""
        return [self.system.nodes[node].output(name) >> port & 1 for node, port in self.wires]

    def flits(self, node: int, link: int) -> int:
        """Flits that an endpoint has sent by a link."""
        return self.system.link_activity(node, link).flits

    def ask(
        self, name: str, index: int | None = None, nodes: Sequence[RegisterNode] | None = None
    ) -> list[dict[str, int]]:
        """Read a register of all endpoints, or of *nodes*, now."""
        parts = self.nodes if nodes is None else nodes
        return self.answers([node.read(name, index) for node in parts])
