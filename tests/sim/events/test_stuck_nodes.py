# SPDX-License-Identifier: Apache-2.0
"""Nodes that are not in step: chunks admitted in different orders must not block each other."""

import random

import pytest

from sim.collectives.plan import AlgorithmChoice
from sim.endpoint.kinds import endpoint
from sim.events.record import RunRecord
from sim.events.scheduler import Scheduler
from sim.events.simulate import SimulationError, simulate
from sim.network.dimension import Dimension
from sim.network.network import Network
from sim.workload.graph import CollectiveCall, CollectiveKind, GraphBuilder, Job, TaskKind

ONE_AT_A_TIME = Scheduler(policy="lifo", splits=4, concurrency=1)


def dimension(kind: str, size: int) -> Dimension:
    return Dimension(kind=kind, size=size, bandwidth_bytes_per_s=25e9, latency_s=200e-9)


def skewed(nodes: int, seed: int, calls: int = 5) -> Job:
    """Every node issues the collectives in order, after computations that take any time."""
    choose = random.Random(seed)
    graphs = []
    for _ in range(nodes):
        graph, before = GraphBuilder(), None
        for number in range(calls):
            lasts = choose.choice([0, 1, 10, 100]) * 1e-6 * choose.random()
            before = graph.add(f"work {number}", TaskKind.COMPUTE, [before], duration_s=lasts)
            call = CollectiveCall(kind=CollectiveKind.ALL_REDUCE, size_bytes=1 << 18)
            graph.add(f"sum {number}", TaskKind.COLLECTIVE, [before], call=call)
        graphs.append(graph.graph())
    return Job(name="skewed", graphs=tuple(graphs), graph_of=tuple(range(nodes)))


def run(network: Network, work: Job, **changes: object) -> RunRecord:
    values: dict[str, object] = {"scheduler": ONE_AT_A_TIME, "check": True}
    return simulate(network, work, **{**values, **changes})  # type: ignore[arg-type]


NETWORKS = {
    "ring": [dimension("ring", 8)],
    "torus": [dimension("ring", 2), dimension("ring", 4)],
    "switch": [dimension("switch", 8)],
    "fat tree": [Dimension.fat_tree(8, 2, 25e9)],
}


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("kind", ["ideal", "ace"])
def test_skewed_nodes_with_one_chunk_at_a_time_finish(name: str, kind: str) -> None:
    network = Network(NETWORKS[name])
    small = {"sram_bytes": 1 << 17, "fsms": 4, "contexts": 1} if kind == "ace" else {}
    for seed in range(8):
        work = skewed(network.nodes, seed)
        for reserve in ("auto", "on"):
            record = run(network, work, reserve=reserve, endpoint=endpoint(kind, **small))
            assert record.end_fs > 0


def test_without_the_reserved_place_they_block_each_other() -> None:
    """``auto`` then gives what ``on`` gives and says so."""
    network = Network(NETWORKS["ring"])
    for seed in range(3):
        work = skewed(network.nodes, seed)
        with pytest.raises(SimulationError) as caught:
            run(network, work, reserve="off")
        text = str(caught.value)
        assert "nodes wait for each other without end: node" in text
        assert "waits in ring all-reduce dim 0 for messages of chunk" in text
        assert "have not admitted it" in text
        automatic, reserved = (run(network, work, reserve=reserve) for reserve in ("auto", "on"))
        assert automatic.end_fs == reserved.end_fs
        assert any("place reserved" in note for note in automatic.notes)
        assert not any("place reserved" in note for note in reserved.notes)


def test_a_run_that_finishes_without_the_reserved_place_does_not_get_it() -> None:
    network = Network(NETWORKS["ring"])
    roomy = Scheduler(policy="lifo", splits=4, concurrency=18)
    for seed in range(4):
        work = skewed(network.nodes, seed)
        free, automatic = (
            run(network, work, scheduler=roomy, reserve=reserve) for reserve in ("off", "auto")
        )
        assert (free.task_end_fs == automatic.task_end_fs).all()
        assert not any("place reserved" in note for note in automatic.notes)


