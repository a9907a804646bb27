# SPDX-License-Identifier: Apache-2.0
"""Switches and endpoints in RTL whose links have retry, on wires that lose, repeat and damage."""

import re
from dataclasses import replace

import numpy as np
import pytest

from foldwire.cli import main
from sim.describe.build import build
from sim.describe.reader import ConfigError
from sim.describe.system import describe
from sim.engines.run import engine_group
from sim.rtl.harness.specs import PacketFault
from sim.rtl.harness.system import CycleLimitError, LinkFailedError
from sim.rtl.switch.fabric import SwitchFabric
from sim.run import run
from sim.runs.job import plan_job
from sim.runs.scripts import draw_inputs, run_engines
from tests.sim.run.given_up import give_up

RATE = 25e9
TIMEOUT, TRIES = 100, 30
ONE_SWITCH = {
    "topology": {"kind": "switch", "shape": [4], "bandwidth_bytes_per_s": RATE,
                 "latency_s": 6.4e-9},  # ten cycles
}
FOUR_SWITCHES = {
    "topology": {"kind": "fat_tree", "shape": [6], "bandwidth_bytes_per_s": RATE,
                 "latency_s": 6.4e-9},
    "dimension": [{"group": 2, "lanes": 1, "router_latency_s": 0.0,
                   "trunk_bandwidth_bytes_per_s": RATE}],
}


def described(fabric=ONE_SWITCH, mode="push", size_bytes=8000, *, retry=True, level="rtl", op=None,
              wires=None, **switch):
    """*wires*: shares of packets that are lost, repeated and damaged."""
    keys = {"retry": True, "retry_slots": 8, "retry_timeout_cycles": TIMEOUT, "retry_tries": TRIES}
    names = ("loss", "repetition", "damage")
    shares = dict(zip(names, (wires,) * 3 if isinstance(wires, float) else wires or ()))
    return {
        **fabric,
        "endpoint": {"kind": "in_switch", "preset": "test"},
        "switch": {"preset": "test", "timeout_cycles": 200, "mode": mode, "level": level, **switch},
        "network": {**(keys if retry else {}),
                    **{f"{name}_probability": share for name, share in shares.items()}},
        "workload": {"collective": "all_reduce", "size_bytes": size_bytes,
                     **({"op": op} if op else {})},
        "run": {"passes": 1, "seed": 3},
    }


def assembled(**options):
    """What a run of a description takes, for those who run it themselves."""
    description = describe(described(**options))
    system = build(description)
    ring = engine_group(description, system)
    plan = plan_job(system.job, "in_switch", ring.config, ring.settings,
                    clock_hz=ring.engine.clock_hz)
    return ring, ("in_switch", ring.config, ring.settings, plan.commands, plan.steps,
                  draw_inputs(plan.commands, ring.settings.nodes, seed=3))


@pytest.mark.parametrize("share", [0.0, 1e-3, 1e-2, 0.1])
@pytest.mark.parametrize("mode", ["push", "pull"])
@pytest.mark.parametrize("fabric", [ONE_SWITCH, FOUR_SWITCHES], ids=["one switch", "four"])
def test_results_are_exact_whatever_wires_do(fabric, mode, share):
    done = run(described(fabric, mode, wires=share))

    assert done.data.exact and done.data.results == done.record.nodes
    met = [done.metrics[f"wires_{what}"] for what in ("lost", "repeated", "damaged")]
    work = [done.metrics[f"frames_{what}"] for what in ("resent", "repeated", "damaged")]
    assert all(met) if share > 1e-3 else any(met) == (share > 0)
    assert all(work) if share > 1e-3 else bool(any(work)) == (share > 0)
    assert "all equal numpy's; of the packets on wires" in done.record.notes[-1]


