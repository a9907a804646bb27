# SPDX-License-Identifier: Apache-2.0
"""MPI all-reduces on dedicated cores cost what their schemes say."""

from dataclasses import replace

import pytest

from sim.analytic.smartnic import Mlp, Worker
from sim.analytic.smartnic_baseline import BaselineSystem, mpi_cost

MLP = Mlp(layers=3, width=100, batch=1000)
WORKER = Worker(flops_per_s=1e9, update_bytes_per_s=1e9)
BASELINE = BaselineSystem(nodes=4, core_bytes_per_s=1e6, scheme="ring")


@pytest.mark.parametrize("nodes", [2, 4, 8, 16, 32, 64])
def test_rabenseifner_sends_as_much_as_a_ring_in_fewer_messages(nodes):
    ring, halving = mpi_cost("ring", nodes), mpi_cost("rabenseifner", nodes)
    assert ring.volume == pytest.approx(2 * (nodes - 1) / nodes)
    assert halving.volume == pytest.approx(ring.volume)
    assert ring.steps == 2 * (nodes - 1)
    assert 2 ** (halving.steps / 2) == nodes


def test_nodes_above_a_power_of_two_cost_rabenseifner_two_more_vectors():
    assert mpi_cost("rabenseifner", 6).volume == pytest.approx(2 * 3 / 4 + 2)
    assert mpi_cost("rabenseifner", 6).steps == 2 * 2 + 2


@pytest.mark.parametrize(("nodes", "rounds"), [(2, 1), (6, 3), (8, 3), (9, 4), (32, 5)])
def test_a_binomial_tree_sends_the_whole_vector_up_and_down(nodes, rounds):
    cost = mpi_cost("binomial", nodes)
    assert (cost.steps, cost.volume) == (2 * rounds, 2 * rounds)


def test_the_default_sends_least_and_then_with_fewest_messages():
    assert mpi_cost("default", 6) == mpi_cost("ring", 6)
    assert mpi_cost("default", 32) == mpi_cost("rabenseifner", 32)


def test_cores_set_the_pace_until_the_line_does():
    vector = 1000
    assert BASELINE.all_reduce_s(vector) == pytest.approx(1.5 * vector / 2e6)
    assert BASELINE.all_reduce_s(vector, cores=1) == pytest.approx(1.5 * vector / 1e6)
    slow_line = replace(BASELINE, network_bytes_per_s=1e5, step_s=3.0)
    assert slow_line.all_reduce_s(vector) == pytest.approx(6 * 3.0 + 1.5 * vector / 1e5)


def test_cores_set_aside_slow_backward_passes_down_and_nothing_else():
    alone, beside = BASELINE.naive(MLP, WORKER), BASELINE.overlapped(MLP, WORKER)
    assert beside.backward_s == pytest.approx(alone.backward_s * 28 / 26)
    assert (beside.forward_s, beside.update_s) == (alone.forward_s, alone.update_s)


def test_all_reduces_of_the_naive_system_are_all_exposed():
    size = MLP.gradient_bytes
    exposed = BASELINE.naive(MLP, WORKER).exposed_s
    assert exposed == pytest.approx(3 * BASELINE.all_reduce_s(size, cores=1))


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"nodes": 1}, "nodes must be at least 2, not 1"),
        ({"scheme": "tree"}, "scheme must be one of default, ring"),
        ({"communication_cores": 28}, "communication_cores must be from 1 to 27, not 28"),
        ({"core_bytes_per_s": 0}, "core_bytes_per_s must be above 0, not 0"),
        ({"step_s": -1}, "step_s must be at least 0, not -1"),
    ],
)
def test_impossible_baselines_are_refused(wrong, text):
    with pytest.raises(ValueError, match=text):
        replace(BASELINE, **wrong)
