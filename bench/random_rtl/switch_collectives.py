# SPDX-License-Identifier: Apache-2.0
"""Collectives on endpoints and switches that are all RTL, one after the other."""

import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

from numpy.typing import NDArray

from bench.random_rtl.switch_cases import PARTS, Case, kinds_of
from bench.random_rtl.trial import Attempt, Trial
from hw.fp.ops import ReduceOp
from hw.switch.packet import AbortCause
from sim.rtl.switch.stepped import EndpointNode
from tb.switch_dma.fabric import AllReduce, Restriction, join

__all__ = ["QUIET", "Collectives"]

MEMORY_BYTES = 1 << 16
LIMIT = 100_000
QUIET = 60
"""Cycles without movement after which a system counts as at rest."""


class Collectives(Trial):
    """Runs collectives on the system of a case, one after the other.

    Members
    -------
    case:
        The case of the system.
    system:
        Endpoints and switches; `watch` holds its watchdogs.
    regions, victims:
        Endpoint numbers of the members of each region, and of the region with the fault.
    begun:
        By region, the epoch of the previous collective, and its blocks so far on each link.
    epochs:
        By region, the epoch of the running or last collective.
    seed:
        Seed of the data of that collective.
    lost_credits:
        True if links may have lost credits.
    """

    def __init__(self, case: Case) -> None:
        self.case = case
        self.rng = random.Random(case.seed)
        self.limit = LIMIT
        engine = case.engine
        self.system = case.build(
            engine.switch, engine.dma, sum(len(group) for group in case.groups),
            groups=case.groups, timeout=case.timeout, memory_bytes=MEMORY_BYTES,
            retry=engine.retry,
        )
        self.watch = {"watchdog": 0, "tries": 0, "abort": 1}
        self.victims = case.groups[0]
        self.regions = dict(enumerate(case.groups))
        self.join()
        self.begun: dict[int, tuple[int, list[int]]] = {}
        self.seed = case.seed
        self.lost_credits = False

    @property
    def cycle(self) -> int:
        return self.system.cycle

    def join(self) -> None:
        """Let all endpoints join their regions."""
        join(self.system, **self.watch)
        for node in self.system.nodes:
            node.write("interrupt_enable", done=1, aborted=1, refused=1)
        self.system.settle(quiet=5)

    def nodes(self, region: int) -> list[EndpointNode]:
        """Endpoints that are members of a region."""
        return [self.system.nodes[k] for k in self.regions[region]]

    def collective(
        self,
        *,
        changes: dict[int, dict[str, Any]] | None = None,
        late: dict[int, int | None] | None = None,
        events: Sequence[tuple[int, Callable[[], object]]] = (),
        prepare: Callable[[list[AllReduce]], None] | None = None,
        without: Sequence[int] = (),
    ) -> list[Attempt]:
        """Run one in each region at the same time, with *changes* of some endpoints' commands.

        *late* (None for never) and *events* are in cycles from now; *prepare* gets the all-reduces
        before they begin; the run does not wait for endpoints *without*.
        """
        system, case = self.system, self.case
        jobs = []
        system.log.clear()
        for region in self.regions:
            self.seed += 1
            jobs.append(self._job(region))
        self.epochs = {job.region: self._epoch(job.region) for job in jobs}
        if prepare is not None:
            prepare(jobs)
        begin = system.cycle
        todo = list(events)
        for job in jobs:
            for node in job.nodes:
                delay = (late or {}).get(node.number, self.rng.randint(0, case.skew))
                given = (changes or {}).get(node.number, {})
                if delay is not None:
                    todo.append((delay, partial(job.start, [node], **given)))
        todo.sort(key=lambda each: each[0])
        waited = [node for node in system.nodes if node.number not in without]
        while system.cycle - begin < self.limit:
            while todo and todo[0][0] <= system.cycle - begin:
                todo.pop(0)[1]()
            if not todo and all(node.output("irq") for node in waited):
                break
            system.step()
        system.settle(quiet=QUIET + 4 * case.latency + 200 * (case.stalls > 0),
                      deadline=self.limit)
        found = [attempt for job in jobs for attempt in self._attempts(job)]
        found.sort(key=lambda each: each[0])
        system.settle(quiet=5)
        return [attempt for _, attempt in found]

    def _job(self, region: int) -> AllReduce:
        """The collective of the case or, in other regions, one of a random kind."""
        rng, case = self.rng, self.case
        op, what = case.op, case.what
        if region:
            what = rng.choice(kinds_of(case.engine.dma))
            fixed = what == "deterministic"
            op = ReduceOp.SUM_F32 if fixed else rng.choice(list(ReduceOp))
        only = Restriction()
        if what in PARTS:
            only = Restriction(PARTS[what], self._parts(what, len(self.regions[region])))
        return AllReduce(
            self.system, op, case.elements, seed=self.seed, region=region, tag=self.seed & 255,
            fixed=what == "deterministic", only=only,
        )

    def _parts(self, what: str, members: int) -> list[tuple[int, int]]:
        """Elements that each member sends or stores: whole blocks, sometimes none."""
        rng, elements = self.rng, self.case.elements
        if what == "broadcast":
            root = rng.randrange(members)
            return [(0, elements if k == root else 0) for k in range(members)]
        size = self.case.engine.dma.block_elements
        cuts = sorted(rng.choices(range(0, elements + size, size), k=members - 1))
        ends = [0, *(min(cut, elements) for cut in cuts), elements]
        # An empty part must not begin within a block, where the end of the vector may be.
        shares = [(first, end) if first < end else (0, 0) for first, end in pairwise(ends)]
        rng.shuffle(shares)
        return shares

    def _epoch(self, region: int) -> int:
        """The epoch that all members of a region have reached."""
        begin = self.system.cycle
        nodes = self.nodes(region)
        while not all(each["ready"] for each in self.system.ask("status", nodes=nodes)):
            assert self.system.cycle - begin < LIMIT, f"region {region} does not become ready"
        epochs = {each["value"] for each in self.system.ask("epoch", nodes=nodes)}
        assert len(epochs) == 1, f"members of region {region} are in epochs {epochs}"
        return epochs.pop()

    def _attempts(self, job: AllReduce) -> Iterator[tuple[int, Attempt]]:
        """Yield number and outcome of each member of an all-reduce that has ended."""
        system, dma = self.system, self.case.engine.dma
        before = self.epochs[job.region]
        epoch, base = self.begun.get(job.region, (before, [0] * dma.links))
        if epoch != before:
            base = [0] * dma.links
        expected: Sequence[NDArray[Any] | None]
        try:
            expected = job.expected(job.golden(base=base, epoch=before))
        except AssertionError:
            expected = [None] * len(job.nodes)
        blocks = -(-job.elements // dma.block_elements)
        self.begun[job.region] = before, [
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
            yield number, Attempt(
                finished=status["outstanding"] == 0,
                equal=right is not None and words.tobytes() == right.tobytes()
                and bool((behind == 0xA5).all()),
                causes=frozenset(said),
            )

    def recover(self) -> str | None:
        """Wait until all are ready; if lost credits prevent that, or have left links with none,
        reset everything."""
        if self.lost_credits and (
            self.case.engine.switch.buffer_packets == 1 or not self._all_ready()
        ):
            self.system.restart()
            self.join()
            self.begun.clear()
        return None if self._all_ready() else "not all are ready"

    def _all_ready(self) -> bool:
        begin = self.system.cycle
        while self.system.cycle - begin < 5000 + self.watch["watchdog"]:
            if all(each["ready"] for each in self.system.ask("status")):
                return True
            self.system.step(20)
        return False
