"""ASTRA-sim 2.x: its files are read, and what it does otherwise is switched on by name."""

import json
import re

import pytest

from sim.describe.reader import ConfigError
from sim.describe.system import parse
from sim.run import run
from sim.workload.graph import CollectiveKind

SYSTEM = {
    "scheduling-policy": "LIFO",
    "endpoint-delay": 10,
    "active-chunks-per-dimension": 2,
    "preferred-dataset-splits": 4,
    "all-reduce-implementation": ["ring", "ring"],
    "all-gather-implementation": ["ring", "ring"],
    "reduce-scatter-implementation": ["ring", "ring"],
    "all-to-all-implementation": ["direct", "direct"],
    "collective-optimization": "localBWAware",
    "local-mem-bw": 1600,
    "boost-mode": 0,
    "roofline-enabled": 0,
    "peak-perf": 900,
}
NETWORK = """topology: [ Ring, Switch ]  # a comment
npus_count: [ 4, 2 ]
bandwidth:            # GB/s
  - 50.0
  - 25
latency: [ 500.0, 0 ]  # ns
"""
TEXT = """[astra]
release = 2
system = "sys.json"
network = "net.yml"
[workload]
collective = "all_reduce"
size_bytes = 1048576
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "sys.json").write_text(json.dumps(SYSTEM, indent=1))
    (tmp_path / "net.yml").write_text(NETWORK)
    (tmp_path / "s.toml").write_text(TEXT)
    return tmp_path


def described(folder, text=TEXT):
    return parse(text, source="s.toml", folder=folder)


def test_system_and_network_are_read(folder):
    found = described(folder)

    ring, switch = found.dimensions
    assert (ring.kind.value, ring.size, switch.kind.value, switch.size) == ("ring", 4, "switch", 2)
    assert (ring.bandwidth_bytes_per_s, switch.bandwidth_bytes_per_s) == (50 * 2**30, 25 * 2**30)
    assert (ring.latency_s, switch.latency_s) == (pytest.approx(5e-7), 0)
    assert (found.scheduler.splits, found.scheduler.concurrency) == (4, 2)
    assert found.endpoint.sum_bytes_per_s == 1600e9


def test_release_sets_what_it_does_otherwise(folder):
    found = described(folder)
    choice = found.algorithms[CollectiveKind.ALL_REDUCE]

    assert (choice.style, choice.rings) == ("dimension_ordered", 1)
    assert choice.gather_backwards and choice.sum_on_arrival
    assert (found.scheduler.queues, found.scheduler.collectives) == ("dimension", "one")
    assert found.network.packet_routing == "hardware"
    assert found.endpoint.delay_s == pytest.approx(9e-9) and found.endpoint.message_bytes is None
    other = described(folder, TEXT + "[scheduler]\ncollectives = 'all'\n")
    assert (other.scheduler.collectives, other.scheduler.queues) == ("all", "dimension")
    assert described(folder, TEXT.replace("release = 2\n", "")).scheduler.collectives == "all"


def test_time_of_a_ring_is_the_one_that_it_prints(folder):
    """ASTRA-sim 2.x prints 64440 ns for 1 MiB on eight NPUs, with 4 splits, 1 active; with or
    without congestion."""
    (folder / "net.yml").write_text(
        "topology: [Ring]\nnpus_count: [8]\nbandwidth: [50]\nlatency: [500]\n"
    )
    own = {key: value[:1] if type(value) is list else value for key, value in SYSTEM.items()}
    (folder / "sys.json").write_text(json.dumps(own | {"active-chunks-per-dimension": 1}))
    changes = {"run.passes": 1}
    times = [
        run(folder / "s.toml", changes={**changes, "network.shared_links": shared}).time_s
        for shared in (True, False)
    ]

    assert times == pytest.approx([64440e-9] * 2, rel=0.002)


def test_groups_that_split_a_ring_may_have_rings_of_their_own():
    """Two rings of four in one of eight: as fast as one of four; else they share its links."""

    def time_s(size, **topology):
        link = {"kind": "ring", "size": size, "bandwidth_bytes_per_s": 25e9, "latency_s": 1e-7}
        return run(
            {
                "topology": topology,
                "dimension": [link],
                "workload": {"collective": "all_reduce", "size_bytes": 1 << 18, "dimensions": [0]},
                "run": {"passes": 1},
            }
        ).time_s

    alone = time_s(4)
    assert time_s(8, logical_shape=[4, 2], own_links=True) == alone
    assert time_s(8, logical_shape=[4, 2]) > 1.2 * alone
    with pytest.raises(ConfigError, match=r"topology.own_links: must be false: \[3, 4\] do not"):
        run(
            {
                "topology": {
                    "kind": "torus", "shape": [4, 3], "logical_shape": [3, 4], "own_links": True
                },
                "workload": {"collective": "all_reduce", "size_bytes": 1 << 10},
            }
        )


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("net.yml", "4, 2", "4", "net.yml:2: npus_count: must have 2 values, as many as topology"),
        ("net.yml", "4, 2", "4, x", "net.yml:2: npus_count: must be positive integers, not 'x'"),
        ("net.yml", "25", "0", "net.yml:3: bandwidth: must be numbers above 0, not '0'"),
        ("net.yml", "Switch", "Mesh", "net.yml:1: topology: must be of Ring, Switch, FullyConn"),
        ("net.yml", "latency:", "latencies:", "net.yml:6: latencies: unknown key; did you mean"),
        ("net.yml", "[ 4, 2 ]", "4", "net.yml:2: npus_count: must be a list, [value, ...], not"),
        ("net.yml", "npus_count: [ 4, 2 ]", "what", "net.yml:2: must be of the form 'key: [val"),
        ("sys.json", '"LIFO"', "LIFO", "sys.json:2: not valid JSON"),
        ("sys.json", '"LIFO"', "true", "sys.json:2: scheduling-policy: must be a text, a number"),
        ("sys.json", '"LIFO"', '"RANDOM"', "sys.json:2: scheduling-policy: must be one of LIFO, "),
        ("sys.json", '"roofline-enabled": 0', '"roofline-enabled": 1', "roofline-enabled: must be"),
        ("sys.json", "boost-mode", "bost-mode", "bost-mode: unknown key; did you mean 'boost-mo"),
        ("s.toml", "= 2", "= 3", "s.toml:2: astra.release: must be 1 or 2, not 3"),
    ],
)
def test_mistakes_are_named(folder, name, old, new, message):
    path = folder / name
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(ConfigError, match=re.escape(message)):
        described(folder, (folder / "s.toml").read_text())
