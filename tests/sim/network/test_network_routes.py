# SPDX-License-Identifier: Apache-2.0
"""Routes lead where they should, over links that exist, around links that do not."""

import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.network.dimension import Dimension, DimensionKind
from sim.network.link import LinkFault
from sim.network.network import Network

fault = partial(LinkFault, both_ways=False)


def dimension(kind: str, size: int, **options: object) -> Dimension:
    values: dict = {"bandwidth_bytes_per_s": 50e9, "latency_s": 500e-9} | options
    return Dimension(kind=kind, size=size, **values)


def walk(network: Network, source: int, links: np.ndarray) -> int:
    """Follows a route link by link."""
    here = source
    for link in links[links >= 0]:
        assert network.link_source[link] == here
        here = network.link_target[link]
    return int(here)


dimensions = st.one_of(
    st.builds(
        dimension,
        st.just("ring"),
        st.integers(1, 6),
        lanes=st.integers(1, 2),
        bidirectional=st.booleans(),
    ),
    st.builds(dimension, st.just("switch"), st.integers(1, 6), lanes=st.integers(1, 3)),
    st.builds(dimension, st.just("fully_connected"), st.integers(1, 5), lanes=st.integers(1, 2)),
    st.builds(
        lambda leaves, group, lanes: dimension(
            "fat_tree", leaves * group, group=group, lanes=lanes
        ),
        st.integers(1, 3),
        st.integers(1, 3),
        st.integers(1, 2),
    ),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(dimensions, min_size=1, max_size=3), st.integers(0, 3), st.data())
def test_every_route_connects_its_ends(dims, lane, data):
    network = Network(dims)
    nodes = np.arange(network.nodes)
    target = np.array(
        data.draw(st.lists(st.integers(0, network.nodes - 1), min_size=network.nodes,
                           max_size=network.nodes))
    )
    links = network.routes(nodes, target, lane=lane)
    for node in nodes:
        assert walk(network, node, links[:, node]) == target[node]
        used = links[:, node][links[:, node] >= 0]
        assert len(set(used.tolist())) == len(used)


@settings(max_examples=40, deadline=None)
@given(st.lists(dimensions, min_size=1, max_size=3))
def test_link_numbers_are_complete_and_per_node_counts_are_as_declared(dims):
    network = Network(dims)
    for index, dim in enumerate(dims):
        leaving = network.link_source[network.link_dimension == index]
        counts = np.bincount(leaving, minlength=network.vertices)[: network.nodes]
        assert (counts == dim.links_per_node).all()
    assert (network.link_source < network.vertices).all()
    assert (network.link_target < network.vertices).all()


def test_a_ring_takes_the_shorter_way():
    network = Network([dimension("ring", 8)])
    hops = [(network.shift(0, d).links >= 0).sum(axis=0).max() for d in range(1, 8)]
    assert hops == [1, 2, 3, 4, 3, 2, 1]


def test_a_route_goes_round_a_failed_link():
    network = Network([dimension("ring", 5)], faults=[fault(source=1, target=2)])
    channel = network.shift(0, 1, direction=1)
    lengths = (channel.links >= 0).sum(axis=0)
    assert lengths.tolist() == [1, 4, 1, 1, 1]
    assert walk(network, 1, channel.links[:, 1]) == 2


def test_no_way_round_is_an_error():
    faults = [fault(source=1, target=2), fault(source=1, target=0)]
    network = Network([dimension("ring", 5)], faults=faults)
    with pytest.raises(ValueError, match="no route from node 1"):
        network.shift(0, 1, direction=1)


@pytest.mark.parametrize("hop", [0, -1])
@pytest.mark.parametrize(
    ("kind", "size", "options"),
    [
        ("ring", 2, {"single_link": True}),
        ("fully_connected", 4, {}),
        ("switch", 4, {}),
        ("fat_tree", 4, {"group": 2}),
    ],
)
def test_where_there_is_no_ring_the_next_lane_carries_what_a_failed_link_did(
    kind, size, options, hop
):
    dims = [dimension(kind, size, lanes=2, **options)]
    whole = Network(dims)
    faults = [
        fault(source=whole.link_source[link], target=whole.link_target[link], lane=lane)
        for lane in range(2)
        for link in [whole.shift(0, 1, lane=lane).links[hop, 1]]
    ]
    network = Network(dims, faults=faults[:1])
    channel = network.shift(0, 1)
    assert (channel.links[:, 1] == whole.shift(0, 1, lane=1).links[:, 1]).all()
    assert walk(network, 1, channel.links[:, 1]) == channel.peer[1]
    with pytest.raises(ValueError, match=r"no route from node 1 to node .* on every lane"):
        Network(dims, faults=faults).shift(0, 1)


