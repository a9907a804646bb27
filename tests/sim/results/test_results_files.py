# SPDX-License-Identifier: Apache-2.0
import csv
import json
import re
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sim.results import training_figures
from sim.results.compare import compare_figure, compare_layers, compare_runs
from sim.results.network import (
    dimensions_table,
    endpoints_table,
    links_table,
    series_table,
    utilisation,
)
from sim.results.store import load_run, save_run
from sim.results.style import drawing
from sim.sweep.report import MOST_LINES

US = 10**9


def test_utilisation_is_the_mean_over_npus_and_links(record, job):
    series = utilisation(record, job)

    # NPU 0 computes all of 0..40, 30 of 40..80, 10 of 80..120, 20 of 120..160; NPU 1 the same
    # but 40 of 40..80.
    assert series.compute.tolist() == pytest.approx([1.0, 0.875, 0.25, 0.5])
    assert series.network.tolist() == pytest.approx([0.0, 0.5, 1.0, 0.0])
    assert len(series.dimensions) == 1
    assert (1e6 * series.edges_s).tolist() == [0, 40, 80, 120, 160]
    assert series_table(series).rows[1] == (40e-6, pytest.approx(87.5), 50.0, 50.0)


def test_last_window_is_as_long_as_the_run(record, job):
    short = replace(record, end_fs=140 * US, bucket_fs=80 * US)

    series = utilisation(short, job)

    assert (1e6 * series.edges_s).tolist() == [0, 80, 140]
    # 80..140: NPUs compute 110..120 and 128..140.
    assert series.compute.tolist() == pytest.approx([0.9375, 22 / 60])


def test_unrecorded_network_has_no_series(record, job):
    series = utilisation(replace(record, bucket_fs=0), job)

    assert len(series.compute) == 400 and len(series.network) == 0
    assert [each.name for each in series_table(series).columns] == ["start_s", "compute_percent"]
    assert float(series.compute.mean()) == pytest.approx(105 / 160)


def test_links_and_dimensions_report_bytes_and_load(record):
    assert links_table(record).rows[0] == (
        0, "NPU 0", "NPU 1", 0, 0, 1e9, 1e-7, 5580, pytest.approx(5580 / 160e-6), 50.0,
    )
    (row,) = dimensions_table(record).rows
    assert row == (0, 2, 10980, 5490.0, pytest.approx(5490 / 160e-6), 37.5, 50.0, 25.0)


def test_endpoints_report_memory_traffic(record):
    engine, memory = endpoints_table(record).rows

    assert engine == ("engine", 37.5, 50.0, None, None)
    assert memory == ("memory read", 15.0, 20.0, 12000.0, pytest.approx(75e6))


def test_units_of_which_there_are_several_are_busy_as_a_whole(record):
    memory = endpoints_table(replace(record, unit_servers=(4,))).rows[1]

    assert memory[1:3] == (3.75, 5.0)


def test_vertices_after_the_npus_are_switches(record):
    link = replace(record.links[0], target=3)
    changed = replace(record, links=[link, record.links[1]])

    assert links_table(changed).rows[0][2] == "switch 1"


def test_saved_run_is_read_back_equal(record, job, tmp_path):
    saved = save_run(record, job, tmp_path / "first")

    assert load_run(tmp_path / "first") == saved
    assert load_run(tmp_path / "first" / "run.json").name == "first"


def test_save_writes_every_table_twice_and_all_figures(record, job, tmp_path):
    from pyarrow import parquet

    save_run(record, job, tmp_path / "run")

    names = {path.name for path in (tmp_path / "run").iterdir()}
    stems = {name.removesuffix(".csv") for name in names if name.endswith(".csv")}
    assert stems == {
        "summary", "iterations", "phases", "layers", "collectives", "dimensions", "endpoints",
        "bounded", "links", "utilisation",
    }
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
        save_run(record, job, tmp_path / name, name="same")

    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes(), path.name


def test_runs_are_compared_with_the_first(record, job, tmp_path):
    slow = replace(record, end_fs=200 * US, link_bytes=2 * record.link_bytes)
    runs = [save_run(r, job, tmp_path / n, trace=False) for n, r in (("x", record), ("y", slow))]

    table = compare_runs(runs)
    compare_figure(tmp_path / "c.svg", runs)

    assert table["run"] == ["x", "y"]
    assert table["ratio"] == [1.0, 1.25]
    assert table["exposed_ratio"] == [1.0, 1.0]
    assert table["sent_bytes"] == [5490.0, 10980.0]
    assert compare_layers(runs).rows == [
        (name, pytest.approx(time), pytest.approx(time))
        for name, time in (("a", 35e-6), ("b", 5e-6), ("-", 11e-6))
    ]
    assert ">y<" in (tmp_path / "c.svg").read_text()


