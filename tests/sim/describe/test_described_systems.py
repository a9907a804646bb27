# SPDX-License-Identifier: Apache-2.0
"""Descriptions of training systems: every key arrives, a wrong one is refused with its place."""

import re

import pytest

from sim.describe.build import build
from sim.describe.reader import ConfigError
from sim.describe.system import describe, parse, read
from sim.endpoint.ace import AceEndpoint
from sim.run import run
from sim.workload.graph import CollectiveKind

GOOD = """# a small torus
[topology]
kind = "hierarchical_torus"
shape = [2, 2, 4]
efficiency = 0.9

[[dimension]]
bandwidth_bytes_per_s = 100e9
lanes = 2

[[dimension]]
latency_s = 1e-6

[endpoint]
kind = "ace"
fsms = 8
[endpoint.bus]
latency_s = 5e-8

[algorithm]
style = "enhanced"

[scheduler]
policy = "fifo"
splits = 8
injection_policy = "aggressive"

[workload]
collective = "all_reduce"
size_bytes = 1048576

[[scenario.node]]
node = 3
slowdown = 1.5

[[scenario.link]]
source = 0
target = 1
bandwidth_factor = 0.5

[run]
passes = 1
bucket_s = 1e-6
"""

COLLECTIVE = {"collective": "all_reduce", "size_bytes": 1000}
RING = {"kind": "ring", "shape": [8]}
LINK = {"size": 4, "bandwidth_bytes_per_s": 1e9}


def described(text=GOOD):
    return parse(text, source="s.toml")


def test_every_section_arrives():
    found = described()

    sizes = [each.size for each in found.dimensions]
    assert sizes == [2, 2, 4]
    assert [each.bandwidth_bytes_per_s for each in found.dimensions] == [100e9, 25e9, 25e9]
    assert [each.lanes for each in found.dimensions] == [2, 1, 1]
    assert found.dimensions[1].latency_s == 1e-6
    assert {each.efficiency for each in found.dimensions} == {0.9}
    assert isinstance(found.endpoint, AceEndpoint)
    assert (found.endpoint.fsms, found.endpoint.bus.latency_s) == (8, 5e-8)
    assert found.endpoint.bus.bytes_per_s == 500e9
    assert found.algorithms[CollectiveKind.ALL_REDUCE].style == "enhanced"
    assert (found.scheduler.policy, found.scheduler.splits) == ("fifo", 8)
    assert (found.scheduler.concurrency, found.scheduler.threshold) == (32, 64)
    assert (found.run.passes, found.run.bucket_s) == (1, 1e-6)


def test_described_system_becomes_arguments_of_the_simulator():
    system = build(described())

    assert system.network.nodes == 16
    assert [fault.ends for fault in system.network.faults] == [[(0, 1), (1, 0)]]
    assert system.options["stragglers"] == {3: 1.5}
    assert system.options["spans"] == 0
    calls = [task.call for task in system.job.graphs[0].tasks]
    assert [call.size_bytes for call in calls] == [1 << 20]


def test_dictionary_is_the_same_as_its_file(tmp_path):
    import tomllib

    path = tmp_path / "s.toml"
    path.write_text(GOOD)

    assert run(path).metrics == run(tomllib.loads(GOOD)).metrics
    assert read(path) == describe(tomllib.loads(GOOD))


def test_dimensions_alone_make_a_topology():
    text = """
[[dimension]]
kind = "switch"
size = 4
bandwidth_bytes_per_s = 10e9
[[dimension]]
kind = "fully_connected"
size = 3
bandwidth_bytes_per_s = 5e9
[workload]
shipped = "resnet50"
"""
    assert [each.size for each in described(text).dimensions] == [4, 3]


