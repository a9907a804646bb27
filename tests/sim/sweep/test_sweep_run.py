# SPDX-License-Identifier: Apache-2.0
import json
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gen.table import Column, Table
from sim.sweep import workers
from sim.sweep.engine import run_sweep
from sim.sweep.points import make_points
from sim.sweep.report import shown, write_outcome
from sim.sweep.spec import parse, read

ROOT = Path(__file__).resolve().parents[3]
SWEEP = """
[base]
width = 1
box.height = 1
[grid]
width = [1, 2, 3]
box.height = { from = 0.1, to = 0.4, points = 4 }
"""


def sweep(folder, text=SWEEP):
    path = folder / "sweep.toml"
    path.write_text(text)
    return read(path)


def run(spec, folder, runner="area", version="1", **options):
    return run_sweep(spec, folder, runner=f"sweep_runners:{runner}", version=version, **options)


def log(folder):
    path = folder / "log"
    return path.read_text().splitlines() if path.exists() else []


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    folder = tmp_path_factory.mktemp("expected")
    return run(sweep(folder), folder / "out")


def test_table_has_a_row_per_point_in_order(expected):
    table = expected.table

    assert [column.name for column in table.columns] == [
        "width", "box.height", "area", "sum", "shape",
    ]
    assert [row[:2] for row in table.rows[:5]] == [
        (1, 0.1), (1, 0.2), (1, 0.30000000000000004), (1, 0.4), (2, 0.1),
    ]
    assert table.rows[4][2:] == (0.2 / 3, 2.1, "2x0.1")
    assert (expected.reused, expected.failed) == (0, 0)


def test_two_workers_give_the_same_table(expected, tmp_path):
    assert run(sweep(tmp_path), tmp_path / "out", workers=2).table == expected.table


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_dask_cluster_gives_the_same_table(expected, tmp_path):
    from distributed import LocalCluster

    steps = []
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        outcome = run(
            sweep(tmp_path),
            tmp_path / "out",
            scheduler=cluster.scheduler_address,
            progress=lambda *step: steps.append(step),
        )
        again = run(sweep(tmp_path), tmp_path / "out", scheduler=cluster.scheduler_address)

    assert outcome.table == expected.table == again.table
    assert steps == [(done, 0, 12) for done in range(13)]
    assert again.reused == 12


@pytest.mark.parametrize("part", ["batched", "client", "core", "comm.tcp", "utils"])
def test_no_part_of_dask_tells_again_what_is_raised(part):
    distributed = pytest.importorskip("distributed")
    logger = logging.getLogger(f"{distributed.__name__}.{part}")
    before = logger.getEffectiveLevel()
    with workers._said_once():
        assert not logger.isEnabledFor(logging.ERROR)
    assert logger.getEffectiveLevel() == before


def test_scheduler_that_goes_away_is_told_in_one_line(tmp_path):
    text = SWEEP.replace("width = 1\n", "width = 1\nseconds = 0.3\n").replace("= 4 }", "= 20 }")
    sweep(tmp_path, text)
    script = tmp_path / "go.py"
    contact = tmp_path / "scheduler.json"
    hook = "lambda kind, error, trace: print(error, file=sys.stderr)"
    started = []

    def start(*command, **options):
        started.append(subprocess.Popen([sys.executable, *command], cwd=tmp_path, **options))
        return started[-1]

    def dask(part, *options):
        folders = os.pathsep.join([str(ROOT), str(Path(__file__).parent)])
        return start(
            "-m", f"distributed.cli.dask_{part}", *options, stderr=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": folders},
        )

    try:
        scheduler = dask(
            "scheduler", "--port", "0", "--no-dashboard", "--scheduler-file", str(contact)
        )
        _until(contact.exists)
        address = json.loads(contact.read_text())["address"]
        dask("worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard")
        script.write_text(
            SCRIPT.format(root=str(ROOT), here=str(Path(__file__).parent), folder=str(tmp_path))
            .replace("workers=2", f"scheduler={address!r}")
            .replace("    run_sweep(", f"    sys.excepthook = {hook}\n    run_sweep(")
        )
        command = start(str(script), stderr=subprocess.PIPE, text=True)
        _until(lambda: len(log(tmp_path)) >= 4)
        scheduler.kill()
        _, said = command.communicate(timeout=30)
    finally:
        for process in started:
            process.kill()
            process.wait()
    assert command.returncode == 1
    assert said == "the Dask scheduler went away; run the same command again to go on\n"
    assert 0 < len(list((tmp_path / "out" / "points").glob("*.json"))) < 60


