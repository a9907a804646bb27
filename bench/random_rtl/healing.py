# SPDX-License-Identifier: Apache-2.0
"""Single faults of RTL switches, links and endpoints, and how software heals them."""

import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import numpy as np

from bench.random_rtl.epochs import SWITCHES
from bench.random_rtl.on_switches import OnSwitches
from hw.fp.ops import ReduceOp
from hw.link.retry_frame import RetryConfig
from hw.switch.config import SwitchConfig
from hw.switch_dma.config import SwitchDmaConfig
from hw.switch_dma.config import preset as dma_preset
from hw.switch_dma.registers import INTERRUPTS
from tb.switch_dma.fabric import AllReduce, join
from tb.switch_dma.faults import bad_packets

__all__ = ["CABLES", "FAULTS", "LEAST_PCT", "MOST_CYCLES", "HealingCase", "draw_healing_cases",
           "run_healing"]

MOST_CYCLES = 10_000
"""Limit in which the others finish a collective without a dead member."""

LEAST_PCT = 95.0
"""Least rate of another region, in percent, once the dead one's all-reduce is aborted."""

CABLES = "keepalive_cycles" in {field.name for field in fields(RetryConfig)}
"""True if links with retry recover when a cable is repaired."""

FAULTS = (
    "resets",  # several resets of one endpoint, which rejoins each time
    "dead by reset",  # an endpoint is reset, and silent until it is repaired
    "dead memory",  # an endpoint's memory stops until it is repaired
    "unknown kinds",
    "table writes",
    "ports",  # disabled for a while, or credits counted anew
    *(("cables",) if CABLES else ()),
)

_WATCHDOG = 3000
_LIMIT = 40_000
_SETTLES = 1000  # cycles in which tables time out
_TIMED_ELEMENTS, _TIMED = 1500, 3
_SKEW = 30  # cycles between the starts of two members
_RETRY = {"slots": 8, "timeout_cycles": 100, "tries": 4}


@dataclass(frozen=True, kw_only=True)
class HealingCase(OnSwitches):
    """A system with two regions, and a fault in the first.

    Members
    -------
    groups:
        Endpoints of each region.
    leaf:
        Endpoints at each leaf switch; 0: one switch per plane.
    links:
        Links of an endpoint, one for each plane.
    mode:
        ``push`` or ``pull``.
    fault:
        One of `FAULTS`.
    stalls, latency:
        Stall rate of memories, 0 to 1; latency of links in cycles.
    seed:
        Seed of everything else.
    """

    groups: tuple[tuple[int, ...], tuple[int, ...]]
    leaf: int
    links: int
    mode: str
    fault: str
    stalls: float
    latency: int
    seed: int

    @property
    def switch(self) -> SwitchConfig:
        """Configuration of all switches."""
        return SWITCHES[4]

    @property
    def dma(self) -> SwitchDmaConfig:
        """Configuration of all endpoints."""
        return replace(dma_preset("test"), links=self.links)

    @property
    def retry(self) -> RetryConfig | None:
        """Retry configuration of all links; None without retry."""
        if self.fault != "cables":
            return None
        given: dict[str, Any] = {**_RETRY, "keepalive_cycles": 2500}
        return RetryConfig(**given)

    def __str__(self) -> str:
        return (
            f"{self.fault}: {self.mode} x{'+'.join(str(len(each)) for each in self.groups)} on "
            f"{self.where}, links {self.links} stalls {self.stalls:g} latency {self.latency} "
            f"seed {self.seed}"
        )


def draw_healing_cases(seed: int, count: int) -> list[HealingCase]:
    """Draw *count* cases, all faults in turn."""
    rng = random.Random(seed)
    return [_draw(rng, FAULTS[number % len(FAULTS)]) for number in range(count)]


def _draw(rng: random.Random, fault: str) -> HealingCase:
    leaf = rng.choice((0, 0, 0, 3, 4))
    members = rng.randint(6, 7) if leaf else rng.randint(5, 6)
    order = rng.sample(range(members), members)
    cut = rng.randint(3, members - 2)
    return HealingCase(
        groups=(tuple(sorted(order[:cut])), tuple(sorted(order[cut:]))),
        leaf=leaf,
        links=1 if fault == "cables" else rng.choice((1, 1, 1, 2)),
        mode=rng.choice(("push", "pull")),
        fault=fault,
        stalls=rng.choice((0.0, 0.0, 0.1)),
        latency=rng.choice((1, 3, 9)),
        seed=rng.getrandbits(32),
    )


