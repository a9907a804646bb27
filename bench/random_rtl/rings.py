# SPDX-License-Identifier: Apache-2.0
"""Rings of RTL engines with faults drawn by a seed: every rank is right or says that it is not."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from bench.random_rtl.ring_engine import RingEngine
from bench.random_rtl.trial import CLEAN, FAULTS, Attempt, Finding, Kind, Trial, run_trial
from bench.records.registered import modules
from hw.common.axi import aligned
from hw.fp.ops import ReduceOp
from sim.hosts.command import Command
from sim.hosts.surroundings import Surroundings
from sim.hosts.wiring import EngineWiring
from sim.rtl.driver import EngineDriver
from sim.rtl.harness.specs import Fault, HeaderFault, PacketFault
from sim.rtl.harness.system import CosimError, CycleLimitError
from sim.workload.graph import CollectiveKind

__all__ = ["CLASSES", "RINGS", "Case", "RingTrial", "draw_case", "draw_engines", "run_case"]

MEMORY_BYTES = 1 << 17
LIMIT = 1_000_000

OPERATIONS = (ReduceOp.SUM_F32, ReduceOp.MIN_F32, ReduceOp.MAX_F32, ReduceOp.SUM_I32)

CLASSES = (CLEAN, *FAULTS, "formats differ")
ENGINES: list[RingEngine] = [each.RINGS for each in modules("rings").values()]


@dataclass(frozen=True, kw_only=True)
class Case:
    """A ring, a collective on it, and what goes wrong.

    Members
    -------
    engine:
        Configuration of the engines.
    ring:
        Their ring, or their torus.
    fault:
        One of `CLASSES`.
    command:
        The collective, without its addresses.
    skew:
        Most cycles that a rank may start late.
    seed:
        Seed of the data, and of the place and time of the fault.
    """

    engine: Any
    ring: Surroundings
    fault: str
    command: Command
    skew: int
    seed: int

    def __str__(self) -> str:
        command, wiring = self.command, self.ring.wiring
        where = ""
        if wiring is not None:
            torus = wiring.torus
            style = "hamiltonian" if torus is None else f"{torus.style} {torus.shape}"
            where = f" {style}"
        latency = "-".join(map(str, dict.fromkeys(self.ring.latencies)))
        return (
            f"{_kind(self.engine).name} x{self.ring.nodes}{where} "
            f"{command.collective.name.lower()} "
            f"{command.op.name.lower()} {command.elements}{' compressed' * command.compress} "
            f"latency {latency} stalls {self.ring.link_stalls:g} "
            f"{self.ring.memory_stalls:g} seed {self.seed}"
        )


def _kind(engine: Any) -> RingEngine:
    """The engine with this configuration."""
    return next(each for each in ENGINES if isinstance(engine, each.config))


def draw_engines(rng: random.Random, count: int) -> list[Any]:
    """*count* different configurations, of the engines in turn, small enough to run fast."""
    found: list[Any] = []
    while len(found) < count:
        try:
            drawn = ENGINES[len(found) % len(ENGINES)].draw(rng)
        except ValueError:
            continue  # an invalid combination
        if drawn not in found:
            found.append(drawn)
    return found


def draw_case(
    rng: random.Random, engine: Any, fault: str, *, wiring: EngineWiring | None = None
) -> Case | None:
    """A case of a class, on a ring or with the links of *wiring*; None if what was drawn does not
    fit together."""
    kind = _kind(engine)
    stalls = rng.choice((0.0, 0.1, 0.3))
    ring = Surroundings(
        nodes=rng.randint(3 if "several" in fault else 2, 5) if wiring is None else wiring.ranks,
        latency_cycles=rng.choice((1, 3, 9, 40)),
        read_latency_cycles=rng.choice((5, 20, 100)),
        link_stalls=stalls,
        memory_stalls=rng.choice((0.0, stalls)),
        host_stalls=stalls,
        memory_bytes=MEMORY_BYTES,
        bidirectional=rng.random() < 0.7,
        wiring=wiring,
        seed=rng.getrandbits(32),
    )
    gathers = kind.scatters and fault == CLEAN and rng.random() < 0.2
    collective = CollectiveKind.ALL_GATHER if gathers else CollectiveKind.ALL_REDUCE
    if kind.scatters and not gathers and rng.random() < 0.2:
        collective = CollectiveKind.REDUCE_SCATTER
    op = rng.choice(OPERATIONS)
    compress = (
        kind.formats and engine.codec_format is not None and op is ReduceOp.SUM_F32
        and rng.random() < 0.5
    )
    if fault == "formats differ" and kind.formats:
        if engine.codec_format is None:
            return None
        op = ReduceOp.SUM_F32
    command = Command(
        collective=collective,
        elements=round(2 ** rng.uniform(3, 11.5)),
        op=op,
        compress=compress,
    )
    case = Case(
        engine=engine, ring=ring, fault=fault, command=command,
        skew=rng.choice((0, 50, 500)), seed=rng.getrandbits(32),
    )
    try:
        kind.driver.check(engine, ring)
        kind.driver.check_command(engine, ring, command)
    except ValueError:
        return None  # more blocks than its SRAM has room for, and the like
    return case


class RingTrial(Trial):
    """Runs collectives on the ring of a case, one after the other."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.rng = random.Random(case.seed)
        self.ring = _kind(case.engine).driver(case.engine, case.ring)
        command = case.command
        self.command = replace(command, source=0, destination=aligned(4 * command.elements))
        self.inputs = self._inputs()
        self.limit = LIMIT
        self._aborts = 0
        self._sent = _headers(self.ring.system)

    @property
    def cycle(self) -> int:
        return int(self.ring.system.cycle)

    def _inputs(self) -> list[NDArray[Any]]:
        data = np.random.default_rng(self.case.seed)
        command, ranks = self.command, range(self.case.ring.nodes)
        sizes = [command.elements] * len(ranks)
        if command.collective is CollectiveKind.ALL_GATHER:
            engine, ring = self.case.engine, self.case.ring
            shards = [self.ring.shard(engine, ring, command, r) for r in ranks]
            sizes = [place.stop - place.start for place in shards]
        if command.op is ReduceOp.SUM_I32:
            return [data.integers(0, 2**32, size, np.uint32) for size in sizes]
        return [data.standard_normal(size).astype(np.float32) for size in sizes]

    def collective(
        self, commands: Sequence[Command] | None = None, *,
        aborts: Sequence[tuple[int, int]] = (),
    ) -> list[Attempt]:
        """Run the collective on all ranks, with the *commands* of each if they differ.

        *aborts* are pairs of a rank and the cycles from its command to its abort. In the end the
        interrupts of all ranks are read and cleared.
        """
        ring, nodes = self.ring, self.ring.system.nodes
        given = [self.command] * len(nodes) if commands is None else list(commands)
        late = [self.rng.randint(0, self.case.skew) for _ in nodes]
        for rank, (node, command) in enumerate(zip(nodes, given, strict=True)):
            self.start(rank, command, late[rank])
            for _, cycles in (each for each in aborts if each[0] == rank):
                node.delay(cycles)
                ring.write(node, "control", **self._abort())
        ring.next_collective()
        # Wait until nothing is outstanding: an aborted collective raises no interrupt on ACE.
        waits = [EngineDriver.wait(ring, node) for node in nodes]
        try:
            ring.system.run(max_cycles=self.limit, drain=False)
        except CycleLimitError:
            ring.system.give_up_waits()
        ring.system.run(max_cycles=self.limit, drain=False)
        found = []
        # The last packets may still be in flight when a command is done.
        for node in nodes:
            node.delay(100 + 2 * self.case.ring.latencies[1])
        for rank, node in enumerate(nodes):
            causes = ring.read(node, "interrupt")
            words = ring.result(node, self.command, rank)
            found.append(Attempt(
                finished=waits[rank].response == 0,
                equal=np.array_equal(words, self._expected[rank]),
                causes=frozenset(name for name, on in causes.items() if on),
            ))
            ring.write(node, "interrupt", **dict.fromkeys(causes, 1))
        ring.system.run(max_cycles=self.limit, drain=False)
        return found

    def start(self, rank: int, command: Command, late: int) -> None:
        """Queue the collective of one rank, *late* cycles from now."""
        node = self.ring.system.nodes[rank]
        node.memory[command.destination :] = 0xA5
        self.ring.store(node, command, self.inputs[rank])
        node.delay(late)
        self.ring.start(node, command)

    def _abort(self) -> dict[str, int]:
        """Fields that one host writes to abort alone; ACE needs an epoch new to its node."""
        self._aborts += 1
        named = {each.name for each in self.ring.registers.registers["control"].fields}
        return {"abort": 1} | ({"epoch": 4 + self._aborts % 4} if "epoch" in named else {})

    @cached_property
    def _expected(self) -> list[NDArray[np.uint32]]:
        found = self.ring.expected(self.command, self.inputs)
        return [np.ascontiguousarray(each).view(np.uint32) for each in found]

    def watch(self, cycles: int) -> None:
        """Set watchdogs, where engines have them, to *cycles* without progress."""
        if "watchdog" in self.ring.registers.registers:
            for node in self.ring.system.nodes:
                self.ring.write(node, "watchdog", cycles=cycles)
            self.ring.system.run(drain=False)

    def with_fault(self, spent: int) -> tuple[list[Attempt], set[int]]:
        self.watch(3 * spent + 3000)
        before, after = self._sent, _headers(self.ring.system)
        return _with_fault(self, {port: after[port] - before[port] for port in after}, spent)

    def recover(self) -> str | None:
        """Abort everything as documented; return why the ring did not come to rest, or None."""
        system = self.ring.system
        unlimited = system.run
        # Keep a ring that never comes to rest from running for a hundred million cycles.
        limited = partial(unlimited, max_cycles=self.limit)
        try:
            with patch.object(system, "run", limited):
                self.ring.recover()
        except CycleLimitError as error:
            return f"not at rest after the abort: {error}"
        return None


