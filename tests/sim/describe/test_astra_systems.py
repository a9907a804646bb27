# SPDX-License-Identifier: Apache-2.0
"""The table [astra]: files and parameters become a system, contradictions are refused."""

import json
import re
from importlib.resources import files

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.describe.astra_analytical import read_analytical
from sim.describe.build import build
from sim.describe.reader import ConfigError
from sim.describe.system import describe, parse
from sim.endpoint.kinds import KINDS, BaselineEndpoint
from sim.run import run
from sim.workload.graph import CollectiveKind

DATA = files("sim") / "workload/data/astra-sim-1.0"
SYSTEM = """scheduling-policy: FIFO
endpoint-delay: 20
preferred-dataset-splits: 32
active-chunks-per-dimension: 12
all-reduce-implementation: ring_direct
all-to-all-implementation: ring_ring
collective-optimization: localBWAware
boost-mode: 1
"""
NETWORK = """num-npus: 24
num-packages: 6
package-rows: 1
topology: NV_Switch
local-rings: 3
links-per-tile: 5
tile-link-width: 800
package-link-width: 80
local-link-latency: 7
package-link-latency: 70
router-latency: 2
local-link-efficiency: 0.5
package-link-efficiency: 0.25
"""
ANALYTICAL = {
    "topology-name": "Hierarchical",
    "topologies-per-dim": ["Ring", "FullyConnected", "Switch"],
    "dimension-type": ["T", "N", "P"],
    "dimensions-count": 3,
    "units-count": [4, 3, 2],
    "links-count": [2, 4, 3],
    "link-latency": [1, 10, 100],
    "link-bandwidth": [100, 50, 25],
    "router-latency": [0, 0, 5],
    "hbm-latency": [500, 500, 500],
    "hbm-scale": [0, 0, 0],
}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "sys.txt").write_text(SYSTEM)
    (tmp_path / "net.txt").write_text(NETWORK)
    (tmp_path / "net.json").write_text(json.dumps(ANALYTICAL, indent=1))
    (tmp_path / "w.txt").write_text((DATA / "microAllReduce.txt").read_text())
    return tmp_path


def described(folder, text):
    return parse(text, source="s.toml", folder=folder)


FILES = '[astra]\nsystem = "sys.txt"\nnetwork = "net.txt"\nDNN-name = "w"\n'


def test_files_become_a_system(folder):
    found = described(folder, FILES)

    local, switches = found.dimensions
    assert (local.kind.value, local.size, local.lanes, local.bidirectional) == ("ring", 4, 3, False)
    assert (switches.kind.value, switches.size, switches.lanes) == ("switch", 6, 5)
    assert (local.bandwidth_bytes_per_s, switches.bandwidth_bytes_per_s) == (100e9, 10e9)
    assert (local.latency_s, switches.latency_s) == pytest.approx((7e-9, 70e-9))
    assert (local.router_latency_s, switches.router_latency_s) == (2e-9, 2e-9)
    assert (local.efficiency, switches.efficiency) == (0.5, 0.25)
    assert found.endpoint.delay_s == pytest.approx(20e-9)
    assert (found.scheduler.policy, found.scheduler.splits) == ("fifo", 32)
    # Twelve active chunks on three rings of the first dimension.
    assert (found.scheduler.concurrency, found.scheduler.threshold) == (4, None)
    assert (found.scheduler.least_chunk_bytes, found.run.fold) == (1024, "auto")
    choice = found.algorithms[CollectiveKind.ALL_REDUCE]
    assert (choice.style, choice.reductions) == ("dimension_ordered", ("ring", "direct"))
    assert choice.all_to_all == "relay"
    assert found.algorithms[CollectiveKind.ALL_GATHER].reductions is None
    assert build(found).network.nodes == 24


