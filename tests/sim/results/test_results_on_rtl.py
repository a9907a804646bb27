"""A described training job on compiled engines."""

import pytest

from sim import on_rtl
from sim.describe.reader import ConfigError
from sim.described import run_recorded
from sim.results.breakdown import break_down
from sim.results.limits import limits_table

SYSTEM = """
[topology]
kind = "ring"
shape = [{nodes}]
bandwidth_bytes_per_s = {rate}
latency_s = 8e-9
efficiency = 1.0
[workload]
file = "job.txt"
[run]
passes = 2
"""
JOB = """DATA
2
front -1 3000 NONE 0 2000 NONE 0 2500 ALLREDUCE 4096 300
back -1 1000 NONE 0 1500 NONE 0 500 ALLREDUCE 1024 0
"""
PACE = 16 * 1.245e9  # of the smallest engine


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setattr(on_rtl, "PRESET", "test")
    (tmp_path / "job.txt").write_text(JOB)
    path = tmp_path / "small.toml"
    path.write_text(SYSTEM.format(nodes=3, rate=PACE))
    return path


def test_training_job_on_rtl_is_divided_like_any_other(path):
    run = on_rtl.run_on_rtl(path)

    division = break_down(run.record, run.job)
    compute, exposed, delay, idle = (division.mean_fs / 1e9).tolist()
    # 3 + 1 + 0.5 + 2.5 + 1.5 µs and no input gradient of the first layer, twice.
    assert compute == pytest.approx(2 * 8.5, rel=1e-3)
    assert delay == 0 and idle < 0.01 * compute
    # Both times the next pass, or the end, waits for the collective of the first layer.
    of = {(each.layer, each.task.phase.value): 0.0 for each in division.tasks}
    for each in division.tasks:
        of[each.layer, each.task.phase.value] += each.exposed_fs / 1e9
    assert of["front", "weight gradient"] == pytest.approx(exposed)
    assert exposed > 2 * 0.3  # the update alone
    assert "results equal numpy's" in run.record.notes[0]
    overlapped = sum(each.overlapped_fs for each in division.tasks) / 1e9
    assert run.record.engine_busy_fs.mean() / 1e9 == pytest.approx(overlapped + exposed, rel=1e-3)


def test_model_of_the_engine_takes_about_as_long(path):
    rtl = on_rtl.run_on_rtl(path).record.end_fs

    model = run_recorded(path, endpoint="ace").record.end_fs

    assert model == pytest.approx(rtl, rel=0.1)


def test_collectives_on_rtl_stay_above_their_bound(path):
    run = on_rtl.run_on_rtl(path)

    for row in limits_table(run.record, run.job, run.network).rows:
        assert 0 < row[-1] <= 100


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("shape = [3]", "shape = [9]", "must be a ring of 2 to 8 with links both ways"),
        (f"{PACE}", "1e9", "bandwidth_bytes_per_s must be 1.992e\\+10, 16 B per cycle of 1.245e"),
        ('kind = "ring"\nshape = [3]', 'kind = "torus"\nshape = [2, 2]', "must have one dimension"),
        ('kind = "ring"', 'kind = "switch"', "must be one ring"),
        (
            "[run]",
            "[[scenario.node]]\nnode = 0\nslowdown = 2.0\n[run]",
            "scenario: on RTL, must be empty",
        ),
        ('file = "job.txt"', "collective = 'all_to_all'\nsize_bytes = 64", "does not run on RTL"),
    ],
)
def test_systems_that_the_rtl_cannot_run_are_refused(path, old, new, message):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))

    with pytest.raises(ConfigError, match=message) as caught:
        on_rtl.run_on_rtl(path)

    assert str(caught.value).startswith(f"{path}:")


def test_wrong_result_ends_the_run(path, monkeypatch):
    import dataclasses

    from sim.rtl import run

    right = run.run_engines
    monkeypatch.setattr(
        run,
        "run_engines",
        lambda *args, **options: dataclasses.replace(right(*args, **options), wrong=1),
    )

    with pytest.raises(RuntimeError, match="1 of 12 results differ from numpy's"):
        on_rtl.run_on_rtl(path)