def _headers(system: Any) -> dict[tuple[int, int], int]:
    """Packets that each port of each node has sent so far."""
    return {
        (number, port): system.link_activity(number, port).header_flits
        for number, node in enumerate(system.nodes) for port in range(node.link_ports)
    }


def run_case(case: Case) -> Finding:
    """Run a clean collective, one with the fault, and a clean one again."""
    return run_trial(case, RingTrial, (CosimError,))


def _with_fault(
    trial: RingTrial, sent: Mapping[tuple[int, int], int], spent: int
) -> tuple[list[Attempt], set[int]]:
    """Run the collective with the fault; return its outcomes and the ranks whose hosts aborted.

    *sent* are the packets of each port, and *spent* the cycles, of one without a fault.
    """
    case, rng = trial.case, trial.rng
    nodes = case.ring.nodes
    if "abort" in case.fault:
        ranks = {"abort of one node": 1, "aborts of two nodes": 2}.get(case.fault, nodes)
        chosen = rng.sample(range(nodes), ranks)
        # Sometimes the same node twice, as by a host that has waited long enough.
        if ranks > 1:
            chosen += rng.choices(chosen, k=rng.randint(0, 2))
        aborts = [(rank, rng.randint(0, spent)) for rank in chosen]
        return trial.collective(aborts=aborts), set(chosen)
    if case.fault.endswith("differ"):
        return trial.collective(_differing(trial)), set()
    if "memory" in case.fault:
        node = _break_memory(trial)
        attempts = trial.collective()
        node.heal_memory()
        return attempts, set()
    trial.ring.system.inject(_place(trial, sent))
    return trial.collective(), set()


