# SPDX-License-Identifier: Apache-2.0
"""Descriptions of switches that reduce at level rtl: the same run as of their cycle models."""

import os
import signal
import threading
import time

import numpy as np
import pytest

from foldwire.cli import main
from sim.describe.build import build
from sim.describe.reader import ConfigError
from sim.describe.system import describe
from sim.engines.run import engine_group
from sim.rtl.exchange import PayloadError
from sim.rtl.switch import exchange
from sim.rtl.switch import sums as golden
from sim.run import run
from sim.runs import scripts
from sim.runs.job import plan_job
from sim.runs.scripts import draw_inputs, run_engines
from tests.families import full

RATE = 25e9
NEAR_S = 6.4e-9  # ten cycles


def at_one_switch(members=4, planes=1):
    return {
        "topology": {"kind": "switch", "shape": [members], "bandwidth_bytes_per_s": RATE,
                     "latency_s": NEAR_S},
        "dimension": [{"lanes": planes}],
    }


def two_levels(members=6, leaf=3, spine=True, cables=1):
    return {
        "topology": {"kind": "fat_tree", "shape": [members], "bandwidth_bytes_per_s": RATE,
                     "latency_s": NEAR_S},
        "dimension": [{"group": leaf, "lanes": 1, "router_latency_s": 0.0, "spine": spine,
                       "trunk_bandwidth_bytes_per_s": cables * RATE}],
    }


def described(level, fabric, mode="push", size_bytes=6000, *, switch=None, **tables):
    made = {
        **fabric,
        "endpoint": {"kind": "in_switch", "preset": "test",
                     "links": fabric["dimension"][0]["lanes"]},
        "switch": {"preset": "test", "timeout_cycles": 120, "mode": mode, "level": level,
                   **(switch or {})},
        "workload": {"collective": "all_reduce", "size_bytes": size_bytes},
        "run": {"passes": 1},
        **tables,
    }
    return made


def both(*options, **more):
    return [run(described(level, *options, **more)) for level in ("rtl", "cycles")]


def assert_same(rtl, model):
    assert rtl.data.exact and rtl.data.results == rtl.engines.completions.size
    assert_alike(rtl, model)


def assert_alike(rtl, model):
    counted = {name: model.engines.counts[name] for name in rtl.engines.counts}
    assert rtl.engines.counts == counted
    relative = [np.array(each.engines.steps) - each.engines.begin for each in (rtl, model)]
    assert np.array_equal(*relative)
    flits = [{port: each.flits for port, each in one.engines.links.items()} for one in (rtl, model)]
    assert flits[0] == flits[1] and all(flits[0].values())
    assert rtl.time_s == model.time_s


