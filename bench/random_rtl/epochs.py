"""Operands that one member kept waiting, aborts, and the next all-reduce, on RTL."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hw.fp.ops import ReduceOp
from hw.switch.config import SwitchConfig
from hw.switch.config import preset as switch_preset
from hw.switch.switch import Switch
from hw.switch_dma.config import SwitchDmaConfig
from hw.switch_dma.config import preset as dma_preset
from hw.switch_dma.registers import INTERRUPTS
from tb.switch_dma.fabric import AllReduce, flat, join, two_levels

__all__ = ["MOST_ABORTS", "TIMEOUTS", "EpochCase", "draw_epoch_cases", "run_epochs"]

MOST_ABORTS = 200
TIMEOUTS = (200, 20_000, 65_535)
"""Of tables, in cycles. Beside these there is 0, never, where a table has room for all blocks that
may be under way, so that none gives up a sum which no operand would end."""

WATCHDOG = 3000
"""Cycles without progress, after which the last all-reduce is given up."""

_SMALL = replace(switch_preset("test"), timeout_bits=16)
SWITCHES = {
    1: replace(_SMALL, entries=1),
    4: replace(_SMALL, entries=4, ports=6),
    32: replace(_SMALL, entries=32),
}
"""By entries of a table."""

_LIMIT = 40_000
_OPS = (ReduceOp.SUM_I32, ReduceOp.SUM_I32, ReduceOp.MAX_F32)


@dataclass(frozen=True, kw_only=True)
class EpochCase:
    """A system, what is left in its tables, and what comes after it.

    Members
    -------
    entries, timeout:
        Of tables; cycles.
    members, leaf:
        Endpoints; those at a switch below the root, 0: there is one switch per plane.
    links:
        Of an endpoint, hence planes.
    mode:
        ``push`` or ``pull``.
    aborts:
        Epochs that end after the first operands were left in tables.
    leaves:
        Chance that operands are left before each further abort, too.
    hasty:
        Chance that an abort does not wait until all have come to the epoch before it.
    op, left, elements:
        Of all; of what is left, and of the all-reduce at the end. If these are the same, no
        contract tells the commands apart.
    late:
        The member that does not begin what is left, and is late at the end.
    stalls, latency:
        Of memories, 0 to 1; of links, in cycles.
    seed:
        Of the data, of times, and of who aborts.
    """

    entries: int
    timeout: int
    members: int
    leaf: int
    links: int
    mode: str
    aborts: int
    leaves: float
    hasty: float
    op: ReduceOp
    left: int
    elements: int
    late: int
    stalls: float
    latency: int
    seed: int

    @property
    def switch(self) -> SwitchConfig:
        """Of all switches."""
        return SWITCHES[self.entries]

    @property
    def dma(self) -> SwitchDmaConfig:
        """Of all endpoints."""
        return replace(dma_preset("test"), links=self.links)

    def __str__(self) -> str:
        where = f"leaves of {self.leaf}" if self.leaf else "a switch"
        return (
            f"{self.aborts:3} aborts, {self.mode} x{self.members} on {where}, links {self.links} "
            f"entries {self.entries} timeout {self.timeout} left {self.left} then {self.elements} "
            f"stalls {self.stalls:g} seed {self.seed}"
        )


def draw_epoch_cases(seed: int, count: int) -> list[EpochCase]:
    """*count* of them; in every third one no memory stalls, in every other one the number of epochs
    is one that their low three bits do not show."""
    rng = random.Random(seed)
    return [_draw(rng, number) for number in range(count)]


def _draw(rng: random.Random, number: int) -> EpochCase:
    entries = rng.choice(list(SWITCHES))
    leaf = rng.choice((0, 0, 2))
    members = rng.randint(3, 5 if leaf else 4)
    links = rng.choice((1, 1, 2))
    timeouts = TIMEOUTS + ((0,) if entries == max(SWITCHES) else ())
    if number % 2:
        aborts = 8 * min(round(2 ** rng.uniform(0, 4.7)), MOST_ABORTS // 8)
    else:
        aborts = min(round(2 ** rng.uniform(0, 7.7)), MOST_ABORTS)
    elements = round(2 ** rng.uniform(3, 9))
    return EpochCase(
        entries=entries,
        timeout=rng.choice(timeouts),
        members=members,
        leaf=leaf,
        links=links,
        mode=rng.choice(("push", "pull")),
        aborts=aborts,
        leaves=rng.choice((0.0, 0.1, 1.0)),
        hasty=rng.choice((0.0, 0.0, 0.3)),
        op=rng.choice(_OPS),
        left=rng.choice((elements, elements, round(2 ** rng.uniform(3, 9)))),
        elements=elements,
        late=rng.randrange(members),
        stalls=rng.choice((0.1, 0.3)) if number % 3 else 0.0,
        latency=rng.choice((1, 3, 9)),
        seed=rng.getrandbits(32),
    )


def run_epochs(case: EpochCase, switch_type: type = Switch) -> dict[str, Any]:
    """What became of a case: ``verdict``, ``exact``, ``reported`` or ``wrong``, and what each rank
    says. A run is wrong if a rank is that neither has the sum nor says so, or if it does not
    end."""
    try:
        ranks = _Run(case, switch_type).ranks()
    except AssertionError as error:
        return {"verdict": "wrong", "ranks": [str(error).partition("\n")[0]]}
    verdict = "exact" if set(ranks) == {"exact"} else "reported"
    if any("wrong" in rank or "never" in rank for rank in ranks):
        verdict = "wrong"
    return {"verdict": verdict, "ranks": ranks}


class _Run:
    """The system of a case and its host."""

    def __init__(self, case: EpochCase, switch_type: type) -> None:
        self.case, self.rng = case, random.Random(case.seed)
        make: Any = two_levels if case.leaf else flat
        self.system: Any = make(
            case.switch, case.dma, case.members, mode=case.mode, timeout=case.timeout,
            latency=case.latency, stalls=case.stalls, seed=case.seed & 0xFFFF,
            switch_type=switch_type, **({"leaf": case.leaf} if case.leaf else {}),
        )
        join(self.system, watchdog=WATCHDOG, abort=1)
        self.epoch = 0

    def ranks(self) -> list[str]:
        """Leave operands, abort, reduce; what each rank says of the end."""
        self._leave()
        for number in range(self.case.aborts):
            if number and self.rng.random() < self.case.leaves:
                self._leave()
            self._abort()
            if number == self.case.aborts - 1 or self.rng.random() >= self.case.hasty:
                self._meet()
        return self._reduce()

    def _leave(self) -> None:
        """All but the late member begin, while there is time to send something."""
        rng, system = self.rng, self.system
        if any(not each["ready"] for each in system.ask("status")):
            return  # the abort before did not wait
        job = AllReduce(system, self.case.op, self.case.left, seed=rng.getrandbits(32))
        job.start([node for node in job.nodes if node.number != self.case.late])
        self._pass(rng.randint(60, 400))

    def _abort(self) -> None:
        """One endpoint gives up, or two at about the same time, or one joins anew."""
        rng, nodes = self.rng, self.system.nodes
        if rng.random() < 0.1:
            rng.choice(nodes).join()
        else:
            for node in rng.sample(nodes, rng.choice((1, 1, 2))):
                node.write("control", abort=1)
        self._pass(rng.randint(10, 40))

    def _meet(self) -> None:
        """As the manual says: clear `aborted`, wait until all are ready, in one epoch, a later
        one."""
        system, begin = self.system, self.system.cycle
        while True:
            assert system.cycle - begin < _LIMIT, "not all become ready"
            states, epochs = system.ask("status"), system.ask("epoch")
            found = {each["value"] for each in epochs}
            if all(each["ready"] for each in states) and len(found) == 1:
                break
            self._pass(20)
        (epoch,) = found
        assert epoch > self.epoch, "no later epoch"
        self.epoch = epoch
        for node in system.nodes:
            node.write("interrupt", **dict.fromkeys(INTERRUPTS, 1))
        system.settle(quiet=1)

    def _pass(self, cycles: int) -> None:
        for _ in range(cycles):
            self.system.step()

    def _reduce(self) -> list[str]:
        """New data of all; the late member is the last to begin."""
        system, rng = self.system, self.rng
        told = dict.fromkeys(("done", "aborted", "refused", "invalid"), 1)
        for node in system.nodes:
            node.write("interrupt_enable", **told)
        job = AllReduce(system, self.case.op, self.case.elements, seed=rng.getrandbits(32))
        others = [node for node in job.nodes if node.number != self.case.late]
        job.start(others)
        self._pass(rng.choice((0, 30, 500)))
        job.start([system.nodes[self.case.late]])
        begin = system.cycle
        while system.cycle - begin < _LIMIT:
            if all(node.pins.get("irq") for node in system.nodes):
                break
            system.step()
        self._pass(100)
        causes, states = system.ask("interrupt"), system.ask("status")
        return [
            _said(words, job, causes[k], states[k]["outstanding"])
            for k, words in enumerate(job.results())
        ]


def _said(words: np.ndarray, job: AllReduce, causes: dict[str, int], outstanding: int) -> str:
    """Of a rank: ``exact``, what it reports, or that it does neither."""
    inputs: Sequence[np.ndarray] = job.inputs
    right = sum(inputs) if job.op is ReduceOp.SUM_I32 else np.maximum.reduce(inputs)
    equal = words.tobytes() == np.asarray(right, words.dtype).tobytes()
    if causes["done"] and not causes["aborted"] and not causes["invalid"]:
        return "exact" if equal else "a wrong sum"
    said = [name for name in ("aborted", "invalid", "refused") if causes[name]]
    return "+".join(said) if said else f"never done, {outstanding} outstanding"
