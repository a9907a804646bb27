# SPDX-License-Identifier: Apache-2.0
"""The wheel: builds without a network, holds what it should, and works where nothing else is."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (path,) = folder.glob("*.whl")
    return path


def test_wheel_installs_exactly_these_top_level_names(wheel):
    names = {name.partition("/")[0] for name in zipfile.ZipFile(wheel).namelist()}

    packages = {name for name in names if not name.endswith(".dist-info")}
    assert packages == {"hw", "gen", "sim", "foldwire"}


def test_wheel_holds_every_file_of_the_packages(wheel):
    """Templates, C++ sources and data are as necessary as modules."""
    held = set(zipfile.ZipFile(wheel).namelist())
    wanted = {
        path.relative_to(ROOT).as_posix()
        for package in ("hw", "gen", "sim", "foldwire")
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }

    assert {"sim/results/view/view.html.j2", "sim/rtl/harness/harness.cpp", "gen/shim.cc"} <= wanted
    assert {f"{package}/py.typed" for package in ("hw", "gen", "sim", "foldwire")} <= wanted
    assert wanted <= held


def test_wheel_carries_the_licences(wheel):
    held = zipfile.ZipFile(wheel).namelist()

    assert any(name.endswith("licenses/LICENSE") for name in held)
    assert "sim/workload/data/astra-sim-1.0/LICENSE" in held
    assert "sim/workload/data/ORIGIN.md" in held


def test_unpacked_wheel_works_away_from_the_checkout(wheel, tmp_path):
    """Imports, reads its data and says that test benches need a checkout."""
    site = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)
    script = (
        "import foldwire as fw, sim.workload.astra_text as a, foldwire.cli as c\n"
        "print(fw.__version__, len(a.shipped('resnet50').layers), c.main(['tb']), fw.__file__)\n"
        "c.main(['examples', '-o', 'mine'])\n"
        "from sim.describe.system import read\n"
        "assert {read(f'mine/{name}.toml').kind for name in ('astra_files', 'gpt3')} == {'ideal'}\n"
    )
    # -P and a foreign folder keep the checkout off the path; PYTHONPATH beats an editable install.
    environment = os.environ | {"PYTHONPATH": str(site)}
    done = subprocess.run(
        [sys.executable, "-P", "-c", script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    version, layers, code, path, *copied = done.stdout.split()
    assert "mine/traces/two_layers.et" in copied
    assert (layers, code) == ("54", "2")
    assert version in wheel.name and Path(path).is_relative_to(site)
    assert done.stderr == (
        "foldwire: test benches run from a checkout of the repository; there is none\n"
    )
