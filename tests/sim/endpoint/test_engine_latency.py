# SPDX-License-Identifier: Apache-2.0
"""The latency that the engine model assumes is the one that the RTL shows."""

import numpy as np
import pytest

from hw.ace.config import preset
from sim.endpoint.ace import AceEndpoint
from sim.hosts.surroundings import Surroundings
from sim.rtl.ace.ring import AceRing

CONFIG = preset("test")  # of which latencies are measured
LINK_CYCLES = 50
BLOCK = CONFIG.packet_bytes // 4  # elements: one packet


def cycles(nodes: int, collective: str) -> int:
    """From the first register write to the last interrupt, one packet per block."""
    settings = Surroundings(nodes=nodes, latency_cycles=LINK_CYCLES, bidirectional=False, fsms=1)
    cluster = AceRing(CONFIG, settings, window_cycles=1)
    draw = np.random.default_rng(nodes)
    vectors = [draw.standard_normal(BLOCK * nodes).astype(np.float32) for _ in range(nodes)]
    if collective == "reduce-scatter":
        cluster.reduce_scatter(vectors)
    else:
        cluster.all_gather([vector[:BLOCK] for vector in vectors], BLOCK * nodes)
    run = cluster.last_run
    return max(c for c in run.last_host_cycle if c is not None) - run.first_cycle


@pytest.mark.parametrize("collective", ["reduce-scatter", "all-gather"])
def test_a_hop_takes_what_the_model_says(collective):
    # Four more nodes: four more hops, and four more blocks to load or to store.
    beats = CONFIG.packet_bytes // CONFIG.bus_bytes
    more = cycles(8, collective) - cycles(4, collective) - 4 * beats
    hop = more / 4 - LINK_CYCLES - (beats + 1)  # a header is one flit, here one beat
    model = AceEndpoint()
    assert hop == model.receive_cycles + model.alu_cycles
