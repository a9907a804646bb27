"""Rings, tori, and rings through all nodes of a torus."""

import re
from itertools import product

import pytest

from sim.network.embedding import hamiltonian_cycle, ring_through
from sim.network.graph import LinkTiming, PortRef
from sim.network.torus import Dimension, Torus, ring


def test_ring_leads_on_through_port_0_and_back_through_port_1():
    topology = ring(5)

    assert topology.ports == 2
    assert [topology.peer(node, 0) for node in range(5)] == [
        PortRef((node + 1) % 5, 1) for node in range(5)
    ]


def test_ring_of_two_has_two_parallel_links():
    assert ring(2).neighbours(0) == {0: PortRef(1, 1), 1: PortRef(1, 0)}


def test_dimension_0_varies_fastest():
    torus = Torus([2, 3, 4])

    assert torus.nodes == 24
    assert torus.coordinates(17) == (1, 2, 2)
    assert [torus.node_at(torus.coordinates(node)) for node in range(24)] == list(range(24))


@pytest.mark.parametrize("shape", [(3,), (2, 2), (4, 4), (2, 3, 4), (1, 3), (3, 1, 2)])
def test_every_port_leads_to_the_neighbour_in_its_direction(shape):
    torus = Torus(shape)

    for node, dimension, direction in product(range(torus.nodes), range(len(shape)), (1, -1)):
        if shape[dimension] == 1:
            continue
        assert torus.peer(node, torus.port(dimension, direction)) == PortRef(
            torus.neighbour(node, dimension, direction), torus.port(dimension, -direction)
        )
    assert len(torus.links) == torus.nodes * torus.ports // 2


def test_dimension_of_one_has_no_ports():
    torus = Torus([3, 1, 2])

    assert torus.ports == 4
    assert torus.port(2, 1) == 2
    with pytest.raises(ValueError, match=r"^dimension 1 has size 1 and so no ports$"):
        torus.port(1, 1)


def test_dimension_of_two_may_have_a_single_link():
    torus = Torus([Dimension(size=2, parallel_links=False), 3])

    assert len(torus.links) == 3 + 6
    assert torus.peer(0, torus.port(0, 1)) == PortRef(1, torus.port(0, -1))
    assert torus.peer(0, torus.port(0, -1)) is None


def test_each_dimension_has_its_own_timing():
    near, far = LinkTiming(latency_ps=90), LinkTiming(latency_ps=500, bandwidth_bytes_per_s=25e9)
    torus = Torus([Dimension(size=2, timing=near), Dimension(size=4, timing=far)])

    for node in range(8):
        assert [torus.timing(node, port) for port in range(4)] == [near, near, far, far]


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_every_torus_has_a_ring_through_all_nodes(dimensions):
    for shape in product(range(1, 6), repeat=dimensions):
        torus = Torus(shape)
        if torus.nodes == 1:
            continue

        order = hamiltonian_cycle(torus)
        places = ring_through(torus, order)

        assert order[0] == 0
        assert [place.node for place in places] == list(range(torus.nodes))
        node, visited = 0, []
        for _ in range(torus.nodes):
            visited.append(node)
            assert places[node].rank == len(visited) - 1
            end = torus.peer(node, places[node].next_port)
            assert places[end.node].previous_port == end.port
            assert places[end.node].next_port != end.port, "a ring needs both ports of a node"
            node = end.node
        assert node == 0
        assert visited == order


def test_larger_odd_tori_have_a_ring_too():
    for shape in [(7, 7), (5, 9), (9, 5), (3, 5, 7)]:
        torus = Torus(shape)

        assert len(ring_through(torus, hamiltonian_cycle(torus))) == torus.nodes


def test_ring_through_a_2x2_torus_uses_one_port_of_each_dimension():
    places = ring_through(Torus([2, 2]), hamiltonian_cycle(Torus([2, 2])))

    for place in places:
        assert {place.next_port // 2, place.previous_port // 2} == {0, 1}


def test_any_order_along_links_is_a_ring():
    places = ring_through(ring(4), [2, 1, 0, 3])

    assert [(place.rank, place.next_port, place.previous_port) for place in places] == [
        (2, 1, 0), (1, 1, 0), (0, 1, 0), (3, 1, 0),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "make, text",
    [
        (lambda: ring(1), "nodes of a ring must be at least 2, not 1"),
        (lambda: Torus([]), "dimensions must hold at least one dimension"),
        (lambda: Torus([3, 0]), "size must be at least 1, not 0"),
        (lambda: Dimension(size=3, parallel_links=False),
         "parallel_links=False is for a dimension of size 2, not of size 3"),
        (lambda: Torus([3]).port(1, 1), "dimension must be in 0 to 0, not 1"),
        (lambda: Torus([3]).port(0, 0), "direction must be 1 or -1, not 0"),
        (lambda: Torus([3]).node_at([1, 2]), "coordinates must have 1 entries, not (1, 2)"),
        (lambda: Torus([3]).coordinates(3), "node must be in 0 to 2, not 3"),
        (lambda: ring_through(ring(4), [0, 2, 1, 3]), "node 0 has no unused link to node 2"),
        (lambda: ring_through(ring(4), [0, 1, 0]), "order must not hold a node twice: [0, 1, 0]"),
        (lambda: ring_through(Torus([Dimension(size=2, parallel_links=False)]), [0, 1]),
         "node 1 has no unused link to node 0"),
    ],
)  # fmt: skip
def test_bad_values_are_named(make, text):
    with pytest.raises(ValueError, match="^" + re.escape(text) + "$"):
        make()


def test_wrong_types_are_named():
    with pytest.raises(TypeError, match=r"^size must be an integer, not 2\.5$"):
        Torus([2.5])