@pytest.mark.parametrize(
    ("kind", "shape", "kinds"),
    [
        ("ring", [5], ["ring"]),
        ("torus", [3, 4, 5, 2], ["ring"] * 4),
        ("hierarchical_torus", [2, 3, 4], ["ring"] * 3),
        ("switch", [6], ["switch"]),
        ("hierarchical_all_to_all", [2, 4], ["ring", "switch"]),
        ("fully_connected", [6], ["fully_connected"]),
        ("dgx2", [16], ["fat_tree"]),
        ("fat_tree", [32], ["fat_tree"]),
    ],
)
def test_named_topologies_run(kind, shape, kinds):
    result = run(
        {
            "topology": {"kind": kind, "shape": shape},
            "workload": {"collective": "all_reduce", "size_bytes": 100_000},
        }
    )

    dimensions = result.description.dimensions
    assert [each.kind.value for each in dimensions] == kinds
    assert [each.size for each in dimensions] == shape
    assert result.metrics["time_s"] > 1e-6
    assert result.metrics["sent_bytes"] > 100_000


def test_one_dimension_makes_collectives_see_all_nodes_as_one_ring():
    config = {
        "topology": {"kind": "torus", "shape": [4, 4]},
        "workload": {"collective": "all_reduce", "size_bytes": 1 << 20},
        "algorithm": {"style": "baseline"},
        "run": {"passes": 1},
    }
    flat = {**config, "topology": {**config["topology"], "one_dimension": True}}

    ring, torus = run(flat), run(config)

    assert ring.system.network.shape == (16,)
    # Sent per node: 2 * 3/4 of the data in each of two dimensions, or 2 * 15/16 round one ring, in
    # which one node of four needs a second hop to get to the next row.
    assert torus.metrics["sent_bytes"] == pytest.approx(2 * (1 << 20) * 2 * 3 / 4, rel=1e-3)
    expected = 2 * (1 << 20) * 15 / 16 * 5 / 4
    assert ring.metrics["sent_bytes"] == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[endpoint]", "[endpont]", "s.toml:14: endpont: unknown key; did you mean 'endpoint'?"),
        ("hierarchical_", "hier_", "s.toml:3: topology.kind: must be one of ring, torus,"),
        ("[2, 2, 4]", "[2, 4]", "s.toml:4: topology.shape: must be a list of positive sizes for"),
        ("[2, 2, 4]", "[2, 0, 4]", "s.toml:4: topology.shape: must be a list of positive sizes"),
        ("[2, 2, 4]", "4", "s.toml:4: topology.shape: must be a list of integers, not 4"),
        ("shape =", "nodes = 9\nshape =", "s.toml:4: topology.nodes: must be the product of the "),
        ("lanes = 2", "lanes = 0", "s.toml:9: dimension[0].lanes: must be at least 1, not 0"),
        ("lanes = 2", "lane = 2", "s.toml:9: dimension[0].lane: unknown key; did you mean 'lanes"),
        ("1e-6\n\n[end", "-1\n\n[end", "s.toml:12: dimension[1].latency_s: must be at least 0, no"),
        ('"ace"', '"acme"', "s.toml:15: endpoint.kind: must be one of ideal, "),
        (
            '"ace"',
            '"ace:rtl"',
            "s.toml:15: endpoint.kind: must be one of ideal, ",
        ),
        ("fsms = 8", "fsms = 0", "s.toml:16: endpoint.fsms: must be above 0, not 0"),
        ("fsms", "fsm", "s.toml:16: endpoint.fsm: unknown key; did you mean 'fsms'? allowed: kind"),
        ("latency_s = 5e-8", "lag_s = 1", "s.toml:18: endpoint.bus.lag_s: unknown key; "),
        ('"enhanced"', '"best"', "s.toml:21: algorithm.style: must be one of baseline, enhanced,"),
        ('"fifo"', '"random"', "s.toml:24: scheduler.policy: must be one of lifo, fifo, not 'ra"),
        ("splits = 8", "splits = 0", "s.toml:25: scheduler.splits: must be at least 1 or None"),
        ("splits = 8", "concurrency = 8", "s.toml:25: scheduler.concurrency: must be absent besid"),
        ('"aggressive"', '"rude"', "s.toml:26: scheduler.injection_policy: must be one of normal"),
        (
            "collective =",
            'file = "a"\ncollective =',
            "s.toml:30: workload.collective: must be absent beside file",
        ),
        ("slowdown = 1.5", "slowdown = 0", "s.toml:34: scenario.node[0].slowdown: must be above 0"),
        ("slowdown", "factor", "s.toml:34: scenario.node[0].factor: unknown key; "),
        ("factor = 0.5", "factor = 2", "s.toml:39: scenario.link[0].bandwidth_factor: must be fro"),
        ("passes = 1", "passes = 0", "s.toml:42: run.passes: must be from 1 to 10000, not 0"),
        ("passes = 1", 'fold = "yes"', "s.toml:42: run.fold: must be one of auto, on, off, not 'y"),
        ("bucket_s = 1e-6", "bucket_s = 0", "s.toml:43: run.bucket_s: must be above 0, not 0.0"),
    ],
)
def test_errors_name_file_line_key_value_and_what_is_allowed(old, new, message):
    assert GOOD.count(old) == 1
    with pytest.raises(ConfigError, match="^" + re.escape(message)):
        described(GOOD.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("node = 3", "node = 16", "s.toml:33: scenario.node[0].node: must be from 0 to 15 and sta"),
        ("target = 1", "target = 7", "s.toml:36: scenario.link[0]: there is no link from 0 to 7"),
        ("all_reduce", "all_red", "s.toml:29: workload.collective: must be one of all_reduce, "),
        (
            "size_bytes = 1048576",
            "size_bytes = -1",
            "s.toml:30: workload.size_bytes: must be at le",
        ),
        ("size_bytes = 1048576", "dimensions = [0]", "s.toml:28: workload.size_bytes: is missing"),
        (
            "size_bytes = 1048576",
            "size_bytes = 8\ndimensions = [3]",
            "s.toml:31: workload.dimensions: must be from 0 to 2, not 3",
        ),
        (
            'style = "enhanced"',
            'reductions = ["ring"]',
            "s.toml:21: algorithm.reductions: must name 3 algorithms, one per logical dimension",
        ),
        ('"aggressive"', '"normal"\nsplit = 3', "s.toml:27: scheduler.split: unknown key; did you"),
    ],
)
def test_parts_that_do_not_fit_are_refused_with_their_place(old, new, message):
    assert GOOD.count(old) == 1
    with pytest.raises(ConfigError, match="^" + re.escape(message)):
        build(described(GOOD.replace(old, new)))


