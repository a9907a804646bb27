# SPDX-License-Identifier: Apache-2.0
"""Checks that the graphs of a job fit together: each message and collective has its counterpart.

A job that fails the check would run into a wait that never ends.
"""

from collections import deque
from collections.abc import Iterator
from math import prod

from sim.workload.graph import Job, Task, TaskKind

__all__ = ["check_progress"]


def check_progress(job: Job, *, npus: int) -> None:
    """Raise ValueError, naming NPU and task, unless all tasks of *job* can end on *npus* NPUs.

    A collective needs the same call from all members of its group, a receive its send. Nothing
    else makes NPUs wait for each other. Jobs of one graph for all NPUs without messages need no
    check.
    """
    if job.graph_of is None and not any(
        task.kind in (TaskKind.SEND, TaskKind.RECEIVE) for task in job.graphs[0].tasks
    ):
        return
    _Network(job, npus).check()


class _Network:
    """Tasks of all NPUs as one graph; the members of a collective are one node of it."""

    def __init__(self, job: Job, npus: int) -> None:
        self._graphs = [job.graphs[job.graph_of[npu] if job.graph_of else 0] for npu in range(npus)]
        self._shape = job.shape or (npus,)
        self._node: list[list[int]] = []
        self._names: list[str] = []

    def check(self) -> None:
        if prod(self._shape) != len(self._graphs):
            raise ValueError(f"job shape {self._shape} is not that of {len(self._graphs)} NPUs")
        self._join_collectives()
        edges, waiting = self._edges()
        ready = deque(node for node, count in enumerate(waiting) if count == 0)
        done = 0
        while ready:
            node = ready.popleft()
            done += 1
            for follower in edges[node]:
                waiting[follower] -= 1
                if waiting[follower] == 0:
                    ready.append(follower)
        if done < len(waiting):
            stuck = next(node for node, count in enumerate(waiting) if count > 0)
            raise ValueError(
                f"NPUs wait for each other for ever; {len(waiting) - done} tasks cannot start, "
                f"among them {self._names[stuck]}"
            )

    def _tasks(self) -> Iterator[tuple[int, int, Task]]:
        for npu, graph in enumerate(self._graphs):
            for number, task in enumerate(graph.tasks):
                yield npu, number, task

    def _join_collectives(self) -> None:
        seen: dict[tuple[object, ...], tuple[int, int, Task]] = {}
        members: dict[tuple[object, ...], int] = {}
        turn: dict[tuple[int, object], int] = {}
        self._node = [[-1] * len(graph.tasks) for graph in self._graphs]
        for npu, number, task in self._tasks():
            if task.kind is not TaskKind.COLLECTIVE or task.call is None:
                self._node[npu][number] = self._new(npu, task)
                continue
            dimensions = task.call.dimensions
            turn[npu, dimensions] = turn.get((npu, dimensions), -1) + 1
            key: tuple[object, ...] = (
                dimensions,
                self._outside(npu, dimensions),
                turn[npu, dimensions],
            )
            if key not in seen:
                seen[key] = (npu, number, task)
                self._node[npu][number] = self._new(npu, task)
            else:
                other, other_number, first = seen[key]
                if first.call != task.call:
                    raise ValueError(
                        f"NPU {npu} calls {_said(task)} where NPU {other} calls {_said(first)}"
                    )
                self._node[npu][number] = self._node[other][other_number]
            members[key] = members.get(key, 0) + 1
        for call, count in members.items():
            npu, _, task = seen[call]
            size = self._size(task.call.dimensions if task.call else None)
            if count != size:
                raise ValueError(
                    f"{_said(task)} of NPU {npu} is called by {count} of its group of {size} NPUs"
                )

    def _new(self, npu: int, task: Task) -> int:
        self._names.append(f"{task.name!r} of NPU {npu}")
        return len(self._names) - 1

    def _outside(self, npu: int, dimensions: tuple[int, ...] | None) -> tuple[int, ...]:
        """The coordinates that all members of a group share."""
        if dimensions is None:
            return ()
        shared = []
        for dimension, size in enumerate(self._shape):
            if dimension not in dimensions:
                shared.append(npu % size)
            npu //= size
        return tuple(shared)

    def _size(self, dimensions: tuple[int, ...] | None) -> int:
        if dimensions is None:
            return len(self._graphs)
        return prod(self._shape[dimension] for dimension in dimensions)

    def _edges(self) -> tuple[list[list[int]], list[int]]:
        edges: list[list[int]] = [[] for _ in self._names]
        waiting = [0] * len(self._names)

        def add(first: int, then: int) -> None:
            edges[first].append(then)
            waiting[then] += 1

        sends: dict[tuple[int, int | None, int], deque[tuple[int, Task]]] = {}
        for npu, number, task in self._tasks():
            if task.kind is TaskKind.SEND:
                address = (npu, task.peer, task.tag)
                sends.setdefault(address, deque()).append((self._node[npu][number], task))
        for npu, number, task in self._tasks():
            node = self._node[npu][number]
            for earlier in task.after:
                add(self._node[npu][earlier], node)
            if task.kind is TaskKind.RECEIVE and task.peer is not None:
                queue = sends.get((task.peer, npu, task.tag))
                if not queue:
                    raise ValueError(
                        f"{task.name!r} of NPU {npu} waits for a message from NPU {task.peer} "
                        f"with tag {task.tag} that is not sent"
                    )
                sender, message = queue.popleft()
                if message.size_bytes != task.size_bytes:
                    raise ValueError(
                        f"{task.name!r} of NPU {npu} expects {task.size_bytes} bytes, but "
                        f"{message.name!r} of NPU {task.peer} sends {message.size_bytes}"
                    )
                add(sender, node)
        for (npu, peer, tag), queue in sends.items():
            if queue:
                raise ValueError(
                    f"{queue[0][1].name!r} of NPU {npu} sends a message with tag {tag} that NPU "
                    f"{peer} does not receive"
                )
        return edges, waiting


def _said(task: Task) -> str:
    call = task.call
    return f"{task.name!r}" + (f" ({call.kind.value}, {call.size_bytes} bytes)" if call else "")
