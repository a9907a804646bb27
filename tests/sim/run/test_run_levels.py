# SPDX-License-Identifier: Apache-2.0
"""One run of one description at every level: what is equal, what is absent, what is refused."""

import tomllib
from dataclasses import replace

import numpy as np
import pytest

from sim.describe.reader import ConfigError
from sim.run import run
from sim.sweep.training import run_metrics

PACE = 16 * 1.245e9  # of the smallest engine
RING = {
    "topology": {"kind": "ring", "shape": [3], "bandwidth_bytes_per_s": PACE, "latency_s": 6e-9},
    "endpoint": {"kind": "ace", "preset": "test"},
    "run": {"passes": 1},
}
NICS = {
    "topology": {
        "kind": "switch",
        "shape": [3],
        "bandwidth_bytes_per_s": 32 * 200e6,
        "latency_s": 50e-9,
    },
    "endpoint": {"kind": "smartnic", "preset": "test"},
    "run": {"passes": 1},
}
JOB = """DATA
2
front -1 3000 NONE 0 2000 NONE 0 2500 ALLREDUCE 4096 300
back -1 1000 NONE 0 1500 NONE 0 500 ALLREDUCE 1024 0
"""


def collective(base, level, kind="all_reduce", size_bytes=1204, **more):
    """*base* with a single collective at *level*."""
    workload = {"collective": kind, "size_bytes": size_bytes, **more.pop("workload", {})}
    made = {**base, "workload": workload, **more}
    return {**made, "endpoint": {**made["endpoint"], "level": level}}


@pytest.fixture
def training(tmp_path):
    (tmp_path / "job.txt").write_text(JOB)

    def describe(level, **more):
        return {
            **RING,
            "workload": {"file": str(tmp_path / "job.txt")},
            "host": {"wait": "all"},
            "endpoint": {**RING["endpoint"], "level": level},
            "run": {"passes": 2},
            **more,
        }

    return describe


@pytest.mark.parametrize(
    ("kind", "op", "size_bytes"),
    [
        ("all_reduce", "sum_f32", 1204),
        ("all_reduce", "max_f32", 4),
        ("reduce_scatter", "sum_i32", 1204),
        ("all_gather", "sum_f32", 308),
    ],
)
def test_collective_on_rtl_equals_numpy(kind, op, size_bytes):
    stalls = {
        "network": {"stall_probability": 0.1},
        "memory": {"stall_probability": 0.1},
    }

    done = run(collective(RING, "rtl", kind, size_bytes, workload={"op": op}, **stalls))

    assert done.data.exact and done.data.results == 3
    assert done.metrics["wrong"] == 0 and done.level == "rtl"
    assert "all equal numpy's" in done.record.notes[-1]


@pytest.mark.parametrize("base", [RING, NICS], ids=["ace", "smartnic"])
def test_levels_agree_and_have_one_type_of_result(base):
    events, cycles, rtl = (
        run(collective(base, level, size_bytes=16384)) for level in ("events", "cycles", "rtl")
    )

    assert cycles.time_s == pytest.approx(rtl.time_s, rel=0.01)
    assert events.time_s == pytest.approx(rtl.time_s, rel=0.2)
    assert "as events: an estimate" in events.summary.note
    assert cycles.metrics["sent_bytes"] == rtl.metrics["sent_bytes"]
    assert {type(each) for each in (events, cycles, rtl)} == {type(rtl)}
    for each in (events, cycles, rtl):
        assert each.tables.keys() == rtl.tables.keys()
        assert 0 < each.limits.rows[0][-1] <= 100  # of what the bound allows


@pytest.mark.parametrize("level", ["events", "cycles"])
def test_identical_runs_write_identical_files(tmp_path, level):
    for name in ("first", "second"):
        run(collective(RING, level)).save(tmp_path / name, name="run", figures=level == "events")

    written = {path.name for path in (tmp_path / "first").iterdir()}
    assert {"summary.csv", "summary.parquet", "run.json", "trace.json"} <= written
    for name in written:
        both = [(tmp_path / folder / name).read_bytes() for folder in ("first", "second")]
        assert both[0] == both[1], name


def test_figure_that_ends_before_the_run_is_noted():
    whole = run(collective(RING, "events"))
    short = {"passes": 1, "bucket_s": whole.time_s / 30, "buckets": 20}
    cut = run(collective(RING, "events", run=short))

    assert "utilisation over time ends after bucket_s x buckets" in cut.summary.note
    assert "66 % of the run" in cut.summary.note
    assert "utilisation over time" not in whole.summary.note
    assert whole.utilisation.edges_s[-1] >= 0.99 * whole.time_s


