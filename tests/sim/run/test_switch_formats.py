# SPDX-License-Identifier: Apache-2.0
"""Switches and endpoints in RTL whose operands and results travel in 16 bits or in blocks."""

import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from foldwire.cli import main
from hw.bfp.format import preset as block_format
from hw.switch.packet import Format
from sim.describe.build import build
from sim.describe.reader import ConfigError
from sim.describe.system import describe
from sim.engines.run import engine_group
from sim.rtl.driver import Request
from sim.rtl.harness.system import CycleLimitError
from sim.rtl.switch import sums
from sim.rtl.switch.fabric import SwitchFabric
from sim.rtl.switch.formats import packed, unpacked
from sim.run import run
from sim.runs.job import plan_job
from sim.runs.scripts import draw_inputs, run_engines
from tests.families import full
from tests.sim.run.given_up import give_up

RATE = 25e9
NEAR_S = 6.4e-9  # ten cycles
ONE = {"topology": {"kind": "switch", "shape": [4], "bandwidth_bytes_per_s": RATE,
                    "latency_s": NEAR_S}}
PLANES = {**ONE, "dimension": [{"lanes": 2}]}
LEVELS = {
    "topology": {"kind": "fat_tree", "shape": [6], "bandwidth_bytes_per_s": RATE,
                 "latency_s": NEAR_S},
    "dimension": [{"group": 3, "lanes": 1, "router_latency_s": 0.0,
                   "trunk_bandwidth_bytes_per_s": RATE}],
}
FLITS = {"fp32": 9, "fp16": 5, "bf16": 5, "bfp16": 4}
"""Of a packet with 32 elements, its header among them."""
SHORT = [format for format in FLITS if format != "fp32"]
PAGE = Path(__file__).resolve().parents[3] / "docs/reference/system-switch.md"

ALL = {"half": True, "bfp": True}
"""What is built for all formats: the hardware that tests of endpoints have compiled."""


def described(format, fabric=ONE, mode="push", size_bytes=6000, *, level="rtl", op=None,
              alone=False, endpoint=None, **switch):
    """*alone*: what is built follows from the format."""
    own, ends = ({}, {}) if alone else (ALL, {**ALL, "fixed_point": True, "parts": True})
    stated = {} if format is None else {"format": format}
    return {
        **fabric,
        "endpoint": {"kind": "in_switch", "preset": "test", **ends,
                     "links": fabric.get("dimension", [{}])[0].get("lanes", 1), **(endpoint or {})},
        "switch": {"preset": "test", "timeout_cycles": 120, "mode": mode, "level": level,
                   **own, **stated, **switch},
        "workload": {"collective": "all_reduce", "size_bytes": size_bytes,
                     **({"op": op} if op else {})},
        "run": {"passes": 1, "seed": 3},
    }


def assembled(*options, **more):
    """What a run of a description takes, for those who run it themselves."""
    description = describe(described(*options, **more))
    system = build(description)
    ring = engine_group(description, system)
    plan = plan_job(system.job, "in_switch", ring.config, ring.settings,
                    clock_hz=ring.engine.clock_hz)
    return ("in_switch", ring.config, ring.settings, plan.commands, plan.steps,
            draw_inputs(plan.commands, ring.settings.nodes, seed=3))


