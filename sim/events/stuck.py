# SPDX-License-Identifier: Apache-2.0
"""Diagnosis of a run that got stuck, and of one that takes too long."""

from collections.abc import Iterator, Mapping

import numpy as np

from sim.events.kernel import constants
from sim.events.lower import Lowered
from sim.network.network import Network
from sim.workload.graph import Job, TaskKind

__all__ = ["longest_time", "why_stuck"]

SHOWN = 6


def why_stuck(job: Job, lowered: Lowered) -> str | None:
    """Return None if every task has ended, else a text that says which node waits for what."""
    s = lowered.state
    ends = s.task_end.reshape(lowered.rows, -1)
    tasks = np.array([len(graph.tasks) for graph in job.graphs])[s.node_graph]
    late = ((ends < 0) & (np.arange(ends.shape[1]) < tasks[:, None])).any(axis=1)
    if not late.any():
        return None
    row = int(late.argmax())
    reasons = list(_reasons(job, lowered)) or [_first_open(job, lowered, row)]
    more = f"; and {len(reasons) - SHOWN} more" if len(reasons) > SHOWN else ""
    return "nodes wait for each other without end: " + "; ".join(reasons[:SHOWN]) + more


def longest_time(network: Network, job: Job, times: Mapping[str, float]) -> str:
    """The longest single time of a run: of a link, of the endpoint (*times* by name, in s), or of
    a task."""
    found = dict(times)
    for number, each in enumerate(network.dimensions):
        found[f"latency_s of dimension {number}"] = each.latency_s + each.router_latency_s
    for graph in job.graphs:
        for task in graph.tasks:
            found[f"duration_s of task {task.name!r}"] = task.duration_s
    name = max(found, key=lambda each: found[each])
    return f"{name} is {found[name]:g} s"


def _first_open(job: Job, lowered: Lowered, row: int) -> str:
    """The first task of a node that has not ended."""
    s = lowered.state
    tasks = job.graphs[s.node_graph[row]].tasks
    ends = s.task_end.reshape(lowered.rows, -1)[row]
    number = next(number for number in range(len(tasks)) if ends[number] < 0)
    task = tasks[number]
    begun = s.task_start.reshape(lowered.rows, -1)[row, number] >= 0
    what = "ended" if begun else "begun"
    return f"task {number} ({task.name!r}) of node {row} has not {what}"


def _reasons(job: Job, lowered: Lowered) -> Iterator[str]:
    s, rows = lowered.state, lowered.rows
    ends, starts = s.task_end.reshape(rows, -1), s.task_start.reshape(rows, -1)
    senders = {(t.goal, t.receive): t for t in lowered.transfers}
    calls: dict[int, str] = {}
    for row in range(rows):
        graph = int(s.node_graph[row])
        tasks = job.graphs[graph].tasks
        waiting = np.flatnonzero((ends[row, : len(tasks)] < 0) & (starts[row, : len(tasks)] >= 0))
        for number in waiting.tolist():
            task = tasks[number]
            if task.kind is TaskKind.COLLECTIVE:
                calls[int(s.tasks[s.graph_first[graph] + number]["call"])] = task.name
            elif task.kind is TaskKind.RECEIVE:
                transfer = senders[row, number]
                send = job.graphs[s.node_graph[transfer.source]].tasks[transfer.send]
                begun = starts[transfer.source, transfer.send] >= 0
                yield (
                    f"node {row} waits in {task.name!r} for {send.name!r} of node "
                    f"{transfer.source}, which has not {'arrived' if begun else 'begun'}"
                )
    for call in sorted(calls):
        first = int(s.calls[call]["first_chunk"])
        for chunk in range(first, first + int(s.calls[call]["chunks"])):
            if s.chunks[chunk]["open"]:
                what = f"chunk {chunk - first} of {calls[call]!r} (call {call})"
                yield from _chunk(lowered, call, chunk, what)


def _chunk(lowered: Lowered, call: int, chunk: int, what: str) -> Iterator[str]:
    """Nodes that wait for messages of a chunk, and those that have not yet come to it."""
    s, rows = lowered.state, lowered.rows
    slot = int(s.chunks[chunk]["slot"])
    state = s.slot_state[slot * rows : (slot + 1) * rows]
    missing = {
        "have not issued it": np.flatnonzero(state["phase"] == constants.NOT_ISSUED),
        "have not admitted it": np.flatnonzero(
            (state["phase"] == constants.IN_READY_QUEUE)
            | ((state["phase"] >= 0) & (state["running"] == constants.WAITS))
        ),
    }
    absent = ", ".join(
        f"nodes {', '.join(map(str, nodes[:SHOWN]))}{' ...' if len(nodes) > SHOWN else ''} {why}"
        for why, nodes in missing.items()
        if len(nodes)
    )
    runs = (state["phase"] >= 0) & (state["running"] != constants.WAITS)
    for row in np.flatnonzero(runs).tolist():
        column = int(s.phases[s.chunks[chunk]["phase"] + state[row]["phase"]]["column"])
        where = lowered.phase_names[call][column - 1]
        yield f"node {row} waits in {where} for messages of {what}; {absent}".rstrip("; ")
