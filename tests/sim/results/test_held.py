# SPDX-License-Identifier: Apache-2.0
"""Runs that are throttled on purpose name what held them."""

import pytest

from sim.collectives.plan import AlgorithmChoice
from sim.endpoint.kinds import endpoint
from sim.events.scheduler import Scheduler
from sim.events.simulate import simulate
from sim.limits.network import call_bound
from sim.network.dimension import Dimension
from sim.network.network import Network
from sim.results.held import held
from sim.results.limits import limits_table
from sim.run import run
from sim.workload.graph import CollectiveCall, CollectiveKind, GraphBuilder, Job, TaskKind

MIB = 1 << 20


def ring(size: int, rate: float = 25e9) -> Dimension:
    return Dimension.ring(size, rate, 400e-9)


def reason(dimensions, size_bytes, **options):
    call = CollectiveCall(kind=CollectiveKind.ALL_REDUCE, size_bytes=size_bytes)
    graph = GraphBuilder()
    graph.add("all-reduce", TaskKind.COLLECTIVE, call=call)
    network = Network(dimensions)
    record = simulate(network, Job(name="one", graphs=(graph.graph(),)), **options)
    reached = call_bound(network, call).seconds / (record.end_fs / 1e15)
    assert reached < 0.9
    return held(record, reached, record.end_fs)


RING, TORUS = [ring(64)], [ring(8)] * 3
PACKAGE = [ring(4, 200e9), ring(4), ring(4)]


@pytest.mark.parametrize(
    ("dimensions", "size_bytes", "options", "by", "why"),
    [
        (RING, 16 * MIB, {"scheduler": Scheduler(concurrency=1)}, "admission", "1 place in a"),
        (
            TORUS, 16 * MIB, {"scheduler": Scheduler(chunk_bytes=65536, concurrency=8)},
            "admission", "8 places in a queue, scheduler.concurrency",
        ),
        (
            TORUS, 16 * MIB, {"scheduler": Scheduler(threshold=1, issue=1)},
            "admission", "scheduler.threshold",
        ),
        (
            PACKAGE, 16 * MIB, {"endpoint": endpoint("ace", fsms=1, contexts=1)},
            "admission", "1 context for a phase",
        ),
        (
            PACKAGE, 16 * MIB, {"endpoint": endpoint("ace", sram_bytes=1 << 18)},
            "admission", "partition 0, 37449 bytes",
        ),
        (RING, 65536, {}, "latency", "0.4 us on the way of a message"),
        (TORUS, MIB, {}, "latency", "0.4 us"),
        ([ring(8)], 16 * MIB, {"endpoint": endpoint("baseline", memory_bytes_per_s=30e9)},
         "memory read", "busy for 100 %"),
        ([ring(8)], MIB, {"endpoint": endpoint("ideal", delay_s=1e-5)},
         "endpoint", "10 us for a message"),
        (
            [Dimension.switch(8, 25e9)], MIB,
            {"endpoint": endpoint("ideal", message_bytes=None),
             "scheduler": Scheduler(splits=1)},
            "messages", "passed on whole",
        ),
        (PACKAGE, 16 * MIB, {"algorithms": AlgorithmChoice(style="enhanced")},
         "links of dimension 1", "busy for 9"),
        (
            [Dimension.ring(4, 200e9), Dimension.ring(4, 25e9)], 16 * MIB,
            {"scheduler": Scheduler(concurrency=None, splits=64),
             "algorithms": AlgorithmChoice(style="dimension_ordered")},
            "phases", "busy for",
        ),
        ([Dimension.switch(8, 450e9, 400e-9)], 300_000, {"scheduler": Scheduler(splits=64)},
         "latency", ""),
    ],
)
def test_what_held_it_is_named(dimensions, size_bytes, options, by, why):
    found = reason(dimensions, size_bytes, **options)

    assert found is not None and found.by == by
    assert why in found.why


def test_late_nodes_are_named():
    done = run({
        "topology": {"kind": "torus", "shape": [4, 4]},
        "workload": {"shipped": "resnet50"},
        "scheduler": {"policy": "fifo"},
        "scenario": {"node": [{"node": 5, "slowdown": 1.5}]},
    })

    (note,) = [each for each in done.record.notes if each.startswith("collectives: ")]
    assert "of their bound, held by late nodes (others waited for them for " in note
    assert done.limits["held_by"][0] == "late nodes"
    # Each collective has a reason of its own.
    limits = done.limits
    below = [share < 90 for share in limits["mean_percent"][1:]]
    assert any(below)
    assert [by is not None for by in limits["held_by"][1:]] == below


def after_each_other(*calls):
    graph = GraphBuilder()
    last = None
    for size_bytes in calls:
        call = CollectiveCall(kind=CollectiveKind.ALL_REDUCE, size_bytes=size_bytes)
        last = graph.add(
            f"{size_bytes} bytes", TaskKind.COLLECTIVE, call=call,
            after=[last],
        )
    return Job(name="some", graphs=(graph.graph(),))


def held_by(dimensions, job, **options):
    network = Network(dimensions)
    limits = limits_table(simulate(network, job, **options), job, network)
    return dict(zip(limits["size_bytes"], limits["held_by"]))


def test_each_collective_of_a_job_has_its_own_reason():
    found = held_by(RING, after_each_other(65536, 256 * MIB, 16 * MIB))

    assert found[65536] == "latency"
    assert found[256 * MIB] is None


def test_a_collective_that_waits_for_others_chunks_is_held_by_admission():
    graph = GraphBuilder()
    for size_bytes in (64 * MIB, MIB):
        call = CollectiveCall(kind=CollectiveKind.ALL_REDUCE, size_bytes=size_bytes)
        graph.add(f"{size_bytes} bytes", TaskKind.COLLECTIVE, call=call)
    job = Job(name="both", graphs=(graph.graph(),))

    fifo = Scheduler(policy="fifo", concurrency=4, splits=64)
    assert held_by([ring(8)], job, scheduler=fifo)[MIB] == "admission"


def test_runs_near_their_bound_have_no_note():
    done = run({
        "topology": {"kind": "ring", "shape": [8]},
        "workload": {"collective": "all_reduce", "size_bytes": 16 * MIB},
    })

    assert not [each for each in done.record.notes if each.startswith("collectives: ")]
    assert set(done.limits["held_by"]) == {None}


def test_what_explains_too_little_is_not_named():
    """Times that were changed afterwards have no reason in what was recorded."""
    done = run({
        "topology": {"kind": "ring", "shape": [8]},
        "workload": {"collective": "all_reduce", "size_bytes": 16 * MIB},
        "run": {"passes": 1},
    })
    record = done.record

    assert held(record, 1e-4, 10_000 * record.end_fs) is None
