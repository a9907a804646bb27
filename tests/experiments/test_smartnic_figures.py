# SPDX-License-Identifier: Apache-2.0
"""The smart NIC's figures: the fit, what follows from it, and how resources are divided."""

from dataclasses import replace

import pytest

from experiments import smartnic
from experiments.figure import Context
from experiments.figures import smartnic_area, smartnic_checks, smartnic_training
from experiments.figures.smartnic_fit import (
    LINE_RATE_HZ,
    PUBLISHED_FIT,
    Systems,
    fit,
    implied_step_s,
    inputs_table,
    latency_s,
    solve_monotone,
    systems,
)
from gen.table import Column, Table

ANALYTIC = ("checks", "fig2a", "fig2b", "fig4a", "fig4b")


@pytest.fixture(scope="module")
def figures():
    return {name: smartnic.PAPER.figures[name](Context()) for name in ANALYTIC}


def test_the_fit_meets_the_four_values_that_it_is_fitted_to():
    for name, ours in systems(6, 448).savings().items():
        assert ours == pytest.approx(PUBLISHED_FIT[name], abs=0.01)


def test_what_is_fitted_is_labelled_and_nothing_else(figures):
    fitted = {
        name: [row.setting for row in each.rows if row.fitted] for name, each in figures.items()
    }

    assert {name: len(rows) for name, rows in fitted.items() if rows} == {
        "fig2a": 1,
        "fig4a": len(PUBLISHED_FIT) + 2,
        "fig4b": 1,
    }
    assert fitted["fig2a"] == ["naive: exposed all-reduces, share of the time"]
    assert fitted["fig4b"] == ["batch 448, 32 nodes, NIC"]
    for name in ("fig2a", "fig4b"):
        fit_to = [row for row in figures[name].rows if row.fitted]
        assert [row.ours for row in fit_to] == pytest.approx([r.target.published for r in fit_to])
    assert len(PUBLISHED_FIT) > 3  # more values than parameters


def test_two_values_that_nothing_was_fitted_to_follow_from_the_fits(figures):
    rows = {row.setting: row for each in figures.values() for row in each.rows}
    predicted = ("naive over overlapped: total", "batch 448, 32 nodes, NIC with BFP")

    assert [rows[each].verdict for each in predicted] == ["within", "within"]
    assert [rows[each].ours for each in predicted] == pytest.approx([1.91, 2.52], abs=0.01)


def test_batch_1792_contradicts_batch_448_by_a_bound(figures):
    (row,) = (row for row in figures["fig4b"].rows if row.bound)

    assert row.setting == "batch 1792, 32 nodes, NIC"
    assert row.verdict == "contradicted"
    # By hand from Fig. 4a alone, the published speed-ups of batch 448 allow 1.07.
    assert row.bound.value == pytest.approx(1.07, abs=0.01)


def test_the_chosen_reading_is_the_one_whose_clock_carries_40_gbit_per_s():
    clocks = {passes: fit(passes).clock_hz for passes in ("sums", "reduction", "both")}
    assert [passes for passes, hz in clocks.items() if hz >= LINE_RATE_HZ] == ["both"]
    assert fit().passes == "both"


def test_hard_checks_are_within(figures):
    rows = figures["checks"].rows
    assert [row.check for row in rows] == ["H6"] * 2 + ["H7"] * 3
    assert [row.verdict for row in rows] == ["identity"] * 5


def test_q13_is_evaluated_at_both_sizes_and_batches(figures):
    settings = [row.setting for f in ("fig4a", "fig4b") for row in figures[f].rows if row.check]
    assert len(settings) == 8
    assert [row.verdict for row in figures["fig4b"].rows if "BFP " in row.setting] == ["within"] * 2


def test_whatever_is_outside_is_explained(figures):
    for figure in figures.values():
        assert all(row.why for row in figure.rows if row.verdict == "outside")


def test_the_implied_all_reduce_gives_the_speed_up_back():
    system = systems(32, 448)
    ours = smartnic_training.implied_all_reduce_s(system, system.speedup(bfp=True), bfp=True)
    assert ours == pytest.approx(system.mpi.all_reduce_s(system.mlp.gradient_bytes), rel=1e-6)


def test_the_implied_latency_gives_the_speed_up_back():
    step_s = implied_step_s(32, 448, 1.8, bfp=False)
    assert step_s == latency_s() != 0
    changed = Systems(nodes=32, batch=448, fit=fit(step_s=step_s), step_s=step_s)
    assert changed.speedup(bfp=False) == pytest.approx(1.8, rel=1e-4)


def test_a_speed_up_that_nothing_gives_is_said_so():
    assert smartnic_training.implied_all_reduce_s(systems(6, 1792), 0.5, bfp=False) is None
    assert solve_monotone(lambda x: x - 5, 0, 1) is None


