# SPDX-License-Identifier: Apache-2.0
"""A clock for jobs: computations and delays take their time, collectives a given one."""

import pytest

from sim.workload.graph import TaskKind


def _ends(job, collective_s):
    """End of every task of the first NPU when each collective takes *collective_s* seconds."""
    ends = []
    free = 0.0
    for task in job.graphs[0].tasks:
        start = max([ends[earlier] for earlier in task.after], default=0.0)
        if task.kind is TaskKind.COMPUTE:
            start = max(start, free)
        duration = task.duration_s
        if task.kind is TaskKind.COLLECTIVE:
            duration += collective_s
        ends.append(start + duration)
        if task.kind is TaskKind.COMPUTE:
            free = ends[-1]
    return ends


@pytest.fixture
def finish_s():
    """When a job ends."""
    return lambda job, collective_s: max(_ends(job, collective_s))


@pytest.fixture
def story():
    """The tasks of a job in words: name, and the names of what each waits for."""

    def tell(job):
        tasks = job.graphs[0].tasks
        return [(task.name, [tasks[earlier].name for earlier in task.after]) for task in tasks]

    return tell
