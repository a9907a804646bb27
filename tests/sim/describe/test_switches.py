# SPDX-License-Identifier: Apache-2.0
"""Switches that reduce in descriptions: presets, levels, the fabric, and what is refused."""

import re
from pathlib import Path

import numpy as np
import pytest

from hw.link.packet import FLIT_BYTES
from sim.cycles.switch.fabric import Fabric
from sim.cycles.switch.hosts import COMMAND_CYCLES, SwitchHosts
from sim.cycles.switch.model import AllReduceJob, SwitchModel, SwitchSettings
from sim.describe.build import build
from sim.describe.reader import ConfigError
from sim.describe.system import parse
from sim.engines.run import engine_group
from sim.hosts.command import Command
from sim.hosts.script import Compute, Issue, Reached
from sim.hosts.surroundings import Surroundings
from sim.run import run

EXAMPLE = Path(__file__).resolve().parents[3] / "examples/in_switch_cycles.toml"
RATE = 25e9  # of a link
GOOD = """[topology]
kind = "fat_tree"
shape = [8]

[[dimension]]
group = 4
lanes = 2
bandwidth_bytes_per_s = 25e9
trunk_bandwidth_bytes_per_s = 50e9
latency_s = 6.4e-9
router_latency_s = 32e-9

[endpoint]
kind = "in_switch"
level = "cycles"
waves = 8

[switch]
preset = "8-port"
entries = 2
timeout_cycles = 500

[memory]
read_latency_s = 12.8e-9
stall_probability = 0.1

[workload]
collective = "all_reduce"
size_bytes = 20000

[run]
passes = 1
seed = 5
"""


def described(level, size_bytes=1 << 16, *, shape=(4,), switch=None, endpoint=None, **topology):
    return {
        "topology": {
            "kind": "switch", "shape": list(shape), "bandwidth_bytes_per_s": RATE,
            "latency_s": 6.4e-9, **topology,
        },
        "endpoint": {"kind": "in_switch", **(endpoint or {})},
        "switch": {"preset": "8-port", "level": level, **(switch or {})},
        "workload": {"collective": "all_reduce", "size_bytes": size_bytes},
        "run": {"passes": 1},
    }


def ring_of(text):
    description = parse(text, source="s.toml")
    return description, engine_group(description, build(description))


def test_every_value_arrives():
    description, ring = ring_of(GOOD)
    system, settings = ring.config.system, ring.settings

    assert (description.level, system.mode, system.clock_hz) == ("cycles", "push", 25e9 / 16)
    assert (system.switch.entries, system.timeout_cycles, system.dma.waves) == (2, 500, 8)
    # What both ends of a link are built for follows from the switch.
    assert system.dma.links == 2 and system.dma.credits == system.switch.buffer_packets
    assert (settings.nodes, settings.latency_cycles, settings.read_latency_cycles) == (8, 10, 20)
    assert (settings.memory_stalls, settings.seed) == (0.1, 5)
    # 50 cycles in a switch, 19 of which are its own.
    assert ring.config.router_cycles == 50 - 9 - 10
    assert ring.config.fabric == Fabric.spines(8, leaf=4, cables=2, ports=8, planes=2)


def test_values_that_are_not_those_of_presets():
    text = GOOD.replace("entries = 2", "clock_hz = 1e9\nacknowledged = true\nbuffer_packets = 5\n"
                        "payload_flits = 4\nalu_stages = 2\nendpoints = 200", 1)
    text = text.replace("25e9", "16e9").replace("50e9", "32e9").replace("6.4e-9", "7e-9")
    text = text.replace("read_latency_s", "write_latency_s = 3e-9\nread_latency_s")
    _, ring = ring_of(text)
    system, settings = ring.config.system, ring.settings

    assert (system.clock_hz, system.acknowledged) == (1e9, True)
    dma = system.dma
    assert (dma.payload_flits, dma.alu_stages, dma.endpoints) == (4, 2, 200)
    # Credits are what the other end has room for.
    assert (dma.credits, dma.buffer_packets) == (5, system.switch.credits) != (5, 5)
    assert (settings.latency_cycles, settings.write_latency_cycles) == (7, 3)
    assert settings.read_latency_cycles == 13
    assert ring.config.router_cycles == 32 - 5 - 10


