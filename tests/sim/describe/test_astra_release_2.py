# SPDX-License-Identifier: Apache-2.0
"""ASTRA-sim 2.x: its files are read, and what it does otherwise is switched on by name."""

import json
import re

import pytest

from bench._reference import record_and_job
from bench._release_2 import cases
from sim.collectives.plan import plan_collective
from sim.describe.build import build
from sim.describe.reader import ConfigError
from sim.describe.system import parse
from sim.results.breakdown import break_down
from sim.run import run
from sim.workload.chakra import NodeType, Trace, TraceNode
from sim.workload.chakra_file import write_trace
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
    assert choice.gather_backwards
    assert (found.scheduler.queues, found.scheduler.collectives) == ("dimension", "one")
    assert found.network.packet_routing == "hardware"
    assert found.endpoint.delay_s == pytest.approx(9e-9) and found.endpoint.message_bytes is None
    other = described(folder, TEXT + "[scheduler]\ncollectives = 'all'\n")
    assert (other.scheduler.collectives, other.scheduler.queues) == ("all", "dimension")


@pytest.mark.parametrize("names", [("system",), ("network",), ("system", "network")])
def test_a_file_of_2_is_enough(folder, names):
    """Formats that 1.0 does not have say which release is meant."""
    files = {"system": "sys.json", "network": "net.yml"}
    own = "".join(f'{name} = "{files[name]}"\n' for name in names)
    rest = TEXT.split("[workload]")[1]
    if "network" not in names:
        own += "num-npus = 8\ntopology = 'Torus2D'\n"
    found = described(folder, f"[astra]\n{own}[workload]{rest}")
    stated = described(folder, f"[astra]\nrelease = 2\n{own}[workload]{rest}")

    assert found.scheduler == stated.scheduler and found.scheduler.collectives == "one"
    assert found.algorithms == stated.algorithms
    with pytest.raises(ConfigError) as refused:
        described(folder, f"[astra]\n{own}release = 1\n[workload]{rest}")
    line = 2 + own.count("\n")
    name = names[0]
    assert str(refused.value) == (
        f"s.toml:{line}: astra.release: must be 2 or absent beside {name} = {files[name]!r}, "
        f"a file of 2.x ({files[name][3:]}), not 1"
    )


def test_text_files_are_of_1(folder):
    (folder / "sys.txt").write_text("scheduling-policy: LIFO\n")
    text = (
        "[astra]\nsystem = 'sys.txt'\nnum-npus = 8\nrelease = %d\n"
        "[workload]\ncollective = 'all_reduce'\nsize_bytes = 1024\n"
    )

    assert described(folder, text % 1).scheduler.collectives == "all"
    with pytest.raises(ConfigError) as refused:
        described(folder, text % 2)
    assert str(refused.value) == (
        "s.toml:4: astra.release: must be 1 or absent beside system = 'sys.txt', a file of 1.0 "
        "(text), not 2"
    )
    with pytest.raises(ConfigError) as refused:
        described(folder, text.replace("num-npus = 8", "network = 'net.yml'") % 1)
    assert str(refused.value) == (
        "s.toml:3: astra.network: must be of the release of system = 'sys.txt', 1.0 (text), not "
        "'net.yml', a format of 2.x"
    )


@pytest.mark.parametrize("stated", [True, False], ids=["stated", "by format"])
def test_time_of_a_ring_is_the_one_that_it_prints(folder, stated):
    """ASTRA-sim 2.x prints 64440 ns for 1 MiB on eight NPUs, with 4 splits, 1 active; with or
    without congestion."""
    if not stated:
        (folder / "s.toml").write_text(TEXT.replace("release = 2\n", ""))
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
    assert [round(1e9 * each) for each in times] == [64404] * 2


def test_roofline_of_a_system_times_the_operations_of_traces(folder):
    """10^12 operations on 10^9 bytes: 1.6e12 B/s take 0.625 ms; 900 TFLOPS a ninth of that more."""
    own = {**SYSTEM, "roofline-enabled": 1, "track-local-mem": 1, "local-mem-trace-filename": "m"}
    (folder / "sys.json").write_text(json.dumps(own))
    for operations, seconds in ((10**11, 1e9 / 1.6e12), (10**12, 1e12 / 900e12)):
        work = {"num_ops": operations, "tensor_size": 10**9}
        node = TraceNode(id=0, name="c", type=NodeType.COMP_NODE, duration_us=5, attributes=work)
        write_trace(folder / "work.et", Trace(nodes=(node,)))
        (folder / "s.toml").write_text(TEXT.split("[workload]")[0] + '[workload]\nfile="work.et"\n')
        assert run(folder / "s.toml").time_s == pytest.approx(seconds, rel=1e-9)
    (folder / "sys.json").write_text(json.dumps(SYSTEM))
    assert run(folder / "s.toml").time_s == pytest.approx(5e-6)