@pytest.mark.parametrize("mode", ["push", "pull"])
@pytest.mark.parametrize("fabric", [
    at_one_switch(), at_one_switch(3, planes=2), two_levels(), two_levels(6, spine=False),
], ids=["one switch", "two planes", "two levels", "pair"])
def test_rtl_and_model_are_one_run_to_the_cycle(fabric, mode):
    rtl, model = both(fabric, mode)

    assert_same(rtl, model)
    assert rtl.engines.counts["results"] == rtl.record.nodes * -(-6000 // 128)
    if mode == "pull":
        assert rtl.engines.counts["loads"] and rtl.engines.counts["barrier"]


def test_time_outs_and_evictions_are_counted_alike():
    rtl, model = both(two_levels(), switch={"timeout_cycles": 40, "entries": 1})

    assert_same(rtl, model)
    assert rtl.engines.counts["expired"] + rtl.engines.counts["evicted"] > 10
    assert rtl.metrics["expired"] == rtl.engines.counts["expired"]


@pytest.mark.parametrize("op", ["sum_i32", "max_f32"])
def test_integers_and_extremes(op):
    workload = {"collective": "all_reduce", "size_bytes": 2000, "op": op}

    assert_same(*both(at_one_switch(3), "pull", workload=workload))


def test_training_with_several_all_reduces(tmp_path):
    job = tmp_path / "job.txt"
    job.write_text(
        "DATA\n2\nfront -1 900 NONE 0 800 NONE 0 900 ALLREDUCE 4096 30\n"
        "back -1 700 NONE 0 900 NONE 0 500 ALLREDUCE 1000 20\n", encoding="utf-8"
    )
    rtl, model = both(two_levels(), workload={"file": str(job)})

    assert_same(rtl, model)
    assert rtl.data.results == 12


def test_stalls_of_memories_are_the_same_from_the_same_cycle_on():
    document = described("rtl", two_levels(), "pull", memory={"stall_probability": 0.3})
    description = describe(document)
    system = build(description)
    ring = engine_group(description, system)
    plan = plan_job(system.job, "in_switch", ring.config, ring.settings,
                    clock_hz=ring.engine.clock_hz)
    parts = "in_switch", ring.config, ring.settings, plan.commands, plan.steps
    some = ["cycles", "rtl", "rtl", "cycles", "cycles", "rtl", "cycles", "rtl", "cycles"]
    for levels in ("rtl", some):
        rtl = run_engines(*parts, draw_inputs(plan.commands, 6, seed=3), levels=levels)
        model = run_engines(*parts, levels="cycles", start_cycle=rtl.begin)

        assert rtl.steps == model.steps and rtl.wrong == 0
        assert rtl.counts == {name: model.counts[name] for name in rtl.counts}


def test_a_sum_in_another_order_is_found(monkeypatch):
    replayed = golden.pushed

    def backwards(log, plane, region, address, op, words):
        return replayed(log, plane, region, address, op, {k: -words[k] for k in words})

    monkeypatch.setattr(golden, "pushed", backwards)
    found = run(described("rtl", at_one_switch(), size_bytes=512))

    assert found.data.wrong == 4 and found.metrics["wrong"] == 4


def mixed(description, seed, endpoints, switches):
    """A random part of endpoints and switches in RTL, of both together one at least, not all."""
    draw = np.random.default_rng(seed)
    chosen = draw.permutation(endpoints + switches)[: draw.integers(1, endpoints + switches)]
    chosen = sorted(chosen.tolist())
    nodes = [each for each in chosen if each < endpoints]
    others = [each - endpoints for each in chosen if each >= endpoints]
    on = {"endpoint": [{"nodes": nodes, "level": "rtl"}] if nodes else [],
          "switch": [{"switches": others, "level": "rtl"}] if others else []}
    tables = {name: {**description[name], "on": tables} for name, tables in on.items()}
    return {**description, **tables}, nodes


@pytest.mark.parametrize("mode", ["push", "pull"])
@pytest.mark.parametrize(("fabric", "switches", "seed"), [
    (at_one_switch(), 1, 1), (at_one_switch(3, planes=2), 2, 2), (two_levels(), 3, 3),
    (two_levels(), 3, 4), (two_levels(6, spine=False), 2, 5),
], ids=["one switch", "two planes", "two levels", "other levels", "pair"])
def test_any_mixture_of_rtl_and_models_is_the_same_run(fabric, switches, seed, mode):
    tables = {"timeout_cycles": 40, "entries": 2}
    plain = described("cycles", fabric, mode, 3000, switch=tables)
    model = run(plain)
    description, rtl = mixed(plain, seed, model.record.nodes, switches)
    found = run(description)

    assert found.level == "mixed" and found.engines.packets > 0
    assert found.engines.checked == len(rtl) and found.engines.wrong == 0
    assert_alike(found, model)


@pytest.mark.parametrize(("endpoints", "switches"), [("rtl", "cycles"), ("cycles", "rtl")])
def test_switches_and_endpoints_have_levels_of_their_own(endpoints, switches):
    description = described(switches, at_one_switch(), "pull", 2000)
    description["endpoint"]["level"] = endpoints
    found = run(description)

    assert_alike(found, run(described("cycles", at_one_switch(), "pull", 2000)))
    assert found.level == "mixed" and found.provenance["switch_level"] == switches
    shown = {"rtl": "RTL", "cycles": "cycle models"}
    note = f"4 as {shown[endpoints]}; of switches 1 as {shown[switches]}"
    assert note in found.record.notes[-1]
    assert found.data is None if endpoints == "cycles" else found.data.exact
    assert found.engines.packets > 0


def test_links_longer_than_a_window():
    fabric = at_one_switch()
    fabric["topology"]["latency_s"] = 1100 / (25e9 / 16)
    plain = described("cycles", fabric, size_bytes=300)
    found = run({**plain, "switch": {**plain["switch"], "on": [{"switches": [0], "level": "rtl"}]}})

    assert_alike(found, run(plain))


def among(switch_on, **more):
    """RTL switches among endpoints and switches that are models."""
    description = described("cycles", two_levels(), **more)
    description["switch"]["on"] = [{"switches": switch_on, "level": "rtl"}]
    return description


def test_a_packet_whose_data_are_not_the_sum_of_its_operands_is_found(monkeypatch):
    sums = golden.Sums.whole

    def one_bit_off(self, plane, number):
        words = sums(self, plane, number).copy()
        words.view("u4")[3] ^= number == 2
        return words

    monkeypatch.setattr(golden.Sums, "whole", one_bit_off)
    message = r"^switch 0 sent a packet of block 2 of link 0 \(result, 6 operands\) whose data are"
    with pytest.raises(PayloadError, match=message):
        run(among([0], size_bytes=1000))


@pytest.mark.parametrize("mode", ["push", "pull"])
def test_rtl_adds_what_models_send(mode, monkeypatch):
    sent = exchange._Contents.outgoing

    def doubled(self, crossing, plane, word, operands):
        flit, payload = sent(self, crossing, plane, word, operands)
        return flit, (2 * np.frombuffer(payload, np.float32)).tobytes()

    monkeypatch.setattr(exchange._Contents, "outgoing", doubled)
    with pytest.raises(PayloadError, match="whose data are not the sum of its operands"):
        run(among([1], mode=mode, size_bytes=1000))


def test_the_limits_of_rtl_count_rtl_alone():
    description = described("cycles", at_one_switch(12), size_bytes=256)
    description["endpoint"] = {"kind": "in_switch", "on": [{"nodes": [*range(9)], "level": "rtl"}]}
    description["switch"]["preset"] = "16-port"
    with pytest.raises(ConfigError, match=r"at level 'rtl', must have at most 8 endpoints, not 9$"):
        run(description)

    description["endpoint"]["on"][0]["nodes"] = [0]
    parsed = describe(description)
    assert engine_group(parsed, build(parsed)).levels == ("rtl", *["cycles"] * 12)


@pytest.mark.parametrize(
    ("fabric", "tables", "message"),
    [
        (at_one_switch(9), {"endpoints": 16, "preset": "16-port"},
         "topology: at level 'rtl', must have at most 8 endpoints, not 9"),
        (at_one_switch(4, planes=5), {}, "topology: at level 'rtl', must have at most 4 switches"),
        (two_levels(4, 2, cables=2), {},
         "trunk_bandwidth_bytes_per_s: at level 'rtl', must be that of one link"),
        (at_one_switch(), {"acknowledged": True},
         "switch.acknowledged: has no meaning at level 'rtl', "),
    ],
)
def test_what_rtl_switches_do_not_do_is_refused_in_one_line(fabric, tables, message):
    description = described("rtl", fabric, switch=tables)
    description["endpoint"] = {"kind": "in_switch"}
    with pytest.raises(ConfigError) as error:
        run(description)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_cycles_of_a_router_that_rtl_does_not_have():
    fabric = two_levels()
    fabric["dimension"][0]["router_latency_s"] = 1e-6
    wanted = r"router_latency_s: at level 'rtl', must be at most 1\.216e-08, "
    with pytest.raises(ConfigError, match=wanted):
        run(described("rtl", fabric))


def test_vectors_beyond_the_addresses():
    endpoint = {"kind": "in_switch", "preset": "test", "address_bits": 24}
    with pytest.raises(ConfigError, match="vectors must end at 16777216 at most, what "):
        run(described("rtl", at_one_switch(), size_bytes=9 << 20, endpoint=endpoint))


@pytest.mark.parametrize(("on", "keys"), [
    ("", ""), ("[[endpoint.on]]\nnodes = [3]\nlevel = 'cycles'\n", ""),
    ("", ("[network]\nretry = true\nretry_slots = 8\nretry_timeout_cycles = 100\n"
          "retry_tries = 30\n")),
    *full([("half = true\nbfp = true\nfixed_point = true\nparts = true\n",
            "format = 'bfp16'\nlanes = 16\nhalf = true\nbfp = true\n")]),
], ids=["rtl", "mixed", "retry", "format"])
def test_an_interrupt_ends_a_run_and_leaves_what_was_finished(
    on, keys, capsys, tmp_path, monkeypatch
):
    file, out = tmp_path / "small.toml", tmp_path / "out"
    text = (
        "[topology]\nkind = 'switch'\nshape = [4]\nbandwidth_bytes_per_s = 25e9\n"
        "latency_s = 6.4e-9\n[endpoint]\nkind = 'in_switch'\npreset = 'test'\n"
        f"{on}[switch]\npreset = 'test'\nlevel = 'rtl'\ntimeout_cycles = 120\n{keys}"
        "[workload]\ncollective = 'all_reduce'\nsize_bytes = 512\n[run]\npasses = 1\n"
    )
    arguments = ["sim", str(file), "-o", str(out)]
    file.write_text(text, encoding="utf-8")
    assert main(arguments) == 0
    kept = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    capsys.readouterr()

    works = scripts._run

    def interrupted(*everything):
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        return works(*everything)

    monkeypatch.setattr(scripts, "_run", interrupted)
    file.write_text(text.replace("= 512", f"= {4 << 20}"), encoding="utf-8")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    began = time.perf_counter()
    try:
        code = main(arguments)
    finally:
        signal.signal(signal.SIGINT, before)

    assert code == 130 and capsys.readouterr().err.splitlines()[-1] == "foldwire: interrupted"
    assert time.perf_counter() - began < 20
    found = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert kept and found == kept
