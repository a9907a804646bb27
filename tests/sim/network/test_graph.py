"""Topologies from lists of links."""

import re

import pytest

from sim.network.graph import Link, LinkTiming, PortRef, Topology

SLOW = LinkTiming(latency_ps=900, bandwidth_bytes_per_s=1e9)


def test_each_end_of_a_link_sees_the_other():
    topology = Topology(
        nodes=3, ports=2, links=[Link(node_a=0, port_a=1, node_b=2, port_b=0, forward=SLOW)]
    )

    assert topology.peer(0, 1) == PortRef(2, 0)
    assert topology.peer(2, 0) == PortRef(0, 1)
    assert topology.peer(1, 0) is None
    assert topology.neighbours(0) == {1: PortRef(2, 0)}
    assert topology.neighbours(1) == {}


def test_timing_belongs_to_the_direction():
    topology = Topology(
        nodes=2, ports=1, links=[Link(node_a=0, port_a=0, node_b=1, port_b=0, forward=SLOW)]
    )

    assert topology.timing(0, 0) == SLOW
    assert topology.timing(1, 0) == LinkTiming()


@pytest.mark.parametrize(
    "make, text",
    [
        (lambda: Topology(nodes=0, ports=1, links=[]), "nodes must be at least 1, not 0"),
        (lambda: Topology(nodes=2, ports=-1, links=[]), "ports must be at least 0, not -1"),
        (lambda: Topology(nodes=2, ports=1, links=[
            Link(node_a=0, port_a=0, node_b=2, port_b=0)]), "node must be in 0 to 1, not 2"),
        (lambda: Topology(nodes=2, ports=1, links=[
            Link(node_a=0, port_a=0, node_b=1, port_b=1)]),
         "port of node 1 must be in 0 to 0, not 1"),
        (lambda: Topology(nodes=2, ports=1, links=[
            Link(node_a=0, port_a=0, node_b=0, port_b=0)]), "port 0 of node 0 has two links"),
        (lambda: LinkTiming(latency_ps=-5), "latency_ps must be at least 0, not -5"),
        (lambda: LinkTiming(bandwidth_bytes_per_s=0),
         "bandwidth_bytes_per_s must be above 0 or None, not 0"),
        (lambda: Topology(nodes=2, ports=1, links=[]).timing(1, 0),
         "port 0 of node 1 has no link"),
    ],
)  # fmt: skip
def test_bad_values_are_named(make, text):
    with pytest.raises(ValueError, match="^" + re.escape(text) + "$"):
        make()


@pytest.mark.parametrize(
    "make, text",
    [
        (lambda: Topology(nodes=2.0, ports=1, links=[]), "nodes must be an integer, not 2.0"),
        (lambda: LinkTiming(latency_ps=1.5), "latency_ps must be an integer, not 1.5"),
    ],
)
def test_wrong_types_are_named(make, text):
    with pytest.raises(TypeError, match="^" + re.escape(text) + "$"):
        make()
