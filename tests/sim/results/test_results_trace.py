# SPDX-License-Identifier: Apache-2.0
"""Fields and rules from the description of Chrome's trace event format."""

import gzip
import json
from dataclasses import replace

import numpy as np
import pytest

from sim.results.network import utilisation
from sim.results.trace import SYSTEM, write_trace

US = 10**9
METADATA = {"process_name", "process_sort_index", "thread_name", "thread_sort_index"}


def check(document):
    """Everything that a viewer relies on."""
    assert set(document) == {"displayTimeUnit", "otherData", "traceEvents"}
    assert document["displayTimeUnit"] in ("ms", "ns")
    lanes, processes, stacks = {}, {}, {}
    events = document["traceEvents"]
    for event in events:
        assert event["ph"] in "XMC", event
        assert type(event["pid"]) is int and type(event["tid"]) is int
        assert type(event["name"]) is str and event["name"]
        assert type(event["args"]) is dict
        if event["ph"] == "M":
            assert set(event) == {"ph", "pid", "tid", "name", "args"}
            assert event["name"] in METADATA
            if event["name"] == "thread_name":
                assert (event["pid"], event["tid"]) not in lanes
                lanes[event["pid"], event["tid"]] = event["args"]["name"]
            elif event["name"] == "process_name":
                assert event["pid"] not in processes
                processes[event["pid"]] = event["args"]["name"]
            else:
                assert type(event["args"]["sort_index"]) is int
            continue
        assert type(event["ts"]) is float and event["ts"] >= 0
        assert event["pid"] in processes, "process without a name"
        if event["ph"] == "C":
            assert all(type(value) is float for value in event["args"].values())
            continue
        assert set(event) == {"ph", "pid", "tid", "name", "cat", "ts", "dur", "args"}
        assert type(event["dur"]) is float and event["dur"] >= 0
        assert (event["pid"], event["tid"]) in lanes, "lane without a name"
        stacks.setdefault((event["pid"], event["tid"]), []).append(event)
    for lane, inside in stacks.items():
        end = 0.0
        for event in inside:
            # Events of a lane come one after the other.
            assert event["ts"] >= end - 1e-9, (lane, event)
            end = event["ts"] + event["dur"]
    return processes, lanes, stacks


def read(path):
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as file:
        return json.load(file)


def trace_of(record, job, tmp_path, name="trace.json", **options):
    write_trace(tmp_path / name, record, job, **options)
    document = read(tmp_path / name)
    return document, *check(document)


def test_every_npu_and_every_link_has_a_lane(record, job, tmp_path):
    _, processes, lanes, _ = trace_of(record, job, tmp_path)

    assert processes == {0: "NPU 0", 1: "NPU 1", SYSTEM: "system: made by hand"}
    of = {pid: [name for (p, _), name in lanes.items() if p == pid] for pid in processes}
    assert of[0] == [
        "compute", "communication", "communication 2", "queue 0",
        "link → NPU 1, dimension 0, lane 0",
    ]
    assert of[1] == [
        "compute", "communication", "communication 2", "link → NPU 0, dimension 0, lane 0",
    ]


@pytest.fixture
def record(record):
    spans = np.concatenate([record.spans, record.spans[:1]])
    spans["kind"][3] = 1
    return replace(record, spans=spans)


def test_computations_and_waits_fill_the_lane(record, job, tmp_path):
    _, _, _, stacks = trace_of(record, job, tmp_path)

    events = [(e["cat"], e["name"], e["ts"], e["dur"]) for e in stacks[0, 1]]
    assert events[0] == ("compute", "forward a", 0.0, 10.0)
    assert events[5:9] == [
        ("wait", "wait for all-reduce a", 70.0, 40.0),
        ("compute", "forward a", 110.0, 10.0),
        ("wait", "wait for pause", 120.0, 8.0),
        ("compute", "forward b", 128.0, 20.0),
    ]
    assert events[9:] == [("wait", "wait for all-reduce end", 148.0, 12.0)]


