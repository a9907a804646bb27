# SPDX-License-Identifier: Apache-2.0
"""Ends and limits: what takes too long is refused by name, and what is cut says so."""

import json
import re

import pytest

from sim.cycles.ace import model as ace_model
from sim.describe.reader import ConfigError
from sim.events import stuck
from sim.events.simulate import SimulationError, simulate
from sim.network.network import Network
from sim.run import run
from sim.units import seconds_to_fs
from sim.workload.graph import CollectiveCall, CollectiveKind, GraphBuilder, Job, TaskKind

ACE = {
    "topology": {"kind": "ring", "shape": [4], "bandwidth_bytes_per_s": 5e9, "latency_s": 1e-7},
    "endpoint": {"kind": "ace", "preset": "test", "level": "cycles"},
    "workload": {"collective": "all_reduce", "size_bytes": 4096},
    "run": {"passes": 1},
}
NIC = {**ACE, "endpoint": {"kind": "smartnic", "preset": "test", "level": "cycles"}}
SWITCH = {
    **ACE,
    "topology": {"kind": "switch", "shape": [4], "latency_s": 1e-7},
    "endpoint": {"kind": "in_switch", "level": "cycles"},
}


def refusal(base, **changes):
    with pytest.raises(ConfigError) as refused:
        run(base, changes={key.replace("__", "."): value for key, value in changes.items()})
    return str(refused.value)


@pytest.mark.parametrize(
    ("base", "most"),
    [(ACE, "1073741824 cycles (0.862 s)"), (SWITCH, "858993459 cycles (0.55 s)")],
    ids=["ace", "in_switch"],
)
def test_a_latency_of_a_second_is_refused_at_cycles(base, most):
    """No link is seen before the run is over; cycle by cycle it took minutes."""
    assert refusal(base, topology__latency_s=1.0) == (
        "--set: topology.latency_s: at level 'cycles', must be less, so that a run ends within "
        f"{most}, not 1; the longest way takes 2 s"
    )
    assert refusal(base, memory__read_latency_s=1e9) == (
        "--set: memory.read_latency_s: at level 'cycles', must be less, so that a run ends within "
        f"{most}, not 1e+09"
    )


def test_what_the_links_of_nics_hold_is_bounded():
    assert refusal(NIC, topology__latency_s=1.0) == (
        "--set: topology.latency_s: at level 'cycles', must be less, so that a way has at most "
        "33554432 cycles, not 1"
    )


def test_computations_that_take_too_long_are_refused_at_cycles():
    trained = {"shipped": "mlp-model", "cycle_s": 1e-3}
    assert re.fullmatch(
        r"system: workload: at level 'cycles', must end within 0.862 s \(1073741824 cycles\), not "
        r"\S+ s, for compute alone",
        refusal({**ACE, "workload": trained}),
    )


def test_a_model_that_reaches_its_end_says_so(monkeypatch):
    """Each latency is allowed, all together are too long; it was called a standstill."""
    monkeypatch.setattr(ace_model, "MOST_CYCLES", 500)
    monkeypatch.setattr(ace_model.EngineModel.run, "__defaults__", (500,))

    with pytest.raises(ConfigError, match=r"^system: a run must end within 500 cycles$"):
        run(ACE)


def collective(size_bytes=1 << 20):
    builder = GraphBuilder()
    call = CollectiveCall(kind=CollectiveKind.ALL_REDUCE, size_bytes=size_bytes)
    builder.add("reduce", TaskKind.COLLECTIVE, call=call)
    return Job(name="job", graphs=(builder.graph(),))


