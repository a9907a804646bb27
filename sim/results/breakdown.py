# SPDX-License-Identifier: Apache-2.0
"""Time that every task of a run took: computing, communicating, and waiting for communication.

The time of an NPU is divided completely. At any moment its compute units either work on a task
(*compute*), or wait. A wait belongs to the task that ended last of those that the next computation
waited for; if that task itself had to wait first, that part belongs to its own cause, and so on.
Time that belongs to a collective, a send or a receive is *exposed communication*, time that belongs
to a delay is *delay*; the rest (the NPU has finished and others have not) is *idle*. The end of the
run counts as the start of a computation that waits for the last task.

So ``compute + exposed + delay + idle = run time``, to the femtosecond, for every NPU. Papers that
plot compute and exposed communication (ACE, ISCA'21 section VI) leave out the last two, which are
zero in their runs.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gen.brief import Brief
from sim.events.record import Recorded, RunRecord, record_in
from sim.fields import check_type
from sim.results.intervals import Floats, account
from sim.workload.graph import Job, Task, TrainingPhase

__all__ = ["NO_LAYER", "Breakdown", "TaskTimes", "break_down", "layer_of"]

NO_LAYER = "-"
ROWS_AT_ONCE = 256
"""NPUs whose time is divided together; bounds memory."""


@dataclass(frozen=True, kw_only=True)
class TaskTimes:
    """One task of one graph, times in femtoseconds, mean over *all* NPUs of the run.

    ``overlapped_fs`` is the part of ``compute_fs`` during which communication was in progress;
    ``communication_fs`` the time from issue to end of a collective, send or receive.
    """

    task: Task
    layer: str
    compute_fs: float
    overlapped_fs: float
    communication_fs: float
    exposed_fs: float
    delay_fs: float


@dataclass(frozen=True, kw_only=True, repr=False)
class Breakdown(Brief):
    """A run divided among its tasks.

    Parameters
    ----------
    tasks : tuple of TaskTimes
        Tasks of all graphs, one graph after the other.
    rows_fs : (rows, 4) int64
        For each row of the record: compute, exposed, delay, idle. Each row adds up to ``end_fs``.
    """

    record: RunRecord
    job: Job
    tasks: tuple[TaskTimes, ...]
    rows_fs: NDArray[np.int64]

    @property
    def run_fs(self) -> int:
        return self.record.end_fs

    @cached_property
    def mean_fs(self) -> Floats:
        """compute, exposed, delay, idle: mean over NPUs."""
        mean: Floats = self.rows_fs.astype(np.float64).mean(axis=0)
        return mean

    @cached_property
    def calls_of(self) -> dict[tuple[str, TrainingPhase], list[int]]:
        """The numbers of the collective calls of each layer and training phase."""
        found: dict[tuple[str, TrainingPhase], list[int]] = {}
        for number, (graph, task) in enumerate(self.record.calls):
            of = self.job.graphs[graph]
            chosen = of.tasks[task]
            found.setdefault((layer_of(of.layers, chosen), chosen.phase), []).append(number)
        return found

    @cached_property
    def rows_of_call(self) -> NDArray[np.int64]:
        """Number of rows of the record that take part in each call."""
        users = np.bincount(self.record.graph_of, minlength=len(self.job.graphs))
        return np.array([users[graph] for graph, _ in self.record.calls], dtype=np.int64)


def layer_of(layers: tuple[str, ...], task: Task) -> str:
    return layers[task.layer] if 0 <= task.layer < len(layers) else NO_LAYER


def break_down(record: RunRecord | Recorded, job: Job) -> Breakdown:
    """Divide the run, given as its result or its record, among the tasks of its job.

    Raises
    ------
    ValueError
        The record is not one of this job.
    """
    record = record_in(record)
    check_type("job", job, "a Job", isinstance(job, Job))
    rows, width = record.task_start_fs.shape
    counts = [len(graph.tasks) for graph in job.graphs]
    used = np.unique(record.graph_of).tolist()
    if any(graph >= len(counts) or counts[graph] > width for graph in used):
        raise ValueError(
            f"the record has {width} tasks per row and graphs {used}; job {job.name!r} "
            f"has {len(counts)} graphs of {counts} tasks"
        )
    totals = np.zeros((rows, 4), np.int64)
    times: list[TaskTimes] = []
    for number, graph in enumerate(job.graphs):
        sums = np.zeros((5, len(graph.tasks)))
        of = np.flatnonzero(record.graph_of == number)
        for first in range(0, len(of), ROWS_AT_ONCE):
            some = of[first : first + ROWS_AT_ONCE]
            part = account(
                graph.tasks,
                record.task_ready_fs[some, : len(graph.tasks)],
                record.task_start_fs[some, : len(graph.tasks)],
                record.task_end_fs[some, : len(graph.tasks)],
                record.end_fs,
            )
            totals[some] = part.totals
            sums += [
                part.compute, part.overlapped, part.communication, part.exposed, part.delay
            ]
        for task, means in zip(graph.tasks, (sums / rows).T.tolist()):
            compute, overlapped, communication, exposed, delay = means
            times.append(
                TaskTimes(
                    task=task,
                    layer=layer_of(graph.layers, task),
                    compute_fs=compute,
                    overlapped_fs=overlapped,
                    communication_fs=communication,
                    exposed_fs=exposed,
                    delay_fs=delay,
                )
            )
    return Breakdown(record=record, job=job, tasks=tuple(times), rows_fs=totals)
