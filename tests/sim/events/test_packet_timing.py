# SPDX-License-Identifier: Apache-2.0
"""Times at packet granularity against times worked out by hand, and what each parameter does."""

from functools import partial

import pytest

from sim.collectives.plan import AlgorithmChoice
from sim.events.packets import PacketOptions
from sim.events.record import RunRecord
from sim.events.scheduler import Scheduler
from sim.events.simulate import simulate
from sim.network.dimension import Dimension
from sim.network.network import Network
from sim.workload.graph import CollectiveCall, CollectiveKind, GraphBuilder, Job, TaskKind

NS = 10**6  # fs
ALL_REDUCE, ALL_TO_ALL = CollectiveKind.ALL_REDUCE, CollectiveKind.ALL_TO_ALL
REDUCE_SCATTER = CollectiveKind.REDUCE_SCATTER
ring = partial(Dimension.ring, bandwidth_bytes_per_s=1e9, latency_s=100e-9)


def job(kind: CollectiveKind, size: int) -> Job:
    graph = GraphBuilder()
    call = CollectiveCall(kind=kind, size_bytes=size)
    graph.add("collective", TaskKind.COLLECTIVE, call=call)
    return Job(name="one", graphs=(graph.graph(),))


def run(
    network: Network,
    kind: CollectiveKind,
    size: int,
    *,
    granularity: str = "packet",
    splits: int = 1,
    **options: object,
) -> RunRecord:
    packets = PacketOptions(**options) if granularity == "packet" else None  # type: ignore[arg-type]
    return simulate(
        network,
        job(kind, size),
        scheduler=Scheduler(splits=splits),
        algorithms=AlgorithmChoice(style="dimension_ordered", rings=1),
        granularity=granularity,
        check=True,
        packets=packets,
    )


ENDPOINT = round(1 / 1.245e9 * 10**15)


def test_one_message_takes_its_flits_and_the_latency() -> None:
    """Two nodes, half of 1000 bytes each way: 500 bytes are 2 packets, 5 + 5 flits of 50 bytes."""
    network = Network([ring(2)])
    record = run(network, REDUCE_SCATTER, 1000, packet_bytes=250, flit_bytes=50)
    assert record.end_fs == 500 * NS + 100 * NS + ENDPOINT


@pytest.mark.parametrize(("packet", "flit", "flits"), [(250, 64, 8), (400, 64, 9), (999, 500, 1)])
def test_a_partial_flit_counts_whole(packet: int, flit: int, flits: int) -> None:
    """500 bytes as packets of 250 (4 flits of 64 each), of 400 and 100 (7 + 2), or one of 500."""
    record = run(Network([ring(2)]), REDUCE_SCATTER, 1000, packet_bytes=packet, flit_bytes=flit)
    assert record.end_fs == flits * flit * NS + 100 * NS + ENDPOINT


def test_a_flit_takes_whole_phits() -> None:
    """A flit of 64 bytes on a link of 10 bytes a cycle takes 7 cycles of 10 ns."""
    network = Network([ring(2)])
    record = run(network, REDUCE_SCATTER, 1000, packet_bytes=64, flit_bytes=64, link_width_bits=80)
    assert record.end_fs == 8 * 70 * NS + 100 * NS + ENDPOINT


def test_a_router_s_latency_is_paid_at_every_hop() -> None:
    times = [
        run(Network([ring(8, router_latency_s=latency)]), ALL_TO_ALL, 8, flit_bytes=1).end_fs
        for latency in (0.0, 50e-9)
    ]
    assert times[1] - times[0] >= 4 * 50 * NS


def test_a_virtual_channel_is_held_for_a_round_trip() -> None:
    """One VC: a packet of 100 ns, 100 ns there and 100 ns back, then the next one."""
    packets = {"packet_bytes": 100, "flit_bytes": 100}
    network = Network([ring(2)])
    record = run(network, REDUCE_SCATTER, 2000, **packets, vcs_per_vnet=1, buffers_per_vc=1)
    assert record.end_fs == 9 * 300 * NS + 100 * NS + 100 * NS + ENDPOINT
    # Three cover the round trip exactly, as channels or as room in one; with more nothing changes.
    enough = [
        run(network, REDUCE_SCATTER, 2000, **packets, vcs_per_vnet=n, buffers_per_vc=m).end_fs
        for n, m in ((3, 1), (4, 1), (50, 1), (1, 3), (1, 5000), (2, 2))
    ]
    assert enough == [1000 * NS + 100 * NS + ENDPOINT] * 6