def test_times_beyond_64_bits_are_refused_by_name():
    """They turned negative, and the run was called a deadlock."""
    slow = {
        "topology": {"kind": "ring", "shape": [4]},
        "workload": {"collective": "all_reduce", "size_bytes": 1 << 20},
        "calibration": {"step": 3000.0},
        "run": {"passes": 1},
    }
    with pytest.raises(SimulationError) as late:
        run(slow)
    assert str(late.value) == (
        "the run must end within 9000 s of simulated time, and takes longer: the endpoint's delay "
        "after a message is 3000 s"
    )
    with pytest.raises(ConfigError, match=r"after a message must be at most 9000 s, not 1e\+06 s"):
        run(slow, changes={"calibration.step": 1e6})
    assert run(slow, changes={"calibration.step": 1400.0}).time_s > 8400
    with pytest.raises(ValueError, match=r"^a time must be at most 9000 s, not 9300 s$"):
        seconds_to_fs(9300.0)
    assert seconds_to_fs(9200.0) == 92 * 10**17


def test_no_reason_is_empty(monkeypatch):
    """Whatever the reason is that nobody thought of, the first task that is open is named."""
    monkeypatch.setattr(stuck, "_reasons", lambda job, lowered: iter(()))
    builder = GraphBuilder()
    builder.add("never", TaskKind.RECEIVE, peer=1, size_bytes=8)
    builder.add("neither", TaskKind.SEND, [0], peer=1, size_bytes=8)
    job = Job(name="job", graphs=(builder.graph(), _mirrored()), graph_of=(0, 1))

    with pytest.raises(SimulationError) as waits:
        simulate(Network.ring(2, 25e9), job)
    assert str(waits.value) == (
        "nodes wait for each other without end: task 0 ('never') of node 0 has not ended"
    )


def _mirrored():
    builder = GraphBuilder()
    builder.add("never", TaskKind.RECEIVE, peer=0, size_bytes=8)
    builder.add("neither", TaskKind.SEND, [0], peer=0, size_bytes=8)
    return builder.graph()


@pytest.mark.parametrize("room", [100, None])
def test_a_trace_that_is_cut_says_so(tmp_path, room):
    description = {
        "topology": {"kind": "ring", "shape": [4]},
        "workload": {"collective": "all_reduce", "size_bytes": 1 << 20},
        "run": {"passes": 1, "trace": True, **({} if room is None else {"most_spans": room})},
    }
    done = run(description)
    whole = run(description, changes={"run.most_spans": 10**6}).record
    total = len(whole.spans)
    done.save(tmp_path, figures=False)
    trace = json.loads((tmp_path / "trace.json").read_text())
    (system,) = [
        each["args"]["name"] for each in trace["traceEvents"]
        if each["name"] == "process_name" and each["args"]["name"].startswith("system")
    ]
    notes = [note for note in done.record.notes if "trace" in note]

    assert total > 200 and whole.spans_left_out == 0
    if room is None:
        assert notes == [] and "cut" not in system and "left_out" not in trace["otherData"]
        return
    assert len(done.record.spans) == 100 and trace["otherData"]["left_out"] == total - 100
    assert f"cut: first 100 of {total} transfers and phases of chunks" in system
    begun = 1e-9 * done.record.spans["start_fs"].max()
    (note,) = notes
    assert note == (
        f"the trace is cut: the first 100 of {total} transfers and phases of chunks, up to "
        f"{begun:.6g} of {1e6 * done.time_s:.6g} us; run.most_spans = {total} keeps all"
    )
    exact = run(description, changes={"run.most_spans": total}).record
    assert exact.spans_left_out == 0


def test_a_ring_through_a_torus_needs_a_port_for_every_link():
    torus = {**ACE["topology"], "kind": "torus", "shape": [2, 2], "one_dimension": True}

    assert refusal({**ACE, "topology": torus}) == (
        "system: endpoint.ports: at level 'cycles', must be at least 4, two for each of the 2 "
        "dimensions of the torus, not 2"
    )
    base = {**ACE, "topology": torus, "endpoint": {**ACE["endpoint"], "ports": 4}}
    ring = run({**ACE, "endpoint": base["endpoint"]})
    # Neighbours all the way: the torus is the ring of four.
    assert run(base).time_s == ring.time_s
