import csv
import json
from dataclasses import replace

import numpy as np
import pytest

from sim.results.compare import compare_figure, compare_layers, compare_runs
from sim.results.network import (
    dimensions_table,
    endpoints_table,
    links_table,
    series_table,
    utilisation,
)
from sim.results.store import load, save
from sim.results.table import Column, Table

US = 10**9


def test_utilisation_is_the_mean_over_npus_and_links(record, job):
    series = utilisation(record, job)

    # NPU 0 computes all of 0..40, 30 of 40..80, 10 of 80..120, 20 of 120..160; NPU 1 the same
    # but 40 of 40..80.
    assert series.compute.tolist() == pytest.approx([1.0, 0.875, 0.25, 0.5])
    assert series.network.tolist() == pytest.approx([0.0, 0.5, 1.0, 0.0])
    assert len(series.dimensions) == 1
    assert series.edges_us.tolist() == [0, 40, 80, 120, 160]
    assert series_table(series).rows[1] == (40.0, pytest.approx(87.5), 50.0, 50.0)


def test_last_window_is_as_long_as_the_run(record, job):
    short = replace(record, end_fs=140 * US, bucket_fs=80 * US)

    series = utilisation(short, job)

    assert series.edges_us.tolist() == [0, 80, 140]
    # 80..140: NPUs compute 110..120 and 128..140.
    assert series.compute.tolist() == pytest.approx([0.9375, 22 / 60])


def test_unrecorded_network_has_no_series(record, job):
    series = utilisation(replace(record, bucket_fs=0), job)

    assert len(series.compute) == 400 and len(series.network) == 0
    assert [column.name for column in series_table(series).columns] == ["from", "compute units"]
    assert float(series.compute.mean()) == pytest.approx(105 / 160)


def test_links_and_dimensions_report_bytes_and_load(record):
    assert links_table(record).rows[0] == (
        0, "NPU 0", "NPU 1", 0, 0, 1.0, 100.0, 5580, pytest.approx(5580 / 160e3), 50.0,
    )  # fmt: skip
    (row,) = dimensions_table(record).rows
    assert row == (0, 2, 10980, 5490.0, pytest.approx(5490 / 160e3), 37.5, 50.0, 25.0)


def test_endpoints_report_memory_traffic(record):
    engine, memory = endpoints_table(record).rows

    assert engine == ("engine", 37.5, 50.0, None, None)
    assert memory == ("memory read", 15.0, 20.0, 12000.0, pytest.approx(0.075))


def test_vertices_after_the_npus_are_switches(record):
    link = replace(record.links[0], target=3)
    changed = replace(record, links=[link, record.links[1]])

    assert links_table(changed).rows[0][2] == "switch 1"


def test_saved_run_is_read_back_equal(record, job, tmp_path):
    saved = save(record, job, tmp_path / "first")

    assert load(tmp_path / "first") == saved
    assert load(tmp_path / "first" / "run.json").name == "first"


def test_save_writes_every_table_twice_and_all_figures(record, job, tmp_path):
    from pyarrow import parquet

    save(record, job, tmp_path / "run")

    names = {path.name for path in (tmp_path / "run").iterdir()}
    stems = {name.removesuffix(".csv") for name in names if name.endswith(".csv")}
    assert stems == {
        "summary", "iterations", "phases", "layers", "collectives", "dimensions", "endpoints",
        "links", "utilisation",
    }  # fmt: skip
    for stem in stems:
        read = parquet.read_table(tmp_path / "run" / f"{stem}.parquet")
        with (tmp_path / "run" / f"{stem}.csv").open(encoding="utf-8") as file:
            header, *rows = list(csv.reader(file))
        assert read.column_names == header
        assert read.num_rows == len(rows)
    for figure in ("division.svg", "layers.svg", "utilisation.svg"):
        assert (tmp_path / "run" / figure).read_text().count("<svg") == 1
    assert json.loads((tmp_path / "run" / "trace.json").read_text())["otherData"]["NPUs"] == 2


