"""The emitted stream adder under Icarus."""

import pytest

from hw.fp.stream_adder import StreamAdder
from tb.runner import simulate

pytestmark = pytest.mark.cosim


@pytest.mark.parametrize("stages", [1, 3, 6])
def test_emitted_adder_passes_its_bench(stages):
    results = simulate(
        StreamAdder(stages=stages),
        "tb.fp.cocotb_adder",
        top="stream_adder",
        seed=stages,
        parameters={"stages": stages},
    )

    assert results.ran == {
        "a_sum_comes_after_the_stated_latency_and_one_follows_per_cycle",
        "every_sum_arrives_in_order_with_its_flags",
    }
