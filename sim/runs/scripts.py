# SPDX-License-Identifier: Apache-2.0
"""Scripts of hosts on a ring of engines: in RTL, as cycle models, or some of both."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gen.brief import Brief
from hw.common.axi import aligned
from hw.fp.ops import ReduceOp
from sim.cycles.model import CycleModel
from sim.engines.kind import EngineKind, engine_kind
from sim.fields import FieldError
from sim.hosts.activity import LinkActivity, MemoryActivity, UnitActivity
from sim.hosts.command import Command
from sim.hosts.script import Interrupt, Reached, Step, check_scripts
from sim.hosts.surroundings import Surroundings
from sim.rtl.driver import EngineDriver
from sim.rtl.exchange import MixedExchange
from sim.rtl.harness.host import Ticket
from sim.rtl.harness.signals import SignalTrace
from sim.rtl.harness.system import CycleLimitError
from sim.workload.graph import CollectiveKind

__all__ = ["LEVELS", "EngineRun", "Level", "draw_inputs", "run_engines"]

Level = Literal["rtl", "cycles"]
LEVELS: tuple[Level, ...] = ("rtl", "cycles")

Inputs = Sequence[Sequence[NDArray[Any]] | NDArray[Any]]
Places = dict[tuple[int, int], Any]


@dataclass(frozen=True, kw_only=True, repr=False)
class EngineRun(Brief):
    """Result of :func:`run_engines`. Cycles count from the reset of the RTL.

    Parameters
    ----------
    begin : int
        Cycle in which the scripts started.
    steps : list of lists of int
        For each rank, the cycle in which each step of its script ended.
    completions : array, ranks x commands
        Cycle from which the host of a rank knew by its script that one more collective was
        complete; -1 where it did not ask.
    checked, wrong : int
        Results of RTL ranks that were compared with the golden model, and those that differ in any
        bit.
    packets : int
        Packets from RTL ranks to models that were compared, all equal.
    links : mapping of (rank, port) to LinkActivity
    memory : mapping of (rank, port) to MemoryActivity
        Memory of RTL ranks.
    units : mapping of str to UnitActivity
        Parts of the engines that are models, of models that count their work.
    counts : mapping of str to int
        Events of engines that count some: those of reduction tables.
    signals : mapping of rank to SignalTrace
        Signals of RTL ranks, where any are traced.
    wall_s, prepare_s : float
        Seconds that the run took, and those of making the system before it, compilation of parts
        that were not cached included.
    """

    begin: int
    steps: list[list[int]]
    completions: NDArray[np.int64]
    checked: int = 0
    wrong: int = 0
    packets: int = 0
    links: Mapping[tuple[int, int], LinkActivity]
    memory: Mapping[tuple[int, int], MemoryActivity]
    units: Mapping[str, UnitActivity] = field(default_factory=dict)
    signals: Mapping[int, SignalTrace] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    wall_s: float
    prepare_s: float

    @property
    def cycles(self) -> int:
        """From the start to the end of the last script."""
        return max(steps[-1] for steps in self.steps if steps) + 1 - self.begin


def draw_inputs(
    commands: Sequence[Command], nodes: int, *, seed: int
) -> list[NDArray[np.generic]]:
    """Random data for every command, ranks x elements, of the type that its operation takes.

    All-gathers get as much for every rank; elements behind the end of its shard are not used.
    """
    rng = np.random.default_rng(seed)
    data: list[NDArray[np.generic]] = []
    for command in commands:
        shape = nodes, command.elements
        if command.op is ReduceOp.SUM_I32:
            data.append(rng.integers(-(2**31), 2**31, shape, dtype=np.int32))
        else:
            data.append(rng.standard_normal(shape).astype(np.float32))
    return data


def run_engines(
    engine: str,
    config: Any,
    ring: Surroundings,
    commands: Sequence[Command],
    scripts: Sequence[Sequence[Step]],
    inputs: Inputs | None = None,
    *,
    levels: Sequence[Level] | Level = "rtl",
    start_cycle: int = 0,
    window_cycles: int | None = None,
    bucket_cycles: int = 0,
    trace: bool = False,
    max_cycles: int = 100_000_000,
    **options: Any,
) -> EngineRun:
    """Run scripts on a ring of engines until all have ended, and check the results of RTL ranks.

    With ranks of both levels, each side runs a window alone and then they exchange what they have
    sent: packets with header and payload, and credits. Every packet of an RTL rank is compared.

    Parameters
    ----------
    engine : str
        A name in `sim.engines`.
    config
        Configuration of the engine: AceConfig, SmartNicConfig.
    ring : Surroundings
        RTL ranks get more memory if the commands need it. Where it is ``folded`` there is one rank,
        with one script and one vector for each command; the vectors of the others are that one with
        shards moved on in a circle, from rank to rank by one.
    commands : sequence of Command
        All collectives of the run, in the order in which every rank starts them.
    scripts : sequence of sequences of Step
        Steps of the host of each rank.
    inputs : sequence or None
        For each command a vector (all-gather: a shard at least) per rank, see `draw_inputs`; None
        if there is no RTL.
    levels : "rtl", "cycles", or a sequence of one per rank
        Switches have levels, too, one each behind those of the ranks.
    start_cycle : int
        Cycle in which scripts start if all ranks are models; RTL begins when it is set up.
    window_cycles : int or None
        1 to the latency of the links, None for the largest; it changes nothing but the speed.
    bucket_cycles : int
        Resolution of the series in ``links`` and ``memory``, 0 for none.
    trace : bool
        Keep every beat.
    max_cycles : int
    options
        For RTL: those of the driver (threads, faults).

    Raises
    ------
    ValueError
        For settings, commands, scripts or inputs that do not fit the engine or each other.
    PayloadError
        If an RTL rank sends a model a packet that is not the golden one.
    CycleLimitError, RuntimeError
        If the scripts have not ended after *max_cycles*, or cannot.
    """
    kind = engine_kind(engine)
    _check(kind, config, ring, commands, scripts)
    needed = max((aligned(command.end) for command in commands), default=0)
    ring = replace(ring, memory_bytes=max(ring.memory_bytes, needed))
    rtl = _rtl_ranks(engine, kind, config, ring, levels)
    data = _data(kind, config, ring, commands, inputs) if rtl else []
    began = time.perf_counter()
    driver, model, exchange = _make(
        kind, config, ring, commands, scripts, data, rtl,
        start_cycle=start_cycle, window_cycles=window_cycles, bucket_cycles=bucket_cycles,
        trace=trace, **options,
    )
    prepared = time.perf_counter()
    tickets = _queue(driver, commands, scripts, data) if driver is not None else {}
    begin = driver.system.cycle if driver is not None else start_cycle
    wall_s = _run(driver, model, exchange, max_cycles)
    checked, wrong = _compare(driver, commands, data) if driver is not None else (0, 0)
    steps = _steps(tickets, model, ring.engines)
    return EngineRun(
        begin=begin,
        steps=steps,
        completions=_completions(scripts, steps, len(commands)),
        checked=checked,
        wrong=wrong,
        packets=0 if exchange is None else exchange.packets,
        links=_links(kind, config, ring, rtl, driver, model, bucket_cycles),
        memory=_memory(driver) if driver is not None else {},
        units=model.units() if model is not None else {},
        signals=_signals(driver) if driver is not None else {},
        counts=_counts(driver, model),
        wall_s=wall_s,
        prepare_s=prepared - began,
    )


def _check(
    kind: EngineKind, config: Any, ring: Surroundings, commands: Sequence[Command],
    scripts: Sequence[Sequence[Step]],
) -> None:
    """Raise ValueError unless all arguments fit each other."""
    kind.rules.check(config, ring)
    for command in commands:
        kind.rules.check_command(config, ring, command)
    check_scripts(scripts, nodes=ring.engines, commands=len(commands))


def _rtl_ranks(
    engine: str, kind: EngineKind, config: Any, ring: Surroundings,
    levels: Sequence[Level] | Level,
) -> list[int]:
    """Ranks, and switches behind them, that are RTL."""
    count = kind.rules.count(config, ring)
    each = [levels] * count if isinstance(levels, str) else list(levels)
    if len(each) != count or any(level not in LEVELS for level in each):
        raise FieldError(
            "levels", f"must be {' or '.join(LEVELS)}, for all or each of {count} ranks, "
            f"not {levels!r}"
        )
    rtl = [rank for rank, level in enumerate(each) if level == "rtl"]
    if rtl and kind.driver is None:
        raise FieldError("levels", f"must be cycles for engine {engine!r}, not {levels!r}")
    if ring.bad_wires and len(rtl) < count:
        raise ValueError(
            "link_loss, link_repetition and link_damage must be 0 where anything is a cycle model"
        )
    if ring.retry is not None and len(rtl) < count:
        raise FieldError("retry", "must be None where anything is a cycle model, which has none")
    return rtl


def _data(
    kind: EngineKind, config: Any, ring: Surroundings, commands: Sequence[Command],
    inputs: Inputs | None,
) -> list[list[NDArray[Any]]]:
    """The inputs as arrays of the right lengths, checked to fit the commands."""
    if inputs is None or len(inputs) != len(commands):
        found = "None" if inputs is None else len(inputs)
        raise FieldError("inputs", f"must be data for {len(commands)} commands, not {found}")
    assert kind.driver is not None
    data = []
    for number, (command, arrays) in enumerate(zip(commands, inputs, strict=True)):
        rows = list(arrays)
        if command.collective is CollectiveKind.ALL_GATHER:
            shards = [kind.driver.shard(config, ring, command, n) for n in range(len(rows))]
            rows = [each[: s.stop - s.start] for each, s in zip(rows, shards, strict=True)]
        data.append(kind.driver.vectors(config, ring, command, rows, name=f"inputs[{number}]"))
    return data


def _make(
    kind: EngineKind,
    config: Any,
    ring: Surroundings,
    commands: Sequence[Command],
    scripts: Sequence[Sequence[Step]],
    data: Sequence[Sequence[NDArray[Any]]],
    rtl: Sequence[int],
    *,
    start_cycle: int,
    bucket_cycles: int,
    trace: bool,
    window_cycles: int | None,
    **options: Any,
) -> tuple[EngineDriver | None, CycleModel | None, MixedExchange | None]:
    """Parts to run: a driver, a model, or both and the exchange between them."""
    options |= {
        "bucket_cycles": bucket_cycles, "window_cycles": window_cycles, "record_beats": trace,
    }
    traced = trace or bucket_cycles > 0
    if rtl and len(rtl) == kind.rules.count(config, ring) and kind.driver is not None:
        return kind.driver(config, ring, **options), None, None
    if not rtl:
        model = kind.model(config, ring, commands, scripts, start_cycle=start_cycle, trace=traced)
        model.run(0)  # compiles it
        return None, model, None
    assert kind.exchange is not None
    exchange = kind.exchange(
        config, ring, commands, scripts, data, rtl=rtl, trace=traced, **options
    )
    exchange.model.run(0)
    return exchange.cluster, exchange.model, exchange


def _run(
    driver: EngineDriver | None,
    model: CycleModel | None,
    exchange: MixedExchange | None,
    max_cycles: int,
) -> float:
    """Run to the end of all scripts; returns the wall time in seconds."""
    if exchange is not None:
        return exchange.run(max_cycles)
    if driver is not None:
        try:
            return driver.system.run(max_cycles=max_cycles).wall_s
        except CycleLimitError as error:
            raise CycleLimitError(f"{error}; {driver.report()}", error.partial) from None
    assert model is not None
    wall_s = model.run()
    if not model.done:
        raise RuntimeError("the cycle model came to a standstill before its scripts had ended")
    return wall_s


def _queue(
    driver: EngineDriver,
    commands: Sequence[Command],
    scripts: Sequence[Sequence[Step]],
    data: Sequence[Sequence[NDArray[Any]]],
) -> dict[int, list[Ticket]]:
    """Store the data of all RTL ranks and queue their scripts."""
    tickets = {}
    for rank, node in zip(driver.ranks, driver.nodes, strict=True):
        for command, arrays in zip(commands, data, strict=True):
            driver.store(node, command, arrays[rank])
        tickets[rank] = driver.queue_script(node, scripts[rank], commands)
    return tickets


def _compare(
    driver: EngineDriver, commands: Sequence[Command], data: Sequence[Sequence[NDArray[Any]]]
) -> tuple[int, int]:
    """Results in memory that were compared with the golden model, and those that differ."""
    checked = wrong = 0
    for command, expected in zip(commands, driver.expectations(commands, data), strict=True):
        for rank, node in zip(driver.ranks, driver.nodes, strict=True):
            checked += 1
            found = driver.result(node, command, rank)
            wrong += found.tobytes() != expected[rank].tobytes()
    return checked, wrong


def _steps(
    tickets: Mapping[int, Sequence[Ticket]], model: CycleModel | None, ranks: int
) -> list[list[int]]:
    """For each rank, the cycles in which the steps of its script ended; RTL's from *tickets*."""
    ends = {rank: [ticket.cycle for ticket in of_rank] for rank, of_rank in tickets.items()}
    if model is not None:
        for rank in (rank for rank in range(ranks) if rank not in tickets):
            ends[rank] = model.steps(rank).tolist()
    return [ends[rank] for rank in range(ranks)]