def test_same_run_gives_the_same_bytes(record, job, tmp_path):
    for name in ("a", "b"):
        save(record, job, tmp_path / name, name="same")

    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes(), path.name


def test_runs_are_compared_with_the_first(record, job, tmp_path):
    slow = replace(record, end_fs=200 * US, link_bytes=2 * record.link_bytes)
    runs = [save(r, job, tmp_path / n, trace=False) for n, r in (("x", record), ("y", slow))]

    table = compare_runs(runs)
    compare_figure(tmp_path / "c.svg", runs)

    rows = [dict(zip((c.name for c in table.columns), row)) for row in table.rows]
    assert [row["run"] for row in rows] == ["x", "y"]
    assert [row["ratio"] for row in rows] == [1.0, 1.25]
    assert [row["exposed ratio"] for row in rows] == [1.0, 1.0]
    assert [row["sent per NPU"] for row in rows] == [5490.0, 10980.0]
    assert compare_layers(runs).rows == [("a", 35.0, 35.0), ("b", 5.0, 5.0), ("-", 11.0, 11.0)]
    assert ">y<" in (tmp_path / "c.svg").read_text()


def test_run_without_links_has_no_bytes_to_compare(record, job, tmp_path):
    none = np.zeros(0, np.int64)
    bare = replace(record, links=[], link_bytes=none, link_busy_fs=none, bucket_fs=0)

    run = save(bare, job, tmp_path / "rtl", trace=False)

    assert compare_runs([run, run]).rows[1][-1] is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot be read: No such file or directory; a saved run is a folder"),
        ("{", "not valid JSON"),
        ("[]", "not a saved run of format 1"),
        ('{"format": 2}', "not a saved run of format 1"),
        ('{"format": 1, "name": "x"}', "not a saved run: KeyError\\('job'\\)"),
        (
            '{"format": 1, "name": "x", "job": "y", "tables": {"summary": {"rows": []}}}',
            "tables.summary: not a table in JSON",
        ),
    ],
)
def test_what_is_no_saved_run_is_refused_with_its_path(tmp_path, text, message):
    if text is not None:
        (tmp_path / "run.json").write_text(text)

    with pytest.raises(ValueError, match=f"run.json: {message}"):
        load(tmp_path)


def test_table_survives_json_and_refuses_unknown_endings(tmp_path):
    table = Table("T", [Column("a", "µs", 3), Column("b")], note="n")
    table.add(1.5, None)
    table.add(2, True)

    assert Table.from_json(table.to_json()) == Table(
        "T", table.columns, [(1.5, None), (2, True)], "n"
    )
    with pytest.raises(ValueError, match=r"a.xlsx: a table is written as .csv, .json or .parquet"):
        table.write(tmp_path / "a.xlsx")


def test_parquet_keeps_units_types_and_gaps(tmp_path):
    from pyarrow import parquet

    table = Table("T", [Column("a", "µs"), Column("b"), Column("c")], note="n")
    table.add(1.5, None, 7)
    table.add(2, "x", None)
    table.write(tmp_path / "t.parquet")

    read = parquet.read_table(tmp_path / "t.parquet")

    assert read.to_pylist() == [
        {"a (µs)": 1.5, "b": None, "c": 7},
        {"a (µs)": 2.0, "b": "x", "c": None},
    ]
    assert read.schema.field("a (µs)").metadata == {b"unit": "µs".encode()}
    assert read.schema.metadata[b"title"] == b"T"


def test_parquet_refuses_a_column_of_mixed_kinds(tmp_path):
    table = Table("T", [Column("a")])
    table.add("x")
    table.add(1)

    with pytest.raises(ValueError, match="column 'a' of 'T' mixes int, str"):
        table.write(tmp_path / "t.parquet")


def test_numpy_numbers_do_not_reach_tables(record, job, tmp_path):
    from sim.results.breakdown import break_down
    from sim.results.store import tables

    for table in tables(break_down(record, job)).values():
        for row in table.rows:
            assert not any(isinstance(cell, np.generic) for cell in row), (table.title, row)
