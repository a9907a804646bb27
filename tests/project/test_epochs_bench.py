# SPDX-License-Identifier: Apache-2.0
"""A few of the runs that ``python -m bench epochs`` draws, and how they are judged."""

from collections import Counter
from dataclasses import replace

import pytest

import bench.epochs as bench
from bench.random_rtl.epochs import (
    MOST_ABORTS,
    SWITCHES,
    TIMEOUTS,
    draw_epoch_cases,
    run_epochs,
)
from tb.switch_dma.fabric import AllReduce

CASES = draw_epoch_cases(1, bench.RUNS)
SMALL = [
    replace(case, entries=4, links=1, aborts=8, hasty=0.3, elements=40, left=40, timeout=timeout)
    for case, timeout in zip(
        [next(case for case in CASES if case.mode == mode and bool(case.leaf) == trees)
         for mode, trees in (("push", False), ("pull", True))],
        TIMEOUTS[1:],
    )
]


@pytest.mark.parametrize("case", SMALL, ids=str)
def test_every_rank_has_the_new_sum_or_says_that_it_has_not(case):
    assert run_epochs(case)["verdict"] in ("exact", "reported")


def test_a_wrong_sum_is_seen(monkeypatch):
    right = AllReduce.results

    def results(job):
        first, *others = right(job)
        first[3] += 1
        return [first, *others]

    monkeypatch.setattr(AllReduce, "results", results)

    found = run_epochs(replace(SMALL[0], aborts=1, leaf=0, timeout=200, stalls=0.0))

    assert found["verdict"] == "wrong" and found["ranks"][0] == "a wrong sum"
    assert set(found["ranks"][1:]) == {"exact"}


@pytest.mark.full
def test_old_operands_show_in_sums_of_switches_that_forget_nothing():
    cases = [replace(case, links=1) for case in bench.planted_cases(1)[:4]]

    assert any("a wrong sum" in bench.run_planted(case)["ranks"] for case in cases)
    assert all(run_epochs(case)["verdict"] == "exact" for case in cases)


def test_a_run_without_options_draws_enough_of_everything():
    assert len(CASES) >= bench.ENOUGH and max(case.aborts for case in CASES) == MOST_ABORTS
    assert min(case.aborts for case in CASES) == 1
    assert sum(case.stalls > 0 for case in CASES) >= len(CASES) / 3
    for names in ({"mode"}, {"entries"}, {"links"}, {"timeout"}, {"mode", "entries", "timeout"}):
        found = Counter(tuple(getattr(case, name) for name in sorted(names)) for case in CASES)
        assert min(found.values()) >= 2 and len(found) > 1
    assert {case.timeout for case in CASES} == {0, *TIMEOUTS}
    assert {case.entries for case in CASES if not case.timeout} == {max(SWITCHES)}
    assert {bool(case.leaf) for case in CASES} == {True, False}
    assert draw_epoch_cases(1, 20) == CASES[:20] != draw_epoch_cases(2, 20)
    assert len(bench.planted_cases(1)) >= 4
