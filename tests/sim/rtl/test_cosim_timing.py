# SPDX-License-Identifier: Apache-2.0
"""Latencies and bandwidths are what was asked for, to the cycle."""

import numpy as np
import pytest


def steady_packet_cycles(system):
    """Cycles from a header to the one that is three packets, a round of credits, later."""
    activity = system.link_activity(0, 0)
    headers = activity.beat_cycles[activity.beat_header_flits == 1].astype(int)
    return headers[12:][3:] - headers[12:][:-3]


def test_round_of_credits_grows_by_the_latency_of_each_direction(ring_of):
    rounds = {}
    for forward, backward in [(50, 30), (61, 30), (50, 47)]:
        system = ring_of(2, 30, latencies=[(forward, backward)] * 2, record_beats=True)
        system.run()
        (rounds[forward, backward],) = set(steady_packet_cycles(system)[:10])

    assert rounds[61, 30] - rounds[50, 30] == 11
    assert rounds[50, 47] - rounds[50, 30] == 17


@pytest.mark.parametrize("latency_cycles", [1, 2, 40])
def test_beat_arrives_exactly_one_latency_after_it_was_sent(ring_of, latency_cycles):
    system = ring_of(2, 1, latency_cycles=latency_cycles, bucket_cycles=1)
    system.run()

    sent = system.link_activity(0, 0).last_cycle
    stored = np.flatnonzero(system.memory_activity(1, 0).written_bytes_per_bucket)[-1]

    # The engine's FIFO takes one cycle.
    assert stored - sent == latency_cycles + 1


@pytest.mark.parametrize("backward_cycles", [1, 9, 60])
def test_credit_arrives_exactly_one_latency_after_it_was_given(ring_of, backward_cycles):
    system = ring_of(2, 4, latencies=[(40, backward_cycles)] * 2, record_beats=True,
                     bucket_cycles=1)
    system.run()

    activity = system.link_activity(0, 0)
    headers = activity.beat_cycles[activity.beat_header_flits == 1].astype(int)
    stored = np.flatnonzero(system.memory_activity(1, 0).written_bytes_per_bucket)

    # The fourth packet needs the slot of the first, whose fourth beat frees it; one register
    # gives the credit and one counts it.
    assert headers[3] - stored[3] == backward_cycles + 2


@pytest.mark.parametrize("beats_per_cycle, cycles", [(1.0, 4), (0.5, 7), (0.4, 9)])
def test_link_bandwidth_spaces_the_beats(ring_of, beats_per_cycle, cycles):
    system = ring_of(2, 10, beats_per_cycle=beats_per_cycle, record_beats=True,
                     memory={"read_latency_cycles": 1})
    system.run()

    activity = system.link_activity(0, 0)
    whole = activity.beat_cycles.astype(int)

    # Four payload beats follow one another as closely as the link lets them.
    assert whole[29] - whole[26] + 1 == pytest.approx(cycles, abs=1)
    assert activity.stalled_cycles > 0 or beats_per_cycle == 1


def test_random_stalls_hold_back_the_given_share_of_cycles(ring_of):
    system = ring_of(2, 400, stalls=0.25, seed=5)
    system.run()

    activity = system.link_activity(0, 0)

    offered = activity.beats + activity.stalled_cycles
    assert activity.stalled_cycles / offered == pytest.approx(0.25, abs=0.03)


def test_memory_latency_delays_the_first_beat_by_as_much(ring_of):
    def first_beat(read_latency_cycles):
        system = ring_of(2, 4, bucket_cycles=1,
                         memory={"read_latency_cycles": read_latency_cycles})
        system.run()
        reads = system.memory_activity(0, 0).read_bytes_per_bucket
        return int(np.flatnonzero(reads)[0])

    assert first_beat(33) - first_beat(4) == 29


def test_memory_bandwidth_bounds_reads_and_writes_together(ring_of):
    system = ring_of(2, 100, memory={"bytes_per_cycle": 4.0}, bucket_cycles=100)
    system.run()

    activity = system.memory_activity(0, 0)
    read, written = activity.read_bytes_per_bucket, activity.written_bytes_per_bucket
    moved = np.zeros(max(len(read), len(written)))
    moved[: len(read)] += read
    moved[: len(written)] += written

    assert moved.max() <= 432  # 4 bytes a cycle and up to two beats ahead
    assert np.median(moved) >= 380


def test_write_response_waits_for_its_latency(ring_of):
    def cycles(write_latency_cycles):
        system = ring_of(2, 1, memory={"write_latency_cycles": write_latency_cycles})
        return system.run().last_host_cycle[0]

    assert cycles(50) - cycles(10) == 40


def test_links_in_both_directions_keep_their_own_counts(ring_of):
    system = ring_of(2, 8, bucket_cycles=10)
    system.run()

    sender, receiver = system.link_activity(0, 0), system.link_activity(0, 1)

    assert (sender.beats, sender.flits, sender.header_flits, sender.payload_flits) == (
        40,
        40,
        8,
        32,
    )
    assert sender.beats_per_bucket.sum() == 40
    assert sender.header_flits_per_bucket.sum() == 8
    assert sender.payload_flits_per_bucket.sum() == 32
    assert np.flatnonzero(sender.beats_per_bucket)[0] == sender.first_cycle // 10
    assert np.flatnonzero(sender.beats_per_bucket)[-1] == sender.last_cycle // 10
    assert (receiver.beats, receiver.first_cycle) == (0, None)
