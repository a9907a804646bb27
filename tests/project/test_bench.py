# SPDX-License-Identifier: Apache-2.0
import os
from types import SimpleNamespace

import numpy as np
import pytest

import bench.__main__ as runner
from bench import _noise, rtl_speed
from bench._lanes import block_hertz
from bench._noise import Noise
from bench.records.registered import files, modules
from bench.result import format_result
from sim.engines import registry


def test_result_line_has_plain_numbers_and_ends_with_the_verdict():
    line = format_result("ring", verdict="ok", seconds=np.float64(1.5), lines=2150, held=True)

    assert line == "RESULT ring seconds=1.5 lines=2150 held=1 verdict=ok"


@pytest.mark.parametrize("value", ["two words", ""])
def test_value_that_would_break_the_line_is_refused(value):
    with pytest.raises(ValueError, match="value of note must be one word"):
        format_result("x", verdict="ok", note=value)


def test_verdict_is_ok_or_short_or_noisy():
    assert format_result("x", verdict="noisy") == "RESULT x verdict=noisy"
    with pytest.raises(ValueError, match="verdict must be one of ok, short, noisy, not 'good'"):
        format_result("x", verdict="good")


def stat(user, idle, waits=0, guest=0):
    """A line of /proc/stat, of seconds."""
    hertz = os.sysconf("SC_CLK_TCK")
    columns = (user, 0, 0, idle, waits, 0, 0, 0, guest, 0)
    return f"cpu  {' '.join(str(round(each * hertz)) for each in columns)}\ncpu0 1 2\n"


@pytest.mark.parametrize("user, idle, share", [(6, 94, 0.06), (4, 96, 0.04)])
def test_noise_is_what_others_take_of_all_cpus(tmp_path, monkeypatch, user, idle, share):
    own = [3.0]
    monkeypatch.setattr(_noise.resource, "getrusage", lambda who: SimpleNamespace(
        ru_utime=own[0] / 2, ru_stime=0.0))  # half of it in this process, half in its children
    path = tmp_path / "stat"
    path.write_text(stat(100, 500))
    noise = Noise(path)
    assert noise.share is None and not noise.noisy
    with noise:
        path.write_text(stat(100 + user + 50, 500 + idle - 50 - 20, waits=20, guest=7))
        own[0] += 50
    path.write_text(stat(900, 900))  # nobody looks
    with noise:
        path.write_text(stat(900 + user, 900 + idle))

    assert noise.share == pytest.approx(share)
    assert noise.noisy == (share > 0.05)


def test_where_nothing_tells_noise_it_is_not_known(tmp_path):
    noise = Noise(tmp_path / "stat")
    with noise:
        pass
    assert noise.share is None and not noise.noisy


@pytest.fixture
def benches(tmp_path, monkeypatch):
    """A bench folder with two benches, one of which cannot measure, and a module beside them."""
    (tmp_path / "common.py").write_text('"""What benches share."""\ndef parser():\n    pass\n')
    (tmp_path / "good.py").write_text(
        '"""Measures.\n\nMore."""\ndef main(argv):\n    print("good", argv)\n    return 0\n'
    )
    (tmp_path / "bad.py").write_text('"""Breaks."""\ndef main(argv):\n    return 1\n')
    monkeypatch.setattr(runner, "__file__", str(tmp_path / "__main__.py"))
    monkeypatch.setattr("bench.__path__", [str(tmp_path)])


def test_benches_are_listed_with_their_first_line(benches, capsys):
    assert runner.main([]) == 0
    out = capsys.readouterr().out
    assert "good         Measures.\n" in out and "More" not in out
    assert "common" not in out


def test_one_bench_gets_the_remaining_arguments(benches, capsys):
    assert runner.main(["good", "--seed", "3"]) == 0
    assert capsys.readouterr().out == "good ['--seed', '3']\n"


def test_all_runs_every_bench_and_reports_one_that_broke(benches, capsys):
    assert runner.main(["all"]) == 1
    assert "good []" in capsys.readouterr().out


def test_unknown_bench_is_one_line_and_code_2(benches, capsys):
    assert runner.main(["goood"]) == 2
    err = capsys.readouterr().err
    assert err == "bench: unknown benchmark 'goood'; there are: bad, good\n"


def test_result_line_is_stored_on_request(benches, tmp_path, monkeypatch):
    (tmp_path / "other.py").write_text(
        '"""Measures."""\nfrom bench.result import result\n'
        'def main(argv):\n    assert argv == ["--seed", "3"]\n'
        '    result("other", verdict="ok", x=1)\n    return 0\n'
    )
    kept = []
    monkeypatch.setattr(runner, "store", lambda lines: kept.extend(lines))

    assert runner.main(["other", "--seed", "3"]) == 0 and not kept
    assert runner.main(["other", "--store", "--seed", "3"]) == 0
    assert kept == ["RESULT other x=1 verdict=ok"]


