# SPDX-License-Identifier: Apache-2.0
"""Pages hold what a run was, need no other file, and stay small; a browser opens them."""

import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from bench.pages import browser, failures_of, missing
from foldwire.cli import main
from foldwire.console import open_page
from gen.table import Column, Table
from sim.describe.build import build
from sim.describe.system import read
from sim.events.simulate import simulate
from sim.network.network import Network
from sim.results.store import load_run, save_run
from sim.results.view.network import network_data
from sim.results.view.page import Chart, Section, View, part_of, write_view
from sim.results.view.run import OCCUPANCY
from sim.results.view.sweep import write_sweep_page
from sim.results.view.switch_rows import rises, switch_rows
from sim.results.view.timeline import MOST_BARS, timeline_data
from sim.run import run
from sim.workload.graph import GraphBuilder, Job

RING = {
    "topology": {"kind": "ring", "shape": [4]},
    "workload": {"collective": "all_reduce", "size_bytes": 65536},
    "run": {"passes": 1},
}
ENGINE = RING | {
    "topology": {"kind": "ring", "shape": [4], "bandwidth_bytes_per_s": 16 * 1.245e9},
    "endpoint": {"kind": "ace", "preset": "test", "level": "rtl"},
    "workload": {"collective": "all_reduce", "size_bytes": 1024},
}


def charts(page):
    """Data of the charts of a page, by kind."""
    pattern = r'data-kind="(\w+)".*?<script type="application/json">(.*?)</script>'
    found = re.findall(pattern, page.read_text(encoding="utf-8"), re.DOTALL)
    return {kind: json.loads(data) for kind, data in found}


def test_page_has_command_changes_tiles_charts_and_tables(tmp_path):
    done = run(RING, changes={"scheduler.chunk_bytes": 8192}, trace=True)
    done.save(tmp_path, figures=False, command="foldwire sim ring.toml")
    page = tmp_path / "index.html"
    text = page.read_text(encoding="utf-8")

    for part in (
        "foldwire sim ring.toml", "change scheduler.chunk_bytes", "limits the run; twice of it",
        "<dd>latency</dd>", "of the bound, injection", "chunk_bytes = 8192",
        "Busiest: NPU 0 → NPU 1, dimension 0",
    ):
        assert part in text, part
    assert not re.findall(r'(?:src|href)="(?!data:)', text)
    found = charts(page)
    assert {"timeline", "network", "lines"} <= found.keys()
    names = [lane["name"] for lane in found["timeline"]["lanes"]]
    assert names[:2] == ["iteration", "communication"]
    assert any(name.startswith("queue") for name in names)
    assert any(name.startswith("link → NPU") for name in names)
    assert len(found["network"]["places"]) == 4 and len(found["network"]["links"]) == 8


def test_rtl_run_has_a_page_with_the_check_of_its_data(tmp_path):
    run(ENGINE).save(tmp_path, figures=False)

    text = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "results equal numpy&#39;s" in text and "level rtl" in text
    assert charts(tmp_path / "index.html")["network"]["links"]


@pytest.mark.parametrize(
    ("topology", "places", "switches", "ways_out"),
    [
        ({"kind": "torus", "shape": [4, 4, 2]}, 32, 0, True),
        ({"kind": "torus", "shape": [8, 8]}, 64, 0, False),
        ({"kind": "switch", "shape": [8]}, 8, 1, False),
        ({"kind": "fat_tree", "shape": [32]}, 32, 8, False),
        ({"kind": "hierarchical_all_to_all", "shape": [2, 4]}, 8, 1, False),
        ({"kind": "torus", "shape": [32, 32]}, 256, 0, False),
        ({"kind": "ring", "shape": [300]}, 256, 0, False),
    ],
)
def test_networks_are_drawn_with_all_that_fits(topology, places, switches, ways_out):
    done = run(RING | {"topology": topology})
    data, caption = network_data(done.record, done.network)

    drawn = data["places"]
    assert sum(not switch for *_, switch in drawn) == places
    assert sum(switch for *_, switch in drawn) >= switches
    assert len({(x, y) for x, y, *_ in drawn}) == len(drawn), "two at one place"
    assert any(link[-1] for link in data["links"]) is ways_out
    assert ("Drawn: " in caption) is (done.network.nodes > places)
    assert all(0 <= busy <= 100 for _, _, _, busy, *_ in data["links"])


def drawn(example):
    """Places of the NPUs and of the rows of switches of an example, from the lowest, and links."""
    network = build(read(f"examples/{example}")).network
    ends = list(zip(network.link_source.tolist(), network.link_target.tolist()))
    places = switch_rows(
        network.nodes, network.link_source, network.link_target, network.link_fs_per_byte
    )
    rows = {}
    for vertex, (x, y) in places.items():
        rows.setdefault(-y, {})[vertex] = x
    npus, *switches = [rows[y] for y in sorted(rows)]
    assert list(npus) == list(range(network.nodes)), "not one row"
    return npus, switches, dict(zip(ends, rises(places, network.nodes, ends)))


