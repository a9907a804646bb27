# SPDX-License-Identifier: Apache-2.0
"""Links to the outside: what a node sends can be read, and what is put in arrives in time."""

import numpy as np
import pytest

from sim.hosts.command import Command
from sim.hosts.surroundings import Surroundings
from sim.rtl.ace.ring import AceRing
from sim.rtl.harness.library import TOKEN
from sim.rtl.harness.specs import ExternalLink, LinkDirection, LinkSpec, NodeSpec, split_links
from sim.rtl.harness.system import System

LATENCY = 6


def echo(cycles: int, window: int, *, relay: bool) -> dict[str, list[int]]:
    """Two ranks of a ring of two, in one system or in two whose tokens are carried across."""
    settings = Surroundings(nodes=2, latency_cycles=LATENCY, memory_bytes=1 << 14)
    groups = [[0], [1]] if relay else [[0, 1]]
    clusters = [
        AceRing("test", settings, ranks=ranks, window_cycles=window, record_beats=True)
        for ranks in groups
    ]
    for cluster in clusters:
        for node in cluster.system.nodes:
            node.memory[:1024] = np.arange(256, dtype=np.float32).view(np.uint8)
            cluster.start(node, Command(elements=256, destination=4096))
    now = clusters[0].system.cycle
    end = now + cycles
    while now < end:
        then = now + window
        for cluster in clusters:
            cluster.system.advance(then)
        if relay:
            for port in (0, 1):
                for here, there in ((0, 1), (1, 0)):
                    tokens = clusters[here].system.arrivals(0, port, now + LATENCY, then + LATENCY)
                    clusters[there].system.deliver(0, 1 - port, tokens)
        now = then
    nodes = [(c, n) for c in clusters for n in range(len(c.system.nodes))]
    beats = {
        f"{rank} {port}": cluster.system.link_activity(number, port).beat_cycles.tolist()
        for rank, (cluster, number) in enumerate(nodes)
        for port in (0, 1)
    }
    for cluster, number in nodes:
        result = cluster.system.nodes[number].memory[4096 : 4096 + 1024].view(np.float32)
        assert (result == 2 * np.arange(256)).all()
    return beats


def test_tokens_carried_across_two_systems_make_the_run_of_one_system():
    whole = echo(600, LATENCY, relay=False)
    assert all(len(whole[f"{rank} 0"]) > 50 for rank in (0, 1))
    for window in (1, 4, LATENCY):
        assert echo(600, window, relay=True) == whole


def test_a_port_has_one_link(shift_node):
    link = ExternalLink(node=0, port=0, outward=LinkDirection(latency_cycles=2))
    with pytest.raises(ValueError, match="port 0 of node 0 has two links"):
        System([NodeSpec(engine=shift_node(16))], external=[link, link])


def test_a_port_without_a_link_to_the_outside_takes_and_gives_nothing(shift_node):
    system = System([NodeSpec(engine=shift_node(16))], external=[ExternalLink(node=0, port=1)])
    with pytest.raises(ValueError, match="port 0 of node 0 has no link to the outside"):
        system.arrivals(0, 0, 0, 1)
    with pytest.raises(ValueError, match="port 0 of node 0 has no link to the outside"):
        system.deliver(0, 0, np.zeros(1, TOKEN))


def test_links_are_split_into_those_inside_and_those_that_lead_out():
    slow = LinkDirection(latency_cycles=9)
    links = [
        LinkSpec(node_a=0, port_a=0, node_b=1, port_b=1),
        LinkSpec(node_a=1, port_a=0, node_b=2, port_b=1, forward=slow, backward=LinkDirection()),
        LinkSpec(node_a=2, port_a=0, node_b=0, port_b=1, forward=slow),
    ]
    inside, outside = split_links(links, [1, 2])
    assert inside == [
        LinkSpec(node_a=0, port_a=0, node_b=1, port_b=1, forward=slow, backward=LinkDirection())
    ]
    assert outside == [
        ExternalLink(node=0, port=1, outward=LinkDirection(), inward=LinkDirection()),
        ExternalLink(node=1, port=0, outward=slow, inward=slow),
    ]


def test_a_register_may_be_waited_for_to_reach_a_value():
    cluster = AceRing("test", Surroundings(nodes=2, memory_bytes=1 << 14))
    offset = cluster.registers.offset("completed")
    counts = cluster.registers.registers["completed"].pack(count=(1 << 24) - 1)
    for _ in range(2):
        for node in cluster.system.nodes:
            cluster.start(node, Command(elements=64, destination=4096))
        cluster.next_collective()
    waits = [
        [node.wait_at_least(offset, value=number, mask=counts) for number in (0, 1, 2)]
        for node in cluster.system.nodes
    ]
    cluster.system.run(max_cycles=20_000)
    for none, one, two in waits:
        assert none.cycle < one.cycle < two.cycle
        assert two.value & counts == 2
    with pytest.raises(ValueError, match="value 0x10 is above mask 0xf: it is never reached"):
        cluster.system.nodes[0].wait_at_least(offset, value=16, mask=15)