@pytest.mark.parametrize("stated, period", [("", 4000), ("timeout_bits = 9", 511)])
def test_what_follows_where_nothing_is_stated(stated, period):
    text = GOOD.replace('preset = "8-port"\nentries = 2\ntimeout_cycles = 500', stated)
    _, ring = ring_of(text)

    assert ring.config.system.switch.ports == 16
    assert ring.config.system.timeout_cycles == period


@pytest.mark.parametrize(
    "latency_s, stated, least, most",
    [(6.4e-9, "", 4000, 4000), (2e-6, "", 20_000, 65_535), (1e-3, "", 65_535, 65_535),
     (2e-6, "timeout_bits = 9", 511, 511), (2e-6, "timeout_cycles = 4000", 4000, 4000)],
)
def test_time_outs_of_pulls_follow_the_latencies(latency_s, stated, least, most):
    text = GOOD.replace("entries = 2\ntimeout_cycles = 500", f'mode = "pull"\n{stated}')
    text = text.replace("preset = \"8-port\"", 'preset = "16-port"')
    _, ring = ring_of(text.replace("latency_s = 6.4e-9", f"latency_s = {latency_s}"))

    assert ring.config.system.mode == "pull"
    assert least <= ring.config.system.timeout_cycles <= most


@pytest.mark.parametrize("compute_ns", [0, 150_000])
def test_ordinary_packets_beside_jobs(tmp_path, compute_ns):
    """While hosts compute, too, for longer than a reduction may stand still."""
    layer = f"a -1 {compute_ns} NONE 0 1 NONE 0 1 ALLREDUCE {1 << 18} 1\n"
    path = tmp_path / "one.txt"
    path.write_text(f"DATA\n1\n{layer}")
    base = described("cycles", shape=(4,)) | {"workload": {"file": str(path)}}
    alone, again, beside = (
        run(base | {"switch": {**base["switch"], "background": {"load": load, "kind": "store"}}})
        if load is not None else run(base)
        for load in (None, 0.0, 0.3)  # with 0.4, columns of the crossbar are full beside operands
    )
    assert alone.time_s == again.time_s < beside.time_s
    assert not {"ordinary", "ordinary_travel"} & (alone.metrics.keys() | again.metrics.keys())
    offered = 0.3 * 4 * beside.time_s * 25e9 / 144
    assert beside.metrics["ordinary"] == pytest.approx(offered, rel=0.05)
    # Two links, a switch, and two packets' flits at least.
    least = 2 * 10 + 2 * 9
    assert least < beside.metrics["ordinary_travel"] < 1000


@pytest.mark.parametrize("level", ["events", "cycles"])
def test_acknowledgements_take_their_share_of_links(level):
    bare, full = (
        run(described(level, 1 << 18, switch={"acknowledged": each})) for each in (False, True)
    )
    assert full.time_s / bare.time_s == pytest.approx(10 / 9, rel=0.02)


@pytest.mark.parametrize("fabric, built", [
    (Fabric.dgx_2(), {"kind": "dgx2"}),
    (Fabric.fat_tree(128), {"kind": "fat_tree", "shape": [128]}),
    (Fabric.fat_tree(64), {"kind": "fat_tree", "shape": [64]}),
    (Fabric.flat(16, planes=3), {"kind": "switch", "shape": [16], "lanes": 3}),
    (Fabric.two_levels(8, leaf=4),
     {"kind": "fat_tree", "shape": [8], "group": 4, "lanes": 1,
      "trunk_bandwidth_bytes_per_s": 25e9}),
], ids=["dgx2", "128", "64", "flat", "two levels"])
def test_fabrics_are_those_of_the_cycle_model(fabric, built):
    own = {key: built.pop(key) for key in list(built) if key not in ("kind", "shape")}
    lines = ["[topology]", *(f"{key} = {value!r}" for key, value in built.items())]
    lines += ["[[dimension]]", "bandwidth_bytes_per_s = 25e9",
              *(f"{key} = {value!r}" for key, value in own.items())]
    lines += ["[endpoint]", "kind = 'in_switch'", "[switch]", "level = 'cycles'", "regions = 8",
              "endpoints = 128", "[workload]", "collective = 'all_reduce'", "size_bytes = 4096"]
    _, ring = ring_of("\n".join(lines))

    made = ring.config.fabric
    assert (made.places, sorted(made.cables)) == (fabric.places, sorted(fabric.cables))
    assert made.routes == fabric.routes and [*map(list, made.homes)] == [*map(list, fabric.homes)]
    assert [[list(ports) for ports in tree] for tree in made.trees] == [
        [list(ports) for ports in tree] for tree in fabric.trees
    ]


