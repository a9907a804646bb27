# SPDX-License-Identifier: Apache-2.0
"""Latencies of the event ACE, which are measured on a ring, are those of its rings in tori."""

from dataclasses import replace
from itertools import accumulate

import numpy as np
import pytest

from hw.ace.config import preset
from sim.cycles.ace.model import EngineModel
from sim.cycles.measure import SCRIPT, measured_ring
from sim.endpoint.latencies import EventLatencies
from sim.hosts.command import Command
from sim.hosts.wiring import EngineWiring
from sim.network.network import Network
from sim.run import run

CLOCK = 1e9
SEARCH = 4
"""Cycles by which a READY may be earlier or later: its context is looked at again and again, and
those of other contexts, which go to its port every other cycle, may go first."""


@pytest.mark.parametrize(
    "shape, cycles", [((3, 3), (20, 50)), ((3, 4), (50, 20)), ((3, 3, 3), (20, 50, 30))], ids=str
)
def test_hops_of_a_torus_take_what_is_stored_and_their_own_links(shape, cycles):
    """A packet for each block. The one that node 0 sends in step m began m places before it, when
    that node had its READY, and crossed the links between."""
    nodes, base = int(np.prod(shape)), preset("test")
    config = replace(base, ports=2 * len(shape), max_nodes=32, program_words=512)
    network = Network.torus(
        shape, bandwidth_bytes_per_s=config.bus_bytes * CLOCK,
        latency_s=tuple(each / CLOCK for each in cycles),
    )
    wiring = EngineWiring.hamiltonian(network, clock_hz=CLOCK, bus_bytes=config.bus_bytes)
    wires = [wire for link in wiring.links for wire in link]
    latency = {(wire.rank, wire.port): wire.latency_cycles for wire in wires}
    command = Command(elements=nodes * config.packet_elements, destination=1 << 20)
    ring = measured_ring(nodes=nodes, fsms=1, wiring=wiring)
    model = EngineModel(config, ring, [command], [SCRIPT] * nodes, trace=True)
    model.run()
    places = wiring.rings[0]
    links = [latency[each.node, each.next_port] for each in places]
    begins = []
    for each, link in zip(places, links):
        sent = model.link_activity(each.node, each.next_port)
        loaded = int(model.state.loader["arrives"][each.node].max())
        begins.append(int(sent.beat_cycles[0]) - loaded - link - config.packet_beats)
    known = EventLatencies.stored()
    assert np.abs(np.array(begins) - known.ace_ready).max() <= SEARCH

    sent = model.link_activity(places[0].node, places[0].next_port)
    found = sent.beat_cycles[sent.beat_header_flits > 0][: nodes - 1]
    back = links[:0:-1]  # of the places before node 0, the nearest first
    hop = 2 * config.packet_beats + 1 + known.ace_hop
    ways = accumulate(back, initial=0)
    began = [begins[0], *begins[:0:-1]]
    expected = [
        step * hop + way + link - links[0] + begin - begins[0] for step, way, link, begin in zip(
            range(nodes - 1), ways, [links[0], *back], began
        )
    ]
    assert (found - found[0] - expected).tolist() == [0] * (nodes - 1)


@pytest.mark.parametrize("shape, style, collective", [
    ((2, 2), "baseline", "all_reduce"), ((3, 2, 2), "baseline", "all_reduce"),
    ((2, 2, 2), "enhanced", "all_reduce"), ((2, 2, 2), "dimension_ordered", "all_reduce"),
    ((2, 4), "dimension_ordered", "all_reduce"), ((3, 2), "halves", "all_reduce"),
    ((2, 2), "multi_colour", "all_reduce"), ((3, 2, 2), "multi_colour", "all_reduce"),
    ((4, 4), "baseline", "reduce_scatter"), ((4, 4), "halves", "reduce_scatter"),
    ((2, 2, 2), "dimension_ordered", "all_gather"), ((3, 2, 2), "multi_colour", "all_gather"),
], ids=str)
def test_a_small_collective_crosses_as_many_links_as_in_the_cycle_model(shape, style, collective):
    """READYs are hops, too: of each phase but those of gathers, which are told a phase ahead. Where
    a scatter and a gather of a dimension meet, they are one all-reduce."""
    hops = {}
    for level in ("events", "cycles"):
        times = [
            run({
                "topology": {"kind": "torus", "shape": list(shape), "latency_s": latency_s,
                             "bandwidth_bytes_per_s": 16 * CLOCK},
                "algorithm": {"style": style},
                "endpoint": {
                    "kind": "ace", "level": level, "preset": "duo", "ports": 2 * len(shape),
                    "fsms": 2 * len(shape), "max_nodes": 16, "program_words": 256,
                    "sram_bytes": 128 << 10, "npu": {"clock_hz": CLOCK},
                },
                "workload": {"collective": collective, "size_bytes": 4},
                "run": {"passes": 1},
            }).time_s
            for latency_s in (1e-7, 1.1e-6)
        ]
        hops[level] = (times[1] - times[0]) / 1e-6
    polls = 2 * EventLatencies.stored().ace_poll / CLOCK / 1e-6
    assert hops["events"] == pytest.approx(hops["cycles"], abs=polls)
