"""Scripts of hosts on a ring of engines: in RTL, as cycle models, or some of both."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hw.fp.ops import ReduceOp
from sim.collectives.ring import Collective
from sim.cycles.activity import LinkActivity, MemoryActivity
from sim.cycles.ring import Command, CycleModel, RingSettings, aligned
from sim.cycles.script import Interrupt, Reached, Step, check_scripts
from sim.rtl.engines import EngineKind, engine_kind
from sim.rtl.exchange import Exchange
from sim.rtl.host import Ticket
from sim.rtl.ring import Progress, RingDriver, reduction
from sim.rtl.system import CycleLimitError

__all__ = ["LEVELS", "EngineRun", "Level", "draw_inputs", "run_engines"]

Level = Literal["rtl", "cycles"]
LEVELS: tuple[Level, ...] = ("rtl", "cycles")

Inputs = Sequence[Sequence[NDArray[Any]] | NDArray[Any]]
Places = dict[tuple[int, int], Any]


@dataclass(frozen=True, kw_only=True)
class EngineRun:
    """What came out of :func:`run_engines`. Cycles count from the reset of the RTL.

    Parameters
    ----------
    begin : int
        Cycle in which the scripts started.
    steps : list of lists of int
        For each rank, the cycle in which each step of its script ended.
    completions : array, ranks x commands
        Cycle from which the host of a rank knew that one collective more was complete, by its
        script; -1 where it did not ask.
    checked, wrong : int
        Results of RTL ranks that were compared with the golden model, and those that differ in any
        bit.
    packets : int
        Packets from RTL ranks to models that were compared, all equal.
    links : mapping of (rank, port) to LinkActivity
    memory : mapping of (rank, port) to MemoryActivity
        Of RTL ranks.
    wall_s, prepare_s : float
        Seconds that the run took; and before it making the system, with compiling what was not
        kept.
    """

    begin: int
    steps: list[list[int]]
    completions: NDArray[np.int64]
    checked: int = 0
    wrong: int = 0
    packets: int = 0
    links: Mapping[tuple[int, int], LinkActivity]
    memory: Mapping[tuple[int, int], MemoryActivity]
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

    All-gathers get as much for every rank; what is behind the end of its shard is not used.
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
    ring: RingSettings,
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
    progress: Progress | None = None,
    **options: Any,
) -> EngineRun:
    """Run scripts on a ring of engines until all have ended, and check the results of RTL ranks.

    With ranks of both levels, each side runs a window alone and then they exchange what they have
    sent: packets with header and payload, and credits. Every packet of an RTL rank is compared.

    Parameters
    ----------
    engine : str
        A name in ``sim.rtl.engines.ENGINES``.
    config
        Of the engine: AceConfig, SmartNicConfig.
    ring : RingSettings
        RTL ranks get more memory if the commands need it.
    commands : sequence of Command
        All collectives of the run, in the order in which every rank starts them.
    scripts : sequence of sequences of Step
        What the host of each rank does.
    inputs : sequence or None
        For each command a vector (all-gather: a shard at least) per rank, see `draw_inputs`; None
        if there is no RTL.
    levels : "rtl", "cycles", or a sequence of one per rank
    start_cycle : int
        Cycle in which scripts start if all ranks are models; RTL begins when it is set up.
    window_cycles : int or None
        1 to the latency of the links, None for the largest; it changes nothing but the speed.
    bucket_cycles : int
        Resolution of the series in ``links`` and ``memory``, 0 for none.
    trace : bool
        Keep every beat.
    max_cycles : int
    progress : callable or None
        ``progress(cycle, nodes_done)`` now and then, if all ranks are RTL.
    options
        For RTL: those of the driver (threads, faults; for ACE also links, ports).

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
    each = _levels(levels, ring.nodes)
    kind.driver.check(config, ring)
    for command in commands:
        kind.driver.check_command(config, ring, command)
    check_scripts(scripts, nodes=ring.nodes, commands=len(commands))
    ring = replace(
        ring, memory_bytes=max(ring.memory_bytes, *(aligned(each.end) for each in commands), 0)
    )
    ranks = [rank for rank, level in enumerate(each) if level == "rtl"]
    if not ranks:
        return _run_model(
            engine, kind, config, ring, commands, scripts, start_cycle, bucket_cycles, trace
        )
    data = _checked(kind, config, ring, commands, inputs)
    options |= {"bucket_cycles": bucket_cycles, "window_cycles": window_cycles}
    if len(ranks) == ring.nodes:
        return _run_rtl(
            kind, config, ring, commands, scripts, data,
            record_beats=trace, max_cycles=max_cycles, progress=progress, **options,
        )  # fmt: skip
    return _run_mixed(
        engine, kind, config, ring, commands, scripts, data,
        rtl=ranks, trace=trace, max_cycles=max_cycles, **options,
    )  # fmt: skip


