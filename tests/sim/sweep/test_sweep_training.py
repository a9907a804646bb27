# SPDX-License-Identifier: Apache-2.0
"""Sweeps over training systems."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sim.sweep.engine import run_sweep
from sim.sweep.spec import parse, read
from sim.sweep.training import RUNNER

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = sorted((ROOT / "examples" / "sweeps").glob("*.toml"))
SWEEP = """
[base]
topology = { kind = "torus", shape = [2, 2], bandwidth_bytes_per_s = 1e9 }
workload = { collective = "all_reduce", size_bytes = 100000 }
[grid]
endpoint.kind = ["ideal", "ace", "nonsense"]
workload.size_bytes = { from = 50000, to = 200000, factor = 2 }
"""


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_training_systems_give_the_same_numbers_everywhere(tmp_path):
    from distributed import LocalCluster

    spec = parse(SWEEP, source=str(tmp_path / "sweep.toml"))

    def run(name, **options):
        return run_sweep(spec, tmp_path / name, runner=RUNNER, version="1", **options)

    one, two = run("one"), run("two", workers=2)
    with LocalCluster(n_workers=1, threads_per_worker=2, dashboard_address=None) as cluster:
        far = run("far", scheduler=cluster.scheduler_address)

    assert one.table == two.table == far.table
    assert one.failed == 3
    error = one.table.rows[-1][-1]
    assert "endpoint.kind: must be one of ideal, " in error and error.endswith("not 'nonsense'")
    columns = [column.name for column in one.table.columns]
    times = [row[columns.index("time_s")] for row in one.table.rows]
    assert 0 < times[0] < times[1] < times[2]
    assert times[3] > times[0]


def test_system_without_a_workload_is_an_error_of_the_point(tmp_path):
    text = "[base]\ntopology = {kind='ring', shape=[3]}\n[grid]\ntopology.shape = [[3], [4]]\n"
    spec = parse(text, source=str(tmp_path / "sweep.toml"))

    outcome = run_sweep(spec, tmp_path / "out", runner=RUNNER, version="1")

    assert outcome.failed == 2
    what = "workload: must state what runs, by one of file, shipped, generator, collective"
    assert what in outcome.results[0].error


@pytest.mark.parametrize("way", ["table", "file"])
def test_workload_that_is_named_indirectly_is_read_anew_when_it_changes(tmp_path, way):
    """``DNN-name`` leaves out the suffix, and may stand in the file of the system."""
    astra = "topology = 'Torus2D'\nsystem = 'sys.txt'\n"
    stated = "num-npus: 4\n"
    if way == "table":
        astra += "DNN-name = 'wl'\n"
    else:
        stated += "DNN-name: wl\n"
    (tmp_path / "sys.txt").write_text(stated)
    text = f"[base.astra]\n{astra}[grid]\nastra.package-link-latency = [100, 200]\n"
    spec = parse(text, source=str(tmp_path / "sweep.toml"))
    layer = "l -1 0 NONE 0 0 NONE 0 0 ALLREDUCE {} 0\n"
    times, reused = [], []
    for size in (1 << 16, 1 << 16, 1 << 22):
        (tmp_path / "wl.txt").write_text("DATA\n1\n" + layer.format(size))
        outcome = run_sweep(spec, tmp_path / "out", runner=RUNNER, version="1")
        assert outcome.failed == 0
        times.append([result.metrics["time_s"] for result in outcome.results])
        reused.append(outcome.reused)

    assert reused == [0, 2, 0]
    assert times[0] == times[1] and times[2][0] > 10 * times[0][0]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_points_of_the_examples_are_training_systems(path):
    from sim.describe.system import describe

    spec = read(path)

    for changes in spec.points():
        describe(spec.config(changes), folder=Path(spec.source).parent)
    assert EXAMPLES and len(spec) >= 4


SCRIPT = """\
import foldwire as fw  # without a line on __main__
base = {'topology': {'kind': 'ring', 'shape': [3], 'bandwidth_bytes_per_s': 1e9},
        'workload': {'collective': 'all_reduce', 'size_bytes': 4096}}
fw.sweep({'base': base, 'grid': {'topology.shape': [[3], [4]]}}, '.')
"""


def run_script(folder, *arguments, **options):
    (folder / "script.py").write_text(SCRIPT)
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False, timeout=120,
        cwd=folder, env=os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}."}, **options,
    )


@pytest.mark.parametrize("arguments", [["script.py"], ["-m", "script"]])
def test_script_that_every_worker_would_run_anew_is_told_so_in_one_line(tmp_path, arguments):
    done = run_script(tmp_path, *arguments)

    assert done.returncode == 1
    assert done.stderr == (
        "foldwire: a script that runs a sweep does so below the line if __name__ == '__main__':, "
        "as its processes run the script, too\n"
    )
    assert not list((tmp_path / "points").glob("*.json"))


def test_script_from_standard_input_needs_no_such_line(tmp_path):
    done = run_script(tmp_path, "-", input=SCRIPT)

    assert (done.returncode, done.stderr) == (0, "")
    assert len([*(tmp_path / "points").glob("*.json")]) == 2
