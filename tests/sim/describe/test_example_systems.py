# SPDX-License-Identifier: Apache-2.0
"""The examples of event simulations run, and do what their comments say."""

import importlib.util
import tomllib
from pathlib import Path

import pytest

from sim.run import run as run_system
from sim.workload.chakra_file import encode

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
DOCUMENTS = {
    path.stem: tomllib.loads(path.read_text(encoding="utf-8")) for path in EXAMPLES.glob("*.toml")
    if not path.stem.startswith("explore_")  # a sweep
}
EVENTS = sorted(
    name
    for name, document in DOCUMENTS.items()
    if {**document.get("switch", {}), **document.get("endpoint", {})}.get("level", "events")
    == "events"
)


def run(name, **changes):
    """The example with some of its tables replaced."""
    config = {**DOCUMENTS[name], **changes}
    return run_system(config, source=str(EXAMPLES / f"{name}.toml"))


def test_there_are_examples_of_several_levels():
    assert len(EVENTS) >= 5
    assert len(EVENTS) < len(DOCUMENTS)


@pytest.mark.parametrize("name", EVENTS)
def test_example_runs_from_its_file(name):
    path = EXAMPLES / f"{name}.toml"
    if name == "dlrm_switch":  # sixteen million events
        small = {"topology": {**DOCUMENTS[name]["topology"], "shape": [4, 2]}}
        result = run(name, **small)
    else:
        result = run_system(path)

    assert result.metrics["time_s"] > 0
    assert result.metrics["events"] < 2e7  # seconds
    assert f"foldwire sim examples/{name}.toml" in path.read_text(encoding="utf-8")


def test_trace_of_the_examples_is_what_its_script_writes():
    path = EXAMPLES / "traces" / "two_layers.py"
    spec = importlib.util.spec_from_file_location("two_layers", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    assert path.with_suffix(".et").read_bytes() == encode(module.two_layers())


def test_gradients_of_the_trace_are_reduced_while_it_computes():
    found = run("chakra_trace").metrics

    assert 0 < found["exposed_s"] < found["time_s"] - found["compute_s"] + 1e-12
    # Two all-reduces of 32 MiB, of which one is hidden behind the first layer.
    alone = run("chakra_trace", workload={"collective": "all_reduce", "size_bytes": 1 << 25})
    assert found["exposed_s"] < 2 * alone.metrics["time_s"]


def test_straggler_and_slow_link_cost_time():
    hurt, well = run("straggler"), run("straggler", scenario={})
    only_link = run("straggler", scenario={"link": DOCUMENTS["straggler"]["scenario"]["link"]})
    only_node = run("straggler", scenario={"node": DOCUMENTS["straggler"]["scenario"]["node"]})

    times = [each.metrics["time_s"] for each in (well, only_link, only_node, hurt)]
    assert times[0] < times[1] and times[0] < times[2]
    assert times[3] > 0.99 * max(times[1:3])  # delays of the two partly hide each other
    # Node 5 takes half as much again; everyone else waits for it.
    assert hurt.metrics["compute_s"] == pytest.approx(well.metrics["compute_s"] * (15 + 1.5) / 16)


def test_failed_link_sends_traffic_the_long_way():
    hurt, well = run("failed_link"), run("failed_link", scenario={})

    assert hurt.metrics["time_s"] > 1.5 * well.metrics["time_s"]
    down = [
        number
        for number, link in enumerate(hurt.record.links)
        if {link.source, link.target} == {2, 3}
    ]
    assert len(down) == 2
    assert hurt.record.link_bytes[down].sum() == 0
    assert well.metrics["sent_bytes"] < hurt.metrics["sent_bytes"]


def test_endpoints_of_the_training_example_rank_as_published():
    """ISCA 2021, Table VI: what training loses to communication, least to most."""
    kinds = ("ideal", "ace", "baseline_comp_opt", "baseline_comm_opt")
    found = [run("training_torus", endpoint={"kind": kind}).metrics for kind in kinds]

    compute = [each["compute_s"] for each in found]
    assert compute == sorted(compute) and compute[0] < compute[1]
    assert found[0]["time_s"] <= found[1]["time_s"]


def test_one_image_of_the_training_example_exposes_communication():
    """As the README and the example say."""
    workload = DOCUMENTS["training_torus"]["workload"]
    many, one = (
        run("training_torus", workload=workload | {"batch": batch}).metrics for batch in (32, 1)
    )
    assert many["exposed_percent"] < 0.1 < 1 < one["exposed_percent"]
    assert many["time_s"] > 10 * one["time_s"]