def test_parameters_of_packets_make_a_network_of_packets(folder):
    found = described(folder, f"{FILES}flit-width = 256\nlocal-packet-size = 96\n").network

    assert found.granularity == "packet"
    assert (found.packets.flit_bytes, found.packets.packet_bytes) == (32, (96, 256))
    assert (found.packets.vcs_per_vnet, found.packets.buffers_per_vc) == (50, 5000)
    # Links of 800 bits take a flit of 256 in less than a cycle, those of 80 in whole ones.
    assert found.packets.link_width_bits == (1, 80)
    assert described(folder, FILES).network.granularity == "message"


def test_packets_of_an_analytical_network_have_a_size_for_each_dimension(folder):
    text = '[astra]\nnetwork = "net.json"\nDNN-name = "w"\npackage-packet-size = 64\n'

    assert described(folder, text).network.packets.packet_bytes == (512, 64, 64)


def test_clock_turns_cycles_into_seconds(folder):
    found = described(folder, f"{FILES}clock_hz = 2e9\n")

    assert found.dimensions[0].latency_s == pytest.approx(3.5e-9)
    assert found.dimensions[0].bandwidth_bytes_per_s == pytest.approx(200e9)
    assert found.endpoint.delay_s == pytest.approx(10e-9)


def test_torus_has_its_dimensions_in_the_order_of_the_phases():
    astra = {"num-npus": 24, "num-packages": 12, "package-rows": 3, "vertical-rings": 5}
    found = describe({"astra": astra, "workload": {"shipped": "resnet50"}})

    local, vertical, horizontal = found.dimensions
    assert (local.size, vertical.size, horizontal.size) == (2, 3, 4)
    assert (local.bidirectional, vertical.bidirectional) == (False, True)
    assert (local.lanes, vertical.lanes, horizontal.lanes) == (2, 5, 2)
    # Defaults of Table IV: 200 GB/s and 25 GB/s.
    assert local.bandwidth_bytes_per_s == pytest.approx(200e9)
    assert horizontal.bandwidth_bytes_per_s == pytest.approx(25e9)


def test_other_tables_replace_defaults_but_not_what_was_stated(folder):
    found = described(folder, f"{FILES}[run]\npasses = 3\n[scheduler]\nqueues = 'dimension'\n")
    assert (found.run.passes, found.scheduler.queues) == (3, "dimension")

    message = r"sys.txt:3: preferred-dataset-splits: is given twice; also at s.toml:6 \(sched"
    with pytest.raises(ConfigError, match=message):
        described(folder, f"{FILES}[scheduler]\nsplits = 3\n")


def test_analytical_network_is_read(folder):
    text = '[astra]\nnetwork = "net.json"\nDNN-name = "w"\n'

    ring, full, switch = described(folder, text).dimensions

    assert [each.size for each in (ring, full, switch)] == [4, 3, 2]
    assert (ring.lanes, ring.bidirectional) == (1, True)
    assert (full.lanes, switch.lanes) == (2, 3)
    assert ring.bandwidth_bytes_per_s == 100 * 2**30
    assert (full.latency_s, switch.router_latency_s) == pytest.approx((10e-9, 5e-9))


