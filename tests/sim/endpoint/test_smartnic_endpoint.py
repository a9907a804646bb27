# SPDX-License-Identifier: Apache-2.0
"""The smart NIC reads and writes every byte once, adds on the way, and compresses what it sends."""

import pytest

from hw.bfp.format import preset
from sim.analytic.smartnic_system import NicSystem
from sim.endpoint.endpoint import EndpointModel
from sim.endpoint.kinds import endpoint
from sim.endpoint.smartnic import SmartNicEndpoint
from sim.events.scheduler import Scheduler
from sim.events.simulate import simulate
from sim.network.network import Network
from sim.results.limits import limits_table
from sim.units import PCIE_GEN3_X8
from sim.workload.graph import CollectiveCall, CollectiveKind, GraphBuilder, Job, TaskKind

SIZE = 6 * 16384 * 16
RATIO = preset("bfp16").ratio


def all_reduce(size: int = SIZE, kind: CollectiveKind = CollectiveKind.ALL_REDUCE) -> Job:
    builder = GraphBuilder()
    call = CollectiveCall(kind=kind, size_bytes=size)
    builder.add(kind.value, TaskKind.COLLECTIVE, call=call)
    return Job(name=kind.value, graphs=(builder.graph(),))


def run(nodes: int = 6, *, ethernet: float = 5e9, job: Job | None = None, **nic):
    system = NicSystem(nodes=nodes, endpoint=SmartNicEndpoint(**nic), ethernet_bytes_per_s=ethernet)
    return simulate(system.network, job or all_reduce(), **system.parts())


def busy(record, unit: str) -> float:
    return record.unit_busy_fs[record.unit_names.index(unit)].mean() / 1e15


def sent(record) -> float:
    """Bytes of one node."""
    leaving = [i for i, link in enumerate(record.links) if link.source < record.nodes]
    return record.link_bytes[leaving].sum() / (1 if record.folded else record.nodes)


@pytest.mark.parametrize("codec", ["none", "bfp16"])
def test_every_byte_crosses_the_host_bus_once_in_either_direction(codec):
    record = run(codec=codec)
    assert busy(record, "host read") * PCIE_GEN3_X8 == pytest.approx(SIZE, rel=1e-6)
    assert busy(record, "host write") * PCIE_GEN3_X8 == pytest.approx(SIZE, rel=1e-6)


def test_every_element_passes_once_through_the_adders():
    record = run(lanes=16, clock_hz=100e6)
    assert busy(record, "adders") == pytest.approx(SIZE / 4 / 16 / 100e6, rel=1e-6)


def test_without_compression_two_n_minus_1_shares_are_sent():
    assert sent(run()) == pytest.approx(2 * 5 / 6 * SIZE, rel=1e-9)


@pytest.mark.parametrize("codec", ["bfp16", "bfp24", "mxint8"])
def test_compression_divides_what_is_sent_by_the_ratio_of_the_format(codec):
    assert sent(run(codec=codec)) == pytest.approx(sent(run()) / preset(codec).ratio, rel=1e-5)


def test_compression_divides_the_time_where_the_network_is_slowest():
    fast = {"clock_hz": 1e10, "host_bytes_per_s": 1e12, "host_latency_s": 0.0}
    plain = run(ethernet=1e8, **fast)
    less = run(ethernet=1e8, codec="bfp16", **fast)
    assert plain.end_fs / less.end_fs == pytest.approx(RATIO, rel=0.01)
    assert plain.wire_factor == 1
    assert less.wire_factor == pytest.approx(1 / RATIO)


def test_compression_does_not_help_where_the_host_bus_is_slowest():
    slow = {"host_bytes_per_s": 1e8}
    assert run(codec="bfp16", **slow).end_fs == pytest.approx(run(**slow).end_fs, rel=0.02)


def test_a_half_duplex_host_bus_carries_both_directions():
    slow = {"host_bytes_per_s": 1e8}
    record = run(half_duplex=True, **slow)
    assert busy(record, "host bus") * 1e8 == pytest.approx(2 * SIZE, rel=1e-6)
    assert record.end_fs > 1.8 * run(**slow).end_fs


def test_bounds_of_a_compressed_collective_are_those_of_its_wire_bytes():
    fast = {"clock_hz": 1e10, "host_bytes_per_s": 1e12, "host_latency_s": 0.0, "hop_cycles": 0}
    system = NicSystem(nodes=6, endpoint=SmartNicEndpoint(codec="bfp16", **fast), latency_s=0.0)
    record = simulate(system.network, all_reduce(), **system.parts())
    table = limits_table(record, all_reduce(), system.network)
    (row,) = table.rows
    reached = row[[column.name for column in table.columns].index("best_percent")]
    assert 90 < reached <= 100


def test_only_all_reduces_are_accepted():
    with pytest.raises(ValueError, match="the smart NIC does all_reduce only, not all_to_all"):
        run(job=all_reduce(kind=CollectiveKind.ALL_TO_ALL))


def test_collectives_of_one_run_are_compressed_alike():
    class Mixed(SmartNicEndpoint):
        def model(self, network, kind, plan):
            return EndpointModel(wire_factor=0.5 if kind is CollectiveKind.ALL_REDUCE else 1.0)

    builder = GraphBuilder()
    for kind in (CollectiveKind.ALL_REDUCE, CollectiveKind.ALL_GATHER):
        call = CollectiveCall(kind=kind, size_bytes=64)
        builder.add(kind.value, TaskKind.COLLECTIVE, call=call)
    ring = Network.ring(2, 1e9)
    with pytest.raises(ValueError, match="wire_factor must be the same for all collectives"):
        simulate(ring, Job(name="two", graphs=(builder.graph(),)), endpoint=Mixed())


def test_packets_are_refused_with_compression():
    system = NicSystem(nodes=3, endpoint=SmartNicEndpoint(codec="bfp16"))
    with pytest.raises(ValueError, match="packets cannot be simulated with an endpoint that"):
        simulate(system.network, all_reduce(), **system.parts(), granularity="packet")


def test_links_cannot_carry_less_than_nothing():
    with pytest.raises(ValueError, match="wire_factor must be above 0, not 0"):
        EndpointModel(wire_factor=0)


def test_computation_loses_the_memory_bandwidth_of_the_host_bus_only():
    nic = SmartNicEndpoint(memory_bytes_per_s=100e9, host_bytes_per_s=8e9)
    assert nic.share().compute == 1
    assert nic.share().memory_bytes_per_s == pytest.approx(84e9)


def test_kinds_are_known_by_name():
    assert endpoint("smartnic").codec == "none"
    assert endpoint("smartnic_bfp", clock_hz=1e8).clock_hz == 1e8


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"lanes": 0}, "lanes must be above 0, not 0"),
        ({"hop_cycles": -1}, "hop_cycles must be at least 0, not -1"),
        ({"codec": "bfp99"}, "one of .*bfp16.* not 'bfp99'"),
    ],
)
def test_impossible_nics_are_refused(wrong, text):
    with pytest.raises(ValueError, match=text):
        SmartNicEndpoint(**wrong)


def test_a_run_uses_the_codec_whatever_the_scheduler():
    system = NicSystem(nodes=4, endpoint=SmartNicEndpoint(codec="bfp16"))
    parts = {**system.parts(), "scheduler": Scheduler(splits=3)}
    record = simulate(system.network, all_reduce(), **parts)
    assert sent(record) == pytest.approx(1.5 * SIZE / RATIO, rel=1e-4)
