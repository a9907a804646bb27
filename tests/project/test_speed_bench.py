# SPDX-License-Identifier: Apache-2.0
"""Reference times of `bench sim_speed` are scaled by a fixed program."""

import json
import re
import sys

import pytest

from bench import sim_speed
from bench._calibration import SUM, calibration_s, cpu_of
from bench._speed_run import CASES


def test_every_stored_time_is_of_a_case_and_has_a_calibration():
    stored = json.loads(sim_speed.REFERENCE.read_text(encoding="utf-8"))
    assert set(stored["cases"]) <= set(CASES)
    assert all(case["cpu_s"] > 0 for case in stored["cases"].values())
    assert 0 < stored["least_s"] <= stored["calibration_s"] <= stored["most_s"]
    assert sum(case["cpu_s"] >= sim_speed.LONG_S for case in stored["cases"].values()) >= 5


def test_the_fixed_program_prints_its_sum(tmp_path, monkeypatch):
    monkeypatch.setenv("FOLDWIRE_CACHE", str(tmp_path))
    assert 0.1 < calibration_s() < 100
    monkeypatch.setattr("bench._calibration.SUM", SUM + "1")
    with pytest.raises(RuntimeError, match=f"printed '{SUM}', not {SUM}1"):
        calibration_s()


def test_a_process_that_fails_is_named():
    with pytest.raises(RuntimeError, match=r"exit\(3\) failed"):
        cpu_of([sys.executable, "-c", "exit(3)"])


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_references_take_as_much_longer_as_the_fixed_program(monkeypatch, capsys, factor):
    """On a machine on which everything takes *factor* times as long, ratios stay the same."""
    stored = json.loads(sim_speed.REFERENCE.read_text(encoding="utf-8"))
    own = {
        name: case["cpu_s"] / stored["calibration_s"] / 20
        for name, case in stored["cases"].items()
        if case["cpu_s"] >= sim_speed.LONG_S
    }
    monkeypatch.setattr(sim_speed, "CASES", {name: CASES[name] for name in own})
    monkeypatch.setattr(sim_speed, "calibration_s", lambda: factor)
    monkeypatch.setattr(
        sim_speed, "_measure", lambda case, fold: ("7 8", factor * own[case], 90.0)
    )
    sim_speed.main(["--runs", "1"])
    found = re.search(r"min_ratio=(\S+) derived_ratio=(\S+)", capsys.readouterr().out)
    assert found is not None and float(found[2]) == pytest.approx(20)
    # The least that the other machine's range allows.
    assert float(found[1]) == pytest.approx(20 * stored["calibration_s"] / stored["most_s"], 1e-5)
