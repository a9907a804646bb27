# SPDX-License-Identifier: Apache-2.0
"""Descriptions of systems: what is refused, and how topologies turn into links."""

import re

import numpy as np
import pytest

from gen.compile import CompileError
from sim.hosts.activity import LinkActivity
from sim.hosts.wiring import EngineWiring
from sim.network.link import LinkFault
from sim.network.network import Network
from sim.rtl.harness.compile import build_harness
from sim.rtl.harness.specs import (
    HeaderFault,
    LinkDirection,
    LinkSpec,
    MemorySpec,
    NodeSpec,
    PacketFault,
    topology_links,
)
from sim.rtl.harness.system import System


@pytest.mark.parametrize(
    "make, text",
    [
        (lambda: MemorySpec(size_bytes=0), "size_bytes must be at least 1, not 0"),
        (lambda: MemorySpec(size_bytes=100),
         "size_bytes must be a multiple of 128, the widest bus in bytes, not 100"),
        (lambda: MemorySpec(size_bytes=128, read_latency_cycles=0),
         "read_latency_cycles must be at least 1, not 0"),
        (lambda: MemorySpec(size_bytes=128, stall_probability=1.0),
         "stall_probability must be at least 0 and below 1, not 1.0"),
        (lambda: MemorySpec(size_bytes=128, bytes_per_cycle=0),
         "bytes_per_cycle must be above 0 or None, not 0"),
        (lambda: LinkDirection(latency_cycles=0), "latency_cycles must be at least 1, not 0"),
        (lambda: LinkDirection(latency_cycles=1 << 21),
         "latency_cycles must be at most 1048576, not 2097152"),
        (lambda: LinkDirection(beats_per_cycle=1.5),
         "beats_per_cycle must be above 0 and at most 1, not 1.5"),
        (lambda: HeaderFault(node=0, port=0, packet=0, bits=(128,)),
         "bits must be in 0 to 127, not 128"),
        (lambda: PacketFault(node=0, port=0, packet=0, packets=0),
         "packets must be at least 1, not 0"),
        (lambda: topology_links(Network.ring(2, 1e9), clock_hz=0, bus_bytes=16),
         "clock_hz must be above 0, not 0"),
        (lambda: topology_links(Network.ring(2, 25e9), clock_hz=1e9, bus_bytes=16),
         ("bandwidth_bytes_per_s must be at most 1.6e+10, what a bus of 16 B carries at 1e+09 Hz,"
          " not 2.5e+10")),
    ],
)
def test_bad_values_are_named(make, text):
    with pytest.raises(ValueError, match="^" + re.escape(text) + "$"):
        make()


@pytest.mark.parametrize(
    "links, options, text",
    [
        ([LinkSpec(node_a=0, port_a=0, node_b=2, port_b=1)], {},
         "node must be in 0 to 1, not 2"),
        ([LinkSpec(node_a=0, port_a=0, node_b=1, port_b=2)], {},
         "port must be below node 1's 2 link ports, not 2"),
        ([LinkSpec(node_a=0, port_a=0, node_b=1, port_b=1),
          LinkSpec(node_a=1, port_a=0, node_b=0, port_b=0)], {},
         "port 0 of node 0 has two links"),
        ([LinkSpec(node_a=0, port_a=0, node_b=1, port_b=1,
                   forward=LinkDirection(latency_cycles=9),
                   backward=LinkDirection(latency_cycles=4))], {"window_cycles": 5},
         "window_cycles must be in 1 to 4, which is the smallest link latency or 1024, not 5"),
        ([], {"threads": 0}, "threads must be at least 1, not 0"),
        ([], {"faults": [HeaderFault(node=0, port=5, packet=0, bits=(1,))]},
         "port must be below node 0's 2 link ports, not 5"),
        ([], {"faults": [PacketFault(node=2, port=0, packet=0)]},
         "node must be in 0 to 1, not 2"),
    ],
)
def test_systems_that_do_not_fit_together_are_refused(shift_node, links, options, text):
    node = NodeSpec(engine=shift_node(16))

    with pytest.raises(ValueError, match="^" + re.escape(text) + "$"):
        System([node, node], links, **options)


def test_links_join_ports_of_one_width(shift_node):
    nodes = [NodeSpec(engine=shift_node(width)) for width in (16, 32)]

    with pytest.raises(ValueError, match="16 bytes wide, and port 1 of node 1, 32 bytes wide"):
        System(nodes, [LinkSpec(node_a=0, port_a=0, node_b=1, port_b=1)])


def test_unknown_inputs_and_missing_engines_are_named(shift_node, tmp_path):
    with pytest.raises(ValueError, match=r"has no input 'rank'$"):
        System([NodeSpec(engine=shift_node(16), inputs={"rank": 1})])
    with pytest.raises(ValueError, match=r"nothing\.so"):
        System([NodeSpec(engine=tmp_path / "nothing.so")])


