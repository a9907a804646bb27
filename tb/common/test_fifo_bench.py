# SPDX-License-Identifier: Apache-2.0
"""The emitted FIFO."""

import pytest

from hw.common.fifo import StreamFIFO
from tb.runner import simulate
from tests.families import quick

pytestmark = pytest.mark.cosim


@pytest.mark.parametrize(
    "depth, memory", quick(2, [(5, False), (64, None), (1, False), (2, False), (6, True)])
)
def test_emitted_fifo_passes_its_bench(depth: int, memory: bool | None, simulator: str) -> None:
    results = simulate(
        StreamFIFO(24, depth, memory=memory),
        "tb.common.cocotb_fifo",
        top="stream_fifo",
        seed=depth,
        simulator=simulator,
        parameters={"width": 24, "depth": depth},
    )

    assert results.ran == {
        "a_full_fifo_stalls_and_holds_its_depth",
        "every_beat_arrives_in_order",
    }
