# SPDX-License-Identifier: Apache-2.0
"""The emitted lane array."""

import pytest

from hw.fp.alu import ReduceALU
from tb.runner import simulate
from tests.families import quick

pytestmark = pytest.mark.cosim


@pytest.mark.parametrize("stages", quick(1, [6, 1, 3]))
def test_emitted_lanes_pass_their_bench(stages: int, simulator: str) -> None:
    results = simulate(
        ReduceALU(2, stages=stages),
        "tb.fp.cocotb_alu",
        top="reduce_alu",
        seed=stages,
        simulator=simulator,
        parameters={"lanes": 2, "stages": stages},
    )

    assert results.ran == {"every_result_comes_after_the_stated_latency"}
