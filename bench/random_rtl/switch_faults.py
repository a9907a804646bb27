# SPDX-License-Identifier: Apache-2.0
"""Faults planted into a collective on switches."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from bench.random_rtl.switch_cases import PARTS, Case
from bench.random_rtl.switch_collectives import QUIET, Collectives
from bench.random_rtl.trial import Attempt
from hw.fp.ops import ReduceOp
from hw.link.packet import FLIT_BITS
from hw.switch_dma.layouts import Part
from hw.switch_dma.registers import COUNTERS
from sim.rtl.switch.orders import Spot
from tb.switch_dma.fabric import AllReduce
from tb.switch_dma.faults import bad_packets

__all__ = ["FaultyCollectives"]


class FaultyCollectives(Collectives):
    """Collectives, one of which has the fault of its case.

    Members
    -------
    victim, miscounted:
        Members with an operand outside its window, and with a wrong count of these, by position.
    missed:
        Packets that should have been counted as dropped but were not.
    """

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self.victim = -1
        self.miscounted: list[int] = []
        self.missed = 0

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
        chosen += rng.choices(chosen, k=rng.randint(0, 2))  # sometimes the same node twice
        events = [
            (rng.randint(0, spent), lambda k=k: self.system.nodes[k].write("control", abort=1))
            for k in chosen
        ]
        return self.collective(events=events), set(chosen)

    def _refuse(self) -> list[Attempt]:
        """Make the first, the last or any beat that an endpoint reads, or writes, fail."""
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
            node.refuse(**{"writes" if writes else "reads": range(start, start + 16)})

        attempts = self.collective(prepare=prepare)
        for node in self.system.nodes:
            node.node.heal_memory()
            node.node.heal_memory()
        return attempts

    def _outside(self) -> list[Attempt]:
        """Put one operand of an endpoint outside the window."""
        rng = self.rng
        before = self._counted_outside()

        def prepare(jobs: list[AllReduce]) -> None:
            job = jobs[0]
            end = 2.0 ** (job.exponent - 126)
            self.victim, node = rng.choice(list(enumerate(job.nodes)))
            value = np.array([rng.choice((np.nan, -np.inf, end, -2 * end))], np.float32)
            node.put(job.source + 4 * rng.randrange(job.elements), value)

        attempts = self.collective(prepare=prepare)
        after = self._counted_outside()
        self.miscounted = [number for number, (a, b) in enumerate(zip(before, after))
                           if b - a != (number == self.victim)]
        return attempts

    def _counted_outside(self) -> list[int]:
        """Count of beats with operands outside the window, by endpoint."""
        links = range(self.case.engine.dma.links)
        every = [self.system.ask("outside", k, nodes=self.nodes(0)) for k in links]
        return [sum(each["count"] for each in of_node) for of_node in zip(*every)]

    def _differ(self) -> list[Attempt]:
        rng, case = self.rng, self.case
        change: dict[str, Any]
        if case.fault == "operations differ":
            change = {"op": rng.choice([op for op in ReduceOp if op is not case.op])}
            if case.what == "deterministic":
                change |= {"fixed": 0}  # fixed point has only one operation
        elif case.fault == "lengths differ":
            fewer = max(1, case.elements - rng.choice((1, 4, 32, case.elements // 2)))
            change = {"elements": fewer if fewer < case.elements else 2}
        else:
            change = rng.choice(list(self._other_modes()))
        return self.collective(changes={rng.choice(self.victims): change})

    def _other_modes(self) -> Iterator[dict[str, Any]]:
        """Yield changes that make the command of one endpoint differ from the others."""
        case, dma = self.case, self.case.engine.dma
        yield {"pull": int(case.mode == "push")}
        yield {"tag": self.seed & 255}
        if case.what == "deterministic":
            yield {"fixed": 0}
        elif case.what == "all-reduce" and dma.fixed_point:
            yield {"op": ReduceOp.SUM_F32, "fixed": 1, "exponent": 130}
        if case.what == "all-reduce" and dma.parts:
            yield {"part": self.rng.choice((Part.SEND, Part.STORE)), "begin": 0, "end": 0}
        if case.what in PARTS:
            yield {"part": self.rng.choice([each for each in Part if each is not PARTS[case.what]])}

    def _late(self) -> list[Attempt]:
        """Start an endpoint late, within its watchdog or beyond, which aborts or does not."""
        rng, abort = self.rng, self.rng.randrange(2)
        for node in self.system.nodes:
            node.write("watchdog", cycles=self.watch["watchdog"], tries=0, abort=abort)
        late = round(self.watch["watchdog"] * rng.choice((0.5, 1.5)))
        return self.collective(late={rng.choice(self.victims): late})

    def _reset(self, spent: int) -> tuple[list[Attempt], set[int]]:
        """Reset one endpoint, which rejoins; the others do not wait for it."""
        rng, system = self.rng, self.system
        victim = rng.choice(self.victims)
        node = system.nodes[victim]
        quiet = rng.random() < 0.5

        def reset() -> None:
            node.restart()
            node.configure(
                members=len(self.victims), region=0, own=int(self.case.mode == "whole"),
                **self.watch,
            )
            node.write("interrupt_enable", done=1, aborted=1, refused=1)
            node.join()

        # Quiet: operands of the others wait in tables and at homes for those of the victim.
        when = 4 * self.case.skew + 4 * spent + 4000 if quiet else rng.randint(1, spent)
        late = {victim: None if quiet else 0}
        if quiet and self.watch["watchdog"] <= when:
            for each in system.nodes:
                each.write("watchdog", cycles=2 * when, tries=0, abort=1)
        events = [(when, reset)]
        return self.collective(events=events, late=late, without=[victim]), {victim}

    def _reprogram(self) -> list[Attempt]:
        """Change members, region numbers, homes and time-outs while nothing is in flight."""
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
            system.region(group, links=system.pruned(group),
                          region=number, timeout=system.timeout,
                          homes=rng.sample(group, rng.randint(1, len(group))))
        self.begun.clear()
        self.join()
        return self.collective()

    def _wires(self) -> list[Spot]:
        """Wires of both directions of the victims' links, and of cables if no other region uses
        them."""
        system = self.system
        ends = [spot for k in self.victims for spot in system.places[k]]
        found = [wire(end) for end in ends for wire in (system.to_node, system.to_switch)]
        if len(self.case.groups) == 1:
            found += [system.to_switch(end) for end in system.peer]
        return found

    def _damage(self, spent: int) -> list[Attempt]:
        rng, fault = self.rng, self.case.fault
        if self.case.engine.retry is not None:
            name = {"packet damaged": "damage", "packet lost": "loss"}.get(fault, "repetition")
            self.system.strain(**{name: rng.choice((0.01, 0.05, 0.1))})
            attempts = self.collective()
            self.system.strain()
            return attempts
        wire = rng.choice(self._wires())
        lost = fault == "packet lost"
        bits = rng.sample(range(FLIT_BITS), rng.choice((1, 1, 2)))
        hit = None if lost else sum(1 << bit for bit in bits)
        self.lost_credits = True
        when = rng.randint(0, spent)
        attempts = self.collective(events=[(when, lambda: self.system.hit(wire, hit))])
        self.system.system.forget_faults(*wire)
        return attempts

    def _bad_packets(self) -> list[Attempt]:
        """Inject several bad packets on links of the first region's endpoints."""
        rng, system = self.rng, self.system
        before = self._dropped()

        taps: list[Spot] = []
        events = []
        for _ in range(rng.randint(1, 4)):
            endpoint = rng.choice(self.victims)
            end, to_node = rng.choice(system.places[endpoint]), bool(rng.randrange(2))
            taps.append(system.tap((system.to_node if to_node else system.to_switch)(end)))

            def add(
                tap: Spot = taps[-1], endpoint: int = endpoint, to_node: bool = to_node
            ) -> None:
                found = bad_packets(system, 0, self.epochs[0], endpoint, rng, to_node=to_node)
                system.add(tap, found[rng.choice(list(found))])

            events.append((rng.randint(0, 2000), add))
        attempts = self.collective(events=events)
        system.settle(quiet=QUIET + 2 * system.timeout + 150)
        added = len(taps) - system.added(*set(taps))
        self.missed = added - (self._dropped() - before)
        return attempts

    def _dropped(self) -> int:
        """Number of packets that switches and endpoints have counted as dropped."""
        system = self.system
        names = [name for name in COUNTERS if name.startswith("dropped")]
        here = sum(
            each["count"] for k in range(self.case.engine.dma.links) for name in names
            for each in system.ask(name, k)
        )
        return here + sum(
            count for switch in system.switches for name, count in switch.counters().items()
            if name.startswith("dropped")
        )
