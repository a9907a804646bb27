# SPDX-License-Identifier: Apache-2.0
"""SEND and RECEIVE tasks, and messages that nodes on the way receive and send again."""

from functools import partial

import numpy as np
import pytest

from sim.collectives.plan import AlgorithmChoice
from sim.endpoint.kinds import BaselineEndpoint, IdealEndpoint, endpoint
from sim.events.legs import chains_of
from sim.events.packets import PacketOptions
from sim.events.record import RunRecord
from sim.events.scheduler import Scheduler
from sim.events.simulate import SimulationError, simulate
from sim.network.dimension import Dimension
from sim.network.network import Channel, Network
from sim.workload.graph import CollectiveCall, CollectiveKind, GraphBuilder, Job, TaskKind

NS = 10**6
SEND, RECEIVE, COMPUTE = TaskKind.SEND, TaskKind.RECEIVE, TaskKind.COMPUTE
ring = partial(Dimension.ring, bandwidth_bytes_per_s=1e9, latency_s=100e-9)
IDEAL = IdealEndpoint(delay_s=10e-9, message_bytes=None)


def job(builders: list[GraphBuilder]) -> Job:
    graphs = tuple(builder.graph() for builder in builders)
    return Job(name="some", graphs=graphs, graph_of=tuple(range(len(graphs))))


def one_message(nodes: int, source: int, goal: int, size: int, **after: float) -> Job:
    builders = [GraphBuilder() for _ in range(nodes)]
    late = [builders[source].add("work", COMPUTE, duration_s=after.get("sent_s", 0.0))]
    builders[source].add("send", SEND, late, peer=goal, size_bytes=size, tag=3)
    late = [builders[goal].add("work", COMPUTE, duration_s=after.get("awaited_s", 0.0))]
    builders[goal].add("receive", RECEIVE, late, peer=source, size_bytes=size, tag=3)
    return job(builders)


def run(network: Network, work: Job, **changes: object) -> RunRecord:
    values: dict[str, object] = {"endpoint": IDEAL, "check": True}
    return simulate(network, work, **{**values, **changes})  # type: ignore[arg-type]


def test_a_message_is_received_when_it_has_come_over_all_links() -> None:
    record = run(Network([ring(8)]), one_message(8, 1, 4, 500))
    assert record.task_end_fs[4, 1] == 3 * (500 + 100) * NS + 10 * NS
    assert record.task_end_fs[1, 1] == record.task_end_fs[4, 1]
    assert record.link_bytes.sum() == 3 * 500


@pytest.mark.parametrize(("sent", "awaited"), [(0.0, 5e-6), (5e-6, 0.0)])
def test_a_receive_ends_when_it_is_there_and_awaited(sent: float, awaited: float) -> None:
    record = run(Network([ring(4)]), one_message(4, 0, 1, 400, sent_s=sent, awaited_s=awaited))
    arrival = round(sent * 1e15) + (400 + 100 + 10) * NS
    assert record.task_start_fs[1, 1] == round(awaited * 1e15)
    assert record.task_end_fs[1, 1] == max(arrival, round(awaited * 1e15))


@pytest.mark.parametrize(
    ("collectives", "begins"), [("one", [0, 600, 1200]), ("one_per_group", [0] * 3)]
)
def test_messages_take_turns_where_an_npu_does_one_thing_at_a_time(
    collectives: str, begins: list[int]
) -> None:
    """Two to a neighbour and one to the other; links that are not shared do not hold them back."""
    builders = [GraphBuilder() for _ in range(4)]
    for tag, goal in enumerate((1, 1, 3)):
        builders[0].add("send", SEND, peer=goal, size_bytes=500, tag=tag)
        builders[goal].add("receive", RECEIVE, peer=0, size_bytes=500, tag=tag)
    scheduler = Scheduler(collectives=collectives)
    instant = IdealEndpoint(delay_s=0.0, message_bytes=None)
    record = run(
        Network([ring(4)]),
        job(builders),
        endpoint=instant,
        scheduler=scheduler,
        shared_links=False,
    )
    starts, ends = record.task_start_fs[0], record.task_end_fs[0]
    assert starts[:3].tolist() == [begin * NS for begin in begins]
    assert (ends - starts)[:3].tolist() == [600 * NS] * 3


