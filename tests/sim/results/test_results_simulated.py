# SPDX-License-Identifier: Apache-2.0
"""The same on records of the simulator."""

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from sim.events.simulate import simulate
from sim.limits.bounds import BoundViolation
from sim.network.network import Network
from sim.results.breakdown import break_down
from sim.results.limits import limits_table
from sim.results.network import utilisation
from sim.results.store import load_run, save_run
from sim.results.trace import LINK_SPAN, PHASE_SPAN
from sim.run import run as run_system
from sim.workload.graph import (
    CollectiveCall,
    CollectiveKind,
    GraphBuilder,
    Job,
    TaskKind,
    TrainingPhase,
)

US = 10**9
SYSTEM = """
[topology]
kind = "torus"
shape = [2, 2, 2]
bandwidth_bytes_per_s = 25e9
latency_s = 1e-7
[workload]
shipped = "resnet50"
[run]
fold = "{fold}"
passes = 1
"""


ring = partial(Network.ring, 4, 1e9, 1e-6)


def one_layer():
    """Compute 10 µs, all-reduce, compute 10 µs."""
    build = GraphBuilder(["only"])
    of = {"layer": 0, "phase": TrainingPhase.FORWARD}
    first = build.add("before", TaskKind.COMPUTE, duration_s=10e-6, **of)
    call = CollectiveCall(kind=CollectiveKind.ALL_REDUCE, size_bytes=400_000)
    reduce = build.add("reduce", TaskKind.COLLECTIVE, [first], call=call, **of)
    build.add("after", TaskKind.COMPUTE, [reduce], duration_s=10e-6, **of)
    return Job(name="one layer", graphs=(build.graph(),))


@pytest.fixture(scope="module")
def described(tmp_path_factory):
    def run(fold, **options):
        path = tmp_path_factory.mktemp("system") / "small.toml"
        path.write_text(SYSTEM.format(fold=fold))
        return run_system(path, **options)

    return run


def test_collective_between_computations_is_all_exposed():
    record = simulate(ring(), one_layer(), fold="off")

    run = break_down(record, one_layer())

    assert (run.rows_fs[:, 0] == 20 * US).all()
    assert (run.rows_fs[:, 1] == run.run_fs - 20 * US).all()
    assert not run.rows_fs[:, 2:].any()


def test_bytes_of_a_ring_all_reduce_are_on_the_links():
    record = simulate(ring(), one_layer(), fold="off")

    # 2 (n - 1) / n of the vector leaves every node, whatever the chunks.
    assert record.link_bytes.sum() == pytest.approx(4 * 2 * 3 / 4 * 400_000, rel=1e-3)


def test_limit_of_a_ring_all_reduce_is_its_injection():
    record = simulate(ring(), one_layer(), fold="off")

    (row,) = limits_table(record, one_layer(), ring()).rows

    # 2 (n - 1) / n of 400 000 B through two links of 1 GB/s.
    assert row[:6] == ("all_reduce", 400_000, "all", 1, pytest.approx(300e-6), "injection")
    assert 50 < row[-1] <= 100


def test_collective_faster_than_its_bound_is_an_error():
    record = simulate(ring(), one_layer(), fold="off")
    end = record.task_end_fs.copy()
    end[:, 1] = record.task_start_fs[:, 1] + 299 * US

    with pytest.raises(BoundViolation, match="less than its lower bound"):
        limits_table(replace(record, task_end_fs=end), one_layer(), ring())


def test_all_collectives_together_stay_below_their_bound(described):
    run = described("auto")

    table = limits_table(run.record, run.job, run.network)

    name, size, _, calls, bound, resource, busy, *_, share = table.rows[0]
    assert (name, calls, resource) == ("all together", 54, "injection")
    assert size == sum(row[1] * row[3] for row in table.rows[1:])
    # The smallest ones are bound by latency, which does not add up.
    assert bound == pytest.approx(sum(row[4] * row[3] for row in table.rows[1:]), rel=1e-3)
    assert bound < sum(row[4] * row[3] for row in table.rows[1:])
    assert bound <= busy and share == pytest.approx(100 * bound / busy)


def test_folded_run_is_divided_as_the_full_one(described):
    full, folded = described("off"), described("auto")

    a, b = (break_down(run.record, run.job) for run in (full, folded))

    assert folded.record.folded and not full.record.folded
    assert a.mean_fs.tolist() == b.mean_fs.tolist()
    for one, other in zip(a.tasks, b.tasks):
        assert one == other
    times = [utilisation(run.record, run.job) for run in (full, folded)]
    assert np.allclose(times[0].network, times[1].network)


def test_run_time_is_compute_plus_exposed_communication(described):
    run = described("auto")

    compute, exposed, *rest = break_down(run.record, run.job).mean_fs

    assert compute + exposed == run.record.end_fs and not any(rest)
    assert exposed > 0


def test_utilisation_is_recorded_without_being_asked(described):
    run = described("auto")

    series = utilisation(run.record, run.job)

    assert series.end_fs == run.record.end_fs
    assert 100 <= len(series.network) <= 1000 and len(series.dimensions) == 3
    widths = np.diff(1e6 * series.edges_s) * US
    busy = run.record.link_busy_fs.sum() / len(run.record.links)
    assert (series.network * widths).sum() == pytest.approx(busy, rel=1e-6)


def test_fine_windows_are_merged(described):
    run = described("auto")
    fine = replace(
        run.record,
        bucket_fs=1 * US,
        link_series_fs=np.full((3, 3000), US // 2, np.int64),
        end_fs=2500 * US,
    )

    series = utilisation(fine, run.job)

    assert series.window_fs == 3 * US and len(series.network) == 834
    # Half of a link of each of three dimensions, of six links.
    assert np.allclose(series.network, 0.25)


def test_saved_run_has_its_limits_and_links_in_the_trace(described, tmp_path):
    run = described("off", trace=True)

    saved = save_run(run.record, run.job, tmp_path, network=run.network, figures=False)

    assert load_run(tmp_path) == saved and "limits" in saved.tables
    kinds = set(np.unique(run.record.spans["kind"]))
    assert kinds == {LINK_SPAN, PHASE_SPAN}
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    lanes = [e["args"]["name"] for e in events if e["name"] == "thread_name" and e["pid"] == 0]
    assert "compute" in lanes and any(name.startswith("queue 0") for name in lanes)
    assert sum(name.startswith("link → ") for name in lanes) == 6
    inside = {}
    for event in (event for event in events if event["ph"] == "X"):
        lane = event["pid"], event["tid"]
        assert event["ts"] >= inside.get(lane, 0.0) - 1e-9, event
        inside[lane] = event["ts"] + event["dur"]


def test_endpoint_in_place_of_the_one_in_the_file(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(SYSTEM.format(fold="auto"))

    ideal, baseline = run_system(path), run_system(path, endpoint="baseline_comm_opt")

    assert baseline.record.end_fs > ideal.record.end_fs
    assert baseline.record.unit_names


def test_parts_that_do_not_fit_name_the_file(tmp_path):
    path = tmp_path / "small.toml"
    text = SYSTEM.format(fold="on") + "[[scenario.node]]\nnode = 0\nslowdown = 2.0\n"
    path.write_text(text)

    with pytest.raises(ValueError, match=r"small.toml: .*fold"):
        run_system(path)
