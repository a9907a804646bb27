# SPDX-License-Identifier: Apache-2.0
"""One result for `run`, `simulate`, `load_run` and `save`: what it has, says and shows."""

import json

import numpy as np
import pytest

import foldwire as fw
from gen.brief import Brief, brief
from gen.table import Column, NamedTables, Table

SYSTEM = {
    "topology": {"kind": "torus", "shape": [4, 2]},
    "endpoint": {"kind": "ace"},
    "workload": {"shipped": "resnet50"},
}
ENGINES = {
    "topology": {"kind": "ring", "shape": [3], "bandwidth_bytes_per_s": 16e9},
    "endpoint": {"kind": "ace", "preset": "test", "level": "cycles"},
    "workload": {"collective": "all_reduce", "size_bytes": 4096},
}
IN_MEMORY = ("record", "job", "network", "breakdown", "utilisation", "engines", "signals",
             "description", "system", "link_series", "save")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run, what saving it returns, the same read back, and that of its network and job."""
    folder = tmp_path_factory.mktemp("runs") / "training"
    done = fw.run(SYSTEM)
    saved = done.save(folder, figures=False)
    made = fw.simulate(done.network, done.job, endpoint="ace")
    return {"run": done, "save": saved, "load_run": fw.load_run(folder), "simulate": made}


def test_every_door_gives_a_run_with_the_same_results(runs):
    done, read = runs["run"], runs["load_run"]

    assert {type(each) for each in runs.values()} == {fw.Run}
    assert read == runs["save"] and read != done and done == done
    assert read.metrics == done.metrics and list(read.tables) == list(done.tables)
    for name, table in done.tables.items():
        assert read.tables[name] == table == getattr(read, name) == getattr(done, name), name
    for name in ("job_name", "time_s", "end_fs", "nodes", "folded", "events", "level", "notes",
                 "limited_by", "data", "algorithm", "provenance"):
        assert getattr(read, name) == getattr(done, name), name
    assert runs["simulate"].metrics.keys() == done.metrics.keys()
    assert runs["simulate"].level == "events" and runs["simulate"].end_fs > 0


def test_a_run_of_engines_is_read_back_with_its_level_and_links(tmp_path):
    done = fw.run(ENGINES)
    read = done.save(tmp_path / "ring", figures=False)

    assert read == fw.load_run(str(tmp_path / "ring")) == fw.load_run(tmp_path / "ring/run.json")
    assert (read.level, read.name, read.links) == ("cycles", "ring", done.links)
    assert read.events is None and len(read.links.rows) == 6


def test_a_result_or_its_record_is_divided_and_saved(runs, tmp_path):
    made = runs["simulate"]

    assert fw.break_down(made, made.job).run_fs == fw.break_down(made.record, made.job).run_fs
    saved = fw.save_run(made, made.job, tmp_path / "x", figures=False)
    assert saved == fw.load_run(tmp_path / "x") and "limits" not in saved.tables
    assert made.save(tmp_path / "x", figures=False).limits == made.limits


@pytest.mark.parametrize("name", IN_MEMORY)
def test_what_a_folder_does_not_hold_is_said_in_one_line(runs, name):
    read = runs["load_run"]
    with pytest.raises(AttributeError) as caught:
        getattr(read, name)("x") if name == "save" else getattr(read, name)
    with pytest.raises(AttributeError, match="has no 'record'"):
        fw.break_down(read, runs["run"].job)

    text = str(caught.value)
    assert text.startswith(f"a run that was read from a folder has no '{name}': run ")
    assert text.endswith("training/system.toml again") and "\n" not in text
    assert name not in dir(read) and name in dir(runs["run"])


def test_a_run_without_a_description_says_so(runs):
    with pytest.raises(AttributeError, match=r"^a run of fw.simulate has no 'description', but n"):
        _ = runs["simulate"].description


def test_links_of_a_folder_are_named_when_they_cannot_be_read(tmp_path):
    fw.run(ENGINES).save(tmp_path, figures=False)
    path = tmp_path / "links.csv"
    path.write_text("link,from\n0,NPU 0\n")
    with pytest.raises(ValueError, match=rf"^{path}: not the table 'Links'$"):
        _ = fw.load_run(tmp_path).links
    path.unlink()
    with pytest.raises(ValueError, match=rf"^{path}: cannot be read: No such file or directory$"):
        _ = fw.load_run(tmp_path).tables

    document = json.loads((tmp_path / "run.json").read_text())
    del document["headers"]
    (tmp_path / "run.json").write_text(json.dumps(document))
    older = fw.load_run(tmp_path)
    assert "links" not in older.tables and older.limits.rows
    with pytest.raises(ValueError, match=rf"^{path}: was saved by an older version, without the"):
        _ = older.links


def test_runs_and_tables_are_short_and_readable(runs):
    for each in runs.values():
        assert len(repr(each)) < 200 and repr(each).startswith("<Run ") and "\n" not in repr(each)
        assert f"on 8 NPUs, level events, {each.summary.texts()[0][0].split()[0]}." in str(each)
        lines = str(each).splitlines()
        assert len(lines) < 24 and "exposed communication" in str(each)
    done = runs["run"]
    assert str(done.limits).startswith("Limits\n") and "all together" in repr(done.limits)
    assert "149 more rows" in str(done.layers) and len(str(done.layers).splitlines()) < 60
    assert max(map(len, str(done.limits).splitlines())) <= 100
    assert str(Table("T", [Column("a")], [["x" * 300]])).count("x") == 300  # nothing is cut
    shown = repr(done.tables)
    assert shown.startswith("10 tables\n  summary: 1 row, resnet50 on 8 NPUs")
    assert len(shown.splitlines()) == 11
    for large in (done.record, done.breakdown, done.utilisation, done.job, done.job.graphs[0],
                  done.description, done.system, done.record.phases, fw.load_digits(),
                  fw.emit(fw.FPAdder(stages=3), name="adder")):
        assert len(repr(large)) <= 400 and "\n" not in repr(large) and "array(" not in repr(large)
    assert repr(done.network) == "<Network 4x2 ring.ring: 8 nodes, 32 links>"


def test_notebooks_show_runs_and_tables(runs):
    for each in runs.values():
        shown = each._repr_html_()
        assert "<td>exposed communication (µs)</td>" in shown and "<code>limits</code>" in shown
        assert f"<b>{each.name}: resnet50 on 8 NPUs" in shown
    tables = runs["run"].tables
    assert "149 more rows" in tables["layers"]._repr_html_()
    assert tables["layers"]._repr_html_().count("<tr>") == 13
    assert "<td>layers</td>" in tables._repr_html_()


def test_tab_finds_tables_and_columns(runs):
    for each in runs.values():
        assert {"links", "layers", "limits", "metrics", "time_s"} <= {*dir(each)}
        assert "links" in each.tables._ipython_key_completions_()
        assert "best_percent" in each.limits._ipython_key_completions_()
    with pytest.raises(KeyError) as caught:
        _ = runs["run"].tables["limit"]
    assert str(caught.value).startswith("there is no table 'limit'; there are: summary, iter")
    assert runs["run"].tables.get("limit") is None


def test_csv_gives_back_the_values_of_a_table():
    columns = [Column("name"), Column("time_s", "time", "µs"), Column("count"), Column("exact")]
    table = Table("T", columns, [["1", 1.5, 7, True], ["b,\n", None, None, False]], "note")
    header = Table("T", columns, [], "note")

    assert Table.from_csv(table.to_csv(), header) == table
    assert Table.from_csv(header.to_csv(), header) == header
    for text in ("", "name\n1\n", "name,time_s,count,exact\n1,2\n"):
        with pytest.raises(ValueError, match=r"^x.csv: not the table 'T'$"):
            Table.from_csv(text, header, source="x.csv")


def test_values_in_brief():
    class Thing(Brief):
        pass

    assert [brief(each) for each in (
        np.zeros((3, 4), np.float32), [np.zeros(3)] * 2, (1, 2), "x" * 50, {}, {"a": 1}, None,
        [1.5] * 9, fw.TaskKind.COMPUTE, Thing(), NamedTables(),
    )] == [
        "float32[3, 4]", "[2 ndarray]", "[1, 2]", repr("x" * 37 + "..."), "{}", "{1 str}", "None",
        "[9 float]", "COMPUTE", "Thing(...)", "{}",
    ]


def test_a_table_has_rows_and_names_of_columns(runs):
    limits = runs["run"].limits

    assert len(limits) == len(limits.rows) > 0 and limits
    assert list(limits) == [column.name for column in limits.columns]
    assert "mean_s" in limits and "x" not in limits and 0 not in limits


def test_a_run_can_be_looked_into(runs):
    assert not hasattr(runs["run"], "link_series")


def test_changes_take_values_of_numpy():
    done = fw.run(ENGINES, changes={"workload.size_bytes": np.int64(8192),
                                    "topology.shape": np.array([4])})
    assert done.nodes == 4
    with pytest.raises(ValueError, match=r"keys must be dotted paths, as .*, not 3"):
        fw.run(ENGINES, changes={3: [3]})
