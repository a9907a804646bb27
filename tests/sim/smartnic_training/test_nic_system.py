"""Training with rings of smart NICs takes as long as the analytic model says."""

import pytest

from hw.bfp.format import preset
from sim.analytic.smartnic import Mlp, SmartNicModel, Worker, layer_time, nic_training
from sim.analytic.smartnic import trace_s as analytic_s
from sim.endpoint.smartnic import PCIE_GEN3_X8, SmartNicEndpoint
from sim.network.dimension import Dimension
from sim.network.network import Network
from sim.smartnic_training.system import NicSystem, frame_share, trace_job
from sim.system.simulate import simulate
from sim.workload.graph import CollectiveCall, CollectiveKind, GraphBuilder, Job, TaskKind

WORKER = Worker(flops_per_s=2e12, update_bytes_per_s=140e9)


def test_the_trace_without_communication_is_its_computations():
    mlp = Mlp(layers=5, batch=16)
    ring = Network([Dimension(kind="ring", size=2, bandwidth_bytes_per_s=1e18)])
    ideal = simulate(ring, trace_job(mlp, WORKER))
    layer = layer_time(mlp, WORKER, 0.0)
    assert ideal.end_fs / 1e15 == pytest.approx(analytic_s([layer] * 5), rel=1e-4)


@pytest.mark.parametrize("batch", [16, 448, 1792])
@pytest.mark.parametrize("layers", [1, 2, 3, 20])
def test_the_simulated_trace_is_the_formula_with_the_simulated_all_reduce(layers, batch):
    mlp = Mlp(layers=layers, batch=batch)
    system = NicSystem(nodes=6, endpoint=SmartNicEndpoint())
    builder = GraphBuilder()
    call = CollectiveCall(kind=CollectiveKind.ALL_REDUCE, size_bytes=mlp.gradient_bytes)
    builder.add("all-reduce", TaskKind.COLLECTIVE, call=call)
    alone = simulate(system.network, Job(name="1", graphs=(builder.graph(),)), **system.parts())
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
    # Each of 20 all-reduces reads its first round before it sends, passes 2 (N-1) hops, and
    # writes its last round after it has received.
    block_s = system.block_bytes / 5e9
    round_s = 2 * nodes * system.block_bytes / PCIE_GEN3_X8
    fill_s = 20 * (round_s + 2 * (nodes - 1) * (block_s + 4e-6))
    assert analytic.total_s <= record.end_fs / 1e15 <= analytic.total_s + fill_s


def test_all_nodes_do_the_same_so_one_is_simulated():
    system = NicSystem(nodes=6, endpoint=SmartNicEndpoint())
    mlp = Mlp(layers=2, width=256, batch=4)
    one = simulate(system.network, trace_job(mlp, WORKER), **system.parts())
    all_of_them = simulate(system.network, trace_job(mlp, WORKER), fold="off", **system.parts())
    assert one.folded
    assert one.end_fs == all_of_them.end_fs


def test_frames_leave_their_share_to_the_payload():
    assert frame_share(2048, 32) == pytest.approx(2048 / 2104)
