# SPDX-License-Identifier: Apache-2.0
"""The emitted switch, with cocotbext-axi as software and endpoints in Python."""

import pytest

from hw.switch.config import preset
from hw.switch.switch import Switch
from tb.runner import simulate

pytestmark = pytest.mark.cosim


@pytest.mark.parametrize(
    "simulator", ["icarus", pytest.param("verilator", marks=pytest.mark.full)], indirect=True
)
def test_emitted_switch_passes_its_bench(simulator: str) -> None:
    results = simulate(
        Switch(preset("test")), "tb.switch.cocotb_switch", top="switch", seed=3,
        parameters={"preset": "test"}, simulator=simulator,
    )

    assert results.ran == {
        "bad_packets_are_dropped_and_the_others_pass",
        "every_member_gets_every_sum",
        "every_member_gets_every_sum_that_is_pulled",
    }