class Wrong(Exception):
    """A rank has a wrong sum and does not report it, or gets an interrupt that does not concern its
    region."""


def run_healing(case: HealingCase) -> dict[str, Any]:
    """Run a case; return ``wrong`` and ``stuck`` in words, or None; ``cycles`` until the others had
    finished without the dead member; ``pct``, the rate of the other region in percent of what it
    was before. The latter two are None where they are not measured."""
    run = None
    found: dict[str, Any] = {"wrong": None, "stuck": None}
    try:
        run = _Run(case)
        run.go()
    except Wrong as error:
        found["wrong"] = str(error)
    except AssertionError as error:
        found["stuck"] = str(error).partition("\n")[0] or "no end"
    return {**found, "cycles": run and run.cycles, "pct": run and run.pct}


class _Run:
    """The system of a case and its hosts."""

    def __init__(self, case: HealingCase) -> None:
        self.case, self.rng = case, random.Random(case.seed)
        self.system = case.build(
            case.switch, case.dma, sum(map(len, case.groups)), groups=case.groups, timeout=200,
            retry=case.retry,
        )
        self.victims, self.others = map(list, case.groups)
        join(self.system, watchdog=_WATCHDOG, abort=1)
        for k in range(len(self.system.nodes)):
            self._prepare(k)
        self.system.settle(quiet=5)
        self.cycles: int | None = None
        self.pct: float | None = None
        self.alone = 0

    def go(self) -> None:
        """Run a clean collective, the fault, its healing, and clean collectives again."""
        if self.case.fault.startswith("dead"):
            self.alone = self._time_healthy()
        self._clean()
        {
            "resets": self._resets,
            "dead by reset": self._dead,
            "dead memory": self._dead,
            "unknown kinds": self._unknown_kinds,
            "table writes": self._table_writes,
            "ports": self._ports,
            "cables": self._cables,
        }[self.case.fault]()
        self._clean()
        self._at_rest()

    # ---- Hosts.

    def _prepare(self, number: int) -> None:
        """Set the watchdog of an endpoint and enable the interrupts that its host wants."""
        node = self.system.nodes[number]
        watchdog = _WATCHDOG * (1 if number in self.victims else 4)
        node.write("watchdog", cycles=watchdog, tries=0, abort=1)
        told = dict.fromkeys(INTERRUPTS, 1) | {"dropped": 0, "stalled": 0}
        node.write("interrupt_enable", **told)

    def _clear(self, members: Sequence[int]) -> None:
        for k in members:
            self.system.nodes[k].write("interrupt", **dict.fromkeys(INTERRUPTS, 1))
        self._pass(20 * len(members) // 2)

    def _pass(self, cycles: int) -> None:
        self.system.step(cycles)

    def _until(self, holds: Callable[[], bool], what: str, cycles: int = _LIMIT) -> None:
        begin = self.system.cycle
        while not holds():
            assert self.system.cycle - begin < cycles, what
            self.system.step()

    def _told(self, members: Sequence[int]) -> bool:
        """True if all *members* have a pending interrupt."""
        return all(self.system.nodes[k].output("irq") for k in members)

    def _job(self, region: int, elements: int) -> AllReduce:
        return AllReduce(self.system, ReduceOp.SUM_I32, elements, region=region,
                         seed=self.rng.getrandbits(32))

    def _begin(self, elements: tuple[int, int]) -> list[AllReduce]:
        """Start an all-reduce in each region."""
        jobs = [self._job(region, each) for region, each in enumerate(elements)]
        for job in jobs:
            job.start()
        return jobs

    def _judge(self, job: AllReduce, *, exact: bool, but: Sequence[int] = ()) -> bool:
        """Check that members have the sum or, unless *exact*, report an abort; members *but* are
        not checked. Return True if any of them aborted. Interrupts are cleared."""
        members = [k for k in job.members if k not in but]
        told = self.system.ask("interrupt", nodes=[self.system.nodes[k] for k in members])
        right = sum(job.inputs)
        gives_up = False
        for k, words in zip(job.members, job.results()):
            if k in but:
                continue
            said = told[members.index(k)]
            given_up = bool(said["aborted"])
            gives_up |= given_up
            who = f"endpoint {k} of region {job.region}"
            if said["done"] and not given_up and not np.array_equal(words, right):
                raise Wrong(f"{who} has a wrong sum")
            if said["invalid"] or said["memory"] or said["refused"]:
                raise Wrong(f"{who} says {[name for name in said if said[name]]}")
            if exact and given_up:
                raise Wrong(f"{who} was given up")
            assert given_up or said["done"], f"{who} has no end"
        self._clear(members)
        return gives_up

    def _ready(self, members: Sequence[int], cycles: int = _LIMIT) -> None:
        """Wait until *members* are ready in the same epoch."""
        nodes, begin = [self.system.nodes[k] for k in members], self.system.cycle
        while True:
            states = self.system.ask("status", nodes=nodes)
            epochs = {each["value"] for each in self.system.ask("epoch", nodes=nodes)}
            if all(each["ready"] for each in states) and len(epochs) == 1:
                return
            assert self.system.cycle - begin < cycles, f"of {members} not all become ready"
            self._pass(20)

    def _time_others(self) -> int:
        """Cycles of all-reduces of the other region, whose members start at slightly different
        times, since it changes the time by 10 % how links and tables fall into step."""
        spent = 0
        for _ in range(_TIMED):
            job = self._job(1, _TIMED_ELEMENTS)
            begin = self.system.cycle
            for node in self.rng.sample(job.nodes, len(job.nodes)):
                job.start([node])
                self._pass(self.rng.randint(0, _SKEW))
            self._until(lambda: self._told(self.others), "the other region has no end")
            spent += self.system.cycle - begin
            self._judge(job, exact=True)
        return spent

    def _time_healthy(self) -> int:
        """Cycles of `_time_others` after all-reduces of both regions and aborts of the first, with
        nobody dead."""
        spent = 0
        for _ in range(2):
            self._clean()
            self.system.nodes[self.victims[0]].write("control", abort=1)
            self._pass(300)
            self._ready(self.victims)
            self._clear(self.victims)
            spent += self._time_others()
        return spent // 2

    def _clean(self) -> None:
        """Run an all-reduce in both regions; results must be exact."""
        for members in (self.victims, self.others):
            self._ready(members)
        everybody = [*self.victims, *self.others]
        self._clear(everybody)
        jobs = self._begin((self.rng.randint(30, 500), self.rng.randint(30, 500)))
        self._until(lambda: self._told(everybody), "an all-reduce after the fault has no end")
        for job in jobs:
            self._judge(job, exact=True)

    def _at_rest(self) -> None:
        """Check that all credits are home and nothing is held."""
        system = self.system
        self._pass(200)
        for k in range(self.case.links):
            for number, each in enumerate(system.ask("link_status", k)):
                assert each["credits_home"] and not each["counting"], f"credits of node {number}"
        for s, switch in enumerate(system.switches):
            ends = [p for (which, p) in [*system.peer, *system.at] if which == s]
            for p in ends:
                status = switch.ask("port_status", p)
                whole = status["credits_home"] and not status["counting"]
                assert whole, f"credits of switch {s} port {p}"
            assert switch.ask("held")["regions"] == 0, f"switch {s} holds something"
            assert switch.ask("status")["idle"], f"switch {s} is not idle"

    # ---- Software of the switches.

    def _offer(self, s: int, name: str, index: int | None, **values: int) -> int:
        """Write a register while everything runs; return the response."""
        return self.system.switches[s].offer(name, index, **values)

    def _insist(self, s: int, name: str, index: int | None, **values: int) -> None:
        """Repeat a write until it is accepted."""
        begin = self.system.cycle
        while self._offer(s, name, index, **values):
            assert self.system.cycle - begin < _LIMIT, f"{name} of switch {s} is refused for ever"
            self._pass(20)

    def _rows(self, region: int, members: Sequence[int], only: Sequence[int] | None = None) -> None:
        """Write the rows of a region with these members, on all switches or *only* some."""
        system = self.system
        links = system.pruned(members)
        homes = [home for home in system.fabric.homes[0] if home in members]
        rows = system.region_rows(members, links=links, region=region, homes=homes)
        for s, (name, index, values) in rows:
            if only is None or s in only:
                self._insist(s, name, index, **values)
        system.groups[region] = sorted(members)

    def _routes(self, switches: Collection[int]) -> None:
        """Restore the routes of switches."""
        for s, (name, index, values) in self.system.route_rows():
            if s in switches and name == "route":
                self._insist(s, name, index, **values)

    def _members(self, members: Sequence[int], region: int = 0) -> None:
        """Make these endpoints the members of a region, and wait until they are ready."""
        for k in members:
            self._until(partial(self._idle, k), f"endpoint {k} gives nothing up")
            node = self.system.nodes[k]
            node.configure(members=len(members), region=region)
            self._prepare(k)
        self._pass(20 * len(members))
        for k in members:
            self.system.nodes[k].join()
        self._pass(20)
        self._ready(members)
        self._clear(members)

    def _outstanding(self, number: int) -> int:
        (state,) = self.system.ask("status", nodes=[self.system.nodes[number]])
        count: int = state["outstanding"]
        return count

    def _idle(self, number: int) -> bool:
        return self._outstanding(number) == 0

    def _reset(self, number: int, *, joins: bool) -> None:
        """Reset one endpoint; with *joins*, set it up and let it rejoin."""
        node = self.system.nodes[number]
        node.restart()
        if joins:
            node.configure(members=len(self.victims), region=0)
            self._prepare(number)
            node.join()

    # ---- Faults.

    def _resets(self) -> None:
        rng = self.rng
        for _ in range(rng.randint(1, 6)):
            jobs = self._begin((rng.randint(100, 900), rng.randint(100, 900)))
            self._pass(rng.randint(10, 600))
            victim = rng.choice(self.victims)
            for _ in range(rng.choice((0, 0, 1, 3))):  # and again before all are ready
                self._reset(victim, joins=rng.random() < 0.7)
                self._pass(rng.randint(0, 400))
            self._reset(victim, joins=True)
            rest = [k for k in jobs[0].members if k != victim]
            self._until(lambda: self._told([*rest, *self.others]), "no end after a reset")  # noqa: B023
            self._judge(jobs[0], exact=False, but=[victim])
            self._judge(jobs[1], exact=True)
            self._ready(self.victims)
            self._clear(self.victims)

    def _dead(self) -> None:
        """Let a member stop accepting packets: the others go on without it; later it returns."""
        rng, system = self.rng, self.system
        dead = rng.choice(self.victims)
        alive = [k for k in self.victims if k != dead]
        jobs = self._begin((1500, rng.randint(100, 900)))
        self._pass(rng.randint(10, 500))
        frozen = self.case.fault == "dead memory"
        if frozen:
            system.nodes[dead].node.pace_memory(0)
        else:
            self._reset(dead, joins=False)
        self._until(lambda: self._told(alive), "the others do not give up")
        if not self._judge(jobs[0], exact=False, but=[dead]):
            # All but the dead member had finished: start another one, to be aborted.
            jobs[0] = self._job(0, 300)
            jobs[0].start()
            self._until(lambda: self._told(alive), "the others do not give up")
            self._judge(jobs[0], exact=False, but=[dead])
        self._until(lambda: self._told(self.others), "the other region stands still")
        self._judge(jobs[1], exact=True)
        first = rng.random() < 0.5
        if first:
            self._measure()
        begin = system.cycle
        for s, p in system.places[dead]:
            self._insist(s, "port_control", p, disable=1)
        self._rows(0, alive)
        self._members(alive)
        job = self._job(0, rng.randint(30, 500))
        job.start()
        self._until(lambda: self._told(alive), "the others do not finish without the dead")
        self.cycles = system.cycle - begin
        self._judge(job, exact=True)
        if not first:
            self._measure()
        assert self.cycles <= MOST_CYCLES, f"the others took {self.cycles} cycles"
        # Repair it.
        if frozen:
            system.nodes[dead].node.pace_memory()
        for s, p in system.places[dead]:
            self._insist(s, "port_control", p, resync=1)
        self._rows(0, self.victims)
        self._members(self.victims)

    def _measure(self) -> None:
        self.pct = 100 * self.alone / self._time_others()

    def _unknown_kinds(self) -> None:
        rng, system = self.rng, self.system
        (epoch,) = {each["value"] for each in
                    system.ask("epoch", nodes=[system.nodes[k] for k in self.victims])}
        before = self._dropped()
        plan = [(rng.choice(self.victims), rng.randrange(self.case.links), rng.random() < 0.5)
                for _ in range(rng.randint(1, 8))]
        wires = [(system.to_node if to_node else system.to_switch)(system.places[endpoint][link])
                 for endpoint, link, to_node in plan]
        for wire in wires:
            system.tap(wire)
        jobs = self._begin((rng.randint(100, 900), rng.randint(100, 900)))
        for wire, (endpoint, _, to_node) in zip(wires, plan):
            self._pass(rng.randint(0, 300))
            packets = bad_packets(system, 0, epoch, endpoint, rng, to_node=to_node)
            name = rng.choice(("unknown kind", "unknown kind for the link", "unknown format"))
            system.add(wire, packets[name])
        self._until(lambda: self._told([*self.victims, *self.others]), "unknown kinds stop it")
        for job in jobs:
            self._judge(job, exact=True)
        # Packets that wait for a credit are sent once nothing else moves.
        self._until(lambda: not system.added(*wires), "packets are not taken")
        self._pass(200)
        dropped = self._dropped() - before
        if dropped < len(plan):
            raise Wrong(f"{len(plan)} packets of unknown kinds, {dropped} dropped")

    def _dropped(self) -> int:
        """Number of packets dropped so far as damaged."""
        here = sum(each["count"] for k in range(self.case.links)
                   for each in self.system.ask("dropped_damaged", k))
        there = sum(switch.counters().get("dropped_damaged", 0) for switch in self.system.switches)
        return here + there

    def _table_writes(self) -> None:
        rng, system, c = self.rng, self.system, self.case.switch
        jobs = self._begin((rng.randint(100, 900), rng.randint(100, 900)))
        touched = set()
        for _ in range(rng.randint(1, 6)):
            self._pass(rng.randint(0, 300))
            s = rng.randrange(len(system.switches))
            name = rng.choice(("region", "targets", "behind", "home", "route", "timeout", "purge"))
            register = system.switches[s].map.registers[name]
            index = rng.randrange(register.count) if register.count else None
            values = {field.name: rng.randrange(1 << field.width) for field in register.fields}
            if name == "home":
                values["endpoint"] = rng.randrange(c.endpoints)
            if name == "timeout":
                values["cycles"] = rng.choice((1, 20, 5000))
            response = self._offer(s, name, index, **values)
            if response not in (0, 2):
                raise Wrong(f"{name} answered {response}")
            touched.add(s)
        everybody = [*self.victims, *self.others]
        self._until(lambda: self._told(everybody), "no end after writes of tables")
        for job in jobs:
            self._judge(job, exact=False)
        for s in sorted(touched):
            self._insist(s, "timeout", None, cycles=200)
        self._pass(_SETTLES)
        for s in sorted(touched):
            # Operands for a link without a member behind it, or for no home, never leave.
            held = system.switches[s].ask("held")["regions"]
            if held:
                self._insist(s, "purge", None, regions=held)
        for region, members in enumerate((self.victims, self.others)):
            self._rows(region, members, sorted(touched))
        self._routes(touched)
        for region, members in enumerate((self.victims, self.others)):
            self._members(members, region)

    def _ports(self) -> None:
        rng, system = self.rng, self.system
        victim = rng.choice(self.victims)
        ends = system.places[victim]
        jobs = self._begin((rng.randint(300, 1500), rng.randint(300, 900)))
        disables = rng.random() < 0.5
        if disables:
            self._pass(rng.randint(0, 500))
            s, p = rng.choice(ends)
            self._insist(s, "port_control", p, disable=1)
            self._pass(rng.randint(0, 2000))
            self._insist(s, "port_control", p, resync=1)
        else:
            for _ in range(rng.randint(1, 5)):
                self._pass(rng.randint(0, 500))
                s, p = rng.choice([*ends, *system.peer])
                if (s, p) in ends and rng.random() < 0.5:
                    system.nodes[victim].write("link_control", ends.index((s, p)), resync=1)
                else:
                    self._insist(s, "port_control", p, resync=1)
        self._until(lambda: self._told([*self.victims, *self.others]), "a port stops it")
        self._judge(jobs[0], exact=not disables)
        self._judge(jobs[1], exact=True)
        if disables:
            self._members(self.victims)

    def _cables(self) -> None:
        """Cut cables in one direction or both, and repair them; if that takes long, all-reduces are
        aborted."""
        rng, system = self.rng, self.system
        for _ in range(rng.randint(1, 3)):
            victim = rng.choice(self.victims)
            (spot,) = system.places[victim]
            wires = [system.to_node(spot), system.to_switch(spot)]
            jobs = self._begin((rng.randint(100, 900), rng.randint(100, 900)))
            self._pass(rng.randint(10, 500))
            for wire in rng.choice((wires[:1], wires[1:], wires)):
                system.system.cut(*wire)
            self._pass(rng.choice((30, 400, 6000)))
            for wire in wires:
                system.system.cut(*wire, mended=True)
            self._until(lambda: self._told([*self.victims, *self.others]), "a cable stops it")
            self._judge(jobs[0], exact=False)
            self._judge(jobs[1], exact=True)
            self._until(lambda: all(system.links("up")), "a link does not come back")
            self._ready(self.victims)
            self._clear(self.victims)
