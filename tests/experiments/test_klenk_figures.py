"""In-switch reductions: what is compared, from what, and that both sides pay for what they do."""

import pytest

from experiments import klenk
from experiments.figure import Context
from experiments.figures import klenk_bandwidth, klenk_training
from experiments.figures.klenk_bandwidth import best_ring, reduced_s, ring_s


def rows(make):
    return {row.setting: row for row in make(Context()).rows}


def test_arithmetic_of_packets_and_tables_is_an_identity():
    assert {row.verdict for row in rows(klenk_bandwidth.checks).values()} == {"identity"}


def test_one_step_of_a_ring_is_data_fence_and_flag():
    # 30 steps; two of a GPU's sixteen ways lead to the other group, through one switch more.
    way, memory = 150e-9, klenk_bandwidth.MEMORY_S
    fenced = ring_s(1024, "data, fence, flag", 1024)
    beside = ring_s(1024, "flag beside data", 1024)

    assert fenced == pytest.approx(30 * (3 * way + memory) + 4 * way, rel=0.02)
    assert beside == pytest.approx(30 * (way + memory) + 4 * way, rel=0.02)


def test_the_best_ring_is_no_slower_than_any_and_flags_cost_half_of_the_links():
    size = 4 << 20
    assert best_ring(size)[0] == min(
        ring_s(size, protocol, chunk)
        for protocol in klenk_bandwidth.PROTOCOLS
        for chunk in klenk_bandwidth.CHUNKS
    )
    ratio = ring_s(size, "flag beside data", 1 << 18) / ring_s(size, "data, fence, flag", 1 << 18)
    assert 1.8 < ratio < 2.0


def test_a_push_of_little_passes_three_switches_and_memory():
    # Own leaf, home leaf, own leaf.
    assert reduced_s("push", 1024) == pytest.approx(3 * 150e-9 + 240e-9, rel=0.05)


def test_what_is_fitted_is_the_share_on_volta_alone(monkeypatch):
    monkeypatch.setattr(klenk_training, "RATIOS", (1, 4))
    monkeypatch.setattr(klenk_training, "fitted_flops_per_s", lambda: 62e12)
    found = klenk_training.MODELS["Transformer"]
    assert found["preset"] == "transformer-big"
    share = klenk_training._share(62e12)
    assert share == pytest.approx(klenk_training.SHARE_ON_VOLTA, abs=0.01)


@pytest.mark.full
def test_the_paper_has_enough_rows_and_explains_what_is_outside():
    figures = [make(Context()) for make in klenk.PAPER.figures.values()]
    found = [row for figure in figures for row in figure.rows]
    verdicts = [row.verdict for row in found]
    assert verdicts.count("within") + verdicts.count("outside") >= 8
    assert verdicts.count("outside") <= 2
    assert [row.verdict for row in found if row.fitted] == ["fitted"]
    assert all(row.why for row in found if row.verdict == "outside")
