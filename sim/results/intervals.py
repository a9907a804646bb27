"""Where the time of every NPU went: compiled loops over the tasks of a run.

Apart from :mod:`sim.results.breakdown` because importing this compiles.
"""

from typing import Any

import numpy as np
from numba import njit

from sim.workload.graph import TaskKind

__all__ = ["COMPUTE", "DELAY", "EXPOSED", "IDLE", "account"]

COMPUTE, EXPOSED, DELAY, IDLE = range(4)
"""Columns of the totals per row."""

IS_COMPUTE = int(TaskKind.COMPUTE)
IS_DELAY = int(TaskKind.DELAY)

jit: Any = njit(cache=True, nogil=True)


@jit
def _blame(low, high, task, first, ready, end, kind, ptr, dep, exposed, delay, total):  # type: ignore[no-untyped-def]
    """Share out the idle time [low, high) that ends when `task` may start, back along its causes.

    The cause of a task is what it waited for and what ended last.
    """
    while high > low:
        cause = -1
        for index in range(ptr[first + task], ptr[first + task + 1]):
            if cause < 0 or end[dep[index]] >= end[cause]:
                cause = dep[index]
        if cause < 0:
            break
        if end[cause] < high:
            # Ready, but not started.
            gap = high - max(low, end[cause])
            total[IDLE] += gap
            high -= gap
            if high == low:
                return
        share = high - max(low, ready[cause])
        if kind[first + cause] == IS_DELAY:
            delay[first + cause] += share
            total[DELAY] += share
        else:
            exposed[first + cause] += share
            total[EXPOSED] += share
        high -= share
        task = cause
    total[IDLE] += high - low


@jit
def _merged(first, count, start, end, kind):  # type: ignore[no-untyped-def]
    """Disjoint intervals, in order, in which at least one communication is in progress.

    Also how much of the time all intervals before each one cover.
    """
    picked = np.empty(count, np.int64)
    used = 0
    for task in range(count):
        what = kind[first + task]
        if what != IS_COMPUTE and what != IS_DELAY and start[task] >= 0:
            picked[used] = task
            used += 1
    picked = picked[:used]
    picked = picked[np.argsort(start[picked])]
    starts = np.empty(used, np.int64)
    ends = np.empty(used, np.int64)
    before = np.zeros(used, np.int64)
    made = 0
    for task in picked:
        if made and start[task] <= ends[made - 1]:
            ends[made - 1] = max(ends[made - 1], end[task])
            continue
        if made:
            before[made] = before[made - 1] + ends[made - 1] - starts[made - 1]
        starts[made] = start[task]
        ends[made] = end[task]
        made += 1
    return starts[:made], ends[:made], before[:made]


@jit
def _covered(moment, starts, ends, before):  # type: ignore[no-untyped-def]
    """How much of [0, moment) the intervals of :func:`_merged` cover."""
    index = np.searchsorted(starts, moment) - 1
    if index < 0:
        return 0
    return before[index] + min(ends[index], moment) - starts[index]


@jit
def account(  # type: ignore[no-untyped-def]
    ready, start, end, graph_of, first_of, count_of, kind, ptr, dep, run_end
):
    """Divide [0, `run_end`) of every row among its tasks.

    Tasks of all graphs are numbered through: those of graph g are `first_of[g]` onwards, and wait
    for ``dep[ptr[t] : ptr[t + 1]]``, numbers within the graph.

    Returns
    -------
    compute, exposed, delay, overlapped, communication : (tasks,) float64
        Sums over rows, in femtoseconds: time on the compute units; idle time of the compute units
        waiting for this communication, or for this delay; compute time during which any
        communication was in progress; time from issue to end of this communication.
    totals : (rows, 4) int64
        Computing, exposed, delay, idle for another reason; they add up to `run_end`.
    """
    tasks = len(kind)
    compute = np.zeros(tasks)
    exposed = np.zeros(tasks)
    delay = np.zeros(tasks)
    overlapped = np.zeros(tasks)
    communication = np.zeros(tasks)
    totals = np.zeros((len(graph_of), 4), np.int64)
    for row in range(len(graph_of)):
        first = first_of[graph_of[row]]
        count = count_of[graph_of[row]]
        row_ready = ready[row, :count]
        row_end = end[row, :count]
        starts, ends, before = _merged(first, count, start[row, :count], row_end, kind)
        computations = np.empty(count, np.int64)
        used = 0
        last = -1
        for task in range(count):
            if start[row, task] < 0:
                continue
            if last < 0 or row_end[task] >= row_end[last]:
                last = task
            if kind[first + task] == IS_COMPUTE:
                computations[used] = task
                used += 1
            elif kind[first + task] != IS_DELAY:
                communication[first + task] += row_end[task] - start[row, task]
        computations = computations[:used]
        # Stable, so that computations of no duration keep their order.
        order = np.argsort(start[row][computations], kind="mergesort")
        now = 0
        for task in computations[order]:
            begin = start[row, task]
            if begin > now:
                _blame(
                    now, begin, task, first, row_ready, row_end, kind, ptr, dep, exposed, delay,
                    totals[row],
                )  # fmt: skip
                now = begin
            if row_end[task] > now:
                compute[first + task] += row_end[task] - now
                totals[row, COMPUTE] += row_end[task] - now
                overlapped[first + task] += _covered(row_end[task], starts, ends, before)
                overlapped[first + task] -= _covered(now, starts, ends, before)
                now = row_end[task]
        if last >= 0 and row_end[last] > now:
            # What ends last holds up the run as a following task would.
            low = max(now, row_ready[last])
            share = row_end[last] - low
            if kind[first + last] == IS_DELAY:
                delay[first + last] += share
                totals[row, DELAY] += share
            else:
                exposed[first + last] += share
                totals[row, EXPOSED] += share
            _blame(
                now, low, last, first, row_ready, row_end, kind, ptr, dep, exposed, delay,
                totals[row],
            )  # fmt: skip
            now = row_end[last]
        totals[row, IDLE] += run_end - now
    return compute, exposed, delay, overlapped, communication, totals
