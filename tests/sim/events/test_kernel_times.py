# SPDX-License-Identifier: Apache-2.0
"""Times that can be worked out by hand."""

from functools import partial

import pytest

from sim.collectives.plan import AlgorithmChoice
from sim.endpoint.kinds import IdealEndpoint
from sim.events.scheduler import Scheduler
from sim.events.simulate import simulate
from sim.network.dimension import Dimension
from sim.network.link import LinkFault
from sim.network.network import Network
from sim.workload.graph import CollectiveCall, CollectiveKind, GraphBuilder, Job, TaskKind

fault = partial(LinkFault, both_ways=False)
RATE, LATENCY, NS = 10e9, 100e-9, 1e6  # bytes/s, s, fs per ns
FREE = IdealEndpoint(delay_s=0.0, message_bytes=None)
ONE = Scheduler(splits=1)


def network(*dims: tuple[str, int], **options) -> Network:
    return Network(
        [
            Dimension(kind=kind, size=size, bandwidth_bytes_per_s=RATE, latency_s=LATENCY)
            for kind, size in dims
        ],
        **options,
    )


def collective(kind: CollectiveKind, size: int, **call) -> Job:
    builder = GraphBuilder()
    builder.add("c", TaskKind.COLLECTIVE, call=CollectiveCall(kind=kind, size_bytes=size, **call))
    return Job(name="c", graphs=(builder.graph(),))


def time_ns(where: Network, what: Job, **options) -> float:
    options = {"endpoint": FREE, "scheduler": ONE} | options
    return simulate(where, what, **options).end_fs / NS


def step_ns(size: float) -> float:
    return 100 + size / 10  # latency, 10 bytes per ns


@pytest.mark.parametrize("nodes", [2, 3, 4, 7, 16])
def test_ring_all_reduce_takes_2n_minus_2_steps(nodes):
    one_way = AlgorithmChoice(rings=1)
    size = 1000 * nodes
    expected = 2 * (nodes - 1) * step_ns(1000)
    where, what = network(("ring", nodes)), collective(CollectiveKind.ALL_REDUCE, size)
    assert time_ns(where, what, algorithms=one_way) == pytest.approx(expected)


def test_two_directions_halve_the_data_of_each():
    where, what = network(("ring", 4)), collective(CollectiveKind.ALL_REDUCE, 8000)
    got = time_ns(where, what, scheduler=Scheduler(splits=2))
    assert got == pytest.approx(6 * step_ns(1000))


@pytest.mark.parametrize(
    ("kind", "steps", "piece"),
    [(CollectiveKind.REDUCE_SCATTER, 3, 1000), (CollectiveKind.ALL_GATHER, 3, 4000)],
)
def test_halves_of_a_ring_all_reduce(kind, steps, piece):
    got = time_ns(network(("ring", 4)), collective(kind, 4000), algorithms=AlgorithmChoice(rings=1))
    assert got == pytest.approx(steps * step_ns(piece))


@pytest.mark.parametrize("nodes", [2, 4, 8, 32])
def test_halving_doubling_through_a_switch_pays_two_hops_a_step(nodes):
    size = 1000 * nodes
    pieces = []
    while nodes > 1:
        size //= 2
        pieces.append(size)
        nodes //= 2
    expected = 2 * sum(2 * step_ns(piece) for piece in pieces)
    count = 2 ** len(pieces)
    what = collective(CollectiveKind.ALL_REDUCE, 1000 * count)
    assert time_ns(network(("switch", count)), what) == pytest.approx(expected)


def test_direct_all_reduce_serialises_at_the_senders_port():
    # 4 x 1000 bytes to each of 4 others, through one port each: both halves.
    what = collective(CollectiveKind.ALL_REDUCE, 5000)
    got = time_ns(network(("switch", 5)), what)
    first_half = 4 * 100 + 100 + step_ns(1000)  # the last message leaves after three others
    assert got == pytest.approx(2 * first_half)


def test_direct_all_to_all_between_neighbours_uses_all_links_at_once():
    what = collective(CollectiveKind.ALL_TO_ALL, 5000)
    assert time_ns(network(("fully_connected", 5)), what) == pytest.approx(step_ns(1000))


def test_tree_climbs_and_descends():
    # Seven nodes: two levels up, two levels down; every node has a port per direction.
    what = collective(CollectiveKind.ALL_REDUCE, 1000)
    algorithms = AlgorithmChoice(style="baseline", reductions=("tree",))
    got = time_ns(network(("fully_connected", 7)), what, algorithms=algorithms)
    assert got == pytest.approx(4 * step_ns(1000))