def test_a_run_takes_the_cycles_of_the_model():
    done = run(described("cycles"))
    system = done.description.engine.config
    model = SwitchModel(
        system.switch, system.dma, Fabric.flat(4),
        SwitchSettings(latency_cycles=10, timeout_cycles=4000, read_latency_cycles=50,
                     write_latency_cycles=4),
        [AllReduceJob(elements=1 << 14, destination=1 << 16)], [[COMMAND_CYCLES]] * 4,
    )
    model.run()

    # And until a poll of the host finds it.
    ends = [each[-1] for each in done.engines.steps]
    late = np.array(ends) - model.completions()[:, 0]
    assert ((late > 0) & (late < 18)).all()
    assert done.time_s == pytest.approx((max(ends) + 1) * 16 / RATE)


@pytest.mark.parametrize("topology", [{}, {"kind": "dgx2", "latency_s": 0.0}], ids=["flat", "dgx2"])
def test_levels_have_one_type_of_result_and_the_same_bytes(topology):
    switch = {"preset": "16-port", "regions": 8}
    shape = {"shape": [16]}
    runs = [
        run(described(level, 1 << 18, switch=switch, **shape, **topology))
        for level in ("events", "cycles")
    ]
    events, cycles = runs

    assert {type(each) for each in runs} == {type(cycles)}
    assert events.tables.keys() == cycles.tables.keys()
    assert events.time_s == pytest.approx(cycles.time_s, rel=0.05)
    assert 0 < cycles.limits.rows[0][-1] <= 100
    # The vector and a contract once on every link of an endpoint, and nothing else. Cycle models
    # count headers, too.
    planes = runs[0].network.dimensions[0].lanes
    packets = (1 << 18) // 128 + planes
    assert len(cycles.record.links) == len(events.record.links)
    for link, sent, vector in zip(
        cycles.record.links, cycles.record.link_bytes, events.record.link_bytes, strict=True
    ):
        # Of links between two groups: operands of eight that have their home on the other side,
        # and the results of those.
        trunk = link.source >= 16 and link.target >= 16
        copies = (8 + 1) / 2 if trunk else 1
        few = 30 if trunk else 1
        if trunk and not vector:
            continue  # of two pairs of links one is in use
        assert sent // (9 * FLIT_BYTES) == pytest.approx(copies * packets / planes, abs=few), link
        assert vector == pytest.approx(copies * 2**18 / planes, rel=0.01)
    busy = cycles.record.link_busy_fs / cycles.record.end_fs
    assert busy.max() == pytest.approx(packets / planes * 9 * 16 / RATE / cycles.time_s, rel=0.02)
    assert busy.max() <= 1
    if not topology:
        assert events.record.link_busy_fs.max() == pytest.approx(
            cycles.record.link_busy_fs.max(), rel=0.02
        )


def test_events_know_of_operands_that_are_read_ahead_and_of_links_between_switches():
    slow = {"memory": {"read_latency_s": 240e-9}}
    two = {"topology": {"kind": "fat_tree", "shape": [8], "bandwidth_bytes_per_s": RATE,
                        "latency_s": 6.4e-9},
           "dimension": [{"group": 4, "lanes": 1, "router_latency_s": 0.0}]}
    for tables in (slow, two):
        events, cycles = (
            run({**described(level, 1 << 17), **tables}) for level in ("events", "cycles")
        )
        assert events.time_s == pytest.approx(cycles.time_s, rel=0.07)


JOB = """DATA
2
front -1 3000 NONE 0 2000 NONE 0 2500 ALLREDUCE 4096 300
back -1 1000 NONE 0 1500 NONE 0 500 ALLREDUCE 1024 0
"""


