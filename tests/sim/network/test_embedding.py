# SPDX-License-Identifier: Apache-2.0
"""Rings through all nodes of a torus."""

import re
from itertools import product

import pytest

from sim.network.embedding import (
    hamiltonian_cycle,
    hamiltonian_cycles,
    hamiltonian_rings,
    ring_through,
)
from sim.network.link import LinkFault
from sim.network.network import Network
from sim.network.ports import Ports


def torus(*sizes: int, **options) -> Network:
    return Network.torus(sizes, bandwidth_bytes_per_s=25e9, **options)


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_every_torus_has_a_ring_through_all_nodes(dimensions):
    for shape in product(range(1, 6), repeat=dimensions):
        network = torus(*shape)
        if network.nodes == 1:
            continue

        order = hamiltonian_cycle(network)
        ports = Ports(network)
        places = ring_through(ports, order)

        assert order[0] == 0
        assert sorted(order) == list(range(network.nodes))
        assert [place.node for place in places] == order
        for place, following in zip(places, [*places[1:], places[0]]):
            end = ports.peer(place.node, place.next_port)
            assert end == (following.node, following.previous_port)
            assert place.next_port != place.previous_port, "a ring needs both ports of a node"


def test_larger_odd_tori_have_a_ring_too():
    for shape in [(7, 7), (5, 9), (9, 5), (3, 5, 7)]:
        network = torus(*shape)

        assert len(ring_through(Ports(network), hamiltonian_cycle(network))) == network.nodes


def test_ring_through_a_2x2_torus_uses_one_port_of_each_dimension():
    network = torus(2, 2)

    for place in ring_through(Ports(network), hamiltonian_cycle(network)):
        assert {place.next_port // 2, place.previous_port // 2} == {0, 1}


def test_any_order_along_links_is_a_ring():
    places = ring_through(Ports(torus(4)), [2, 1, 0, 3])

    assert [(place.node, place.next_port, place.previous_port) for place in places] == [
        (2, 1, 0), (1, 1, 0), (0, 1, 0), (3, 1, 0),
    ]


def test_a_second_lane_stands_in_for_a_link_that_is_down():
    places = ring_through(Ports(torus(4, lanes=2, faults=[LinkFault(source=1, target=2, lane=0)])),
                          [0, 1, 2, 3])

    assert [(place.next_port, place.previous_port) for place in places] == [
        (0, 1), (2, 1), (0, 3), (0, 1),
    ]


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: ring_through(Ports(torus(1)), [0]), "a ring must have at least 2 nodes, not 1"),
        (lambda: ring_through(Ports(torus(4)), [0, 2, 1, 3]),
         "node 0 has no unused link to node 2"),
        (lambda: ring_through(Ports(torus(4)), [0, 1, 0]),
         "order must not hold a node twice: [0, 1, 0]"),
        (lambda: ring_through(Ports(torus(2, single_link=True)), [0, 1]),
         "node 1 has no unused link to node 0"),
        (lambda: ring_through(Ports(torus(4, faults=[LinkFault(source=1, target=2)])),
                              [0, 1, 2, 3]),
         "node 1 has no unused link to node 2"),
    ],
)
def test_bad_values_are_named(make, text):
    with pytest.raises(ValueError, match="^" + re.escape(text) + "$"):
        make()


def used_once(rings, network):
    """Ports of all rings, each at most once, and both ends of every hop the same link."""
    ports = Ports(network)
    used = set()
    for ring in rings:
        for here, after in zip(ring, [*ring[1:], ring[0]]):
            assert ports.peer(here.node, here.next_port) == (after.node, after.previous_port)
            used |= {(here.node, here.next_port), (here.node, here.previous_port)}
    return len(used)


@pytest.mark.parametrize(
    "sizes", [(3,), (7,), (3, 3), (3, 4), (4, 4), (5, 3), (3, 64), (3, 3, 3), (4, 4, 4), (3, 4, 5),
              (5, 5, 5), (3, 3, 3, 3), (4, 1, 3), (12, 12, 12)], ids=str
)
def test_hamiltonian_rings_use_every_link_of_a_torus_once(sizes):
    network = torus(*sizes)
    rings = hamiltonian_rings(network)

    assert len(rings) == sum(size > 1 for size in sizes)
    assert all(sorted(place.node for place in ring) == list(range(network.nodes)) for ring in rings)
    assert used_once(rings, network) == network.nodes * Ports(network).per_node


def test_lanes_have_hamiltonian_rings_of_their_own():
    network = torus(3, 4, lanes=2)
    assert used_once(hamiltonian_rings(network), network) == 12 * Ports(network).per_node == 96


def test_what_has_no_hamiltonian_rings_is_named():
    with pytest.raises(ValueError, match=r"shape must be 3 or more in every dimension, not \(4, 2"):
        hamiltonian_rings(torus(4, 2))
    with pytest.raises(ValueError, match="shape must be of at most 65536 nodes"):
        hamiltonian_cycles([10**9, 3])
    two, one = torus(3, lanes=2).dimensions[0], torus(3).dimensions[0]
    with pytest.raises(ValueError, match="lanes must be alike in all dimensions, not 2, 1"):
        hamiltonian_rings(Network((two, one)))
