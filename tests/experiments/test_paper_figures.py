"""The figures of the papers: what must hold whatever the simulator's details."""

import pytest

from experiments import ace_isca21, ace_v1, astra_sim
from experiments.figure import Context
from experiments.figures import astra_topologies, isca21_analysis, isca21_bandwidth, v1_cores
from experiments.systems import (
    ACE_STYLE,
    GB,
    ISCA21_CYCLE_S,
    astra_torus,
    isca21_torus,
    measure,
    v1_switch,
    v1_torus,
)
from experiments.training import outcome, union
from sim.endpoint.kinds import IdealEndpoint
from sim.events.simulate import simulate
from sim.results.breakdown import break_down
from sim.workload.graph import (
    CollectiveCall,
    CollectiveKind,
    GraphBuilder,
    Job,
    TaskKind,
    TrainingPhase,
)

PAPERS = (ace_v1, ace_isca21, astra_sim)


def rows_of(make, check):
    return [row for row in make(Context()).rows if row.check == check]


@pytest.mark.parametrize(
    "make, check, count",
    [
        (astra_topologies.fig10, "H1", 3),
        (astra_topologies.fig11, "H2", 1),
        (isca21_analysis.traffic, "H3", 1),
        (isca21_analysis.traffic, "H4", 1),
        (isca21_analysis.ceiling, "Q1", 1),
        (isca21_bandwidth.traffic_simulated, "H3", 1),
        (isca21_bandwidth.traffic_simulated, "H4", 1),
    ],
)
def test_hard_checks_are_within(make, check, count):
    rows = rows_of(make, check)

    assert len(rows) == count
    assert {row.verdict for row in rows} == {"within"}


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.__name__)
def test_papers_take_figures_by_name(paper, capsys, tmp_path):
    cheap = {ace_v1: "fig5", ace_isca21: "table2", astra_sim: "volume"}[paper]

    assert paper.main([cheap, "-o", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("RESULT reproduce_")


def test_cores_of_section_3_are_counted_not_stated():
    first = v1_cores.fig5(Context()).rows[0]

    assert (first.ours, first.verdict) == (4, "within")


def test_isca21_torus_has_the_bandwidth_of_table_v():
    dims = isca21_torus((4, 8, 4)).dimensions

    assert [d.injection_bytes_per_s / 0.94 for d in dims] == pytest.approx(
        [400 * GB, 50 * GB, 50 * GB]
    )
    assert dims[1].latency_s == 500 * ISCA21_CYCLE_S


def test_links_that_are_free_make_a_second_ring_in_v1():
    def rates(network):
        return [round(d.injection_bytes_per_s / 0.94 / GB) for d in network.dimensions]

    assert rates(v1_torus((4, 4, 4))) == [400, 50, 50]
    assert rates(v1_torus((4, 1, 8))) == [400, 0, 100]
    assert rates(v1_torus((4, 8, 1))) == [400, 100, 0]
    assert rates(v1_switch(4, 16)) == [400, 100]


def test_astra_torus_goes_through_vertical_before_horizontal():
    network = astra_torus((2, 4, 8))

    assert network.shape == (2, 8, 4)
    assert [round(d.injection_bytes_per_s / 0.94 / GB) for d in network.dimensions] == [
        400,
        100,
        100,
    ]


def test_measured_rate_is_bytes_sent_with_headers_over_time():
    run = measure(isca21_torus((4, 4, 4)), IdealEndpoint(), 1 << 22)

    assert run.sent_bytes == pytest.approx(2.25 * (1 << 22))
    assert run.wire_bytes_per_s == pytest.approx(run.sent_bytes / 0.94 / run.seconds)


def test_union_merges_what_overlaps_or_touches():
    assert union([(5, 7), (0, 2), (2, 3), (6, 9), (20, 21)]) == [(0, 3), (5, 9), (20, 21)]


def test_outcome_of_a_run_that_can_be_worked_out_by_hand():
    """10 us forward, then 10 us backward beside one all-reduce, which ends alone."""
    graph = GraphBuilder(["a"])
    forward = graph.add(
        "f", TaskKind.COMPUTE, duration_s=10e-6, layer=0, phase=TrainingPhase.FORWARD
    )
    call = CollectiveCall(kind=CollectiveKind.ALL_REDUCE, size_bytes=1 << 22)
    graph.add("c", TaskKind.COLLECTIVE, [forward], call=call, layer=0)
    graph.add(
        "b", TaskKind.COMPUTE, [forward], duration_s=10e-6, layer=0,
        phase=TrainingPhase.INPUT_GRADIENT,
    )
    job = Job(name="j", graphs=(graph.graph(),))
    network = isca21_torus((4, 4, 4))
    alone = measure(network, IdealEndpoint(), 1 << 22)

    record = simulate(network, job, endpoint=IdealEndpoint(), algorithms=ACE_STYLE)
    found = outcome(break_down(record, job))

    assert found.compute_ms == pytest.approx(0.02)
    assert found.exposed_ms == pytest.approx(alone.seconds * 1e3 - 0.01)
    assert found.total_ms == pytest.approx(alone.seconds * 1e3 + 0.01)
    assert (found.active_forward, found.active_backward) == (0, 1)
    assert found.network_bytes_per_s == pytest.approx(alone.wire_bytes_per_s)


@pytest.mark.full
@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.__name__)
def test_every_figure_runs_and_explains_what_is_outside(paper):
    for name, make in paper.FIGURES.items():
        figure = make(Context())
        assert figure.rows or figure.lost, name
        unexplained = [r.setting for r in figure.rows if r.verdict == "outside" and not r.why]
        assert not unexplained, name