def in_memory(fabric, format, elements):
    """The results of the last all-reduce, read as its format says, without the driver."""
    wide = {"fp16": np.float16, "bf16": ml_dtypes.bfloat16}.get(format, np.float32)
    # `Request` puts the result behind the operands, which have room for words.
    begin = -(-4 * elements // 128) * 128
    return [node.memory[begin : begin + np.dtype(wide).itemsize * elements].view(wide)
            for node in fabric.nodes]


@pytest.mark.parametrize("mode", ["push", "pull"])
@pytest.mark.parametrize(("format", "fabric", "more"), [
    ("fp16", ONE, {}),
    *full((
        ("bfp16", LEVELS, {"lanes": 16}),
        ("fp16", ONE, {"lanes": 8}),
        ("bf16", LEVELS, {"lanes": 8}),
        ("bf16", ONE, {"alone": True}),
        ("bfp16", ONE, {"alone": True}),
        ("fp16", LEVELS, {"lanes": 8, "alone": True}),
        ("bfp16", LEVELS, {"lanes": 16, "alone": True}),
        ("fp16", PLANES, {"lanes": 8, "alone": True}),
        ("bfp16", PLANES, {}),
        ("fp16", ONE, {"multicast_partials": True}),
        ("bfp16", LEVELS, {"multicast_partials": True}),
        ("fp16", LEVELS, {"age_bits": 8}),
        ("bfp16", LEVELS, {"age_bits": 8, "lanes": 16}),
    )),
])
def test_results_are_sums_in_the_order_of_arrival_rounded_once(format, fabric, more, mode):
    done = run(described(format, fabric, mode, **more))

    nodes = done.record.nodes
    assert done.data.exact and done.data.results == nodes
    assert done.engines.counts["results"] == nodes * -(-6000 // 128)
    assert done.provenance["config"]["format"] == format
    assert f"; {format} on links; of {nodes} results all equal" in done.record.notes[-1]


@pytest.mark.parametrize(("format", "half", "bfp"), [
    ("fp32", False, False), ("fp16", True, False), ("bf16", True, False), ("bfp16", False, True),
])
def test_what_is_built_follows_from_the_format(format, half, bfp):
    system = assembled(format, alone=True)[1].system

    assert [(each.half, each.bfp) for each in (system.switch, system.dma)] == [(half, bfp)] * 2


@pytest.mark.parametrize("format", SHORT)
@pytest.mark.parametrize("mode", ["push", "pull"])
def test_memory_has_sums_whatever_the_order_was(format, mode):
    """Beside numpy alone: integers that sum exactly, and a bound of what rounding may do."""
    _, config, settings, *_ = assembled(format, LEVELS, mode, lanes=16)
    fabric = SwitchFabric(config, settings)
    rng = np.random.default_rng(5)
    whole = [rng.integers(-9, 10, 999).astype(np.float32) for _ in fabric.ranks]
    fabric.all_reduce(whole)
    for result in in_memory(fabric, format, 999):
        assert np.array_equal(result.astype(np.float32), sum(whole))

    drawn = [(rng.standard_normal(999) * 2.0 ** rng.integers(-5, 6, 999)).astype(np.float32)
             for _ in fabric.ranks]
    fabric.all_reduce(drawn)
    if format == "bfp16":
        blocks = block_format("bfp16")
        padded = [np.pad(each, (0, -999 % 32)) for each in drawn]
        terms = [blocks.quantize(each)[:999].astype(float) for each in padded]
    else:
        kind = np.float16 if format == "fp16" else ml_dtypes.bfloat16
        terms = [each.astype(kind).astype(float) for each in drawn]
    exact = sum(terms)
    adders = 2.0**-21 * sum(map(abs, terms))  # five additions of words
    if format == "bfp16":
        largest = np.maximum.reduceat(abs(exact), np.arange(0, 999, 16))
        unit = 2.0 ** (np.floor(np.log2(largest)) - 6)
        least = np.repeat(unit, 16)[:999]  # half of a unit, which may be one binade larger
    else:
        least = abs(exact) * (2.0**-11 if format == "fp16" else 2.0**-8) + 2.0**-25
    for result in in_memory(fabric, format, 999):
        assert (abs(result.astype(float) - exact) <= least + adders).all()


@pytest.mark.parametrize("op", ["min_f32", "max_f32"])
def test_extremes(op):
    assert run(described("fp16", mode="pull", op=op, lanes=16)).data.exact


def test_a_result_that_is_not_rounded_is_found(monkeypatch):
    monkeypatch.setattr(sums.Sums, "_rounded", lambda self, words: words)

    assert run(described("bf16", size_bytes=512)).metrics["wrong"] == 4


@pytest.mark.parametrize("format", FLITS)
def test_bytes_of_links_are_those_that_travelled(format):
    """Nothing but operands goes up and results down, in packets of this length; contracts are
    words."""
    blocks = 7  # with the contract as many as tables of four homes have entries
    done = run(described(format, size_bytes=128 * blocks, timeout_cycles=1000, lanes=16))

    assert done.data.exact and done.engines.counts["partials"] == 0
    sent = 16 * (FLITS[format] * blocks + 9)
    assert done.record.link_bytes.tolist() == [sent] * 8
    words = 2 if format in ("fp16", "bf16") else 4
    assert (done.record.unit_bytes == 32 * blocks * words).all()


def test_bounds_are_of_what_travels():
    """The share of packets that is data, and how much less data there is."""
    found = {format: run(described(format, size_bytes=4096)) for format in ("fp32", "fp16")}

    bounds = {format: done.limits["bound_s"][-1] for format, done in found.items()}
    assert bounds["fp16"] == pytest.approx(5 / 9 * bounds["fp32"], rel=0.1)
    for done in found.values():
        assert done.limits["shortest_s"][-1] > done.limits["bound_s"][-1]


def test_fp32_and_4_lanes_are_what_there_is_without_the_keys():
    plain, stated = (run(described(*each, alone=True)) for each in ([None], ["fp32"]))

    assert stated.engines.steps == plain.engines.steps
    assert stated.provenance["config"] == plain.provenance["config"]
    assert stated.record.notes == plain.record.notes


@pytest.mark.full
@pytest.mark.parametrize("mode", ["push", "pull"])
@pytest.mark.parametrize("format", SHORT)
def test_links_with_retry_carry_every_format(mode, format):
    document = described(format, LEVELS, mode, lanes=16)
    document["network"] = {
        "retry": True, "retry_slots": 8, "retry_timeout_cycles": 100, "retry_tries": 30,
        **dict.fromkeys(
            ("loss_probability", "repetition_probability", "damage_probability"), 0.02
        ),
    }
    done = run(document)

    assert done.data.exact and done.metrics["frames_resent"] > 10


# ---- Exits.


@pytest.mark.parametrize("format", ["fp16", "bfp16"])
@pytest.mark.parametrize("mode", ["push", "pull"])
def test_after_an_abort_the_next_all_reduce_is_exact(format, mode):
    _, config, settings, (command,), _, (data,) = assembled(format, LEVELS, mode, lanes=16)
    fabric = give_up(config, settings, command, data, after_cycles=400)

    rng = np.random.default_rng(1)
    vectors = [rng.integers(-9, 10, 777).astype(np.float32) for _ in fabric.ranks]
    for result in fabric.all_reduce(vectors):
        assert np.array_equal(result, sum(vectors))


@pytest.mark.parametrize("format", ["bf16", "bfp16"])
def test_an_endpoint_that_is_late(format):
    """Its operands meet those that have gone to the home endpoint, as words."""
    _, config, settings, *_ = assembled(format, LEVELS, lanes=16)
    fabric = SwitchFabric(config, settings)
    rng = np.random.default_rng(1)
    vectors = [rng.integers(-9, 10, 777).astype(np.float32) for _ in fabric.ranks]
    for result in fabric.run(Request(inputs=vectors), start_skew_cycles=5000)[0]:
        assert np.array_equal(result, sum(vectors))
    assert fabric.counts()["expired"] > 0


def test_a_limit_of_cycles_is_as_in_words():
    with pytest.raises(CycleLimitError, match=r"^not finished after 300 cycles: node 0: .*; "
                       r"engines by rank: 0 busy; 1 busy; 2 busy; 3 busy$"):
        run_engines(*assembled("fp16", lanes=16), max_cycles=300)


@pytest.mark.parametrize(("given", "message"), [
    ({"format": "fp8"}, "switch.format: must be one of fp32, fp16, bf16, bfp16, not 'fp8'"),
    ({"format": 16}, "switch.format: must be a text, not 16"),
    ({"format": "fp16", "level": "cycles"},
     "switch.format: has no meaning at level 'cycles', only at rtl"),
    ({"format": "fp16", "level": "events"},
     "switch.format: has no meaning at level 'events', only at rtl"),
    ({"lanes": 8, "level": "cycles"}, "switch.lanes: has no meaning at level 'cycles', only at rt"),
    ({"lanes": 8, "level": "events"}, "switch.lanes: has no meaning at level 'events', only at rt"),
    ({"format": "fp16", "on": [{"switches": [0], "level": "cycles"}]},
     "switch.format: has no meaning at level 'cycles', only at rtl"),
    ({"format": "bfp16", "endpoint": {"on": [{"nodes": [0], "level": "cycles"}]}},
     "switch.format: has no meaning at level 'cycles', only at rtl"),
    ({"lanes": 8}, "switch.lanes: must be 4 without a format of half or bfp, not 8: words come 4"),
    ({"lanes": 8, "format": "fp32"}, "switch.lanes: must be 4 without a format of half or bfp, n"),
    ({"lanes": 6, "format": "fp16"}, "switch.lanes: must be one of 4, 8, 16, not 6"),
    ({"lanes": 8, "format": "fp16", "multicast_partials": True},
     "switch.lanes: must be 4 with multicast_partials, not 8"),
    ({"format": "bf16", "half": False},
     "switch.half: must be true, or absent, with switch.format = 'bf16', not false"),
    ({"format": "bfp16", "endpoint": {"bfp": False}},
     "endpoint.bfp: must be true, or absent, with switch.format = 'bfp16', not false"),
    ({"format": "bfp16", "payload_flits": 2, "alu_stages": 1}, "switch.payload_flits: must be "),
    ({"format": "fp16", "op": "sum_i32"},
     "op: must be one of sum_f32, min_f32, max_f32 with format fp16, not sum_i32: integers travel"),
])
def test_what_cannot_be_is_refused_in_one_line(given, message):
    given = {"format": None, "alone": True, **given}
    with pytest.raises(ConfigError) as error:
        run(described(**given))
    assert message in str(error.value) and "\n" not in str(error.value)


def test_errors_name_file_and_line(tmp_path, capsys):
    file = tmp_path / "wrong.toml"
    file.write_text(
        "[topology]\nkind = 'switch'\nshape = [4]\nbandwidth_bytes_per_s = 25e9\n"
        "[endpoint]\nkind = 'in_switch'\n[switch]\nlevel = 'rtl'\nlanes = 8\n"
        "[workload]\ncollective = 'all_reduce'\nsize_bytes = 512\n", encoding="utf-8"
    )
    assert main(["sim", str(file), "-o", str(tmp_path)]) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith(f"foldwire: {file}:9: switch.lanes: must be 4 without a format of ")


def test_the_driver_refuses_what_it_cannot_run():
    parts = assembled("fp16")
    with pytest.raises(ValueError, match=r"^format must be WORDS for RTL among models"):
        run_engines(*parts, levels=["rtl"] * 4 + ["cycles"])
    with pytest.raises(ValueError, match=r"^format must be WORDS for cycle models"):
        run_engines(*parts, levels="cycles")


# ---- The golden model.


def test_bfloat16_is_that_of_ml_dtypes():
    rng = np.random.default_rng(2)
    words = rng.integers(0, 1 << 32, 200_000, np.uint32)
    ties = np.arange(1 << 16, dtype=np.uint32) << 16 | 0x8000
    values = np.concatenate([words, ties, ties - 1, ties + 1]).view(np.float32)
    with np.errstate(invalid="ignore"):
        right = values.astype(ml_dtypes.bfloat16).view(np.uint16)
    right = np.where(np.isnan(values), 0x7FC0, right).astype(np.uint16)

    assert packed(Format.BF16, values) == right.tobytes()
    every = np.arange(1 << 16, dtype=np.uint16)
    wide = every.view(ml_dtypes.bfloat16).astype(np.float32)
    found = unpacked(Format.BF16, every.tobytes())
    assert np.array_equal(found, wide, equal_nan=True)
    assert np.array_equal(np.signbit(found), np.signbit(wide) & ~np.isnan(wide))


@pytest.mark.full
def test_the_page_shows_times_of_runs():
    """The description that is there, and its times in every format and width."""
    text = PAGE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (\d+) \| ([\d.]+) \| (\d+) \|$", text, re.MULTILINE)
    assert len(rows) >= 3
    for format, lanes, micros, sent in rows:
        document = {
            "topology": {"kind": "switch", "shape": [4], "latency_s": 6.4e-9,
                         "router_latency_s": 0.0},
            "endpoint": {"kind": "in_switch"},
            "switch": {"preset": "8-port", "level": "rtl", "format": format, "lanes": int(lanes)},
            "workload": {"collective": "all_reduce", "size_bytes": 131072},
            "run": {"passes": 1},
        }
        done = run(document)
        assert done.data.exact
        assert (f"{1e6 * done.time_s:.2f}", f"{done.record.link_bytes[0]}") == (micros, sent)
