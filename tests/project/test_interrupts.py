"""Ctrl-C ends a command within a second and without a traceback, twice too; so does ``| head``."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ENDS_S = 1.5  # a second, and some for a machine that does other things
BIG = """
[topology]
kind = "torus"
shape = [8, 8, 4]
[endpoint]
kind = "ace"
[workload]
collective = "all_reduce"
size_bytes = 400_000_000
[run]
fold = "off"
"""
SWEEP = 'base = "big.toml"\n[grid]\nworkload.size_bytes = [300_000_000, 400_000_000, 500_000_000]\n'
COMMANDS = {
    "sim": ["sim", "big.toml"],
    "sweep": ["sweep", "sweep.toml", "--workers", "2"],
}


def started(folder, *arguments, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "foldwire", *arguments], cwd=folder, start_new_session=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)}, text=True,
        # A shell starts what runs in the background with interrupts ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL), **options,
    )


def interrupt(process):
    try:
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: all processes of the command
    except ProcessLookupError:
        pass


@pytest.mark.parametrize(("name", "times"), [("sim", 2), ("sweep", 1), ("sweep", 2)])
def test_an_interrupt_ends_a_command_at_once(tmp_path, name, times):
    (tmp_path / "big.toml").write_text(BIG)
    (tmp_path / "sweep.toml").write_text(SWEEP)
    process = started(tmp_path, *COMMANDS[name], "-o", "out", stderr=subprocess.PIPE)
    try:
        # The first step begins; then it is at work in compiled code.
        assert process.stderr.read(3) == "  " + {"sim": "s", "sweep": "3"}[name]
        time.sleep(0.7)
        begin = time.monotonic()
        for _ in range(times):
            interrupt(process)
            time.sleep(0.05)
        _, err = process.communicate(timeout=20)
        took = time.monotonic() - begin
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()

    assert process.returncode == 130
    assert took < ENDS_S
    assert err.endswith("foldwire: interrupted\n") and "Traceback" not in err and "Error" not in err


@pytest.mark.parametrize("arguments", [["sim", "--help"], ["sim", "small.toml", "-o", "out"]])
def test_a_reader_that_leaves_is_no_error(tmp_path, arguments):
    """As ``| head`` does; the files are written all the same."""
    text = BIG.replace("400_000_000", "4096").replace("[8, 8, 4]", "[2]")
    (tmp_path / "small.toml").write_text(text)
    read, write = os.pipe()
    os.close(read)
    process = started(tmp_path, *arguments, stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    _, err = process.communicate(timeout=60)

    assert process.returncode == 0, err
    assert "rror" not in err and "Traceback" not in err
    assert arguments[1] == "--help" or (tmp_path / "out" / "small" / "run.json").exists()
