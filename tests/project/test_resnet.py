# SPDX-License-Identifier: Apache-2.0
import pytest

from sim.demo.resnet import (
    GradientSize,
    Measurement,
    gradient_sizes,
    longest_that_fits,
    measure_layers,
    results_table,
)
from sim.workload.astra_text import shipped

SIZES = [GradientSize(size_bytes=size, layers=(f"l{size}",)) for size in (40960, 409600, 4096000)]


def machine(seconds_per_byte, calls):
    def simulate(size_bytes):
        calls.append(size_bytes)
        return Measurement(
            cycles=size_bytes // 10,
            link_share=0.9,
            exact=True,
            wall_s=size_bytes * seconds_per_byte,
        )

    return simulate


def test_equal_layers_of_resnet50_are_gathered_and_none_is_lost():
    sizes = gradient_sizes(shipped("resnet50"))

    assert len(sizes) == 15
    assert sum(len(size.layers) for size in sizes) == 54
    assert sum(size.size_bytes * len(size.layers) for size in sizes) == 102011648
    assert sizes == sorted(sizes, key=lambda size: size.size_bytes)


def test_fast_machine_runs_every_size_whole():
    calls = []

    results = measure_layers(SIZES, machine(1e-6, calls), budget_s=10)

    assert calls == [40960, 409600, 4096000]
    assert not any(result.is_cut for result in results)
    assert "Every size is simulated in full" in results_table(results, clock_hz=1e9).note


def test_slow_machine_cuts_the_long_ones_and_says_so():
    calls = []

    results = measure_layers(SIZES, machine(1e-6, calls), budget_s=2)

    assert [result.is_cut for result in results] == [False, False, True]
    assert sum(calls) * 1e-6 <= 2
    cut = results[2]
    assert cut.simulated_bytes == calls[-1] and cut.simulated_bytes % 4096 == 0
    assert cut.full_wall_s == pytest.approx(4.096)
    table = results_table(results, clock_hz=1e9)
    assert "1 of 3 sizes are cut" in table.note
    assert table.rows[2][2:4] == (4096000, cut.simulated_bytes)


def test_no_simulation_takes_longer_than_a_minute():
    cut = longest_that_fits([10**6, 10**8], seconds_per_byte=1e-6, budget_s=1000)

    assert 59e6 < cut <= 60e6


def test_cut_is_never_shorter_than_what_runs_whole():
    assert longest_that_fits([4096, 40960, 10**8], seconds_per_byte=1e-3, budget_s=46) == 40960


def test_machine_without_any_time_left_still_runs_one_cut():
    calls = []

    results = measure_layers(SIZES, machine(1.0, calls), budget_s=1)

    assert calls == [40960]
    assert [result.is_cut for result in results] == [False, True, True]


def test_progress_ends_at_one():
    shares = []

    measure_layers(SIZES, machine(1e-6, []), budget_s=10, progress=shares.append)

    assert shares == sorted(shares) and shares[-1] == 1.0
