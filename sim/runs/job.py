# SPDX-License-Identifier: Apache-2.0
"""A training job as host scripts of engines on a ring.

The host of an NPU is one thread. It works through the tasks of its graph in their order: a
computation is a delay, a collective is started by its register writes and runs beside what follows.
Before a task that needs a collective the host waits. An engine counts completions but does not tell
which collectives they belong to; so the host waits until all collectives that it has started are
complete, or, with engines that complete them in order, only for the one that it needs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hw.ace.config import ELEMENT_BYTES
from hw.common.axi import MEMORY_ALIGNMENT, aligned
from hw.fp.ops import ReduceOp
from sim.collectives.fsm_program import PROGRAM_ENTRY
from sim.engines.kind import engine_kind
from sim.fields import FieldError
from sim.hosts.command import Command
from sim.hosts.script import Compute, Issue, Reached, Step
from sim.hosts.surroundings import Surroundings
from sim.workload.graph import CollectiveCall, CollectiveKind, Job, TaskGraph, TaskKind

__all__ = ["HostTimes", "JobPlan", "Wait", "plan_job"]

Wait = Literal["all", "each"]


@dataclass(frozen=True, kw_only=True)
class HostTimes:
    """Start and end of each task of an NPU, in cycles; -1 where there was none.

    A collective starts with its command and ends when its host has noticed that it is complete.
    """

    start: NDArray[np.int64]
    end: NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class JobPlan:
    """Scripts for all NPUs.

    ``spans`` has, for each graph and task, the step before which it starts (for a collective: with
    which) and the step with which it ends. ``memory_bytes``: memory that each NPU needs.
    """

    commands: tuple[Command, ...]
    scripts: tuple[tuple[Step, ...], ...]
    graph_of: tuple[int, ...]
    spans: tuple[tuple[tuple[int, int], ...], ...]
    collectives: tuple[frozenset[int], ...]
    memory_bytes: int

    @property
    def steps(self) -> list[tuple[Step, ...]]:
        """The script of every NPU."""
        return [self.scripts[graph] for graph in self.graph_of]

    def times(self, npu: int, steps: Sequence[int], *, begin: int) -> HostTimes:
        """Start and end of the tasks of an NPU whose steps ended in the cycles *steps*.

        Parameters
        ----------
        npu : int
        steps : sequence of int
            End of each step, -1 where it was not reached.
        begin : int
            Cycle in which the script started; times count from it.
        """
        graph = self.graph_of[npu]
        ends = np.append(np.asarray(steps, np.int64), begin - 1)  # index -1: before the first step
        start = np.full(len(self.spans[graph]), -1, np.int64)
        end = np.full(len(self.spans[graph]), -1, np.int64)
        for task, (first, last) in enumerate(self.spans[graph]):
            with_step = task in self.collectives[graph]
            begins = ends[first] if with_step else ends[first - 1] + 1
            start[task] = begins - begin if ends[first] >= 0 else -1
            end[task] = ends[last] + 1 - begin if last >= 0 and ends[last] >= 0 else -1
        return HostTimes(start=start, end=end)


def plan_job(
    job: Job,
    engine: str,
    config: Any,
    ring: Surroundings,
    *,
    clock_hz: float,
    wait: Wait = "all",
    op: ReduceOp = ReduceOp.SUM_F32,
    compress: bool = False,
    dimensions: int = 1,
) -> JobPlan:
    """Turn a job into host scripts.

    Parameters
    ----------
    job : Job
        Computations, delays, and collectives over all NPUs that the engine has.
    engine : str
        A name in `sim.engines`.
    config
        Configuration of the engine.
    ring : Surroundings
        ``nodes`` and ``fsms`` are used.
    clock_hz : float
        Clock of engines and NPUs.
    wait : "all" or "each"
        A host waits for all collectives so far, or just for the one that a task needs.
    op, compress
        Those of all collectives.
    dimensions : int
        Of the network, as collectives see it.

    Raises
    ------
    ValueError
        For a task that is none of these, a collective over a part of the NPUs, graphs whose
        collectives differ, a ring that the engine does not support, or *wait* "each" for engines
        whose collectives may complete out of order.
    """
    rules = engine_kind(engine).rules
    rules.check(config, ring)
    if not clock_hz > 0:
        raise FieldError("clock_hz", f"must be above 0, not {clock_hz!r}")
    most = rules.outstanding(config)
    if wait not in ("all", "each"):
        raise FieldError("wait", f"must be 'all' or 'each', not {wait!r}")
    if wait == "each" and not rules.in_order and most > 1:
        raise FieldError(
            "wait",
            f"must be 'all' for engine {engine!r}: its collectives may complete out of order, "
            "and it counts them only"
        )
    graph_of = job.graph_of if job.graph_of is not None else (0,) * ring.nodes
    if len(graph_of) != ring.nodes:
        raise FieldError(
            "graph_of", f"must name a graph for {ring.nodes} NPUs, not {len(graph_of)}"
        )
    calls = [_calls(graph) for graph in job.graphs]
    for number in set(graph_of):
        if calls[number] != calls[graph_of[0]]:
            raise ValueError(
                f"graphs {graph_of[0]} and {number} of job {job.name!r} have different collectives"
            )
    commands: list[Command] = []
    address = 0
    for call in calls[graph_of[0]]:
        command = replace(_command(call, ring.nodes, address, dimensions), op=op, compress=compress)
        rules.check_command(config, ring, command)
        commands.append(command)
        address = aligned(command.end)
    scripts, spans = [], []
    for graph in job.graphs:
        steps, span = _script(graph, clock_hz, most=most, each=wait == "each")
        scripts.append(tuple(steps))
        spans.append(tuple(span))
    return JobPlan(
        commands=tuple(commands),
        scripts=tuple(scripts),
        graph_of=tuple(graph_of),
        spans=tuple(spans),
        collectives=tuple(
            frozenset(n for n, task in enumerate(graph.tasks) if task.kind is TaskKind.COLLECTIVE)
            for graph in job.graphs
        ),
        memory_bytes=max(address, MEMORY_ALIGNMENT),
    )


def _calls(graph: TaskGraph) -> list[CollectiveCall]:
    return [task.call for task in graph.tasks if task.call is not None]


def _command(call: CollectiveCall, nodes: int, address: int, dimensions: int) -> Command:
    all_npus = call.dimensions in (None, tuple(range(dimensions)))
    if call.kind not in PROGRAM_ENTRY or not all_npus:
        over = "" if all_npus else f" over dimensions {call.dimensions}"
        raise ValueError(
            f"a collective of RTL engines must be one of "
            f"{', '.join(kind.value for kind in PROGRAM_ENTRY)} over all NPUs, "
            f"not {call.kind.value}{over}"
        )
    if call.size_bytes == 0 or call.size_bytes % ELEMENT_BYTES:
        raise FieldError(
            "size_bytes", f"must be a multiple of {ELEMENT_BYTES} above 0, not {call.size_bytes!r}"
        )
    collective = call.kind
    elements = call.size_bytes // ELEMENT_BYTES
    if collective is CollectiveKind.ALL_GATHER:
        elements *= nodes
    return Command(
        collective=collective, elements=elements, source=address,
        destination=address + aligned(ELEMENT_BYTES * elements),
    )


def _script(
    graph: TaskGraph, clock_hz: float, *, most: int, each: bool
) -> tuple[list[Step], list[tuple[int, int]]]:
    """Steps of a graph, and the span of each task; at most *most* collectives are outstanding."""
    steps: list[Step] = []
    spans: list[tuple[int, int]] = []
    number: dict[int, int] = {}  # task to collective
    issued = complete = 0

    def fence(count: int) -> None:
        """Wait until the first *count* collectives are complete."""
        nonlocal complete
        if complete >= count:
            return
        steps.append(Reached(count=count))
        for task, collective in number.items():
            if complete <= collective < count:
                spans[task] = spans[task][0], len(steps) - 1
        complete = count

    for task_number, task in enumerate(graph.tasks):
        updates = 0.0
        needed = max((number.get(earlier, -1) for earlier in task.after), default=-1)
        if needed >= complete:
            updates = max(graph.tasks[earlier].duration_s for earlier in task.after
                          if earlier in number)
            fence(needed + 1 if each else issued)
        if updates > 0:
            steps.append(Compute(cycles=max(0, round(updates * clock_hz) - 1)))
        first = len(steps)
        match task.kind:
            case TaskKind.COMPUTE | TaskKind.DELAY:
                # A delay takes a cycle more than its number says.
                steps.append(Compute(cycles=max(0, round(task.duration_s * clock_hz) - 1)))
                spans.append((first, first))
            case TaskKind.COLLECTIVE:
                if issued - complete >= most and each:
                    fence(issued - most + 1)
                elif issued - complete >= most:
                    steps.append(Reached(count=issued - most + 1))
                number[task_number] = issued
                steps.append(Issue(command=issued))
                issued += 1
                spans.append((len(steps) - 1, -1))
            case _:
                raise ValueError(
                    f"task {task_number} ({task.name!r}) must be a computation, a delay or a "
                    f"collective, not {task.kind.name.lower()}"
                )
    fence(issued)
    return steps, spans