def test_nodes_may_have_different_engines(shift_node):
    system = System([NodeSpec(engine=shift_node(width)) for width in (16, 32)])

    assert [node.bus_bytes for node in system.nodes] == [16, 32]
    assert [(node.link_ports, node.memory_ports) for node in system.nodes] == [(2, 1)] * 2


def test_topology_times_become_cycles_and_shares_of_the_bus():
    network = Network.ring(3, 32e9, 90.1e-9)
    links = topology_links(network, clock_hz=1e9, bus_bytes=64)

    assert [(link.node_a, link.node_b, link.port_a, link.port_b) for link in links] == [
        (0, 1, 0, 1), (1, 2, 0, 1), (2, 0, 0, 1),
    ]
    assert {d for link in links for d in link.directions()} == {
        LinkDirection(latency_cycles=91, beats_per_cycle=0.5)
    }


def test_latency_of_router_and_link_add_up_and_headers_are_not_deducted():
    network = Network.ring(4, 19.92e9, 90 / 1.245e9, router_latency_s=1 / 1.245e9, efficiency=0.94)
    links = topology_links(network, clock_hz=1.245e9, bus_bytes=16, stall_probability=0.25)

    assert {d for link in links for d in link.directions()} == {
        LinkDirection(latency_cycles=91, beats_per_cycle=1.0, stall_probability=0.25)
    }


def test_a_slow_link_is_slow_in_its_direction():
    fault = LinkFault(source=1, target=0, bandwidth_factor=0.3, both_ways=False)
    first, second = topology_links(
        Network.ring(2, 16e9, faults=[fault]), clock_hz=1e9, bus_bytes=16
    )

    # Both of the two parallel links of a ring of two lead from 1 to 0.
    assert [d.beats_per_cycle for d in first.directions()] == [1.0, 0.3]
    assert [d.beats_per_cycle for d in second.directions()] == [0.3, 1.0]


def test_a_ring_through_a_torus_numbers_its_nodes_by_rank():
    network = Network.torus((4, 2), bandwidth_bytes_per_s=16e9)
    wiring = EngineWiring.through(network, clock_hz=1e9, bus_bytes=16)
    peers = {(wire.rank, wire.port): (wire.peer, wire.peer_port) for wire in wiring.wires}
    (ring,) = wiring.rings

    assert len(wiring.links) == 16 and [place.node for place in ring] == list(range(8))
    for rank, place in enumerate(ring):
        after = ring[(rank + 1) % 8]
        assert peers[rank, place.next_port] == (after.node, after.previous_port)


def test_a_placement_is_the_order_of_the_ring():
    network = Network.ring(4, 16e9, placement=[2, 1, 0, 3])
    wiring = EngineWiring.through(network, clock_hz=1e9, bus_bytes=16)

    assert [(each.next_port, each.previous_port) for each in wiring.rings[0]] == [(1, 0)] * 4
    assert [(wire.rank, wire.peer) for wire, _ in wiring.links] == [(2, 1), (1, 0), (0, 3), (3, 2)]


def test_harness_is_compiled_once(tmp_path):
    first = build_harness(tmp_path)
    compiled_ns = first.stat().st_mtime_ns

    assert build_harness(tmp_path) == first
    assert first.stat().st_mtime_ns == compiled_ns
    assert {path.name for path in tmp_path.iterdir()} == {first.name, f"{first.name}.sha256"}


def test_missing_compiler_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")

    with pytest.raises(CompileError, match="CXX=no-such-compiler is not on PATH"):
        build_harness(tmp_path)


def activity(cycles, flits, headers):
    none = np.zeros(0, np.uint32)
    return LinkActivity(
        node=0, port=0, beats=len(cycles), flits=sum(flits), header_flits=sum(headers),
        first_cycle=cycles[0], last_cycle=cycles[-1], stalled_cycles=0, bucket_cycles=0,
        beats_per_bucket=none, header_flits_per_bucket=none, payload_flits_per_bucket=none,
        beat_cycles=np.array(cycles, np.uint64), beat_flits=np.array(flits, np.uint32),
        beat_header_flits=np.array(headers, np.uint32),
    )


def test_steady_state_leaves_out_the_first_and_last_tenth_of_the_bytes():
    # A slow start and end, and one gap in between.
    cycles = [0, 50, *range(100, 104), *range(105, 109), 200, 300]
    steady = activity(cycles, [1] * 12, [1, 0] * 6).steady_state()

    assert (steady.first_cycle, steady.cycles, steady.beats) == (50, 151, 10)
    assert steady.beat_share == 10 / 151
    assert steady.payload_share == 0.5


def test_steady_state_of_a_part_of_the_run_ignores_what_came_before():
    cycles = [0, *range(1000, 1020)]
    steady = activity(cycles, [4] * 21, [0] * 21).steady_state(since_cycle=500)

    assert (steady.first_cycle, steady.beats, steady.beat_share) == (1002, 16, 1.0)


def test_steady_state_needs_recorded_beats(ring_of):
    system = ring_of(2, 1)
    system.run()

    with pytest.raises(ValueError, match=r"was the system made with record_beats=True\?"):
        system.link_activity(0, 0).steady_state()
