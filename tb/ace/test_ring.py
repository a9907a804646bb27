"""A ring of emitted engines under Icarus, with cocotbext-axi as hosts and memories."""

import pytest

from hw.ace.config import preset
from tb.ace.ring import EngineRing
from tb.runner import simulate

pytestmark = pytest.mark.cosim

NODES = 3


# One FSM that runs the ring one way; two that run it both ways, each with a memory port.
@pytest.mark.parametrize("name, latency", [("test", 5), ("duo", 1)])
def test_ring_of_three_emitted_engines_passes_its_bench(name, latency):
    results = simulate(
        EngineRing(preset(name), nodes=NODES, latency=latency),
        "tb.ace.cocotb_ring",
        top="engine_ring",
        seed=latency,
        parameters={"preset": name, "nodes": NODES},
    )

    assert results.ran == 21