@pytest.mark.parametrize(
    ("endpoint", "latency_cycles", "size_bytes", "kind"),
    [
        ({"kind": "ace", "preset": "test"}, 20, 1000, "all_reduce"),
        ({"kind": "ace", "preset": "test"}, 20, 8000, "all_gather"),
        ({"kind": "ace", "preset": "duo"}, 60, 40_000, "all_reduce"),  # waits for credits
        ({"kind": "ace", "preset": "duo"}, 5, 30_000, "reduce_scatter"),
        ({"kind": "smartnic", "preset": "test"}, 10, 60_000, "all_reduce"),
        ({"kind": "smartnic", "preset": "test", "compress": True}, 10, 4000, "all_reduce"),
        ({"kind": "smartnic", "preset": "test", "compress": True}, 2, 37_800, "all_reduce"),
    ],
)
def test_events_of_a_preset_are_near_its_cycles(endpoint, latency_cycles, size_bytes, kind):
    """Where latency, credits and frames count, not only the pace of links."""
    ace = endpoint["kind"] == "ace"
    clock = 1.245e9 if ace else 200e6
    topology = {
        "kind": "ring" if ace else "switch",
        "shape": [4],
        "bandwidth_bytes_per_s": (16 if ace else 32) * clock,
        "latency_s": latency_cycles / clock,
    }
    workload = {"collective": kind, "size_bytes": size_bytes}
    events, cycles = (
        run(
            {
                "topology": topology,
                "endpoint": {**endpoint, "level": level},
                "workload": workload,
                "run": {"passes": 1},
            }
        )
        for level in ("events", "cycles")
    )

    assert events.time_s == pytest.approx(cycles.time_s, rel=0.25)


def test_columns_that_a_level_cannot_know_are_absent():
    events, rtl = (run(collective(RING, level)) for level in ("events", "rtl"))

    unknown = {column.name for column in events.collectives.columns} - {
        column.name for column in rtl.collectives.columns
    }
    assert {"chunks", "queue_delay_s", "messages"} <= unknown
    assert {"events", "messages"} <= events.metrics.keys() - rtl.metrics.keys()
    with pytest.raises(ValueError, match="known at level 'events' only"):
        _ = rtl.record.phases
    resources = [row[0] for row in rtl.endpoints.rows]
    assert resources == ["engine", "memory read", "memory write"]


def test_bytes_on_links_are_the_payload_of_the_algorithm_and_its_headers():
    done = run(collective(RING, "rtl", size_bytes=12000))

    # 2 (n - 1) steps of a third of the vector each, on all three nodes, in packets of 64 bytes
    # with headers of 16; and READY packets.
    payload = 4 * 12000
    assert payload * 1.25 <= done.record.link_bytes.sum() <= payload * 1.35
    series, interval = done.link_series
    carried = sum(float(link.payload.sum()) for link in series) * interval * 16
    assert carried == pytest.approx(payload, rel=0.02)


def test_same_description_gives_the_same_run():
    first, second = (run(collective(RING, "rtl")) for _ in range(2))

    assert first.metrics == second.metrics
    assert np.array_equal(first.record.task_end_fs, second.record.task_end_fs)
    assert first.provenance == second.provenance


@pytest.mark.parametrize("base", [RING, NICS], ids=["ace", "smartnic"])
def test_rtl_nodes_live_among_models(base):
    config = collective(base, "cycles", size_bytes=8192)
    config["endpoint"]["on"] = [{"nodes": [1], "level": "rtl"}]

    mixed, rtl = run(config), run(collective(base, "rtl", size_bytes=8192))

    assert mixed.level == "mixed" and mixed.data.exact and mixed.data.results == 1
    assert mixed.time_s == pytest.approx(rtl.time_s, rel=0.01)
    assert mixed.provenance["levels"] == {"1": "rtl"}


def test_training_job_is_divided_alike_at_all_levels(training):
    runs = {level: run(training(level)) for level in ("events", "cycles", "rtl")}

    assert runs["rtl"].data.exact
    for each in runs.values():
        compute, _exposed, delay, _idle = (each.breakdown.mean_fs / 1e9).tolist()
        # 3 + 1 + 0.5 + 2.5 + 1.5 µs and no input gradient of the first layer, twice.
        assert compute == pytest.approx(2 * 8.5, rel=2e-3)
        assert delay == 0
        assert each.time_s == pytest.approx(runs["rtl"].time_s, rel=0.1)


def test_straggler_computes_longer_at_every_level(training):
    scenario = {"node": [{"node": 1, "slowdown": 2.0}]}

    for level in ("events", "cycles"):
        slow, well = run(training(level, scenario=scenario)), run(training(level))
        expected = well.metrics["compute_s"] * 4 / 3
        assert slow.metrics["compute_s"] == pytest.approx(expected, rel=2e-3)


