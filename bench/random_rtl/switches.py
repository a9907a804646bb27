"""Endpoints on switches that reduce, all RTL: push and pull, one switch or a tree, with retry or
without, one region or two."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from bench.random_rtl.trial import CLEAN, FAULTS, Attempt, Finding, Kind, Trial, run_trial
from hw.fp.ops import ReduceOp
from hw.link.packet import FLIT_BITS
from hw.link.retry_frame import RetryConfig
from hw.switch.config import SwitchConfig
from hw.switch.config import preset as switch_preset
from hw.switch_dma.config import SwitchDmaConfig
from hw.switch_dma.config import preset as dma_preset
from hw.switch_dma.layouts import AbortCause, Part
from tb.link.lossy import Faults
from tb.switch_dma.fabric import AllReduce, flat, join, two_levels
from tb.switch_dma.faults import Tap, bad_packets

__all__ = ["CLASSES", "PARTS", "SWITCHES", "Case", "Engine", "SwitchTrial", "run_case"]

MEMORY_BYTES = 1 << 16
MOST_ENDPOINTS = 8
LIMIT = 100_000
QUIET = 60

CLASSES = (
    CLEAN,
    *FAULTS,
    "modes differ",
    "eviction storm",
    "region reprogrammed",
    "endpoint late",
    "endpoint reset",
    "operand outside",
    "bad packets",
)

PARTS = {"all-gather": Part.SEND, "broadcast": Part.SEND, "reduce-scatter": Part.STORE}
"""Collectives of endpoints that send, or store, a part alone."""

# Where nothing at all may be noticed by software.
_UNNOTICED = ("packet repeated", "eviction storm", "region reprogrammed")
# What the abort register must say.
_CAUSES = {
    "operations differ": AbortCause.DISAGREEMENT,
    "lengths differ": AbortCause.DISAGREEMENT,
    "modes differ": AbortCause.DISAGREEMENT,
}


@dataclass(frozen=True, kw_only=True)
class Engine:
    """Configurations of the switches, the endpoints, and their links; without *retry* wires must be
    good."""

    switch: SwitchConfig
    dma: SwitchDmaConfig
    retry: RetryConfig | None


@dataclass(frozen=True, kw_only=True)
class Case:
    """A system, a collective on it, and what goes wrong.

    Members
    -------
    engine:
        Configurations.
    groups:
        Endpoints of each region. The fault concerns the first; the others work on at the same time.
    leaf:
        Endpoints at a switch below the root; 0: one switch per plane.
    mode:
        ``push``, ``pull``, or ``whole``: pull for which own operands travel, too.
    what:
        Of the first region: ``all-reduce``, one of `PARTS`, or ``deterministic``: FP32 in fixed
        point.
    fault:
        One of `CLASSES`.
    latency, stalls, timeout, skew:
        Of links; of memories, 0 to 1; of tables; by which endpoints may be late: in cycles.
    seed:
        Of the data, of the place of the fault, and of its time.
    """

    engine: Engine
    groups: tuple[tuple[int, ...], ...]
    leaf: int
    mode: str
    what: str
    fault: str
    op: ReduceOp
    elements: int
    latency: int
    stalls: float
    timeout: int
    skew: int
    seed: int

    def __str__(self) -> str:
        switch, dma = self.engine.switch, self.engine.dma
        where = f"leaves of {self.leaf}" if self.leaf else "a switch"
        return (
            f"{self.mode} {self.what} x{'+'.join(map(str, map(len, self.groups)))} on {where} "
            f"{self.op.name.lower()} {self.elements} links {dma.links} entries {switch.entries} "
            f"buffers {switch.buffer_packets}{' retry' * (self.engine.retry is not None)} "
            f"latency {self.latency} stalls {self.stalls:g} timeout {self.timeout} seed {self.seed}"
        )


def _draw_engines(rng: random.Random, count: int) -> list[Engine]:
    """*count* different ones, every other with retry, small enough to run fast."""
    found: list[Engine] = []
    while len(found) < count:
        packets = rng.choice((1, 2, 2, 4))
        shared = {
            "payload_flits": rng.choice((4, 8, 8)), "alu_stages": rng.choice((0, 1, 3)),
            "buffer_packets": packets, "credits": packets, "endpoints": MOST_ENDPOINTS,
            "trace": True,
        }
        switch = replace(
            switch_preset("test"), ports=rng.choice((4, 4, 6)), entries=rng.choice((1, 2, 4)),
            queue_packets=rng.choice((1, 2)), homes=rng.choice((1, 4, 8)), **shared,
        )
        dma = replace(
            dma_preset("test"), links=rng.choice((1, 1, 2)), waves=rng.choice((2, 4)),
            wave_blocks=rng.choice((2, 4)), read_ahead=rng.choice((1, 2, 4)),
            fixed_point=rng.random() < 0.8, parts=rng.random() < 0.8, **shared,
        )
        retry = RetryConfig(slots=8, timeout_cycles=120, tries=60) if len(found) % 2 else None
        drawn = Engine(switch=switch, dma=dma, retry=retry)
        if drawn not in found:
            found.append(drawn)
    return found


def _kinds(dma: SwitchDmaConfig) -> list[str]:
    """What endpoints can do, an all-reduce as often as one in parts."""
    parts = list(PARTS) if dma.parts else []
    return ["all-reduce"] * (2 if parts else 1) + ["deterministic"] * dma.fixed_point + parts


def _draw_case(rng: random.Random, engine: Engine, fault: str) -> Case | None:
    ports = engine.switch.ports
    leaf = rng.choice((0, 0, 2, ports - 1))
    most = min(MOST_ENDPOINTS, leaf * ports if leaf else ports)
    members = rng.randint(leaf + 1 if leaf else 2, most)
    order = rng.sample(range(members), members)
    cut = rng.randint(2, members - 2) if members >= 4 and rng.random() < 0.5 else members
    groups = [order[:cut], order[cut:]]
    case = Case(
        engine=engine,
        groups=tuple(tuple(sorted(group)) for group in groups if group),
        leaf=leaf,
        mode=rng.choice(("push", "push", "pull", "pull", "whole")),
        what=rng.choice(_kinds(engine.dma)),
        fault=fault,
        op=rng.choice(list(ReduceOp)),
        elements=round(2 ** rng.uniform(3, 10)),
        latency=rng.choice((1, 3, 9, 25)),
        stalls=rng.choice((0.0, 0.1, 0.3)),
        timeout=rng.choice((20, 100, 300)),
        skew=rng.choice((0, 50, 500)),
        seed=rng.getrandbits(32),
    )
    if fault == "packet repeated" and engine.retry is None:
        return None  # only a link that repeats packets brings one twice
    if fault == "bad packets" and engine.retry is not None:
        return None  # they would not come as far as the switch
    if fault == "operand outside":
        if not engine.dma.fixed_point:
            return None
        case = replace(case, what="deterministic")
    if case.what == "deterministic":
        case = replace(case, op=ReduceOp.SUM_F32)
    if fault == "eviction storm":
        if engine.switch.entries > 2:
            return None
        case = replace(case, timeout=rng.randint(1, 10), skew=500)
    return case


class SwitchTrial(Trial):
    """The system of a case, and collectives on it one after the other."""

    leftovers = frozenset({"dropped"})  # what lay in tables leaves them late, for a past epoch

    def __init__(self, case: Case) -> None:
        self.case = case
        self.rng = random.Random(case.seed)
        self.limit = LIMIT
        engine = case.engine
        make: Any = two_levels if case.leaf else flat
        self.faults = Faults()
        self.system: Any = make(
            engine.switch, engine.dma, sum(len(group) for group in case.groups),
            groups=case.groups, timeout=case.timeout, latency=case.latency, stalls=case.stalls,
            seed=case.seed & 0xFFFF, memory_bytes=MEMORY_BYTES, mode=case.mode,
            retry=engine.retry, faults=self.faults, **({"leaf": case.leaf} if case.leaf else {}),
        )
        self.watch = {"watchdog": 0, "tries": 0, "abort": 1}
        self.victims = case.groups[0]
        self.regions = dict(enumerate(case.groups))
        self._join()
        # Of each region, the epoch of the collective before, and its blocks so far on each link.
        self._begun: dict[int, tuple[int, list[int]]] = {}
        self._seed = case.seed
        self.missed = 0  # packets that should have been counted as dropped
        self.miscounted: list[int] = []
        self.victim = -1  # who has an operand outside its window, by place
        self.lost_credits = False

    @property
    def cycle(self) -> int:
        cycle: int = self.system.cycle
        return cycle

    def _join(self) -> None:
        join(self.system, **self.watch)
        for node in self.system.nodes:
            node.write("interrupt_enable", done=1, aborted=1, refused=1)
        self.system.settle(quiet=5)

    def _nodes(self, region: int) -> list[Any]:
        return [self.system.nodes[k] for k in self.regions[region]]

    # ---- Collectives.

    def collective(
        self,
        *,
        changes: dict[int, dict[str, Any]] | None = None,
        late: dict[int, int | None] | None = None,
        events: Sequence[tuple[int, Callable[[], None]]] = (),
        prepare: Callable[[list[AllReduce]], None] | None = None,
        without: Sequence[int] = (),
    ) -> list[Attempt]:
        """One in each region at a time, with the *changes* of some endpoints' commands.

        *late* (None for never) and *events* are in cycles from now; *prepare* gets the all-reduces
        before they begin; of endpoints *without* no end is waited for.
        """
        system, case = self.system, self.case
        jobs = []
        for log in (system.taken, system.answers, system.took):
            log.clear()
        for region in self.regions:
            self._seed += 1
            jobs.append(self._job(region))
        self._epochs = {job.region: self._epoch(job.region) for job in jobs}
        if prepare is not None:
            prepare(jobs)
        begin = system.cycle
        todo = list(events)
        for job in jobs:
            for node in job.nodes:
                delay = (late or {}).get(node.number, self.rng.randint(0, case.skew))
                given = (changes or {}).get(node.number, {})
                if delay is not None:
                    todo.append((delay, lambda j=job, n=node, g=given: j.start([n], **g)))
        todo.sort(key=lambda each: each[0])
        waited = [node for node in system.nodes if node.number not in without]
        while system.cycle - begin < self.limit:
            while todo and todo[0][0] <= system.cycle - begin:
                todo.pop(0)[1]()
            if not todo and all(node.pins.get("irq") for node in waited):
                break
            system.step()
        system.settle(quiet=QUIET + 4 * case.latency + 200 * (case.stalls > 0),
                      deadline=self.limit)
        found = [attempt for job in jobs for attempt in self._attempts(job)]
        found.sort(key=lambda each: each[0])
        system.settle(quiet=5)
        return [attempt for _, attempt in found]

    def _job(self, region: int) -> AllReduce:
        """Of the case, or in other regions of any kind."""
        rng, case = self.rng, self.case
        op, what = case.op, case.what
        if region:
            what = rng.choice(_kinds(case.engine.dma))
            fixed = what == "deterministic"
            op = ReduceOp.SUM_F32 if fixed else rng.choice(list(ReduceOp))
        part = PARTS.get(what, Part.NONE)
        return AllReduce(
            self.system, op, case.elements, seed=self._seed, region=region, tag=self._seed & 255,
            fixed=what == "deterministic", part=part,
            parts=self._parts(what, len(self.regions[region])) if part is not Part.NONE else (),
        )

    def _parts(self, what: str, members: int) -> list[tuple[int, int]]:
        """Which elements each member sends or stores: whole blocks, now and then none."""
        rng, elements = self.rng, self.case.elements
        if what == "broadcast":
            root = rng.randrange(members)
            return [(0, elements if k == root else 0) for k in range(members)]
        size = self.case.engine.dma.block_elements
        cuts = sorted(rng.choices(range(0, elements + size, size), k=members - 1))
        ends = [0, *(min(cut, elements) for cut in cuts), elements]
        # Who has nothing must not begin within a block, as the end of the vector may be.
        shares = [(first, end) if first < end else (0, 0) for first, end in pairwise(ends)]
        rng.shuffle(shares)
        return shares

    def _epoch(self, region: int) -> int:
        """The epoch that all members of a region have come to."""
        begin = self.system.cycle
        nodes = self._nodes(region)
        while not all(each["ready"] for each in self.system.ask("status", nodes=nodes)):
            assert self.system.cycle - begin < LIMIT, f"region {region} does not become ready"
        epochs = {each["value"] for each in self.system.ask("epoch", nodes=nodes)}
        assert len(epochs) == 1, f"members of region {region} are in epochs {epochs}"
        return epochs.pop()

    def _attempts(self, job: AllReduce) -> Iterator[tuple[int, Attempt]]:
        """Of each member, in the region of an all-reduce that is over."""
        system, dma = self.system, self.case.engine.dma
        before = self._epochs[job.region]
        epoch, base = self._begun.get(job.region, (before, [0] * dma.links))
        if epoch != before:
            base = [0] * dma.links
        try:
            expected = job.expected(job.golden(base=base, epoch=before))
            trouble = None
        except AssertionError as error:
            expected, trouble = [None] * len(job.nodes), error
        blocks = -(-job.elements // dma.block_elements)
        self._begun[job.region] = before, [
            first + 1 + len(range(k, blocks, dma.links)) for k, first in enumerate(base)
        ]
        beyond = job.beyond()
        answers = [system.ask(name, nodes=job.nodes)
                   for name in ("interrupt", "status", "abort", "invalid")]
        for number, words, right, behind, causes, status, abort, invalid in zip(
            job.members, job.results(), expected, beyond, *answers
        ):
            system.nodes[number].write("interrupt", **dict.fromkeys(causes, 1))
            said = {name for name, on in causes.items() if on}
            if causes["aborted"]:
                said.add(AbortCause(abort["cause"]).name.lower())
            if causes["invalid"]:
                said |= {name for name in ("read", "write") if invalid[name]}
            self.trouble = trouble
            yield number, Attempt(
                finished=status["outstanding"] == 0,
                equal=right is not None and words.tobytes() == right.tobytes()
                and bool((behind == 0xA5).all()),
                causes=frozenset(said),
            )

    # ---- Faults.

    def with_fault(self, spent: int) -> tuple[list[Attempt], set[int]]:
        fault = self.case.fault
        tries = self.rng.choice((0, 0, 2))
        self.watch = {"watchdog": 3 * spent + 3000, "tries": tries, "abort": 1}
        for node in self.system.nodes:
            node.write("watchdog", cycles=self.watch["watchdog"], tries=tries, abort=1)
        self.limit += (tries + 1) * self.watch["watchdog"]
        self.system.settle(quiet=5)
        if "abort" in fault:
            return self._abort(spent)
        if "memory" in fault:
            return self._refuse(), set()
        if fault.endswith("differ"):
            return self._differ(), set()
        if fault.startswith("packet"):
            return self._damage(spent), set()
        if fault == "endpoint reset":
            return self._reset(spent)
        return {
            "eviction storm": self.collective,
            "region reprogrammed": self._reprogram,
            "endpoint late": self._late,
            "operand outside": self._outside,
            "bad packets": self._bad_packets,
        }[fault](), set()

    def _abort(self, spent: int) -> tuple[list[Attempt], set[int]]:
        rng, members = self.rng, self.victims
        count = {"abort of one node": 1, "aborts of two nodes": 2}
        chosen = rng.sample(members, min(len(members), count.get(self.case.fault, len(members))))
        chosen += rng.choices(chosen, k=rng.randint(0, 2))  # now and then the same node twice
        events = [
            (rng.randint(0, spent), lambda k=k: self.system.nodes[k].write("control", abort=1))
            for k in chosen
        ]
        return self.collective(events=events), set(chosen)

    def _refuse(self) -> list[Attempt]:
        """One beat of what an endpoint reads, or writes, fails: the first, the last or any."""
        rng, writes = self.rng, self.case.fault.endswith("write")

        def prepare(jobs: list[AllReduce]) -> None:
            job = jobs[0]
            spans = [(0, job.elements)] * len(job.nodes)
            if job.part is (Part.STORE if writes else Part.SEND):
                spans = job.parts
            node, (first, end) = rng.choice(
                [each for each in zip(job.nodes, spans) if each[1][0] < each[1][1]]
            )
            place = rng.choice((4 * first, 4 * end - 1, rng.randrange(4 * first, 4 * end)))
            start = (job.destination if writes else job.source) + place // 16 * 16
            refused = node.memory.bad_writes if writes else node.memory.bad_reads
            refused.append(range(start, start + 16))

        attempts = self.collective(prepare=prepare)
        for node in self.system.nodes:
            node.memory.bad_reads.clear()
            node.memory.bad_writes.clear()
        return attempts

    def _outside(self) -> list[Attempt]:
        """One operand of an endpoint is not in the window."""
        rng = self.rng
        before = self._counted_outside()

        def prepare(jobs: list[AllReduce]) -> None:
            job = jobs[0]
            end = 2.0 ** (job.exponent - 126)
            self.victim, node = rng.choice(list(enumerate(job.nodes)))
            value = np.float32([rng.choice((np.nan, -np.inf, end, -2 * end))])
            node.put(job.source + 4 * rng.randrange(job.elements), value)

        attempts = self.collective(prepare=prepare)
        after = self._counted_outside()
        self.miscounted = [number for number, (a, b) in enumerate(zip(before, after))
                           if b - a != (number == self.victim)]
        return attempts

    def _counted_outside(self) -> list[int]:
        """Of each endpoint, beats with operands outside the window."""
        links = range(self.case.engine.dma.links)
        every = [self.system.ask("outside", k, nodes=self._nodes(0)) for k in links]
        return [sum(each["count"] for each in of_node) for of_node in zip(*every)]


    def _differ(self) -> list[Attempt]:
        rng, case = self.rng, self.case
        change: dict[str, Any]
        if case.fault == "operations differ":
            change = {"op": rng.choice([op for op in ReduceOp if op is not case.op])}
            if case.what == "deterministic":
                change |= {"fixed": 0}  # there is one operation for it
        elif case.fault == "lengths differ":
            fewer = max(1, case.elements - rng.choice((1, 4, 32, case.elements // 2)))
            change = {"elements": fewer if fewer < case.elements else 2}
        else:
            change = rng.choice(list(self._other_modes()))
        return self.collective(changes={rng.choice(self.victims): change})

    def _other_modes(self) -> Iterator[dict[str, Any]]:
        """What another endpoint's command may have."""
        case, dma = self.case, self.case.engine.dma
        yield {"pull": int(case.mode == "push")}
        yield {"tag": self._seed & 255}
        if case.what == "deterministic":
            yield {"fixed": 0}
        elif case.what == "all-reduce" and dma.fixed_point:
            yield {"op": ReduceOp.SUM_F32, "fixed": 1, "exponent": 130}
        if case.what == "all-reduce" and dma.parts:
            yield {"part": self.rng.choice((Part.SEND, Part.STORE)), "begin": 0, "end": 0}
        if case.what in PARTS:
            yield {"part": self.rng.choice([each for each in Part if each is not PARTS[case.what]])}

    def _late(self) -> list[Attempt]:
        """By less than the watchdog allows, or more; with or without its abort."""
        rng, abort = self.rng, self.rng.randrange(2)
        for node in self.system.nodes:
            node.write("watchdog", cycles=self.watch["watchdog"], tries=0, abort=abort)
        late = round(self.watch["watchdog"] * rng.choice((0.5, 1.5)))
        return self.collective(late={rng.choice(self.victims): late})

    def _reset(self, spent: int) -> tuple[list[Attempt], set[int]]:
        """An endpoint is reset alone, and joins anew; it does not take part."""
        rng, system = self.rng, self.system
        victim = rng.choice(self.victims)
        node = system.nodes[victim]
        quiet = rng.random() < 0.5

        def reset() -> None:
            self.lost_credits = self.case.engine.retry is None and not quiet
            node.restart()
            node.configure(
                members=len(self.victims), region=0, own=int(self.case.mode == "whole"),
                **self.watch,
            )
            node.write("interrupt_enable", done=1, aborted=1, refused=1)
            node.join()

        # Quiet: what the others have sent waits in tables and at homes for its operands.
        when = 4 * self.case.skew + 4 * spent + 4000 if quiet else rng.randint(1, spent)
        late = {victim: None if quiet else 0}
        if quiet and self.watch["watchdog"] <= when:
            for each in system.nodes:
                each.write("watchdog", cycles=2 * when, tries=0, abort=1)
        events = [(when, reset)]
        return self.collective(events=events, late=late, without=[victim]), {victim}

    def _reprogram(self) -> list[Attempt]:
        """Other members, another number, other homes and time-outs, while nothing goes on."""
        rng, system = self.rng, self.system
        system.settle(quiet=QUIET + 2 * system.timeout + 150)
        for region in list(system.groups):
            system.withdraw(region)
        members = [k for group in self.case.groups for k in group]
        rng.shuffle(members)
        cut = rng.randint(2, len(members) - 2) if len(members) >= 4 else len(members)
        groups = [group for group in (members[:cut], members[cut:]) if group]
        numbers = rng.sample(range(self.case.engine.switch.regions), len(groups))
        self.regions = dict(sorted(
            (number, tuple(sorted(group))) for number, group in zip(numbers, groups)
        ))
        system.timeout = rng.choice((20, 100, 300))
        for number, group in self.regions.items():
            system.region(group, links=system.pruned(group, system.fabric.trees[0]),
                          region=number, timeout=system.timeout,
                          homes=rng.sample(group, rng.randint(1, len(group))))
        self._begun.clear()
        self._join()
        return self.collective()

    def _wires(self) -> list[Callable[[], Tap]]:
        """Both directions of the links of the endpoints that the fault concerns; and of cables, if
        nobody else is at them."""
        system = self.system
        ends = [spot for k in self.victims for spot in system.places[k]]
        found: list[Callable[[], Tap]] = []
        for end in ends:
            found += [lambda end=end: Tap.to_node(system, end),
                      lambda end=end: Tap.to_switch(system, end)]
        if len(self.case.groups) == 1:
            found += [lambda end=end: Tap.to_switch(system, end) for end in system.peer]
        return found

    def _damage(self, spent: int) -> list[Attempt]:
        rng, fault = self.rng, self.case.fault
        if self.case.engine.retry is not None:
            name = {"packet damaged": "damage", "packet lost": "loss"}.get(fault, "repetition")
            setattr(self.faults, name, rng.choice((0.01, 0.05, 0.1)))
            attempts = self.collective()
            setattr(self.faults, name, 0.0)
            return attempts
        tap = rng.choice(self._wires())()
        lost = fault == "packet lost"
        bits = rng.sample(range(FLIT_BITS), rng.choice((1, 1, 2)))
        hit = None if lost else sum(1 << bit for bit in bits)
        self.lost_credits = True
        attempts = self.collective(events=[(rng.randint(0, spent), lambda: tap.hits.append(hit))])
        tap.hits.clear()
        return attempts

    def _bad_packets(self) -> list[Attempt]:
        """Several of them on links of the first region's endpoints."""
        rng, system = self.rng, self.system
        before = self._dropped()

        taps: dict[Any, Tap] = {}
        events = []
        for _ in range(rng.randint(1, 4)):
            endpoint = rng.choice(self.victims)
            end, to_node = rng.choice(system.places[endpoint]), bool(rng.randrange(2))
            if (end, to_node) not in taps:
                taps[end, to_node] = (Tap.to_node if to_node else Tap.to_switch)(system, end)
            tap = taps[end, to_node]

            def add(tap: Tap = tap, endpoint: int = endpoint, to_node: bool = to_node) -> None:
                found = bad_packets(system, 0, self._epochs[0], endpoint, rng, to_node=to_node)
                tap.added.append(found[rng.choice(list(found))])

            events.append((rng.randint(0, 2000), add))
        attempts = self.collective(events=events)
        system.settle(quiet=QUIET + 2 * system.timeout + 150)
        self.missed = sum(tap.met for tap in taps.values()) - (self._dropped() - before)
        return attempts

    def _dropped(self) -> int:
        """Packets that switches and endpoints have counted as dropped."""
        system = self.system
        names = [name for name in system.nodes[0].COUNTERS if name.startswith("dropped")]
        here = sum(
            each["count"] for k in range(self.case.engine.dma.links) for name in names
            for each in system.ask(name, k)
        )
        return here + sum(
            count for switch in system.switches for name, count in switch.counters().items()
            if name.startswith("dropped")
        )

    # ---- What is promised.

    def promised(self, attempts: Sequence[Attempt]) -> list[str]:
        """Who gives up does so everywhere; what the class of the fault promises; others work on."""
        case, found = self.case, []
        regions = self.regions if case.fault == "region reprogrammed" else {0: self.victims}
        concerned = [k for members in regions.values() for k in members]
        said = {k: attempts[k].reports for k in concerned}
        what = {k: str(attempts[k]) for k in concerned}
        for k, each in enumerate(attempts):
            if k not in concerned and (not each.exact or each.reports):
                found.append(f"endpoint {k} of another region: {each}")
        aborted = [k for k in concerned if "aborted" in said[k]]
        expected = concerned
        if case.fault == "endpoint reset":
            expected = [k for k in concerned if "reset" in said[k] or attempts[k].finished]
        if aborted and case.fault != "endpoint reset" and len(aborted) < len(concerned):
            found.append(f"given up by some alone: {what}")
        invalid = [k for k in concerned if "read" in said[k]]
        poisons = ("memory refuses a read", "operand outside")
        if case.fault in poisons and len(invalid) < len(concerned):
            found.append(f"not invalid everywhere: {what}")
        if case.fault == "memory refuses a write":
            writes = [k for k in concerned if "write" in said[k]]
            if len(writes) != 1 or any(said[k] for k in concerned if k not in writes):
                found.append(f"not invalid there alone: {what}")
        cause = _CAUSES.get(case.fault)
        if self._unheeded():
            cause = None
        if cause is not None and not all(cause.name.lower() in said[k] for k in expected):
            found.append(f"no {cause.name.lower()}: {what}")
        noticed = any(said[k] - {"dropped"} for k in concerned)
        unnoticed = case.fault in _UNNOTICED or self._unheeded() or (
            case.fault.startswith("packet") and case.engine.retry is not None
        )
        if noticed and (unnoticed or case.fault == "bad packets"):
            found.append(f"software was told: {what}")
        if case.fault == "operand outside" and self.miscounted:
            found.append(f"operands outside are miscounted by members {self.miscounted}")
        if case.fault == "bad packets" and self.missed > 0:
            found.append(f"{self.missed} bad packets were not counted")
        if case.fault == "eviction storm" and not self._gave_way():
            found.append("no entry gave way")
        return found

    def _unheeded(self) -> bool:
        """Whether an operation is different of which nothing hangs: parts are sent as they are."""
        return (self.case.fault == "operations differ"
                and PARTS.get(self.case.what) is Part.SEND)

    def _gave_way(self) -> int:
        counters = [switch.counters() for switch in self.system.switches]
        return sum(each.get(name, 0) for each in counters for name in ("evicted", "expired"))

    def recover(self) -> str | None:
        """Wait until all are ready; where credits were lost and that does not come, or links have
        none left, reset everything."""
        if self.lost_credits and (
            self.case.engine.switch.buffer_packets == 1 or not self._all_ready()
        ):
            self.system.restart()
            self._join()
            self._begun.clear()
        return None if self._all_ready() else "not all are ready"

    def _all_ready(self) -> bool:
        begin = self.system.cycle
        while self.system.cycle - begin < 5000 + self.watch["watchdog"]:
            if all(each["ready"] for each in self.system.ask("status")):
                return True
            for _ in range(20):
                self.system.step()
        return False


def run_case(case: Case) -> Finding:
    """A clean collective, one with the fault, and a clean one again."""
    return run_trial(case, SwitchTrial, (AssertionError,))


SWITCHES = Kind(
    name="switches", classes=CLASSES, engines=10, clean=30, per_class=10, least=(6, 30, 10),
    draw_engines=_draw_engines, draw_case=_draw_case, collective=lambda case: case.what,
    run=run_case,
)
"""Switches with endpoints."""