def test_a_slow_link_is_slower_by_its_factor():
    slow = fault(source=0, target=1, bandwidth_factor=0.25)
    network = Network([dimension("ring", 4)], faults=[slow])
    rates = network.link_fs_per_byte
    assert sorted(rates / rates.min())[-1] == pytest.approx(4)
    assert (rates > rates.min()).sum() == 1


def test_a_fault_concerns_both_directions_unless_told_otherwise():
    slow = LinkFault(source=0, target=1, bandwidth_factor=0.5)
    network = Network.ring(4, 50e9, faults=[slow])
    hit = network.link_fs_per_byte > network.link_fs_per_byte.min()

    ends = zip(network.link_source[hit].tolist(), network.link_target[hit].tolist())
    assert sorted(ends) == [(0, 1), (1, 0)]
    with pytest.raises(ValueError, match=r"^there is no link from 1 to 0$"):
        Network.ring(4, 50e9, bidirectional=False, faults=[slow])


def test_a_fault_must_name_a_link():
    with pytest.raises(ValueError, match="no link from 0 to 2"):
        Network([dimension("ring", 4)], faults=[fault(source=0, target=2)])


def test_logical_neighbours_may_be_far_apart():
    network = Network([dimension("ring", 16)], logical_shape=(4, 4))
    channel = network.shift(1, 1)
    assert channel.peer.tolist() == [(n + 4) % 16 for n in range(16)]
    assert (channel.links >= 0).sum(axis=0).tolist() == [4] * 16


def test_a_placement_moves_ranks():
    order = [3, 1, 0, 2]
    network = Network([dimension("ring", 4)], placement=order)
    peer = network.shift(0, 1).peer
    assert [int(peer[order[rank]]) for rank in range(4)] == [order[(r + 1) % 4] for r in range(4)]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"logical_shape": (3, 3)}, "logical_shape must multiply to the 16 nodes"),
        ({"placement": [0] * 16}, "placement must be a permutation"),
    ],
)
def test_what_does_not_fit_is_refused(options, text):
    with pytest.raises(ValueError, match=text):
        Network([dimension("ring", 4), dimension("ring", 4)], **options)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"kind": "star"}, "kind must be one of ring, switch, fully_connected, fat_tree"),
        ({"size": 0}, "size must be at least 1"),
        ({"bandwidth_bytes_per_s": 0}, "bandwidth_bytes_per_s must be above 0"),
        ({"latency_s": -1}, "latency_s must be at least 0"),
        ({"efficiency": 1.5}, "efficiency must be above 0 and at most 1"),
        ({"lanes": 0}, "lanes must be at least 1"),
        ({"single_link": True}, "single_link is for a ring of size 2 only"),
        ({"group": 2}, "group is for a fat tree only"),
        ({"kind": "fat_tree", "group": 3}, "group must divide the size 4"),
        ({"kind": "fat_tree", "group": 2, "trunk_bandwidth_bytes_per_s": 0}, "must be above 0"),
        ({"trunk_bandwidth_bytes_per_s": 1e9}, "trunk_bandwidth_bytes_per_s is for a fat tree"),
        ({"spine": False}, "spine=False is for a fat tree only"),
        ({"kind": "switch", "bidirectional": False}, "bidirectional=False is for rings only"),
    ],
)
def test_bad_dimensions_are_refused(values, text):
    with pytest.raises(ValueError, match=text):
        dimension(**({"kind": "ring", "size": 4} | values))


def test_routes_for_which_memory_does_not_suffice_are_refused(monkeypatch):
    network = Network([dimension("ring", 8)])
    for limit in ("LEAST_HOPS", "MOST_HOPS"):
        monkeypatch.setattr(f"sim.network.network.{limit}", 8 * (1 + 2 + 3))
    for distance in (1, 2, 3, 1):
        network.shift(0, distance)
    with pytest.raises(ValueError, match="routes over 8 ring need more than the 48 hops"):
        network.shift(0, 4)


def test_dgx2_has_two_groups_of_six_switches():
    network = Network([dimension("fat_tree", 16, group=8, lanes=6, spine=False)])
    assert network.vertices == 16 + 12
    same, other = network.shift(0, 1), network.shift(0, 8)
    assert (other.links >= 0).sum(axis=0).tolist() == [3] * 16
    assert (same.links[:, 0] >= 0).sum() == 2


def test_names_of_kinds_are_accepted_as_text():
    assert dimension("switch", 4).kind is DimensionKind.SWITCH
    assert math.isclose(dimension("ring", 4, efficiency=0.5).payload_bytes_per_s, 25e9)


def test_a_failed_link_in_a_torus_is_gone_round_within_its_ring():
    torus = [dimension("ring", 4), dimension("ring", 4)]
    network = Network(torus, faults=[fault(source=0, target=4)])
    assert (network.shift(0, 1, direction=1).links >= 0).sum() == 16
    channel = network.shift(1, 1, direction=1)
    assert (channel.links >= 0).sum(axis=0).tolist() == [3] + [1] * 15
