# SPDX-License-Identifier: Apache-2.0
"""``--json`` says what the files hold, ``--quiet`` nothing; completion is there."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from foldwire import console
from foldwire.cli import main
from gen.table import Table

ROOT = Path(__file__).parents[2]
SYSTEM = '[topology]\nkind = "torus"\nshape = [4, 2]\n[workload]\nshipped = "resnet50"\n'
SWEEP = 'base = "system.toml"\n[grid]\ntopology.shape = [[2], [4]]\n'


@pytest.fixture
def called(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("system.toml").write_text(SYSTEM)
    Path("sweep.toml").write_text(SWEEP)

    def call(*arguments):
        code = main([*arguments, "-o", "out"])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def rows_of(file):
    return list(csv.DictReader(Path(file).read_text().splitlines()))


def alike(cell, value):
    if value is None or isinstance(value, str):
        return cell == (value or "")
    return float(cell) == pytest.approx(value)


def test_json_of_runs_is_what_the_tables_hold(called):
    code, out, err = called("sim", "system.toml", "--json")
    document = json.loads(out)

    assert code == 0 and "simulating system" in err
    assert document["metrics"]["nodes"] == 8
    assert document["folder"] == str(Path("out") / "system")
    for name, table in document["tables"].items():
        rows = rows_of(f"out/system/{name}.csv")
        records = Table.from_json(json.dumps(table)).records()
        assert len(rows) == len(records) > 0
        for row, record in zip(rows, records):
            assert all(alike(row[column], value) for column, value in record.items()), name

    _, out, _ = called("compare", "out/system", "out/system", "--json")
    assert len(json.loads(out)["runs"]) == 2


def test_json_of_sweeps_and_bandwidths(called):
    _, out, _ = called("sweep", "sweep.toml", "--workers", "1", "--json")
    points = json.loads(out)["points"]
    assert [point["nodes"] for point in points] == [2, 4]
    assert all(alike(row["time_s"], each["time_s"]) for row, each in zip(
        rows_of("out/sweep/sweep.csv"), points
    ))

    _, out, _ = called("bandwidth", "system.toml", "--from", "1K", "--to", "1K", "--json")
    (row,) = json.loads(out)["rows"]
    assert alike(rows_of("out/system-bandwidth/bandwidth.csv")[0]["busbw_bytes_per_s"],
                 row["busbw_bytes_per_s"])


def test_quiet_commands_print_errors_alone(called):
    assert called("sim", "system.toml", "--quiet") == (0, "", "")
    assert Path("out/system/run.json").exists()
    assert called("sweep", "sweep.toml", "--workers", "1", "--quiet") == (0, "", "")
    code, out, err = called("sim", "none.toml", "--quiet")
    assert (code, out) == (2, "") and err.count("\n") == 1
    assert called("sim", "system.toml", "--quiet", "--json")[0] == 2
    assert "run time" in called("sim", "system.toml")[1]  # the next command is not quiet


@pytest.mark.parametrize("start", [[], ["--start", "2e-5"]])
def test_json_of_machines_is_what_is_printed(capsys, start):
    arguments = ["machines", "dgx-h100", "--from", "1M", "--to", "4M", *start]
    assert main([*arguments, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert main(arguments) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if "float" in line]

    assert len(rows) == len(lines) == 2
    for row, (size, *_, time_us, algbw, busbw, _, percent, algorithm) in zip(rows, lines):
        assert (row["size_bytes"], row["algorithm"]) == (int(size), algorithm)
        assert float(algbw) == pytest.approx(row["algbw_bytes_per_s"] / 1e9, abs=0.006)
        assert float(busbw) == pytest.approx(row["busbw_bytes_per_s"] / 1e9, abs=0.006)
        assert float(percent) == pytest.approx(row["bound_percent"], abs=0.06)
        timed = None if time_us == "-" else pytest.approx(1e-6 * float(time_us), rel=1e-3)
        assert row["time_s"] == timed and (timed is not None) == bool(start)


def test_json_of_lists_and_files(called, capsys):
    for command, name, least in (("machines", "machines", 8), ("gen", "designs", 4),
                                 ("examples", "examples", 20)):
        assert main([command, "--json"]) == 0
        assert len(json.loads(capsys.readouterr().out)[name]) > least
        assert main([command, "--quiet"]) == 0 and capsys.readouterr() == ("", "")
    _, out, _ = called("gen", "adder", "--json")
    files = [Path(each) for each in json.loads(out)["files"]]
    assert files[0] == Path("out/adder_binary32.sv") and all(each.is_file() for each in files)
    _, out, _ = called("synth", "adder", "--json")
    cells = json.loads(out)["cells"]
    rows = rows_of("out/adder_binary32.generic.csv")
    assert len(rows) == len(cells) > 0
    assert all(alike(row[key], value) for row, each in zip(rows, cells)
               for key, value in each.items())


def test_json_of_explorations(called):
    sweep = (
        '[base]\n[base.topology]\nkind = "ring"\nshape = [2]\nbandwidth_bytes_per_s = 16e9\n'
        '[base.endpoint]\nkind = "ace"\npreset = "test"\n'
        '[base.workload]\ncollective = "all_reduce"\nsize_bytes = 65536\n'
        "[grid]\nendpoint.fsms = [1, 2]\n"
    )
    Path("explored.toml").write_text(sweep)
    code, out, err = called("explore", "explored.toml", "--workers", "1", "--json")
    assert code == 0, err
    points = json.loads(out)["points"]
    table = {row["endpoint.fsms"]: row for row in rows_of("out/explored/front.csv")}
    assert points and all(
        alike(table[str(each["endpoint.fsms"])][name], each[name])
        for each in points for name in ("time_s", "lut")
    )


def test_tables_in_a_pipe_are_as_wide_as_it_is_said():
    done = subprocess.run(
        [sys.executable, "-m", "foldwire", "machines"], text=True, capture_output=True, check=True,
        env=os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "60"},
    )
    assert max(map(len, done.stdout.splitlines())) == 60


@pytest.mark.parametrize(("to", "code", "told"), [
    (">&-", 0, ""),
    (">/dev/full", 1,
     "foldwire: standard output: cannot be written: No space left on device\n"),
])
def test_output_that_cannot_be_written_is_named_and_one_that_is_closed_is_not_missed(
    to, code, told
):
    if "full" in to and not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    done = subprocess.run(
        ["sh", "-c", f'"$0" -m foldwire machines {to}', sys.executable], text=True,
        capture_output=True, check=False, env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert (done.returncode, done.stderr) == (code, told)


def test_completion_is_there():
    done = subprocess.run(
        [sys.executable, "-c", "from foldwire.cli import main; main()"], text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT), "_FOLDWIRE_COMPLETE": "zsh_source"},
        capture_output=True, check=False,
    )
    assert "_FOLDWIRE_COMPLETE=zsh_complete foldwire" in done.stdout


def test_what_is_printed_after_a_quiet_command_is_heard(tmp_path, capsys):
    assert main(["examples", "--quiet", "-o", str(tmp_path)]) == 0
    capsys.readouterr()

    console.say("still here")

    assert capsys.readouterr().out == "still here\n"
