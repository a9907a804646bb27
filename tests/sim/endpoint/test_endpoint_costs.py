# SPDX-License-Identifier: Apache-2.0
"""Endpoints read, add and write what the papers say, and their limits show."""

import numpy as np
import pytest

from sim.collectives.plan import AlgorithmChoice
from sim.endpoint.ace import AceEndpoint
from sim.endpoint.kinds import KINDS as ALL_KINDS
from sim.endpoint.kinds import BaselineEndpoint, Bus, Npu, endpoint
from sim.endpoint.smartnic import SmartNicEndpoint
from sim.events.scheduler import Scheduler
from sim.events.simulate import simulate
from sim.limits.network import call_bound
from sim.network.dimension import Dimension
from sim.network.network import Network
from sim.workload.graph import CollectiveCall, CollectiveKind, GraphBuilder, Job, TaskKind

CYCLE = 1 / 1.245e9
# Switches that reduce send other bytes, and there are none on these networks.
KINDS = {kind: each for kind, each in ALL_KINDS.items() if kind != "in_switch"}
SIZE = 1 << 22


def papers_torus() -> Network:
    rates, latencies = (200e9, 25e9, 25e9), (90 * CYCLE, 500 * CYCLE, 500 * CYCLE)
    return Network.torus(
        (4, 4, 4), bandwidth_bytes_per_s=rates, latency_s=latencies, efficiency=0.94
    )


def run(what, size: int = SIZE, style: str = "enhanced"):
    builder = GraphBuilder()
    call = CollectiveCall(kind=CollectiveKind.ALL_REDUCE, size_bytes=size)
    builder.add("all-reduce", TaskKind.COLLECTIVE, call=call)
    job = Job(name="all-reduce", graphs=(builder.graph(),))
    return simulate(papers_torus(), job, endpoint=what, algorithms=AlgorithmChoice(style=style))


def busy(record, unit: str) -> float:
    return record.unit_busy_fs[record.unit_names.index(unit)].sum() / 1e15


def test_the_engine_reads_every_byte_once_and_sends_it_two_and_a_quarter_times():
    record = run(AceEndpoint())
    read = busy(record, "TX DMA") * 128e9
    assert read == pytest.approx(SIZE, rel=1e-6)
    assert busy(record, "RX DMA") * 128e9 == pytest.approx(SIZE, rel=1e-6)
    assert record.link_bytes.sum() / read == pytest.approx(2.25, rel=1e-6)


