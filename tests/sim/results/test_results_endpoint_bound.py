"""A run's bound knows the endpoints, too."""

import pytest

from sim.endpoint.kinds import endpoint
from sim.events.simulate import simulate
from sim.network.dimension import Dimension
from sim.network.network import Network
from sim.results.limits import limits_table
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
    assert 80 < row[8] <= 100
