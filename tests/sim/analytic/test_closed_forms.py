# SPDX-License-Identifier: Apache-2.0
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.analytic.cores import CoreModel
from sim.analytic.loggp import LogGP
from sim.analytic.traffic import (
    all_reduce_phases,
    endpoint_ceiling,
    engine_reads_per_byte_sent,
    host_reads_per_byte_sent,
    ring_host_reads,
    sent_per_byte,
)

shapes = st.lists(st.integers(1, 9), min_size=1, max_size=4)


def test_baseline_volume_of_the_shapes_of_64_packages():
    volumes = [sent_per_byte(s, "baseline") for s in [(1, 64, 1), (1, 8, 8), (4, 4, 4)]]

    assert volumes == [Fraction(126, 64), Fraction(28, 8), Fraction(36, 8)]


def test_phases_of_the_enhanced_algorithm_are_those_of_the_four_phase_torus():
    phases = [(p.name, p.dimension, p.sent) for p in all_reduce_phases((4, 4, 4))]

    assert phases == [
        ("reduce-scatter", 0, Fraction(3, 4)),
        ("all-reduce", 1, Fraction(3, 8)),
        ("all-reduce", 2, Fraction(3, 8)),
        ("all-gather", 0, Fraction(3, 4)),
    ]


@given(shapes)
def test_enhanced_algorithm_divides_the_volume_between_packages_by_the_local_size(shape):
    between = range(1, len(shape))

    enhanced = sent_per_byte(shape, "enhanced", dimensions=between)

    assert enhanced * shape[0] == sent_per_byte(shape, "baseline", dimensions=between)


@given(st.integers(2, 12))
def test_host_reads_counted_step_by_step_are_one_and_a_half_per_byte_sent(size):
    """A ring all-reduce executed on message counters, by another route than the formula."""
    reads = sent = 0
    for step in range(size - 1):
        reads += 1 if step == 0 else 2
        sent += 1
    reads += 2  # the sum that completes a message is also what the all-gather sends first
    sent += 1
    for _ in range(size - 2):
        reads += 1
        sent += 1

    assert ring_host_reads(size) == (Fraction(reads, size), Fraction(sent, size))
    assert Fraction(reads, sent) == host_reads_per_byte_sent() == Fraction(3, 2)
    assert host_reads_per_byte_sent(first_step=False) == Fraction(3, 2)


def test_engine_sends_two_and_a_quarter_bytes_per_byte_read_on_4x4x4():
    assert engine_reads_per_byte_sent((4, 4, 4)) == 1 / Fraction(9, 4)


@given(shapes.filter(lambda s: max(s) > 1), st.floats(0.1, 1))
def test_ceiling_fills_one_dimension_and_no_more(shape, efficiency):
    rates = [(400e9, 50e9, 50e9, 25e9)[d] for d in range(len(shape))]

    ceiling = endpoint_ceiling(shape, rates, efficiency=efficiency)

    seconds = float(ceiling.sent_per_byte) / ceiling.injection_bytes_per_s
    loads = [
        float(sent_per_byte(shape, dimensions=[d])) / seconds / (rate * efficiency)
        for d, rate in enumerate(rates)
    ]
    assert max(loads) == pytest.approx(1) and loads[ceiling.dimension] == max(loads)


def test_cores_needed_are_those_that_load_two_bytes_per_byte_sent():
    assert CoreModel(network_bytes_per_s=100e9).cores_to_fill() == 4
    assert CoreModel(network_bytes_per_s=96e9).cores_to_fill() == 3


@given(st.integers(1, 12), st.floats(0, 1e-4))
def test_utilisation_of_cores_grows_with_cores_and_falls_with_overhead(cores, step):
    model = CoreModel(step_s=step)

    assert 0 < model.utilisation(cores) <= model.utilisation(cores + 1) <= 1
    assert model.utilisation(cores) <= CoreModel().utilisation(cores)


def test_ideal_cores_are_the_slower_of_links_and_cores():
    model = CoreModel(network_bytes_per_s=100e9)

    assert [model.ideal_utilisation(c) for c in (1, 2, 4)] == pytest.approx([0.32, 0.64, 1.0])


def test_parts_of_a_step_driven_by_cores_add_up():
    """Of 4 cores: 31.5 MB to load twice at 256 GB/s, to write at 95 GB/s, and 30 steps of 2 us."""
    model = CoreModel(step_s=2e-6)
    sent = 2 * 15 / 16 * 2**24

    assert model.seconds(4) == pytest.approx(2 * sent / 256e9 + sent / 95e9 + 60e-6)
    assert model.utilisation(4) == pytest.approx(0.520, abs=5e-4)
    # The cores' own writes are slower than the links.
    assert CoreModel().seconds(1) == pytest.approx(2 * sent / 64e9 + sent / 32e9)


def test_memory_limits_the_cores():
    assert CoreModel(memory_bytes_per_s=150e9).rate(12) == pytest.approx(50e9)


def test_loggp_ring_agrees_with_the_published_run_of_a_loggp_simulator():
    """64 MB on 8 nodes with L = 500 ns, G = 19 ps per byte: 2238.4 microseconds."""
    model = LogGP(latency_s=500e-9, overhead_s=0, gap_s=0, gap_per_byte_s=19e-12)

    assert model.ring_all_reduce_s(8, 2**26) == pytest.approx(2238.4e-6, rel=1e-4)


@given(st.integers(1, 20), st.integers(1, 1 << 30), st.floats(1e-9, 1e-3))
def test_no_number_of_chunks_beats_the_best_one(hops, size, alpha):
    model = LogGP(latency_s=alpha, overhead_s=0, gap_s=0, gap_per_byte_s=1e-10)
    best = model.best_chunks(hops, size)

    times = [model.pipeline_s(hops, c, size) for c in {1, best, best + 1, max(1, best - 1), 64}]

    assert min(times) == pytest.approx(model.pipeline_s(hops, best, size), rel=1e-9)


def test_gap_between_messages_is_the_largest_of_three():
    model = LogGP(latency_s=0, overhead_s=2, gap_s=3, gap_per_byte_s=1)

    assert [model.next_s(1), model.next_s(10)] == [3, 10]
    assert model.message_s(11) == 14


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: all_reduce_phases((4, 0)), r"shape must hold sizes of at least 1, not \(4, 0\)"),
        (lambda: all_reduce_phases((4,), "x"), "algorithm must be baseline or enhanced, not 'x'"),
        (lambda: ring_host_reads(1), "size must be at least 2, not 1"),
        (lambda: endpoint_ceiling((4, 4), [1.0]), "must have 2 entries, not 1"),
        (lambda: endpoint_ceiling((1,), [1.0]), r"shape must have more than one node, not \(1,\)"),
        (lambda: CoreModel(nodes=0), "nodes must be at least 1, not 0"),
        (lambda: CoreModel().rate(0), "cores must be at least 1, not 0"),
        (
            lambda: LogGP(latency_s=-1, overhead_s=0, gap_s=0, gap_per_byte_s=0),
            "latency_s must be at least 0, not -1",
        ),
    ],
)
def test_bad_arguments_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
