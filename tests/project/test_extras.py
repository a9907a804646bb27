# SPDX-License-Identifier: Apache-2.0
"""Without the extras `tables` and `figures`, everything else is there, and says how to get them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gen.extras import MissingExtraError, has_extra, missing_extras, require_extra
from gen.table import Column, Table

ROOT = Path(__file__).resolve().parents[2]
RING = ROOT / "examples" / "ring.toml"
SWEEP = f"""
base = "{RING}"
[grid]
"run.seed" = [1, 2]
"""
BARE = """
import sys
sys.modules["pyarrow"] = sys.modules["matplotlib"] = None
from foldwire.cli import main
sys.exit(main(sys.argv[1:]))
"""


def bare(*arguments, folder):
    """The command without pyarrow and matplotlib."""
    return subprocess.run(
        [sys.executable, "-c", BARE, *map(str, arguments)],
        cwd=folder, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
        check=False,
    )


def endings(folder):
    return {path.suffix for path in Path(folder).rglob("*") if path.is_file()}


def test_simulation_writes_csv_and_trace_and_says_what_to_install(tmp_path):
    done = bare("sim", RING, "-o", tmp_path, folder=tmp_path)

    assert done.returncode == 0, done.stderr
    assert endings(tmp_path) == {".csv", ".html", ".json", ".toml"}
    assert "pip install 'foldwire[tables,figures]'" in done.stdout


def test_comparison_and_sweep_write_csv(tmp_path):
    (tmp_path / "s.toml").write_text(SWEEP)
    runs = [tmp_path / "runs" / "ring", tmp_path / "runs" / "ring-ideal"]
    for extra in ([], ["--endpoint", "ideal"]):
        assert bare("sim", RING, *extra, "-o", tmp_path / "runs", folder=tmp_path).returncode == 0
    for arguments in (["compare", *runs], ["sweep", tmp_path / "s.toml"]):
        done = bare(*arguments, "-o", tmp_path / "out", folder=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "pip install 'foldwire[tables,figures]'" in done.stdout
    assert not {".svg", ".parquet"} & endings(tmp_path)


@pytest.mark.parametrize("command", [["reproduce", "klenk"], ["demo"]])
def test_what_needs_figures_says_so_in_one_line(command, tmp_path):
    done = bare(*command, "-o", tmp_path, folder=tmp_path)

    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith(
        " needs matplotlib; please run: pip install 'foldwire[figures]'"
    )
    assert "Traceback" not in done.stderr


def test_extra_that_is_kept_away_is_missing(monkeypatch):
    assert has_extra("tables") and not missing_extras("tables", "figures")
    monkeypatch.setitem(sys.modules, "pyarrow", None)

    assert missing_extras("tables", "figures") == (
        "Parquet files were left out; for them: pip install 'foldwire[tables]'"
    )
    with pytest.raises(MissingExtraError, match=r"^a table needs pyarrow; please run: pip inst"):
        require_extra("tables", "a table")


def test_parquet_by_name_is_refused_and_beside_csv_left_out(monkeypatch, tmp_path):
    table = Table("A", [Column("x")])
    table.add(1)
    monkeypatch.setitem(sys.modules, "pyarrow", None)

    with pytest.raises(MissingExtraError, match=r"^a\.parquet needs pyarrow"):
        table.write(tmp_path / "a.parquet")
    assert table.write_beside(tmp_path / "a.b") == [tmp_path / "a.b.csv"]
