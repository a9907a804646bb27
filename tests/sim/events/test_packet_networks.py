# SPDX-License-Identifier: Apache-2.0
"""Packets on whole networks: nothing is lost, nothing blocks for ever, folding is exact."""

from functools import partial

import numpy as np
import pytest

from sim.collectives.plan import AlgorithmChoice
from sim.endpoint.kinds import endpoint
from sim.events import packets as lowering
from sim.events.packets import PacketOptions, dated_dimensions
from sim.events.record import RunRecord
from sim.events.scheduler import Scheduler
from sim.events.simulate import SimulationError, simulate
from sim.network.dimension import Dimension
from sim.network.link import LinkFault
from sim.network.network import Network
from sim.workload.graph import CollectiveCall, CollectiveKind, GraphBuilder, Job, TaskKind

ALL_REDUCE, ALL_TO_ALL = CollectiveKind.ALL_REDUCE, CollectiveKind.ALL_TO_ALL

fault = partial(LinkFault, both_ways=False)


def job(kind: CollectiveKind, size: int, calls: int = 1) -> Job:
    graph = GraphBuilder()
    for number in range(calls):
        call = CollectiveCall(kind=kind, size_bytes=size)
        graph.add(f"collective {number}", TaskKind.COLLECTIVE, call=call)
    return Job(name="some", graphs=(graph.graph(),))


def dimension(kind: str, size: int, **changes: object) -> Dimension:
    values: dict[str, object] = {"bandwidth_bytes_per_s": 25e9, "latency_s": 20e-9}
    return Dimension(kind=kind, size=size, **{**values, **changes})  # type: ignore[arg-type]


NETWORKS = {
    "ring": [dimension("ring", 7)],
    "one-way ring": [dimension("ring", 5, bidirectional=False)],
    "torus": [dimension("ring", 3), dimension("ring", 4, bandwidth_bytes_per_s=5e9)],
    "odd torus": [dimension("ring", 5), dimension("ring", 3), dimension("ring", 2)],
    "switches": [dimension("ring", 2), dimension("switch", 6, lanes=2)],
    "fully connected": [dimension("fully_connected", 6)],
    "fat tree": [dimension("fat_tree", 8, group=2, trunk_bandwidth_bytes_per_s=10e9)],
}
SMALL = [
    PacketOptions(packet_bytes=100, flit_bytes=16, vcs_per_vnet=vcs, buffers_per_vc=buffers)
    for vcs, buffers in ((2, 1), (3, 3), (2, 100))
]


