# SPDX-License-Identifier: Apache-2.0
"""``foldwire bandwidth``: rows, CSV and figure of sizes, equal to the runs; its refusals."""

import csv
from itertools import pairwise

import pytest

from foldwire import bandwidth
from foldwire.cli import main
from sim.run import run
from sim.sweep.spec import parse

SYSTEMS = {
    "ring": '[topology]\nkind = "ring"\nshape = [4]\n',
    "torus": '[topology]\nkind = "torus"\nshape = [4, 2]\n',
    "switch": '[topology]\nkind = "switch"\nshape = [8]\n[workload]\nshipped = "resnet50"\n',
    "groups": '[topology]\nkind = "torus"\nshape = [4, 2]\n[workload]\n'
    'collective = "all_to_all"\nsize_bytes = 4\ndimensions = [0]\n',
    "star": '[topology]\nkind = "links"\n[[topology.link]]\nsource = [0, 1, 2]\ntarget = "hub"\n',
    "machine": '[topology]\nmachine = "dgx-a100"\n',
    "plain": '[[dimension]]\nkind = "ring"\nsize = 4\nbandwidth_bytes_per_s = 1e9\n',
    "dgx2": '[topology]\nkind = "dgx2"\n',
    "astra": "[astra]\nnum-passes = 1\n",
    "alone": '[topology]\nkind = "ring"\nshape = [1]\n',
}


@pytest.fixture
def called(tmp_path, capsys):
    def call(name, *arguments):
        path = tmp_path / f"{name}.toml"
        path.write_text(SYSTEMS[name])
        code = main(["bandwidth", str(path), "-o", str(tmp_path), *arguments])
        captured = capsys.readouterr()
        given = {"--collective": "", "--nodes": "nodes="}
        parts = [given[key] + value for key, value in pairwise(arguments) if key in given]
        file = tmp_path / "-".join([name, "bandwidth", *parts]) / "bandwidth.csv"
        rows = list(csv.DictReader(file.read_text().splitlines())) if file.exists() else []
        return code, captured.out, captured.err, rows

    return call


@pytest.mark.parametrize(
    ("name", "collective", "ranks", "group"),
    [
        ("ring", "all_reduce", 4, None),
        ("torus", "all_gather", 8, None),
        ("switch", "reduce_scatter", 8, None),
        ("star", "broadcast", 3, None),
        ("groups", "all_to_all", 4, [0]),
    ],
)
def test_rows_are_those_of_the_runs(called, tmp_path, name, collective, ranks, group):
    arguments = [] if name == "groups" else ["--collective", collective]
    code, out, _, rows = called(name, *arguments, "--from", "6K", "--to", "1M", "--factor", "64")

    assert code == 0
    assert [float(row["size_bytes"]) for row in rows] == [6144, 6144 * 64, 1 << 20][: len(rows)]
    (figure,) = tmp_path.glob(f"{name}-bandwidth*/bandwidth.svg")
    assert figure.read_text().startswith("<?xml")
    assert {(row["collective"], row["ranks"], row["endpoint"]) for row in rows} == {
        (collective, str(ranks), "ideal:events")
    }
    for row, line in zip(rows, out.splitlines()[2:]):
        size = int(row["size_bytes"])
        own = size // ranks if collective == "all_gather" else size
        workload = {"collective": collective, "size_bytes": own}
        if group:
            workload["dimensions"] = group
        done = run({**SYSTEMS_PARSED[name], "workload": workload, "run": {"passes": 1}})
        metrics = done.metrics
        for key in ("algbw_bytes_per_s", "busbw_bytes_per_s"):
            assert float(row[key]) == pytest.approx(metrics[key], rel=1e-9)
        assert float(row["algbw_bytes_per_s"]) == pytest.approx(size / float(row["time_s"]))
        limits = dict(zip([c.name for c in done.limits.columns], done.limits.rows[-1]))
        assert float(row["bound_percent"]) == pytest.approx(limits["mean_percent"])
        count = size // 4 // (1 if collective in ("all_reduce", "broadcast") else ranks)
        assert line.split()[:2] == [str(size), str(count)]


SYSTEMS_PARSED = {
    "ring": {"topology": {"kind": "ring", "shape": [4]}},
    "torus": {"topology": {"kind": "torus", "shape": [4, 2]}},
    "switch": {"topology": {"kind": "switch", "shape": [8]}},
    "groups": {"topology": {"kind": "torus", "shape": [4, 2]}},
    "star": {"topology": {"kind": "links", "link": [{"source": [0, 1, 2], "target": "hub"}]}},
}


