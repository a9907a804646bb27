"""Compiled switches with endpoints in Python on delayed links."""

import random
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

from gen.compile import CompiledModel
from gen.configured import compile_configured
from hw.switch.config import SwitchConfig
from hw.switch.layouts import TAKEN
from hw.switch.registers import COUNTERS, register_map
from hw.switch.switch import Switch
from sim.rtl.switch.orders import Spot, switches_between
from sim.rtl.switch.writes import FieldWrite, region_writes, route_writes
from tb.switch.endpoint import Endpoint

__all__ = ["SwitchNode", "System", "behind_port"]


class Steps(Protocol):
    """Something that runs cycle by cycle."""

    def step(self) -> None:
        """Run a cycle."""


class SwitchNode:
    """An instance of a compiled switch, and its registers."""

    def __init__(self, model: CompiledModel, config: SwitchConfig) -> None:
        self.instance = model.instance()
        self.map = register_map(config)
        self.ports = config.ports
        for p in range(config.ports):
            self.instance.set(f"link_{p}_rx_valid", 0)

    def write(self, name: str, index: int | None = None, **fields: int) -> None:
        """Write a register while nothing else runs; it must be accepted."""
        assert self.offer(name, index, **fields) == 0, f"{name} refused"

    def offer(self, name: str, index: int | None = None, **fields: int) -> int:
        """Write a register while nothing else runs; return the response."""
        put, get = self.instance.set, self.instance.get
        put("csr_awaddr", self.map.offset(name, index))
        put("csr_awvalid", 1)
        put("csr_wdata", self.map.registers[name].pack(**fields))
        put("csr_wstrb", 15)
        put("csr_wvalid", 1)
        put("csr_bready", 1)
        self.instance.cycle()
        put("csr_awvalid", 0)
        put("csr_wvalid", 0)
        while not get("csr_bvalid"):
            self.instance.cycle()
        response = get("csr_bresp")
        self.instance.cycle()
        return response

    def offer_in(
        self, system: Steps, name: str, index: int | None = None, **fields: int
    ) -> int:
        """Write a register while *system* runs; return the response."""
        put, get = self.instance.set, self.instance.get
        put("csr_awaddr", self.map.offset(name, index))
        put("csr_wdata", self.map.registers[name].pack(**fields))
        put("csr_wstrb", 15)
        put("csr_bready", 1)
        for valid in ("csr_awvalid", "csr_wvalid"):
            put(valid, 1)
        system.step()
        for valid in ("csr_awvalid", "csr_wvalid"):
            put(valid, 0)
        while not get("csr_bvalid"):
            system.step()
        response = get("csr_bresp")
        system.step()
        return response

    def perform(self, writes: Iterable[FieldWrite]) -> None:
        """Perform register writes of `sim.rtl.switch.writes`."""
        for name, index, fields in writes:
            self.write(name, index, **fields)

    def read(self, name: str, index: int | None = None) -> dict[str, int]:
        """The fields of a register."""
        put, get = self.instance.set, self.instance.get
        put("csr_araddr", self.map.offset(name, index))
        put("csr_arvalid", 1)
        put("csr_rready", 1)
        self.instance.cycle()
        put("csr_arvalid", 0)
        while not get("csr_rvalid"):
            self.instance.cycle()
        word = get("csr_rdata")
        self.instance.cycle()
        return self.map.registers[name].unpack(word)

    def shown(self, port: int) -> tuple[int | None, int]:
        """The flit that leaves a port, or None, and the credits that the port returns."""
        get = self.instance.get
        sent = get(f"link_{port}_tx_payload") if get(f"link_{port}_tx_valid") else None
        return sent, get(f"link_{port}_rx_credit")

    def give(self, port: int, flit: int | None, credits: int) -> None:
        """Drive the inputs of a port: a flit or None, and credits."""
        put = self.instance.set
        put(f"link_{port}_rx_valid", flit is not None)
        if flit is not None:
            put(f"link_{port}_rx_payload", flit)
        put(f"link_{port}_tx_credit", credits)

    def counters(self) -> dict[str, int]:
        """All non-zero counters."""
        values = {name: self.read(name)["count"] for name in COUNTERS}
        return {name: value for name, value in values.items() if value}


class Programmed(Protocol):
    """Switches that a region is written to, and the endpoints behind their ports."""

    config: SwitchConfig
    switches: list[SwitchNode]

    def behind(
        self, end: Spot, members: Collection[int], links: Sequence[Iterable[int]]
    ) -> int:
        """Number of members behind the link at a port."""


def behind_port(
    system: Programmed, switch: int, members: Collection[int], links: Sequence[Iterable[int]]
) -> Callable[[int], int]:
    """Function of a port of *switch*: number of members behind its link."""
    return lambda port: system.behind((switch, port), members, links)


def program_region(
    system: Programmed,
    number: int,
    members: Sequence[int],
    links: Sequence[Sequence[int]],
    homes: Sequence[int] | None = None,
) -> None:
    """Program a region on all switches that have ports in *links*; homes default to members."""
    for s, (switch, ports) in enumerate(zip(system.switches, links)):
        switch.perform(
            region_writes(
                system.config, number, expected=len(members), ports=ports,
                behind=behind_port(system, s, members, links),
                homes=members if homes is None else homes,
            )
        )


