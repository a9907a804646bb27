# SPDX-License-Identifier: Apache-2.0
"""Topologies of links: as tables and files, equal to what has a name, within their bounds."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.topologies import CASES, as_links
from sim.describe.reader import ConfigError
from sim.run import run

WORK = '\n[workload]\ncollective = "all_reduce"\nsize_bytes = 4096\n'
STAR = '[topology]\nkind = "links"\n[[topology.link]]\nsource = [0, 1, 2, 3]\ntarget = "hub"\n'
KINDS = ["all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast"]


def described(tmp_path, text, **files):
    for name, content in files.items():
        (tmp_path / f"{name}.csv").write_text(content)
    path = tmp_path / "system.toml"
    path.write_text(text + WORK)
    return path


def listed(links, **topology):
    return {
        "topology": {
            "kind": "links", **topology,
            "link": [{"source": a, "target": b} for a, b in links],
        },
    }


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_links_take_the_time_of_the_same_by_name(case):
    workload = case.workloads[0]
    if "size_bytes" in workload:
        workload = {**workload, "size_bytes": 1 << 16}
    named = {"run": {"passes": 1}, **case.tables, **case.more, "workload": workload}
    by_name, as_list = run(named), run(as_links(named))

    assert as_list.time_s == pytest.approx(by_name.time_s, rel=1e-3)
    assert as_list.metrics["messages"] == by_name.metrics["messages"] * (
        by_name.record.nodes if by_name.record.folded else 1
    )


def test_a_file_says_what_tables_say(tmp_path):
    rows = "# a star\nsource,target,bandwidth_bytes_per_s,both_ways,lanes\n"
    rows += "0,hub,1e9,,\n\n1, hub ,1e9,true,1\n2,hub,1e9,,\n3,hub,1e9,,\nhub,3,,false,\n"
    tables = STAR + "bandwidth_bytes_per_s = 1e9\n[[topology.link]]\n"
    tables += 'source = "hub"\ntarget = 3\nboth_ways = false\n'
    file = described(tmp_path, '[topology]\nkind = "links"\nfile = "star.csv"\n', star=rows)
    from_file = run(file)
    from_tables = run(described(tmp_path, tables))

    assert from_file.links.to_csv() == from_tables.links.to_csv()
    assert "switch hub" in from_file.links.to_csv()
    assert from_file.time_s == from_tables.time_s


def test_a_list_on_both_sides_joins_all_pairs_once():
    mesh = listed([([0, 1, 2, 3], [0, 1, 2, 3])])
    done = run({**mesh, "workload": {"collective": "all_to_all", "size_bytes": 4096}})

    assert len(done.record.links) == 4 * 3


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_any_collective_runs_on_any_links_no_faster_than_its_bound(data):
    members, switches = data.draw(st.integers(2, 7)), data.draw(st.integers(0, 3))
    names = [*range(members), *(f"s{each}" for each in range(switches))]
    order = data.draw(st.permutations(names))
    links = [(order[n], order[data.draw(st.integers(0, n - 1))]) for n in range(1, len(order))]
    pair = st.tuples(st.sampled_from(names), st.sampled_from(names)).filter(lambda p: p[0] != p[1])
    links += data.draw(st.lists(pair, max_size=5))
    workload = {"collective": data.draw(st.sampled_from(KINDS)), "size_bytes": 40_000}
    done = run({
        **listed(links, nodes=members), "workload": workload,
        "run": {"check": True, "data": True, "passes": 1},
    })

    assert done.limits.rows  # or the bound is refused
    assert done.data.wrong == 0


def test_a_switch_that_few_links_leave_bounds_an_all_to_all():
    tree = listed([([0, 1, 2, 3], "a"), ([4, 5, 6, 7], "b"), ("a", "b")])
    done = run({**tree, "workload": {"collective": "all_to_all", "size_bytes": 1 << 20}})
    row = dict(zip([column.name for column in done.limits.columns], done.limits.rows[-1]))

    assert row["set_by"] == "links between switches of dimension 0"
    # Half of what each of 8 nodes has crosses one link of 25 GB/s, 94 % of it payload, each way.
    assert row["bound_s"] == pytest.approx(4 * 0.5 * (1 << 20) / (0.94 * 25e9))
    assert 90 < row["mean_percent"] <= 100


def test_packets_that_could_wait_in_a_circle_are_refused():
    ring = listed([(n, (n + 1) % 5) for n in range(5)])
    packets = {
        **ring, "network": {"granularity": "packet"}, "algorithm": {"reductions": ["direct"]},
        "workload": {"collective": "all_reduce", "size_bytes": 4096},
    }

    with pytest.raises(ConfigError, match=r"granularity must be 'message' here: .* in a circle$"):
        run(packets)
    assert run({**packets, "algorithm": {}}).time_s > 0  # neighbours only: nothing is held


WRONG = [
    ('kind = "links"\n', r"toml:2: topology.kind: 'links' needs \[\[topology.link\]\] tables"),
    ('kind = "ring"\nshape = [4]\nfile = "x.csv"\n',
     r"toml:4: topology.file: is for kind = 'links' only, not 'ring'"),
    ('kind = "links"\nfile = "none.csv"\n', r"none.csv: cannot be read: No such file"),
    ('kind = "links"\nshape = [4]\nfile = "x.csv"\n', r"toml:3: topology.shape: must be absent"),
    (STAR[11:].replace("[0, 1", "[0, 1.5"), r"toml:4: topology.link\[0\].source: must be an int"),
    (STAR[11:].replace('"hub"', '"7"'), r"toml:5: .*target: must be the number of a node, or the "),
    (STAR[11:].replace('"hub"', "-4"), r"toml:5: topology.link\[0\].target: must be at least 0"),
    (STAR[11:] + "lane = 2\n", r"toml:6: topology.link\[0\].lane: unknown key; did you mean 'lane"),
    (STAR[11:] + "lanes = 0\n", r"toml:6: topology.link\[0\].lanes: must be from 1 to 4096, not 0"),
    ("nodes = 5\n" + STAR[11:], r"toml:4: .*must join all: there is no way from node 0 to node 4"),
    ("nodes = 3\n" + STAR[11:], r"toml:5: .*source: must be from 0 to 2, a node of 3, not 3"),
    (STAR[11:] + "[[dimension]]\nlanes = 2\n", r"toml:7: dimension\[0\].lanes: unknown key"),
    (STAR[11:] + '[endpoint]\nkind = "in_switch"\n', r"must not be 'in_switch' without dimensions"),
    (STAR[11:] + '[endpoint]\nkind = "ace"\nlevel = "cycles"\n', r"must be one ring, not links"),
]


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_wrong_tables_are_refused_in_a_line(tmp_path, text, message):
    with pytest.raises(ConfigError, match=message) as error:
        run(described(tmp_path, f"[topology]\n{text}"))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("0,hub\n", r"x.csv:1: 0: unknown key; allowed: source, target"),
        ("source,lanes\n", r"x.csv:1: must name the columns source and target"),
        ("source,target,source\n", r"x.csv:1: source: stands twice"),
        ("source,target\n0,hub,2\n", r"x.csv:2: must have 2 cells, as the header, not 3"),
        ("source,target,lanes\n0,hub,\n\n#\n1,hub,x\n", r"x.csv:5: lanes: must be an integer"),
        ("source,target,latency_s\n0,hub,-1\n", r"x.csv:2: latency_s: must be from 0 to 9000 s"),
        ("source,target,latency_s\n0,hub,nan\n", r"x.csv:2: latency_s: must be"),
        ("source,target,both_ways\n0,hub,no\n", r"x.csv:2: both_ways: must be true or false"),
        ("source,target\n0,0\n", r"x.csv:2: target: must be another vertex than source, not 0"),
        ("source,target\n0,\n", r"x.csv:2: target: must be the number of a node, or the name"),
        ("source,target\n0,a\n1,b\n", r"toml:3: topology.file: must join all: there is no way"),
        ("source,target\n", r"toml:3: topology.file: must have at least one link"),
    ],
)
def test_wrong_rows_of_a_file_are_refused_in_a_line(tmp_path, rows, message):
    with pytest.raises(ConfigError, match=message) as error:
        run(described(tmp_path, '[topology]\nkind = "links"\nfile = "x.csv"\n', x=rows))
    assert "\n" not in str(error.value)