@pytest.mark.parametrize(
    ("workload", "message"),
    [
        ({}, "w: workload: must state what runs, by one of file, shipped, generator, collective"),
        ({"shipped": "vgg"}, "w: workload.shipped: must be one of resnet50, dlrm, "),
        ({"generator": "vgg"}, "w: workload.generator: must be one of resnet50, gnmt, dlrm"),
        ({"shipped": "resnet50", "passes": 3}, "w: workload.passes: unknown key; "),
        ({"shipped": "resnet50", "compute_scale": -1}, "w: workload.compute_scale: must be posit"),
        ({"shipped": "resnet50", "compute": {}}, "w: workload.compute: must be absent where the"),
        ({"generator": "mlp", "sizes": [3, "x"]}, "w: workload.sizes: must be a list of integers"),
        ({"generator": "mlp", "batch": 0}, "w: workload.batch: must be a whole number of at least"),
        ({"generator": "dlrm", "preset": "big"}, "w: workload.preset: of model 'dlrm' must be one"),
        ({"generator": "mlp", "compute": {"kind": "cpu"}}, "w: workload.compute.kind: must be one"),
        ({"generator": "mlp", "compute": {"rows": 3}}, "w: workload.compute.rows: unknown key;"),
        (
            {"generator": "mlp", "compute": {"efficiency": 2}},
            "w: workload.compute.efficiency: must be above 0 and at most 1, not 2",
        ),
        ({"generator": "mlp", "side": {"units": 1}}, "w: workload.side"),
        ({"file": "absent.txt"}, "w: workload: absent.txt: cannot be read: "),
        ({"file": "absent.et"}, "w: workload: absent.et: 4 NPUs need"),
    ],
)
def test_wrong_workloads_are_refused(workload, message):
    config = {"topology": {"kind": "ring", "shape": [4]}, "workload": workload}
    with pytest.raises(ValueError, match="^" + re.escape(message)):
        run(config, source="w")


