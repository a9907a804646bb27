# SPDX-License-Identifier: Apache-2.0
"""One node stands for all only where that changes nothing, and then nothing changes."""

import numpy as np
import pytest

from sim.collectives.plan import AlgorithmChoice
from sim.endpoint.kinds import endpoint
from sim.events.scheduler import Scheduler
from sim.events.simulate import simulate
from sim.network.dimension import Dimension
from sim.network.link import LinkFault
from sim.network.network import Network
from sim.workload.astra_text import shipped
from sim.workload.graph import CollectiveCall, CollectiveKind, GraphBuilder, Job, TaskKind
from sim.workload.training import training_job

RATES = (200e9, 25e9, 25e9, 40e9)


def network(*dims: tuple[str, int], **options) -> Network:
    return Network(
        [
            Dimension(kind=kind, size=size, bandwidth_bytes_per_s=rate, latency_s=90e-9)
            for (kind, size), rate in zip(dims, RATES)
        ],
        **options,
    )


def job(*calls: tuple[CollectiveKind, int]) -> Job:
    """Collectives issued at once, then computations of different lengths and another one."""
    builder = GraphBuilder()
    for kind, size in calls:
        builder.add(
            kind.value, TaskKind.COLLECTIVE, call=CollectiveCall(kind=kind, size_bytes=size)
        )
    late = builder.add("compute", TaskKind.COMPUTE, duration_s=3e-6)
    call = CollectiveCall(kind=CollectiveKind.ALL_REDUCE, size_bytes=50_000)
    builder.add("late", TaskKind.COLLECTIVE, [late], call=call)
    return Job(name="mixed", graphs=(builder.graph(),))


MIXED = job(
    (CollectiveKind.ALL_REDUCE, 1_000_003),
    (CollectiveKind.ALL_TO_ALL, 300_000),
    (CollectiveKind.REDUCE_SCATTER, 400_000),
    (CollectiveKind.ALL_GATHER, 10_000),
)
SYSTEMS = {
    "ring": [("ring", 5)],
    "torus": [("ring", 4), ("ring", 4)],
    "odd torus": [("ring", 3), ("ring", 5)],
    "ring of two": [("ring", 2), ("ring", 3)],
    "three dimensions": [("ring", 2), ("ring", 3), ("ring", 4)],
    "fully connected": [("fully_connected", 5)],
    "switch of five": [("ring", 2), ("switch", 5)],
}


def assert_same(whole, folded) -> None:
    assert folded.folded and not whole.folded
    assert folded.end_fs == whole.end_fs
    for name in ("task_ready_fs", "task_start_fs", "task_end_fs"):
        full = getattr(whole, name)
        assert (full == full[0]).all(), f"nodes differ in {name}"
        assert (full[0] == getattr(folded, name)[0]).all()
    for name in ("queue_delay_fs", "time_fs", "network_delay_fs", "bus_delay_fs", "messages"):
        all_nodes, one = getattr(whole.phases, name), getattr(folded.phases, name)
        assert (all_nodes == whole.nodes * one).all(), name
    assert whole.link_bytes.sum() == whole.nodes * folded.link_bytes.sum()
    assert whole.link_busy_fs.sum() == whole.nodes * folded.link_busy_fs.sum()
    assert (whole.unit_busy_fs.sum(axis=1) == whole.nodes * folded.unit_busy_fs[:, 0]).all()
    assert (whole.engine_busy_fs == folded.engine_busy_fs[0]).all()


@pytest.mark.parametrize("style", ["baseline", "enhanced", "dimension_ordered", "multi_colour"])
@pytest.mark.parametrize("system", SYSTEMS)
def test_folded_equals_full_for_every_topology_and_style(system, style):
    where, algorithms = network(*SYSTEMS[system]), AlgorithmChoice(style=style)
    scheduler = Scheduler(chunk_bytes=20_000, concurrency=2)
    runs = [
        simulate(where, MIXED, algorithms=algorithms, scheduler=scheduler, fold=fold)
        for fold in ("off", "on")
    ]
    assert_same(*runs)