def test_comparison_reads_numbers_not_headings(record, job, tmp_path):
    run = save_run(record, job, tmp_path / "x", trace=False)
    without = replace(run, tables={"layers": run.tables["layers"]})

    # The unit that limits a run is a text of its summary.
    assert compare_runs([run, without]).rows[1][:-2] == compare_runs([run, run]).rows[1][:-2]
    assert compare_runs([run, without])["limited_by"] == [run.limited_by, None]
    assert load_run(tmp_path / "x").metrics["iteration_s"] == pytest.approx(80e-6)


def test_run_without_links_has_no_bytes_to_compare(record, job, tmp_path):
    none = np.zeros(0, np.int64)
    bare = replace(record, links=[], link_bytes=none, link_busy_fs=none, bucket_fs=0)

    run = save_run(bare, job, tmp_path / "rtl", trace=False)

    assert compare_runs([run, run])["sent_bytes"] == [None, None]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot be read: No such file or directory; a saved run is a folder"),
        ("{", "not valid JSON"),
        ("[]", "format: must be 2 or 3, of a saved run, not None"),
        ('{"format": 1}', "format: must be 2 or 3, of a saved run, not 1"),
        ('{"format": 2, "name": "x"}', "not a saved run: 'job' is missing"),
        (
            '{"format": 2, "name": "x", "job": "y", "metrics": {}, "tables": {"a": {"rows": []}}}',
            "tables.a: not a table in JSON",
        ),
    ],
)
def test_what_is_no_saved_run_is_refused_with_its_path(tmp_path, text, message):
    if text is not None:
        (tmp_path / "run.json").write_text(text)

    with pytest.raises(ValueError, match=f"run.json: {message}"):
        load_run(tmp_path)


def test_numpy_numbers_do_not_reach_tables(record, job, tmp_path):
    from sim.results.breakdown import break_down
    from sim.results.store import tables

    for table in tables(break_down(record, job)).values():
        for row in table.rows:
            assert not any(isinstance(cell, np.generic) for cell in row), (table.title, row)


def test_labels_of_bars_lie_within_the_figure(tmp_path, monkeypatch):
    """Long names of bars leave the least room for what is written beside them."""
    drawn = []

    @contextmanager
    def kept(path, title, **size):
        with drawing(path, title, **size) as figure:
            yield figure
            drawn.append(figure)

    monkeypatch.setattr(training_figures, "drawing", kept)
    bars = {"NPU, all cores and 900 GB/s for communication": (2.2, 3.3, 0.0), "b": (2.2, 0.1, 0.0)}

    training_figures.division_figure(tmp_path / "bars.svg", bars, title="endpoints", unit="ms")

    (figure,) = drawn
    width = figure.bbox.width
    labels = [each for each in figure.axes[0].texts if "exposed" in each.get_text()]
    assert len(labels) == 2
    extents = [each.get_window_extent() for each in labels]
    # A page shows the text in a font of its own, which may be wider.
    assert all(each.x1 + 0.4 * each.width < width for each in extents)


def test_axes_of_sweeps_have_units(tmp_path):
    curves = {"ace": ([1e9, 2e9], [0.003, 0.002])}

    training_figures.lines_figure(
        tmp_path / "lines.svg",
        curves,
        x_label="topology.bandwidth_bytes_per_s",
        y_label="iteration_s",
        title="sweep",
    )

    svg = (tmp_path / "lines.svg").read_text()
    assert re.search(r">\d(\.\d)? ms<", svg) and re.search(r">\d(\.\d)? GB/s<", svg)


def test_lines_of_a_figure_all_look_different(tmp_path, monkeypatch):
    """The eighth had the colour of the first, and the same marks."""
    looks = []
    plot = Axes.plot

    def noted(self, *args, **style):
        looks.append((style["color"], style["linestyle"], style["marker"]))
        return plot(self, *args, **style)

    monkeypatch.setattr(Axes, "plot", noted)
    curves = {f"line {n}": ([1.0, 2.0], [float(n), float(n)]) for n in range(MOST_LINES)}
    training_figures.lines_figure(
        tmp_path / "lines.svg", curves, x_label="x", y_label="y", title="lines"
    )

    assert len({*looks}) == len(looks) == MOST_LINES


def test_a_figure_is_there_whole_or_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "figure.svg"
    with drawing(path, "first") as figure:
        figure.subplots()
    first = path.read_bytes()

    def interrupted(self, file, **options):
        file.write_text("<sv")
        raise KeyboardInterrupt

    monkeypatch.setattr(Figure, "savefig", interrupted)
    with pytest.raises(KeyboardInterrupt), drawing(path, "second"):
        pass
    assert path.read_bytes() == first and [*tmp_path.iterdir()] == [path]
