# SPDX-License-Identifier: Apache-2.0
"""Files are made once, whole, by one process, wherever there is room for them."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from gen import cache
from gen.cache import default_cache_dir, kept, set_announcer


@pytest.fixture
def said(monkeypatch):
    """What the user was told."""
    monkeypatch.setattr(cache, "_told", set())
    lines = []
    before = set_announcer(lines.append)
    yield lines
    set_announcer(before)


def writes(text, calls=None):
    def make(path):
        if calls is not None:
            calls.append(path)
        path.write_text(text)

    return make


@pytest.mark.parametrize(
    "environment, folder",
    [
        ({"FOLDWIRE_CACHE": "/a/b", "XDG_CACHE_HOME": "/c"}, "/a/b"),
        ({"XDG_CACHE_HOME": "/c", "HOME": "/me"}, "/c/foldwire"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/me"}, "/me/.cache/foldwire"),
        ({"FOLDWIRE_CACHE": "", "HOME": "/me"}, "/me/.cache/foldwire"),
    ],
)
def test_the_folder_is_the_users_not_the_current_one(environment, folder, monkeypatch):
    for name in ("FOLDWIRE_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert default_cache_dir() == Path(folder)


def test_a_file_is_made_once_and_the_user_told_once(tmp_path, said):
    calls = []
    for _ in range(2):
        path = kept("a/b.txt", writes("x", calls), doing="making b", folder=tmp_path)
        assert path.read_text() == "x"
    assert len(calls) == 1
    assert said == ["making b, once ..."]
    assert {file.name for file in path.parent.iterdir()} == {"b.txt", "b.txt.sha256"}


@pytest.mark.parametrize("damage", ["", "half", "x longer than before"])
def test_a_damaged_file_is_made_again(tmp_path, said, damage):
    path = kept("b", writes("whole"), doing="making b", folder=tmp_path)
    path.write_text(damage)
    assert kept("b", writes("whole"), doing="making b", folder=tmp_path).read_text() == "whole"
    path.with_name("b.sha256").write_bytes(b"\xff\x00")
    assert kept("b", writes("again"), doing="making b", folder=tmp_path).read_text() == "again"


def test_trouble_while_making_leaves_nothing(tmp_path, said):
    def fails(path):
        path.write_text("half")
        raise ArithmeticError("trouble")

    with pytest.raises(ArithmeticError, match="trouble"):
        kept("b", fails, doing="making b", folder=tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert kept("b", writes("x"), doing="making b", folder=tmp_path).read_text() == "x"


def test_a_killed_process_leaves_nothing_that_is_used(tmp_path, said):
    program = (
        "import os, sys; from pathlib import Path; from gen.cache import kept\n"
        "def make(path): path.write_text('half'); os.kill(os.getpid(), 9)\n"
        "kept('b', make, doing='making b', folder=Path(sys.argv[1]))"
    )
    killed = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True)
    assert killed.returncode == -9
    left = [path for path in tmp_path.iterdir() if path.is_dir()]
    assert kept("b", writes("x"), doing="making b", folder=tmp_path).read_text() == "x"
    # Its scratch folder is deleted when it is certain that nobody works there.
    for path in left:
        os.utime(path, (0, 0))
    kept("b", writes("x"), doing="making b", folder=tmp_path).unlink()
    kept("b", writes("x"), doing="making b", folder=tmp_path)
    assert left and not any(path.exists() for path in left)


SLOW = """
import sys, time
from pathlib import Path
from gen.cache import kept

folder = Path(sys.argv[1])

def make(path):
    with (folder / "made").open("a") as log:
        log.write("x")
    time.sleep(0.5)
    path.write_text("contents")

(folder / f"here{sys.argv[2]}").touch()
while len(list(folder.glob("here*"))) < 3:
    time.sleep(0.01)
print(kept("b", make, doing="making b", folder=folder).read_text())
"""


def test_of_several_processes_one_makes_it_and_the_others_wait(tmp_path):
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", SLOW, str(tmp_path), str(number)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for number in range(3)
    ]
    outcomes = [process.communicate(timeout=60) for process in processes]
    assert [out for out, _ in outcomes] == ["contents\n"] * 3
    assert (tmp_path / "made").read_text() == "x"
    said = sorted(line for _, err in outcomes for line in err.splitlines())
    assert said == ["making b, once ..."] + ["waiting for a process that is making b ..."] * 2


def test_without_a_folder_that_can_be_written_a_temporary_one_is_used(
    tmp_path, said, monkeypatch
):
    (tmp_path / "file").touch()
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    calls = []
    for _ in range(2):
        path = kept("b", writes("x", calls), doing="making b", folder=tmp_path / "file" / "cache")
        assert path.read_text() == "x"
        assert path.parent.parent == tmp_path / "temporary"
        assert path.parent.stat().st_mode & 0o777 == 0o700
    assert len(calls) == 1
    assert [line for line in said if "FOLDWIRE_CACHE" in line] == said[:1]
    assert said[1:] == ["making b, once ..."]


def test_a_temporary_folder_of_somebody_else_is_not_used(tmp_path, said, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    shared = tmp_path / f"foldwire-{os.getuid()}"
    shared.mkdir()
    shared.chmod(0o777)
    with pytest.raises(OSError):
        kept("b", writes("x"), doing="making b", folder=tmp_path / "file" / "cache")
    shared.rmdir()
    shared.symlink_to(tmp_path)
    with pytest.raises(OSError):
        kept("b", writes("x"), doing="making b", folder=tmp_path / "file" / "cache")


def test_a_cache_that_cannot_be_written_is_read(said):
    """As root can write everywhere, a child process gives that up."""
    with tempfile.TemporaryDirectory() as place:  # pytest's own folders are closed to others
        folder = Path(place)
        kept("b", writes("x"), doing="making b", folder=folder)
        folder.chmod(0o555)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                if os.getuid() == 0:
                    os.setuid(65534)
                found = kept("b", writes("other"), doing="making b", folder=folder)
                status = 0 if found.read_text() == "x" and found.parent == folder else 2
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        folder.chmod(0o755)
    assert said == ["making b, once ..."]


def test_nobody_waits_for_a_lock_that_a_dead_process_left(tmp_path, said):
    (tmp_path / "b.lock").touch()
    begin = time.monotonic()
    kept("b", writes("x"), doing="making b", folder=tmp_path)
    assert time.monotonic() - begin < 5