def test_packets_arrive_and_slow_the_network_down():
    config = {"topology": {"kind": "torus", "shape": [4, 4]}, "workload": COLLECTIVE}
    network = {"granularity": "packet", "packet_bytes": [64, 128], "flit_bytes": 64}
    starved = {**network, "vcs_per_vnet": 1, "buffers_per_vc": 2}

    whole, cut, slow = (
        run({**config, "workload": {**COLLECTIVE, "size_bytes": 1 << 18}, **more})
        for more in ({}, {"network": network}, {"network": starved})
    )

    assert cut.description.network.packets.packet_bytes == (64, 128)
    assert whole.metrics["time_s"] * (1 - 1e-6) < cut.metrics["time_s"] < slow.metrics["time_s"]
    waits = [slow.links[name] for name in ("credit_wait_percent", "busy_percent")]
    assert max(waits[0]) > 50 and all(wait + busy <= 100 for wait, busy in zip(*waits))
    assert "credits limit: " in slow.summary.note and "credits" not in cut.summary.note


@pytest.mark.parametrize(
    ("network", "message"),
    [
        ({"granularity": "flit"}, "n: network.granularity: must be one of message, packet, not"),
        (
            {"flit_bytes": 64},
            'n: network.flit_bytes: must be absent unless granularity is "packet"',
        ),
        ({"granularity": "packet", "flits": 64}, "n: network.flits: unknown key; did you mean"),
        ({"granularity": "packet", "vcs_per_vnet": 0}, "n: network.vcs_per_vnet: must be at least"),
        ({"granularity": "packet", "flit_bytes": 1.5}, "n: network.flit_bytes: must be an integer"),
        (
            {"granularity": "packet", "packet_bytes": [64, 64, 64]},
            "n: network.packet_bytes: must be one value or one for each of 2 dimensions, not 3",
        ),
    ],
)
def test_wrong_networks_are_refused(network, message):
    config = {"topology": {"kind": "torus", "shape": [2, 2]}, "workload": COLLECTIVE}
    with pytest.raises(ConfigError, match="^" + re.escape(message)):
        run({**config, "network": network}, source="n")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"topology": 3}, "c: topology: must be a table, [topology], not 3"),
        ({"dimension": 3}, "c: dimension: must be tables, [[dimension]], not 3"),
        ({"workload": {"shipped": "resnet50"}}, "c: topology: must have a kind or a machine, or"),
        ({"topology": {"shape": [4]}}, "c: topology.shape: must be absent without kind, not (4,)"),
        ({"topology": {"kind": "torus"}}, "c: topology.shape: must be given for torus"),
        ({"topology": {"kind": "dgx2", "shape": [8]}}, "c: topology.shape: must be [16] for dgx2"),
        ({"dimension": [{"size": 4}]}, "c: dimension[0].kind: is missing"),
        (
            {"dimension": [{**LINK, "kind": "bus"}]},
            "c: dimension[0].kind: must be one of ring, switch,",
        ),
        (
            {"dimension": [{**LINK, "kind": [1]}]},
            "c: dimension[0].kind: must be one of ring, switch,",
        ),
        (
            {"topology": {"kind": "ring", "shape": [4]}, "dimension": [{}, {}]},
            "c: dimension[1]: must be at most 1 tables, one per dimension",
        ),
        (
            {
                "topology": {
                    "kind": "ring",
                    "shape": [4],
                    "one_dimension": True,
                    "logical_shape": [4],
                }
            },
            "c: topology.logical_shape: must be absent beside one_dimension",
        ),
        (
            {"topology": {"kind": "ring", "shape": [4], "bandwidth_bytes_per_s": 0}},
            "c: topology.bandwidth_bytes_per_s: must be above 0, not 0",
        ),
    ],
)
def test_wrong_topologies_are_refused(config, message):
    with pytest.raises(ConfigError, match="^" + re.escape(message)):
        run(config, source="c")


def test_topology_that_cannot_fold_is_refused_where_folding_is_asked_for():
    config = {
        "topology": {"kind": "ring", "shape": [4]},
        "workload": {"shipped": "resnet50"},
        "scenario": {"node": [{"node": 1, "slowdown": 2}]},
        "run": {"fold": "on"},
    }
    with pytest.raises(ConfigError, match="c: the system cannot be folded: some nodes are slower"):
        run(config, source="c")