def test_the_baseline_reads_one_and_a_half_bytes_per_byte_sent():
    record = run(BaselineEndpoint())
    read, sent = busy(record, "memory read") * 450e9, record.link_bytes.sum()
    # In pieces of 1/16 of the data: local 4 * (1 + 2 + 2); vertical 2 + 3 + 3 + 3 + 1 + 1, as what
    # local has left is two operands each; horizontal 1 + 2 + 2 + 2 + 1 + 1; local again
    # 4 * (1 + 1 + 1).
    assert read == pytest.approx(SIZE / 16 * (20 + 13 + 9 + 12), rel=1e-6)
    assert read / sent == pytest.approx(1.5, rel=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_no_endpoint_is_faster_than_the_ideal_one(kind):
    assert run(KINDS[kind]).end_fs >= run(KINDS["ideal"]).end_fs


SYSTEMS = {
    "ring": Network.torus((8,), bandwidth_bytes_per_s=25e9, latency_s=500 * CYCLE),
    "long ring": Network.torus((32,), bandwidth_bytes_per_s=25e9, latency_s=500 * CYCLE),
    "switch": Network([Dimension.switch(16, 25e9, 500 * CYCLE)]),
    "fat tree": Network([Dimension.fat_tree(16, 8, 25e9, 150e-9)]),
    "package": papers_torus(),
}
COLLECTIVES = [CollectiveKind.ALL_REDUCE, CollectiveKind.ALL_GATHER, CollectiveKind.ALL_TO_ALL]


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("kind", COLLECTIVES, ids=lambda kind: kind.value)
@pytest.mark.parametrize("size", [1 << 16, 1 << 20])
def test_the_ideal_endpoint_is_a_ceiling_with_the_defaults(name, kind, size):
    if name == "package" and kind is CollectiveKind.ALL_TO_ALL:
        pytest.skip("messages that pass through wait behind all that a node has to send")
    builder = GraphBuilder()
    call = CollectiveCall(kind=kind, size_bytes=size)
    builder.add("one", TaskKind.COLLECTIVE, call=call)
    job = Job(name="one", graphs=(builder.graph(),))
    nics = {"smartnic"} if kind is CollectiveKind.ALL_REDUCE else set()
    times = {
        each: simulate(SYSTEMS[name], job, endpoint=each).end_fs
        for each in KINDS
        if not each.startswith("smartnic") or each in nics
    }
    assert times["ideal"] <= 1.01 * min(times.values()), times


@pytest.mark.parametrize("kind", ["ideal", "ace", "ace_v1", "baseline", "smartnic"])
def test_the_scheduler_bounds_the_chunks_of_every_endpoint(kind):
    """One at a time on a long ring does not cover the latency, whatever the endpoint could do."""

    def time(concurrency):
        scheduler = Scheduler(splits=16, concurrency=concurrency)
        builder = GraphBuilder()
        call = CollectiveCall(kind=CollectiveKind.ALL_REDUCE, size_bytes=1 << 20)
        builder.add("one", TaskKind.COLLECTIVE, call=call)
        job = Job(name="one", graphs=(builder.graph(),))
        return simulate(SYSTEMS["ring"], job, endpoint=kind, scheduler=scheduler, check=True).end_fs

    assert time(1) > 1.2 * time(4)


def test_slower_endpoints_do_not_overtake_the_ideal_one_on_tori_of_several_colours():
    network = Network.torus((4, 4, 4), bandwidth_bytes_per_s=25e9, latency_s=400e-9)
    builder = GraphBuilder()
    call = CollectiveCall(kind=CollectiveKind.ALL_REDUCE, size_bytes=1 << 23)
    builder.add("one", TaskKind.COLLECTIVE, call=call)
    job = Job(name="one", graphs=(builder.graph(),))
    kinds = [kind for kind in KINDS if kind != "smartnic_bfp"]
    times = {kind: simulate(network, job, endpoint=kind).end_fs for kind in kinds}

    assert times["ideal"] <= 1.01 * min(times.values())
    assert times["ideal"] * 1e-15 < 1.05 * call_bound(network, call).seconds
    assert times["ace"] * 1e-15 < 1.2 * call_bound(network, call).seconds


def test_contexts_bind_on_top_and_the_queues_of_a_phase_share_them():
    """Two rings, a queue each: one context in all halves what one chunk a queue allows."""

    def time(concurrency, contexts):
        scheduler = Scheduler(splits=16, concurrency=concurrency)
        builder = GraphBuilder()
        call = CollectiveCall(kind=CollectiveKind.ALL_REDUCE, size_bytes=1 << 18)
        builder.add("one", TaskKind.COLLECTIVE, call=call)
        job = Job(name="one", graphs=(builder.graph(),))
        engine = endpoint("ace", fsms=1, contexts=contexts)
        return simulate(SYSTEMS["ring"], job, endpoint=engine, scheduler=scheduler).end_fs

    assert time(1, 1) == pytest.approx(2 * time(1, 2), rel=0.05)
    assert time(1, 2) == time(1, 64)
    assert time(None, 2) == time(2, 2)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "ideal"])
def test_no_unit_is_busy_longer_than_the_run(kind):
    record = run(KINDS[kind])
    servers = np.array([4 if name == "ALUs" else 1 for name in record.unit_names])
    assert (record.unit_busy_fs[:, 0] <= servers * record.end_fs).all()


@pytest.mark.parametrize(
    ("less", "more"),
    [
        ({"memory_bytes_per_s": 64e9}, {"memory_bytes_per_s": 128e9}),
        ({"fsms": 4}, {"fsms": 16}),
        ({"sram_bytes": 1 << 20}, {"sram_bytes": 4 << 20}),
        ({"sram_accesses": 2}, {"sram_accesses": 12}),
        ({"alus": 1, "lanes": 4}, {"alus": 4, "lanes": 16}),
        ({"contexts": 1}, {"contexts": 4}),
    ],
)
def test_a_smaller_engine_is_slower(less, more):
    assert run(AceEndpoint(**less)).end_fs > 1.01 * run(AceEndpoint(**more)).end_fs


@pytest.mark.parametrize(
    ("less", "more"),
    [
        ({"memory_bytes_per_s": 128e9}, {"memory_bytes_per_s": 450e9}),
        ({"cores": 1}, {"cores": 6}),
    ],
)
def test_a_baseline_with_less_is_slower(less, more):
    assert run(BaselineEndpoint(**less)).end_fs > 1.1 * run(BaselineEndpoint(**more)).end_fs


def test_loggp_overhead_slows_small_messages_most():
    plain = replace_bus(0.0)
    slow = replace_bus(20e-9)
    assert run(slow).end_fs > 1.2 * run(plain).end_fs


def replace_bus(overhead: float) -> BaselineEndpoint:
    bus = Bus(bytes_per_s=500e9, latency_s=50e-9, overhead_s=overhead, gap_s=overhead)
    return BaselineEndpoint(bus=bus, memory_bus=bus, message_bytes=4096)


def test_what_is_left_to_training():
    assert KINDS["ideal"].share().compute == 1
    assert KINDS["ace"].share().compute == 1
    assert KINDS["ace"].share().memory_bytes_per_s == pytest.approx(772e9)
    assert KINDS["baseline_comm_opt"].share().compute == pytest.approx(74 / 80)
    assert KINDS["baseline_comm_opt"].share().memory_bytes_per_s == pytest.approx(450e9)
    assert KINDS["baseline_comp_opt"].share().compute == pytest.approx(78 / 80)
    assert KINDS["baseline_no_overlap"].share().compute == 1
    assert not KINDS["baseline_no_overlap"].overlaps


