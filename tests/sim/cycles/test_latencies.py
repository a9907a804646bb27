# SPDX-License-Identifier: Apache-2.0
"""The latencies in the data file are those of the RTL."""

from dataclasses import asdict, replace

import pytest

from hw.ace.config import preset
from hw.ace.lookup import LOOKUP_LATENCY
from sim.cycles.ace.latencies import Latencies
from sim.rtl.ace.measure import fit


def test_measuring_again_gives_what_is_stored():
    again = ["register_write", "register_read", "command", "chunk", "report", "parse", "event",
             "interrupt"]
    assert fit(again) == Latencies.stored()


@pytest.mark.full
def test_measuring_all_again_gives_what_is_stored():
    assert fit() == Latencies.stored()


def test_an_engine_with_a_large_receive_buffer_parses_a_cycle_later():
    table = Latencies.stored()
    small = table.of(preset("duo"))
    large = table.of(replace(preset("duo"), rx_packets=64))
    assert large["parse"] == small["parse"] + 1
    assert small == asdict(table) | {"lookup": LOOKUP_LATENCY}
