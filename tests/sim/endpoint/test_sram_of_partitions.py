# SPDX-License-Identifier: Apache-2.0
"""SRAM of partitions by phase: events are as busy as the cycle model counts, copies of phases that
are left among them."""

import numpy as np
import pytest

from sim.results.network import utilisation
from sim.run import run


@pytest.mark.parametrize("style", ["baseline", "enhanced"])
@pytest.mark.parametrize("collective", ["all_gather", "reduce_scatter", "all_reduce"])
def test_sram_is_busy_as_long_as_in_the_cycle_model(collective, style):
    endpoint = {"kind": "ace", "preset": "isca21"}
    described = {
        "topology": {"kind": "torus", "shape": [3, 2]}, "endpoint": endpoint,
        "algorithm": {"style": style}, "run": {"passes": 1},
        "workload": {"collective": collective, "size_bytes": 9 * 36 << 10},
    }
    endpoint["level"] = "cycles"
    done = run(described)
    use = utilisation(done.record, done.job)
    counted_s = float(np.dot(use.units["SRAM"], np.diff(use.edges_s)))
    endpoint["level"] = "events"
    done = run(described)
    busy_s = done.time_s * done.endpoints.value("SRAM", "busy_percent") / 100
    assert busy_s == pytest.approx(counted_s, rel=0.1)
