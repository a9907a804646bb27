# SPDX-License-Identifier: Apache-2.0
"""The demonstration in small: the smallest engine, few steps, no time for long layers."""

import tomllib
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gen.table import Column, Table
from hw.ace.config import PRESETS as ACE_PRESETS
from sim.demo.endpoints import endpoints_table, run_endpoints
from sim.demo.run import demo_system, run_hardware, run_layers, run_training, warm
from sim.demo.summary import DemoResults, training_table, write_report
from sim.describe.system import describe
from sim.runs.all_reduce import AllReducer

SYSTEM = {
    "topology": {
        "kind": "ring",
        "shape": [4],
        "bandwidth_bytes_per_s": 16 * 1.245e9,
        "latency_s": 4e-9,
    },
    "endpoint": {"kind": "ace", "preset": "test", "level": "rtl"},
    "run": {"passes": 1},
}
WORKLOAD = {"collective": "all_reduce", "size_bytes": 4096}


@contextmanager
def step(what):
    yield lambda share: None


@pytest.fixture(scope="module")
def training():
    return run_training(step, preset="test", steps=12)


def test_make_compiles_what_the_readme_runs_next(monkeypatch):
    compiled, levels = [], []
    monkeypatch.setattr("sim.demo.run.set_announcer", lambda announcer: None)
    monkeypatch.setattr(AllReducer, "compile", lambda self: compiled.append(self.config))
    monkeypatch.setattr(
        "sim.demo.run.run", lambda system: levels.append(system["endpoint"]["level"])
    )

    warm()

    assert compiled == [ACE_PRESETS["test"]] and levels == ["cycles"]
    examples = Path(__file__).parents[2] / "examples"
    assert 'preset="test"' in (examples / "quick_start.py").read_text()
    ring = tomllib.loads((examples / "ring.toml").read_text())
    assert ring["endpoint"]["preset"] == demo_system()["endpoint"]["preset"]


def test_rtl_and_numpy_train_to_the_same_bits(training):
    assert training.weights_equal and training.losses_equal
    assert training.by_rtl.diverged_at is None
    assert training.cycles > 12 * 1000


def test_demonstration_fails_when_a_bit_differs(training):
    weights = [each.copy() for each in training.by_rtl.weights]
    weights[3].view(np.uint32)[7] ^= 1
    wrong = replace(training, by_rtl=replace(training.by_rtl, weights=tuple(weights)))

    assert not wrong.weights_equal and not wrong.passed
    assert "DIFFERENT" in training_table(wrong).note


def test_accuracy_below_the_bar_fails(training):
    good = replace(training, by_rtl=replace(training.by_rtl, accuracy=0.95))
    bad = replace(training, by_rtl=replace(training.by_rtl, accuracy=0.9))

    assert good.passed and not bad.passed


def test_report_has_every_part(training, tmp_path):
    layers, utilisation = run_layers(SYSTEM, step, budget_s=0.0)
    cells = Table("Cells per block", [Column("block"), Column("LUT")], rows=[("ace_test", 1)])
    hardware = run_hardware(step, tmp_path / "verilog", lambda: cells)
    results = DemoResults(
        training=training,
        layers=layers,
        system=describe({**SYSTEM, "workload": WORKLOAD}),
        utilisation=utilisation,
        hardware=hardware,
        endpoints=run_endpoints(),
    )

    page = write_report(results, tmp_path / "report").read_text(encoding="utf-8")

    assert len(layers) == 15 and all(layer.measurement.exact for layer in layers)
    assert [layer.is_cut for layer in layers] == [False] + [True] * 14
    assert "14 of 15 sizes are cut" in page and "15 of 15" in page
    names = {path.name for path in (tmp_path / "report").iterdir()}
    assert names == {
        "index.html",
        "loss.svg",
        "utilisation.svg",
        "utilisation.png",
        "endpoints.csv",
        "endpoints.svg",
        "resnet50.csv",
        "ace_test-cells.csv",
    }
    assert 'href="../verilog/ace_demo.sv"' in page
    assert "\nmodule ace_demo (" in (tmp_path / "verilog" / "ace_demo.sv").read_text()
    assert "\nmodule ace_demo(" in (tmp_path / "verilog" / "ace_demo.v").read_text()


def test_endpoints_are_ordered_as_in_the_papers():
    runs = {run.kind: run.result for run in run_endpoints()}
    times = {kind: result.run_fs for kind, result in runs.items()}

    assert times["ideal"] <= times["ace"] < min(times[k] for k in times if "baseline" in k)
    compute = {kind: result.mean_fs[0] for kind, result in runs.items()}
    assert compute["baseline_comp_opt"] < compute["baseline_comm_opt"]
    assert len(endpoints_table(run_endpoints(("ace", "baseline_comm_opt"))).rows) == 2


def test_demonstration_is_a_ring_of_four_rtl_engines():
    system = describe({**demo_system(), "workload": WORKLOAD})

    assert [each.size for each in system.dimensions] == [4]
    assert (system.level, system.engine.preset) == ("rtl", "ring")
