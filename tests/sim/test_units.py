# SPDX-License-Identifier: Apache-2.0
"""Conversions of units: what is rounded which way, and what is refused."""

import numpy as np
import pytest

from sim.units import beats_per_cycle, cycles_to_fs, fs_per_byte, seconds_to_cycles, seconds_to_fs


@pytest.mark.parametrize(
    ("seconds", "clock_hz", "cycles"),
    [
        (0.0, 1e9, 1),
        (90e-9, 1e9, 90),
        (90.1e-9, 1e9, 91),
        (90 / 1.245e9, 1.245e9, 90),
        (seconds_to_fs(500 / 1.245e9) / 1e15, 1.245e9, 500),
        (1.0, 200e6, 200_000_000),
    ],
)
def test_delays_become_whole_cycles_rounded_up(seconds, clock_hz, cycles):
    assert seconds_to_cycles(seconds, clock_hz) == cycles


def test_a_delay_that_was_rounded_to_a_femtosecond_keeps_its_cycles():
    for clock_hz in (200e6, 1.245e9, 4e9):
        for cycles in range(1, 2000):
            time_fs = int(cycles_to_fs(cycles, clock_hz))
            assert seconds_to_cycles(time_fs / 1e15, clock_hz) == cycles


def test_cycles_of_many_become_femtoseconds_at_once():
    times = cycles_to_fs(np.array([0, 1, 3]), 1.5e9)

    assert times.dtype == np.int64
    assert times.tolist() == [0, 666_667, 2_000_000]


def test_a_rate_is_a_share_of_the_beats_of_a_bus():
    assert beats_per_cycle(32e9, clock_hz=1e9, bus_bytes=64) == 0.5
    # What went through a time per byte is still the whole bus.
    rate = 19.92e9
    for _ in range(3):
        rate = fs_per_byte(fs_per_byte(rate * 0.94)) / 0.94
    assert beats_per_cycle(rate, clock_hz=1.245e9, bus_bytes=16) == 1.0


def test_a_link_faster_than_the_bus_is_refused():
    text = (
        "^bandwidth_bytes_per_s must be at most 1.6e.10, what a bus of 16 B carries at 1e.09 Hz, "
        "not 2.5e.10$"
    )
    with pytest.raises(ValueError, match=text):
        beats_per_cycle(25e9, clock_hz=1e9, bus_bytes=16)
