# SPDX-License-Identifier: Apache-2.0
"""A run of two NPUs that was made up by hand, with round numbers.

Times in µs. NPU 1 computes twice as long in the first task; everything shared waits for it.

    task                            NPU 0        NPU 1
    0  forward a                    0 .. 10      0 .. 20
    1  forward b                   10 .. 30     20 .. 40
    2  weight gradient b           30 .. 50     40 .. 60
    3  all-reduce b   (after 2)    50 .. 95     60 .. 95
    4  input gradient b            50 .. 60     60 .. 70
    5  weight gradient a           60 .. 70     70 .. 80
    6  all-reduce a   (after 5)    70 .. 110    80 .. 110
    7  forward a again (after 6)  110 .. 120   110 .. 120
    8  all-gather b   (after 3)    95 .. 125    95 .. 125
    9  pause          (after 8)   125 .. 128   125 .. 128
    10 forward b again (7, 9)     128 .. 148   128 .. 148
    11 all-reduce end (after 10)  148 .. 160   148 .. 158
"""

import numpy as np
import pytest

from sim.events.record import CallPhases, RunRecord
from sim.network.link import Link
from sim.workload.graph import (
    CollectiveCall,
    CollectiveKind,
    GraphBuilder,
    Job,
    TaskKind,
    TrainingPhase,
)

US = 10**9
NPU_0 = [
    (0, 10), (10, 30), (30, 50), (50, 95), (50, 60), (60, 70), (70, 110), (110, 120), (95, 125),
    (125, 128), (128, 148), (148, 160),
]
NPU_1 = [
    (0, 20), (20, 40), (40, 60), (60, 95), (60, 70), (70, 80), (80, 110), (110, 120), (95, 125),
    (125, 128), (128, 148), (148, 158),
]
COLLECTIVES = (3, 6, 8, 11)
SPAN = np.dtype(
    [
        ("kind", "i4"), ("row", "i4"), ("lane", "i4"), ("start_fs", "i8"), ("end_fs", "i8"),
        ("call", "i4"), ("chunk", "i4"), ("phase", "i4"),
    ]
)


def made_job():
    forward, weight = TrainingPhase.FORWARD, TrainingPhase.WEIGHT_GRADIENT
    build = GraphBuilder(["a", "b"])

    def compute(name, after, layer, phase, duration, iteration=0):
        return build.add(
            name, TaskKind.COMPUTE, after,
            duration_s=duration * 1e-6, layer=layer, phase=phase, iteration=iteration,
        )

    def collective(name, after, layer, phase, kind, size, iteration=0):
        call = CollectiveCall(kind=kind, size_bytes=size)
        return build.add(
            name, TaskKind.COLLECTIVE, after,
            call=call, layer=layer, phase=phase, iteration=iteration,
        )

    reduce, gather = CollectiveKind.ALL_REDUCE, CollectiveKind.ALL_GATHER
    fa = compute("forward a", [], 0, forward, 10)
    fb = compute("forward b", [fa], 1, forward, 20)
    wb = compute("weight gradient b", [fb], 1, weight, 20)
    rb = collective("all-reduce b", [wb], 1, weight, reduce, 4000)
    ib = compute("input gradient b", [wb], 1, TrainingPhase.INPUT_GRADIENT, 10)
    wa = compute("weight gradient a", [ib], 0, weight, 10)
    ra = collective("all-reduce a", [wa], 0, weight, reduce, 1000)
    fa2 = compute("forward a", [ra], 0, forward, 10, 1)
    gb = collective("all-gather b", [rb], 1, forward, gather, 500, 1)
    pause = build.add("pause", TaskKind.DELAY, [gb], duration_s=3e-6, iteration=1)
    fb2 = compute("forward b", [fa2, pause], 1, forward, 20, 1)
    collective("all-reduce end", [fb2], -1, TrainingPhase.OTHER, reduce, 80, 1)
    return Job(name="made by hand", graphs=(build.graph(),))


def made_record(job):
    tasks = job.graphs[0].tasks
    start = np.array([[a for a, _ in row] for row in (NPU_0, NPU_1)], np.int64) * US
    end = np.array([[b for _, b in row] for row in (NPU_0, NPU_1)], np.int64) * US
    ready = np.zeros_like(start)
    for number, task in enumerate(tasks):
        for other in task.after:
            ready[:, number] = np.maximum(ready[:, number], end[:, other])
    spans = np.array(
        [
            (0, 0, 0, 50 * US, 60 * US, 0, 0, 0),
            (0, 1, 1, 60 * US, 70 * US, 0, 0, 0),
            (0, 0, 0, 60 * US, 95 * US, 0, 1, 1),
        ],
        SPAN,
    )
    return RunRecord(
        nodes=2,
        folded=False,
        end_fs=160 * US,
        events=1234,
        wall_s=0.5,
        task_ready_fs=ready,
        task_start_fs=start,
        task_end_fs=end,
        graph_of=np.zeros(2, np.int32),
        calls=[(0, task) for task in COLLECTIVES],
        call_phases=CallPhases(
            chunks=np.array([4, 1, 1, 1]),
            names=[["reduce-scatter dim 0", "all-gather dim 0"]] * 2 + [["all-gather dim 0"]] * 2,
            queue_delay_fs=np.array([[16, 8], [6, 0], [4, 0], [0, 0]]) * US,
            time_fs=np.array([[160, 80], [40, 40], [60, 0], [22, 0]]) * US,
            network_delay_fs=np.array([[24, 24], [4, 4], [2, 0], [2, 0]]) * US,
            latency_fs=np.array([[4, 4], [1, 1], [1, 0], [1, 0]]) * US,
            bus_delay_fs=np.array([[8, 8], [1, 1], [0, 0], [1, 0]]) * US,
            messages=np.array([[8, 8], [2, 2], [2, 0], [2, 0]]),
        ),
        links=[
            Link(source=0, target=1, dimension=0, lane=0, bytes_per_s=1e9, latency_fs=10**8),
            Link(source=1, target=0, dimension=0, lane=0, bytes_per_s=1e9, latency_fs=10**8),
        ],
        link_bytes=np.array([5580, 5400]),
        link_busy_fs=np.array([80, 40]) * US,
        unit_names=["memory read"],
        unit_busy_fs=np.array([[16, 32]]) * US,
        unit_bytes=np.array([[8000, 16000]]),
        engine_busy_fs=np.array([80, 40]) * US,
        bucket_fs=40 * US,
        link_series_fs=np.array([[0, 40, 80, 0]]) * US,
        spans=spans,
        notes=["nothing of this is real"],
    )


@pytest.fixture
def job():
    return made_job()


@pytest.fixture
def record(job):
    return made_record(job)
