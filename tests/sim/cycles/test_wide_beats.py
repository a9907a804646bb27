# SPDX-License-Identifier: Apache-2.0
"""Packets and READYs that share the beats of a wide bus: the cycle model beside the RTL."""

import numpy as np
import pytest

from sim.describe.build import build
from sim.describe.system import describe
from sim.run import run
from sim.runs.engines import run_on_engines

BUS = 64


def described(
    level: str, *, style: str, pace: float, latency: int, size_bytes: int, nodes: int = 2,
    stalls: float = 0.0,
):
    return {
        "topology": {
            "kind": "torus", "shape": [2, nodes], "bandwidth_bytes_per_s": BUS * 1e9 * pace,
            "latency_s": latency * 1e-9,
        },
        "endpoint": {
            "kind": "ace", "level": level, "preset": "test", "ports": 4, "alus": 4, "fsms": 4,
            "bus_bytes": BUS, "packet_bytes": 4 * BUS, "memory_ports": 2, "banks": 4,
            "program_words": 256, "sram_bytes": 64 << 10, "rx_packets": 32, "tx_packets": 4,
            "npu": {"clock_hz": 1e9},
        },
        "network": {"stall_probability": stalls},
        "memory": {"stall_probability": stalls},
        "algorithm": {"style": style},
        "workload": {"collective": "all_reduce", "size_bytes": size_bytes},
        "run": {"passes": 1},
    }


def assert_model_is_rtl(**options):
    rtl = run(described("rtl", **options))
    description = describe(described("cycles", **options))
    model = run_on_engines(description, build(description), start_cycle=rtl.engines.begin)

    assert rtl.data.exact
    assert model.engines.cycles == rtl.engines.cycles
    for place, link in rtl.engines.links.items():
        other = model.engines.links[place]
        assert (link.beats, link.flits) == (other.beats, other.flits), place
        assert np.array_equal(link.beats_per_bucket, other.beats_per_bucket), place


@pytest.mark.parametrize("style", ["multi_colour", "baseline"])
@pytest.mark.parametrize("pace", [1.0, 0.31])
@pytest.mark.parametrize("latency, size_bytes", [
    (20, 1 << 17), pytest.param(90, 1 << 18, marks=pytest.mark.full),
])
def test_beats_that_packets_share_are_those_of_the_rtl(style, pace, latency, size_bytes):
    assert_model_is_rtl(style=style, pace=pace, latency=latency, size_bytes=size_bytes)


@pytest.mark.parametrize("style", ["multi_colour", "baseline", "halves"])
@pytest.mark.parametrize("latency, size_bytes", [(3, 20_000), (20, 1 << 15)])
def test_a_packet_that_is_offered_while_the_link_stalls_ends_the_wait_of_what_is_held(
    style, latency, size_bytes
):
    assert_model_is_rtl(
        style=style, pace=0.11, latency=latency, size_bytes=size_bytes, nodes=3, stalls=0.15
    )
