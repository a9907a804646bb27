# SPDX-License-Identifier: Apache-2.0
"""Routes over listed links are the shortest ways, with the ties that are stated."""

import heapq
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.network.dimension import Dimension, DimensionKind
from sim.network.graph import Graph, GraphLink
from sim.network.link import LinkFault
from sim.network.network import Network
from sim.network.ports import Ports
from sim.network.symmetry import why_not_symmetric


def graph(members, pairs, switches=0, **options):
    links = tuple(GraphLink(source=a, target=b, **options) for a, b in pairs)
    return Graph(members=members, switches=switches, links=links)


def network(*given, **options):
    return Network(Dimension.linked(graph(*given), 50e9, 500e-9), **options)


def ring(size):
    return [(each, (each + 1) % size) for each in range(size)]


def vertices(net, source, links):
    """The vertices of a route, found by following it."""
    found = [source]
    for link in links[links >= 0]:
        assert net.link_source[link] == found[-1]
        found.append(int(net.link_target[link]))
    return found


def way(net, source, target, **options):
    """The vertices of the route between two nodes."""
    nodes = np.arange(net.nodes)
    links = net.routes(nodes, np.full(net.nodes, target), **options)
    return vertices(net, source, links[:, source])


def least(net, source, target):
    """Members entered and links of the best way, by Dijkstra's algorithm over plain numbers."""
    near = [(0, 0, source)]
    seen = set()
    while near:
        members, links, here = heapq.heappop(near)
        if here == target:
            return members, links
        if here in seen:
            continue
        seen.add(here)
        for number in np.flatnonzero(net.link_source == here):
            there = int(net.link_target[number])
            heapq.heappush(near, (members + (there < net.nodes), links + 1, there))
    raise AssertionError("no way")


@st.composite
def graphs(draw):
    members, switches = draw(st.integers(2, 6)), draw(st.integers(0, 4))
    count = members + switches
    order = draw(st.permutations(range(count)))
    tree = [(order[n], order[draw(st.integers(0, n - 1))]) for n in range(1, count)]
    pairs = st.sampled_from(list(permutations(range(count), 2)))
    return members, tree + draw(st.lists(pairs, max_size=8)), switches


@settings(max_examples=60, deadline=None)
@given(graphs(), st.integers(0, 3), st.sampled_from([1, -1]))
def test_every_route_is_a_shortest_way(drawn, lane, tie):
    net = network(*drawn)
    for source, target in permutations(range(net.nodes), 2):
        found = way(net, source, target, lane=lane, tie=tie)
        entered = sum(vertex < net.nodes for vertex in found[1:])
        assert found[-1] == target
        assert (entered, len(found) - 1) == least(net, source, target)


def test_a_ring_is_walked_forwards_where_both_ways_are_equal():
    net = network(6, ring(6))

    assert way(net, 4, 1) == [4, 5, 0, 1]
    assert way(net, 4, 1, tie=-1) == [4, 3, 2, 1]
    assert way(net, 4, 0, tie=-1) == [4, 5, 0]


def test_lanes_take_parallel_links_in_turn():
    net = Network(Dimension.linked(graph(3, ring(3), lanes=2), 50e9))
    taken = [net.shift(0, 1, lane=lane).links[0, 0] for lane in range(3)]

    assert net.link_lane[taken].tolist() == [0, 1, 0]
    assert net.ways(0).rings == 4


def test_a_switch_spreads_traffic_by_destination():
    """Two leaves (4, 5) of two members, four spines (6 to 9)."""
    leaves = [(0, 4), (1, 4), (2, 5), (3, 5)]
    spines = [(leaf, spine) for leaf in (4, 5) for spine in range(6, 10)]
    net = network(4, leaves + spines, 6)

    assert [way(net, 0, goal)[2] for goal in (2, 3)] == [8, 9]
    assert [way(net, source, 2)[2] for source in (0, 1)] == [8, 8]
    assert way(net, 0, 1) == [0, 4, 1]


def test_members_do_not_forward_where_switches_can():
    """From 0 to 3 it is two links by member 1, and three by the switches 4 and 5."""
    net = network(4, [(0, 1), (1, 3), (0, 4), (4, 5), (5, 3), (2, 4)], 2)

    assert way(net, 0, 3) == [0, 4, 5, 3]


def test_lanes_of_a_node_at_several_switches_keep_to_them():
    net = network(4, [(node, switch) for node in range(4) for switch in (4, 5, 6)], 3)
    found = {(lane, way(net, 0, goal, lane=lane, lanes=3)[1])
             for lane in range(3) for goal in range(1, 4)}

    assert net.ways(0).lanes == 3
    assert found == {(0, 4), (1, 5), (2, 6)}


