# SPDX-License-Identifier: Apache-2.0
"""Training jobs on RTL engines, on models, and on both."""

import numpy as np
import pytest

from sim.hosts.script import Compute, Issue, Reached
from sim.hosts.surroundings import Surroundings
from sim.runs.job import plan_job
from sim.runs.scripts import draw_inputs
from sim.workload.graph import CollectiveCall, CollectiveKind, GraphBuilder, Job, TaskKind

CLOCK = 1e9
NODES = 3


def training(layers: int = 3, *, sums: tuple[int, ...] = (1200, 400, 800)) -> Job:
    """Two iterations; backwards, each layer's gradients are summed beside the next layers."""
    graph = GraphBuilder()
    previous: int | None = None
    summed: list[int | None] = [None] * layers
    for iteration in range(2):
        for layer in range(layers):
            previous = graph.add(
                f"forward {layer} {iteration}", TaskKind.COMPUTE, [previous, summed[layer]],
                duration_s=300e-9,
            )
        for layer in reversed(range(layers)):
            previous = graph.add(
                f"backward {layer} {iteration}", TaskKind.COMPUTE, [previous], duration_s=700e-9
            )
            call = CollectiveCall(kind=CollectiveKind.ALL_REDUCE, size_bytes=4 * sums[layer])
            summed[layer] = graph.add(
                f"sum {layer} {iteration}", TaskKind.COLLECTIVE, [previous], call=call
            )
    return Job(name="training", graphs=(graph.graph(),))


def test_a_job_takes_as_long_on_models_as_in_rtl(duo, run):
    ring = Surroundings(nodes=NODES, latency_cycles=10)
    plan = plan_job(training(), "ace", duo, ring, clock_hz=CLOCK)
    inputs = draw_inputs(plan.commands, NODES, seed=1)
    rtl = run(ring, plan.commands, plan.steps, inputs)
    mixed = run(ring, plan.commands, plan.steps, inputs, levels=["cycles", "cycles", "rtl"])
    model = run(ring, plan.commands, plan.steps, levels="cycles")
    assert rtl.checked == 6 * NODES and rtl.wrong == 0
    assert mixed.checked == 6 and mixed.wrong == 0 and mixed.packets > 0
    assert model.cycles == pytest.approx(rtl.cycles, rel=0.01)
    assert mixed.cycles == pytest.approx(rtl.cycles, rel=0.02)


def test_tasks_keep_their_order_and_collectives_run_beside_computations(duo, run):
    ring = Surroundings(nodes=NODES, latency_cycles=10)
    job = training()
    plan = plan_job(job, "ace", duo, ring, clock_hz=CLOCK)
    model = run(ring, plan.commands, plan.steps, levels="cycles")
    tasks = job.graphs[0].tasks
    for rank in range(NODES):
        times = plan.times(rank, model.steps[rank], begin=model.begin)
        assert (times.start >= 0).all() and (times.end > times.start).all()
        for number, task in enumerate(tasks):
            for earlier in task.after:
                assert times.start[number] >= times.end[earlier]
            if task.kind is TaskKind.COMPUTE:
                assert times.end[number] - times.start[number] == round(task.duration_s * CLOCK)
        by_name = {task.name: number for number, task in enumerate(tasks)}
        assert times.start[by_name["backward 1 0"]] < times.end[by_name["sum 2 0"]]


def test_times_of_an_rtl_run_and_of_a_model_run_are_alike(duo, run):
    ring = Surroundings(nodes=NODES, latency_cycles=10)
    plan = plan_job(training(), "ace", duo, ring, clock_hz=CLOCK)
    inputs = draw_inputs(plan.commands, NODES, seed=2)
    rtl = run(ring, plan.commands, plan.steps, inputs)
    model = run(ring, plan.commands, plan.steps, levels="cycles")
    for rank in range(NODES):
        of_rtl = plan.times(rank, rtl.steps[rank], begin=rtl.begin)
        of_model = plan.times(rank, model.steps[rank], begin=model.begin)
        np.testing.assert_allclose(of_model.start, of_rtl.start, rtol=0.02, atol=40)
        np.testing.assert_allclose(of_model.end, of_rtl.end, rtol=0.02, atol=40)


def test_the_host_waits_only_where_a_task_needs_a_collective(duo):
    plan = plan_job(training(layers=2), "ace", duo, Surroundings(nodes=2), clock_hz=CLOCK)
    assert [type(step) for step in plan.scripts[0]] == [
        Compute, Compute, Compute, Issue, Compute, Issue, Reached,
        Compute, Compute, Compute, Issue, Compute, Issue, Reached,
    ]
    assert plan.scripts[0][6] == Reached(count=2)


def test_no_more_collectives_are_outstanding_than_the_engine_takes(duo, run):
    graph = GraphBuilder()
    call = CollectiveCall(kind=CollectiveKind.ALL_REDUCE, size_bytes=256)
    for number in range(12):
        graph.add(f"sum {number}", TaskKind.COLLECTIVE, call=call)
    job = Job(name="sums", graphs=(graph.graph(),))
    ring = Surroundings(nodes=2)
    plan = plan_job(job, "ace", duo, ring, clock_hz=CLOCK)
    inputs = draw_inputs(plan.commands, 2, seed=3)
    rtl = run(ring, plan.commands, plan.steps, inputs)
    model = run(ring, plan.commands, plan.steps, levels="cycles")
    assert rtl.wrong == 0 and rtl.checked == 24
    assert model.cycles == pytest.approx(rtl.cycles, rel=0.02)


def test_what_follows_a_collective_delays_who_needs_it(duo, run):
    def job(update_s: float) -> Job:
        graph = GraphBuilder()
        call = CollectiveCall(kind=CollectiveKind.ALL_GATHER, size_bytes=256)
        first = graph.add("gather", TaskKind.COLLECTIVE, call=call, duration_s=update_s)
        graph.add("use", TaskKind.COMPUTE, [first], duration_s=1e-7)
        return Job(name="gather", graphs=(graph.graph(),))

    ring = Surroundings(nodes=2)
    cycles = []
    for update_s in (0.0, 5e-7):
        plan = plan_job(job(update_s), "ace", duo, ring, clock_hz=CLOCK)
        cycles.append(run(ring, plan.commands, plan.steps, levels="cycles").cycles)
    assert cycles[1] == cycles[0] + 500


@pytest.mark.parametrize(
    "kind, call, text",
    [
        (TaskKind.SEND, None, r"task 0 \('task'\) must be a computation, a delay or a collective"),
        (
            TaskKind.COLLECTIVE,
            CollectiveCall(kind=CollectiveKind.ALL_TO_ALL, size_bytes=64),
            "must be one of all_reduce, reduce_scatter, all_gather over all NPUs, not all_to_all",
        ),
        (
            TaskKind.COLLECTIVE,
            CollectiveCall(kind=CollectiveKind.ALL_REDUCE, size_bytes=64, dimensions=(1,)),
            r"over all NPUs, not all_reduce over dimensions \(1,\)",
        ),
        (
            TaskKind.COLLECTIVE,
            CollectiveCall(kind=CollectiveKind.ALL_REDUCE, size_bytes=6),
            "size_bytes must be a multiple of 4 above 0, not 6",
        ),
    ],
)
def test_what_the_engine_cannot_run_is_refused(duo, kind, call, text):
    graph = GraphBuilder()
    graph.add("task", kind, call=call)
    job = Job(name="job", graphs=(graph.graph(),))
    with pytest.raises(ValueError, match=text):
        plan_job(job, "ace", duo, Surroundings(nodes=2), clock_hz=CLOCK)
