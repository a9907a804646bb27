# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import numpy as np
import pytest

from sim.results.breakdown import break_down
from sim.results.tables import (
    collectives_table,
    iterations_table,
    layers_table,
    phases_table,
    summary_table,
)
from sim.workload.graph import GraphBuilder, Job, TaskKind, TrainingPhase

US = 10**9


@pytest.fixture
def run(record, job):
    return break_down(record, job)


def column(table, name):
    """Times in microseconds: of round numbers, as the run was made."""
    scale = 1e6 if name.endswith("_s") else 1
    values = table[name]
    return [round(scale * v, 6) if isinstance(v, float) else v for v in values]


def test_time_of_every_npu_is_divided_completely(run):
    # NPU 0: computes 10+20+20+10+10+10+20, waits 70..110 for all-reduce a, 120..125 for the
    # all-gather, 125..128 for the pause, 148..160 for the last all-reduce.
    assert (run.rows_fs // US).tolist() == [[100, 57, 3, 0], [110, 45, 3, 2]]
    assert (run.rows_fs.sum(axis=1) == run.run_fs).all()


def test_waits_belong_to_what_ended_last(run):
    exposed = [each.exposed_fs / US for each in run.tasks]

    # Means of both NPUs; all-reduce b (task 3) ends while the NPU still computes or waits for a.
    assert exposed == [0, 0, 0, 0, 0, 0, 35, 0, 5, 0, 0, 11]
    assert [each.delay_fs / US for each in run.tasks][9] == 3


def test_wait_is_shared_along_the_chain_of_causes(job, record):
    # Forward a comes again at 90: then the NPU waits 100..125, and the all-gather that ends last
    # was itself held up until 95 by nothing that lies in the gap, so all of 100..125 is its own.
    start, end = record.task_start_fs.copy(), record.task_end_fs.copy()
    start[:, 6], end[:, 6] = 80 * US, 82 * US
    start[:, 7], end[:, 7] = 82 * US, 84 * US
    ready = record.task_ready_fs.copy()
    ready[:, 7] = 82 * US
    moved = replace(record, task_start_fs=start, task_end_fs=end, task_ready_fs=ready)

    run = break_down(moved, job)

    # The wait 84..128 ends with the pause (3), before it the all-gather (95..125), before that
    # all-reduce b (84..95).
    exposed = [each.exposed_fs / US for each in run.tasks]
    assert (exposed[3], exposed[8], run.tasks[9].delay_fs / US) == (11, 30, 3)
    assert (run.rows_fs.sum(axis=1) == run.run_fs).all()


def test_overlap_counts_time_with_any_communication_once(run):
    overlapped = [each.overlapped_fs / US for each in run.tasks]

    # Communication is in progress from 50 (60) to 125 without a break.
    assert overlapped == [0, 0, 0, 0, 10, 10, 0, 10, 0, 0, 0, 0]


def test_layers_sum_to_the_run(run):
    table = layers_table(run)

    assert list(zip(column(table, "layer"), column(table, "phase"))) == [
        ("a", "forward"),
        ("b", "forward"),
        ("b", "weight gradient"),
        ("b", "input gradient"),
        ("a", "weight gradient"),
        ("-", "other"),
    ]
    assert column(table, "compute_s") == [25, 40, 20, 10, 10, 0]
    assert column(table, "communication_s") == [0, 30, 40, 0, 35, 11]
    assert column(table, "exposed_s") == [0, 5, 0, 0, 35, 11]
    assert column(table, "delay_s") == [0, 0, 0, 0, 0, 3]
    parts = ["compute_s", "exposed_s", "delay_s"]
    assert sum(sum(column(table, part)) for part in parts) == 160 - 1  # one NPU is idle for 2


def test_layers_report_delays_of_their_collectives(run):
    rows = {(row["layer"], row["phase"]): row for row in layers_table(run).records()}
    b, gather = rows["b", "weight gradient"], rows["b", "forward"]
    us = pytest.approx(1e-6)

    assert (b["collectives"], b["size_bytes"], b["messages"]) == (1, 4000, 16)
    # 4 chunks on 2 NPUs.
    assert (b["queue_delay_p0_s"] / 2, b["queue_delay_p1_s"]) == (us, us)
    assert (b["network_delay_s"] / 3, b["bus_delay_s"]) == (us, us)
    assert gather["queue_delay_p0_s"] / 2 == us
    assert gather["queue_delay_p1_s"] is None  # an all-gather has one phase
    assert rows["b", "input gradient"]["messages"] == 0


def test_phases_report_the_use_of_the_endpoint(run):
    table = phases_table(run)
    use = dict(zip(column(table, "phase"), column(table, "endpoint_percent")))

    assert use["forward"] == pytest.approx(100 * (10 + 5) / (65 + 5))
    assert use["weight gradient"] == pytest.approx(100 * (10 + 35) / (30 + 35))
    assert use["input gradient"] == 100


def test_iterations_sum_to_the_run(run):
    table = iterations_table(run)

    assert column(table, "iteration") == [0, 1]
    assert column(table, "compute_s") == [75, 30]
    assert column(table, "exposed_s") == [35, 16]


def test_summary_adds_up_and_keeps_the_notes(run):
    table = summary_table(run)
    (row,) = table.rows

    assert [round(1e6 * time, 6) for time in row[:5]] == [160, 105, 51, 3, 1]
    assert row[5:7] == (pytest.approx(100 * 51 / 160), pytest.approx(100 * 60 / 160))
    assert table.note == "nothing of this is real"


def test_collectives_have_a_row_per_phase(run):
    table = collectives_table(run)

    assert len(table.rows) == 2 + 2 + 1 + 1
    assert table.rows[1] == (
        0, "all-reduce b", "b", "all_reduce", 4000, 50e-6, 95e-6, 4, "P1 all-gather dim 0",
        1e-6, 10e-6, 3e-6, 1e-6, 8,
    )


def test_tasks_that_never_ran_take_no_time(job, record):
    start, end = record.task_start_fs.copy(), record.task_end_fs.copy()
    for array in (start, end):
        array[:, 11] = -1

    run = break_down(replace(record, task_start_fs=start, task_end_fs=end), job)

    assert run.tasks[11].exposed_fs == 0
    assert (run.rows_fs[:, 3] // US).tolist() == [12, 12]


def test_record_of_another_job_is_refused(record):
    build = GraphBuilder()
    for number in range(13):
        build.add(f"t{number}", TaskKind.COMPUTE)

    with pytest.raises(ValueError, match=r"12 tasks per row and graphs \[0\]; job 'other' has 1 g"):
        break_down(record, Job(name="other", graphs=(build.graph(),)))


def test_graphs_of_different_sizes_are_divided_apart():
    """A pipeline: NPU 1 computes what NPU 0 sends."""
    first, second = GraphBuilder(["front"]), GraphBuilder(["back"])
    made = first.add("front", TaskKind.COMPUTE, layer=0, phase=TrainingPhase.FORWARD)
    first.add("send", TaskKind.SEND, [made], peer=1, size_bytes=8, layer=0)
    got = second.add("receive", TaskKind.RECEIVE, peer=0, size_bytes=8, layer=0)
    made = second.add("back", TaskKind.COMPUTE, [got], layer=0, phase=TrainingPhase.FORWARD)
    second.add("clean", TaskKind.COMPUTE, [made], layer=0, phase=TrainingPhase.UPDATE)
    job = Job(name="pipeline", graphs=(first.graph(), second.graph()), graph_of=(0, 1))
    start = np.array([[0, 10, -1], [0, 14, 20]], np.int64)
    end = np.array([[10, 14, -1], [14, 20, 21]], np.int64)
    ready = np.array([[0, 10, -1], [0, 14, 20]], np.int64)
    record = _bare(start, end, ready, np.array([0, 1], np.int32))

    run = break_down(record, job)

    assert run.rows_fs.tolist() == [[10, 4, 0, 7], [7, 14, 0, 0]]
    table = layers_table(run)
    assert list(zip(column(table, "layer"), column(table, "phase"))) == [
        ("front", "forward"),
        ("front", "other"),
        ("back", "other"),
        ("back", "forward"),
        ("back", "update"),
    ]
    assert [round(value * 1e15, 6) for value in table["exposed_s"]] == [
        0, 2, 7, 0, 0,
    ]


def test_random_runs_are_divided_completely():
    random = np.random.default_rng(5)
    for _ in range(50):
        build = GraphBuilder(["x", "y"])
        kinds = [TaskKind.COMPUTE, TaskKind.COLLECTIVE, TaskKind.DELAY, TaskKind.SEND]
        count = int(random.integers(1, 40))
        ready, start, end = (np.zeros((1, count), np.int64) for _ in range(3))
        free = 0
        for number in range(count):
            after = {int(random.integers(number)) for _ in range(random.integers(3)) if number}
            kind = kinds[random.integers(4)]
            build.add(f"t{number}", kind, after, layer=int(random.integers(-1, 2)))
            ready[0, number] = max((int(end[0, other]) for other in after), default=0)
            start[0, number] = ready[0, number]
            if kind is TaskKind.COMPUTE:
                start[0, number] = max(start[0, number], free)
            end[0, number] = start[0, number] + random.integers(0, 20)
            if kind is TaskKind.COMPUTE:
                free = int(end[0, number])
        job = Job(name="random", graphs=(build.graph(),))

        run = break_down(_bare(start, end, ready, np.zeros(1, np.int32)), job)

        assert run.rows_fs.sum() == run.run_fs
        compute = [t.kind is TaskKind.COMPUTE for t in job.graphs[0].tasks]
        assert run.rows_fs[0, 0] == (end - start)[0, compute].sum()
        assert sum(each.exposed_fs for each in run.tasks) == run.rows_fs[0, 1]
        assert sum(each.delay_fs for each in run.tasks) == run.rows_fs[0, 2]
        computing, communicating = np.zeros(run.run_fs, bool), np.zeros(run.run_fs, bool)
        for task, a, b in zip(job.graphs[0].tasks, start[0], end[0]):
            if task.kind is TaskKind.COMPUTE:
                computing[a:b] = True
            elif task.kind is not TaskKind.DELAY:
                communicating[a:b] = True
        both = (computing & communicating).sum()
        assert sum(each.overlapped_fs for each in run.tasks) == both


def _bare(start, end, ready, graph_of):
    from sim.events.record import CallPhases, RunRecord

    none = np.zeros((0, 0), np.int64)
    empty = np.zeros(0, np.int64)
    return RunRecord(
        nodes=len(graph_of),
        folded=False,
        end_fs=int(end.max()),
        events=0,
        wall_s=0.0,
        task_ready_fs=ready,
        task_start_fs=start,
        task_end_fs=end,
        graph_of=graph_of,
        calls=[],
        call_phases=CallPhases(
            chunks=empty,
            names=[],
            queue_delay_fs=none,
            time_fs=none,
            network_delay_fs=none,
            latency_fs=none,
            bus_delay_fs=none,
            messages=none,
        ),
        links=[],
        link_bytes=empty,
        link_busy_fs=empty,
        unit_names=[],
        unit_busy_fs=none,
        unit_bytes=none,
        engine_busy_fs=np.zeros(len(graph_of), np.int64),
        bucket_fs=0,
        link_series_fs=none,
        spans=np.zeros(0, np.dtype([("kind", "i4")])),
    )