def test_inputs_say_where_they_come_from():
    grounds = {row[0]: row[3] for row in inputs_table().rows}
    fitted = [name for name, ground in grounds.items() if ground == "fitted"]
    assert len([name for name in fitted if not name.startswith("clock if")]) == 5
    assert set(grounds.values()) <= {"stated", "data", "chosen", "fitted"}


def test_the_simulator_agrees_with_the_analytic_model():
    system = systems(6, 448)
    simulated = smartnic_training.simulated_s(system, bfp=False)
    # The network sets the pace, so the reading of the adders does not matter.
    assert simulated == pytest.approx(system.nic(bfp=False).total_s, rel=0.03)


COLUMNS = ("block", "instances", "alut", "ff", "m10k", "sram_blocks")
BLOCKS = {
    "smartnic": (1, 1000, 500, 20),
    "smartnic_engine": (1, 900, 450, 20),
    "smartnic_alu": (1, 300, 30, 0),
    "smartnic_compressor": (1, 100, 10, 0),
    "smartnic_decompressor": (2, 80, 8, 1),
    "smartnic_fetch": (1, 20, 2, 3),
    "smartnic_store": (1, 21, 2, 3),
    "smartnic_transmit": (1, 22, 2, 3),
    "smartnic_receive": (1, 23, 2, 3),
}


def report() -> Table:
    rows = [(name, *values, 0) for name, values in BLOCKS.items()]
    return Table("cells", [Column(name) for name in COLUMNS], rows)


def test_parts_of_the_nic_add_up_to_the_whole():
    parts = smartnic_area.divide(report())
    assert parts["all-reduce"].aluts == 900 - 300 - 100 - 2 * 80 - (20 + 21 + 22 + 23)
    assert parts["decompressors"].m10ks == 2
    assert parts["registers and control"].registers == 50
    for name in ("aluts", "registers", "m10ks"):
        whole = BLOCKS["smartnic"][1 + ("aluts", "registers", "m10ks").index(name)]
        assert sum(getattr(share, name) for share in parts.values()) == whole


def test_resources_stand_beside_the_papers(monkeypatch):
    monkeypatch.setattr(smartnic_area, "synthesize", lambda *args, **options: report())
    rows = {row.setting.split(":")[0]: row for row in smartnic_area.table1(Context()).rows}
    assert rows["binary32 adders, a DSP block each in the paper"].verdict == "identity"
    assert rows["all-reduce without adders"].verdict == "outside"
    assert rows["all-reduce without adders"].why


def _times(factor: int, share: smartnic_area.Share) -> smartnic_area.Share:
    return smartnic_area.Share(
        aluts=factor * share.aluts, registers=factor * share.registers,
        m10ks=factor * share.m10ks,
    )


def test_a_part_that_is_not_there_is_named():
    with pytest.raises(ValueError, match=r"^smartnic has no block fetch$"):
        smartnic_area.divide(replace(report(), rows=report().rows[:5]))


@pytest.mark.parametrize("scale, verdict", [(1, "within"), (100, "outside")])
def test_shares_of_the_device_at_400g_can_fail(monkeypatch, scale, verdict):
    rows = []
    for name, (count, *values) in BLOCKS.items():
        part = name.replace("smartnic", "smartnic_400g")
        cells = [scale * each for each in values]
        if part == "smartnic_400g":
            rows.append((part, 1, *(4 * each for each in cells), 0))
        elif "engine" in part:  # four engines differ in their numbers
            rows += [(f"{part}_{n}", 1, *cells, 0) for n in range(4)]
        elif "transmit" in part:
            rows += [(f"smartnic_400g_engine_transmit_{n}", 2, *cells, 0) for n in range(2)]
        else:
            rows.append((part, 4 * count, *cells, 0))
    made = Table("cells", [Column(name) for name in COLUMNS], rows)
    monkeypatch.setattr(smartnic_area, "synthesize", lambda *args, **options: made)
    parts = smartnic_area.divide(made, "smartnic_400g")
    assert parts["all-reduce"] == _times(4 * scale, smartnic_area.divide(report())["all-reduce"])
    logic, memory, adders = smartnic_area.at_400g(Context()).rows
    assert (logic.verdict, memory.verdict, adders.verdict) == (verdict, verdict, "within")


def test_figures_are_taken_by_name(capsys, tmp_path):
    assert smartnic.main(["checks", "-o", str(tmp_path)]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("RESULT reproduce_smartnic rows=5 compared=0 within=0 outside=0")


def test_a_wrong_trace_formula_would_be_noticed(monkeypatch):
    right = smartnic_checks.trace_s
    monkeypatch.setattr(
        smartnic_checks,
        "trace_s",
        lambda layers: right([replace(layer, update_s=0) for layer in layers]),
    )
    verdicts = [row.verdict for row in smartnic_checks.checks(Context()).rows if row.check == "H7"]
    assert "outside" in verdicts
