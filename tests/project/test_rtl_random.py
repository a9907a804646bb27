# SPDX-License-Identifier: Apache-2.0
"""A few of the systems with faults that ``python -m bench rtl_random`` draws."""

import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

import bench.rtl_random as bench
from bench._kept import Kept
from bench.random_rtl.rings import RINGS, Case, RingTrial, run_case
from bench.random_rtl.switch_cases import PARTS, Engine
from bench.random_rtl.switches import SWITCHES, SwitchTrial
from bench.random_rtl.tori import TORI
from bench.random_rtl.trial import CLEAN, Attempt, Finding, draw_cases
from hw.ace.config import preset as ace_preset
from hw.fp.ops import ReduceOp
from hw.link.retry_frame import RetryConfig
from hw.smartnic.config import preset as nic_preset
from hw.switch.config import preset as switch_preset
from hw.switch_dma.config import preset as dma_preset
from sim.hosts.command import Command
from sim.hosts.surroundings import Surroundings
from tb.switch_dma.fabric import AllReduce
from tests.sim.cycles.test_tori import ACE

ENGINES = {"ace": ace_preset("test"), "smartnic": nic_preset("test")}
SMALL = [
    Engine(
        switch=replace(switch_preset("test"), trace=True),
        dma=replace(dma_preset("test"), trace=True, fixed_point=True, parts=True),
        retry=retry,
    )
    for retry in (None, RetryConfig(slots=8, timeout_cycles=100, tries=30))
]


@pytest.mark.parametrize("fault", RINGS.classes)
@pytest.mark.parametrize("engine", ENGINES)
def test_every_rank_is_right_or_says_that_it_is_not(engine, fault):
    cases = draw_cases(RINGS, random.Random(11), [ENGINES[engine]], {fault: 3})

    assert [text for case in cases for text in run_case(case).violations] == []


@pytest.mark.parametrize("fault", TORI.classes)
def test_every_rank_of_a_torus_is_right_or_says_that_it_is_not(fault):
    cases = draw_cases(TORI, random.Random(3), [ACE], {fault: 1})

    assert [text for case in cases for text in run_case(case).violations] == []


@pytest.mark.parametrize("fault", SWITCHES.classes)
def test_every_endpoint_of_switches_is_right_or_says_that_it_is_not(fault):
    (drawn,) = draw_cases(SWITCHES, random.Random(fault), SMALL, {fault: 1})
    case = replace(drawn, elements=min(drawn.elements, 200), skew=min(drawn.skew, 50))

    assert SWITCHES.run(case).violations == []


@pytest.fixture
def case():
    """An all-reduce of three NICs without a fault."""
    return Case(
        engine=ENGINES["smartnic"],
        ring=Surroundings(nodes=3, latency_cycles=5, memory_bytes=1 << 16),
        fault="none",
        command=Command(elements=200),
        skew=0,
        seed=5,
    )


def test_a_wrong_result_without_a_report_is_a_violation(case, monkeypatch):
    right = RingTrial._expected.func
    monkeypatch.setattr(
        RingTrial, "_expected", property(lambda trial: [right(trial)[0], right(trial)[1] ^ 1, 0])
    )

    (text,) = run_case(case).violations

    assert text.endswith("without a fault: ['exact', 'wrong, no report', 'wrong, no report']")


def test_a_rank_that_never_completes_is_a_violation(case, monkeypatch):
    start = RingTrial.start
    monkeypatch.setattr(
        RingTrial, "start", lambda trial, rank, *rest: rank == 1 or start(trial, rank, *rest)
    )
    monkeypatch.setattr("bench.random_rtl.rings.LIMIT", 5000)

    (text,) = run_case(case).violations

    assert "never done, no report" in text


def test_a_report_without_a_fault_is_a_violation(case):
    trial = RingTrial(case)
    trial.ring.system.nodes[1].fail_memory(trial.command.destination, 1)

    attempts = trial.collective()

    assert [bool(each.reports) for each in attempts] == [False, True, False]


@pytest.fixture
def switched():
    """An all-reduce of four endpoints at a switch, of which one aborts."""
    cases = draw_cases(SWITCHES, random.Random(3), SMALL[:1], {"abort of one node": 1})
    return replace(next(cases), groups=((0, 1, 2, 3),), leaf=0, mode="push", what="all-reduce",
                   elements=40, skew=0)


@pytest.mark.parametrize("what", ["all-reduce", "deterministic", *PARTS])
def test_a_wrong_result_of_an_endpoint_is_a_violation(switched, what, monkeypatch):
    switched = replace(switched, what=what, op=ReduceOp.SUM_F32)
    right = AllReduce.results

    def results(job):
        first, *others = right(job)
        first.view(np.uint32)[3] ^= 1
        return [first, *others]

    monkeypatch.setattr(AllReduce, "results", results)

    (text,) = SWITCHES.run(replace(switched, fault=CLEAN)).violations

    assert text.endswith("['wrong, no report', 'exact', 'exact', 'exact']")


