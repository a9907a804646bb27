# SPDX-License-Identifier: Apache-2.0
"""Training with rings of smart NICs takes as long as the analytic model says."""

import pytest

from hw.bfp.format import preset
from hw.smartnic.config import preset as nic_preset
from sim.analytic.smartnic import Mlp, SmartNicModel, Worker, layer_time, nic_training
from sim.analytic.smartnic import trace_s as analytic_s
from sim.analytic.smartnic_system import NicSystem, trace_job
from sim.cycles.smartnic.model import NicModel
from sim.endpoint.smartnic import SmartNicEndpoint
from sim.events.simulate import simulate
from sim.hosts.command import Command
from sim.hosts.script import Interrupt, Issue
from sim.hosts.surroundings import Surroundings
from sim.network.network import Network
from sim.units import PCIE_GEN3_X8
from sim.workload.graph import CollectiveCall, CollectiveKind, GraphBuilder, Job, TaskKind

WORKER = Worker(flops_per_s=2e12, update_bytes_per_s=140e9)


def all_reduce(size: int) -> Job:
    builder = GraphBuilder()
    call = CollectiveCall(kind=CollectiveKind.ALL_REDUCE, size_bytes=size)
    builder.add("all-reduce", TaskKind.COLLECTIVE, call=call)
    return Job(name="all-reduce", graphs=(builder.graph(),))


def test_the_trace_without_communication_is_its_computations():
    mlp = Mlp(layers=5, batch=16)
    ring = Network.ring(2, 1e18)
    ideal = simulate(ring, trace_job(mlp, WORKER))
    layer = layer_time(mlp, WORKER, 0.0)
    assert ideal.end_fs / 1e15 == pytest.approx(analytic_s([layer] * 5), rel=1e-4)


@pytest.mark.parametrize("batch", [16, 448, 1792])
@pytest.mark.parametrize("layers", [1, 2, 3, 20])
def test_the_simulated_trace_is_the_formula_with_the_simulated_all_reduce(layers, batch):
    mlp = Mlp(layers=layers, batch=batch)
    system = NicSystem(nodes=6, endpoint=SmartNicEndpoint())
    alone = simulate(system.network, all_reduce(mlp.gradient_bytes), **system.parts())
    layer = layer_time(mlp, WORKER, alone.end_fs / 1e15)
    record = simulate(system.network, trace_job(mlp, WORKER), **system.parts())
    assert record.end_fs / 1e15 == pytest.approx(analytic_s([layer] * layers), rel=1e-6)


@pytest.mark.parametrize("codec", ["none", "bfp16"])
@pytest.mark.parametrize("nodes", [2, 6, 32])
def test_simulation_and_analytic_model_differ_by_what_fills_the_ring(nodes, codec):
    mlp = Mlp()
    system = NicSystem(nodes=nodes, endpoint=SmartNicEndpoint(codec=codec))
    ratio = 1.0 if codec == "none" else preset(codec).ratio
    analytic = nic_training(
        mlp, WORKER, SmartNicModel(nodes=nodes, ratio=ratio, passes="reduction")
    )
    record = simulate(system.network, trace_job(mlp, WORKER), **system.parts())
    # Each of 20 all-reduces reads its first pieces before it sends, passes 2 (N-1) hops, and
    # writes its last pieces after it has received.
    piece_s = system.piece_bytes / 5e9
    ends_s = 2 * nodes * system.piece_bytes / PCIE_GEN3_X8 + 1e-6
    fill_s = 20 * (ends_s + 2 * (nodes - 1) * (2 * piece_s + 2e-6))
    assert analytic.total_s <= record.end_fs / 1e15 <= analytic.total_s + fill_s


def test_all_nodes_do_the_same_so_one_is_simulated():
    system = NicSystem(nodes=6, endpoint=SmartNicEndpoint())
    mlp = Mlp(layers=2, width=256, batch=4)
    one = simulate(system.network, trace_job(mlp, WORKER), **system.parts())
    all_of_them = simulate(system.network, trace_job(mlp, WORKER), fold="off", **system.parts())
    assert one.folded
    assert one.end_fs == all_of_them.end_fs


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("nodes", [2, 6])
def test_the_system_simulator_takes_as_long_as_the_cycle_model(nodes, compress):
    clock, cycles, elements = 200e6, 50, 1 << 20
    config = nic_preset("40g")
    ring = Surroundings(nodes=nodes, latency_cycles=cycles, write_latency_cycles=10)
    command = Command(elements=elements, compress=compress, destination=4 * elements)
    model = NicModel(config, ring, [command], [[Issue(command=0), Interrupt()]] * nodes)
    model.run()
    expected = int(model.completions().max())
    bus = clock * config.bus_bytes
    system = NicSystem(
        nodes=nodes,
        endpoint=SmartNicEndpoint(
            codec="bfp16" if compress else "none",
            host_bytes_per_s=bus,
            host_latency_s=ring.read_latency_cycles / clock,
            clock_hz=clock,
        ),
        ethernet_bytes_per_s=bus,
        ethernet_share=config.frame_beats / (config.frame_beats + 1),
        latency_s=cycles / clock,
    )
    record = simulate(system.network, all_reduce(4 * elements), **system.parts())
    assert record.end_fs / 1e15 * clock == pytest.approx(expected, rel=0.03)