@pytest.mark.parametrize("mode", ["push", "pull"])
def test_no_packet_is_delivered_twice_or_not_at_all(mode):
    """Partials apart, what endpoints count follows from the vectors alone."""
    good = run(described(mode=mode, retry=False, op="sum_i32"))
    bad = run(described(mode=mode, wires=0.03, op="sum_i32"))

    assert bad.data.exact and bad.metrics["frames_repeated"] > 10
    for name in ("operands", "loads", "answers", "finished", "results"):
        assert bad.engines.counts[name] == good.engines.counts[name], name
    assert bad.engines.counts["results"] == 4 * -(-8000 // 128)


@pytest.mark.parametrize(("wires", "kind", "work"), [
    ((0.05, 0, 0), "lost", "resent"), ((0, 0.05, 0), "repeated", "repeated"),
    ((0, 0, 0.05), "damaged", "damaged"),
])
def test_each_kind_of_fault_alone(wires, kind, work):
    done = run(described(wires=wires))
    met = {what: done.metrics[f"wires_{what}"] for what in ("lost", "repeated", "damaged")}

    assert done.data.exact
    assert met.pop(kind) > 30 and not any(met.values())
    assert done.metrics[f"frames_{work}"] > 20
    if kind != "repeated":
        assert done.metrics["frames_resent"] > 20
    if kind == "damaged":
        assert done.metrics["frames_damaged"] >= done.metrics["wires_damaged"]


def test_faults_are_those_of_the_seed():
    one, again = (run(described(wires=0.02)) for _ in range(2))
    other = described(wires=0.02)
    other["run"]["seed"] = 4
    other = run(other)

    assert one.engines.steps == again.engines.steps and one.metrics == again.metrics
    assert one.engines.counts != other.engines.counts


def test_good_wires_cost_little_but_latency():
    plain, kept = (run(described(size_bytes=64000, retry=each)) for each in (False, True))

    assert 1 < kept.time_s / plain.time_s < 2  # buffers of two packets wait for credits
    assert "frames_resent" not in plain.metrics and kept.metrics["frames_resent"] == 0


def test_wires_that_carry_nothing_are_reported_before_the_run(tmp_path, capsys):
    file = tmp_path / "dead.toml"
    file.write_text(
        "[topology]\nkind = 'switch'\nshape = [4]\nbandwidth_bytes_per_s = 25e9\n"
        "latency_s = 6.4e-9\n[endpoint]\nkind = 'in_switch'\npreset = 'test'\n"
        "[switch]\npreset = 'test'\nlevel = 'rtl'\n"
        "[network]\nloss_probability = 1.0\nretry = true\nretry_slots = 8\n"
        f"retry_timeout_cycles = {TIMEOUT}\nretry_tries = {TRIES}\n"
        "[workload]\ncollective = 'all_reduce'\nsize_bytes = 512\n", encoding="utf-8"
    )
    assert main(["sim", str(file), "-o", str(tmp_path)]) == 1
    said = capsys.readouterr().err.splitlines()[-1]
    assert re.match(r"foldwire: links are not up \d+ cycles after reset: link 0 of endpoint 0 \(",
                    said)
    assert said.count("of switch 0") == 4


@pytest.mark.parametrize(("node", "port", "link"), [
    (1, 0, "link 1 of switch 0 (to link 0 of endpoint 1)"),
    (4, 2, "link 0 of endpoint 2 (to link 2 of switch 0)"),
])
def test_a_wire_that_dies_ends_the_run_with_its_name(node, port, link):
    """Acknowledgements are lost, too: the end that hears nothing is the first to give up."""
    _, parts = assembled()
    dead = PacketFault(node=node, port=port, packet=63, packets=1 << 40)

    with pytest.raises(LinkFailedError) as error:
        run_engines(*parts, faults=[dead], max_cycles=1_000_000)
    assert re.match(r"at cycle \d{4} links were given up, whose frames are ", str(error.value))
    assert str(error.value).endswith(f"however often they are repeated: {link}")


def test_a_limit_of_cycles_is_as_without_retry():
    for retry in (False, True):
        _, parts = assembled(retry=retry)
        with pytest.raises(CycleLimitError, match=r"^not finished after 500 cycles: node 0: .*; "
                           r"engines by rank: 0 busy; 1 busy; 2 busy; 3 busy$"):
            run_engines(*parts, max_cycles=500)


@pytest.mark.parametrize("retry", [False, True])
def test_after_an_abort_the_next_all_reduce_is_exact(retry):
    wires = 0.03 if retry else None
    _, (_, config, settings, (command,), _, (data,)) = assembled(retry=retry, wires=wires)
    fabric = give_up(config, settings, command, data, after_cycles=700)

    rng = np.random.default_rng(1)
    vectors = [rng.integers(-9, 9, 999, np.int32) for _ in fabric.ranks]
    for result in fabric.all_reduce(vectors):
        assert np.array_equal(result, sum(vectors))


def test_a_switch_that_is_reset_alone_is_heard_again():
    """With links at rest nothing is lost: its links come up again."""
    _, (_, config, settings, *_) = assembled(wires=0.03)
    fabric = SwitchFabric(config, settings)
    rng = np.random.default_rng(2)
    for _ in range(2):
        vectors = [rng.integers(-9, 9, 999, np.int32) for _ in fabric.ranks]
        assert all(np.array_equal(each, sum(vectors)) for each in fabric.all_reduce(vectors))
        (switch,) = fabric.switches
        switch.reset_engine()
        assert switch.output("up") == 0
        fabric._program()
        fabric.system.run(max_cycles=50 * TIMEOUT)
        assert switch.output("up") == 15


@pytest.mark.parametrize(("tables", "message"), [
    ({"switch": {"level": "cycles"}}, "network.retry: has no meaning at level 'cycles', only at r"),
    ({"switch": {"level": "events"}}, "network.retry: has no meaning at level 'events', only at r"),
    ({"switch": {"on": [{"switches": [0], "level": "cycles"}]}},
     "network.retry: has no meaning at level 'cycles', only at rtl"),
    ({"endpoint": {"on": [{"nodes": [0], "level": "cycles"}]}},
     "network.retry: has no meaning at level 'cycles', only at rtl"),
    ({"switch": {"retry": True}}, "switch.retry: unknown key"),
    ({"network": {"retry": False}}, "network.retry_slots: has no meaning without retry = true"),
    ({"network": {"retry_slots": 24}}, "network.retry_slots: must be a power of two from 2 to 64,"),
    ({"network": {"retry_tries": 0}}, "network.retry_tries: must be an integer from 1 to 255, not"),
    ({"network": {"retry_timeout_cycles": 63}},
     "network.retry_timeout_cycles: must be from 64 (a round trip, 20 cycles, two frames and what"),
    ({"topology": {"latency_s": 30e-6}, "network": {"retry_timeout_cycles": 65535}},
     "network.retry: must be false: links of 46875 cycles need a time-out of 93794 cycles, and it"),
    ({"network": {"loss_probability": 1.1}}, "network.loss_probability: must be from 0 to 1, not"),
    ({"network": {"loss_probability": 0.6, "damage_probability": 0.5}},
     "network.damage_probability: must be from 0 to 0.4 (the others have the rest), not 0.5"),
    ({"network": {"retry": None, "damage_probability": 0.1}},
     "network.damage_probability: must be 0, not 0.1: network.retry = true gets over it"),
    ({"switch": {"level": "cycles"}, "network": {"retry": None, "damage_probability": 0.1}},
     "network.damage_probability: has no meaning at level 'cycles', only at rtl"),
    ({"network": {"stall_probability": 0.1}}, "network.stall_probability: at level 'rtl', must be"),
])
def test_what_cannot_be_is_refused_in_one_line(tables, message):
    document = described()
    if tables.get("network", {}).get("retry", True) is None:
        document = described(retry=False)
        stated = {k: v for k, v in tables["network"].items() if v is not None}
        tables = {**tables, "network": stated}
    for name, changes in tables.items():
        document[name] = {**document[name], **changes}
    with pytest.raises(ConfigError) as error:
        run(document)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_the_driver_refuses_what_it_cannot_run():
    _, parts = assembled()
    with pytest.raises(ValueError, match=r"^retry must be None where anything is a cycle mod"):
        run_engines(*parts, levels=["rtl"] * 4 + ["cycles"])
    with pytest.raises(ValueError, match=r"^retry must be None where anything is a cycle mod"):
        run_engines(*parts, levels="cycles")
    _, parts = assembled(wires=0.1)
    with pytest.raises(ValueError, match=r"^link_loss, .* must be 0 where anything is a cycle mod"):
        run_engines(*parts, levels="cycles")
    bare = replace(parts[2], retry=None)
    with pytest.raises(ValueError, match=r"must be 0 without retry on links$"):
        run_engines(*parts[:2], bare, *parts[3:])
