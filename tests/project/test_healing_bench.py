# SPDX-License-Identifier: Apache-2.0
"""A few of the runs that ``python -m bench healing`` draws, and how they are judged."""

from collections import Counter
from dataclasses import replace

import pytest

import bench.healing as bench
from bench.random_rtl.healing import FAULTS, MOST_CYCLES, draw_healing_cases, run_healing
from tb.switch_dma.fabric import AllReduce

CASES = draw_healing_cases(1, bench.RUNS)


def small(fault):
    """The first one of a fault on one switch."""
    return next(case for case in CASES if case.fault == fault and not case.leaf and case.links == 1)


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault != "cables"])
def test_a_fault_is_healed_and_others_do_not_notice(fault):
    found = run_healing(replace(small(fault), stalls=0.0))

    assert found["wrong"] is None and found["stuck"] is None
    if fault.startswith("dead"):
        assert found["cycles"] <= MOST_CYCLES and found["pct"] >= bench.LEAST_PCT


def test_a_wrong_sum_is_seen(monkeypatch):
    right = AllReduce.results

    def results(job):
        first, *others = right(job)
        return [first + (job.region == 1), *others]

    monkeypatch.setattr(AllReduce, "results", results)

    found = run_healing(small("unknown kinds"))

    assert found["wrong"].endswith("of region 1 has a wrong sum")


def test_who_does_not_become_ready_is_stuck(monkeypatch):
    monkeypatch.setattr("bench.random_rtl.healing._LIMIT", 3000)
    monkeypatch.setattr("sim.rtl.switch.stepped.EndpointNode.join", lambda node: None)
    monkeypatch.setattr("bench.random_rtl.healing.join", lambda system, **settings: None)

    found = run_healing(small("unknown kinds"))

    assert found["wrong"] is None and "not all become ready" in found["stuck"]


def test_a_run_without_options_draws_enough_of_everything():
    assert len(CASES) >= 400
    assert min(Counter(case.fault for case in CASES).values()) >= 400 // len(FAULTS)
    for name in ("leaf", "links", "mode", "stalls", "latency"):
        kinds = {(case.fault, getattr(case, name)) for case in CASES if case.fault != "cables"}
        assert len(kinds) >= 2 * len(set(FAULTS) - {"cables"})
    assert all(len(case.groups[0]) >= 3 and len(case.groups[1]) >= 2 for case in CASES)
    assert draw_healing_cases(1, 20) == CASES[:20] != draw_healing_cases(2, 20)
