# SPDX-License-Identifier: Apache-2.0
"""Rings of engines in RTL whose links have retry, on wires that lose, repeat and damage."""

import re

import numpy as np
import pytest

from foldwire.cli import main
from sim.describe.build import build
from sim.describe.reader import ConfigError
from sim.describe.system import describe
from sim.engines.run import engine_group
from sim.rtl.ace.ring import AceRing
from sim.rtl.harness.specs import PacketFault
from sim.rtl.harness.system import CycleLimitError, LinkFailedError
from sim.rtl.smartnic.ring import NicRing
from sim.run import run
from sim.runs.job import plan_job
from sim.runs.scripts import draw_inputs, run_engines

TRIES = 30
RATES = {"ace": 16e9, "smartnic": 3e9}
DRIVERS = {"ace": AceRing, "smartnic": NicRing}
WIRES = ("loss_probability", "repetition_probability", "damage_probability")


def described(kind, nodes=3, share=0.0, **network):
    return {
        "topology": {"kind": "ring", "shape": [nodes], "latency_s": 10e-9,
                     "bandwidth_bytes_per_s": RATES[kind]},
        "endpoint": {"kind": kind, "preset": "test", "level": "rtl"},
        "network": {"retry": True, "retry_slots": 16, "retry_tries": TRIES,
                    **dict.fromkeys(WIRES, share), **network},
        "workload": {"collective": "all_reduce", "size_bytes": 20_000},
        "run": {"passes": 1, "seed": 3},
    }


def assembled(kind, **options):
    """What a run of a description takes, for those who run it themselves."""
    description = describe(described(kind, **options))
    system = build(description)
    ring = engine_group(description, system)
    plan = plan_job(system.job, kind, ring.config, ring.settings, clock_hz=ring.engine.clock_hz)
    return (kind, ring.config, ring.settings, plan.commands, plan.steps,
            draw_inputs(plan.commands, ring.settings.nodes, seed=3))


@pytest.mark.parametrize("share", [0.0, 1e-2, 0.05])
@pytest.mark.parametrize("kind", ["ace", "smartnic"])
def test_results_are_exact_whatever_wires_do(kind, share):
    done = run(described(kind, share=share))

    assert done.data.exact and done.data.results == 3
    met = [done.metrics[f"wires_{what}"] for what in ("lost", "repeated", "damaged")]
    work = [done.metrics[f"frames_{what}"] for what in ("resent", "repeated", "damaged")]
    assert all(met) == all(work) == (share > 0) == bool(any(met))
    assert share or not any(work)
    assert "all equal numpy's; of the packets on wires" in done.record.notes[-1]


@pytest.mark.parametrize("topology", [
    {"kind": "ring", "shape": [3]}, {"kind": "torus", "shape": [2, 2], "one_dimension": True},
], ids=["plugs", "torus"])
def test_engines_with_more_ports_than_a_ring_has(topology):
    """Nobody answers at ports that lead nowhere, so they have plugs."""
    document = described("ace", share=0.02)
    document["topology"] = {**document["topology"], **topology}
    document["endpoint"]["ports"] = 4
    done = run(document)

    assert done.data.exact and done.metrics["frames_resent"] > 5


@pytest.mark.parametrize("kind", ["ace", "smartnic"])
def test_good_wires_cost_latency_and_no_repetition(kind):
    document = described(kind)
    kept = run(document)
    document["network"] = {}
    plain = run(document)

    assert 1 < kept.time_s / plain.time_s < 2
    assert kept.metrics["frames_resent"] == 0 and "frames_resent" not in plain.metrics


@pytest.mark.parametrize("kind", ["ace", "smartnic"])
def test_faults_are_those_of_the_seed(kind):
    one, again = (run(described(kind, share=0.02)) for _ in range(2))

    assert one.engines.steps == again.engines.steps and one.metrics == again.metrics


@pytest.mark.parametrize("kind", ["ace", "smartnic"])
def test_a_wire_that_dies_ends_the_run_with_its_name(kind):
    dead = PacketFault(node=1, port=0, packet=60, packets=1 << 40)

    with pytest.raises(LinkFailedError, match=r"^at cycle \d+ links were given up, .*link 0 of r"):
        run_engines(*assembled(kind), faults=[dead], max_cycles=2_000_000)


def test_wires_that_carry_nothing_are_reported_before_the_run(tmp_path, capsys):
    file = tmp_path / "dead.toml"
    file.write_text(
        "[topology]\nkind = 'ring'\nshape = [3]\nlatency_s = 1e-8\n"
        "bandwidth_bytes_per_s = 16e9\n"
        "[endpoint]\nkind = 'ace'\npreset = 'test'\nlevel = 'rtl'\n"
        "[network]\nretry = true\nretry_slots = 16\nretry_tries = 30\nloss_probability = 1.0\n"
        "[workload]\ncollective = 'all_reduce'\nsize_bytes = 1024\n", encoding="utf-8"
    )
    assert main(["sim", str(file), "-o", str(tmp_path)]) == 1
    said = capsys.readouterr().err.splitlines()[-1]
    assert re.match(r"foldwire: links are not up \d+ cycles after reset: link 0 of rank 0 \(", said)


@pytest.mark.parametrize("kind", ["ace", "smartnic"])
def test_after_an_abort_the_next_all_reduce_is_exact(kind):
    _, config, settings, (command,), _, (data,) = assembled(kind, share=0.02)
    ring = DRIVERS[kind](config, settings)
    for node, array in zip(ring.nodes, data, strict=True):
        ring.store(node, command, array)
        ring.start(node, command)
    ring.next_collective()
    ring.system.advance(ring.system.cycle + 700)
    assert all(node.output("idle") == 0 for node in ring.nodes)
    ring.recover()

    rng = np.random.default_rng(1)
    vectors = [rng.integers(-9, 9, 999).astype(np.float32) for _ in ring.ranks]
    for result in ring.all_reduce(vectors):
        assert np.array_equal(result, sum(vectors))


def test_a_limit_of_cycles_is_as_without_retry():
    with pytest.raises(CycleLimitError, match=r"^not finished after 500 cycles: .* 0 busy; 1 busy"):
        run_engines(*assembled("ace"), max_cycles=500)


@pytest.mark.parametrize(("tables", "message"), [
    ({"endpoint": {"level": "cycles"}}, "network.retry: has no meaning at level 'cycles', only at"),
    ({"endpoint": {"level": "events"}}, "network.retry: has no meaning at level 'events', only at"),
    ({"endpoint": {"on": [{"nodes": [0], "level": "cycles"}]}},
     "network.retry: has no meaning at level 'cycles', only at rtl"),
    ({"network": {"retry": 1}}, "network.retry: must be true or false, not 1"),
    ({"network": {"retry": False}}, "network.retry_slots: has no meaning without retry = true"),
    ({"network": {"retry_slots": 24}}, "network.retry_slots: must be a power of two from 2 to 64,"),
    ({"network": {"retry_timeout_cycles": 9}}, "network.retry_timeout_cycles: must be from "),
    ({"network": {"loss_probability": 1.1}}, "network.loss_probability: must be from 0 to 1, not"),
])
def test_what_cannot_be_is_refused_in_one_line(tables, message):
    document = described("ace")
    for name, changes in tables.items():
        document[name] = {**document[name], **changes}
    with pytest.raises(ConfigError) as error:
        run(document)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_bad_wires_without_retry_are_refused():
    document = described("ace")
    document["network"] = {"loss_probability": 0.1}
    with pytest.raises(ConfigError, match=r"loss_probability: must be 0, not 0.1: network.retry ="):
        run(document)
