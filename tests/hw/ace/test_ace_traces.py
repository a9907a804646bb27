# SPDX-License-Identifier: Apache-2.0
"""The tool that compares engines cycle by cycle sees what it is for."""

import numpy as np

from hw.ace.config import preset
from sim.rtl.ace.ring import AceRing
from tests.hw.ace.test_ace_rings import TINY
from tests.hw.ace.traces import changed_bits, differences, disturbed, record, respond


def test_engine_repeats_a_trace_and_another_one_does_not():
    engine = AceRing.compiled(preset("test"))
    stimulus = record(engine, preset("test"), 2)
    response = respond(engine, stimulus)

    assert len(stimulus) > 1000
    assert differences(engine, stimulus, response) == []
    other = differences(AceRing.compiled(TINY), stimulus, response)
    assert any(text.startswith("link_0_tx_tvalid at ") for text in other)


def test_disturbed_trace_is_another_one_that_keeps_the_reset():
    engine = AceRing.compiled(preset("test"))
    stimulus = record(engine, preset("test"), 2)
    noisy = disturbed(engine, stimulus, 0.01, seed=3)

    assert 0.001 < (noisy != stimulus).mean() < 0.02
    assert differences(engine, noisy, respond(engine, stimulus))
    idle = disturbed(engine, stimulus, 0.0, seed=3)
    assert (idle == stimulus).all()


def test_traces_are_compared_bit_by_bit():
    ports = ["clk 1 True", "data 40 False", "valid 1 False"]
    before = np.zeros((5, 3), np.uint32)
    after = before.copy()
    assert changed_bits(before, after, ports) == []
    after[2:4, 1] = 0x81
    after[3, 2] = 1
    assert changed_bits(before, after, ports) == [
        "data: 2 cycles from 2, bits 0x8100000000", "valid: 1 cycles from 3, bits 0x1",
    ]
    assert changed_bits(before, after[:3], ports) == [
        "5 and 3 cycles", "data: 1 cycles from 2, bits 0x8100000000",
    ]
