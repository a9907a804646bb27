# SPDX-License-Identifier: Apache-2.0
"""How the bench of 128 endpoints judges what it has run; the runs are planted."""

from types import SimpleNamespace

import pytest

from bench import switch_scale
from sim.units import MIB


@pytest.fixture
def planted(monkeypatch):
    """Runs that take what a test says: by level, seconds before the first byte, and GB/s."""
    rates = {"cycles": (2e-6, 75.0), "events": (1e-6, 75.0)}

    def run(path, *, endpoint, changes):
        begin_s, rate = rates[endpoint.partition(":")[2]]
        rate = rate(changes) if callable(rate) else rate
        time_s = begin_s + changes["workload.size_bytes"] / rate / 1e9
        return SimpleNamespace(time_s=time_s, metrics={})

    monkeypatch.setattr(switch_scale, "run", run)
    return rates


def last(capsys):
    switch_scale.main([])
    words = capsys.readouterr().out.splitlines()[-1].split()
    return dict(word.split("=") for word in words[2:] if "=" in word)


def test_what_a_run_begins_with_is_not_in_its_rate(planted, capsys):
    found = last(capsys)
    assert float(found["rate_gbs"]) == pytest.approx(75)
    assert float(found["apart_pct"]) == pytest.approx(0, abs=1e-6)
    assert float(found["trees_error_pct"]) == pytest.approx(0, abs=1e-6)
    assert float(found["events_error_pct"]) > 1
    assert found["verdict"] == "ok"


def test_rates_that_change_with_size_are_no_steady_state(planted, capsys):
    planted["cycles"] = 0.0, lambda changes: 70 + changes["workload.size_bytes"] / MIB
    found = last(capsys)
    assert float(found["apart_pct"]) > 2 and found["verdict"] == "short"


def test_rates_of_a_neighbour_that_change_with_size_are_none_either(planted, capsys):
    def rate(changes):
        return 75 + 20 * (changes.get("switch.entries") == 4) * changes["workload.size_bytes"] / MIB

    planted["cycles"] = 0.0, rate
    found = last(capsys)
    assert float(found["apart_pct"]) < 0.1
    assert float(found["neighbours_apart_pct"]) > 2 and found["verdict"] == "short"


def test_inputs_that_take_turns_are_shown_but_not_judged(planted, capsys):
    def rate(changes):
        turns = changes.get("switch.age_bits") == 0
        return 75 + 20 * turns * changes["workload.size_bytes"] / MIB

    planted["cycles"] = 0.0, rate
    assert last(capsys)["verdict"] == "ok"


def test_the_tree_with_the_largest_error_counts(planted, capsys):
    def slower(changes):
        return 75 * (0.9 if changes.get("topology.shape") == [24] else 1.0)

    planted["events"] = 0.0, slower
    assert float(last(capsys)["trees_error_pct"]) == pytest.approx(10)