def test_an_endpoint_that_never_completes_is_a_violation(switched, monkeypatch):
    start = AllReduce.start
    monkeypatch.setattr(
        AllReduce, "start", lambda job, nodes: nodes[0].number == 2 or start(job, nodes)
    )
    monkeypatch.setattr("bench.random_rtl.switch_collectives.LIMIT", 5000)

    (text,) = SWITCHES.run(replace(switched, fault=CLEAN)).violations

    assert "never done, no report" in text


@pytest.mark.parametrize("fault, first, others, words", [
    ("abort of one node", "aborted", "", "given up by some alone"),
    ("memory refuses a read", "invalid read", "", "not invalid everywhere"),
    ("memory refuses a write", "invalid write", "invalid read", "not invalid there alone"),
    ("lengths differ", "aborted watchdog", "aborted watchdog", "no disagreement"),
    ("region reprogrammed", "dropped stalled", "", "software was told"),
    ("operand outside", "invalid read", "", "not invalid everywhere"),
])
def test_endpoints_that_do_not_agree_on_a_fault_are_a_violation(
    switched, fault, first, others, words
):
    trial = SwitchTrial(replace(switched, fault=fault))

    def attempt(said):
        return Attempt(finished=True, equal=True, causes=frozenset(["done", *said.split()]))

    (text,) = trial.promised([attempt(first), *[attempt(others)] * 3])

    assert words in text


def test_an_operand_outside_is_counted_once_where_it_is(switched):
    trial = SwitchTrial(replace(switched, fault="operand outside", what="deterministic"))
    told = Attempt(finished=True, equal=True, causes=frozenset({"done", "invalid", "read"}))
    trial.miscounted = [2]

    assert trial.promised([told] * 4) == ["operands outside are miscounted by members [2]"]


def test_another_operation_is_not_heeded_where_parts_are_sent(switched):
    trial = SwitchTrial(replace(switched, fault="operations differ", what="all-gather"))
    exact = Attempt(finished=True, equal=True, causes=frozenset({"done"}))
    told = replace(exact, causes=frozenset({"done", "aborted", "disagreement"}))

    assert trial.promised([exact] * 4) == []
    assert "software was told" in trial.promised([told] * 4)[0]


def test_a_fault_does_not_reach_another_region(switched):
    trial = SwitchTrial(replace(switched, groups=((0, 3), (1, 2))))
    exact = Attempt(finished=True, equal=True, causes=frozenset({"done"}))
    told = replace(exact, causes=frozenset({"done", "stalled"}))

    assert trial.promised([exact, exact, told, exact]) == [
        "endpoint 2 of another region: stalled"
    ]


def test_a_run_without_options_draws_enough_of_everything():
    for kind in bench.KINDS.values():
        engines, clean, per_class = kind.least
        assert kind.engines >= engines and kind.clean >= clean and kind.per_class >= per_class
    faults = len(RINGS.classes) - 1
    assert RINGS.clean + RINGS.per_class * faults >= 300
    assert SWITCHES.clean + SWITCHES.per_class * (len(SWITCHES.classes) - 1) >= 100


def test_cases_are_drawn_by_the_seed_of_every_class_and_engine():
    for kind in bench.KINDS.values():
        classes = dict.fromkeys(kind.classes, 4)

        def draw(seed, kind=kind, classes=classes):
            rng = random.Random(seed)
            engines = kind.draw_engines(rng, 6)
            return engines, list(draw_cases(kind, rng, engines, classes))

        engines, cases = draw(1)

        assert draw(1) == (engines, cases) != draw(2)
        assert len(set(map(repr, engines))) == 6
        assert Counter(case.fault for case in cases) == classes
        assert {id(case.engine) for case in cases} == set(map(id, engines))
        assert len(set(map(kind.collective, cases))) > 2
        assert len({case.seed for case in cases}) == len(cases)


def test_an_interrupted_run_goes_on_where_it_was(tmp_path, monkeypatch):
    done = []

    class Pool:
        """Runs in this process, so that what was done is known."""

        def __init__(self, processes):
            pass

        __enter__ = __exit__ = lambda pool, *_: pool

        def map(self, run, cases, chunksize):
            return map(run, cases)

    monkeypatch.setattr(bench, "ProcessPoolExecutor", Pool)

    def run(case):
        done.append(case)
        return Finding(fault=CLEAN, ranks=[case])

    def found(key):
        kept = Kept("rtl_random", key, tmp_path)
        return bench._found(replace(RINGS, run=run), ["a", "b", "c"], kept, 1)

    first = found("sources")
    assert [next(first)[1].ranks for _ in range(2)] == [["a"], ["b"]]
    del first

    assert [finding.ranks for _, finding, _ in found("sources")] == [["a"], ["b"], ["c"]]
    assert done == ["a", "b", "c"]
    assert len(list(found("other sources"))) == 3 and done == ["a", "b", "c"] * 2