def test_endpoints_of_version_1_have_the_buses_of_its_table_7():
    """Shares are what training loses; communication has 500 GB/s to the NIC and 900 to memory."""
    baseline, better, engine = (KINDS[k] for k in ("baseline", "baseline_plus_plus", "ace_v1"))

    for each in (baseline, better, engine):
        assert (each.memory_bytes_per_s, each.bus.bytes_per_s) == (900e9, 500e9)
        assert each.message_bytes == 4096
        bus = each.bus
        assert (bus.latency_s, bus.overhead_s, bus.gap_s) == pytest.approx((5e-8, 2e-8, 2e-8))
    assert (engine.contexts, engine.partition) == (1, "heuristic")
    shares = {name: KINDS[name].share() for name in ("baseline", "baseline_plus_plus", "ace_v1")}
    left = {name: (share.compute, share.memory_bytes_per_s) for name, share in shares.items()}
    assert left == {
        "baseline": (0.95, 720e9),
        "baseline_plus_plus": (1.0, 855e9),
        "ace_v1": (1.0, 855e9),
    }


@pytest.mark.parametrize("shape", [(4, 4, 4), (4, 8, 4)])
def test_more_memory_bandwidth_is_never_slower(shape):
    """Loading a chunk shares the SRAM with messages; it does not keep them out while it lasts."""
    rates, latencies = (200e9, 25e9, 25e9), (90 * CYCLE, 500 * CYCLE, 500 * CYCLE)
    network = Network.torus(
        shape, bandwidth_bytes_per_s=rates, latency_s=latencies, efficiency=0.94
    )
    builder = GraphBuilder()
    call = CollectiveCall(kind=CollectiveKind.ALL_REDUCE, size_bytes=1 << 26)
    builder.add("all-reduce", TaskKind.COLLECTIVE, call=call)
    job = Job(name="all-reduce", graphs=(builder.graph(),))
    times = [
        simulate(
            network,
            job,
            endpoint=AceEndpoint(memory_bytes_per_s=gigabytes * 1e9),
            algorithms=AlgorithmChoice(style="enhanced"),
        ).end_fs
        for gigabytes in (64, 128, 192, 320, 512, 900)
    ]

    for number, later in enumerate(times):
        assert later <= 1.002 * min(times[: number + 1])


def test_what_training_loses_to_an_engine_is_what_its_dma_has_unless_said():
    assert AceEndpoint(memory_bytes_per_s=100e9).share().memory_bytes_per_s == 800e9
    kept = AceEndpoint(memory_bytes_per_s=100e9, lost_memory_bytes_per_s=0.0)
    assert kept.share().memory_bytes_per_s == 900e9


@pytest.mark.parametrize(
    ("kind", "changes", "text"),
    [
        ("quantum", {}, "endpoint must be one of"),
        ("ace", {"wings": 2}, "ace has no parameter 'wings'"),
        ("ace", {"fsms": 0}, "fsms must be above 0"),
        ("ace", {"sram_bytes": "4MiB"}, "sram_bytes must be an integer, not '4MiB'"),
        ("ace", {"partition": "odd"}, "partition must be heuristic or even"),
        ("baseline", {"cores": 81}, "cores must be at most 80"),
        ("ace", {"fetch_cycles": -1}, "fetch_cycles must be at least 0"),
        ("baseline", {"memory_bytes_per_s": -1}, "memory_bytes_per_s must be above 0"),
        ("baseline", {"lost_compute": 1.5}, "lost_compute must be from 0 to 1"),
        ("baseline", {"lost_memory_bytes_per_s": -1}, "lost_memory_bytes_per_s must be at least 0"),
        ("ace", {"lost_memory_bytes_per_s": -1}, "lost_memory_bytes_per_s must be at least 0"),
        ("ideal", {"delay_s": -1e-9}, "delay_s must be at least 0"),
        ("ideal", {"message_bytes": 0.001}, "message_bytes must be at least 1, not 0.001"),
    ],
)
def test_bad_endpoints_are_refused(kind, changes, text):
    with pytest.raises(ValueError, match=text):
        endpoint(kind, **changes)


@pytest.mark.parametrize("name", ["latency_s", "overhead_s", "gap_s"])
def test_a_bus_faster_than_time_is_refused(name):
    with pytest.raises(ValueError, match=f"{name} must be at least 0"):
        Bus(**{name: -1e-9})


def test_bad_processors_are_refused():
    for wrong in (0, 1e-30):
        with pytest.raises(ValueError, match="clock_hz must be at least 1"):
            Npu(clock_hz=wrong)
        with pytest.raises(ValueError, match="clock_hz must be at least 1"):
            SmartNicEndpoint(clock_hz=wrong)
