# SPDX-License-Identifier: Apache-2.0
"""Networks seen by the ports of their nodes."""

import re
from itertools import product

import numpy as np
import pytest

from sim.network.dimension import Dimension
from sim.network.link import LinkFault
from sim.network.network import Network
from sim.network.ports import NetworkPort, Ports

RATE = 25e9


def torus(*sizes: int, **options) -> Ports:
    return Ports(Network.torus(sizes, bandwidth_bytes_per_s=RATE, **options))


def test_ring_leads_on_through_port_0_and_back_through_port_1():
    ports = torus(5)

    assert ports.per_node == 2
    assert [ports.peer(node, 0) for node in range(5)] == [((node + 1) % 5, 1) for node in range(5)]


def test_ring_of_two_has_two_parallel_links():
    assert torus(2).neighbours(0) == {0: NetworkPort(1, 1), 1: NetworkPort(1, 0)}


@pytest.mark.parametrize("lanes", [1, 2])
@pytest.mark.parametrize("shape", [(3,), (2, 2), (4, 4), (2, 3, 4), (1, 3), (3, 1, 2)])
def test_every_port_leads_to_the_neighbour_in_its_direction(shape, lanes):
    ports = torus(*shape, lanes=lanes)

    linked = [dimension for dimension, size in enumerate(shape) if size > 1]
    ways = product(linked, range(lanes), (1, -1))
    for node, (port, (dimension, lane, step)) in product(range(ports.nodes), enumerate(ways)):
        there = ports.network.grid.moved(np.array(node), dimension, step)
        assert ports.peer(node, port) == (there, port + step)
        link = ports.link(node, port)
        assert (link.source, link.target, link.dimension, link.lane) == (
            node, there, dimension, lane,
        )
    assert len(list(ports.pairs())) == ports.nodes * ports.per_node // 2


def test_dimension_of_one_has_no_ports():
    ports = torus(3, 1, 2)

    assert ports.per_node == 4
    assert [ports.link(0, port).dimension for port in range(4)] == [0, 0, 2, 2]


@pytest.mark.parametrize(
    ("dimensions", "count"),
    [
        ([Dimension.ring(2, RATE, single_link=True), Dimension.ring(3, RATE)], 3 + 6),
        ([Dimension.ring(2, RATE, single_link=True, lanes=2)], 2),
        ([Dimension.fully_connected(4, RATE)], 6),
        ([Dimension.ring(3, RATE), Dimension.fully_connected(5, RATE, lanes=2)], 15 + 3 * 20),
        ([Dimension.ring(1, RATE)], 0),
    ],
)
def test_both_ends_of_a_link_agree(dimensions, count):
    network = Network(dimensions)
    ports = Ports(network)
    pairs = list(ports.pairs())
    ends = [end for pair in pairs for end in pair]

    assert len(pairs) == count
    assert sorted(ends) == sorted(product(range(ports.nodes), range(ports.per_node)))
    for a, b in pairs:
        assert (ports.peer(*a), ports.peer(*b)) == (b, a)
        there, back = ports.link(*a), ports.link(*b)
        assert (there.source, there.target) == (back.target, back.source) == (a.node, b.node)
        assert (there.dimension, there.lane) == (back.dimension, back.lane)


def test_each_dimension_has_its_own_rate_and_latency():
    ports = torus(2, 4, latency_s=(90e-12, 500e-12))

    for node in range(8):
        latencies = [ports.link(node, port).latency_fs for port in range(4)]
        assert latencies == [90_000, 90_000, 500_000, 500_000]


def test_a_link_that_is_down_one_way_joins_no_ports():
    ports = torus(4, faults=[LinkFault(source=1, target=2, both_ways=False)])

    assert ports.peer(1, 0) is None
    assert ports.peer(2, 1) is None
    assert ports.neighbours(2) == {0: NetworkPort(3, 1)}
    assert [a.node for a, _ in ports.pairs()] == [0, 2, 3]


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Ports(Network(Dimension.switch(4, RATE))),
         "dimension 0 must have links between nodes, not a switch"),
        (lambda: Ports(Network([Dimension.ring(2, RATE), Dimension.fat_tree(4, 2, RATE)])),
         "dimension 1 must have links between nodes, not a fat_tree"),
        (lambda: torus(4, bidirectional=False),
         "dimension 0 must have links both ways, not one-way rings"),
        (lambda: torus(3).peer(3, 0), "node must be in 0 to 2, not 3"),
        (lambda: torus(3).link(0, 2), "port must be in 0 to 1, not 2"),
    ],
)
def test_bad_values_are_named(make, text):
    with pytest.raises(ValueError, match="^" + re.escape(text) + "$"):
        make()
