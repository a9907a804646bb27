# SPDX-License-Identifier: Apache-2.0
"""Explorations: which points are beaten, what a point costs, and what is written."""

import random

import pytest

from foldwire.cli import cli
from gen.estimate.model import FITTED, estimate
from gen.table import Column, Table
from hw.ace.config import preset
from sim.engines.engine import engine_named
from sim.opened import recorded
from sim.sweep.explore import front, price, priced_metrics

BASE = {
    "topology": {"kind": "ring", "shape": [4]},
    "endpoint": {"kind": "ace", "preset": "duo"},
    "workload": {"collective": "all_reduce", "size_bytes": 4096},
    "run": {"passes": 1},
}
SWEEP = """
[base.topology]
kind = "ring"
shape = [4]
bandwidth_bytes_per_s = 19.92e9
[base.endpoint]
kind = "ace"
preset = "duo"
level = "cycles"
[base.workload]
collective = "all_reduce"
size_bytes = 16384
[base.run]
passes = 1
[grid]
endpoint.sram_bytes = [8192, 16384, 32768]
endpoint.memory_ports = [1, 2]
"""


def table(points):
    return Table("points", [Column("lut"), Column("time_s")], [tuple(each) for each in points])


def test_a_front_has_what_no_other_beats():
    points = [(5, 1.0), (1, 9.0), (3, 3.0), (3, 2.0), (4, 2.0), (2, None), (6, 1.0), (7, 0.5)]
    assert front(table(points), "lut", "time_s") == [1, 3, 0, 7]


@pytest.mark.parametrize("seed", range(5))
def test_fronts_of_random_points(seed):
    rng = random.Random(seed)
    points = [(rng.randrange(20), rng.randrange(20)) for _ in range(60)]
    found = {points[n] for n in front(table(points), "lut", "time_s")}
    assert found == {
        (x, y) for x, y in points
        if not any((a <= x and b <= y) and (a, b) != (x, y) for a, b in points)
    }


def test_the_price_of_a_point_is_the_estimate_of_its_engine():
    found = price(BASE, source="")
    expected = estimate("ace", preset("duo"), engine_named("ace").blueprints["ace"].space)
    assert {kind: found[kind] for kind in expected.cells} == expected.cells
    assert priced_metrics(BASE, source="")["time_s"] > 0


def test_a_point_is_kept_as_long_as_the_models_are():
    with recorded() as opened:
        price(BASE, source="")
    assert FITTED.absolute() in opened


def test_an_endpoint_without_hardware_has_no_price():
    ideal = {**BASE, "endpoint": {"kind": "ideal"}}
    with pytest.raises(ValueError, match=r"endpoint\.preset must name an engine, or its level"):
        price(ideal, source="")


def test_an_exploration_writes_its_front_and_goes_on_where_it_was(tmp_path, run_cli):
    file = tmp_path / "small.toml"
    file.write_text(SWEEP)
    first = run_cli("explore", str(file), "-o", str(tmp_path / "out"), "--workers", "1")
    again = run_cli("explore", str(file), "-o", str(tmp_path / "out"), "--cost", "gates")
    assert "6 points, 0 of them from before" in first
    assert "6 points, 6 of them from before" in again
    folder = tmp_path / "out" / "small"
    page = (folder / "index.html").read_text()
    assert "points that no other beats" in page and "<svg" in page
    header, *rows = (folder / "front.csv").read_text().splitlines()
    assert header.startswith("endpoint.sram_bytes,endpoint.memory_ports,") and 1 <= len(rows) <= 6


@pytest.fixture
def run_cli(capsys):
    def run(*arguments):
        cli.main(list(arguments), standalone_mode=False)
        return "".join(capsys.readouterr())

    return run


@pytest.mark.parametrize("arguments, message", [
    (["--cost", "dollars"], "--cost must be one of lut, ff, gates, bram, not 'dollars'"),
    (["--time", "speed", "--workers", "1"], "--time must be one of .*, not 'speed'"),
])
def test_wrong_arguments_are_named(tmp_path, run_cli, arguments, message):
    file = tmp_path / "small.toml"
    file.write_text(SWEEP.replace("[8192, 16384, 32768]", "[16384]"))
    with pytest.raises(ValueError, match=message):
        run_cli("explore", str(file), "-o", str(tmp_path / "out"), *arguments)


def test_errors_of_points_are_told(tmp_path, run_cli):
    file = tmp_path / "small.toml"
    file.write_text(SWEEP.replace("bandwidth_bytes_per_s = 19.92e9", ""))
    said = run_cli("explore", str(file), "-o", str(tmp_path / "out"), "--workers", "1")
    assert "6 failed: " in said and "must be at most 1.992e+10" in said
