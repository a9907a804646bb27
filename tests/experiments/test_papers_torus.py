# SPDX-License-Identifier: Apache-2.0
"""The torus of the ACE papers: what its links allow, and what engines of two sizes put on it."""

import numpy as np
import pytest

from bench._papers_torus import LINKS_GB_PER_S, papers_torus, use_of
from experiments.figure import Context
from experiments.figures import isca21_cycles
from hw.ace.config import PRESETS
from sim.analytic.traffic import endpoint_ceiling
from sim.run import run


def use(preset, *, size_bytes=1 << 20, **options):
    described = papers_torus(
        preset, level="cycles", size_bytes=size_bytes, between_cycles=200, **options
    )
    return use_of(run(described))


def test_links_allow_what_the_closed_form_says():
    payload = 256 / 272
    rates = 400e9 * payload, 50e9 * payload, 50e9 * payload
    ceiling = endpoint_ceiling((4, 4, 4), rates)
    # The closed form takes one order of the dimensions, in which one slow one carries four times as
    # much as the other; here chunks take both orders.
    assert ceiling.injection_bytes_per_s / 1e9 < LINKS_GB_PER_S
    loads = np.array([[1.5, 0.375, 0.09375], [1.5, 0.09375, 0.375]])
    vector = min(1 / (loads.mean(axis=0) / rates))
    assert LINKS_GB_PER_S == pytest.approx(loads[0].sum() * vector / 1e9)


def test_ports_of_the_published_size_bound_it_and_links_the_other():
    published, improved = use("isca21", size_bytes=4 << 20), use("torus", size_bytes=4 << 20)

    assert published.limit[0] == "SRAM" and published.limit[1] > 0.95
    # Beats of 64 B that are read and written for each byte sent: load and store, first sends and
    # operands, sums and copies that are kept, in chunks; 2.25 chunks are sent.
    reads = 1 + 1 + 2 * (1 / 16 + 3 / 16) + 1 / 4 + 1 / 4
    writes = 1 + 1 / 4 + 2 * (4 / 16) + 3 / 4 + 1 / 4
    per_byte = (reads + writes) / 2.25 / 64
    assert published.injected_gb_per_s == pytest.approx(4 * 1.245 / per_byte, rel=0.08)
    assert improved.injected_gb_per_s > 0.9 * LINKS_GB_PER_S
    assert PRESETS["isca21"].sram_bytes == PRESETS["torus"].sram_bytes == 4 << 20


def test_memory_bounds_the_vector():
    found = use("torus", memory_gb_per_s=20.0, size_bytes=8 << 20).whole_gb_per_s
    assert 18 < found < 20


def test_a_node_injects_as_much_whether_one_or_all_run():
    one, all_of_them = (
        use("torus", shape=(2, 2, 2), fold=fold, size_bytes=1 << 18, changes={"banks": 4})
        for fold in (True, False)
    )
    assert one.injected_gb_per_s == pytest.approx(all_of_them.injected_gb_per_s, rel=1e-6)
    assert one.shares == pytest.approx(all_of_them.shares, rel=1e-6)


def test_more_memory_that_makes_a_run_slower_would_be_seen(monkeypatch):
    def slower(preset, memory, sram, fsms):
        found = isca21_cycles.Use(1.0, 1.0 if memory and memory > 100 else 2.0, {"SRAM": 1.0})
        return found

    monkeypatch.setattr(isca21_cycles, "_use", slower)
    rows = isca21_cycles.fig5_cycles(Context()).rows
    assert [row.ours for row in rows if "never" in row.setting] == [0.0]
