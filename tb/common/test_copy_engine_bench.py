# SPDX-License-Identifier: Apache-2.0
"""The emitted AXI4 reader and writer, against cocotbext-axi."""

import pytest

from tb.common.copy_engine import CopyEngine
from tb.runner import simulate
from tests.families import quick

pytestmark = pytest.mark.cosim


@pytest.mark.parametrize(
    "data_width, max_burst, outstanding", quick(1, [(32, 16, 8), (64, 4, 1), (512, 16, 4)])
)
def test_emitted_copy_engine_passes_its_bench(
    data_width: int, max_burst: int, outstanding: int, simulator: str
) -> None:
    results = simulate(
        CopyEngine(data_width=data_width, max_burst=max_burst, outstanding=outstanding),
        "tb.common.cocotb_copy_engine",
        top="copy_engine",
        seed=data_width,
        simulator=simulator,
        parameters={"lanes": data_width // 8},
    )

    assert results.ran == {
        "copies_arrive_whole_and_nothing_else_changes",
        "refused_writes_are_reported_and_the_next_copy_works",
    }