def _levels(levels: Sequence[Level] | Level, nodes: int) -> list[Level]:
    each = [levels] * nodes if isinstance(levels, str) else list(levels)
    if len(each) != nodes or any(level not in LEVELS for level in each):
        raise ValueError(
            f"levels must be {' or '.join(LEVELS)}, for all or each of {nodes} ranks, "
            f"not {levels!r}"
        )
    return each


def _checked(
    kind: EngineKind, config: Any, ring: RingSettings, commands: Sequence[Command], inputs: Any
) -> list[list[NDArray[Any]]]:
    """The inputs as arrays, once they fit the commands."""
    if inputs is None or len(inputs) != len(commands):
        found = "None" if inputs is None else len(inputs)
        raise ValueError(f"inputs must be data for {len(commands)} commands, not {found}")
    data = [[np.asarray(array) for array in arrays] for arrays in inputs]
    for number, (command, arrays) in enumerate(zip(commands, data, strict=True)):
        gathers = command.collective is Collective.ALL_GATHER
        if len(arrays) != ring.nodes:
            raise ValueError(
                f"inputs[{number}] must be a vector per rank ({ring.nodes}), not {len(arrays)}"
            )
        for rank, array in enumerate(arrays):
            place = slice(0, command.elements)
            if gathers:
                place = kind.driver.shard(config, ring, command, rank)
            length = place.stop - place.start
            fits = len(array) >= length if gathers else len(array) == length
            if array.ndim != 1 or not fits or array.dtype.itemsize != 4:
                raise ValueError(
                    f"inputs[{number}][{rank}] must be {length} elements of 4 bytes, "
                    f"not {array.shape} of {array.dtype}"
                )
            if not gathers:
                reduction(command.op, array.dtype)
    return data


def _run_model(
    engine: str,
    kind: EngineKind,
    config: Any,
    ring: RingSettings,
    commands: Sequence[Command],
    scripts: Sequence[Sequence[Step]],
    start_cycle: int,
    bucket_cycles: int,
    trace: bool,
) -> EngineRun:
    if kind.model is None:
        raise ValueError(f"levels must be rtl for engine {engine!r}, which has no cycle model")
    began = time.perf_counter()
    model = kind.model(
        config, ring, commands, scripts, start_cycle=start_cycle,
        trace=trace or bucket_cycles > 0,
    )  # fmt: skip
    model.run(0)  # compiles it
    prepared = time.perf_counter()
    wall = model.run()
    if not model.done:
        raise RuntimeError("the cycle model came to a standstill before its scripts had ended")
    steps = [model.steps(rank).tolist() for rank in range(ring.nodes)]
    return EngineRun(
        begin=start_cycle,
        steps=steps,
        completions=_completions(scripts, steps, len(commands)),
        links=_model_links(kind, config, model, range(ring.nodes), bucket_cycles),
        memory={},
        wall_s=wall,
        prepare_s=prepared - began,
    )


def _run_rtl(
    kind: EngineKind,
    config: Any,
    ring: RingSettings,
    commands: Sequence[Command],
    scripts: Sequence[Sequence[Step]],
    inputs: Sequence[Sequence[NDArray[Any]]],
    *,
    max_cycles: int,
    progress: Progress | None,
    **options: Any,
) -> EngineRun:
    began = time.perf_counter()
    driver = kind.driver(config, ring, **options)
    prepared = time.perf_counter()
    begin = driver.system.cycle
    tickets = _queue(driver, commands, scripts, inputs)
    try:
        result = driver.system.run(max_cycles=max_cycles, progress=progress)
    except CycleLimitError as error:
        raise CycleLimitError(f"{error}; {driver.report()}", error.partial) from None
    steps = [[ticket.cycle for ticket in tickets[rank]] for rank in range(ring.nodes)]
    checked, wrong = _compare(driver, commands, inputs)
    links, memory = _rtl_activity(driver)
    return EngineRun(
        begin=begin,
        steps=steps,
        completions=_completions(scripts, steps, len(commands)),
        checked=checked,
        wrong=wrong,
        links=links,
        memory=memory,
        wall_s=result.wall_s,
        prepare_s=prepared - began,
    )


