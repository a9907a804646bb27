# SPDX-License-Identifier: Apache-2.0
"""A ring of emitted engines, with cocotbext-axi as hosts and memories."""

import pytest

from hw.ace.config import preset
from tb.ace.ring import EngineGroup
from tb.runner import simulate

pytestmark = pytest.mark.cosim

NODES = 3


FEW = {  # for Icarus, which is slow: all modules are at work, errors and a reset among it
    "memory_error_is_signalled_and_the_next_all_reduce_works",
    "queued_collectives_wait_for_nodes_that_start_late",
    "reset_forgets_what_was_under_way",
}
ALL = FEW | {
    "bad_command_is_refused_and_the_next_all_reduce_works",
    "bad_register_access_is_answered_and_the_next_all_reduce_works",
    "collective_gives_the_golden_bits",
    "collective_without_any_stall_gives_the_golden_bits",
    "commands_beyond_the_queue_are_refused_and_the_others_complete",
    "damaged_header_is_counted_and_the_ring_stays_usable",
    "interrupt_stays_until_it_is_acknowledged_or_masked",
    "packets_for_a_line_that_stands_still_are_parked_and_sent_later",
}


# One FSM that runs the ring one way; two that run it both ways, each with a memory port.
@pytest.mark.parametrize("name, latency, simulator, tests", [
    ("test", 5, "icarus", FEW),
    pytest.param("duo", 1, "verilator", ALL, marks=pytest.mark.full),
    pytest.param("test", 5, "icarus", ALL, marks=pytest.mark.full),
    pytest.param("test", 5, "verilator", ALL, marks=pytest.mark.full),
    pytest.param("duo", 1, "icarus", ALL, marks=pytest.mark.full),
], indirect=["simulator"])
def test_ring_of_three_emitted_engines_passes_its_bench(
    name: str, latency: int, simulator: str, tests: set[str]
) -> None:
    results = simulate(
        EngineGroup(preset(name), nodes=NODES, latency=latency),
        "tb.ace.cocotb_ring",
        top="engine_group",
        seed=latency,
        parameters={"preset": name, "nodes": NODES},
        simulator=simulator,
        tests=() if tests == ALL else tests,  # all: also one that ALL does not name
    )

    assert results.ran == tests