@pytest.mark.parametrize(
    ("size", "links", "expected"),
    [
        (2, 1, {"lanes": 1, "bidirectional": True, "single_link": True}),
        (2, 2, {"lanes": 1, "bidirectional": True, "single_link": False}),
        (4, 1, {"lanes": 1, "bidirectional": False, "single_link": False}),
        (4, 6, {"lanes": 3, "bidirectional": True, "single_link": False}),
    ],
)
def test_links_of_an_analytical_ring_are_its_directions(tmp_path, size, links, expected):
    path = tmp_path / "n.json"
    changes = {"topologies-per-dim": ["Ring"], "dimensions-count": 1, "units-count": [size]}
    changes |= {"links-count": [links], "link-latency": [1], "link-bandwidth": [1]}
    path.write_text(json.dumps(changes))

    (found,), _ = read_analytical(path)

    assert {key: found[key] for key in expected} == expected


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("units-count", [4, 3], "net.json:14: units-count: must be a list of 3 positive integers"),
        ("units-count", [4, 3, 0], "units-count: must be a list of 3 positive integers"),
        ("link-latency", [1, -1, 1], "link-latency: must be a list of 3 numbers of at least 0"),
        ("link-bandwidth", [1, 0, 1], "link-bandwidth: must be above 0, not 0"),
        ("link-bandwidth", [1, True, 1], "link-bandwidth: must be a list of 3 numbers"),
        (
            "topologies-per-dim",
            ["Ring", "Mesh", "Ring"],
            "topologies-per-dim: must be of Ring, Swi",
        ),
        ("dimension-type", ["T", "X", "P"], "dimension-type: must be of T, N, P, not 'X'"),
        ("links-count", [2, 3, 1], "links-count: must be a multiple of 2, the other members"),
        ("nic-latency", [0, 1, 0], "nic-latency: must be 0 (its model belongs into [endpoint])"),
        ("hbm-scale", [1, 1, 1], "hbm-scale: must be 0 (its model belongs into [endpoint])"),
        ("dimensions-count", 0, "dimensions-count: must be from 1 to 16, not 0"),
        ("topology-name", "Flat", "topology-name: must be 'Hierarchical', not 'Flat'"),
        ("link-width", [1], "link-width: unknown key; did you mean 'link-bandwidth'?"),
    ],
)
def test_wrong_analytical_networks_are_refused(folder, key, value, message):
    path = folder / "net.json"
    path.write_text(json.dumps({**ANALYTICAL, key: value}, indent=1))

    with pytest.raises(ConfigError, match=re.escape(message)):
        read_analytical(path)


