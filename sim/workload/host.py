# SPDX-License-Identifier: Apache-2.0
"""Changes to a job by its hosts: the collectives they wait for, and slower NPUs; and jobs whose
NPUs are alike."""

from collections.abc import Mapping
from dataclasses import replace

from sim.workload.graph import Job, TaskGraph, TaskKind

__all__ = ["has_messages", "slowed", "wait_for_all", "waits_are_alike", "why_not_alike"]


def wait_for_all(job: Job) -> Job:
    """*job* with hosts that wait for all collectives they have started, not for single ones.

    A host works through its tasks in their order. Before a task that needs a collective which it
    has not yet seen complete, it waits until everything that it has started is complete; so does
    every task after it.
    """
    return replace(job, graphs=tuple(_waiting(graph) for graph in job.graphs))


def _waiting(graph: TaskGraph) -> TaskGraph:
    tasks = []
    outstanding: set[int] = set()
    fence: set[int] = set()  # collectives that the host waited for last
    for number, task in enumerate(graph.tasks):
        if any(earlier in outstanding for earlier in task.after):
            fence = set(outstanding)
            outstanding.clear()
        tasks.append(replace(task, after=tuple(sorted({*task.after, *fence}))))
        if task.call is not None:
            outstanding.add(number)
    return replace(graph, tasks=tuple(tasks))


def waits_are_alike(job: Job) -> bool:
    """True if every wait for one collective is a wait for all that have been started."""
    for graph in job.graphs:
        outstanding: set[int] = set()
        for number, task in enumerate(graph.tasks):
            needed = outstanding & set(task.after)
            if needed and needed != outstanding:
                return False
            outstanding -= needed
            if task.call is not None:
                outstanding.add(number)
    return True


def slowed(job: Job, slowdown: Mapping[int, float], npus: int) -> Job:
    """*job* with the computations of some NPUs taking *slowdown* times as long."""
    if not slowdown:
        return job
    of = job.graph_of or (0,) * npus
    numbers: dict[tuple[int, float], int] = {}
    graph_of = []
    for npu, graph in enumerate(of):
        key = graph, slowdown.get(npu, 1.0)
        graph_of.append(numbers.setdefault(key, len(numbers)))
    graphs = tuple(_slower(job.graphs[graph], factor) for graph, factor in numbers)
    return replace(job, graphs=graphs, graph_of=tuple(graph_of))


def _slower(graph: TaskGraph, factor: float) -> TaskGraph:
    tasks = tuple(
        replace(task, duration_s=task.duration_s * factor)
        if task.kind is TaskKind.COMPUTE
        else task
        for task in graph.tasks
    )
    return replace(graph, tasks=tasks)


def why_not_alike(job: Job, stragglers: Mapping[int, float]) -> str | None:
    """None if all nodes of *job* do the same, else the reason."""
    if len(job.graphs) > 1 and len(set(job.graph_of or ())) != 1:
        return "nodes run different graphs"
    if stragglers:
        return "some nodes are slower than others"
    if has_messages(job):
        return "nodes exchange single messages"
    return None


def has_messages(job: Job) -> bool:
    """True if nodes of *job* exchange single messages."""
    return any(t.kind in (TaskKind.SEND, TaskKind.RECEIVE) for g in job.graphs for t in g.tasks)