@pytest.mark.parametrize("flit", [100, 50])
def test_run_that_credits_limit_says_so(flit: int) -> None:
    """10 packets of 100 ns, each 200 ns after the one before: 9 * 200 of 2900 ns without credits;
    or 20 flits of 50 ns in packets that have a channel of one flit to themselves: longer yet."""
    network = Network([ring(2)])
    size = {"packet_bytes": 100, "flit_bytes": flit}
    slow = run(network, REDUCE_SCATTER, 2000, **size, vcs_per_vnet=1, buffers_per_vc=1)
    enough = run(network, REDUCE_SCATTER, 2000, **size, vcs_per_vnet=1, buffers_per_vc=8)
    assert slow.link_starved_fs is not None and enough.link_starved_fs is not None
    assert slow.link_starved_fs.max() == (9 * 200 if flit == 100 else 19 * 200) * NS
    assert not enough.link_starved_fs.any()
    assert [note for note in slow.notes if note.startswith("credits limit: a link of dimension 0")]
    assert not [note for note in enough.notes if "credits" in note]


def test_default_buffers_cover_links_with_latency() -> None:
    network = Network([Dimension.ring(4, 25e9, 1e-6), Dimension.ring(4, 25e9, 1e-6)])
    whole = run(network, ALL_REDUCE, 1 << 20, granularity="message")
    assert run(network, ALL_REDUCE, 1 << 20).end_fs <= 1.02 * whole.end_fs


def test_a_buffer_below_the_round_trip_slows_a_long_packet() -> None:
    """A packet of 10 flits of 100 ns; room for b flits is given back after 300 ns."""
    network = Network([ring(2)])
    times = {
        buffers: run(
            network,
            REDUCE_SCATTER,
            2000,
            packet_bytes=1000,
            flit_bytes=100,
            vcs_per_vnet=1,
            buffers_per_vc=buffers,
        ).end_fs
        for buffers in (1, 2, 3, 4, 10)
    }
    full = 1000 * NS + 100 * NS + ENDPOINT
    # b flits every 300 ns: the tenth starts after 9 (4, 3) such rounds, and so many in the last.
    assert times[1] == 9 * 300 * NS + 200 * NS + ENDPOINT
    assert times[2] == (4 * 300 + 100) * NS + 200 * NS + ENDPOINT
    assert times[3] == times[4] == times[10] == full


@pytest.mark.parametrize(
    ("name", "worse", "better"),
    [
        ("vcs_per_vnet", 2, 8),
        ("buffers_per_vc", 1, 8),
        ("flit_bytes", 192, 64),
        ("packet_bytes", 40, 256),
        ("link_width_bits", 300, 128),
    ],
)
def test_each_parameter_matters_in_all_to_all(name: str, worse: int, better: int) -> None:
    network = Network([ring(4), ring(4)])
    base = {"packet_bytes": 256, "flit_bytes": 64, "vcs_per_vnet": 4, "buffers_per_vc": 8}
    slow, fast = (
        run(network, ALL_TO_ALL, 1 << 14, splits=4, **{**base, name: value}).end_fs
        for value in (worse, better)
    )
    assert slow > fast * 1.05


def test_packet_sizes_are_those_of_each_dimension() -> None:
    network = Network([ring(2), ring(2, bandwidth_bytes_per_s=0.5e9)])
    base = run(network, ALL_REDUCE, 4000, packet_bytes=[100, 100], flit_bytes=10).end_fs
    # 2000 bytes become 21 packets of 10 flits and one of one, 1000 bytes 10 and one of 5.
    first = run(network, ALL_REDUCE, 4000, packet_bytes=[95, 100], flit_bytes=10).end_fs
    second = run(network, ALL_REDUCE, 4000, packet_bytes=[100, 95], flit_bytes=10).end_fs
    assert first == base + 2 * 110 * NS
    assert second == base + 2 * 2 * 50 * NS
    with pytest.raises(ValueError, match="packet_bytes must be one value or one for each of 2"):
        run(network, ALL_REDUCE, 4000, packet_bytes=[100])


def test_plenty_of_buffers_give_the_time_of_whole_messages() -> None:
    """Neighbours only, full buffers, packets that divide: only rounding of bytes can differ."""
    network = Network([ring(4), ring(4)])
    whole = run(network, ALL_REDUCE, 1 << 18, granularity="message", splits=4)
    cut = run(network, ALL_REDUCE, 1 << 18, splits=4)
    assert cut.end_fs == whole.end_fs
    assert cut.link_bytes.tolist() == whole.link_bytes.tolist()
    assert cut.phases.messages.tolist() == whole.phases.messages.tolist()


def test_nonsense_is_refused() -> None:
    network = Network([ring(2)])
    with pytest.raises(ValueError, match="granularity must be message or packet, not 'flit'"):
        simulate(network, job(ALL_REDUCE, 1), granularity="flit")
    with pytest.raises(ValueError, match="packets must be None unless granularity is 'packet'"):
        simulate(network, job(ALL_REDUCE, 1), packets=PacketOptions())
    with pytest.raises(ValueError, match="vcs_per_vnet must be at least 1"):
        PacketOptions(vcs_per_vnet=0)
    with pytest.raises(TypeError, match=r"flit_bytes must be an integer, not 1\.5"):
        PacketOptions(flit_bytes=1.5)  # type: ignore[arg-type]