def _run_mixed(
    engine: str,
    kind: EngineKind,
    config: Any,
    ring: RingSettings,
    commands: Sequence[Command],
    scripts: Sequence[Sequence[Step]],
    inputs: Sequence[Sequence[NDArray[Any]]],
    *,
    rtl: Sequence[int],
    bucket_cycles: int,
    trace: bool,
    max_cycles: int,
    **options: Any,
) -> EngineRun:
    if kind.exchange is None:
        raise ValueError(f"levels must be one for all ranks of engine {engine!r}")
    began = time.perf_counter()
    exchange: Exchange = kind.exchange(
        config, ring, commands, scripts, inputs, rtl=rtl, trace=trace or bucket_cycles > 0,
        record_beats=trace, bucket_cycles=bucket_cycles, **options,
    )  # fmt: skip
    driver, model = exchange.cluster, exchange.model
    model.run(0)
    prepared = time.perf_counter()
    tickets = _queue(driver, commands, scripts, inputs)
    wall = exchange.run(max_cycles)
    steps = [
        [ticket.cycle for ticket in tickets[rank]]
        if rank in tickets
        else model.steps(rank).tolist()
        for rank in range(ring.nodes)
    ]
    checked, wrong = _compare(driver, commands, inputs)
    links, memory = _rtl_activity(driver)
    others = [rank for rank in range(ring.nodes) if rank not in tickets]
    return EngineRun(
        begin=exchange.begin,
        steps=steps,
        completions=_completions(scripts, steps, len(commands)),
        checked=checked,
        wrong=wrong,
        packets=exchange.packets,
        links=links | _model_links(kind, config, model, others, bucket_cycles),
        memory=memory,
        wall_s=wall,
        prepare_s=prepared - began,
    )


def _queue(
    driver: RingDriver,
    commands: Sequence[Command],
    scripts: Sequence[Sequence[Step]],
    inputs: Sequence[Sequence[NDArray[Any]]],
) -> dict[int, list[Ticket]]:
    """Store the data of all RTL ranks and queue their scripts."""
    tickets = {}
    for rank, node in zip(driver.ranks, driver.system.nodes, strict=True):
        for command, arrays in zip(commands, inputs, strict=True):
            driver.store(node, command, rank, arrays[rank])
        tickets[rank] = driver.queue_script(node, scripts[rank], commands)
    return tickets


def _compare(
    driver: RingDriver, commands: Sequence[Command], inputs: Sequence[Sequence[NDArray[Any]]]
) -> tuple[int, int]:
    """Results in memory that were compared with the golden model, and those that differ."""
    checked = wrong = 0
    for command, arrays in zip(commands, inputs, strict=True):
        expected = driver.expected(command, arrays)
        for rank, node in zip(driver.ranks, driver.system.nodes, strict=True):
            checked += 1
            found = driver.result(node, command, rank)
            wrong += found.tobytes() != expected[rank].tobytes()
    return checked, wrong


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


def _rtl_activity(driver: RingDriver) -> tuple[Places, Places]:
    """What links and memories of RTL ranks have done, by rank and port."""
    links, memory = {}, {}
    for rank, node in zip(driver.ranks, driver.system.nodes, strict=True):
        for port in range(node.link_ports):
            links[rank, port] = driver.system.link_activity(node.number, port)
        for port in range(node.memory_ports):
            memory[rank, port] = driver.system.memory_activity(node.number, port)
    return links, memory


def _model_links(
    kind: EngineKind, config: Any, model: CycleModel, ranks: Sequence[int], bucket_cycles: int
) -> Places:
    return {
        (rank, port): model.link_activity(rank, port, bucket_cycles=bucket_cycles)
        for rank in ranks
        for port in range(kind.driver.link_ports(config))
    }
