"""A ring of emitted engines, with cocotbext-axi as hosts and memories."""

import pytest

from hw.ace.config import preset
from tb.ace.ring import EngineRing
from tb.runner import simulate

pytestmark = pytest.mark.cosim

NODES = 3


# One FSM that runs the ring one way; two that run it both ways, each with a memory port. Icarus has
# looked for X in all of the modules with the first.
@pytest.mark.parametrize("name, latency, simulator", [
    ("test", 5, "icarus"),
    ("test", 5, "verilator"),
    ("duo", 1, "verilator"),
    pytest.param("duo", 1, "icarus", marks=pytest.mark.full),
], indirect=["simulator"])
def test_ring_of_three_emitted_engines_passes_its_bench(name, latency, simulator):
    results = simulate(
        EngineRing(preset(name), nodes=NODES, latency=latency),
        "tb.ace.cocotb_ring",
        top="engine_ring",
        seed=latency,
        parameters={"preset": name, "nodes": NODES},
        simulator=simulator,
    )

    assert results.ran == {
        "bad_command_is_refused_and_the_next_all_reduce_works",
        "bad_register_access_is_answered_and_the_next_all_reduce_works",
        "collective_gives_the_golden_bits",
        "collective_without_any_stall_gives_the_golden_bits",
        "commands_beyond_the_queue_are_refused_and_the_others_complete",
        "damaged_header_is_counted_and_the_ring_stays_usable",
        "interrupt_stays_until_it_is_acknowledged_or_masked",
        "memory_error_is_signalled_and_the_next_all_reduce_works",
        "packets_for_a_line_that_stands_still_are_parked_and_sent_later",
        "queued_collectives_wait_for_nodes_that_start_late",
        "reset_forgets_what_was_under_way",
    }
