"""The host of an NPU: one thread that starts collectives and waits for them."""

from dataclasses import replace

from sim.workload.graph import Job, TaskGraph

__all__ = ["wait_for_all"]


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
    fence: set[int] = set()  # what the host waited for last
    for number, task in enumerate(graph.tasks):
        if any(earlier in outstanding for earlier in task.after):
            fence = set(outstanding)
            outstanding.clear()
        tasks.append(replace(task, after=tuple(sorted({*task.after, *fence}))))
        if task.call is not None:
            outstanding.add(number)
    return replace(graph, tasks=tuple(tasks))