def test_absent_scheduler_is_an_error_that_names_it(tmp_path, monkeypatch):
    import distributed

    def refuse(address, **options):
        raise OSError("timed out")

    monkeypatch.setattr(distributed, "Client", refuse)

    with pytest.raises(
        RuntimeError, match="no Dask scheduler answers at tcp://nowhere:1: timed out"
    ):
        run(sweep(tmp_path), tmp_path / "out", scheduler="tcp://nowhere:1")


def test_cluster_without_dask_says_how_to_install_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)

    with pytest.raises(RuntimeError, match=r"pip install 'foldwire\[sweep\]'"):
        run(sweep(tmp_path), tmp_path / "out", scheduler="tcp://nowhere:1")


def test_finished_points_are_not_run_again(expected, tmp_path):
    spec = sweep(tmp_path)
    first = run(spec, tmp_path / "out", runner="logged")
    again = run(spec, tmp_path / "out", runner="logged", workers=2)

    assert len(log(tmp_path)) == 12
    assert (first.reused, again.reused) == (0, 12)
    assert again.table == first.table == expected.table


def test_more_points_run_only_the_new_ones(tmp_path):
    run(sweep(tmp_path), tmp_path / "out", runner="logged")
    wider = sweep(tmp_path, SWEEP.replace("[1, 2, 3]", "[0, 1, 2, 3]"))

    outcome = run(wider, tmp_path / "out", runner="logged")

    assert outcome.reused == 12
    assert [line.split()[1] for line in log(tmp_path)[12:]] == ["0"] * 4


def test_key_depends_on_all_that_the_result_depends_on(tmp_path):
    def keys(text=SWEEP, runner="r", version="1"):
        spec = parse(text, source=str(tmp_path / "sweep.toml"))
        return {point.key for point in make_points(spec, runner=runner, version=version)}

    same = keys()
    (tmp_path / "layers.txt").write_text("1")
    naming = SWEEP.replace("width = 1\n", "width = 1\nfile = 'layers.txt'\n")
    named = keys(naming)
    (tmp_path / "layers.txt").write_text("2")

    assert len(same) == 12 and keys() == same
    assert not same & keys(version="2")
    assert not same & keys(runner="s")
    assert not same & keys(SWEEP.replace("width = 1\n", "width = 1\ndepth = 1\n"))
    assert not named & keys(naming)

    traced = SWEEP.replace("width = 1\n", "width = 1\nfile = 'trace'\n")
    for number in (0, 1):
        (tmp_path / f"trace.{number}.et").write_text("1")
    before = keys(traced)
    (tmp_path / "trace.1.et").write_text("2")
    assert len(before) == 12 and not before & keys(traced)


def test_failing_points_are_recorded_and_not_fatal(tmp_path):
    spec = sweep(tmp_path)
    outcome = run(spec, tmp_path / "out", runner="picky")
    errors = [row[-1] for row in outcome.table.rows]

    assert outcome.failed == 8
    assert (
        errors
        == [None] * 4 + ["width must not be 2 really"] * 4 + ["ZeroDivisionError: by three"] * 4
    )
    assert outcome.table.rows[4][2:5] == (None, None, None)


def test_failed_points_are_run_again_only_on_request(tmp_path):
    spec = sweep(tmp_path)
    run(spec, tmp_path / "out", runner="picky")

    assert run(spec, tmp_path / "out", runner="picky").reused == 12
    assert run(spec, tmp_path / "out", runner="picky", retry=True).reused == 4


def test_point_that_kills_its_process_is_the_only_one_lost(tmp_path):
    outcome = run(sweep(tmp_path, SWEEP.replace("points = 4", "points = 2")), tmp_path / "out",
                  runner="deadly", workers=2)

    lost = [row[:2] for row in outcome.table.rows if row[-1] is not None]
    assert [width for width, _ in lost] == [2, 2]
    assert "ended abnormally" in outcome.table.rows[2][-1]


def test_metric_that_is_no_number_is_an_error_of_the_point(tmp_path):
    outcome = run(sweep(tmp_path), tmp_path / "out", runner="broken_metrics")

    assert outcome.table.rows[0][-1] == (
        "TypeError: metric 'area' must be a number or a text, not [1, 2]"
    )


