# SPDX-License-Identifier: Apache-2.0
"""A router's latency is paid once for every router that a message passes."""

import numpy as np
import pytest

from sim.network.dimension import Dimension
from sim.network.network import Network
from sim.run import run

LINK, ROUTER = 10e-9, 150e-9
TIMES = {"bandwidth_bytes_per_s": 1e18, "latency_s": LINK, "router_latency_s": ROUTER}


@pytest.mark.parametrize(
    ("dimension", "links", "routers"),
    [
        (Dimension(kind="ring", size=8, **TIMES), 4, 4),
        (Dimension(kind="ring", size=8, bidirectional=False, **TIMES), 7, 7),
        (Dimension(kind="fully_connected", size=8, **TIMES), 1, 1),
        (Dimension(kind="switch", size=8, **TIMES), 2, 1),
        (Dimension(kind="fat_tree", size=8, group=4, spine=False, **TIMES), 3, 2),
        (Dimension(kind="fat_tree", size=8, group=4, **TIMES), 4, 3),
        (Dimension(kind="fat_tree", size=8, group=8, **TIMES), 2, 1),
    ],
)
def test_the_farthest_member_is_links_and_routers_away(dimension, links, routers):
    assert dimension.farthest_s == pytest.approx(links * LINK + routers * ROUTER)

    network = Network([dimension])
    fields = np.array([network.link_source, network.link_target, network.link_latency_fs]).T
    ways = {(source, target): latency for source, target, latency in fields.tolist()}
    away = {0: 0}
    for _ in range(network.vertices):
        for (source, target), latency in ways.items():
            if source in away:
                reached = away[source] + latency
                away[target] = min(reached, away.get(target, reached))
    members = [away[node] for node in range(network.nodes)]
    assert max(members) / 1e15 == pytest.approx(dimension.farthest_s)


def test_neighbours_at_a_switch_and_engines_there_are_as_far_apart():
    at_switch = Dimension(kind="switch", size=4, **TIMES)
    round_trips = run({
        "dimension": [{"kind": "switch", "size": 4, **TIMES}],
        "endpoint": {"kind": "ideal", "delay_s": 0.0},
        "algorithm": {"reductions": ["ring"]},
        "workload": {"collective": "all_gather", "size_bytes": 64},
        "run": {"passes": 1},
    })
    assert round_trips.time_s == pytest.approx(3 * at_switch.hop_s, rel=1e-3)
