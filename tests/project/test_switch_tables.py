# SPDX-License-Identifier: Apache-2.0
"""The sizes of tables and the gain of waves, small, and how they are judged."""

import pytest

from bench import dgx2, switch_tables
from hw.switch.packet import Kind
from sim.cycles.switch.model import Transit


def test_a_small_case_ends_with_what_it_found_and_falls_short(capsys):
    argv = ["--bytes", "32768", "--entries", "1", "32", "--waves", "2"]

    assert switch_tables.main(argv) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    name, values = last.split()[1], dict(word.split("=") for word in last.split()[2:])
    assert name == "switch_tables" and values["verdict"] == "short"
    assert {"128", "4096"} >= {values["pull_knee_bytes"], values["push_knee_bytes"]}
    drops = [float(values[f"{mode}_drop_pct"]) for mode in ("push", "pull")]
    assert float(values["latency_drop_pct"]) == min(drops)
    assert float(values["multicast_bytes_ratio"]) > 1.2, "storms of partials cost nothing"
    assert sum("none" in line.split()[:1] for line in lines) == 2 * len(switch_tables.BUFFERS)


def outcome(gbs, travel=100.0):
    transits = {
        Kind.PUSH: Transit(packets=3, travel=travel, held=10.0, queued=0.0),
        Kind.RESULT: Transit(packets=1, travel=3 * travel, held=30.0, queued=0.0),
    }
    return switch_tables.Outcome(gbs=gbs, partials=0, stalls=0, transits=transits)


@pytest.fixture
def planted(monkeypatch):
    """Runs that give what a test says, by mode and table or number of waves."""
    rates, travels = {}, {}

    def run(mode, size, *, entries, seed, waves=None, buffers=None, multicast=False):
        if buffers in switch_tables.BUFFERS[:-1]:  # printed, not judged
            return outcome(100.0)
        gbs = rates.get((mode, entries), 100.0) if waves is None else 60.0 + (waves == 4)
        return outcome(gbs, travels.get((mode, waves), 400.0))

    monkeypatch.setattr(switch_tables, "run", run)
    return rates, travels


def test_the_knee_is_the_smallest_table_within_five_percent(planted, capsys):
    rates, travels = planted
    rates.update({("push", 1): 94.9, ("push", 2): 95.0, ("push", 3): 80.0})
    rates.update({("pull", entries): 50.0 for entries in (1, 2, 3, 4, 6)})
    travels.update({("push", 4): 40.0, ("pull", 4): 90.0})

    switch_tables.main([])

    last = capsys.readouterr().out.splitlines()[-1]
    assert "pull_knee_bytes=1024 push_knee_bytes=256 latency_drop_pct=77.5" in last
    assert last.endswith("verdict=ok")


def test_every_copy_of_a_packet_counts():
    assert outcome(1.0).travel == 150.0 and outcome(1.0).held == 15.0


def test_formulas_are_near_the_published_sizes():
    formulas = switch_tables._formulas()

    assert 1400 / 1.5 < formulas["pull"] < 1400 * 1.5
    assert 270 / 1.5 < formulas["push"] < 270 * 1.5


@pytest.mark.parametrize("argv, words", [
    (["--bytes", "2"], "--bytes must be a multiple of 4"),
    (["--entries", "1", "16"], "--entries must be from 1 to 32, with 32"),
    (["--waves", "64"], "--waves must be from 1 to 32"),
])
def test_what_cannot_be_run_is_one_line(argv, words, capsys):
    with pytest.raises(SystemExit):
        switch_tables.main(argv)
    assert words in capsys.readouterr().err


def test_pull_is_measured_beside_push():
    around = dgx2.surroundings(1, acknowledged=True)
    push, _ = dgx2.in_switch("push", 16384, around)
    pull, _ = dgx2.in_switch("pull", 16384, around)

    assert 1 < pull < push < 120