@pytest.mark.parametrize("threshold", [None, 1, 2])
def test_dispatchers_with_thresholds_cannot_block_either(threshold: int | None) -> None:
    network = Network(NETWORKS["torus"])
    scheduler = Scheduler(
        policy="lifo", splits=4, concurrency=1, threshold=threshold, issue=1, queues="dimension"
    )
    for seed in range(8):
        assert run(network, skewed(8, seed), scheduler=scheduler).end_fs > 0


@pytest.mark.parametrize("granularity", ["message", "packet"])
def test_trees_whose_roots_wait_first_cannot_block(granularity: str) -> None:
    network = Network(NETWORKS["switch"])
    choice = AlgorithmChoice(style="baseline", reductions=("tree",))
    for seed in range(6):
        work = skewed(8, seed)
        assert run(network, work, algorithms=choice, granularity=granularity).end_fs > 0


def test_nodes_in_step_never_need_a_reserved_place() -> None:
    """LIFO with one chunk at a time on a symmetric system is what it was, folded or not."""
    network = Network(NETWORKS["torus"])
    graph, before = GraphBuilder(), None
    for number in range(6):
        before = graph.add(f"work {number}", TaskKind.COMPUTE, [before], duration_s=2e-6)
        call = CollectiveCall(kind=CollectiveKind.ALL_REDUCE, size_bytes=1 << 18)
        graph.add(f"sum {number}", TaskKind.COLLECTIVE, [before], call=call)
    work = Job(name="in step", graphs=(graph.graph(),))
    ends = {
        run(network, work, reserve=reserve, fold=fold).end_fs
        for reserve in ("auto", "off")
        for fold in ("on", "off")
    }
    assert len(ends) == 1
    folded, full = (run(network, work, reserve="on", fold=fold) for fold in ("on", "off"))
    assert (folded.task_end_fs == full.task_end_fs).all()


def test_stragglers_finish_too() -> None:
    network = Network(NETWORKS["torus"])
    graph, before = GraphBuilder(), None
    for number in range(8):
        before = graph.add(f"work {number}", TaskKind.COMPUTE, [before], duration_s=2e-6)
        call = CollectiveCall(kind=CollectiveKind.ALL_REDUCE, size_bytes=1 << 18)
        graph.add(f"sum {number}", TaskKind.COLLECTIVE, [before], call=call)
    work = Job(name="in step", graphs=(graph.graph(),))
    even = run(network, work)
    slow = run(network, work, stragglers={3: 4.0})
    assert slow.end_fs > even.end_fs
    assert slow.end_fs >= 8 * 8e-6 * 1e15


def test_collectives_in_contrary_orders_are_named() -> None:
    """Not admission but the job itself: each node wants the other's second collective first."""
    graphs = []
    for order in ((0, 1), (1, 0)):
        graph, before = GraphBuilder(), None
        for dims in order:
            call = CollectiveCall(
                kind=CollectiveKind.ALL_REDUCE, size_bytes=4096, dimensions=((0,), (0, 1))[dims]
            )
            before = graph.add(f"sum {dims}", TaskKind.COLLECTIVE, [before], call=call)
        graphs.append(graph.graph())
    network = Network([dimension("ring", 2), dimension("ring", 2)])
    work = Job(name="contrary", graphs=tuple(graphs), graph_of=(0, 1, 0, 1))
    with pytest.raises(SimulationError, match=r"node 0 waits in .* of 'sum 0' \(call 0\).*node 1"):
        run(network, work)


def test_an_unknown_choice_is_refused() -> None:
    with pytest.raises(ValueError, match="reserve must be auto, on or off, not 'yes'"):
        run(Network(NETWORKS["ring"]), skewed(8, 0), reserve="yes")
    with pytest.raises(ValueError, match="packet_routing must be hardware or software"):
        run(Network(NETWORKS["ring"]), skewed(8, 0), packet_routing="none")


