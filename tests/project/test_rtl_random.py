"""A few of the rings with faults that ``python -m bench rtl_random`` draws."""

import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

import bench.rtl_random as bench
from bench.rtl_random import CLASSES, Case, Trial, draw_cases, draw_engines, run_case
from hw.ace.config import preset as ace_preset
from hw.smartnic.config import preset as nic_preset
from sim.cycles.ring import Command, RingSettings

ENGINES = {"ace": ace_preset("test"), "smartnic": nic_preset("test")}


@pytest.mark.parametrize("fault", CLASSES)
@pytest.mark.parametrize("engine", ENGINES)
def test_every_rank_is_right_or_says_that_it_is_not(engine, fault):
    cases = draw_cases(random.Random(11), [ENGINES[engine]], {fault: 3})

    assert [text for case in cases for text in run_case(case).violations] == []


@pytest.fixture
def case():
    """An all-reduce of three NICs without a fault."""
    return Case(
        engine=ENGINES["smartnic"],
        ring=RingSettings(nodes=3, latency_cycles=5, memory_bytes=1 << 16),
        fault="none",
        command=Command(elements=200),
        skew=0,
        seed=5,
    )


def test_a_wrong_result_without_a_report_is_a_violation(case, monkeypatch):
    right = Trial._expected.func
    monkeypatch.setattr(
        Trial, "_expected", property(lambda trial: [right(trial)[0], right(trial)[1] ^ 1, 0])
    )

    (text,) = run_case(case).violations

    assert text.endswith("without a fault: ['exact', 'wrong, no report', 'wrong, no report']")


def test_a_rank_that_never_completes_is_a_violation(case, monkeypatch):
    start = Trial.start
    monkeypatch.setattr(
        Trial, "start", lambda trial, rank, *rest: rank == 1 or start(trial, rank, *rest)
    )
    monkeypatch.setattr("bench.rtl_random.LIMIT", 5000)

    (text,) = run_case(case).violations

    assert "never done, no report" in text


def test_a_report_without_a_fault_is_a_violation(case):
    trial = Trial(case)
    trial.ring.system.nodes[1].fail_memory(trial.command.destination, 1)

    attempts = trial.collective()

    assert [bool(each.reports) for each in attempts] == [False, True, False]


def test_a_run_without_options_draws_enough_of_everything():
    assert bench.WITHOUT_FAULT >= bench.LEAST_WITHOUT and bench.PER_CLASS >= bench.LEAST_PER_CLASS
    faults = bench.PER_CLASS * (len(CLASSES) - 1)
    assert bench.WITHOUT_FAULT + faults >= bench.LEAST_RUNS


def test_cases_are_drawn_by_the_seed_of_every_class_and_engine():
    classes = dict.fromkeys(CLASSES, 4)

    def draw(seed):
        rng = random.Random(seed)
        engines = draw_engines(rng, 6)
        return engines, list(draw_cases(rng, engines, classes))

    engines, cases = draw(1)

    assert draw(1) == (engines, cases) != draw(2)
    assert len(set(map(repr, engines))) == 6
    assert Counter(case.fault for case in cases) == classes
    assert {id(case.engine) for case in cases} == set(map(id, engines))
    assert len({case.seed for case in cases}) == len(cases)
    assert {replace(case.command, compress=False) for case in cases} != {cases[0].command}
    assert np.mean([case.ring.link_stalls > 0 for case in cases]) > 0.4