def test_wrong_placement_and_logical_shape_are_refused():
    for key, value, message in (
        ("placement", [0, 0, 1, 2], "topology.placement: must be a permutation of 0 to 3"),
        ("logical_shape", [3], "topology.logical_shape: must multiply to the 4 nodes"),
    ):
        config = {
            "topology": {"kind": "ring", "shape": [4], key: value},
            "workload": {"collective": "all_reduce", "size_bytes": 8},
        }
        with pytest.raises(ConfigError, match=message):
            run(config, source="c")


def test_error_in_the_second_table_of_an_array_names_its_line():
    text = "[[dimension]]\nsize = 2\n[[dimension]]\n# the second\nsize = 0\n"
    text = text.replace("size", 'kind = "ring"\nbandwidth_bytes_per_s = 1e9\nsize')
    with pytest.raises(ConfigError, match=r"^s.toml:9: dimension\[1\].size: must be at least 1"):
        described(f"{text}[workload]\nshipped = 'resnet50'\n")


def test_text_workload_computes_longer_where_the_endpoint_takes_cores():
    def compute_s(kind):
        config = {
            "topology": {"kind": "torus", "shape": [2, 2]},
            "endpoint": {"kind": kind},
            "workload": {"shipped": "resnet50"},
        }
        return run(config).metrics["compute_s"]

    # Six cores of eighty; times are cut to whole cycles, layer by layer.
    assert compute_s("baseline_comm_opt") / compute_s("ideal") == pytest.approx(80 / 74, rel=1e-3)
    assert compute_s("ace") == compute_s("ideal")


def test_side_thread_takes_the_embedding_off_the_critical_path():
    def compute_s(**more):
        config = {
            "topology": {"kind": "torus", "shape": [2, 2]},
            "workload": {"generator": "dlrm", "preset": "libra", **more},
        }
        return run(config).metrics["compute_s"]

    assert compute_s(side={"units": 1, "memory_bytes_per_s": 80e9}) < compute_s()


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"topology": {"kind": "torus", "shape": [10**5, 10**5]}}, "topology.shape: must multiply"),
        (
            {"topology": {"kind": "fully_connected", "shape": [10**5]}},
            "topology: must have at most",
        ),
        ({"dimension": [{"lanes": 10**9}]}, "dimension[0].lanes: must be at most 4096, not 10"),
        ({"topology": {**RING, "latency_s": 1e9}}, "topology.latency_s: must be at most 9000 s, n"),
        ({"topology": {**RING, "latency_s": 8e3}}, "workload: must be done within 9000 s of simu"),
        ({"topology": {**RING, "bandwidth_bytes_per_s": 1e-9}}, "workload: must be done within"),
        ({"topology": {**RING, "latency_s": float("inf")}}, "topology.latency_s: must be a number"),
        ({"topology": {**RING, "efficiency": float("nan")}}, "topology.efficiency: must be a num"),
        ({"workload": {**COLLECTIVE, "size_bytes": 10**15}}, "workload: must be done within 9000"),
        (
            {"workload": {**COLLECTIVE, "size_bytes": 10**15}, "scheduler": {"chunk_bytes": 4096}},
            "scheduler.chunk_bytes: must cut the collectives into at most",
        ),
        ({"workload": {**COLLECTIVE, "size_bytes": 10**30}}, "workload.size_bytes: must be an int"),
        (
            {"workload": {**COLLECTIVE, "size_bytes": 10**12}, "scheduler": {"splits": 10**9}},
            "scheduler.splits: must cut the collectives into at most",
        ),
        ({"run": {"passes": 10**9}}, "run.passes: must be from 1 to 10000, not 1000000000"),
        ({"run": {"most_spans": 10**12}}, "run.most_spans: must be from 1 to 100000000"),
        ({"run": {"buckets": 10**12}}, "run.buckets: must be from 1 to 1000000"),
        ({"scenario": {"node": [{"node": 0, "slowdown": 1e30}]}}, "scenario.node[0].slowdown: mus"),
    ],
)
def test_gigantic_numbers_are_refused_at_once(config, message):
    whole = {"topology": RING, "workload": COLLECTIVE, **config}
    with pytest.raises(ConfigError, match="^g: " + re.escape(message)):
        run(whole, source="g")