@pytest.mark.parametrize("queues", ["auto", "phase", "dimension"])
@pytest.mark.parametrize("kind", ["ideal", "ace"])
def test_queues_of_dimensions_finish_with_engines_and_folded_alike(queues: str, kind: str) -> None:
    network = Network(NETWORKS["torus"])
    work = skewed(1, 3)
    work = Job(name="alike", graphs=work.graphs[:1])
    scheduler = Scheduler(splits=12, concurrency=2, queues=queues)
    folded, full = (
        run(network, work, fold=fold, scheduler=scheduler, endpoint=kind) for fold in ("on", "off")
    )
    assert (full.task_end_fs == folded.task_end_fs).all()


def test_nodes_that_are_not_alike_keep_a_queue_for_each_phase() -> None:
    network = Network(NETWORKS["torus"])
    work = skewed(network.nodes, 1)
    times = {
        queues: run(network, work, scheduler=Scheduler(queues=queues)).end_fs
        for queues in ("auto", "phase", "dimension")
    }
    assert times["auto"] == times["phase"]
    alike = Job(name="alike", graphs=work.graphs[:1])
    chunks = {"splits": 24, "concurrency": 2}
    times = {
        queues: run(network, alike, scheduler=Scheduler(queues=queues, **chunks)).end_fs  # type: ignore[arg-type]
        for queues in ("auto", "phase", "dimension")
    }
    assert times["auto"] == times["dimension"] != times["phase"]


def test_one_collective_at_a_time() -> None:
    """Two calls of the same size: at once they share the links, one at a time the first ends
    sooner and the second begins when it has ended."""
    network = Network(NETWORKS["ring"])
    graph = GraphBuilder()
    for number in range(3):
        dimensions = None if number < 2 else (0,)
        call = CollectiveCall(
            kind=CollectiveKind.ALL_REDUCE, size_bytes=1 << 18, dimensions=dimensions
        )
        graph.add(f"sum {number}", TaskKind.COLLECTIVE, call=call)
    work = Job(name="three", graphs=(graph.graph(),))
    starts, ends = {}, {}
    for collectives in ("all", "one", "one_per_group"):
        record = run(network, work, scheduler=Scheduler(policy="fifo", collectives=collectives))
        starts[collectives] = record.task_start_fs[0].tolist()
        ends[collectives] = record.task_end_fs[0].tolist()
        assert not record.task_ready_fs.any()
    assert starts["all"] == [0, 0, 0]
    assert sorted(starts["one"])[1:] == sorted(ends["one"])[:2]
    assert starts["one_per_group"].count(0) == 2
    assert sorted(starts["one_per_group"])[2] == min(ends["one_per_group"][:2])
    assert min(ends["one"]) < min(ends["all"])


def test_links_that_are_not_shared_serve_everybody_at_once() -> None:
    network = Network(NETWORKS["switch"])
    call = CollectiveCall(kind=CollectiveKind.ALL_TO_ALL, size_bytes=1 << 20)
    graph = GraphBuilder()
    graph.add("all", TaskKind.COLLECTIVE, call=call)
    work = Job(name="all", graphs=(graph.graph(),))
    whole = {"endpoint": endpoint("ideal", message_bytes=1 << 20), "scheduler": Scheduler(splits=1)}
    shared, alone = (run(network, work, shared_links=each, **whole) for each in (True, False))
    # 1/8 of 2**20 bytes: alone once for both links, as ASTRA-sim has it; else up and down, seven of
    # them one after the other.
    piece = (1 << 17) / 25e9
    assert alone.end_fs / 1e15 == pytest.approx(piece + 400e-9, rel=1e-2)
    assert shared.end_fs / 1e15 == pytest.approx(8 * piece + 400e-9, rel=1e-2)
    with pytest.raises(ValueError, match="shared_links must be True with granularity='packet'"):
        run(network, work, shared_links=False, granularity="packet")
