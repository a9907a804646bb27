# SPDX-License-Identifier: Apache-2.0
"""A failure of Yosys is an exception of ours, with its log."""

import time

import pytest

from gen.yosys import YosysError, YosysTimeoutError, run_yosys


def test_an_error_of_yosys_does_not_end_this_process(tmp_path):
    with pytest.raises(YosysError, match=r"(?s)status 1.*No such command: nonsense"):
        run_yosys(["nonsense"], cwd=tmp_path)


def test_the_exception_carries_the_whole_log(tmp_path):
    with pytest.raises(YosysError) as caught:
        run_yosys(["log first words", *["log"] * 60, "nonsense"], cwd=tmp_path)
    assert "first words" in caught.value.log
    assert "first words" not in str(caught.value)


def test_the_message_has_the_error_wherever_it_stands():
    """stdout may still hold lines when the error is written to stderr."""
    assert str(YosysError("stopped", "ERROR: proof\n" + "line\n" * 99)).endswith("ERROR: proof")
    assert str(YosysError("stopped", "line\nERROR: proof\n")).count("ERROR: proof") == 1


def test_a_time_limit_is_kept(tmp_path):
    with pytest.raises(YosysTimeoutError, match=r"did not finish within 0\.2 s"):
        run_yosys(["exec -- sleep 30"], cwd=tmp_path, timeout=0.2)


def test_what_is_done_meanwhile_is_done_while_yosys_runs(tmp_path):
    started = tmp_path / "started"

    def wait():
        deadline = time.monotonic() + 60
        while not started.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        (tmp_path / "done").touch()

    # Each waits for the other one.
    (tmp_path / "wait.sh").write_text("while ! test -e done; do sleep 0.05; done")
    steps = ["exec -- touch started", "exec -- sh wait.sh"]
    run_yosys(steps, cwd=tmp_path, timeout=60, meanwhile=wait)
    assert started.exists()


def test_a_limit_of_cpu_time_is_kept(tmp_path):
    (tmp_path / "hard.v").write_text(
        "module hard(input [31:0] a, b, c, output same);\n"
        "  assign same = (a + b) * c == a * c + b * c;\nendmodule\n"
    )
    with pytest.raises(YosysTimeoutError, match=r"^Yosys did not finish within 1 s of CPU time;"):
        run_yosys(["read_verilog hard.v", "sat -prove same 1 hard"], cwd=tmp_path, cpu_s=1)