@pytest.mark.parametrize(
    "kind",
    ["baseline", "baseline_plus_plus", "baseline_comm_opt", "baseline_comp_opt", "ace", "ace_v1"],
)
@pytest.mark.parametrize("policy", ["lifo", "fifo"])
def test_folded_equals_full_for_every_endpoint(kind, policy):
    where = network(("ring", 4), ("ring", 3))
    scheduler = Scheduler(chunk_bytes=30_000, concurrency=3, policy=policy, threshold=4, issue=3)
    runs = [
        simulate(where, MIXED, endpoint=endpoint(kind), scheduler=scheduler, fold=fold)
        for fold in ("off", "on")
    ]
    assert_same(*runs)


def test_folded_equals_full_when_endpoints_relay():
    where = network(("ring", 4), ("ring", 4))
    algorithms = AlgorithmChoice(all_to_all="ring")
    assert_same(*(simulate(where, MIXED, algorithms=algorithms, fold=f) for f in ("off", "on")))


def test_folded_equals_full_when_all_send_to_all_at_once():
    where = network(("ring", 4), ("ring", 3))
    algorithms = AlgorithmChoice(all_to_all_span="all")
    assert_same(*(simulate(where, MIXED, algorithms=algorithms, fold=f) for f in ("off", "on")))


@pytest.mark.parametrize("workload", ["resnet50", "dlrm"])
def test_folded_equals_full_for_training(workload):
    where = network(("ring", 4), ("ring", 4))
    training = training_job(shipped(workload), shape=(4, 4), passes=2)
    assert_same(*(simulate(where, training, fold=f) for f in ("off", "on")))


def test_folding_is_used_without_being_asked():
    assert simulate(network(("ring", 4)), MIXED).folded


@pytest.mark.parametrize(
    ("where", "options", "reason"),
    [
        (network(("switch", 8)), {}, "not the same pattern|different ways"),
        (
            network(("ring", 8)),
            {"algorithms": AlgorithmChoice(reductions=("halving_doubling",))},
            "not the same pattern|different",
        ),
        (
            network(("switch", 8)),
            {"algorithms": AlgorithmChoice(style="baseline", reductions=("tree",))},
            "different roles",
        ),
        (
            network(("ring", 4), faults=[LinkFault(source=0, target=1, bandwidth_factor=0.5)]),
            {},
            "faults",
        ),
        (network(("ring", 4), faults=[LinkFault(source=0, target=1)]), {}, "faults"),
        (network(("ring", 4), placement=[1, 0, 2, 3]), {}, "logical topology"),
        (network(("ring", 16), logical_shape=(4, 4)), {}, "logical topology"),
        (network(("ring", 4)), {"stragglers": {2: 1.5}}, "slower"),
    ],
)
def test_what_is_not_symmetric_is_refused_with_the_reason(where, options, reason):
    reduce = job((CollectiveKind.ALL_REDUCE, 100_000))
    with pytest.raises(ValueError, match=f"cannot be folded: .*({reason})"):
        simulate(where, reduce, fold="on", **options)
    record = simulate(where, reduce, **options)
    assert not record.folded
    assert any("not folded" in note for note in record.notes)


def test_a_single_link_between_two_is_refused():
    where = Network.ring(2, 1e9, single_link=True)
    with pytest.raises(ValueError, match="cannot be folded"):
        simulate(where, MIXED, fold="on")


def test_nodes_with_different_graphs_are_refused():
    graphs = tuple(job((CollectiveKind.ALL_REDUCE, 1000)).graphs[0] for _ in range(2))
    different = Job(name="two", graphs=graphs, graph_of=(0, 1, 0, 1))
    with pytest.raises(ValueError, match="different graphs"):
        simulate(network(("ring", 4)), different, fold="on")


def test_a_hundred_thousand_nodes_fold():
    where = network(("ring", 50), ("ring", 50), ("ring", 40))
    record = simulate(where, job((CollectiveKind.ALL_REDUCE, 1 << 20)), fold="on")
    assert record.nodes == 100_000 and record.folded
    assert len(record.task_end_fs) == 1 and np.all(record.task_end_fs > 0)
