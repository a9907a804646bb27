# SPDX-License-Identifier: Apache-2.0
"""Engines side by side: equal injection, the bytes that each must send, and a ceiling."""

import pytest

from bench._compared import INJECTION
from bench.engines import CASES, description, memory_share, sent_share
from sim.run import run

WORKLOAD = {"collective": "all_reduce", "size_bytes": 16 * 6 * 8192}


def test_all_engines_send_what_they_must_and_none_beats_the_ideal_one():
    done = {case.name: run(description(case, WORKLOAD)) for case in CASES}
    for case in CASES:
        assert sent_share(done[case.name]) == pytest.approx(case.sent, rel=5e-3)
    moved = {name: memory_share(case, done[name]) for case in CASES
             if not (name := case.name).startswith("ideal")}
    for name in ("push", "pull", "ACE", "smart NIC"):
        assert moved[name] == pytest.approx((1, 1), rel=1e-3)
    # Of 30 sends of a ring, 15 are of sums: two reads each; every byte that comes is written, and
    # the sum of the own block, which goes on and stays.
    assert moved["NCCL-like ring"] == pytest.approx((45 / 16, 31 / 16), rel=1e-3)
    times = {name: each.time_s for name, each in done.items()}
    assert times["ideal"] <= 1.01 * min(times.values())
    same = ("NCCL-like ring", "BaselineCompOpt", "BaselineNoOverlap")  # network and algorithm
    assert times["ideal, ring"] <= 1.01 * min(times[name] for name in same)


def test_injection_is_equal():
    for case in CASES:
        (dimension,) = run(description(case, {**WORKLOAD, "size_bytes": 96})).network.dimensions
        assert dimension.injection_bytes_per_s == pytest.approx(0.8 * INJECTION)
