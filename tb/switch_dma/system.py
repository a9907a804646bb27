"""RTL endpoints on RTL switches, cycle by cycle."""

import random
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

from gen.configured import compile_configured
from hw.link.packet import FLIT_BITS
from hw.link.retry_frame import RetryConfig
from hw.switch.config import SwitchConfig
from hw.switch.layouts import TAKEN
from hw.switch.retry import RetrySwitch, RetrySwitchConfig
from hw.switch.switch import Switch
from hw.switch_dma.config import SwitchDmaConfig
from hw.switch_dma.dma import SwitchDma
from hw.switch_dma.home import TOOK
from hw.switch_dma.retry import RetrySwitchDma, RetrySwitchDmaConfig
from sim.cycles.switch.fabric import Fabric
from sim.rtl.switch.orders import Part, Spot, note_home, note_table
from sim.rtl.switch.writes import route_writes, unplugged_writes, withdrawal
from tb.link.lossy import Faults, LossyWire
from tb.switch.system import SwitchNode, program_region
from tb.switch_dma.node import DmaNode, Memory

__all__ = ["DmaSystem", "Memories"]


class Wire(Protocol):
    """One direction of a link: flits one way, credits of the same end beside them."""

    def put(self, flit: int | None, credits: int) -> None:
        """Send a flit, or None, and credits in this cycle."""

    def take(self) -> tuple[int | None, int]:
        """Return the flit, or None, and the credits that arrive in this cycle."""


class _Wire:
    """One direction of a link: flits one way, their credits the other way, both delayed."""

    def __init__(self, latency: int) -> None:
        self.flits: deque[int | None] = deque([None] * latency)
        self.credits = deque([0] * latency)

    def put(self, flit: int | None, credits: int) -> None:
        self.flits.append(flit)
        self.credits.append(credits)

    def take(self) -> tuple[int | None, int]:
        return self.flits.popleft(), self.credits.popleft()


class _BadWire:
    """One direction of a link with retry, whose credits are in the frames."""

    def __init__(self, wire: LossyWire) -> None:
        self.wire = wire
        self.now: int | None = None

    def put(self, flit: int | None, credits: int) -> None:
        assert not credits, "a credit beside the frames"
        self.now = self.wire.step(flit)

    def take(self) -> tuple[int | None, int]:
        return self.now, 0


class Memories(NamedTuple):
    """Memories of the endpoints, of so many *bytes* each; *by_cycle*: they draw their stalls as
    those of the cycle model do."""

    bytes: int = 1 << 16
    by_cycle: bool = False


_MEMORIES = Memories()


