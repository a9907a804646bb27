# SPDX-License-Identifier: Apache-2.0
"""The emitted endpoint under Icarus, with cocotbext-axi as host and memory, a switch in Python."""

import pytest

from hw.switch_dma.config import preset
from hw.switch_dma.dma import SwitchDma
from tb.runner import simulate

pytestmark = pytest.mark.cosim


def test_emitted_endpoint_passes_its_bench() -> None:
    results = simulate(
        SwitchDma(preset("test")), "tb.switch_dma.cocotb_switch_dma", top="switch_dma", seed=3,
        parameters={"preset": "test"},
    )

    assert results.ran == {
        "a_later_epoch_is_followed",
        "a_partial_without_a_place_aborts",
        "all_reduces_of_all_kinds",
        "another_contract_aborts",
        "bad_packets_are_dropped_and_the_others_pass",
        "memory_errors_are_told",
    }