def mean(row, vertices):
    return pytest.approx(sum(row[each] for each in vertices) / len(vertices))


@pytest.mark.parametrize(("example", "size", "switches"), [
    ("rails.toml", 8, [4, 8]), ("oversubscribed.toml", 8, [4, 4]), ("dragonfly.toml", 2, [20]),
])
def test_npus_of_listed_links_are_rows_under_the_switch_they_hang_on(example, size, switches):
    npus, rows, arcs = drawn(example)

    assert [len(row) for row in rows] == switches
    for number, (switch, x) in enumerate(rows[0].items()):
        group = range(number * size, (number + 1) * size)
        assert x == mean(npus, group)
        assert all((node, switch) in arcs for node in group)
    for row in rows:
        xs = sorted(row.values())
        assert all(right - left >= 0.8 for left, right in pairwise(xs))
    # Arcs are above whatever is between the ends of a link.
    order = {switch: number for number, switch in enumerate(sorted(rows[0], key=rows[0].get))}
    for (source, target), rise in arcs.items():
        apart = abs(order.get(source, -9) - order.get(target, 9))
        assert (rise > 0) is (source in order and target in order and apart > 1)


def test_what_joins_npus_without_a_switch_hangs_below_them():
    ends = np.array([[0, 4], [1, 4], [2, 4], [3, 2], [0, 2], [0, 1], [4, 5]])
    places = switch_rows(4, ends[:, 0], ends[:, 1], np.ones(len(ends)))

    assert places[5][1] < places[4][1] < places[3][1] == places[0][1]
    assert places[4][0] == places[1][0] and places[3][0] > places[2][0]
    assert [np.sign(each) for each in rises(places, 4, [(0, 2), (0, 1), (0, 4)])] == [-1, 0, 0]


def test_wide_groups_take_several_rows():
    done = run(RING | {"topology": {"kind": "switch", "shape": [128]}})
    data, _ = network_data(done.record, done.network)
    xs, ys = zip(*(place[:2] for place in data["places"]))

    assert max(xs) < 20 and max(ys) > 3 > 0 > min(ys)