@pytest.mark.parametrize(
    ("given", "shape", "kinds"),
    [
        ((6, ring(6)), None, ["RING"]),
        ((5, list(permutations(range(5), 2))), None, ["FULLY_CONNECTED"]),
        ((4, [(node, 4) for node in range(4)], 1), None, ["SWITCH"]),
        ((8, ring(8) + [(0, 4)]), (4, 2), ["SWITCH", "SWITCH"]),
        ((6, [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3), (0, 3), (1, 4), (2, 5)]), (3, 2),
         ["RING", "RING"]),
    ],
)
def test_dimensions_are_like_what_their_links_make(given, shape, kinds):
    net = network(*given, logical_shape=shape)

    assert [net.ways(each).kind for each in range(len(kinds))] == [
        DimensionKind[kind] for kind in kinds
    ]


def test_routes_go_round_a_link_that_is_down():
    fault = LinkFault(source=1, target=2)
    net = network(5, ring(5), faults=[fault])

    assert way(net, 1, 2) == [1, 0, 4, 3, 2]
    star = [(node, 4) for node in range(4)]
    alone = network(4, star, 1, faults=[LinkFault(source=2, target=4)])
    with pytest.raises(ValueError, match=r"no route from node 0 to node 2 .* links are down"):
        way(alone, 0, 2)


def test_symmetry_is_that_of_the_routes():
    """Four leaves (4 to 7) of one member each: at three spines destinations 0 and 3 share one, and
    the moved ones, 1 and 0, do not; at two or four spines they stay apart or together."""
    reasons = []
    for spines in (2, 3, 4):
        links = [(node, 4 + node) for node in range(4)]
        links += [(4 + leaf, 8 + spine) for leaf in range(4) for spine in range(spines)]
        net = network(4, links, 4 + spines)
        shifts = [(f"shift {each}", net.shift(0, each)) for each in (1, 2, 3)]
        reasons.append(why_not_symmetric(net, shifts))

    assert reasons == [None, "links are shared by other routes at different nodes", None]


def test_groups_of_a_product_have_links_of_their_own():
    star = graph(3, [(0, 3), (1, 3), (2, 3)], 1)
    net = Network([Dimension.linked(star, 50e9), Dimension.ring(2, 25e9)])

    assert net.vertices == 6 + 2
    links = net.routes(np.arange(6), np.array([1, 2, 0, 4, 5, 3]))
    assert [vertices(net, node, links[:, node]) for node in (0, 3, 5)] == [
        [0, 6, 1], [3, 7, 4], [5, 7, 3]
    ]
    assert way(net, 1, 5) == [1, 6, 2, 5]


def test_rates_and_latencies_are_those_of_the_list():
    own = GraphLink(source=0, target=2, bandwidth_bytes_per_s=1e9, latency_s=2e-6)
    plain = GraphLink(source=1, target=2)
    links = Graph(members=2, switches=1, links=(own, plain))
    net = Network(Dimension.linked(links, 4e9, 1e-6, efficiency=0.5, router_latency_s=1e-7))

    assert [net.link(n).bytes_per_s for n in range(4)] == pytest.approx([5e8, 5e8, 2e9, 2e9])
    assert [net.link(n).latency_fs for n in range(4)] == [
        2_100_000_000, 2_000_000_000, 1_100_000_000, 1_000_000_000
    ]
    assert net.dimensions[0].farthest_s == pytest.approx(3.1e-6)
    assert net.dimensions[0].injection_bytes_per_s == pytest.approx(1.25e9)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: graph(3, [(0, 1)]), r"^links must join all: .* from node 0 to node 2$"),
        (lambda: graph(2, [(0, 1)], both_ways=False), r"no way from node 1 to node 0"),
        (lambda: graph(2, [(0, 5)]), r"^target must be a vertex from 0 to 1, not 5$"),
        (lambda: graph(2, [(1, 1)]), r"^target must be another vertex than source, not 1$"),
        (lambda: graph(2, [(0, 1)], lanes=0), r"^lanes must be from 1 to 4096, not 0$"),
        (lambda: graph(2, [(0, 1)], latency_s=-1.0), r"^latency_s must be from 0 to 9000 s"),
        (lambda: graph(5000, [(0, 1)]), r"members x \(members \+ switches\) is at most 16777216"),
        (lambda: Dimension(kind="links", size=2, bandwidth_bytes_per_s=1.0), "graph must be given"),
        (lambda: Dimension(kind="links", size=3, bandwidth_bytes_per_s=1.0,
                           graph=graph(2, [(0, 1)])), "size must be the graph's 2 members, not 3"),
        (lambda: Dimension(kind="ring", size=2, bandwidth_bytes_per_s=1.0,
                           graph=graph(2, [(0, 1)])), "graph must be absent for ring"),
        (lambda: Ports(network(2, [(0, 1)])), "must have links between nodes, not links"),
    ],
)
def test_wrong_lists_are_refused(made, message):
    with pytest.raises(ValueError, match=message):
        made()
