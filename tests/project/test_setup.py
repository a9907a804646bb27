# SPDX-License-Identifier: Apache-2.0
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


def packages(path, mode):
    return subprocess.run(
        [shutil.which("sh"), str(ROOT / ".ci" / "system-packages"), mode],
        env={"PATH": str(path)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def tools(bare_path):
    """Adds tools to `bare_path`, which say nothing."""
    def add(*names):
        for name in names:
            (bare_path / name).symlink_to(shutil.which(name) if name == "perl" else sys.executable)

    return add


# The cell library is data, not a program: it is there or not whatever the path.
LIBRARY = "" if Path("/usr/share/qflow/tech/osu018").is_dir() else " qflow-tech-osu018"


@pytest.mark.parametrize(("mode", "code", "wanted"), [
    ("need", 1, " g++ perl"), ("want", 0, " g++ perl"),
    ("all", 1, f" g++ perl iverilog{LIBRARY} chromium"),
])
def test_missing_system_packages_are_named(bare_path, mode, code, wanted):
    done = packages(bare_path, mode)

    assert done.returncode == code
    assert done.stderr.splitlines()[-1] == f"please run:  sudo apt-get install{wanted}"


def test_tests_run_without_packages_beyond_compiler_and_perl(bare_path, tools):
    tools("g++", "perl")

    done = packages(bare_path, "need")

    assert done.returncode == 0
    assert done.stderr.startswith(f"left out without iverilog{LIBRARY}: checks for unknown values")


def test_nothing_is_said_when_nothing_is_missing(bare_path, tools):
    tools("g++", "perl", "iverilog")

    done = packages(bare_path, "need")

    assert done.returncode == 0
    assert "iverilog" not in done.stderr and (LIBRARY or not done.stderr)
