# SPDX-License-Identifier: Apache-2.0
"""The bench of ordinary traffic, small, and what it refuses."""

import pytest

from bench import switch_background


def test_a_small_case_ends_with_what_it_found(capsys, monkeypatch):
    monkeypatch.setattr(switch_background, "ALONE_CYCLES", 300)
    monkeypatch.setattr(switch_background, "DEPTHS", (40,))
    argv = ["--bytes", "4096", "--loads", "0", "0.3", "--waves", "1", "2"]

    assert switch_background.main(argv) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    name, values = last.split()[1], dict(word.split("=") for word in last.split()[2:])
    assert name == "switch_background" and values["verdict"] == "ok"
    assert sum("alone" in line for line in lines) == 2
    # Two modes; nothing, stores and messages.
    assert sum(" none " in line for line in lines) == 2 * 3
    assert sum("latency less by" in line for line in lines) == 2 * 2
    assert values["load"] == "0.3" and float(values["push_waves_gbs"]) > 0


@pytest.mark.parametrize("argv, words", [
    (["--bytes", "2"], "--bytes must be a multiple of 4"),
    (["--waves", "64"], "--waves must be from 1 to 32"),
    (["--loads", "0.5", "1.5"], "--loads must be from 0 to 1"),
    (["--loads", "nan"], "--loads must be from 0 to 1"),
    (["--loads", "0"], "--loads must be from 0 to 1, with one above 0"),
    (["--pattern", "all"], "invalid choice"),
])
def test_what_cannot_be_run_is_one_line(argv, words, capsys):
    with pytest.raises(SystemExit):
        switch_background.main(argv)
    assert words in capsys.readouterr().err