def test_a_dimension_subset_keeps_the_groups_apart():
    where = network(("ring", 4), ("ring", 8))
    what = collective(CollectiveKind.ALL_REDUCE, 4000, dimensions=(0,))
    got = time_ns(where, what, algorithms=AlgorithmChoice(rings=1))
    assert got == pytest.approx(6 * step_ns(1000))


def test_a_collective_within_groups_of_one_takes_no_time():
    where = network(("ring", 4), ("ring", 1))
    assert time_ns(where, collective(CollectiveKind.ALL_REDUCE, 4000, dimensions=(1,))) == 0


def test_baseline_style_pays_for_every_dimension_in_full():
    where, what = network(("ring", 4), ("ring", 4)), collective(CollectiveKind.ALL_REDUCE, 4000)
    algorithms = AlgorithmChoice(style="baseline", rings=1)
    assert time_ns(where, what, algorithms=algorithms) == pytest.approx(12 * step_ns(1000))


def test_enhanced_style_shrinks_what_the_other_dimensions_carry():
    where, what = network(("ring", 4), ("ring", 4)), collective(CollectiveKind.ALL_REDUCE, 16000)
    algorithms = AlgorithmChoice(style="enhanced", rings=1)
    expected = 6 * step_ns(4000) + 6 * step_ns(1000)
    assert time_ns(where, what, algorithms=algorithms) == pytest.approx(expected)


def test_chunks_on_one_link_follow_each_other():
    where = network(("ring", 2))
    what = collective(CollectiveKind.REDUCE_SCATTER, 8000)
    options = {"algorithms": AlgorithmChoice(rings=1), "scheduler": Scheduler(splits=4)}
    assert time_ns(where, what, **options) == pytest.approx(4 * 100 + 100)


def test_a_slow_link_holds_up_the_whole_ring():
    healthy = network(("ring", 4))
    slow = network(("ring", 4), faults=[fault(source=2, target=3, bandwidth_factor=0.1)])
    what = collective(CollectiveKind.ALL_REDUCE, 400_000)
    one_way = {"algorithms": AlgorithmChoice(rings=1)}
    ratio = time_ns(slow, what, **one_way) / time_ns(healthy, what, **one_way)
    assert 9 < ratio < 10.1


def compute(builder: GraphBuilder, name: str, ns: float, after=()) -> int:
    return builder.add(name, TaskKind.COMPUTE, after, duration_s=ns * 1e-9)


def test_ready_computations_run_one_at_a_time_in_the_order_of_their_numbers():
    builder = GraphBuilder()
    first = compute(builder, "first", 10)
    late = compute(builder, "late", 5, [first])
    other = compute(builder, "other", 20)
    record = simulate(network(("ring", 2)), Job(name="j", graphs=(builder.graph(),)))
    starts = record.task_start_fs[0] / NS
    assert starts[[first, late, other]].tolist() == [0, 10, 15]
    assert record.task_ready_fs[0, other] == 0


def test_a_delay_occupies_nothing():
    builder = GraphBuilder()
    builder.add("wait", TaskKind.DELAY, duration_s=50e-9)
    compute(builder, "work", 20)
    record = simulate(network(("ring", 2)), Job(name="j", graphs=(builder.graph(),)))
    assert (record.task_end_fs[0] / NS).tolist() == [50, 20]


def test_what_follows_a_collective_waits_for_it_and_its_update():
    builder = GraphBuilder()
    call = CollectiveCall(kind=CollectiveKind.REDUCE_SCATTER, size_bytes=2000)
    reduce = builder.add("reduce", TaskKind.COLLECTIVE, call=call, duration_s=7e-9)
    compute(builder, "beside", 30)
    compute(builder, "after", 1, [reduce])
    record = simulate(
        network(("ring", 2)),
        Job(name="j", graphs=(builder.graph(),)),
        endpoint=FREE,
        scheduler=ONE,
        algorithms=AlgorithmChoice(rings=1),
    )
    assert (record.task_end_fs[0] / NS).tolist() == [207, 30, 208]


def test_a_straggler_delays_everyone_at_the_next_collective():
    builder = GraphBuilder()
    work = compute(builder, "work", 1000)
    call = CollectiveCall(kind=CollectiveKind.ALL_REDUCE, size_bytes=3000)
    builder.add("reduce", TaskKind.COLLECTIVE, [work], call=call)
    what = Job(name="j", graphs=(builder.graph(),))
    options = {"endpoint": FREE, "scheduler": ONE, "algorithms": AlgorithmChoice(rings=1)}
    even = simulate(network(("ring", 3)), what, **options)
    late = simulate(network(("ring", 3)), what, stragglers={1: 2.0}, **options)
    assert late.end_fs - even.end_fs == 1000 * NS
    assert late.task_end_fs[:, 0].tolist() == [1000 * NS, 2000 * NS, 1000 * NS]


