# SPDX-License-Identifier: Apache-2.0
"""What the cycle model of switches refuses, and failed links that cut endpoints off."""

import pytest

from sim.cycles.switch.model import AllReduceJob, SwitchSettings
from sim.run import run


@pytest.mark.parametrize("wrong", [{"elements": 0}, {"source": -1}, {"destination": -32}])
def test_jobs_that_cannot_be(wrong):
    (name,) = wrong
    with pytest.raises(ValueError, match=rf"^{name} must be at least \d, not "):
        AllReduceJob(**{"elements": 32, **wrong})


@pytest.mark.parametrize("wrong", [
    {"latency_cycles": 0}, {"router_cycles": -1}, {"timeout_cycles": -1}, {"waves": 0},
    {"read_latency_cycles": [4, -1]}, {"buffer_packets": 0}, {"stalls": 1.0},
])
def test_surroundings_that_cannot_be(wrong):
    (name,) = wrong
    with pytest.raises(ValueError, match=rf"^{name} must be "):
        SwitchSettings(**wrong)


def test_links_that_failed_are_named():
    with pytest.raises(ValueError, match=r"scenario\.link: links that failed cut NPUs off"):
        run({
            "topology": {"kind": "switch", "shape": [4], "bandwidth_bytes_per_s": 25e9},
            "endpoint": {"kind": "ideal"}, "scenario": {"link": [{"source": 0, "target": 4}]},
            "workload": {"collective": "all_reduce", "size_bytes": 16384},
        })
