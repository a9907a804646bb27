# SPDX-License-Identifier: Apache-2.0
"""Examples run and print what stands beside them; the README shows the same text."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from foldwire.cli import cli
from sim.describe.reader import ConfigError
from sim.run import run

ROOT = Path(__file__).resolve().parents[2]
# Without an output, as `led_nic.py`: a page shows it, and its test is beside that of the page.
SCRIPTS = sorted(
    path for path in (ROOT / "examples").glob("*.py") if path.with_suffix(".out").exists()
)
# A collective with engines in RTL; event simulations and switches are in tests/sim/describe,
# training on tori and models alone in tests/sim/run.
SYSTEMS = [
    path
    for path in sorted((ROOT / "examples").glob("*.toml"))
    if '"rtl"' in (text := path.read_text(encoding="utf-8"))
    and "collective" in tomllib.loads(text)["workload"]
]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def test_there_are_examples():
    assert [path.stem for path in SCRIPTS] == ["quick_start", "train_system"] and SYSTEMS


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_example_prints_what_stands_beside_it(script):
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    expected = script.with_suffix(".out").read_text(encoding="utf-8")
    assert done.stdout == expected, "`make report` writes the new figures"


def test_readme_shows_the_examples_as_they_are():
    shown = []
    for name in ("quick_start", "train_system"):
        source = (ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8")
        shown.append(source.split('"""\n\n', 1)[1])
        assert (ROOT / "examples" / f"{name}.out").read_text(encoding="utf-8") in blocks("text")

    assert blocks("python") == shown


@pytest.mark.parametrize("path", SYSTEMS, ids=lambda path: path.stem)
def test_described_system_runs(path):
    """On the smallest engine, which is compiled for other tests anyway, and on a short vector."""
    system = tomllib.loads(path.read_text(encoding="utf-8"))
    system["endpoint"]["preset"] = "test"
    system["topology"]["bandwidth_bytes_per_s"] = 16 * 1.245e9
    system["workload"]["size_bytes"] = 812

    assert run(system).data.exact


def test_commands_and_options_of_the_readme_exist():
    lines = re.findall(r"^foldwire (\S+)([^#\n]*)", README, re.MULTILINE)

    assert lines
    for command, rest in lines:
        options = {option for each in cli.commands[command].params for option in each.opts}
        assert set(re.findall(r"(?<!\S)--?[a-z]+", rest)) <= options


def runs_as_cycles(kind, shape, collective):
    topology = {"kind": kind, "shape": shape, "bandwidth_bytes_per_s": 16 * 1.245e9}
    several = {"ports": 4, "fsms": 4, "alus": 4, "max_nodes": 8, "rx_packets": 64}
    endpoint = {"kind": "ace", "preset": "test", "level": "cycles"}
    system = {
        "topology": topology,
        "endpoint": endpoint | several if kind == "torus" else endpoint,
        "algorithm": {"style": "multi_colour"} if kind == "torus" else {},
        "workload": {"collective": collective, "size_bytes": 1024},
    }
    try:
        run(system)
    except ConfigError:
        return False
    return True


@pytest.mark.parametrize(
    ("row", "kind", "shape", "collectives"),
    [
        ("ACE, the endpoint engine", "ring", [4], ["all_reduce", "reduce_scatter", "all_gather"]),
        ("several phases on a torus", "torus", [2, 2],
         ["all_reduce", "reduce_scatter", "all_gather"]),
        ("all-to-all, broadcast", "ring", [4], ["all_to_all", "broadcast"]),
        ("trees, halving-doubling", "switch", [4], ["all_reduce"]),
    ],
)
def test_readme_says_what_engines_run(row, kind, shape, collectives):
    """The second column: hardware and its cycle model; where it says no, the engine refuses."""
    (cells,) = [line.split("|") for line in README.splitlines() if line.startswith(f"| {row}")]
    said = cells[2].strip() != "no"

    assert [runs_as_cycles(kind, shape, each) for each in collectives] == [said] * len(collectives)
