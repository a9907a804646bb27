# amaranth: UnusedElaboratable=no
# SPDX-License-Identifier: Apache-2.0
"""The stream blocks at full width, compiled to native code, over many cycles."""

from collections import deque

import numpy as np
import pytest

from gen.compile import compile_model
from hw.common.fifo import StreamFIFO
from hw.common.skid import SkidBuffer
from tb.common.copy_engine import CopyEngine

CYCLES = 20_000
WORDS = 16


@pytest.mark.parametrize("valid, ready", [(1.0, 1.0), (0.9, 0.5), (0.5, 0.9)])
@pytest.mark.parametrize(
    "name, make, depth, latency",
    [
        ("skid", lambda: SkidBuffer(32 * WORDS), 2, 1),
        ("fifo_lut", lambda: StreamFIFO(32 * WORDS, 21), 21, 1),
        ("fifo_block", lambda: StreamFIFO(32 * WORDS, 64), 64, 2),
    ],
    ids=["skid", "fifo-lut", "fifo-block"],
)
def test_wide_queue_loses_nothing_in_many_cycles(name, make, depth, latency, valid, ready):
    rng = np.random.default_rng(3)
    model = compile_model(make(), name=name)
    stimulus = {
        "i_valid": rng.random(CYCLES) < valid,
        "i_payload": rng.integers(0, 1 << 32, (CYCLES, WORDS), dtype=np.uint32),
        "o_ready": rng.random(CYCLES) < ready,
    }
    stimulus["i_valid"][0] = False  # cycle 0 is not looked at

    with model.instance() as queue:
        shown = queue.run(stimulus, ["i_ready", "o_valid", "o_payload"])

    # Row k of what is shown holds after cycle k, so it is what cycle k + 1 sees.
    held = deque()
    passed = 0
    for cycle in range(1, CYCLES):
        if shown["o_valid"][cycle - 1] and stimulus["o_ready"][cycle]:
            sent = held.popleft()
            assert np.array_equal(shown["o_payload"][cycle - 1], stimulus["i_payload"][sent])
            passed += 1
        if shown["i_ready"][cycle - 1] and stimulus["i_valid"][cycle]:
            held.append(cycle)
        assert len(held) <= depth
    assert model.single_pass
    if valid == ready == 1.0:
        assert passed == CYCLES - 1 - latency
    assert passed > 0.45 * CYCLES


def test_axi_blocks_settle_in_one_evaluation():
    model = compile_model(CopyEngine(data_width=64), name="copy_engine")

    assert model.single_pass