@pytest.mark.parametrize(
    ("change", "workload", "message"),
    [
        ({"peak-perf": None}, 'file = "w.et"', "sys.json:25: peak-perf: is missing: the roofline"),
        ({"local-mem-bw": None}, 'file = "w.et"', "local-mem-bw: is missing: the roofline is on"),
        ({}, 'shipped = "resnet50"', "roofline-enabled: must be 0, not 1: the workload states"),
    ],
)
def test_roofline_needs_both_rates_and_operations(folder, change, workload, message):
    own = {**SYSTEM, "roofline-enabled": 1} | change
    (folder / "sys.json").write_text(
        json.dumps({key: value for key, value in own.items() if value is not None}, indent=1)
    )
    with pytest.raises(ConfigError, match=re.escape(message)):
        described(folder, TEXT.split("[workload]")[0] + f"[workload]\n{workload}\n")


def test_algorithms_named_by_dimension_go_for_the_parts_that_groups_make_of_it(folder):
    """Groups of four on a ring of eight: one algorithm is named, those of groups use it."""
    (folder / "net.yml").write_text(
        "topology: [Ring]\nnpus_count: [8]\nbandwidth: [50]\nlatency: [500]\n"
    )
    own = {key: ["direct"] if type(value) is list else value for key, value in SYSTEM.items()}
    (folder / "sys.json").write_text(json.dumps(own))
    (folder / "groups.json").write_text(json.dumps({"1": [0, 1, 2, 3], "2": [4, 5, 6, 7]}))
    for npu in range(8):
        call = {"comm_type": 0, "comm_size": 1 << 20, "pg_name": str(1 + npu // 4)}
        node = TraceNode(id=0, name="c", type=NodeType.COMM_COLL_NODE, attributes=call)
        write_trace(folder / f"work.{npu}.et", Trace(nodes=(node,)))
    text = TEXT.split("[workload]")[0] + '[workload]\nfile="work"\ngroups="groups.json"\n'
    system = build(described(folder, text))

    assert system.network.shape == (4, 2)
    choice = system.algorithms[CollectiveKind.ALL_REDUCE]
    view, inside = system.network.view((0,))
    (variant, *_) = plan_collective(view, CollectiveKind.ALL_REDUCE, choice, inside).variants
    assert choice.reductions == ("direct",)
    assert {phase.name for phase in variant.phases} == {"direct all-reduce dim 0 (4 of 8)"}


@pytest.mark.parametrize("case", [*cases()], ids=lambda case: case.name)
def test_printed_times_are_predicted_within_two_percent(case, tmp_path):
    """Run time and exposed communication of every run of ASTRA-sim 2.x that is stored."""
    record, job = record_and_job(case.write(tmp_path))
    exposed_ns = float(break_down(record, job).mean_fs[1]) / 1e6
    errors = (record.end_fs / 1e6 / case.run_ns - 1, exposed_ns / case.exposed_ns - 1)

    assert (max(map(abs, errors)) > 0.02) == (case.excuse is not None), errors


def test_examples_of_a_checkout_are_named_in_place_of_files_with_their_values(tmp_path):
    case = next(cases())
    description = case.write(tmp_path, tmp_path / "theirs")
    named = [description["astra"][key] for key in ("system", "network")]
    named.append(description["workload"]["file"])

    assert [name.removeprefix(f"{tmp_path}/theirs/") for name in named] == [
        "examples/system/native_collectives/Ring_4chunks.json",
        "examples/network/analytical/Ring_4npus.yml",
        "examples/workload/microbenchmarks/all_reduce/4npus_1MB/all_reduce",
    ]
    with pytest.raises(ConfigError, match=r"Ring_4chunks\.json"):
        record_and_job(description)


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
        ("sys.json", '"roofline-enabled": 0', '"roofline-enabled": 2', "roofline-enabled: must be"),
        ("sys.json", '"peak-perf": 900', '"peak-perf": 0', "sys.json:26: peak-perf: must be above"),
        ("sys.json", '"boost-mode": 0', '"replay-only": 1', "replay-only: must be 0, not 1"),
        ("sys.json", "boost-mode", "bost-mode", "bost-mode: unknown key; did you mean 'boost-mo"),
        ("s.toml", "= 2", "= 3", "s.toml:2: astra.release: must be 1 or 2, not 3"),
    ],
)
def test_mistakes_are_named(folder, name, old, new, message):
    path = folder / name
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(ConfigError, match=re.escape(message)):
        described(folder, (folder / "s.toml").read_text())