@pytest.fixture
def parts(monkeypatch, tmp_path):
    """rtl_speed with two parts that note that they ran; the second is interrupted once."""
    ran = []

    def small(options):
        ran.append("small")
        return {"hz": 3e5, "links_pct": 10.0, "ratio_vs_verilator": 3.0}

    def threads(options):
        ran.append("threads")
        if ran.count("threads") == 1:
            raise KeyboardInterrupt
        return {"thread_ratio": 0.67}  # as on a machine that does other things, too

    monkeypatch.setattr(rtl_speed, "PARTS", {"small": small, "threads": threads})
    monkeypatch.setenv("FOLDWIRE_CACHE", str(tmp_path))
    monkeypatch.setenv("FOLDWIRE_CXXFLAGS", "")
    return ran


def test_a_bench_that_was_interrupted_goes_on_where_it_was(parts, capsys):
    with pytest.raises(KeyboardInterrupt):
        rtl_speed.main([])
    assert rtl_speed.main([]) == 0

    assert parts == ["small", "threads", "threads"]
    out = capsys.readouterr().out
    assert "small: measured 20" in out
    assert out.splitlines()[-1] == (
        "RESULT rtl_speed ratio_vs_verilator=3 links_pct=10 hz_test=300000 thread_ratio=0.67 "
        "verdict=ok"
    )
    rtl_speed.main([])  # all of it was printed, so the next run measures all of it
    assert parts[3:] == ["small", "threads"]


def test_figures_of_other_options_are_not_taken_for_these(parts):
    with pytest.raises(KeyboardInterrupt):
        rtl_speed.main([])
    rtl_speed.main(["--repeats", "7"])

    assert parts == ["small", "threads", "small", "threads"]


def test_parts_that_are_named_are_measured_alone_and_anew(parts, capsys):
    rtl_speed.main(["small"])
    rtl_speed.main(["small"])

    assert parts == ["small", "small"]
    line = "RESULT rtl_speed ratio_vs_verilator=3 links_pct=10 hz_test=300000 verdict=ok"
    assert capsys.readouterr().out.splitlines()[-1] == line
    with pytest.raises(SystemExit):
        rtl_speed.main(["smal"])
    assert "unknown part 'smal'; there are: small, threads" in capsys.readouterr().err


@pytest.mark.parametrize("change, verdict", [
    ({}, "ok"),
    ({"ratio_vs_verilator": 1.4}, "short"),
    ({"others_pct": 5.1}, "noisy"),
    ({"ratio_vs_verilator": 1.4, "others_pct": 5.1}, "noisy"),
])
def test_a_speed_that_others_disturbed_is_neither_ok_nor_short(
    monkeypatch, tmp_path, capsys, change, verdict
):
    figures = {"hz": 3e5, "links_pct": 10.0, "ratio_vs_verilator": 1.6, "others_pct": 4.9}
    monkeypatch.setattr(rtl_speed, "PARTS", {
        "small": lambda options: figures | change,
        "busy": lambda options: {"hz": 1e5, "links_pct": 31.0, "ratio_vs_verilator": 1.3},
    })
    monkeypatch.setenv("FOLDWIRE_CACHE", str(tmp_path))
    monkeypatch.setenv("FOLDWIRE_CXXFLAGS", "")
    assert rtl_speed.main([]) == 0
    line = capsys.readouterr().out.splitlines()[-1]
    assert line.endswith(f"verdict={verdict}") and "ratio_busy=1.3 links_busy_pct=31" in line


def test_ratios_are_those_of_the_turns(capsys):
    # Both sides are slower in the second turn; the other is measured once only in the last case.
    assert rtl_speed._ratio([20, 10, 22], [10, 5, 10], "it") == 2
    assert "2.00 times as fast as it   (2.00 .. 2.20)" in capsys.readouterr().out
    assert rtl_speed._ratio([20, 10, 40], [10], "it") == 2


def test_blocks_are_measured_alone_and_in_lanes(monkeypatch, tmp_path):
    monkeypatch.setenv("FOLDWIRE_CACHE", str(tmp_path))
    monkeypatch.setenv("FOLDWIRE_CXXFLAGS", "-O0")
    alone, lanes = block_hertz("fifo", 2, 4, True, 1)
    assert alone > 0 and lanes > 0


def test_engines_without_a_part_are_not_in_the_benches_that_ask_for_it(monkeypatch):
    monkeypatch.setitem(registry._added, "led_nic", object())

    assert list(modules("levels")) == ["ace", "smartnic", "in_switch"]
    assert list(modules("rings")) == list(files("rings.py")) == ["ace", "smartnic"]
    assert modules("nothing") == {}