class System:
    """Switches, cables between their ports, endpoints at other ports; one latency for all links.

    Parameters
    ----------
    config : SwitchConfig
    places : list of (switch, port)
        Port of each endpoint.
    cables : list of ((switch, port), (switch, port))
    expected : dict of int to int
        Operands per region.
    """

    def __init__(
        self,
        config: SwitchConfig,
        places: Sequence[Spot],
        cables: Sequence[tuple[Spot, Spot]] = (),
        *,
        expected: Mapping[int, int],
        latency: int = 3,
        seed: int = 1,
        gaps: float = 0.0,
        stalls: float = 0.0,
    ) -> None:
        model = compile_configured(Switch, config, name="switch")
        count = 1 + max(s for s, _ in [*places, *(end for cable in cables for end in cable)])
        rng = random.Random(seed)
        self.config = config
        self.switches = [SwitchNode(model, config) for _ in range(count)]
        self.places = places
        self.endpoints = [
            Endpoint(k, config, expected=expected, rng=rng, gaps=gaps, stalls=stalls)
            for k in range(len(places))
        ]
        self.peer = {a: b for cable in cables for a, b in (cable, cable[::-1])}
        self.at = dict(zip(places, self.endpoints))
        ends = [*self.peer, *places]
        # In flight to a port of a switch, and to its endpoint, an item per cycle of latency.
        self.to_switch: dict[Spot, deque[int | None]] = {
            end: deque([None] * latency) for end in ends
        }
        self.to_endpoint: dict[Spot, deque[int | None]] = {
            end: deque([None] * latency) for end in places
        }
        self.credits = {end: deque([0] * latency) for end in ends}
        self.endpoint_credits = {end: deque([0] * latency) for end in places}
        self.cycle = 0
        self.moved = 0
        # (region, address) -> sources of its operands, in the order of reduction
        self.taken: dict[tuple[int, int], list[int]] = {}
        # (switch, region, address, requester, tag) -> (source, count) of each addend of an answer
        self.answers: dict[tuple[int, int, int, int, int], list[tuple[int, int]]] = {}

    def region(
        self, number: int, members: Sequence[int], *, links: Sequence[Sequence[int]],
        homes: Sequence[int] | None = None,
    ) -> None:
        """Program a region on all switches; *links* gives each switch's ports of its tree."""
        program_region(self, number, members, links, homes)

    def behind(
        self, end: Spot, members: Collection[int], links: Sequence[Iterable[int]]
    ) -> int:
        """Number of members behind the link at a port."""
        if end in self.peer:
            s, p = self.peer[end]
            return sum(self.behind((s, q), members, links) for q in links[s] if q != p)
        return int(end in self.places and self.places.index(end) in members)

    def path(self, source: int, destination: int) -> list[int]:
        """Switches between two endpoints, the nearest to *destination* first."""
        return switches_between(self.peer, *(self.places[e][0] for e in (source, destination)))

    def routes(self, next_port: Callable[[int, int], int]) -> None:
        """Program routes: *next_port(switch, endpoint)* is the port that leads there."""
        for s, switch in enumerate(self.switches):
            ports = [next_port(s, e) for e in range(len(self.places))]
            switch.perform(route_writes(ports, [place[0] == s for place in self.places]))

    def step(self) -> None:
        for (s, p), arriving in self.to_switch.items():
            sent, freed = self.switches[s].shown(p)
            self.moved += sent is not None
            if (s, p) in self.peer:
                self.to_switch[self.peer[s, p]].append(sent)
                self.credits[self.peer[s, p]].append(freed)
            else:
                end = self.at[s, p]
                self.to_endpoint[s, p].append(sent)
                self.endpoint_credits[s, p].append(freed)
                flit = end.send()
                if flit is not None:
                    self.moved += 1
                    end.sent_at.append(self.cycle)
                arriving.append(flit)
                self.credits[s, p].append(end.freed())
                incoming = self.to_endpoint[s, p].popleft()
                if incoming is not None:
                    end.receive(incoming)
                end.paid(self.endpoint_credits[s, p].popleft())
        for (s, p), arriving in self.to_switch.items():
            self.switches[s].give(p, arriving.popleft(), self.credits[s, p].popleft())
        for switch in self.switches:
            switch.instance.cycle()
            if self.config.trace:
                self.log(switch)
        self.cycle += 1

    def log(self, switch: SwitchNode) -> None:
        """Log the order in which the tables of a switch reduce."""
        for p in range(self.config.ports):
            shown = switch.instance.get(f"taken_{p}")
            if shown & 1:
                of: Any = TAKEN.from_bits(shown)
                if of.pull:
                    number = self.switches.index(switch)
                    key = (number, of.region, of.address, of.destination, of.tag)
                    self.answers.setdefault(key, []).append((of.source, of.count))
                else:
                    self.taken.setdefault((of.region, of.address), []).append(of.source)

    def run(self, *, quiet: int = 150, deadline: int = 60_000) -> None:
        """Run until nothing has moved for *quiet* cycles."""
        begin, last = self.cycle, self.cycle
        while self.cycle - last < quiet:
            assert self.cycle - begin < deadline, "no end"
            before = self.moved
            self.step()
            if self.moved != before:
                last = self.cycle
        for switch in self.switches:
            for p in range(self.config.ports):
                switch.instance.set(f"link_{p}_rx_valid", 0)
                switch.instance.set(f"link_{p}_tx_credit", 0)