class DmaSystem:
    """Switches of one or several planes, cables between them, endpoints with a link per plane.

    Parameters
    ----------
    switch, dma : configurations
    fabric : Fabric
        Ports at which the links of each endpoint end, and cables.
    latency : int
        Cycles of every link.
    seed : int
        Seed of all stalls.
    stalls : float
        Stall rate of memories, 0 to 1.
    memory : Memories
    retry : RetryConfig or None
        Configuration of all links; None without retry, so that wires must be error-free.
    faults : Faults or None
        Faults of all wires.
    mode : str
        Mode of reduction: ``push``; ``pull``; ``whole``, pull in which own operands travel,
        too.
    switch_type : type
        Type of the switches, without *retry*: `Switch`, or one like it.
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
        memory: Memories = _MEMORIES,
        retry: RetryConfig | None = None,
        faults: Faults | None = None,
        mode: str = "push",
        switch_type: type[Switch] = Switch,
    ) -> None:
        places, cables = fabric.places, fabric.cables
        assert mode in ("push", "pull", "whole")
        self.mode = mode
        if retry is None:
            switch_model = compile_configured(switch_type, switch, name="switch")
            dma_model = compile_configured(SwitchDma, dma, name="switch_dma")
        else:
            links = RetrySwitchConfig(switch=switch, retry=retry)
            ends = RetrySwitchDmaConfig(dma=dma, retry=retry)
            switch_model = compile_configured(RetrySwitch, links, name="retry_switch")
            dma_model = compile_configured(RetrySwitchDma, ends, name="retry_dma")
            switch, dma = links.switch, ends.dma
        spots = [spot for each in places for spot in each]
        spots += [end for cable in cables for end in cable]
        rng = random.Random(seed)
        self.config, self.dma, self.fabric, self.places = switch, dma, fabric, places
        self.latency, self.seed, self.stalls = latency, seed, stalls
        # Cycles without progress in which a lost frame is resent.
        self.patience = 0 if retry is None else 3 * retry.timeout_cycles
        self.retry, self.faults = retry, faults or Faults()
        self.groups: dict[int, list[int]] = {}  # region -> its members
        self._programmed: list[Callable[[], None]] = []
        self._switch_model, self._count = switch_model, 1 + max(spots)[0]
        self.nodes = [
            DmaNode(dma_model, dma, k,
                    Memory(memory.bytes, rng=None if memory.by_cycle else rng, seed=seed, node=k,
                           stalls=stalls, latency=rng.randrange(2, 9)))
            for k in range(len(places))
        ]
        self.peer = {a: b for cable in cables for a, b in (cable, cable[::-1])}
        self.at = {spot: (node, k) for node, each in enumerate(places)
                   for k, spot in enumerate(each)}
        self._rng = rng
        self._power_on()
        self.cycle = 0
        self.moved = 0
        self.flits: dict[tuple[int, int], int] = {}  # (node, link) -> flits sent
        # (plane, region, address) -> sources, in the order of the table
        self.taken: dict[Any, list[int]] = {}
        # (switch, region, address, requester, tag) -> (source, count) of each addend of an answer
        self.answers: dict[Any, list[Part]] = {}
        # (plane, region, address) -> (source, count) of each addend at the home or the requester
        self.took: dict[Any, dict[int, list[Part]]] = {}
        self.plane: dict[int, int | None] = {
            s: k for each in places for k, (s, _) in enumerate(each)
        }
        for a, b in cables:
            self.plane.setdefault(a[0], self.plane.get(b[0]))
            self.plane.setdefault(b[0], self.plane.get(a[0]))

    def _wire(self) -> Wire:
        if self.retry is None:
            return _Wire(self.latency)
        return _BadWire(LossyWire(
            self.latency, self._rng, self.faults, bits=FLIT_BITS + 1, start=FLIT_BITS,
            flits=self.config.packet_flits,
        ))

    def _make_switches(self) -> list[SwitchNode]:
        return [SwitchNode(self._switch_model, self.config) for _ in range(self._count)]

    def _power_on(self) -> None:
        self.switches = self._make_switches()
        self.to_switch = {end: self._wire() for end in [*self.peer, *self.at]}
        self.to_node = {end: self._wire() for end in self.at}

    def restart(self) -> None:
        """Reset everything but memories; program the switches as before."""
        self._power_on()
        for node in self.nodes:
            node.restart()
        for program in self._programmed:
            program()

    def restart_switches(self) -> None:
        """Reset the switches alone, while nothing is in flight; program them as before."""
        assert self.retry is None, "links with retry notice the reset of one end"
        self.switches = self._make_switches()
        for program in self._programmed:
            program()

    def restart_switch(self, number: int) -> None:
        """Reset one switch alone, and program it as before; only links with retry notice
        that."""
        others = self.switches
        self.switches = self._make_switches()
        for program in self._programmed:
            program()
        self.switches = [*others[:number], self.switches[number], *others[number + 1 :]]

    # ---- Programming, while nothing else runs.

    def region(
        self, members: Iterable[int], *, links: Sequence[Sequence[int]], region: int = 0,
        timeout: int = 200, homes: Sequence[int] | None = None,
    ) -> None:
        """Program a region on all switches; *links* gives each switch's ports of its tree."""
        members = list(members)
        self.groups[region] = sorted(members)
        self._keep(partial(self._region, members, links, region, timeout, homes))

    def _keep(self, program: Callable[[], None]) -> None:
        self._programmed.append(program)
        program()

    def withdraw(self, region: int) -> None:
        """Remove a region from all switches."""
        del self.groups[region]
        self._keep(partial(self._withdraw, region))

    def _withdraw(self, region: int) -> None:
        for switch in self.switches:
            switch.perform([withdrawal(region)])

    def _region(
        self, members: Sequence[int], links: Sequence[Sequence[int]], region: int, timeout: int,
        homes: Sequence[int] | None,
    ) -> None:
        program_region(self, region, members, links, homes)
        for switch, _ in zip(self.switches, links):
            switch.write("timeout", cycles=timeout)

    def behind(
        self, end: Spot, members: Collection[int], links: Sequence[Iterable[int]]
    ) -> int:
        """Number of members behind the link at a port."""
        if end in self.peer:
            s, p = self.peer[end]
            return sum(self.behind((s, q), members, links) for q in links[s] if q != p)
        return int(end in self.at and self.at[end][0] in members)

    def pruned(
        self, members: Collection[int], links: Sequence[Iterable[int]]
    ) -> list[list[int]]:
        """Ports of a tree that lead to some of *members* but not to all of them."""
        behind = [{p: self.behind((s, p), members, links) for p in ports}
                  for s, ports in enumerate(links)]
        return [[p for p, count in each.items() if 0 < count < len(members)] for each in behind]

    def routes(self, next_port: Callable[[int, int], int]) -> None:
        """Program routes: *next_port(switch, endpoint)* is the port that leads there."""
        self._keep(partial(self._routes, next_port))

    def _routes(self, next_port: Callable[[int, int], int]) -> None:
        for s, switch in enumerate(self.switches):
            spots = [
                next((spot for spot in each if self.plane[spot[0]] == self.plane[s]), None)
                for each in self.places
            ]
            ports = [None if spot is None else next_port(s, e) for e, spot in enumerate(spots)]
            local = [spot is not None and spot[0] == s for spot in spots]
            switch.perform(route_writes(ports, local))
            used = [p for which, p in (*self.peer, *self.at) if which == s]
            switch.perform(unplugged_writes(self.config, used))

    # ---- Time.

    def step(self) -> None:
        for (s, p), wire in self.to_switch.items():
            sent, freed = self.switches[s].shown(p)
            self.moved += sent is not None
            other = self.peer.get((s, p))
            target = self.to_switch[other] if other is not None else self.to_node[s, p]
            target.put(sent, freed)
            if other is None:
                number, k = self.at[s, p]
                flit, credit = self.nodes[number].shown(k)
                if flit is not None:
                    self.moved += 1
                    self.flits[number, k] = self.flits.get((number, k), 0) + 1
                wire.put(flit, credit)
        for (s, p), wire in self.to_switch.items():
            self.switches[s].give(p, *wire.take())
        for end, wire in self.to_node.items():
            number, k = self.at[end]
            self.nodes[number].give(k, *wire.take())
        for s, switch in enumerate(self.switches):
            switch.instance.cycle()
            if self.config.trace:
                self._log_tables(s, switch)
        for node in self.nodes:
            node.step()
            if self.dma.trace:
                self._log_home(node)
        self.cycle += 1

    def _log_tables(self, s: int, switch: SwitchNode) -> None:
        for p in range(self.config.ports):
            shown = switch.instance.get(f"taken_{p}")
            if shown & 1:
                note_table(self, s, self.plane[s], TAKEN.from_bits(shown))

    def _log_home(self, node: DmaNode) -> None:
        for k in range(self.dma.links):
            shown = node.pins.get(f"took_{k}")
            if shown & 1:
                took: Any = TOOK.from_bits(shown)
                note_home(self, self.nodes.index(node), k, took.region, took)

    def run(self, until: Callable[[], bool], *, deadline: int = 60_000) -> int:
        """Run until *until()* is true; return the cycles spent."""
        begin = self.cycle
        while not until():
            assert self.cycle - begin < deadline, "no end"
            self.step()
        return self.cycle - begin

    def links(self, name: str) -> list[int]:
        """A signal of the links of all ends, with retry only: ``up`` or ``failed``."""
        ends = [*self.peer, *self.at]
        shown = [self.switches[s].instance.get(name) >> p & 1 for s, p in ends]
        return shown + [self.nodes[node].pins.get(name) >> k & 1 for node, k in self.at.values()]

    def bad_wires(self, spot: Spot) -> list[LossyWire]:
        """The wires of an endpoint's link, with retry only: to the endpoint and from it."""
        assert self.retry is not None, "wires without retry are error-free"
        both = self.to_node[spot], self.to_switch[spot]
        return [each.wire for each in both if isinstance(each, _BadWire)]

    def settle(self, *, quiet: int = 100, deadline: int = 60_000) -> None:
        """Run until hosts have no accesses left and nothing has moved for *quiet* cycles."""
        quiet += self.patience
        begin, last, before = self.cycle, self.cycle, self.moved
        while self.cycle - last < quiet:
            assert self.cycle - begin < deadline, "no end"
            self.step()
            busy = any(node.accesses or node.waiting for node in self.nodes)
            if self.moved != before or busy:
                last, before = self.cycle, self.moved

    def ask(
        self, name: str, index: int | None = None, nodes: Sequence[DmaNode] | None = None
    ) -> list[dict[str, int]]:
        """Read a register of all nodes, or of *nodes*, now."""
        nodes = self.nodes if nodes is None else nodes
        answers = [node.read(name, index) for node in nodes]
        self.run(lambda: all(answers))
        return answers