def test_hosts_that_wait_for_single_collectives_need_an_engine_that_names_them(training):
    with pytest.raises(ConfigError, match=r"^system: host.wait: must be 'all' for engine 'ace'"):
        run(training("cycles", host={"wait": "each"}))

    both = [run(training("events", host={"wait": wait})).time_s for wait in ("each", "all")]
    assert both[0] <= both[1]


@pytest.mark.full
def test_ring_through_a_torus_on_rtl():
    torus = {**RING["topology"], "kind": "torus", "shape": [2, 2], "one_dimension": True}
    endpoint = {"kind": "ace", "preset": "test", "ports": 4}
    base = {**RING, "topology": torus, "endpoint": endpoint}

    cycles, rtl = (run(collective(base, level, size_bytes=4096)) for level in ("cycles", "rtl"))

    assert rtl.data.exact
    assert cycles.time_s == pytest.approx(rtl.time_s, rel=0.01)
    # A ring of four uses four of the eight pairs of links: one way data, the other way credits.
    sent = rtl.record.link_bytes
    assert sent.tolist() == cycles.record.link_bytes.tolist()
    assert (sent > 0).sum() == 8 and (sent > 2 * 3 * 4096 // 4).sum() == 4


def test_a_sweep_does_not_know_the_level():
    metrics = {
        level: run_metrics(collective(RING, level), source="sweep") for level in ("cycles", "rtl")
    }

    assert metrics["rtl"]["results"] == 3
    assert metrics["cycles"]["time_s"] == pytest.approx(metrics["rtl"]["time_s"], rel=0.01)


def test_saved_run_of_any_level_is_read_back(tmp_path):
    from sim.results.compare import compare_runs
    from sim.results.store import load_run

    for level in ("events", "rtl"):
        run(collective(RING, level)).save(tmp_path / level)
    loaded = [load_run(tmp_path / level) for level in ("events", "rtl")]

    assert len(compare_runs(loaded).rows) == 2
    assert (tmp_path / "rtl" / "links.svg").exists()
    assert (tmp_path / "rtl" / "trace.json").exists()


def test_wrong_result_is_noticed(monkeypatch):
    """A golden model with one wrong bit must make the run inexact."""
    from sim.rtl.ace.ring import AceRing

    right = AceRing.reduced_by.__func__

    def wrong(cls, *arguments):
        result = right(cls, *arguments)
        result.view(np.uint32)[100] ^= 1
        return result

    monkeypatch.setattr(AceRing, "reduced_by", classmethod(wrong))

    done = run(collective(RING, "rtl"))

    assert not done.data.exact and done.metrics["wrong"] == 3


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (collective(RING, "rtl", "all_to_all"), "workload: does not run at level 'rtl': a collect"),
        (collective(NICS, "rtl", "all_gather"), "workload: does not run at level 'rtl': collectiv"),
        (collective(RING, "rtl", size_bytes=6), "workload: does not run at level 'rtl': size_byte"),
        ({**collective(RING, "rtl"), "workload": {"collective": "x", "size_bytes": 4}}, "workload"),
    ],
)
def test_what_an_engine_cannot_do_is_one_line(config, message):
    with pytest.raises(ConfigError, match=rf"^system: {message}") as caught:
        run(config)

    assert "\n" not in str(caught.value)


def test_a_file_is_what_it_holds(tmp_path):
    path = tmp_path / "ring.toml"
    text = (
        '[topology]\nkind = "ring"\nshape = [3]\n[endpoint]\nkind = "ideal"\n'
        '[workload]\ncollective = "all_reduce"\nsize_bytes = 4096\n[run]\npasses = 1\n'
    )
    path.write_text(text)

    assert run(path).metrics == run(str(path)).metrics == run(tomllib.loads(text)).metrics
    assert run(path, endpoint="baseline_comm_opt").time_s > run(path).time_s
    description = replace(run(path).description, kind="ideal")
    assert run(description).time_s == run(path).time_s


def test_long_links_full_of_packets_run_at_cycles():
    """500 cycles of latency: every packet and credit on its way is an event of the model."""
    description = {
        "topology": {
            "kind": "ring",
            "shape": [8],
            "bandwidth_bytes_per_s": 64 * 1.245e9,
            "latency_s": 400e-9,
        },
        "endpoint": {"kind": "ace", "preset": "ring", "level": "cycles"},
        "workload": {"collective": "all_reduce", "size_bytes": 1 << 20},
        "run": {"passes": 1},
    }
    assert run(description).time_s > 1e-6
