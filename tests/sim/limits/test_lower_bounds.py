# SPDX-License-Identifier: Apache-2.0
import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.endpoint.rates import EndpointRates
from sim.limits.bounds import BoundViolation, lower_bound
from sim.network.dimension import Dimension
from sim.units import GB
from sim.workload.graph import CollectiveKind as Kind

SIZE = 1 << 20


def dim(kind, size, gb=1.0, **values):
    return Dimension(kind=kind, size=size, bandwidth_bytes_per_s=gb * GB, **values)


def links(dimensions):
    """Directed capacities between nodes, and through switches, of a small network.

    Written from the description of the kinds, without the module under test. Switches are nodes
    numbered after the endpoints.
    """
    shape = [d.size for d in dimensions]
    number = {c: i for i, c in enumerate(itertools.product(*map(range, shape)))}
    capacity, switches = {}, len(number)

    def add(a, b, rate):
        capacity[a, b] = capacity.get((a, b), 0.0) + rate

    for axis, d in enumerate(dimensions):
        rate = d.bandwidth_bytes_per_s * d.efficiency * d.lanes
        if d.size == 1:
            continue
        for rest in itertools.product(*(range(k) for i, k in enumerate(shape) if i != axis)):
            row = [number[rest[:axis] + (x,) + rest[axis:]] for x in range(d.size)]
            if d.kind.value == "fat_tree":
                trunk = d.trunk_bandwidth_bytes_per_s or d.bandwidth_bytes_per_s * d.group
                leaves = [switches + i for i in range(d.size // d.group)]
                switches += len(leaves) + d.spine
                for position, node in enumerate(row):
                    add(node, leaves[position // d.group], rate)
                    add(leaves[position // d.group], node, rate)
                ends = [(x, switches - 1) for x in leaves] if d.spine else [leaves]
                for a, b in ends:
                    add(a, b, trunk * d.lanes * d.efficiency)
                    add(b, a, trunk * d.lanes * d.efficiency)
            elif d.kind.value == "switch":
                for node in row:
                    add(node, switches, rate)
                    add(switches, node, rate)
                switches += 1
            elif d.kind.value == "ring":
                for one, two in zip(row, row[1:] + row[:1]):
                    add(one, two, rate)
                    if d.single_link:
                        continue
                    if d.bidirectional:
                        add(two, one, rate)
            else:
                for one, two in itertools.permutations(row, 2):
                    add(one, two, rate)
    return len(number), switches, capacity


def best_all_gather(dimensions, size):
    """Exact optimum: over all cuts, the data on one side over the capacity out of it.

    (That the worst cut can be reached is Edmonds' theorem on packing arborescences.)
    """
    nodes, vertices, capacity = links(dimensions)
    worst = 0.0
    for inside in itertools.product((False, True), repeat=vertices):
        sources = sum(inside[:nodes])
        if sources and not all(inside[:nodes]):
            out = sum(c for (a, b), c in capacity.items() if inside[a] and not inside[b])
            worst = max(worst, sources * size / out)
    return worst


def best_all_to_all(dimensions, size):
    """Exact optimum: a linear program over flows, one commodity per source."""
    from scipy.optimize import linprog
    from scipy.sparse import lil_matrix

    nodes, vertices, capacity = links(dimensions)
    edges = list(capacity)
    flows = nodes * len(edges)
    balance = lil_matrix((nodes * vertices, flows + 1))
    demand = np.zeros(nodes * vertices)
    for source in range(nodes):
        for e, (a, b) in enumerate(edges):
            balance[source * vertices + a, source * len(edges) + e] += 1
            balance[source * vertices + b, source * len(edges) + e] -= 1
        for v in range(nodes):
            demand[source * vertices + v] = nodes - 1 if v == source else -1
    load = lil_matrix((len(edges), flows + 1))
    for e, edge in enumerate(edges):
        load[e, [s * len(edges) + e for s in range(nodes)]] = 1
        load[e, flows] = -capacity[edge] / GB
    cost = np.zeros(flows + 1)
    cost[flows] = 1
    found = linprog(
        cost, A_ub=load.tocsr(), b_ub=np.zeros(len(edges)), A_eq=balance.tocsr(), b_eq=demand
    )
    assert found.status == 0
    return found.x[flows] * size / nodes / GB


SMALL = [
    [dim("ring", 2)],
    [dim("ring", 3)],
    [dim("ring", 4)],
    [dim("ring", 5)],
    [dim("ring", 5, bidirectional=False)],
    [dim("ring", 6, lanes=2)],
    [dim("ring", 2, single_link=True)],
    [dim("ring", 2, single_link=True), dim("ring", 4, bidirectional=False)],
    [dim("fat_tree", 6, group=2, lanes=2)],
    [dim("fat_tree", 6, group=3, trunk_bandwidth_bytes_per_s=1.5 * GB, spine=False)],
    [dim("fat_tree", 6, group=2, trunk_bandwidth_bytes_per_s=GB)],
    [dim("fat_tree", 4, group=2, trunk_bandwidth_bytes_per_s=0.5 * GB), dim("ring", 2)],
    [dim("switch", 4)],
    [dim("switch", 5, lanes=3)],
    [dim("fully_connected", 4)],
    [dim("fully_connected", 5, efficiency=0.5)],
    [dim("ring", 3), dim("ring", 3)],
    [dim("ring", 2), dim("ring", 4, 3.0)],
    [dim("ring", 2, 8.0), dim("ring", 4)],
    [dim("ring", 2, 4.0), dim("ring", 2), dim("ring", 2)],
    [dim("ring", 2, 3.0, bidirectional=False), dim("switch", 3)],
    [dim("switch", 2), dim("ring", 3)],
    [dim("fully_connected", 3), dim("ring", 3, 0.25)],
]
NAMES = ["x".join(f"{d.kind.value}{d.size}" for d in dims) for dims in SMALL]


@pytest.mark.parametrize("dimensions", SMALL, ids=NAMES)
def test_all_gather_bound_is_the_exact_optimum(dimensions):
    bound = lower_bound(Kind.ALL_GATHER, SIZE, dimensions).seconds

    assert bound == pytest.approx(best_all_gather(dimensions, SIZE), rel=1e-12)


@pytest.mark.parametrize("dimensions", SMALL, ids=NAMES)
def test_all_reduce_bound_is_two_all_gathers_of_a_share(dimensions):
    """A reduce-scatter is an all-gather backwards, and both together make an all-reduce."""
    nodes = math.prod(d.size for d in dimensions)
    gather = best_all_gather(dimensions, SIZE / nodes)

    assert lower_bound(Kind.REDUCE_SCATTER, SIZE, dimensions).seconds == pytest.approx(gather)
    assert lower_bound(Kind.ALL_REDUCE, SIZE, dimensions).seconds == pytest.approx(2 * gather)


@pytest.mark.parametrize("dimensions", SMALL, ids=NAMES)
def test_all_to_all_bound_is_the_exact_optimum(dimensions):
    """Exact on these networks: routes that share the load of each dimension evenly exist."""
    bound = lower_bound(Kind.ALL_TO_ALL, SIZE, dimensions).seconds

    assert bound == pytest.approx(best_all_to_all(dimensions, SIZE), rel=1e-6)


dimension = st.builds(
    lambda kind, both, **values: Dimension(
        kind=kind, bidirectional=both or kind != "ring", **values
    ),
    kind=st.sampled_from(["ring", "switch", "fully_connected"]),
    both=st.booleans(),
    size=st.integers(1, 9),
    bandwidth_bytes_per_s=st.floats(1e8, 1e12),
    lanes=st.integers(1, 4),
    efficiency=st.floats(0.1, 1.0),
    latency_s=st.floats(0, 1e-5),
)
fabrics = st.lists(dimension, min_size=1, max_size=4)


def hierarchical_seconds(kind, size, dimensions):
    """A schedule without latency: dimension by dimension, each phase waits for the one before."""
    total = 0.0
    live = float(size)
    for d in dimensions:
        if d.size == 1:
            continue
        rate = d.bandwidth_bytes_per_s * d.efficiency * d.lanes
        both = d.directions
        per_byte = (d.size - 1) / d.size / rate  # reduce-scatter through one port
        if d.kind.value == "ring":
            per_byte /= both
        elif d.kind.value == "fully_connected":
            per_byte /= d.size - 1
        total += live * per_byte
        live /= d.size
    return 2 * total if kind is Kind.ALL_REDUCE else total


@given(fabrics, st.integers(0, 1 << 40), st.sampled_from([Kind.ALL_REDUCE, Kind.REDUCE_SCATTER]))
def test_bound_without_latency_is_never_above_a_schedule(dimensions, size, kind):
    quick = [replace(d, latency_s=0.0) for d in dimensions]

    bound = lower_bound(kind, size, quick).seconds

    assert bound <= hierarchical_seconds(kind, size, quick) * (1 + 1e-12)


@given(fabrics, st.sampled_from(list(Kind)), st.integers(1, 1 << 40), st.floats(1, 10))
def test_bound_grows_with_size_and_latency_and_shrinks_with_bandwidth(dims, kind, size, factor):
    bound = lower_bound(kind, size, dims).seconds
    faster = [replace(d, bandwidth_bytes_per_s=d.bandwidth_bytes_per_s * factor) for d in dims]
    later = [replace(d, latency_s=d.latency_s * factor) for d in dims]

    assert lower_bound(kind, size + 1, dims).seconds >= bound
    assert lower_bound(kind, size, faster).seconds <= bound * (1 + 1e-12)
    assert lower_bound(kind, size, later).seconds >= bound * (1 - 1e-12)


@given(fabrics, st.sampled_from(list(Kind)), st.integers(1, 1 << 40))
def test_bound_does_not_depend_on_the_order_of_dimensions(dims, kind, size):
    there = lower_bound(kind, size, dims).seconds
    back = lower_bound(kind, size, dims[::-1]).seconds

    assert there == pytest.approx(back, rel=1e-12)


def test_collapsed_groups_set_the_bound_of_an_uneven_torus():
    """4x4x4 with 400, 50 and 50 GB/s: packages must exchange 2 * 15/16 of S over 4 * 100 GB/s."""
    torus = [dim("ring", 4, 200), dim("ring", 4, 25), dim("ring", 4, 25)]

    bound = lower_bound(Kind.ALL_REDUCE, SIZE, torus)

    assert bound.resource == "links of dimension 1 + links of dimension 2"
    assert bound.seconds == pytest.approx(2 * 15 / 16 * SIZE / 400e9)
    injection = next(term for term in bound.terms if term.resource == "injection")
    assert injection.seconds == pytest.approx(2 * 63 / 64 * SIZE / 500e9)


@pytest.mark.parametrize(
    "kind, per_byte",
    [
        (Kind.ALL_REDUCE, 2 * 7 / 8 / 6),
        (Kind.REDUCE_SCATTER, 7 / 8 / 6),
        (Kind.ALL_GATHER, 7 / 6),
        (Kind.ALL_TO_ALL, 7 / 8 / 6),
        (Kind.BROADCAST, 1 / 6),
    ],
)
def test_switch_with_six_ports_is_bound_by_injection(kind, per_byte):
    bound = lower_bound(kind, SIZE, [dim("switch", 8, lanes=6)])

    assert bound.seconds == pytest.approx(per_byte * SIZE / GB)


def test_switch_that_reduces_halves_the_bound_at_most():
    switch = [dim("switch", 16, 25, lanes=6)]

    plain = lower_bound(Kind.ALL_REDUCE, SIZE, switch)
    reducing = lower_bound(Kind.ALL_REDUCE, SIZE, switch, network_reduces=True)

    assert reducing.seconds == pytest.approx(SIZE / 150e9)
    assert plain.seconds / reducing.seconds == pytest.approx(2 * 15 / 16)


def test_latency_is_the_way_to_the_farthest_node():
    dims = [
        dim("ring", 8, latency_s=1e-6),
        dim("ring", 5, latency_s=1e-7, bidirectional=False),
        dim("switch", 3, latency_s=1e-8),
    ]

    bound = lower_bound(Kind.ALL_REDUCE, 1, dims, endpoint=EndpointRates(message_s=1e-9))

    assert bound.resource == "latency"
    assert bound.seconds == pytest.approx(4e-6 + 4e-7 + 2e-8 + 1e-9)


@pytest.mark.parametrize(
    "endpoint, resource, seconds",
    [
        (
            EndpointRates(read_bytes_per_s=1e9, reads_per_byte_sent=1.5),
            "memory read",
            1.5 * 2 * 7 / 8 * SIZE / 1e9,
        ),
        (
            EndpointRates(write_bytes_per_s=1e9, stores_per_byte=1.0, loads_per_byte=1.0),
            "memory write",
            SIZE / 1e9,
        ),
        (EndpointRates(bus_bytes_per_s=1e9, reads_per_byte_sent=1.5), "bus", 1.75 * SIZE / 1e9),
        (EndpointRates(bus_bytes_per_s=1e9, loads_per_byte=1.0), "bus", SIZE / 1e9),
        (EndpointRates(reducer_bytes_per_s=1e9), "reducer", 7 / 8 * SIZE / 1e9),
    ],
)
def test_endpoint_sets_the_bound_where_it_is_the_slowest(endpoint, resource, seconds):
    bound = lower_bound(Kind.ALL_REDUCE, SIZE, [dim("switch", 8, 1000)], endpoint=endpoint)

    assert (bound.resource, bound.seconds) == (resource, pytest.approx(seconds))


def test_memory_traffic_follows_the_collective():
    engine = EndpointRates(
        read_bytes_per_s=1e9, write_bytes_per_s=1e9, loads_per_byte=1.0, stores_per_byte=1.0
    )
    fast = [dim("switch", 8, 1e6)]

    def term(kind, resource):
        terms = lower_bound(kind, SIZE, fast, endpoint=engine).terms
        return next(t.seconds for t in terms if t.resource == resource) * 1e9 / SIZE

    assert term(Kind.ALL_GATHER, "memory read") == 1 and term(Kind.ALL_GATHER, "memory write") == 7
    assert term(Kind.REDUCE_SCATTER, "memory write") == 1 / 8
    assert term(Kind.ALL_TO_ALL, "memory read") == 7 / 8


def test_nothing_to_do_takes_no_time():
    for dims, size in [([dim("ring", 1)], SIZE), ([dim("ring", 4)], 0)]:
        bound = lower_bound(Kind.ALL_REDUCE, size, dims)
        assert (bound.seconds, bound.resource, bound.percent(0.0)) == (0, "nothing to do", 100)


def test_percentage_of_the_bound():
    bound = lower_bound(Kind.BROADCAST, 10**9, [dim("switch", 8)])

    assert bound.percent(2.0) == pytest.approx(50)
    assert bound.percent(1.0) == 100


def test_a_time_below_the_bound_is_an_error():
    bound = lower_bound(Kind.BROADCAST, 10**9, [dim("switch", 8)])

    with pytest.raises(BoundViolation, match=r"took 0\.99 s, less than its lower bound of 1 s"):
        bound.percent(0.99)


def test_bad_size_and_rates_are_refused():
    with pytest.raises(ValueError, match="size_bytes must be at least 0, not -1"):
        lower_bound(Kind.ALL_REDUCE, -1, [dim("ring", 4)])
    with pytest.raises(ValueError, match="bus_bytes_per_s must be above 0 or None, not 0"):
        EndpointRates(bus_bytes_per_s=0)
    with pytest.raises(ValueError, match="message_s must be at least 0, not -1"):
        EndpointRates(message_s=-1)