def test_folders_are_named_after_all_that_was_given(called, tmp_path):
    size = ["--from", "4K", "--to", "4K"]
    called("ring", *size)
    called("ring", *size, "--endpoint", "ace", "--nodes", "6", "--set", "run.passes=1",
           "--collective", "all_gather")
    saved = tmp_path / "build/ring-8"
    saved.mkdir(parents=True)
    (saved / "run.json").touch()
    (saved / "system.toml").write_text(SYSTEMS["ring"])
    assert main(["bandwidth", str(saved / "system.toml"), *size, "-o", str(tmp_path)]) == 0

    assert sorted(each.name for each in tmp_path.glob("*-bandwidth*")) == [
        "ring-8-bandwidth", "ring-bandwidth", "ring-bandwidth-all_gather-nodes=6-ace-passes=1",
    ]


def test_bus_bandwidth_of_a_large_vector_is_that_of_the_links(called):
    """25 GB/s in two directions, 94 % of it payload."""
    _, _, _, (row,) = called("ring", "--from", "64M", "--to", "64M")

    assert 0.95 < float(row["busbw_bytes_per_s"]) / (2 * 0.94 * 25e9) < 1


@pytest.mark.parametrize(
    ("name", "nodes"), [("ring", 6), ("torus", 12), ("machine", 4), ("plain", 3)]
)
def test_nodes_are_those_asked_for(called, name, nodes):
    code, out, _, _ = called(name, "--nodes", str(nodes), "--from", "64K", "--to", "64K")

    assert code == 0
    assert f"all_reduce on {nodes} ranks" in out


def test_an_interruption_leaves_what_is_done(called, monkeypatch):
    measured = bandwidth.SizedCollective.measure

    def measure(self, size):
        if size > 1 << 14:
            raise KeyboardInterrupt
        return measured(self, size)

    monkeypatch.setattr(bandwidth.SizedCollective, "measure", measure)
    code, _, err, rows = called("ring", "--factor", "4")

    assert code == 130
    assert err.rstrip().endswith("foldwire: interrupted")
    assert [row["size_bytes"] for row in rows] == ["1024", "4096", "16384"]


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("ring", ["--from", "2Q"], "'--from': must be a number of bytes from 4, as 4096, 64K, 1M"),
        ("ring", ["--from", "3"], "must be a number of bytes from 4"),
        ("ring", ["--from", "2M", "--to", "1M"], "last size must be at least the first, 2097152"),
        ("ring", ["--collective", "gather"], "--collective: must be one of all_reduce, reduce_"),
        ("ring", ["--nodes", "0"], "nodes must be at least 1, not 0"),
        ("torus", ["--nodes", "6"], "--nodes: must be a multiple of 4, the product of all dimens"),
        ("star", ["--nodes", "6"], "--nodes: must be absent for a topology of links"),
        ("dgx2", ["--nodes", "8"], "--nodes: must be absent here: the topology has one size only"),
        ("machine", ["--nodes", "400"], "topology.nodes: must"),
        ("astra", [], "astra.toml:1: astra: names a workload of its own"),
        ("alone", [], "alone.toml:1: topology: must have at least 2 ranks in a group"),
        ("ring", ["--set", "topology.sahpe=[4]"], "--set: topology.sahpe: unknown key"),
        ("ring", ["--endpoint", "idle"], "must be one of"),
    ],
)
def test_what_makes_no_sense_is_one_line(called, name, arguments, message):
    code, out, err, rows = called(name, *arguments)

    assert (code, out, rows) == (2, "", [])
    assert message in err and err.count("\n") == 1


def test_machines_take_the_same_sizes(capsys):
    assert main(["machines", "dgx-h100", "--algorithm", "ring", "--from", "1M", "--to", "2m"]) == 0
    rows = capsys.readouterr().out.splitlines()

    assert [row.split()[0] for row in rows[-2:]] == ["1048576", "2097152"]


def test_a_job_of_different_collectives_has_no_bandwidth():
    ring = {"topology": {"kind": "ring", "shape": [4]}}

    assert "algbw_bytes_per_s" not in run({**ring, "workload": {"shipped": "resnet50"}}).metrics


def test_bandwidths_are_axes_of_sweeps(tmp_path):
    from foldwire import sweep

    text = (
        "[base.topology]\nkind = 'ring'\nshape = [4]\n[base.workload]\ncollective = 'all_reduce'\n"
        "size_bytes = 4\n[grid]\nworkload.size_bytes = [4096, 65536]\n[plot]\ny = '{}'\n"
    )
    path = tmp_path / "sweep.toml"
    path.write_text(text.format("busbw_bytes_per_s"))
    table = sweep(path, tmp_path / "out", workers=1)

    assert table["busbw_bytes_per_s"] == [1.5 * each for each in table["algbw_bytes_per_s"]]
    from sim.results.metrics import METRICS

    with pytest.raises(ValueError, match=r"not 'algbw' \(did you mean 'algbw_bytes_per_s'\?\)$"):
        parse(text.format("algbw"), source="sweep.toml", metrics=METRICS)
