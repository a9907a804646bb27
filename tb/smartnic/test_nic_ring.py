"""Emitted NICs under Icarus, with cocotbext-axi as hosts and ports, and a switch in between."""

import pytest

from hw.smartnic.config import preset
from tb.runner import simulate
from tb.smartnic.nics import NicGroup

pytestmark = pytest.mark.cosim

NODES = 3


def test_three_emitted_nics_behind_a_switch_pass_their_bench():
    results = simulate(
        NicGroup(preset("test"), nodes=NODES),
        "tb.smartnic.cocotb_ring",
        top="nic_group",
        seed=5,
        parameters={"preset": "test", "nodes": NODES},
    )

    assert results.ran == 26
