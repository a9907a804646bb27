# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C ends a command within a second and without a traceback, twice too; so does ``| head``."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ENDS_S = 3.0  # a second, and some for a machine that does other things
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
MIXED = SWEEP.replace("300_000_000, 400_000_000, ", "4096, 8192, ")
FILES = {"big.toml": BIG, "sweep.toml": SWEEP, "mixed.toml": MIXED}
COMMANDS = {
    "sim": (["sim", "big.toml"], "  simulating"),
    "sweep": (["sweep", "sweep.toml", "--workers", "2"], "  3 points"),
    "demo": (["demo"], "  "),
    "tb": (["tb", "fp"], ""),
}
"""Arguments, and the beginning of what a command prints on standard error when it is at work."""


def started(folder, *arguments, env=None, **options):
    for name, text in FILES.items():
        (folder / name).write_text(text)
    return subprocess.Popen(
        [sys.executable, "-m", "foldwire", *arguments], cwd=folder, start_new_session=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)} | (env or {}), text=True,
        # A shell starts what runs in the background with interrupts ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL), **options,
    )


def interrupt(process):
    try:
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: all processes of the command
    except ProcessLookupError:
        pass


def interrupted(process, *, after_s, times=1):
    """What a process has printed on standard error when it is interrupted, and for how long it goes
    on; it must say that it was interrupted, and nothing of Python's."""
    try:
        time.sleep(after_s)
        assert process.poll() is None, process.communicate()
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

    assert process.returncode == 130, err
    assert err.endswith("foldwire: interrupted\n") and "Traceback" not in err and "Error" not in err
    assert took < ENDS_S
    return err


@pytest.mark.parametrize(
    ("name", "times", "after_s"),
    [("sim", 1, 0.7), ("sim", 3, 0.7), ("sweep", 1, 0.7), ("sweep", 2, 0.1),
     ("demo", 2, 0.2), ("tb", 2, 0.8)],
)
def test_an_interrupt_ends_a_command_at_once(tmp_path, name, times, after_s):
    arguments, begun = COMMANDS[name]
    folder = [] if name == "tb" else ["-o", "out"]
    process = started(tmp_path, *arguments, *folder, stdout=subprocess.DEVNULL,
                      stderr=subprocess.PIPE)
    assert process.stderr.read(len(begun)) == begun
    interrupted(process, after_s=after_s, times=times)


def read_until(process, text):
    seen = ""
    while text not in seen:
        more = process.stderr.read(1)
        assert more, seen
        seen += more


@pytest.mark.parametrize("times", [1, 2])
def test_an_interrupt_ends_a_command_that_is_being_loaded(tmp_path, times):
    process = started(tmp_path, "sim", "big.toml", stdout=subprocess.DEVNULL,
                      stderr=subprocess.PIPE, env={"PYTHONPROFILEIMPORTTIME": "1"})
    read_until(process, "click")
    interrupted(process, after_s=0, times=times)


def test_an_interrupt_ends_a_compilation(tmp_path):
    """The processes of a sweep compile the event kernel: one does, the other waits for it."""
    process = started(tmp_path, *COMMANDS["sweep"][0], "-o", "out", stdout=subprocess.DEVNULL,
                      stderr=subprocess.PIPE, env={"FOLDWIRE_CACHE": str(tmp_path / "cache")})
    read_until(process, "compiling the simulator")
    interrupted(process, after_s=0.5, times=2)


def test_points_and_rows_that_are_finished_are_kept(tmp_path):
    process = started(tmp_path, "sweep", "mixed.toml", "--workers", "1", "-o", "out",
                      stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    points, until = tmp_path / "out/mixed/points", time.monotonic() + 20
    while len([*points.glob("*.json")]) < 2:
        assert time.monotonic() < until and process.poll() is None
        time.sleep(0.05)
    interrupted(process, after_s=0.3, times=2)
    assert len([*points.glob("*.json")]) == 2  # the same command goes on from there

    process = started(tmp_path, "bandwidth", "big.toml", "--from", "1K", "--to", "512M", "--factor",
                      "400000", "-o", "out", stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    read_until(process, "\n  409600000 B")
    interrupted(process, after_s=0.3, times=2)
    rows = (tmp_path / "out/big-bandwidth/bandwidth.csv").read_text().splitlines()
    assert [row.partition(",")[0] for row in rows] == ["size_bytes", "1024"]


def test_an_interrupt_ends_a_run_in_python_which_can_go_on(tmp_path):
    """As in a notebook: the cell ends, the next one runs."""
    script = tmp_path / "script.py"
    script.write_text(
        "import time\nimport foldwire as fw\n"
        "before = fw.run('small.toml').end_fs\nprint('begun', flush=True)\n"
        "try:\n    fw.run('big.toml')\nexcept KeyboardInterrupt:\n"
        "    spent = time.process_time()\n    time.sleep(0.2)\n"
        "    print(time.process_time() - spent < 0.1, fw.run('small.toml').end_fs == before)\n"
    )
    for name, size in (("big.toml", "400_000_000"), ("small.toml", "4096")):
        (tmp_path / name).write_text(BIG.replace("400_000_000", size))
    process = subprocess.Popen(
        [sys.executable, "script.py"], cwd=tmp_path, text=True, stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stdout.readline() == "begun\n"
    time.sleep(0.7)
    begin = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)

    assert (process.returncode, out) == (0, "True True\n")  # nothing went on in the background
    assert time.monotonic() - begin < 2 * ENDS_S  # with the small run again


@pytest.mark.parametrize("arguments", [["sim", "--help"], ["sim", "small.toml", "-o", "out"]])
def test_a_reader_that_leaves_is_no_error(tmp_path, monkeypatch, arguments):
    """As ``| head`` does; the files are written all the same."""
    small = BIG.replace("400_000_000", "4096").replace("[8, 8, 4]", "[2]")
    monkeypatch.setitem(FILES, "small.toml", small)
    read, write = os.pipe()
    os.close(read)
    process = started(tmp_path, *arguments, stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    _, err = process.communicate(timeout=60)

    assert process.returncode == 0, err
    assert "rror" not in err and "Traceback" not in err
    assert arguments[1] == "--help" or (tmp_path / "out" / "small" / "run.json").exists()
