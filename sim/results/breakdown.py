"""What every task of a run took: computing, communicating, and waiting for communication.

The time of an NPU is divided completely. At any moment its compute units either work on a task
(*compute*), or wait. A wait belongs to what ended last of all that the next computation waited
for; if that itself had to wait first, that part belongs to its own cause, and so on. Time that
belongs to a collective, a send or a receive is *exposed communication*, time that belongs to a
delay is *delay*; what is left (the NPU has finished and others have not) is *idle*. At the end of
the run the last task holds it up as a computation after it would.

So ``compute + exposed + delay + idle = run time``, to the femtosecond, for every NPU. Papers that
plot compute and exposed communication (ACE, ISCA'21 section VI) leave out the last two, which are
zero in their runs.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sim.system.record import RunRecord
from sim.workload.graph import Job, Task, TrainingPhase

__all__ = ["NO_LAYER", "Breakdown", "TaskTimes", "break_down", "layer_of"]

NO_LAYER = "-"
Floats = NDArray[np.float64]


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


@dataclass(frozen=True, kw_only=True)
class Breakdown:
    """A run divided among its tasks.

    Parameters
    ----------
    tasks : tuple of TaskTimes
        Of all graphs, one after the other.
    rows_fs : (rows, 4) int64
        Of each row of the record: compute, exposed, delay, idle. Each row adds up to ``end_fs``.
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
        """How many rows of the record take part in each call."""
        users = np.bincount(self.record.graph_of, minlength=len(self.job.graphs))
        return np.array([users[graph] for graph, _ in self.record.calls], dtype=np.int64)


def layer_of(layers: tuple[str, ...], task: Task) -> str:
    return layers[task.layer] if 0 <= task.layer < len(layers) else NO_LAYER


def break_down(record: RunRecord, job: Job) -> Breakdown:
    """Divide the run among the tasks of its job.

    Raises
    ------
    ValueError
        The record is not one of this job.
    """
    # Importing compiles, or loads what was compiled before.
    from sim.results.intervals import account

    rows, width = record.task_start_fs.shape
    counts = np.array([len(graph.tasks) for graph in job.graphs], dtype=np.int64)
    used = np.unique(record.graph_of)
    if len(used) and (used[-1] >= len(counts) or counts[used].max() > width):
        raise ValueError(
            f"the record has {width} tasks per row and graphs {used.tolist()}; job {job.name!r} "
            f"has {len(counts)} graphs of {counts.tolist()} tasks"
        )
    tasks = [task for graph in job.graphs for task in graph.tasks]
    waits = [len(task.after) for task in tasks]
    compute, exposed, delay, overlapped, communication, totals = account(
        record.task_ready_fs,
        record.task_start_fs,
        record.task_end_fs,
        record.graph_of.astype(np.int64),
        np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.int64),
        counts,
        np.array([int(task.kind) for task in tasks], dtype=np.int64),
        np.concatenate([[0], np.cumsum(waits)]).astype(np.int64),
        np.array([other for task in tasks for other in task.after], dtype=np.int64),
        record.end_fs,
    )
    layers = [layer_of(graph.layers, task) for graph in job.graphs for task in graph.tasks]
    return Breakdown(
        record=record,
        job=job,
        tasks=tuple(
            TaskTimes(
                task=task,
                layer=layers[number],
                compute_fs=float(compute[number]) / rows,
                overlapped_fs=float(overlapped[number]) / rows,
                communication_fs=float(communication[number]) / rows,
                exposed_fs=float(exposed[number]) / rows,
                delay_fs=float(delay[number]) / rows,
            )
            for number, task in enumerate(tasks)
        ),
        rows_fs=totals,
    )
