# SPDX-License-Identifier: Apache-2.0
"""Rings of smart NICs over links with retry that lose, repeat and damage frames: exact."""

import numpy as np
import pytest

from hw.link.retry_frame import RetryConfig
from hw.smartnic.config import preset
from sim.hosts.surroundings import Surroundings
from sim.rtl.smartnic.ring import NicRing
from tb.link.lossy import bad_wires

RETRY = RetryConfig(slots=16, timeout_cycles=180, tries=30)


@pytest.mark.full
@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("nodes, latency, probability", [(2, 2, 0.0), (4, 9, 0.05)])
def test_all_reduces_are_exact(nodes, latency, probability, compress):
    settings = Surroundings(nodes=nodes, latency_cycles=latency, memory_bytes=1 << 17, seed=nodes,
                            retry=RETRY, **bad_wires(probability))
    ring = NicRing(preset("test"), settings)
    inputs = [np.random.default_rng(rank).standard_normal(2000).astype(np.float32)
              for rank in range(nodes)]

    results = ring.all_reduce(inputs, compress=compress)

    golden = ring.golden(inputs, compress=compress).tobytes()
    assert all(each.tobytes() == golden for each in results)
    struck = sum(ring.system.struck(rank, port) for rank in range(nodes) for port in (0, 1))
    assert struck > 5 * nodes or not probability