def test_damaged_result_is_run_again(expected, tmp_path):
    spec = sweep(tmp_path)
    run(spec, tmp_path / "out", runner="logged")
    damaged = sorted((tmp_path / "out" / "points").glob("*.json"))
    row = json.loads(damaged[0].read_text())
    texts = [
        '{"metrics": {"ar',
        "[]",
        json.dumps({**row, "metrics": [1, 2]}),
        json.dumps({**row, "metrics": None, "error": [1]}),
        json.dumps({**row, "metrics": None, "error": None}),
        json.dumps({**row, "metrics": {**row["metrics"], "area": float("nan")}}),
        json.dumps({**row, "metrics": {**row["metrics"], "area": row["metrics"]["area"] + 1}}),
        json.dumps({key: value for key, value in row.items() if key != "checksum"}),
        damaged[0].read_text(),  # that of another point
    ]
    for path, text in zip(damaged[1:], texts, strict=False):
        path.write_text(text)

    outcome = run(spec, tmp_path / "out", runner="logged")

    assert outcome.reused == 12 - len(texts) and outcome.table == expected.table


def test_result_that_cannot_be_kept_is_an_error_that_names_its_file(tmp_path):
    spec = sweep(tmp_path, SWEEP.replace("[1, 2, 3]", "[1]"))
    (point, *_) = make_points(spec, runner="sweep_runners:area", version="1")
    path = tmp_path / "out" / "points" / f"{point.key}.json"
    path.mkdir(parents=True)

    with pytest.raises(ValueError, match=r"\.json: cannot be written: Is a directory"):
        run(spec, tmp_path / "out")


def test_point_is_run_again_when_a_file_that_it_read_has_changed(tmp_path):
    spec = sweep(tmp_path, SWEEP.replace("width = 1\n", "width = 1\nnamed = 'indirect'\n"))
    hidden = tmp_path / "indirect.txt"

    def reused():
        return run(spec, tmp_path / "out", runner="reading").reused

    found = []
    for content in (None, "3", "3", "4", None, "4"):
        hidden.unlink(missing_ok=True)
        if content is not None:
            hidden.write_text(content)
        found.append(reused())

    # Absent, it is an error of the point; there, it has contents.
    assert found == [0, 0, 12, 0, 0, 0]
    assert reused() == 12


SCRIPT = """
import sys
from pathlib import Path
sys.path[:0] = [{root!r}, {here!r}]
from sim.sweep import workers
from sim.sweep.engine import run_sweep
from sim.sweep.spec import read

if __name__ == "__main__":
    folder = Path({folder!r})
    run_sweep(read(folder / "sweep.toml"), folder / "out",
              runner="sweep_runners:logged", version="1", workers=2)
"""


def test_killed_sweep_goes_on_without_redoing_or_losing_any(tmp_path):
    spec = sweep(tmp_path, SWEEP.replace("width = 1\n", "width = 1\nseconds = 0.15\n"))
    script = tmp_path / "go.py"
    script.write_text(
        SCRIPT.format(root=str(ROOT), here=str(Path(__file__).parent), folder=str(tmp_path))
    )
    process = subprocess.Popen([sys.executable, str(script)])
    kept = tmp_path / "out" / "points"
    _until(lambda: kept.exists() and len(list(kept.glob("*.json"))) >= 4)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    done = {path.stem: path.read_bytes() for path in kept.glob("*.json")}
    workers = {*map(int, children.split()), *(int(line.split()[0]) for line in log(tmp_path))}
    _until(lambda: not any(_alive(pid) for pid in workers))
    ran = len(log(tmp_path))

    outcome = run(spec, tmp_path / "out", runner="logged", workers=2)

    assert 4 <= len(done) < 12
    assert all(json.loads(text)["error"] is None for text in done.values())
    # What was finished is as it was; only what was in flight has run twice.
    assert outcome.reused == len(done)
    assert all((kept / f"{key}.json").read_bytes() == text for key, text in done.items())
    assert len(log(tmp_path)) == ran + 12 - len(done)
    points = {tuple(line.split()[1:]) for line in log(tmp_path)}
    assert len(points) == 12 and outcome.failed == 0
    assert outcome.table == run(spec, tmp_path / "elsewhere", runner="logged").table
    assert not [
        path for path in kept.iterdir() if path.name.startswith(f".{outcome.points[0].key}")
    ]


