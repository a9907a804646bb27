# SPDX-License-Identifier: Apache-2.0
"""The bench of 64 engines has every run that it must have, sees a wrong bit, and keeps limits."""

from collections import Counter
from dataclasses import replace
from itertools import groupby

import pytest

from bench import torus_64
from bench._tori import TorusCase
from sim.rtl.ace.ring import AceRing
from sim.workload.graph import CollectiveKind
from tests.sim.cycles.test_tori import ACE

KINDS = CollectiveKind.ALL_REDUCE, *torus_64.OTHERS


@pytest.fixture
def planted(monkeypatch, tmp_path):
    """Outcomes by the size of a cell, and the rest of a main that runs nothing."""
    right = {"cycles": 1 << 20, "correct": True, "cpu_s": 1.0, "setup_s": 0.5}
    found = {size: right.copy() for size in torus_64.SIZES}
    monkeypatch.setenv("FOLDWIRE_CACHE", str(tmp_path))
    monkeypatch.setattr(AceRing, "compiled", lambda *args: None)
    monkeypatch.setattr(torus_64, "outcomes", lambda kept, systems, run, processes: (
        (cells, {"runs": [found[cell.size_bytes] for cell in cells]}) for cells in systems
    ))
    return found


def last(capsys):
    torus_64.main([])
    words = capsys.readouterr().out.splitlines()[-1].split()
    return dict(word.split("=") for word in words[2:])


def test_runs_within_all_limits_are_ok(planted, capsys):
    planted[4 << 20]["cpu_s"], planted[256 << 10]["cpu_s"] = 240.0, 30.0
    found = last(capsys)

    assert found["verdict"] == "ok" and found["runs"] == found["correct"] == "72"
    assert float(found["worst_cpu_s"]) == 240 and float(found["worst_256k_cpu_s"]) == 30
    assert float(found["cpu_minutes"]) == pytest.approx((12 * 240 + 15 * 30 + 45) / 60)
    assert float(found["setup_cpu_minutes"]) == pytest.approx(72 * 0.5 / 60)


@pytest.mark.parametrize("size, changes", [
    (4, {"correct": False}),
    (256 << 10, {"cpu_s": 60.0}),
    (4 << 20, {"cpu_s": 299.9}),  # each is allowed, all of them are not
])
def test_wrong_runs_and_each_limit_of_several_are_short(planted, capsys, size, changes):
    planted[size] |= changes
    assert last(capsys)["verdict"] == "short"


def test_one_run_beyond_its_limit_is_short(planted, capsys, monkeypatch):
    for size in torus_64.SIZES:
        planted[size] = planted[4]
    slow = iter([300.1])
    monkeypatch.setattr(torus_64, "outcomes", lambda kept, systems, run, processes: (
        (cells, {"runs": [planted[4] | {"cpu_s": next(slow, 1.0)} for _ in cells]})
        for cells in systems
    ))
    found = last(capsys)
    assert found["verdict"] == "short" and float(found["cpu_minutes"]) < 60


def test_every_style_is_run_with_every_size_and_latency():
    cells = torus_64._cells()
    whole = CollectiveKind.ALL_REDUCE
    reduced = {(c.style, c.size_bytes, c.latency_cycles) for c in cells if c.collective is whole}
    assert len(reduced) == 60 and {size for _, size, _ in reduced} == {*torus_64.SIZES}
    assert {latency for _, _, latency in reduced} == {90, 500}
    assert min(torus_64.SIZES) == 4 and max(torus_64.SIZES) == 4 << 20
    others = [c for c in cells if c.collective is not whole]
    assert set(Counter((c.style, c.collective) for c in others).values()) == {1}
    assert len(others) == 12
    for kind in torus_64.OTHERS:
        mine = [c for c in others if c.collective is kind]
        assert {c.size_bytes for c in mine} == {*torus_64.SIZES[:-1]}
        assert {c.latency_cycles for c in mine} == {90, 500}
    assert all(c.nodes == c.around.engines == 64 for c in cells)
    assert len({repr(c) for c in cells}) == len(cells), "results are kept by it"
    systems = [(c.style, c.latency_cycles) for c in cells]
    assert len([*groupby(systems)]) == 12, "each has one set-up"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("size_bytes", [4, 1 << 10])
def test_a_wrong_bit_at_one_node_shows(kind, size_bytes, monkeypatch):
    cell = TorusCase(
        shape=(2, 2), size_bytes=size_bytes, latency_cycles=16, style="halves", engine=ACE,
        collective=kind,
    )
    (found,) = torus_64._run([cell], seed=1)["runs"]
    assert found["correct"] and found["cycles"] > cell.bound
    assert found["cpu_s"] > found["setup_s"] > 0
    result = AceRing.result

    def wrong(ring, node, command, rank):
        words = result(ring, node, command, rank).copy()
        words[-1:] ^= rank == 0
        return words

    monkeypatch.setattr(AceRing, "result", wrong)
    (spoilt,) = torus_64._run([cell], seed=1)["runs"]
    assert not spoilt["correct"] and spoilt["cycles"] == found["cycles"]


def test_the_bound_counts_headers_and_what_a_collective_sends():
    cell = TorusCase(
        shape=(2, 2), size_bytes=1 << 20, latency_cycles=16, style="halves", engine=ACE
    )
    beats = 1.5 * 2**20 / (4 * 16) * (64 + 16) / 64
    assert cell.bound == pytest.approx(beats + 16 + 50 + 4)
    for kind in torus_64.OTHERS:
        assert replace(cell, collective=kind).bound == pytest.approx(beats / 2 + 16 + 50 + 4)