def _completions(
    scripts: Sequence[Sequence[Step]], steps: Sequence[Sequence[int]], commands: int
) -> NDArray[np.int64]:
    known = np.full((len(scripts), commands), -1, np.int64)
    for rank, (script, ends) in enumerate(zip(scripts, steps, strict=True)):
        seen = 0
        for step, end in zip(script, ends, strict=True):
            count = step.count if isinstance(step, Reached) else int(isinstance(step, Interrupt))
            known[rank, seen:count] = end
            seen = max(seen, count)
    return known


def _signals(driver: EngineDriver) -> dict[int, SignalTrace]:
    """Traced signals of each RTL rank."""
    found = {
        rank: driver.signals(node)
        for rank, node in zip(driver.ranks, driver.nodes, strict=True)
    }
    return {rank: each for rank, each in found.items() if each.signals}


def _counts(driver: EngineDriver | None, model: CycleModel | None) -> dict[str, int]:
    """Events of engines and models by name."""
    total: dict[str, int] = {}
    for each in (driver, model):
        for name, count in each.counts().items() if each is not None else ():
            total[name] = total.get(name, 0) + count
    return total


def _links(
    kind: EngineKind, config: Any, ring: Surroundings, rtl: Sequence[int],
    driver: EngineDriver | None, model: CycleModel | None, bucket_cycles: int,
) -> dict[tuple[int, int], LinkActivity]:
    """Load of links, as counted by the sender of each."""
    found = {}
    for rank in range(ring.engines):
        for port in range(kind.rules.link_ports(config, rank)):
            if driver is not None and kind.rules.sender(config, rank, port) in rtl:
                found[rank, port] = driver.link_activity(rank, port)
            elif model is not None:
                found[rank, port] = model.link_activity(rank, port, bucket_cycles=bucket_cycles)
    return found


def _memory(driver: EngineDriver) -> Places:
    """Activity of the memories of RTL ranks, by rank and port."""
    return {
        (rank, port): driver.system.memory_activity(node.number, port)
        for rank, node in zip(driver.ranks, driver.nodes, strict=True)
        for port in range(node.memory_ports)
    }
