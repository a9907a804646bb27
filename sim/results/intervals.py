# SPDX-License-Identifier: Apache-2.0
"""Division of the time of every NPU. All NPUs that run one graph are processed together."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim.workload.graph import Task, TaskKind

__all__ = ["COMPUTE", "DELAY", "EXPOSED", "IDLE", "Account", "Floats", "Ints", "account"]

COMPUTE, EXPOSED, DELAY, IDLE = range(4)
"""Columns of `Account.totals`."""

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Account:
    """The time of some NPUs that run the same tasks, in femtoseconds.

    Parameters
    ----------
    compute, exposed, delay, overlapped, communication : (tasks,) int64
        Sums over the NPUs: time on the compute units; idle time of the compute units waiting for
        this communication, or for this delay; compute time during which any communication was in
        progress; time from issue to end of this communication.
    totals : (NPUs, 4) int64
        Computing, exposed, delay, idle for another reason; they add up to the run time.
    """

    compute: Ints
    exposed: Ints
    delay: Ints
    overlapped: Ints
    communication: Ints
    totals: Ints


def account(tasks: Sequence[Task], ready: Ints, start: Ints, end: Ints, run_end: int) -> Account:
    """Divide [0, `run_end`) of every NPU among its tasks.

    ``ready``, ``start`` and ``end`` are (NPUs, tasks); a start of -1 is a task that never ran.
    """
    rows = len(start)
    if not tasks:
        none = np.zeros(0, np.int64)
        totals = np.zeros((rows, 4), np.int64)
        totals[:, IDLE] = run_end
        return Account(
            compute=none,
            exposed=none,
            delay=none,
            overlapped=none,
            communication=none,
            totals=totals,
        )
    kinds = np.array([task.kind for task in tasks])
    is_compute = kinds == TaskKind.COMPUTE
    is_delay = kinds == TaskKind.DELAY
    is_communication = ~is_compute & ~is_delay
    totals = np.zeros((rows, 4), np.int64)

    # Computations in the order of their starts; `before`: until when earlier ones have computed.
    # A task that never ran starts and ends at -1, which is before everything.
    order, computing, ended = _in_order(np.flatnonzero(is_compute), start, end)
    reached = np.maximum.accumulate(ended, axis=1) if order.size else ended
    before = np.zeros_like(computing)
    before[:, 1:] = np.maximum(reached[:, :-1], 0)
    began = np.maximum(computing, before)
    worked = np.maximum(ended - began, 0)
    compute = _sum_by_task(order, worked, len(tasks))
    totals[:, COMPUTE] = worked.sum(axis=1)
    now = np.maximum(reached[:, -1], 0) if order.size else np.zeros(rows, np.int64)

    overlapped = np.zeros(len(tasks), np.int64)
    chosen = np.flatnonzero(is_communication)
    _, begun, over = _in_order(chosen, start, end)
    for npu in range(rows if order.size and chosen.size else 0):
        edges = np.stack([began[npu], began[npu] + worked[npu]])
        covered = _covered(edges, begun[npu], over[npu])
        np.add.at(overlapped, order[npu], covered[1] - covered[0])
    communication = np.zeros(len(tasks), np.int64)
    communication[chosen] = (end[:, chosen] - start[:, chosen]).sum(axis=0)

    # Waits: [low, high) of a row, and the task that `cause` says ended them.
    cause = _causes(tasks, end)
    at, which = np.nonzero(computing > before)
    waits = [(at, before[at, which], computing[at, which], cause[at, order[at, which]])]
    last = np.where(start >= 0, end, -1)
    # Among the tasks that end last, the one with the highest number.
    final: Ints = len(tasks) - 1 - np.argmax(last[:, ::-1], axis=1)
    stop = last[np.arange(rows), final]
    waits.append((np.arange(rows), now, np.maximum(now, stop), final))
    totals[:, IDLE] = run_end - np.maximum(now, stop)

    waited = np.zeros(len(tasks), np.int64)
    belongs = np.where(is_delay, DELAY, np.where(is_communication, EXPOSED, IDLE))
    row, low, high, task = (np.concatenate(parts) for parts in zip(*waits))
    while len(row):
        # A task that is ready but has not started waits for nothing that is known.
        known = task >= 0
        until = np.where(known, np.clip(end[row, task], low, high), low)
        np.add.at(totals[:, IDLE], row, high - until)
        since = np.where(known, np.clip(ready[row, task], low, until), low)
        np.add.at(totals, (row, belongs[task]), until - since)
        np.add.at(waited, task, until - since)
        task = cause[row, task]
        left = known & (since > low)
        row, low, high, task = row[left], low[left], since[left], task[left]
    return Account(
        compute=compute,
        exposed=np.where(is_communication, waited, 0),
        delay=np.where(is_delay, waited, 0),
        overlapped=overlapped,
        communication=communication,
        totals=totals,
    )


def _in_order(chosen: NDArray[np.intp], start: Ints, end: Ints) -> tuple[Ints, Ints, Ints]:
    """The chosen tasks of each row by their starts: numbers, starts, ends."""
    order = chosen[np.argsort(start[:, chosen], axis=1, kind="stable")]
    return order, np.take_along_axis(start, order, 1), np.take_along_axis(end, order, 1)


def _sum_by_task(order: Ints, values: Ints, tasks: int) -> Ints:
    sums = np.zeros(tasks, np.int64)
    np.add.at(sums, order.ravel(), values.ravel())
    return sums


def _causes(tasks: Sequence[Task], end: Ints) -> Ints:
    """For each row and task, the last to end of the tasks that it waits for; -1 for none."""
    cause = np.full(end.shape, -1, np.int64)
    for number, task in enumerate(tasks):
        if len(task.after) == 1:
            cause[:, number] = task.after[0]
        elif task.after:
            after = np.array(task.after[::-1])
            cause[:, number] = after[np.argmax(end[:, after], axis=1)]
    return cause


def _covered(moments: Ints, starts: Ints, ends: Ints) -> Ints:
    """Part of [0, moment) that the intervals cover together; they are in order of their starts."""
    reached = np.concatenate([[0], np.maximum.accumulate(ends)[:-1]])
    begin = np.maximum(starts, reached)
    length = np.maximum(ends - begin, 0)
    before = np.concatenate([[0], np.cumsum(length)])
    index = np.searchsorted(begin, moments, side="right")
    # The last interval that began may have begun less than its length ago.
    partial = moments - begin[index - 1]
    inside: Ints = before[index - 1] + np.minimum(partial, length[index - 1])
    return np.where(index > 0, inside, 0)
