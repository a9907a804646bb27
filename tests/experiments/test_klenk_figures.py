# SPDX-License-Identifier: Apache-2.0
"""In-switch reductions: what is compared, from what, and that both sides pay for what they do."""

import tomllib
from dataclasses import asdict
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import pytest

from bench import switch_tables
from experiments import klenk
from experiments.figure import Context
from experiments.figures import (
    klenk_bandwidth,
    klenk_ethernet,
    klenk_packets,
    klenk_training,
)
from experiments.figures.klenk_bandwidth import best_ring, reduced_s, ring_s
from gen.table import Column, Table
from sim.run import run

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/in_switch_ethernet.toml"


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


def test_the_ring_to_compare_with_is_the_papers_and_flags_cost_half_of_the_links():
    size = 4 << 20
    assert best_ring(size)[0] == min(
        ring_s(size, "data, fence, flag", chunk) for chunk in klenk_bandwidth.CHUNKS
    )
    # Without fences a ring of little is faster, and is not the paper's.
    assert best_ring(1024, klenk_bandwidth.BESIDE)[0] < best_ring(1024)[0]
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
    assert [row.verdict for row in found if row.fitted] == ["fitted"]
    assert all(row.why for row in found if row.verdict == "outside")


def test_ethernet_is_what_is_described_and_gains_no_more_than_a_ring_sends(monkeypatch):
    monkeypatch.setattr(klenk_ethernet, "SWEPT_BYTES", 1 << 20)
    links = klenk_ethernet.ethernet(100)
    example = tomllib.loads(EXAMPLE.read_text("utf-8"))

    assert links.hop_s == pytest.approx(1.5e-6) and links.chunk_bytes in klenk_bandwidth.CHUNKS
    assert example["endpoint"]["switch"] == asdict(links.packets)
    assert links.topology == example["topology"]
    # Of a vector that fills the links.
    ring_s = klenk_ethernet._ring_s(links, links.chunk_bytes)
    example["workload"] = {"collective": "all_reduce", "size_bytes": 1 << 20}
    push_s = run(example).time_s
    assert (1 << 20) / 12.5e9 / links.packets.payload_share < push_s < ring_s
    assert ring_s > 1.875 * (1 << 20) / 12.5e9 / links.packets.payload_share


@pytest.mark.parametrize("slow, holds", [(1.8, True), (1.3, False)])
def test_rates_are_all_printed_and_the_most_is_compared(monkeypatch, slow, holds):
    gains = {100: slow, 200: 1.5, 400: 1.45}

    def planted(links, name, progress):
        rate = round(dict(links.changed).get("bandwidth_bytes_per_s", 0) * 8e-9)
        keys = product(klenk_training.MODELS, klenk_training.RATIOS, klenk_training.SCHEDULES)
        return dict.fromkeys(keys, gains.get(rate, 1.4)), Table(name, [Column("model")])

    monkeypatch.setattr(klenk_ethernet, "gains_over_rings", planted)
    monkeypatch.setattr(klenk_ethernet, "_ring_s", lambda links, chunk: chunk)
    compared, *shown, ordering = klenk_ethernet.fig11_ethernet(Context()).rows

    assert compared.ours == max(gains.values())
    assert compared.verdict == ("identity" if slow == 1.8 else "outside") and compared.why
    assert [row.ours for row in shown] == [*gains.values(), slow]
    assert {row.verdict for row in shown} == {"shown"}
    assert ordering.ours == holds


def test_trees_are_run_with_what_the_figure_says_that_they_have(monkeypatch):
    changed = []

    def noted(path, *, endpoint, changes):
        changed.append(changes)
        return SimpleNamespace(time_s=1e-4, metrics={"evicted": 0.0, "expired": 0.0})

    monkeypatch.setattr(klenk_packets, "run_description", noted)
    figure = klenk_packets.fig8(Context())
    stated = {made.what: made.grounding for made in figure.assumptions}
    assert stated[klenk_packets.LINKS[1].what] == "stated"
    assert all(each["switch.acknowledged"] is True for each in changed)
    assert [each["switch.entries"] * 128 for each in changed] == [256, 256, 1024, 1024] * 2
    ages = [bool(each["switch.age_bits"]) for each in changed]
    assert ages == [True, False] * 4
    assert ["in turns" not in row.setting for row in figure.rows] == ages
    compared = [row.setting for row in figure.rows if row.target is not None]
    assert compared == [f"push on {gpus} GPUs, tables of 256 B a port" for gpus in (64, 128)]
    assert {each["workload.size_bytes"] for each in changed} == {klenk_packets.TREE_BYTES}


@pytest.mark.full
def test_tables_and_latencies_are_those_of_the_cycle_model(monkeypatch):
    for name, value in (
        ("SIZE_BYTES", 4096), ("ENTRIES", (1, 32)), ("WAVES", (2,)),
    ):
        monkeypatch.setattr(klenk_packets, name, value)
    ages = []

    def noted(*given, **more):
        ages.append(more["age_bits"])
        return switch_tables.run(*given, **more)

    monkeypatch.setattr(klenk_packets, "run", noted)

    figures = [make(Context()) for make in (klenk_packets.fig9, klenk_packets.fig10_packets)]
    assert all(klenk_packets.ORDER in figure.assumptions for figure in figures)
    assert set(ages) == {klenk_packets.AGE_BITS}
    found = [row for figure in figures for row in figure.rows]
    assert [row.check for row in found] == ["Q10", "Q10", "Q11", "", "Q11", ""]
    assert {row.ours for row in found[:2]} <= {128, 4096}
    assert all(row.ours < 100 for row in found[2:])