@pytest.mark.parametrize("killed", [False, True])
def test_sweeps_that_fill_one_folder_at_once_divide_the_points(tmp_path, killed):
    text = SWEEP.replace("width = 1\n", "width = 1\nseconds = 0.3\n").replace("= 4 }", "= 10 }")
    spec = sweep(tmp_path, text)
    script = tmp_path / "go.py"
    script.write_text(
        SCRIPT.format(root=str(ROOT), here=str(Path(__file__).parent), folder=str(tmp_path))
    )
    first, second = (subprocess.Popen([sys.executable, str(script)]) for _ in range(2))
    if killed:
        _until(lambda: len(log(tmp_path)) >= 6)
        first.kill()
    assert second.wait() == 0
    assert first.wait() == (-signal.SIGKILL if killed else 0)

    ran = log(tmp_path)
    assert len({tuple(line.split()[1:]) for line in ran}) == 30
    assert len(ran) - 30 <= (2 if killed else 0)  # those that were running
    processes = {line.split()[0] for line in ran}
    assert len(processes) >= 4  # of both
    outcome = run(spec, tmp_path / "out", runner="logged")
    assert (outcome.reused, outcome.failed) == (30, 0)
    assert outcome.table == run(spec, tmp_path / "elsewhere").table


def _alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def _until(condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "took too long"
        time.sleep(0.02)


def test_files_and_figure_at_the_end(expected, tmp_path):
    from pyarrow import parquet

    spec = sweep(tmp_path)
    written = write_outcome(expected, spec, tmp_path)

    names = [path.name for path in written]
    assert names == ["sweep.csv", "sweep.parquet", "sweep.svg", "index.html"]
    assert (tmp_path / "sweep.csv").read_text().splitlines()[1] == (
        "1,0.1,0.03333333333333333,1.1,1x0.1"
    )
    assert parquet.read_table(tmp_path / "sweep.parquet").num_rows == 12
    svg = (tmp_path / "sweep.svg").read_text()
    assert ">area over width<" in svg and ">height 0.1<" in svg


def test_plot_obeys_its_table(expected, tmp_path):
    spec = sweep(tmp_path, SWEEP + "[plot]\nx = 'box.height'\ny = 'sum'\nlines = ['width']\n")
    write_outcome(expected, spec, tmp_path)

    svg = (tmp_path / "sweep.svg").read_text()
    assert ">sum over box.height<" in svg and ">width 2<" in svg


def test_what_is_plotted_is_among_the_columns_that_are_printed(tmp_path):
    names = ["width", "a", "b", "c", "d", "e", "busbw", "same", "error"]
    rows = [[n, *[n] * 6, 1.0, None if n else "no"] for n in range(2)]
    table = Table("Sweep", [Column(name) for name in names], rows)
    text = "[base]\nbox.height = 1\n[grid]\nwidth = [0, 1]\n"

    def printed(plot):
        made = shown(table, sweep(tmp_path, text + plot))
        return [column.name for column in made.columns]

    assert printed("") == ["width", "a", "b", "c", "d", "e"]
    assert printed("[plot]\ny = 'busbw'\n") == ["width", "a", "b", "c", "d", "busbw"]
    assert printed("[plot]\ny = 'same'\n") == ["width", "a", "b", "c", "d", "same"]


def test_plot_of_an_absent_metric_is_refused(expected, tmp_path):
    spec = sweep(tmp_path, SWEEP + "[plot]\ny = 'volume'\n")

    with pytest.raises(ValueError, match="there is no number 'volume'; there are: area, sum"):
        write_outcome(expected, spec, tmp_path)


def test_sweep_in_which_all_fail_has_a_table_but_no_figure(tmp_path):
    spec = sweep(tmp_path, SWEEP.replace("[1, 2, 3]", "[2]"))
    outcome = run(spec, tmp_path / "out", runner="picky")

    written = write_outcome(outcome, spec, tmp_path)

    assert [path.name for path in written] == ["sweep.csv", "sweep.parquet", "index.html"]


def test_values_of_several_kinds_share_a_column_as_text(tmp_path):
    text = "[base]\nbox.height = 1\n[grid]\nwidth = [1, 2.5]\nmode = ['a', 3, [1, 2]]\n"
    outcome = run(sweep(tmp_path, text), tmp_path / "out")

    assert [row[1] for row in outcome.table.rows[:3]] == ["a", "3", "[1, 2]"]
    write_outcome(outcome, sweep(tmp_path, text), tmp_path)


def test_tables_as_values_are_written_as_their_keys(tmp_path):
    outcome = run(
        parse("[base]\nwidth = 1\n[grid]\nbox = [{ height = 2, name = 'b' }]\n", source="s.toml"),
        tmp_path,
    )

    assert outcome.table.rows[0][0] == "height = 2, name = b"


def test_workers_must_be_positive(tmp_path):
    with pytest.raises(ValueError, match="workers must be an integer of at least 1, not 0"):
        run(sweep(tmp_path), tmp_path / "out", workers=0)