def training(tmp_path, level, **switch):
    (tmp_path / "job.txt").write_text(JOB)
    return {**described(level, switch=switch), "workload": {"file": str(tmp_path / "job.txt")}}


def test_counters_of_tables_are_in_the_result(tmp_path):
    late = {"scenario": {"node": [{"node": 2, "slowdown": 1.5}]}}
    done = run({**training(tmp_path, "cycles", entries=2, timeout_cycles=200), **late})

    assert done.metrics["evicted"] > 0 and done.metrics["expired"] > 0
    assert done.metrics["partials"] > 0
    assert "entries evicted" in str(done.summary)
    quiet = run(described("cycles", switch={"entries": 32}))
    assert quiet.metrics["evicted"] == quiet.metrics["partials"] == 0
    done.save(tmp_path / "saved", name="run")
    assert (tmp_path / "saved/links.svg").exists()


def test_partials_that_are_multicast_are_added_by_all_members(tmp_path):
    late = {"scenario": {"node": [{"node": 2, "slowdown": 1.5}]}}
    for multicast, adders in ((False, 1), (True, 4)):
        described = training(tmp_path, "cycles", entries=2, timeout_cycles=200,
                             multicast_partials=multicast)
        metrics = run({**described, **late}).metrics
        assert metrics["partials"] == adders * (metrics["evicted"] + metrics["expired"]) > 0


def test_training_runs_and_hosts_wait_for_their_collectives(tmp_path):
    cycles, events = (run(training(tmp_path, level)) for level in ("cycles", "events"))

    assert cycles.metrics["compute_s"] == pytest.approx(events.metrics["compute_s"], rel=1e-3)
    assert cycles.time_s == pytest.approx(events.time_s, rel=0.1)
    assert cycles.metrics["exposed_s"] > 0


def hosts(scripts, commands=2):
    _, ring = ring_of(GOOD)
    made = [Command(elements=900, destination=1 << 16) for _ in range(commands)]
    return SwitchHosts(ring.config, Surroundings(nodes=8), made, scripts)


def test_time_that_nobody_uses_is_skipped_and_changes_nothing():
    first = [Issue(command=0), Reached(count=1)]
    plain = hosts([[*first, Compute(cycles=10), Issue(command=1), Reached(count=2)]] * 8)
    late = hosts([[*first, Compute(cycles=10**9), Issue(command=1), Reached(count=2)]] * 8)
    took = [model.run() for model in (plain, late)]

    ends = [model.steps(3) for model in (plain, late)]
    # The begin differs within a period of the time-out only.
    assert (np.diff(ends[0])[[0, 2, 3]] == pytest.approx(np.diff(ends[1])[[0, 2, 3]], abs=20))
    assert ends[1][2] - ends[0][2] == 10**9 - 10
    assert took[1] < took[0] + 1


def test_polls_find_a_completion_at_most_a_period_late():
    model = hosts([[Issue(command=0), Reached(count=1)]] * 8, commands=1)
    model.run()

    late = np.array([model.steps(rank)[1] for rank in range(8)]) - model.completions()[:, 0]
    assert (0 <= late).all() and (late <= 18).all()
    assert model.steps(0)[0] == 17 and model.done


def test_hosts_of_which_one_never_starts_are_found():
    scripts = [[Issue(command=0), Reached(count=1)]] * 7 + [[Compute(cycles=1)]]
    with pytest.raises(RuntimeError, match=r"^nothing moves before cycle "):
        hosts(scripts, commands=1).run()