def test_a_message_waits_for_a_collective_of_its_npu() -> None:
    """And the other way round, where an NPU does one thing at a time."""
    call = CollectiveCall(kind=CollectiveKind.ALL_REDUCE, size_bytes=4000)
    builders = [GraphBuilder() for _ in range(4)]
    builders[0].add("send", SEND, peer=1, size_bytes=500)
    for builder in builders:
        builder.add("sum", TaskKind.COLLECTIVE, call=call)
    builders[0].add("send", SEND, peer=1, size_bytes=500)
    for _ in range(2):
        builders[1].add("receive", RECEIVE, peer=0, size_bytes=500)
    record = run(Network([ring(4)]), job(builders), scheduler=Scheduler(collectives="one"))
    starts, ends = record.task_start_fs[0, :3], record.task_end_fs[0, :3]
    assert starts.tolist() == [0, ends[0], ends[1]]


def test_packets_of_a_message_cut_through_routers() -> None:
    """Four hops of 25 ns router and 100 ns wire for the first flit; the other 39 follow."""
    network = Network([ring(9, router_latency_s=25e-9)])
    options = PacketOptions(packet_bytes=400, flit_bytes=10)
    record = run(network, one_message(9, 7, 2, 400), granularity="packet", packets=options)
    assert record.end_fs == 4 * (10 + 100 + 25) * NS + 39 * 10 * NS + 10 * NS
    # Two packets of half the size follow each other at the same distance.
    options = PacketOptions(packet_bytes=200, flit_bytes=10)
    again = run(network, one_message(9, 7, 2, 400), granularity="packet", packets=options)
    assert again.end_fs == record.end_fs


def test_a_packet_does_not_pause_on_a_fast_link() -> None:
    """From 1 to 4 GB/s: it leaves so that its last flit follows the last that arrives."""
    network = Network([ring(3), ring(3, bandwidth_bytes_per_s=4e9)])
    options = PacketOptions(packet_bytes=400, flit_bytes=40)
    record = run(network, one_message(9, 0, 4, 400), granularity="packet", packets=options)
    assert record.end_fs == 400 * NS + 100 * NS + 10 * NS + 100 * NS + 10 * NS
    narrow = Network([ring(3, bandwidth_bytes_per_s=4e9), ring(3)])
    record = run(narrow, one_message(9, 0, 4, 400), granularity="packet", packets=options)
    assert record.end_fs == 10 * NS + 100 * NS + 400 * NS + 100 * NS + 10 * NS


def test_software_routing_receives_whole_messages_on_the_way() -> None:
    network = Network([ring(8)])
    work = one_message(8, 1, 4, 500)
    options = PacketOptions(packet_bytes=100, flit_bytes=10)
    for settings in ({}, {"granularity": "packet", "packets": options}):
        record = run(network, work, packet_routing="software", **settings)
        assert record.end_fs == 3 * (500 + 100 + 10) * NS
        assert record.link_bytes.sum() == 3 * 500


def test_software_routing_pays_the_endpoint_at_every_node() -> None:
    """Memory is read and written at the ends and at both nodes between."""
    network = Network([ring(8)])
    slow = BaselineEndpoint(message_bytes=1e9)
    both = {
        routing: run(network, one_message(8, 1, 4, 6000), endpoint=slow, packet_routing=routing)
        for routing in ("hardware", "software")
    }
    index = both["software"].unit_names.index("memory read")
    reads = {name: record.unit_bytes[index] for name, record in both.items()}
    assert reads["hardware"].tolist() == [0, 6000, 0, 0, 0, 0, 0, 0]
    assert reads["software"].tolist() == [0, 6000, 6000, 6000, 0, 0, 0, 0]
    assert both["software"].end_fs > both["hardware"].end_fs


