# SPDX-License-Identifier: Apache-2.0
"""Emitted NICs, with cocotbext-axi as hosts and ports, and a switch in between."""

import pytest

from hw.smartnic.config import preset
from tb.runner import simulate
from tb.smartnic.nics import NicGroup

pytestmark = pytest.mark.cosim

NODES = 3
FEW = {  # for Icarus, which is slow: all modules are at work, errors and an abort among it
    "frame_of_another_epoch_aborts_on_all_nodes_and_the_next_all_reduce_works",
    "memory_error_is_signalled_on_every_node_and_the_next_all_reduce_works",
    "queued_all_reduces_of_all_kinds_wait_for_nodes_that_start_late",
}
ALL = FEW | {
    "all_reduce_gives_the_golden_bits",
    "all_reduce_without_any_pause_gives_the_golden_bits",
    "bad_command_is_refused_and_the_next_all_reduce_works",
    "commands_beyond_the_queue_are_refused_and_the_others_complete",
    "frames_are_ethernet_frames_with_packed_blocks",
    "frames_that_do_not_belong_are_dropped_whole_and_disturb_nothing",
    "host_memory_is_read_once_and_written_once",
    "infinities_and_nans_travel_as_the_golden_model_says",
    "interrupt_stays_until_it_is_acknowledged_or_masked",
    "missing_frame_aborts_on_all_nodes_and_the_next_all_reduce_works",
    "software_gives_up_on_all_nodes_wherever_they_are",
}


@pytest.mark.parametrize("simulator, tests", [
    ("icarus", FEW),
    pytest.param("verilator", ALL, marks=pytest.mark.full),
    pytest.param("icarus", ALL, marks=pytest.mark.full),
], indirect=["simulator"])
def test_three_emitted_nics_behind_a_switch_pass_their_bench(
    simulator: str, tests: set[str]
) -> None:
    design = NicGroup(preset("test"), nodes=NODES)
    told = {"preset": "test", "nodes": NODES}
    results = simulate(
        design, "tb.smartnic.cocotb_ring", top="nic_group", seed=5, simulator=simulator,
        parameters=told, tests=() if tests == ALL else tests,  # all: also one not in ALL
    )

    assert results.ran == tests
