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
    assert set(done.limits["held_by"][1:]) == {None}


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