def test_timeline_is_bounded_and_says_so():
    done = run(RING | {"workload": {"collective": "all_reduce", "size_bytes": 1 << 24}}, trace=True)
    many = np.repeat(done.record.spans, 1 + 40 * MOST_BARS // len(done.record.spans))
    data, caption = timeline_data(replace(done.record, spans=many, spans_left_out=7), done.job)

    assert max(len(lane["bars"]) for lane in data["lanes"]) == MOST_BARS
    assert "shorter ones are not" in caption
    # Of transfers that take equally long, some from all of the time are drawn.
    drawn = [bar[0] for lane in data["lanes"] if "link" in lane["name"] for bar in lane["bars"]]
    assert max(drawn) > 0.8 * data["end"] and min(drawn) < 0.2 * data["end"]
    assert f"the first {len(many)} of {len(many) + 7} chunks" in caption
    longest = max(many["end_fs"] - many["start_fs"])
    assert max(bar[1] for lane in data["lanes"] for bar in lane["bars"]) >= longest / 1e9


def test_runs_without_links_layers_or_data_have_pages(tmp_path):
    done = run(RING)
    none = np.zeros(0, np.int64)
    bare = replace(done.record, links=[], link_bytes=none, link_busy_fs=none, bucket_fs=0)
    save_run(bare, done.job, tmp_path / "bare", trace=False, figures=False, network=done.network)
    alone = run(RING | {"topology": {"kind": "ring", "shape": [1]}})
    alone.save(tmp_path / "alone")

    for name in ("bare", "alone"):
        assert "network" not in charts(tmp_path / name / "index.html")
    text = (tmp_path / "alone" / "index.html").read_text(encoding="utf-8")
    assert not charts(tmp_path / "alone" / "index.html"), "of no time"
    assert "all_reduce on 1 NPU," in text and OCCUPANCY not in text


def test_a_run_of_an_empty_job_is_saved_and_read_again(tmp_path):
    network = Network.ring(4, 5e10, 1e-7)
    job = Job(name="e", graphs=(GraphBuilder().graph(),))
    save_run(simulate(network, job), job, tmp_path, network=network)

    assert load_run(tmp_path).metrics["time_s"] == 0
    assert (tmp_path / "division.svg").is_file() and (tmp_path / "index.html").is_file()


@pytest.mark.parametrize("failing", [[], [1], [0, 1]])
def test_failed_points_are_a_table_of_their_own_with_the_error_first(failing, tmp_path):
    rows = [[each, None if each in failing else 2.0] for each in range(2)]
    table = Table("Sweep", [Column("a"), Column("time_s", "time", "µs", 3)], rows)
    if failing:
        errors = ["long words" if each in failing else None for each in range(2)]
        table = Table("Sweep", [*table.columns, Column("error")], [
            [*row, error] for row, error in zip(rows, errors)
        ])
    write_sweep_page(
        tmp_path / "a.html", "a", table, ["a"], x="a",
        y="time_s" if len(failing) < 2 else None, failed=len(failing),
    )

    text = (tmp_path / "a.html").read_text(encoding="utf-8")
    titles = dict(re.findall(r"<summary>(\w+) <.*?>(\d) row", text))
    expected = {"Sweep": str(2 - len(failing)), "Failed": str(len(failing))}
    assert titles == {name: count for name, count in expected.items() if count != "0"}
    assert text.count("<tr><td>long words</td>") == len(failing)


def test_texts_cannot_end_the_script_that_holds_them(tmp_path):
    view = View(title="<b>", lead="", sections=[
        Section(title="</script>", charts=[
            Chart(kind="bars", label='"', data={"x": "</script><b>", "y": float("nan")})
        ])
    ])
    write_view(tmp_path / "a.html", view)

    text = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert text.count("</script>") == 2 and "<b>" not in text
    assert charts(tmp_path / "a.html")["bars"] == {"x": "</script><b>", "y": None}


def test_long_tables_are_cut_with_a_note():
    table = run(RING | {"topology": {"kind": "torus", "shape": [8, 8]}}, changes={
        "run.fold": "off"
    }).links
    assert len(part_of(table, 10).rows) == 10
    assert f"first 10 of {len(table.rows)} rows" in part_of(table, 10).note


def test_view_shows_one_run_or_several_side_by_side(tmp_path, capsys):
    for name, size in (("a", 65536), ("b", 131072)):
        run(RING, changes={"workload.size_bytes": size}).save(tmp_path / name, figures=False)
    (tmp_path / "b" / "index.html").unlink()  # as of before pages were written

    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    for words in ([a], [b], [a, b], [str(tmp_path / "a" / "index.html")]):
        assert main(["view", *words, "--no-browser", "-o", str(tmp_path)]) == 0
        page = Path(capsys.readouterr().out.strip())
        assert page.is_file()
    text = (tmp_path / "view-a-b" / "index.html").read_text(encoding="utf-8")
    assert "workload.size_bytes" in text and "131072" in text and "Metrics that differ" in text
    assert main(["compare", a, b, "-o", str(tmp_path)]) == 0
    assert (tmp_path / "compare-a-b" / "index.html").is_file()
    assert load_run(b).name == "b"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "view takes at least one folder"),
        (["nowhere"], "nowhere/run.json: cannot be read: No such file or directory"),
        (["nowhere", "else"], "nowhere/run.json: cannot be read: No such file or directory"),
    ],
)
def test_wrong_folders_are_refused_in_one_line(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    assert main(["view", *words, "--no-browser"]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_browser_is_opened_where_there_is_a_screen(tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", lambda url: not opened.append(url))
    monkeypatch.setattr("sys.platform", "linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    assert not open_page(tmp_path / "index.html") and not opened
    monkeypatch.setenv("DISPLAY", ":0")
    assert open_page(tmp_path / "index.html") and opened[0].startswith("file:///")


def test_a_browser_finds_nothing_wrong_and_finds_what_is(tmp_path):
    if lacks := missing():
        pytest.skip(f"needs {lacks}")
    done = run(RING | {"workload": {"generator": "mlp", "sizes": [64, 64, 64], "batch": 8}})
    done.save(tmp_path / "good", figures=False)
    good = tmp_path / "good" / "index.html"
    bad = tmp_path / "bad.html"
    style = (
        "<style>.tiles dt { font-size: 9px; color: #999 } .tiles dd { margin-bottom: -2rem }"
        "main { min-width: 1400px }</style><script>console.log('x')</script>"
    )
    bad.write_text(good.read_text(encoding="utf-8").replace("</body>", f"{style}</body>"))
    lane = {"name": "crowded", "bars": [[n, 9, f"a bar of some length {n}", "compute"]
                                        for n in range(4)]}
    overlapping = Chart(kind="timeline", label="t", data={"end": 12, "lanes": [lane]})
    table = done.layers
    crowded = View(title="t", lead="", sections=[
        Section(title="t", charts=[overlapping], tables=[table])
    ])
    write_view(tmp_path / "crowded.html", crowded)
    with browser() as opened:
        assert failures_of(opened, good) == []
        assert failures_of(opened, tmp_path / "crowded.html", widths=[1280], schemes=["dark"]) == []
        found = "\n".join(failures_of(opened, bad, widths=[390], schemes=["light"]))
    for word in ("9.0 px", "contrast 2", "overlap", "wider than the window", "console: x"):
        assert word in found, found
