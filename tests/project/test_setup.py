"""The Makefile and the check for system packages, without installing anything."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def make(*arguments):
    return subprocess.run(
        ["make", "--no-print-directory", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_help_lists_every_target():
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = re.search(r"^\.PHONY: (.*)$", text, re.MULTILINE)[1].split()

    listed = re.findall(r"^  make ([a-z-]+)  *\S", make("help").stdout, re.MULTILINE)

    assert sorted(listed) == sorted(phony)


def test_make_alone_is_the_demo():
    assert ".DEFAULT_GOAL := demo" in (ROOT / "Makefile").read_text(encoding="utf-8")


def test_old_or_missing_python_is_said_plainly(tmp_path):
    old = tmp_path / "python-old"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)

    for python in (str(old), "no-such-python"):
        done = make("-B", f"VENV={tmp_path / 'venv'}", f"PYTHON={python}", "setup")

        assert done.returncode == 2
        assert f"Foldwire needs Python 3.11 or newer as '{python}'" in done.stderr
        assert not (tmp_path / "venv").exists()


@pytest.fixture
def bare_path(tmp_path):
    """A PATH with a shell's needs, for a user who is not root, and none of the tools."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "id").write_text("#!/bin/sh\necho 1000\n")
    (folder / "id").chmod(0o755)
    return folder


@pytest.mark.parametrize(("mode", "code"), [("need", 1), ("want", 0)])
def test_missing_system_packages_are_named(bare_path, mode, code):
    done = subprocess.run(
        [shutil.which("sh"), str(ROOT / ".ci" / "system-packages"), mode],
        env={"PATH": str(bare_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == code
    assert re.search(
        r"^please run:  sudo apt-get install g\+\+ iverilog perl\b", done.stderr, re.MULTILINE
    )


def test_nothing_is_said_when_nothing_is_missing(bare_path):
    for tool in ("g++", "iverilog"):
        (bare_path / tool).symlink_to(sys.executable)
    (bare_path / "perl").symlink_to(shutil.which("perl"))

    done = subprocess.run(
        [shutil.which("sh"), str(ROOT / ".ci" / "system-packages")],
        env={"PATH": str(bare_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    # The cell library is data, not a program: it is asked for where it is not installed.
    library = Path("/usr/share/qflow/tech/osu018").is_dir()
    assert (done.returncode, "g++" in done.stderr) == (0 if library else 1, False)
