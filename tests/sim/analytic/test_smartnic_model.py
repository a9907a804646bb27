# SPDX-License-Identifier: Apache-2.0
"""The smart NIC's analytic model gives what its formulas give by hand."""

from dataclasses import replace

import pytest

from hw.bfp.format import preset
from sim.analytic.smartnic import (
    LayerTime,
    Mlp,
    SmartNicModel,
    Worker,
    layer_time,
    naive,
    nic_training,
    overlapped,
    trace_s,
)


def layers(*rows: tuple[float, float, float, float]) -> list[LayerTime]:
    names = ("forward_s", "backward_s", "update_s", "all_reduce_s")
    return [LayerTime(**dict(zip(names, row))) for row in rows]


THREE = layers((1, 4, 0.5, 7), (2, 5, 0.25, 8), (3, 6, 0.125, 9))


def test_total_of_a_trace_bound_by_communication():
    # 1+2+3, B3; AR3 beside B2; AR2 beside U3+B1; AR1 beside U2; U1.
    assert trace_s(THREE) == (1 + 2 + 3) + 6 + 9 + 8 + 7 + 0.5


def test_total_of_a_trace_bound_by_computation():
    fast = [replace(layer, all_reduce_s=0.25) for layer in THREE]
    assert trace_s(fast) == 6 + 6 + 5 + (0.125 + 4) + 0.25 + 0.5


def test_every_step_of_a_trace_takes_its_own_maximum():
    mixed = layers((1, 1, 8, 2), (1, 1, 4, 7), (1, 6, 2, 3), (1, 1, 1, 5))
    # B4; AR4 5 < B3 6; AR3 3 > U4 + B2 2; AR2 7 > U3 + B1 3; AR1 2 < U2 4; U1 8.
    assert trace_s(mixed) == 4 + 1 + 6 + 3 + 7 + 4 + 8


def test_total_of_one_and_of_two_layers():
    one, two = THREE[:1], THREE[:2]
    assert trace_s(one) == 1 + 4 + 7 + 0.5
    assert trace_s(two) == (1 + 2) + 5 + 8 + 7 + 0.5


def test_exposed_is_what_computations_do_not_hide():
    found = overlapped(THREE)
    assert (found.forward_s, found.backward_s, found.update_s) == (6, 15, 0.875)
    assert found.exposed_s == 36.5 - (6 + 15 + 0.875)
    assert found.total_s == 36.5
    assert naive(THREE).exposed_s == 7 + 8 + 9


def test_nothing_is_hidden_behind_a_trace_without_layers():
    with pytest.raises(ValueError, match="layers must hold at least one layer"):
        trace_s([])


def test_operations_of_a_layer():
    mlp, worker = Mlp(width=100, batch=10), Worker(flops_per_s=1e6, update_bytes_per_s=1e6)
    layer = layer_time(mlp, worker, 0.0)
    assert layer.forward_s == pytest.approx(2 * 100 * 100 * 10 / 1e6)
    assert layer.backward_s == pytest.approx(2 * layer.forward_s)
    assert layer.update_s == pytest.approx(3 * 100 * 100 * 4 / 1e6)


NIC = SmartNicModel(
    nodes=4, ethernet_bytes_per_s=100, ethernet_share=0.5, additions_per_s=30, host_bytes_per_s=80
)


def test_an_all_reduce_takes_as_long_as_its_slowest_part():
    # 10 elements are padded to 4 chunks of 3.
    found = NIC.all_reduce(10)
    assert NIC.sent_bytes(10) == 2 * 3 * 3 * 4
    assert found.ring_s == pytest.approx(72 / 50)
    assert found.add_s == pytest.approx(3 * 3 / 30)
    assert found.memory_s == pytest.approx(4 * 3 * 4 / 80)
    assert (found.seconds, found.limit) == (found.ring_s, "network")


def test_compression_relieves_the_network_alone():
    plain, less = NIC.all_reduce(10), replace(NIC, ratio=4).all_reduce(10)
    assert less.ring_s == pytest.approx(plain.ring_s / 4)
    assert (less.add_s, less.memory_s) == (plain.add_s, plain.memory_s)
    assert less.limit == "host bus"


@pytest.mark.parametrize(("passes", "chunks"), [("sums", 3), ("reduction", 4), ("both", 6)])
def test_chunks_through_the_adders(passes, chunks):
    found = replace(NIC, passes=passes).all_reduce(12)
    assert found.add_s == pytest.approx(chunks * 3 / 30)


def test_a_half_duplex_host_bus_takes_twice_as_long():
    half = replace(NIC, half_duplex=True)
    assert half.all_reduce(10).memory_s == pytest.approx(2 * NIC.all_reduce(10).memory_s)


def test_times_of_the_papers_plausibility_check():
    # 40 Gbit/s, PCIe Gen3 x8, 6 nodes, one layer of 2048 x 2048, adders at 156.25 MHz.
    mlp = Mlp()
    nic = SmartNicModel(nodes=6, additions_per_s=8 * 156.25e6)
    found = nic.all_reduce(mlp.weights)
    assert 1e3 * found.ring_s == pytest.approx(5.59, abs=0.005)
    assert 1e3 * found.memory_s == pytest.approx(2.13, abs=0.005)
    assert 1e3 * found.add_s == pytest.approx(2.8, abs=0.005)
    bfp = replace(nic, ratio=preset("bfp16").ratio)
    # 1.487 ms; the fact sheet has 1.47 from a rounded ratio of 3.8.
    assert 1e3 * bfp.all_reduce(mlp.weights).ring_s == pytest.approx(5.592 * 136 / 512, abs=0.001)


def test_an_iteration_with_the_nic_is_its_trace():
    mlp = Mlp(layers=3, width=8, batch=2)
    worker = Worker(flops_per_s=100, update_bytes_per_s=100)
    layer = layer_time(mlp, worker, NIC.all_reduce(64).seconds)
    assert nic_training(mlp, worker, NIC).total_s == pytest.approx(trace_s([layer] * 3))


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"nodes": 1}, "nodes must be at least 2, not 1"),
        ({"ratio": 0}, "ratio must be above 0, not 0"),
        ({"ethernet_share": 1.5}, "ethernet_share must be at most 1, not 1.5"),
        ({"passes": "all"}, "passes must be sums, reduction or both, not 'all'"),
    ],
)
def test_impossible_nics_are_refused(wrong, text):
    with pytest.raises(ValueError, match=text):
        SmartNicModel(**{"nodes": 4, **wrong})


def test_impossible_models_and_workers_are_refused():
    with pytest.raises(ValueError, match="batch must be above 0, not 0"):
        Mlp(batch=0)
    with pytest.raises(ValueError, match="flops_per_s must be above 0, not -1"):
        Worker(flops_per_s=-1, update_bytes_per_s=1)
    with pytest.raises(ValueError, match="update_s must be at least 0, not -1"):
        layers((1, 1, -1, 1))
    with pytest.raises(ValueError, match="elements must be at least 1, not 0"):
        NIC.all_reduce(0)
