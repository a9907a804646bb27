"""``--json`` says what the files hold, ``--quiet`` nothing; completion is there."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

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


def test_completion_is_there():
    done = subprocess.run(
        [sys.executable, "-c", "from foldwire.cli import main; main()"], text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT), "_FOLDWIRE_COMPLETE": "zsh_source"},
        capture_output=True, check=False,
    )
    assert "_FOLDWIRE_COMPLETE=zsh_complete foldwire" in done.stdout