def run(network: Network, work: Job, **changes: object) -> RunRecord:
    values: dict[str, object] = {
        "scheduler": Scheduler(splits=4),
        "algorithms": AlgorithmChoice(all_to_all_span="all"),
        "granularity": "packet",
        "check": True,
    }
    return simulate(network, work, **{**values, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("packets", SMALL, ids=["wormhole", "mixed", "cut through"])
@pytest.mark.parametrize("kind", [ALL_REDUCE, ALL_TO_ALL], ids=["all-reduce", "all-to-all"])
def test_scarce_buffers_slow_a_network_but_lose_and_block_nothing(
    name: str, packets: PacketOptions, kind: CollectiveKind
) -> None:
    network = Network(NETWORKS[name])
    whole = run(network, job(kind, 6000), granularity="message", fold="off")
    cut = run(network, job(kind, 6000), packets=packets, fold="off")
    assert cut.link_bytes.tolist() == whole.link_bytes.tolist()
    plenty = run(network, job(kind, 6000), packets=PacketOptions(packet_bytes=100, flit_bytes=16))
    assert cut.end_fs >= plenty.end_fs
    assert (cut.link_busy_fs <= cut.end_fs).all()


@pytest.mark.parametrize("packets", SMALL, ids=["wormhole", "mixed", "cut through"])
def test_routes_around_a_broken_link_do_not_block(packets: PacketOptions) -> None:
    network = Network([dimension("ring", 9)], faults=[fault(source=0, target=1)])
    assert run(network, job(ALL_TO_ALL, 24000), packets=packets).end_fs > 0


def test_without_datelines_packets_block_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """The classes are what keeps rings alive: all packets in one class, and the run gets stuck."""
    network = Network([dimension("ring", 6, bidirectional=False)])
    work = job(ALL_TO_ALL, 60000)
    options = PacketOptions(packet_bytes=100, flit_bytes=16, vcs_per_vnet=2, buffers_per_vc=2)
    assert run(network, work, packets=options).end_fs > 0
    monkeypatch.setattr(lowering, "_classes", lambda network, links, dated: np.zeros_like(links))
    with pytest.raises(SimulationError):
        run(network, work, packets=options)


def test_one_virtual_channel_is_refused_where_a_dateline_is_needed() -> None:
    one = PacketOptions(vcs_per_vnet=1)
    with pytest.raises(ValueError, match=r"vcs_per_vnet must be at least 2, not 1.*dimension 1"):
        run(Network([dimension("ring", 2), dimension("ring", 4)]), job(ALL_TO_ALL, 99), packets=one)
    for network in (
        Network([dimension("ring", 4), dimension("ring", 4)]),
        Network([dimension("switch", 5)]),
    ):
        assert run(network, job(ALL_REDUCE, 5000), packets=one).end_fs > 0


def test_datelines_are_where_rings_are_crossed_in_several_hops() -> None:
    network = Network([dimension("ring", 4), dimension("switch", 4), dimension("ring", 5)])
    near = [network.shift(d, 1).links for d in range(3)]
    assert dated_dimensions(network, near) == set()
    assert dated_dimensions(network, [*near, network.shift(2, 2).links]) == {2}
    assert dated_dimensions(network, [network.shift(1, 2).links]) == set()


@pytest.mark.parametrize(
    ("dimensions", "kind"),
    [
        ([dimension("ring", 4), dimension("ring", 3)], ALL_REDUCE),
        ([dimension("switch", 5, lanes=2)], ALL_TO_ALL),
        ([dimension("ring", 3), dimension("switch", 4)], ALL_TO_ALL),
        ([dimension("fully_connected", 5), dimension("switch", 3)], ALL_REDUCE),
    ],
)
@pytest.mark.parametrize("packets", SMALL, ids=["wormhole", "mixed", "cut through"])
@pytest.mark.parametrize("kind_of_endpoint", ["ideal", "ace"])
def test_a_folded_run_is_equal_to_the_full_one(
    dimensions: list[Dimension],
    kind: CollectiveKind,
    packets: PacketOptions,
    kind_of_endpoint: str,
) -> None:
    network = Network(dimensions)
    both = [
        run(
            network,
            job(kind, 20000, calls=3),
            packets=packets,
            fold=fold,
            endpoint=endpoint(kind_of_endpoint),
            algorithms=AlgorithmChoice(),
        )
        for fold in ("on", "off")
    ]
    assert both[0].folded and not both[1].folded
    assert (both[0].task_end_fs == both[1].task_end_fs).all()
    delays = [each.phases.network_delay_fs for each in both]
    assert (delays[0] * network.nodes == delays[1]).all()
    assert both[0].link_bytes.sum() * network.nodes == both[1].link_bytes.sum()
    assert both[0].events < both[1].events


@pytest.mark.parametrize("packets", SMALL, ids=["wormhole", "mixed", "cut through"])
@pytest.mark.parametrize(
    "dimensions",
    [
        [dimension("fully_connected", 4), dimension("switch", 4)],
        [dimension("fully_connected", 3, bandwidth_bytes_per_s=100e9), dimension("switch", 5)],
        [dimension("ring", 2, bandwidth_bytes_per_s=100e9), dimension("switch", 4)],
    ],
)
def test_folding_is_exact_where_packets_of_many_ways_compete(
    dimensions: list[Dimension], packets: PacketOptions
) -> None:
    """The uplinks of the switches carry packets from other links beside the node's own: folded,
    they must take the same turns."""
    network = Network(dimensions)
    both = [
        run(network, job(ALL_TO_ALL, 40000, calls=2), packets=packets, fold=fold)
        for fold in ("on", "off")
    ]
    assert (both[0].task_end_fs == both[1].task_end_fs).all()
    delays = [each.phases.network_delay_fs for each in both]
    assert (delays[0] * network.nodes == delays[1]).all()


def test_a_dateline_forbids_folding() -> None:
    network = Network([dimension("ring", 4)])
    with pytest.raises(ValueError, match="cannot be folded: the dateline of dimension 0"):
        run(network, job(ALL_TO_ALL, 4000), fold="on")
    assert run(network, job(ALL_TO_ALL, 4000), granularity="message", fold="on").folded


def test_a_run_is_a_function_of_its_arguments() -> None:
    network = Network([dimension("ring", 5), dimension("switch", 3)])
    first, second = (
        run(network, job(ALL_TO_ALL, 30000, calls=2), packets=SMALL[0]) for _ in range(2)
    )
    assert first.events == second.events
    assert (first.task_end_fs == second.task_end_fs).all()


def test_utilisation_and_spans_add_up_to_the_links_busy_time() -> None:
    network = Network([dimension("ring", 4), dimension("ring", 3)])
    record = run(
        network, job(ALL_TO_ALL, 9000), bucket_s=1e-8, buckets=100000, spans=100000, fold="off"
    )
    assert record.link_series_fs.sum() == record.link_busy_fs.sum()
    links = record.spans[record.spans["kind"] == 0]
    assert (links["end_fs"] - links["start_fs"]).sum() == record.link_busy_fs.sum()