def _differing(trial: RingTrial) -> list[Command]:
    """Commands of all ranks, one of which differs from the others."""
    rng, command, fault = trial.rng, trial.command, trial.case.fault
    floats = [ReduceOp.SUM_F32, ReduceOp.MIN_F32, ReduceOp.MAX_F32]
    if fault == "lengths differ":
        fewer = max(1, command.elements - rng.choice((1, 4, 16, command.elements // 2)))
        other = replace(command, elements=fewer if fewer < command.elements else 2)
    elif fault == "formats differ" and _kind(trial.case.engine).formats:
        other = replace(command, compress=not command.compress)
    elif fault == "formats differ":
        integers = command.op is ReduceOp.SUM_I32
        other = replace(command, op=ReduceOp.SUM_F32 if integers else ReduceOp.SUM_I32)
    else:
        choices = [op for op in floats if op is not command.op]
        other = replace(command, op=rng.choice(choices), compress=False)
    commands = [command] * trial.case.ring.nodes
    commands[rng.randrange(len(commands))] = other
    return commands


def _break_memory(trial: RingTrial) -> Any:
    """Make the first, the last or any beat of a rank's vector or result fail; return its node."""
    rng, write = trial.rng, "write" in trial.case.fault
    data = trial._expected if write else trial.inputs
    rank = rng.choice([rank for rank, each in enumerate(data) if len(each)])  # some have no shard
    node = trial.ring.system.nodes[rank]
    start = trial.command.destination if write else trial.command.source
    size = 4 * len(data[rank])
    place = rng.choice((0, size - 1, rng.randrange(size)))
    node.fail_memory(start + place, 1, reads=not write, writes=write)
    return node


def _place(trial: RingTrial, sent: Mapping[tuple[int, int], int]) -> Fault:
    """Draw a packet of the collective, and the fault that it meets."""
    rng, fault = trial.rng, trial.case.fault
    engine = _kind(trial.case.engine)
    # A packet is repeated before the next one, which must belong to the same collective.
    spared = engine.packets if fault == "packet repeated" else 0
    least = engine.packets + spared
    node, port = rng.choice([end for end, count in sent.items() if count >= least])
    number = engine.packets * rng.randrange((sent[node, port] - spared) // engine.packets)
    number += _headers(trial.ring.system)[node, port]
    bits = engine.header_bits(rng, trial.case.engine)
    if fault == "packet damaged":
        return HeaderFault(node=node, port=port, packet=number, bits=bits)
    repeat = fault == "packet repeated"
    return PacketFault(node=node, port=port, packet=number, packets=engine.packets, repeat=repeat)


RINGS = Kind(
    name="rings", classes=CLASSES, engines=20, clean=104, per_class=18, least=(20, 100, 15),
    draw_engines=draw_engines, draw_case=draw_case,
    collective=lambda case: case.command.collective.name.lower().replace("_", "-"), run=run_case,
)
"""Rings of engines."""