@pytest.mark.parametrize("text", ["", "{", "[1]", "{}", '{"a": NaN}', "[" * 100_000])
def test_files_that_are_no_network_are_refused(tmp_path, text):
    path = tmp_path / "n.json"
    path.write_text(text)

    with pytest.raises(ConfigError, match=r"^\S*n.json"):
        read_analytical(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[astra]\nsystem = 3\n", "s.toml:2: astra.system: must be a text, not 3"),
        ('[astra]\nsystem = "no.txt"\n', "no.txt: cannot be read: No such file"),
        ("[astra]\nclock_hz = 0\n", "s.toml:2: astra.clock_hz: must be above 0, not 0.0"),
        ("[astra]\nnum-npu = 4\n", "s.toml:2: num-npu: unknown key; did you mean 'num-npus'?"),
        ("[astra]\nnum-npus = 1\n", "s.toml:2: astra.num-npus: must be at least 2, not 1"),
        ("[astra]\nnum-npus = 8\n", "s.toml: workload: must state what runs, by one of file, "),
        (
            '[astra]\nnetwork = "net.json"\nnum-npus = 23\nDNN-name = "w"\n',
            "s.toml:3: astra.num-npus: must be the product of the dimensions, 4 x 3 x 2 = 24, n",
        ),
        (
            '[astra]\nnetwork = "net.json"\nlocal-rings = 2\nDNN-name = "w"\n',
            "s.toml:3: astra.local-rings: must be absent: keys of links have no effect beside a",
        ),
        (
            '[astra]\nlocal-rings = 2\nDNN-name = "w"\n[topology]\nkind = "ring"\nshape = [4]\n',
            "s.toml:2: astra.local-rings: must be absent: keys of links have no effect without",
        ),
        (
            f'{FILES}[workload]\nfile = "w.txt"\n',
            "s.toml:4: astra.DNN-name: is given twice; also at s.toml:6 (workload.file",
        ),
        (
            f"{FILES}injection-policy = 'normal'\n",
            "s.toml:5: astra.injection-policy: must be absent where active-chunks-per-dimension",
        ),
        (
            f"{FILES}all-gather-implementation = 'oneRing'\n",
            "s.toml:5: astra.all-gather-implementation: one... must stand for all collectives",
        ),
        (
            f"{FILES}routing-algorithm = 'Ring_XY'\n",
            "s.toml:5: astra.routing-algorithm: must be the one",
        ),
        (
            f"{FILES}L = 50\n",
            "s.toml:5: astra.L: must be absent for endpoint ideal, which has no bus",
        ),
        (
            f"{FILES}[endpoint]\nkind = 'ace'\n",
            "sys.txt:2: endpoint-delay: must be absent for endpoint ace, which has delays of its",
        ),
    ],
)
def test_contradictions_are_refused_with_their_place(folder, text, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        described(folder, text)


def test_loggp_keys_set_the_bus_of_an_endpoint():
    astra = {"num-npus": 8, "L": 50, "o": 20, "g": 30, "G": 0.002, "model-shared-bus": 1}
    found = describe(
        {
            "astra": astra,
            "endpoint": {"kind": "baseline", "bus": {}},
            "workload": {"shipped": "resnet50"},
        }
    ).endpoint

    assert isinstance(found, BaselineEndpoint)
    assert found.bus.latency_s == pytest.approx(50e-9)
    assert (found.bus.overhead_s, found.bus.gap_s) == pytest.approx((20e-9, 30e-9))
    assert found.bus.bytes_per_s == pytest.approx(500e9)
    assert found.memory_bytes_per_s == KINDS["baseline"].memory_bytes_per_s  # as before


def test_one_ring_sees_all_nodes_as_one_dimension():
    names = ("all-reduce", "reduce-scatter", "all-gather", "all-to-all")
    one = {f"{name}-implementation": "oneRing" for name in names}
    config = {
        "astra": {"num-npus": 8, "num-packages": 4, "package-rows": 2, **one},
        "workload": {"collective": "all_reduce", "size_bytes": 1 << 16},
    }

    result = run(config)

    assert result.system.network.shape == (8,)
    assert result.record.phases.names[0] == ["ready queue", "ring all-reduce dim 0"]


def test_tree_beside_ring_halves_runs_as_all_reduce_of_the_last_dimension():
    """The released sample of three dimensions: what a tree cannot do is done as stated for it."""
    files_of = {key: str(DATA / name) for key, name in (
        ("system", "system/sample_3dim_sys.txt"),
        ("network", "network/analytical_sample_Torus3D.json"),
    )}
    made = run({"astra": files_of, "workload": {"collective": "all_reduce", "size_bytes": 1 << 16}})

    names = made.record.phases.names[0]
    assert [name for name in names if "tree" in name] == ["tree all-reduce dim 2"]
    assert [name.split()[0] for name in names].count("ring") == 4


def test_boost_mode_folds_where_it_can_and_says_where_not(folder):
    """Halving-doubling is not the same pattern seen from every node."""
    system = SYSTEM.replace("ring_direct", "ring_halvingDoubling")
    (folder / "sys.txt").write_text(system)
    (folder / "net.txt").write_text(NETWORK.replace("24", "16").replace("s: 6", "s: 4"))
    made = run(describe_file(folder))

    assert not made.record.folded and "not folded: " in made.summary.note
    with pytest.raises(ConfigError, match="cannot be folded"):
        run(describe_file(folder, "[run]\nfold = 'on'\n"))


def describe_file(folder, more=""):
    return described(folder, FILES + more)


def test_implementation_needs_an_algorithm_for_every_dimension(folder):
    text = FILES.replace("net.txt", "net.json")
    message = "sys.txt:5: all-reduce-implementation: must name 3 algorithms, one per logical dim"
    with pytest.raises(ConfigError, match=re.escape(message)):
        build(described(folder, text))


KEYS = st.sampled_from([line.split(":")[0] for line in (SYSTEM + NETWORK).splitlines()])
VALUES = st.one_of(st.integers(-2, 300).map(str), st.text(max_size=8), st.floats().map(str))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(KEYS, st.sampled_from([":", "=", " "]), VALUES), max_size=8))
def test_any_text_is_a_system_or_refused_in_words(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("any") / "any.txt"
    path.write_text("\n".join(f"{key}{sign}{value}" for key, sign, value in rows), "utf-8")
    config = {
        "astra": {"network": str(path)},
        "topology": {"kind": "torus", "shape": [2, 2]},
        "workload": {"shipped": "resnet50"},
    }
    try:
        describe(config)
    except ConfigError as error:
        assert str(path) in str(error) or str(error).startswith("system: ")
