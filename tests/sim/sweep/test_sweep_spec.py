# SPDX-License-Identifier: Apache-2.0
import re

import pytest

from sim.describe.changes import changed
from sim.describe.reader import ConfigError
from sim.sweep.spec import parse, read

BASE = (
    "[base]\nwidth = 1\n[base.box]\nheight = 2\n[[base.link]]\nrate = 1\n[[base.link]]\nrate = 2\n"
)


def spec_of(text, base=BASE):
    return parse(base + text, source="s.toml")


def test_grid_makes_every_combination_with_the_last_key_fastest():
    spec = spec_of("[grid]\nwidth = [1, 2]\nbox.height = [3, 4]\n")

    assert spec.keys == ("width", "box.height")
    assert len(spec) == 4
    assert [tuple(point.values()) for point in spec.points()] == [(1, 3), (1, 4), (2, 3), (2, 4)]


def test_quoted_and_bare_keys_are_the_same():
    bare = spec_of("[grid]\nbox.height = [3, 4]\n")
    quoted = spec_of('[grid]\n"box.height" = [3, 4]\n')

    assert list(bare.points()) == list(quoted.points())


def test_zip_changes_keys_together_and_multiplies_with_the_grid():
    spec = spec_of("[grid]\nname = ['a', 'b']\n[[zip]]\nwidth = [1, 2]\nbox.height = [10, 20]\n")

    assert [tuple(point.values()) for point in spec.points()] == [
        ("a", 1, 10), ("a", 2, 20), ("b", 1, 10), ("b", 2, 20),
    ]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("{ from = 1, to = 7, step = 2 }", [1, 3, 5, 7]),
        ("{ from = 1, to = 8, step = 2 }", [1, 3, 5, 7]),
        ("{ from = 5, to = 1, step = -2 }", [5, 3, 1]),
        ("{ from = 0.1, to = 0.5, step = 0.1 }", [0.1, 0.2, 0.3, 0.4, 0.5]),
        ("{ from = 4, to = 64, factor = 4 }", [4, 16, 64]),
        ("{ from = 8, to = 1, factor = 0.5 }", [8, 4, 2, 1]),
        ("{ from = 1, to = 2, points = 3 }", [1, 1.5, 2]),
        ("{ from = 3, to = 3, step = 1 }", [3]),
        ("{ from = 3, to = 3, factor = 2 }", [3]),
        ("[[1, 2], [3, 4]]", [[1, 2], [3, 4]]),
    ],
)
def test_ranges_include_their_end_when_it_is_met(text, values):
    found = [point["width"] for point in spec_of(f"[grid]\nwidth = {text}\n").points()]

    assert found == pytest.approx(values) if type(values[0]) is float else found == values


def test_ranges_of_whole_numbers_stay_whole():
    found = [
        p["width"] for p in spec_of("[grid]\nwidth = {from = 1, to = 4, factor = 2}\n").points()
    ]

    assert [type(value) for value in found] == [int, int, int]


def test_point_is_the_base_with_its_changes_and_leaves_the_base_alone():
    spec = spec_of("[grid]\n'link.*.rate' = [7]\n'link.1.delay' = [8]\nnew.table.key = [9]\n")

    config = spec.config(next(spec.points()))

    assert config == {
        "width": 1,
        "box": {"height": 2},
        "link": [{"rate": 7}, {"rate": 7, "delay": 8}],
        "new": {"table": {"key": 9}},
    }
    assert spec.base["link"] == [{"rate": 1}, {"rate": 2}]


def test_numbers_make_the_arrays_that_are_missing():
    text = "[[zip]]\n'new.0.rate' = [1, 2]\n'new.1.rate' = [3, 4]\n'link.2.rate' = [5, 6]\n"

    configs = [spec_of(text).config(point) for point in spec_of(text).points()]

    assert [config["new"] for config in configs] == [
        [{"rate": 1}, {"rate": 3}],
        [{"rate": 2}, {"rate": 4}],
    ]
    assert [config["link"][2] for config in configs] == [{"rate": 5}, {"rate": 6}]


def test_a_table_as_value_is_no_shared_object():
    config = {"a": [{}, {}]}

    changed(config, "a.*.b", [1])
    config["a"][0]["b"].append(2)

    assert config == {"a": [{"b": [1, 2]}, {"b": [1]}]}


