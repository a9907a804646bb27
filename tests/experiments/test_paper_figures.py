# SPDX-License-Identifier: Apache-2.0
"""The figures of the papers: what must hold whatever the simulator's details."""

import pytest

from experiments import ace_isca21, ace_v1, astra_sim
from experiments.figure import Context, Row
from experiments.figures import (
    astra_topologies,
    astra_training,
    astra_volume,
    isca21_analysis,
    isca21_bandwidth,
    isca21_training,
    smartnic_training,
    v1_collectives,
    v1_cores,
    v1_training,
)
from experiments.reproduce import rows_table
from experiments.systems import (
    ACE_STYLE,
    GB,
    ISCA21_CYCLE_S,
    ISCA21_DISPATCHER,
    astra_symmetric,
    astra_torus,
    gnmt_step,
    isca21_torus,
    least_iteration_s,
    measure,
    resnet50_batch,
    slowed,
    train_released,
    v1_switch,
    v1_torus,
)
from experiments.training import Outcome, outcome, union
from sim.endpoint.kinds import IdealEndpoint, endpoint
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
WITHOUT_PLOT = {"table2", "numbers", "traffic", "traffic-simulated", "volume"}


def rows_of(make, check):
    return [row for row in make(Context()).rows if row.check == check]


@pytest.mark.parametrize(
    "make, check, verdict, count",
    [
        (astra_topologies.fig10, "H1", "identity", 3),
        (astra_topologies.fig11, "H2", "identity", 1),
        (astra_volume.volume, "H1", "identity", 3),
        (astra_volume.volume, "H2", "identity", 2),
        (isca21_analysis.traffic, "H3", "identity", 1),
        (isca21_analysis.traffic, "H4", "identity", 1),
        (isca21_analysis.ceiling, "Q1", "identity", 1),
        (isca21_bandwidth.traffic_simulated, "H3", "identity", 1),
        (isca21_bandwidth.traffic_simulated, "H4", "identity", 1),
    ],
)
def test_hard_checks_hold(make, check, verdict, count, monkeypatch):
    for name in ("SIZES", "PLOTTED"):
        monkeypatch.setattr(astra_topologies, name, (1 << 16, 1 << 26))
    rows = rows_of(make, check)

    assert len(rows) == count
    assert {row.verdict for row in rows} == {verdict}