def two_calls(of_all: str, **second) -> list[float]:
    builder = GraphBuilder()
    for more in ({}, second):
        call = CollectiveCall(kind=CollectiveKind.ALL_REDUCE, size_bytes=400_000, **more)
        builder.add("reduce", TaskKind.COLLECTIVE, call=call)
    record = simulate(
        network(("ring", 4)),
        Job(name="two", graphs=(builder.graph(),)),
        scheduler=Scheduler(splits=20, concurrency=1, threshold=1, issue=1, policy=of_all),
    )
    return (record.task_end_fs[0] / NS).tolist()


def test_fifo_finishes_the_first_collective_first_and_lifo_the_last():
    first, last = two_calls("fifo")
    assert first < 0.6 * last
    first, last = two_calls("lifo")
    assert last < 0.6 * first


def test_priority_goes_before_the_policy():
    first, last = two_calls("fifo", priority=1)
    assert last < 0.6 * first


def test_a_call_may_have_a_policy_of_its_own():
    first, last = two_calls("lifo", policy="fifo")
    assert first < 0.6 * last


def test_fewer_chunks_at_a_time_wait_longer_before_they_start():
    where, what = network(("ring", 4)), collective(CollectiveKind.ALL_REDUCE, 1 << 20)
    free = simulate(where, what, scheduler=Scheduler(splits=32, concurrency=None))
    one = simulate(where, what, scheduler=Scheduler(splits=32, concurrency=1))
    assert one.phases.queue_delay_fs.sum() > free.phases.queue_delay_fs.sum() == 0


def test_a_threshold_keeps_chunks_in_the_ready_queue():
    where, what = network(("ring", 4)), collective(CollectiveKind.ALL_REDUCE, 1 << 20)
    held = simulate(where, what, scheduler=Scheduler(splits=32, threshold=2, issue=2))
    free = simulate(where, what, scheduler=Scheduler(splits=32))
    assert held.phases.queue_delay_fs[0, 0] > 0
    assert free.phases.queue_delay_fs[0, 0] == 0


def test_the_same_run_gives_the_same_record():
    where, what = network(("ring", 3), ("switch", 4)), collective(CollectiveKind.ALL_REDUCE, 99_999)
    a, b = (simulate(where, what, spans=1000, bucket_s=1e-6) for _ in range(2))
    assert a.end_fs == b.end_fs
    assert (a.spans == b.spans).all()
    assert (a.link_series_fs == b.link_series_fs).all()


def test_recording_changes_nothing():
    where, what = network(("ring", 3), ("ring", 4)), collective(CollectiveKind.ALL_REDUCE, 99_999)
    plain = simulate(where, what, fold="off")
    watched = simulate(where, what, fold="off", spans=100_000, bucket_s=1e-7)
    assert plain.end_fs == watched.end_fs
    assert (plain.link_bytes == watched.link_bytes).all()
    assert watched.link_series_fs.sum() == watched.link_busy_fs.sum() == plain.link_busy_fs.sum()


def test_collectives_that_differ_between_graphs_are_refused():
    graphs = []
    for size in (1000, 2000):
        builder = GraphBuilder()
        call = CollectiveCall(kind=CollectiveKind.ALL_REDUCE, size_bytes=size)
        builder.add("reduce", TaskKind.COLLECTIVE, call=call)
        graphs.append(builder.graph())
    what = Job(name="two", graphs=tuple(graphs), graph_of=(0, 1))
    with pytest.raises(ValueError, match="not the same collective"):
        simulate(network(("ring", 2)), what)


def test_a_job_for_another_number_of_nodes_is_refused():
    graph = collective(CollectiveKind.ALL_REDUCE, 1000).graphs[0]
    with pytest.raises(ValueError, match="for 3 NPUs, the network has 4"):
        simulate(network(("ring", 4)), Job(name="j", graphs=(graph,), graph_of=(0, 0, 0)))


def test_each_kind_of_collective_may_have_its_own_algorithm():
    builder = GraphBuilder()
    for kind in (CollectiveKind.ALL_REDUCE, CollectiveKind.REDUCE_SCATTER):
        builder.add("c", TaskKind.COLLECTIVE, call=CollectiveCall(kind=kind, size_bytes=8000))
    choices = {
        CollectiveKind.ALL_REDUCE: AlgorithmChoice(reductions=("halving_doubling",)),
        CollectiveKind.REDUCE_SCATTER: AlgorithmChoice(reductions=("direct",)),
    }
    record = simulate(
        network(("switch", 8)),
        Job(name="two", graphs=(builder.graph(),)),
        algorithms=choices,
        scheduler=ONE,
    )
    assert [names[1].split()[0] for names in record.phases.names] == ["halving-doubling", "direct"]
