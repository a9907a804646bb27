# SPDX-License-Identifier: Apache-2.0
"""A run names the unit that bounds it: twice of it helps most, and by about what it says."""

import copy
from dataclasses import replace

import pytest

from bench._doubled import doublings
from bench.limits_named import is_right, saved
from sim.results.bounded import Bounded, bounded, bounded_table
from sim.results.store import load_run
from sim.run import run
from sim.sweep.training import run_metrics

MIB = 1 << 20


def system(kind="ring", shape=(8,), size=16 * MIB, **tables):
    topology = {"kind": kind, "shape": list(shape), "bandwidth_bytes_per_s": 25e9}
    topology |= tables.pop("topology", {})
    workload = {"collective": "all_reduce", "size_bytes": size}
    return {"topology": topology, "workload": workload, "run": {"passes": 1}, **tables}


LINKS = "links of dimension 0"
SLOW_MEMORY = {"kind": "baseline_comm_opt", "memory_bytes_per_s": 10e9}
FEW_CORES = {"kind": "baseline_comm_opt", "cores": 0.2}
ENGINE = {
    "topology": {"bandwidth_bytes_per_s": 2 * 1.245e9, "latency_s": 1e-8},
    "endpoint": {"kind": "ace", "preset": "duo", "level": "cycles"},
}

LATE = {**ENGINE, "topology": {"bandwidth_bytes_per_s": 8 * 1.245e9, "latency_s": 5e-7}}


@pytest.mark.parametrize(
    ("described", "unit"),
    [
        (system(), LINKS),
        (system("torus", (4, 8), dimension=[{"bandwidth_bytes_per_s": 200e9}, {}]),
         "links of dimension 1"),
        (system(size=4096, topology={"latency_s": 1e-5}), "latency"),
        (system(size=64 * MIB, topology={"latency_s": 1e-5},
                scheduler={"concurrency": 1, "chunk_bytes": 65536}), "latency"),
        (system(endpoint=SLOW_MEMORY), "memory"),
        (system(endpoint=FEW_CORES), "SMs"),
        (system(endpoint={"kind": "ideal", "delay_s": 1e-4}, size=MIB), "endpoint"),
        (system(endpoint={"kind": "ace", "sram_bytes": 1 << 19}, size=64 * MIB,
                topology={"latency_s": 1e-6}), "SRAM"),
        (system("switch", (4,), endpoint={"kind": "smartnic"}), "ALUs"),
        (system(size=65536, shape=(4,), **copy.deepcopy(ENGINE)), LINKS),
        (system(size=512, shape=(4,), **copy.deepcopy(LATE)), "latency"),
    ],
)
def test_unit_that_bounds_a_run_is_named_and_helps_most(described, unit):
    done = run(described)
    gains = saved(described)
    assert is_right(done.limited_by, gains), (done.limited_by, gains, done.bounded.rows)
    assert is_right(unit, gains), gains


def test_places_are_named_where_nothing_else_holds_chunks_back():
    described = system(
        size=256 * MIB, topology={"latency_s": 2e-5},
        scheduler={"concurrency": 2, "chunk_bytes": 65536},
    )
    done = run(described)

    assert done.metrics["limit_admission_percent"] > 40
    assert "2 places in a queue, scheduler.concurrency" in done.bounded.note


def test_rtl_and_cycles_name_the_same_unit_as_events():
    names = []
    for level in ("events", "cycles", "rtl"):
        described = system(size=8192, shape=(4,), **copy.deepcopy(ENGINE))
        described["endpoint"]["level"] = level
        names.append(run(described).limited_by)
    assert names == [LINKS] * 3


def test_training_is_bounded_by_computing_until_links_are_slow():
    described = system()
    described["workload"] = {"generator": "mlp", "sizes": [2048] * 3, "batch": 4096}
    fast = run(described, changes={"topology.bandwidth_bytes_per_s": 1e12})
    slow = run(described, changes={"topology.bandwidth_bytes_per_s": 1e9})

    assert fast.limited_by == "compute" and 40 < fast.metrics["limited_percent"] <= 50
    assert slow.limited_by == LINKS and slow.metrics["limit_compute_percent"] < 10


def test_late_nodes_are_a_limit():
    described = system("torus", (4, 4), scheduler={"policy": "fifo"})
    described["workload"] = {"shipped": "resnet50"}
    described["scenario"] = {"node": [{"node": 5, "slowdown": 3.0}]}

    assert run(described).metrics["limit_late_nodes_percent"] > 5


def test_limit_is_in_summary_table_metrics_folder_and_sweeps(tmp_path):
    done = run(system())
    saved_run = done.save(tmp_path, figures=False)

    assert done.limited_by == saved_run.limited_by == load_run(tmp_path).limited_by == LINKS
    assert done.summary["limited_by"] == [LINKS] and done.bounded["unit"][0] == LINKS
    share = done.metrics["limited_percent"]
    assert share == done.metrics["limit_links_percent"] == done.bounded["saved_percent"][0]
    assert run_metrics(system(), source="x")["limited_by"] == LINKS
    assert (tmp_path / "bounded.csv").read_text().startswith("unit,saved_percent\nlinks of")


def test_runs_without_links_chunks_or_time_name_what_is_known(monkeypatch):
    done = run(system())
    # Without chunks, as of an engine that events do not have: the rest is latency.
    slow = replace(done.record, call_phases=None, link_busy_fs=done.record.link_busy_fs // 10)
    assert bounded(replace(done.breakdown, record=slow)).name == "latency"
    nothing = replace(done.breakdown, record=replace(done.record, end_fs=0))
    assert bounded(nothing).name == "" and bounded(nothing).percent == 0
    assert bounded_table(nothing).rows == []
    assert Bounded(shares={"links of dimension 0": 0.2, "links of dimension 1": 0.3}).by_kind == {
        "links": 30.0
    }


def test_one_npu_alone_is_bounded_by_computing():
    described = system(shape=(1,))
    described["workload"] = {"generator": "mlp", "sizes": [256, 256], "batch": 64}

    assert run(described).limited_by == "compute"


def test_units_of_every_endpoint_can_be_doubled():
    units = doublings(run(system("switch", (4,), endpoint={"kind": "in_switch"}, size=MIB)))
    assert units["admission"] == {"endpoint.waves": 32}
    assert units[LINKS] == {"dimension.0.bandwidth_bytes_per_s": 50e9}
