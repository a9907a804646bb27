# SPDX-License-Identifier: Apache-2.0
"""A run's bound knows the endpoints, too."""

import pytest

from sim.endpoint.kinds import endpoint
from sim.events.simulate import simulate
from sim.network.dimension import Dimension
from sim.network.network import Network
from sim.results.limits import limits_table
from sim.run import run
from sim.workload.graph import CollectiveCall, CollectiveKind, GraphBuilder, Job, TaskKind

FAST = Dimension.ring(4, 1e12, 1e-8)


@pytest.mark.parametrize(
    ("end", "resource"),
    [(endpoint("ace", memory_bytes_per_s=45e9), "memory"), (endpoint("ideal"), "injection")],
)
def test_memory_bounds_an_engine_with_little_of_it(end, resource):
    builder = GraphBuilder()
    call = CollectiveCall(kind=CollectiveKind.ALL_REDUCE, size_bytes=64 << 20)
    builder.add("all-reduce", TaskKind.COLLECTIVE, call=call)
    job = Job(name="all-reduce", graphs=(builder.graph(),))
    network = Network(FAST)
    (row,) = limits_table(simulate(network, job, endpoint=end), job, network).rows
    assert row[5].startswith(resource)
    assert 80 < row[-1] <= 100  # mean_percent


@pytest.mark.parametrize(
    ("kind", "whole", "share"),
    [
        ("all_reduce", 1, 2 * 7 / 8),
        ("reduce_scatter", 1, 7 / 8),
        ("all_gather", 8, 7 / 8),  # its size is of the vector that it makes
        ("all_to_all", 1, 7 / 8),
        ("broadcast", 1, 1),
    ],
)
def test_bandwidths_are_those_of_nccl_tests(kind, whole, share):
    topology = {"kind": "ring", "shape": [8], "bandwidth_bytes_per_s": 25e9}
    workload = {"collective": kind, "size_bytes": 1 << 20}
    done = run({"topology": topology, "workload": workload, "run": {"passes": 1}})

    (row,) = done.limits.rows
    found = dict(zip((column.name for column in done.limits.columns), row))
    assert found["algbw_bytes_per_s"] == pytest.approx(whole * (1 << 20) / found["mean_s"])
    assert found["busbw_bytes_per_s"] == pytest.approx(share * found["algbw_bytes_per_s"])
    assert found["busbw_bytes_per_s"] <= 50e9  # two directions