def test_the_command_line_says_kind_and_level():
    plain = described("events")
    del plain["switch"]["level"]

    assert run(plain, endpoint="in_switch:cycles").level == "cycles"
    assert run(plain).level == "events"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"8-port"', '"9-port"', "s.toml:19: switch.preset: must be one of test, 8-port, 16-port,"),
        ('"cycles"', '"gates"', "s.toml:15: endpoint.level: must be one of events, cycles, rtl"),
        ('"cycles"', '"rtl"', "s.toml:1: topology: at level 'rtl', must have at most 4 switches,"),
        ("entries", 'level = "gates"\nentries', "s.toml:20: switch.level: must be one of events, "),
        ("entries", 'level = "events"\nentries', "s.toml:20: switch.level: must be 'cycles' as en"),
        ("entries = 2", "on = 3", "s.toml:20: switch.on: must be tables, [[switch.on]], not 3"),
        ("entries = 2", "speedup = 1", "s.toml:20: switch.speedup: at level 'cycles', must be 2, "),
        ("entries = 2", "half = true", "s.toml:20: switch.half: at level 'cycles', must be fals"),
        ("[memory]", "[[switch.on]]\nswitches = [6]\nlevel = 'rtl'\n[memory]",
         "s.toml:24: switch.on[0].switches: must be from 0 to 5, the switches of the topology, no"),
        ("[memory]", "[[switch.on]]\nswitches = [1, 1]\nlevel = 'rtl'\n[memory]",
         "s.toml:24: switch.on[0].switches: must be different switches, from 0 on, not 1 twice"),
        ("[memory]", "[[switch.on]]\nswitches = [-1]\nlevel = 'rtl'\n[memory]",
         "s.toml:24: switch.on[0].switches: must be different switches, from 0 on, not -1"),
        ("[memory]", "[[switch.on]]\nswitches = []\nlevel = 'rtl'\n[memory]",
         "s.toml:24: switch.on[0].switches: must be at least one switch, not []"),
        ("[memory]", "[[switch.on]]\nswitches = [1]\n[memory]",
         "s.toml:23: switch.on[0].level: is missing"),
        ("[memory]", "[[switch.on]]\nswitches = [1]\nlevel = 'gates'\n[memory]",
         "s.toml:25: switch.on[0].level: must be one of events, cycles, rtl, not 'gates'"),
        ("[memory]", "[[switch.on]]\nswitches = [1]\nlevel = 'events'\n[memory]",
         "s.toml:25: switch.on[0].level: must be cycles or rtl, not 'events': events exchange no"),
        ("[memory]", "[[endpoint.on]]\nnodes = [8]\nlevel = 'rtl'\n[memory]",
         "s.toml:24: endpoint.on[0].nodes: must be different nodes from 0 to 7, not 8"),
        ("entries = 2", 'mode = "shove"', "s.toml:20: switch.mode: must be one of push, pull, not"),
        ("entries = 2", "entries = 0", "s.toml:20: switch.entries: must be an integer from 1 to 3"),
        ("entries = 2", "entires = 2", "s.toml:20: switch.entires: unknown key; did you mean 'ent"),
        ("entries = 2", "endpoints = 4", "s.toml:20: switch.endpoints: must be at least 8, the en"),
        ("entries = 2", "ports = 4", "s.toml:20: switch.ports: at level 'cycles', must be at leas"),
        ("entries = 2", "clock_hz = 1e9", "s.toml:8: dimension[0].bandwidth_bytes_per_s: must be"),
        ("entries = 2", "clock_hz = 0.0", "s.toml:20: switch.clock_hz: must be above 0 and below"),
        ("= 500", "= 0", "s.toml:21: switch.timeout_cycles: must be from 1 to 65535, what timeout"),
        ("50e9", "40e9", "s.toml:9: dimension[0].trunk_bandwidth_bytes_per_s: must be from 1 to 4"),
        ("entries = 2", "regions = 1", "s.toml:20: switch.regions: at level 'cycles', must be at"),
        ("waves = 8", "waves = 3", "s.toml:16: endpoint.waves: must be a power of two from 1 to 3"),
        ("waves = 8", "links = 1", "s.toml:16: endpoint.links: must have 2 links, one to each pl"),
        ("waves = 8", 'preset = "6-link"', "s.toml:16: endpoint.preset: must have 2 links, one to"),
        ("waves = 8", 'preset = "7-link"', "s.toml:16: endpoint.preset: must be one of test, 1-l"),
        ("waves = 8", "credits = 9", "s.toml:16: endpoint.credits: must be at most 8, as the swit"),
        ("waves = 8", "endpoints = 4", "s.toml:16: endpoint.endpoints: must be at least 16, as th"),
        ("waves = 8", "buffer_packets = 2", "s.toml:16: endpoint.buffer_packets: must be at least"),
        ("waves = 8", "payload_flits = 16", "s.toml:16: endpoint.payload_flits: must be 8, as the"),
        ("waves = 8", "alu_stages = 0", "s.toml:16: endpoint.alu_stages: must be 3, as the switch"),
        ("waves = 8", "multicast_partials = true",
         "s.toml:16: endpoint.multicast_partials: must be false, as the switches have"),
        ("entries = 2", "multicast_partials = 1", "s.toml:20: switch.multicast_partials: must be"),
        ("waves = 8", "wave_bytes = 9", "s.toml:16: endpoint.wave_bytes: has no meaning at level"),
        ("waves = 8", "overlaps = true", "s.toml:16: endpoint.overlaps: has no meaning at level"),
        ("lanes = 2", "lanes = 7", "s.toml:7: dimension[0].lanes: must be from 1 to 6, the links"),
        ('"in_switch"', '"ideal"', "s.toml:18: switch: must be absent beside endpoint.kind = 'ide"),
        ('kind = "fat_tree"', 'kind = "ring"\n', "s.toml:12: endpoint.kind: must not be 'in_swit"),
        ("[memory]", "[network]\nstall_probability = 0.1\n[memory]",
         "s.toml:24: network.stall_probability: at level 'cycles', must be 0: links of switches"),
    ],
)
def test_errors_name_file_line_key_value_and_what_is_allowed(old, new, message):
    assert old in GOOD
    text = GOOD.replace(old, new, 1)
    if '"ring"' in new:
        text = re.sub(r"(group|lanes|trunk\w+) = .*\n", "", text)
    with pytest.raises(ConfigError, match="^" + re.escape(message)) as error:
        ring_of(text)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"workload": {"collective": "all_gather", "size_bytes": 4096}},
         "collective must be all_reduce: at levels 'cycles' and 'rtl' switches do no all_gather"),
        ({"workload": {"collective": "all_to_all", "size_bytes": 4096}}, "not all_to_all"),
        ({"topology": {"machine": "dgx-h100"}}, "switch: must be absent on dgx-h100, of whose"),
        ({"topology": {"kind": "hierarchical_all_to_all", "shape": [2, 4], "latency_s": 0.0},
          "dimension": [{}, {"lanes": 1, "bandwidth_bytes_per_s": RATE}]},
         "topology: at level 'cycles', must have one dimension, a switch or a fat_tree, not ring"),
        ({"topology": {"kind": "switch", "shape": [12], "bandwidth_bytes_per_s": RATE}},
         "switch.ports: at level 'cycles', must be at least 12, for 12 endpoints at a switch, not"),
        ({"topology": {"kind": "fat_tree", "shape": [36], "latency_s": 0.0},
          "dimension": [{"group": 4, "lanes": 1, "bandwidth_bytes_per_s": RATE}],
          "switch": {"preset": "8-port", "level": "cycles", "endpoints": 64}},
         "switch.ports: at level 'cycles', must be at least 9, for 9 leaves at a switch, not 8"),
        ({"switch": {"level": "events", "on": [{"switches": [0], "level": "rtl"}]}},
         "switch.on[0].level: must be absent at endpoint.level = 'events', not 'rtl'"),
        ({"endpoint": {"kind": "in_switch", "level": "events"},
          "switch": {"preset": "8-port", "level": "events", "multicast_partials": True}},
         "switch.multicast_partials: has no meaning at level 'events', only at cycles and rtl"),
        ({"endpoint": {"kind": "in_switch", "level": "events"},
          "switch": {"preset": "8-port", "level": "events", "speedup": 1}},
         "switch.speedup: at level 'events', must be 2, not 1: only RTL has it"),
        ({"endpoint": {"kind": "in_switch", "level": "events"},
          "switch": {"preset": "8-port", "level": "events", "half": True}},
         "switch.half: at level 'events', must be false, not true: only RTL has it"),
        ({"endpoint": {"kind": "in_switch", "level": "events", "bfp": True},
          "switch": {"preset": "8-port", "level": "events"}},
         "endpoint.bfp: at level 'events', must be false, not true: only RTL has it"),
        ({"switch": {"level": "cycles", "age_bits": 8}},
         "switch.age_bits: at level 'cycles', must be 0, or from 9 on, to tell the blocks that"),
        ({"switch": {"level": "events", "background": {"load": 0.1}}},
         "switch.background: has no meaning at level 'events', only at cycles"),
        ({"switch": {"level": "rtl", "preset": "8-port", "background": {"load": 0.1}}},
         "switch.background: has no meaning at level 'rtl', only at cycles"),
        ({"switch": {"level": "cycles", "preset": "8-port", "background": {"load": 0.1},
                     "on": [{"switches": [0], "level": "rtl"}]}},
         "switch.background: has no meaning at level 'rtl', only at cycles"),
        ({"switch": {"level": "cycles", "preset": "8-port", "acknowledged": True,
                     "on": [{"switches": [0], "level": "rtl"}]}},
         "switch.acknowledged: has no meaning at level 'rtl', only at events and cycles"),
        ({"switch": {"level": "cycles", "background": {"load": 1.5}}},
         "switch.background.load: must be from 0 to 1, not 1.5"),
        ({"switch": {"level": "cycles", "background": {"load": 0.5, "seed": -1}}},
         "switch.background.seed: must be a whole number from 0 to 2^63 - 1, not -1"),
        ({"switch": {"level": "cycles", "background": {"kind": "store"}}},
         "switch.background.load: is missing"),
        ({"scheduler": {"splits": 2}}, "scheduler.splits: has no meaning at level 'cycles'"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(tables, message):
    with pytest.raises(ConfigError) as error:
        run({**described("cycles"), **tables})
    assert message in str(error.value) and "\n" not in str(error.value)


def test_the_example_of_128_endpoints_has_144_switches():
    path = EXAMPLE.with_name("in_switch_128.toml")
    _, ring = ring_of(path.read_text("utf-8"))

    assert len(ring.nodes) == 128 and ring.config.fabric.switches == 144
    assert "foldwire sim examples/in_switch_128.toml" in path.read_text("utf-8")


@pytest.mark.parametrize("mode", ["push", "pull"])
def test_both_modes_run_at_both_levels(mode):
    events, cycles = (
        run(described(level, switch={"mode": mode})) for level in ("events", "cycles")
    )
    assert {events.description.engine.config.mode, cycles.provenance["config"]["mode"]} == {mode}
    assert (cycles.record.counts["loads"] > 0) == (mode == "pull")


def test_the_example_runs_at_both_levels():
    cycles, events = run(EXAMPLE), run(EXAMPLE, endpoint="in_switch:events")

    assert (cycles.level, cycles.metrics["nodes"]) == ("cycles", 16)
    assert events.time_s == pytest.approx(cycles.time_s, rel=0.05)
    assert "foldwire sim examples/in_switch_cycles.toml" in EXAMPLE.read_text("utf-8")


def test_operands_come_to_all_tables_in_one_order():
    """With operands that pass one another, 17 000 of those sums leave small tables early."""
    done = run(
        {
            "topology": {"kind": "dgx2"},
            "endpoint": {
                "kind": "in_switch", "read_ahead": 64, "outstanding_bursts": 64, "waves": 32,
            },
            "switch": {
                "preset": "16-port", "regions": 8, "mode": "push", "level": "cycles",
                "buffer_packets": 40, "credits": 40, "entries": 4,
            },
            "workload": {"collective": "all_reduce", "size_bytes": 1 << 20},
            "run": {"passes": 1},
        }
    )

    assert done.metrics["evicted"] == done.metrics["expired"] == 0


def test_links_of_rtl_are_no_longer_than_what_a_recount_of_credits_waits_for():
    long = GOOD.replace("6.4e-9", "0.01", 1).replace("50e9", "25e9").replace("32e-9", "0.0")
    assert ring_of(long)[1].settings.latency_cycles == 15_625_000

    with pytest.raises(ConfigError, match=r"n\[0\].latency_s: must be at most 1900 cycles w"):
        ring_of(long.replace("[memory]", "[[endpoint.on]]\nnodes = [1]\nlevel = 'rtl'\n[memory]"))