@pytest.mark.parametrize("granularity", ["message", "packet"])
@pytest.mark.parametrize(
    "dimensions",
    [
        [ring(5)],
        [ring(3), ring(4)],
        [Dimension.switch(4, 1e9), ring(4)],
        [Dimension.fat_tree(8, 2, 1e9), ring(2)],
    ],
)
def test_software_routing_carries_every_collective(
    granularity: str, dimensions: list[Dimension]
) -> None:
    network = Network(dimensions)
    for kind in (CollectiveKind.ALL_TO_ALL, CollectiveKind.ALL_REDUCE, CollectiveKind.BROADCAST):
        graph = GraphBuilder()
        call = CollectiveCall(kind=kind, size_bytes=4800)
        graph.add("collective", TaskKind.COLLECTIVE, call=call)
        record = run(
            network,
            Job(name="one", graphs=(graph.graph(),)),
            algorithms=AlgorithmChoice(all_to_all_span="all"),
            scheduler=Scheduler(splits=2),
            granularity=granularity,
            packet_routing="software",
        )
        assert record.end_fs > 0


def test_software_routing_folds_where_hardware_routing_does() -> None:
    network = Network([ring(5), ring(4)])
    graph = GraphBuilder()
    call = CollectiveCall(kind=CollectiveKind.ALL_TO_ALL, size_bytes=4000)
    graph.add("collective", TaskKind.COLLECTIVE, call=call)
    work = Job(name="one", graphs=(graph.graph(),))
    for granularity in ("message", "packet"):
        both = [
            run(
                network, work, fold=fold, packet_routing="software", granularity=granularity,
                endpoint=endpoint("baseline_comp_opt"),
            )
            for fold in ("on", "off")
        ]
        assert both[0].folded
        assert (both[0].task_end_fs == both[1].task_end_fs).all()


def test_legs_that_meet_at_a_node_are_told_apart() -> None:
    """Nodes 0 and 4 of a ring both send to 2; 1 and 3 pass on. Then 1 and 3 send over 2 as well."""
    network = Network([ring(8)])
    nodes = np.arange(8)
    peer = np.full(8, -1)
    peer[[0, 4, 1, 3, 7]] = [2, 2, 3, 1, 3]
    links = network.routes(nodes, np.where(peer < 0, nodes, peer))
    chains = chains_of(network, Channel(peer=peer, links=links))
    walked = {}
    for chain in chains:
        for leg in chain:
            active = np.flatnonzero(leg.peer >= 0)
            assert len(active) == len(np.unique(active))
            for node in active:
                assert network.link_source[leg.links[0, node]] == node
                assert network.link_target[leg.links[0, node]] == leg.peer[node]
        for source in np.flatnonzero(chain[0].peer >= 0):
            at = source
            for leg in chain:
                at = leg.peer[at]
            walked[int(source)] = int(at)
    assert walked == {0: 2, 4: 2, 1: 3, 3: 1, 7: 3}


@pytest.mark.parametrize("routing", ["hardware", "software"])
@pytest.mark.parametrize("granularity", ["message", "packet"])
@pytest.mark.parametrize("kind", ["ideal", "ace", "baseline"])
def test_a_pipeline_with_collectives_beside_it_runs(
    routing: str, granularity: str, kind: str
) -> None:
    """Stages along one dimension hand over to the next; each stage reduces along the other."""
    network = Network([ring(4), ring(2)])
    builders = [GraphBuilder() for _ in range(8)]
    for node, builder in enumerate(builders):
        stage, last = node % 4, None
        for micro in range(3):
            if stage:
                last = builder.add(f"in {micro}", RECEIVE, [last], peer=node - 1, tag=micro)
            last = builder.add(f"work {micro}", COMPUTE, [last], duration_s=1e-6)
            if stage < 3:
                builder.add(
                    f"out {micro}", SEND, [last], peer=node + 1, tag=micro, size_bytes=20000
                )
            call = CollectiveCall(kind=CollectiveKind.ALL_REDUCE, size_bytes=30000, dimensions=(1,))
            builder.add(f"sum {micro}", TaskKind.COLLECTIVE, [last], call=call)
    record = run(
        network, job(builders), endpoint=endpoint(kind), granularity=granularity,
        packet_routing=routing, spans=10000,
    )
    assert (record.task_end_fs >= 0).sum() == sum(len(b.graph().tasks) for b in builders)
    starts = [record.task_start_fs[node, 0] for node in range(1, 4)]
    assert starts == [0, 0, 0]
    work = [record.task_start_fs[node, 1 if node else 0] for node in range(4)]
    assert sorted(work) == work and work[3] > 3 * 20000 * NS
    assert (record.spans["call"] < len(record.calls)).all()