def test_collectives_that_overlap_are_in_lanes_of_their_own(record, job, tmp_path):
    document, _, _, stacks = trace_of(record, job, tmp_path)

    first = [event["name"] for event in stacks[0, 100_000]]
    second = [event["name"] for event in stacks[0, 100_001]]
    assert first == ["all-reduce b", "all-gather b", "pause", "all-reduce end"]
    assert second == ["all-reduce a"]
    event = stacks[0, 100_000][0]
    assert event["args"] == {
        "layer": "b", "phase": "weight gradient", "iteration": 0,
        "collective": "all_reduce", "bytes": 4000,
    }
    assert event["cat"] == "collective"
    assert document["otherData"]["shown"] == 2


def test_links_show_their_transfers(record, job, tmp_path):
    _, _, lanes, stacks = trace_of(record, job, tmp_path)

    (link,) = [key for key, name in lanes.items() if name.startswith("link → NPU 1")]
    assert [(e["name"], e["ts"], e["dur"]) for e in stacks[link]] == [
        ("all-reduce b chunk 0", 50.0, 10.0),
        ("all-reduce b chunk 1", 60.0, 35.0),
    ]


def test_switches_have_processes_of_their_own(record, job, tmp_path):
    links = [record.links[0], replace(record.links[1], source=2)]

    _, processes, lanes, _ = trace_of(replace(record, links=links), job, tmp_path)

    assert processes[2] == "switch 0"
    assert [name for (pid, _), name in lanes.items() if pid == 2] == [
        "link → NPU 0, dimension 0, lane 0"
    ]


def test_counters_show_utilisation(record, job, tmp_path):
    document, *_ = trace_of(record, job, tmp_path, series=utilisation(record, job))

    values = {}
    for event in document["traceEvents"]:
        if event["ph"] == "C":
            values.setdefault(event["name"], []).append((event["ts"], event["args"]["%"]))
    assert values["compute units busy"] == [(0, 100), (40, 87.5), (80, 25), (120, 50), (160, 0)]
    assert values["links busy"] == values["links of dimension 0 busy"]


def test_folded_run_says_for_how_many_npus_its_lane_stands(record, job, tmp_path):
    first = {
        name: getattr(record, name)[:1]
        for name in ("task_ready_fs", "task_start_fs", "task_end_fs", "graph_of", "engine_busy_fs")
    }
    folded = replace(
        record, folded=True, nodes=4096, spans=record.spans[:1], links=record.links[:1], **first
    )

    document, processes, *_ = trace_of(folded, job, tmp_path)

    assert processes == {
        0: "NPU 0 (stands for all 4096)",
        SYSTEM: "system: made by hand, folded: 1 of 4096 NPUs",
    }
    assert document["otherData"]["folded"] is True


def test_large_run_shows_its_first_npus_and_says_so(record, job, tmp_path):
    document, processes, lanes, _ = trace_of(record, job, tmp_path, most_npus=1)

    assert processes == {0: "NPU 0", SYSTEM: "system: made by hand, first 1 of 2 NPUs"}
    assert {pid for pid, _ in lanes} == {0}
    assert document["otherData"] == {
        "job": "made by hand", "NPUs": 2, "folded": False, "shown": 1,
    }


def test_compressed_trace_is_the_same(record, job, tmp_path):
    plain, *_ = trace_of(record, job, tmp_path)
    packed, *_ = trace_of(record, job, tmp_path, "trace.json.gz")

    assert plain == packed


def test_neighbours_stay_neighbours_below_a_nanosecond(record, job, tmp_path):
    # Times that are no whole nanoseconds: rounding start and duration apart would overlap.
    odd = {
        name: getattr(record, name) * 7 // 3 + 600_000
        for name in ("task_ready_fs", "task_start_fs", "task_end_fs")
    }

    trace_of(replace(record, end_fs=400 * US, **odd), job, tmp_path)


def test_check_notices_an_overlap(record, job, tmp_path):
    document, *_ = trace_of(record, job, tmp_path)
    compute = [e for e in document["traceEvents"] if e["ph"] == "X"]
    compute[0]["dur"] += 1

    with pytest.raises(AssertionError):
        check(document)


def test_strange_names_are_escaped(record, job, tmp_path):
    strange = replace(job, name='a "b"\n\\ µ')

    _, processes, *_ = trace_of(record, strange, tmp_path)

    assert processes[SYSTEM] == 'system: a "b"\n\\ µ'