def test_base_is_found_beside_the_sweep(tmp_path):
    (tmp_path / "system.toml").write_text("width = 5\n")
    (tmp_path / "s.toml").write_text("base = 'system.toml'\n[grid]\nheight = [1]\n")

    spec = read(tmp_path / "s.toml")

    assert spec.base == {"width": 5}
    assert spec.source == str(tmp_path / "system.toml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[grdi]\na = [1]\n", r"s.toml:9: grdi: unknown key; did you mean 'grid'\? allowed: base"),
        ("", "a sweep varies at least one key"),
        ("[grid]\n", "a sweep varies at least one key"),
        ("[grid]\nwidth = 3\n", r"s.toml:10: grid.width: must be a list of values or a range, not"),
        ("[grid]\nwidth = []\n", r"must be a list of values or a range, not \[\]"),
        ("[grid]\nwidth = {from = 1, to = 2}\n", "needs from, to and one of step, factor, points"),
        ("[grid]\nwidth = {from = 1, step = 2}\n", "needs from, to and one of step"),
        ("[grid]\nwidth = {to = 1, step = 2}\n", "needs from, to and one of step"),
        ("[grid]\nwidth = {from = 1, to = 2, stepp = 1}\n", "width: 'stepp' is unknown in a range"),
        ("[grid]\nwidth = {from = 1, to = 2, step = 1e-320}\n", "makes inf values"),
        (
            "[grid]\nwidth = {from = 1, to = 2, step = 1, points = 2}\n",
            "needs from, to and one of step",
        ),
        ("[grid]\nwidth = {from = 1, to = 2, step = -1}\n", "step -1 does not lead from 1 to 2"),
        ("[grid]\nwidth = {from = 1, to = 2, step = 0}\n", "step 0 does not lead from 1 to 2"),
        ("[grid]\nwidth = {from = 0, to = 2, factor = 2}\n", "factor 2 does not lead from 0 to 2"),
        ("[grid]\nwidth = {from = 4, to = 2, factor = 2}\n", "factor 2 does not lead from 4 to 2"),
        ("[grid]\nwidth = {from = 1, to = 2, factor = 1}\n", "factor 1 does not lead from 1 to 2"),
        (
            "[grid]\nwidth = {from = 1, to = 2, points = 1}\n",
            "points must be a whole number from 2",
        ),
        ("[grid]\nwidth = {from = 1, to = inf, step = 1}\n", "to must be a number, not inf"),
        ("[grid]\nwidth = {from = 1, to = 1e9, step = 1}\n", "makes 1000000000 values"),
        (
            "[grid]\na = {from = 1, to = 1001, step = 1}\nb = {from = 1, to = 1000, step = 1}\n",
            "makes 1001000 points; allowed: up to 1000000",
        ),
        ("[grid]\nwidth.a = [1]\n", "width.a: 'a' lies in 1, which is no table"),
        (
            "[grid]\n'link.64.rate' = [1]\n",
            r"there is no entry '64' among 2; allowed: 0 to 63, or \*",
        ),
        ("[grid]\n'new.*.rate' = [1]\n", r"there is no entry '\*' among 0; allowed: 0 to 63"),
        ("[grid]\n'link.x.rate' = [1]\n", "there is no entry 'x' among 2"),
        (
            "[[zip]]\nwidth = [1]\nbox.height = [1, 2]\n",
            r"s.toml:9: zip\[0\]: must have equally many values of each key, but width has 1",
        ),
        ("[zip]\nwidth = [1]\n", "zip: must be tables, "),
        ("[grid]\nwidth = [1]\n[[zip]]\nwidth = [1]\n", "width: is varied twice"),
        ("[grid]\nwidth = [1]\n[plot]\nx = 'height'\n", "'height' is not varied; there are: width"),
        ("[grid]\nwidth = [1]\n[plot]\nz = 'height'\n", r"s.toml:12: plot.z: unknown key"),
        ("[grid\n", "s.toml: not valid TOML"),
    ],
)
def test_mistakes_name_file_line_and_key(text, message):
    with pytest.raises(ConfigError, match=message) as caught:
        spec_of(text)

    assert str(caught.value).startswith("s.toml")


@pytest.mark.parametrize(
    ("base", "message"),
    [
        ("", "s.toml: base: must name the file of the base, or be a table, "),
        ("base = 5\n", "s.toml:1: base: must name the file of the base"),
        ("base = 'absent.toml'\n", "absent.toml: cannot be read: No such file"),
    ],
)
def test_missing_base_is_refused(base, message):
    with pytest.raises(ConfigError, match=message):
        spec_of("[grid]\nwidth = [1]\n", base)


def test_plot_of_what_no_point_gives_is_refused_before_any_runs():
    text = BASE + "[grid]\nwidth = [1]\n[plot]\ny = 'are'\n"

    what = "plot.y: must be one of area, sum, not 'are' (did you mean 'area'?)"
    with pytest.raises(ConfigError, match=r"s\.toml:\d+: " + re.escape(what)):
        parse(text, source="s.toml", metrics=["area", "sum"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[topology]\nshape = [4]\n", "s.toml:1: topology: belongs to a system, which foldwire"),
        ("[base]\nwidth = 1\n[grid]\n'' = [1]\n", "s.toml:3: grid: a key must be names between do"),
        ("[base]\n[grid]\n'a..b' = [1]\n", "grid: a key must be names between dots, not 'a..b'"),
        ("# nothing\n", "s.toml: describes nothing; a sweep has base, and [grid] or [[zip]]"),
    ],
)
def test_what_is_no_sweep_is_told_so(text, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        parse(text, source="s.toml")


def test_a_number_makes_the_tables_before_its_own():
    config = {}

    changed(config, "dimension.1.latency_s", 1e-6)

    assert config == {"dimension": [{}, {"latency_s": 1e-6}]}


def test_endpoints_with_keys_of_their_own_stand_as_tables():
    spec = parse(
        "[base]\n[grid]\n"
        "endpoint = [{ kind = 'ideal' }, { kind = 'ace', sram_bytes = 65536 }]\n",
        source="s.toml",
    )

    found = [spec.config(changes)["endpoint"] for changes in spec.points()]
    assert found == [{"kind": "ideal"}, {"kind": "ace", "sram_bytes": 65536}]


def test_a_base_that_is_a_sweep_is_refused(tmp_path):
    path = tmp_path / "s.toml"
    path.write_text("base = 's.toml'\n[grid]\nwidth = [1]\n")

    with pytest.raises(ConfigError, match=r"s\.toml:1: base: must be a system, not a sweep as 's"):
        read(path)