def test_a_node_may_send_to_itself() -> None:
    builder = GraphBuilder()
    builder.add("out", SEND, peer=0, size_bytes=1000)
    builder.add("in", RECEIVE, peer=0, size_bytes=1000)
    other = GraphBuilder()
    other.add("work", COMPUTE, duration_s=1e-9)
    record = run(Network([ring(2)]), job([builder, other]))
    assert record.task_end_fs[0].tolist() == [0, 0]


def test_messages_with_the_same_tag_are_matched_in_order() -> None:
    sender, receiver = GraphBuilder(), GraphBuilder()
    for size in (100, 300):
        sender.add(f"out {size}", SEND, peer=1, size_bytes=size)
        receiver.add(f"in {size}", RECEIVE, peer=0, size_bytes=size)
    record = run(Network([ring(2)]), job([sender, receiver]))
    assert record.task_end_fs[1].tolist() == [210 * NS, 510 * NS]


def bad(*tasks: tuple[int, TaskKind, int, int, int]) -> Job:
    builders = [GraphBuilder() for _ in range(3)]
    for node, kind, peer, tag, size in tasks:
        builders[node].add(f"{kind.name} {tag}", kind, peer=peer, tag=tag, size_bytes=size)
    return job(builders)


@pytest.mark.parametrize(
    ("work", "text"),
    [
        (bad((0, SEND, 1, 7, 5)), r"SEND 'SEND 7' has no RECEIVE: from node 0 to node 1 with tag"),
        (bad((2, RECEIVE, 1, 4, 5)), r"RECEIVE 'RECEIVE 4' has no SEND: from node 1 to node 2"),
        (bad((0, SEND, 1, 1, 5), (1, RECEIVE, 0, 2, 5)), "has no"),
        (
            bad((0, SEND, 3, 1, 5)),
            r"task 0 \('SEND 1'\) of node 0: peer must be a node from 0 to 2",
        ),
        (bad((0, SEND, 1, 1, 5), (1, RECEIVE, 0, 1, 6)), "waits for 6 bytes, but node 0 sends 5"),
    ],
)
def test_messages_without_a_partner_are_refused(work: Job, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        run(Network([ring(3)]), work)


def test_tasks_that_wait_for_each_other_are_named() -> None:
    builders = [GraphBuilder() for _ in range(2)]
    for node, builder in enumerate(builders):
        got = builder.add(f"in {node}", RECEIVE, peer=1 - node)
        builder.add(f"out {node}", SEND, [got], peer=1 - node, size_bytes=10)
    with pytest.raises(
        SimulationError,
        match="node 0 waits in 'in 0' for 'out 1' of node 1, which has not begun; node 1 waits",
    ):
        run(Network([ring(2)]), job(builders))


def test_a_buffer_on_the_way_is_free_when_the_news_is_back() -> None:
    """One VC for one flit: 100 ns and 100 ns to the switch, 100 ns out of its buffer,
    100 ns for the credit; so one packet every 400 ns."""
    switch = Dimension.switch(4, 1e9, 100e-9)
    options = PacketOptions(
        packet_bytes=100, flit_bytes=100, vcs_per_vnet=1, buffers_per_vc=1
    )
    work = one_message(4, 0, 1, 500)
    record = run(Network([switch]), work, granularity="packet", packets=options)
    assert record.end_fs == (4 * 400 + 2 * 200 + 10) * NS


def test_packets_passing_through_and_new_ones_take_turns() -> None:
    """Nodes 0 and 1 send to 2: of the link that both need each gets half, until one has done."""
    builders = [GraphBuilder() for _ in range(6)]
    for source in (0, 1):
        builders[source].add("send", SEND, peer=2, size_bytes=10000, tag=source)
        builders[2].add(f"from {source}", RECEIVE, peer=source, tag=source)
    options = PacketOptions(packet_bytes=100, flit_bytes=100)
    record = run(Network([ring(6)]), job(builders), granularity="packet", packets=options)
    passing, own = record.task_end_fs[2, :2].tolist()
    # When the first packet from 0 comes, after 200 ns, four of 1 have been sent or have asked.
    assert passing == (200 * 100 + 100 + 10) * NS
    assert own == passing - 4 * 100 * NS