@pytest.mark.parametrize(
    "make",
    [
        isca21_analysis.table2,
        isca21_analysis.traffic,
        isca21_analysis.ceiling,
        astra_volume.volume,
    ],
)
def test_closed_forms_of_published_arithmetic_are_identities(make):
    rows = [row for row in make(Context()).rows if row.target is not None]

    assert rows and {row.verdict for row in rows} == {"identity"}


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.__name__)
def test_papers_take_figures_by_name(paper, capsys, tmp_path):
    cheap = {ace_v1: "fig5", ace_isca21: "table2", astra_sim: "volume"}[paper]

    assert paper.main([cheap, "-o", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("RESULT reproduce_")


def test_cores_of_section_3_are_counted_not_stated():
    first = v1_cores.fig5(Context()).rows[0]

    assert (first.ours, first.verdict) == (4, "identity")


def test_parts_that_add_up_meet_the_published_utilisation_of_cores():
    rows = {row.setting: row for row in v1_cores.fig5(Context()).rows}

    assert rows["(a) 2 us a step, 4 cores"].verdict == "within"
    assert "links 52 %, loads 39 %, overhead 9 %" in rows["(a) 2 us a step, 4 cores"].why


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


@pytest.mark.parametrize("shape", [(1, 64, 1), (1, 8, 8), (2, 8, 4), (4, 4, 4)])
def test_symmetric_topologies_have_the_same_links_in_all(shape):
    """Six rings both ways, 25 GB/s each, whatever the number of dimensions."""
    network = astra_symmetric(shape)
    used = [d for d in network.dimensions if d.size > 1]

    assert sorted(network.shape) == sorted(shape)
    assert len({d.injection_bytes_per_s for d in used}) == 1
    total = sum(d.injection_bytes_per_s for d in used)
    assert total == pytest.approx(6 * 2 * 25 * GB * 0.94)


def test_a_loss_of_memory_makes_the_released_times_longer_layer_by_layer():
    """CommOpt leaves half of the memory bandwidth and 74 of 80 cores."""
    factors = [each for layer in slowed(endpoint("baseline_comm_opt")) for each in layer.values()]

    assert max(factors) == pytest.approx(2)
    # conv1's input gradient is in the file only, and never computed.
    assert sorted(factors)[:2] == [1, pytest.approx(80 / 74)]
    assert {each for layer in slowed(endpoint("ideal")) for each in layer.values()} == {1}

    times = {
        kind: outcome(
            train_released(
                isca21_torus((4, 2, 2)), endpoint(kind), cycle_s=ISCA21_CYCLE_S, comm_scale=0.5
            )
        ).compute_ms
        for kind in ("ideal", "ace", "baseline_comm_opt")
    }
    assert times["ace"] / times["ideal"] == pytest.approx(1.13, abs=0.03)
    assert times["baseline_comm_opt"] / times["ideal"] == pytest.approx(1.85, abs=0.1)


def test_no_iteration_is_shorter_than_its_multiply_adds():
    """32 images of 4.09 G multiply-adds, forward and twice backward."""
    table = resnet50_batch(4)

    assert least_iteration_s(table, 91.75e12) == pytest.approx(8.56e-3, rel=1e-3)
    assert least_iteration_s(resnet50_batch(2), 120e12) == pytest.approx(6.54e-3, rel=1e-3)
    assert gnmt_step(batch=32, dtype_bytes=4).parameters == pytest.approx(257e6, rel=5e-3)


def test_32_images_contradict_what_version_1_printed(monkeypatch):
    cell = Outcome(
        compute_ms=50, exposed_ms=5, total_ms=55, network_bytes_per_s=1, active_forward=0,
        active_backward=1, active_s=1,
    )
    monkeypatch.setattr(v1_training, "_outcome", lambda *of: cell)
    monkeypatch.setattr(v1_training, "SHAPES", ((4, 4, 4),))
    gain, length = v1_training._batch_rows()

    assert (gain.verdict, length.verdict) == ("contradicted", "contradicted")
    assert 1 / 0.95 < gain.bound.value < 1.6
    assert length.bound.value == pytest.approx(17.1, abs=0.05)


def test_32_images_contradict_what_isca_printed(monkeypatch):
    monkeypatch.setattr(isca21_training, "SHAPES", {128: (4, 8, 4)})
    cell = {
        kind: Outcome(
            compute_ms=1, exposed_ms=0, total_ms=1, network_bytes_per_s=1, active_forward=0,
            active_backward=1, active_s=1,
        )
        for kind in isca21_training.KINDS
    }
    row = isca21_training._batch_row({128: cell})

    assert row.verdict == "contradicted"
    # 51 MB over 128 NPUs take 0.48 ms at the ideal rate, against 6.54 ms of multiply-adds.
    assert 1 + 0.48 / 6.54 == pytest.approx(row.bound.value, abs=0.02)


def test_published_maxima_and_shares_are_compared(monkeypatch):
    assert isca21_training.MAXIMA == {"ResNet-50": 1.51, "GNMT": 1.17, "DLRM": 1.19}
    monkeypatch.setattr(astra_training, "_exposed", lambda run: 5.0)
    monkeypatch.setattr(astra_training, "_resnet", lambda *of: None)
    monkeypatch.setattr(astra_training, "_raw", lambda nodes: "")
    batch = Row(setting="32 images", ours=0.0)
    monkeypatch.setattr(astra_training, "_batch_row", lambda ours, nodes: batch)
    rows = astra_training.fig17(Context()).rows

    assert [row.target.published for row in rows[1:3]] == [4.1, 25.2]
    assert {row.verdict for row in rows[1:3]} <= {"within", "outside"}


def test_isca_figures_run_with_the_dispatcher_of_their_simulator(monkeypatch):
    seen = []

    def measured(network, end, size, *, scheduler, **options):
        seen.append((scheduler.threshold, scheduler.issue, scheduler.concurrency))
        return measure(network, end, 1 << 20, scheduler=scheduler, **options)

    monkeypatch.setattr(isca21_bandwidth, "measure", measured)
    monkeypatch.setattr(isca21_bandwidth, "MEMORY", (450,))
    monkeypatch.setattr(isca21_bandwidth, "_least", lambda nodes, kind: {"ACE": 1}.get(kind, 4))
    isca21_bandwidth._rate.cache_clear()
    rows = isca21_bandwidth.fig5(Context()).rows
    isca21_bandwidth._rate.cache_clear()

    assert set(seen) == {(8, 16, 16)}
    assert (ISCA21_DISPATCHER.threshold, ISCA21_DISPATCHER.issue) == (8, 16)
    # What is known from memory only is not printed as published.
    origins = {row.target.published: row.origin for row in rows if row.target is not None}
    assert origins == {
        300: "derived", 450: "remembered", 128: "remembered", 3.5: "abstract", 90: "remembered",
    }


def test_floors_of_memory_are_those_of_payload(monkeypatch):
    """Links carry headers too, memory does not: 0.9 x 300 x 0.94 / 2.25 = 113 GB/s for ACE."""
    monkeypatch.setattr(isca21_bandwidth, "_ideal", lambda nodes: 300e9)
    monkeypatch.setattr(isca21_bandwidth, "_rate", lambda *of: 280e9)
    monkeypatch.setattr(isca21_bandwidth, "_least", lambda nodes, kind: 116)
    monkeypatch.setattr(isca21_bandwidth, "SIZE", 1 << 22)
    rows = {row.setting: row for row in isca21_bandwidth.fig5(Context()).rows}

    why = rows["ACE: memory bandwidth for 90 % of ideal, 4x4x4"].why
    assert why.endswith("ask for 113 GB/s at least.")


def test_what_was_found_by_trial_is_fitted_and_one_setting_is_for_all_figures():
    fitted = [each.what for each in isca21_analysis.SYSTEM if each.grounding == "fitted"]
    assert len(fitted) == 2 and "16 chunks" in fitted[0] and "partitions" in fitted[1]
    for row in (
        isca21_bandwidth._need_row("ACE", {"ACE": 128.0}, 128, ""),
        isca21_bandwidth._need_row("ACE", {"ACE": 900.0}, 128, ""),
    ):
        assert row.verdict == "fitted"


def test_an_engine_that_is_the_baseline_gains_nothing_and_no_row_takes_it_for_one(monkeypatch):
    """The experiment itself is wrong: what is called ACE is what it is compared with."""
    monkeypatch.setattr(v1_collectives, "SIZES", (1 << 18, 1 << 20))
    kinds = dict(v1_collectives.KINDS)
    monkeypatch.setattr(v1_collectives, "KINDS", {**kinds, "ACE": kinds["Baseline"]})
    v1_collectives._run.cache_clear()
    rows = [
        row
        for make in (v1_collectives.fig9, v1_collectives.fig10, v1_collectives.fig13)
        for row in make(Context()).rows
        if row.setting.startswith("ACE")
    ]
    v1_collectives._run.cache_clear()

    assert len(rows) == 6
    assert {row.verdict for row in rows} == {"outside"}


def test_a_second_reading_gives_communication_what_training_loses():
    for kind, reserved in v1_training.AT_SHARE.items():
        end = v1_training._endpoint(kind, at_share=True)
        left = end.share().memory_bytes_per_s
        assert end.memory_bytes_per_s == reserved == pytest.approx(900e9 - left)
        # The first one gives both together more than there is.
        assert v1_training._endpoint(kind, at_share=False).memory_bytes_per_s + left > 900e9


def test_gains_that_grow_are_judged_as_ratios_and_shown_in_time():
    def cell(scale, gain):
        return {
            kind: Outcome(
                compute_ms=1, exposed_ms=0, total_ms=scale * factor, network_bytes_per_s=1,
                active_forward=0, active_backward=1, active_s=1,
            )
            for kind, factor in {
                "ACE": 1, "Ideal": 1, "CommOpt": gain, "CompOpt": gain, "NoOverlap": 2,
            }.items()
        }

    def growing(small, large):
        cells = {
            (w, nodes): cell(*found)
            for w in isca21_training.WORKLOADS
            for nodes, found in ((16, small), (128, large))
        }
        return {row.setting: row for row in isca21_training._orderings(cells)}

    setting = "ACE's gain over the best baseline grows with size (128 against 16)"
    in_time = "the same in time: smallest growth of ACE's lead over the best baseline"
    # All times grow, and so does what is between them; the gain is the same, and falls.
    longer = growing((1.0, 1.3), (4.0, 1.25))
    assert longer[setting].verdict == "outside" and longer[in_time].ours > 0
    assert growing((1.0, 1.3), (4.0, 1.4))[setting].verdict == "within"


def test_means_over_axes_of_our_choice_say_so_in_print(monkeypatch):
    monkeypatch.setattr(v1_collectives, "SIZES", (1 << 18, 1 << 20))
    figure = v1_collectives.fig13(Context())

    assert "Means are over axes that we chose: 4x16, and 256 KB to 1 MB" in rows_table(figure).note
    assert {row.verdict for row in figure.rows if row.target} <= {"within", "outside"}
    assert set(rows_table(figure)["grounding"]) == {"chosen"}


def test_smart_nic_scaling_is_drawn_over_one_worker_beside_the_ideal():
    curves = smartnic_training._throughput(448)

    assert curves.dashed == ["ideal"]
    assert curves.series["ideal"][-1] == (32, 32)
    assert "published speed-up, NIC with BFP" in curves.marks
    for points in curves.series.values():
        assert all(0 < y <= x for x, y in points)


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
    for name, make in paper.PAPER.figures.items():
        figure = make(Context())
        assert figure.rows or figure.lost, name
        assert figure.assumptions or not figure.rows, name
        data = figure.curves or figure.tables or name in WITHOUT_PLOT
        assert data or not figure.rows, name
        unexplained = [r.setting for r in figure.rows if r.verdict == "outside" and not r.why]
        assert not unexplained, name
