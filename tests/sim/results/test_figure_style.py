# SPDX-License-Identifier: Apache-2.0
"""Figures: one colour for a meaning, scales that fit, labels that do not overlap."""

import re
import warnings
from contextlib import contextmanager
from itertools import pairwise

import pytest
from matplotlib.text import Text

from experiments.figure import Figure, Row
from experiments.plot import draw_published
from experiments.targets import Near
from sim.results import style, training_figures
from sim.results.training_figures import layer_labels, lines_figure
from sim.run import run


@pytest.fixture
def axes_of(monkeypatch):
    """The axes of the figures that are drawn."""
    drawn = []

    @contextmanager
    def kept(path, title, **size):
        with style.drawing(path, title, **size) as figure:
            yield figure
        drawn.extend(figure.axes)

    monkeypatch.setattr(training_figures, "drawing", kept)
    return drawn


def lines(path, curves, **options):
    lines_figure(path, curves, x_label="size_bytes", y_label="time_s", title="t", **options)


def test_meanings_have_a_colour_each_that_no_line_has():
    meanings = {style.COMPUTE, style.EXPOSED, style.COMMUNICATION, style.REST}
    assert len(meanings) == 4 and not meanings & set(style.LINES)
    assert style.colour_of("Exposed communication", 3) == style.EXPOSED
    looks = [style.line_look(index) for index in range(28)]
    assert len(set(looks)) == 28


@pytest.mark.parametrize(
    ("heights", "scale"), [([1.0, 30.0], "log"), ([1.0, 10.0], "linear"), ([0.0, 30.0], "linear")]
)
def test_heights_are_logarithmic_where_their_range_asks_for_it(tmp_path, axes_of, heights, scale):
    lines(tmp_path / "a.svg", {"a": ([1.0, 2.0], heights)})

    (axes,) = axes_of
    assert axes.get_yscale() == scale
    assert axes.get_ylim()[1] > 1.01 * max(heights)  # no marker is cut
    assert axes.get_xlabel() == "size" and axes.get_ylabel() == "time"


def test_categories_are_not_joined_by_lines(tmp_path, axes_of):
    lines(tmp_path / "a.svg", {"a": ([0.0, 1.0], [1.0, 2.0])}, x_names=["ideal", "ace"])

    assert [line.get_linestyle() for line in axes_of[0].lines] == ["None"]


@pytest.mark.parametrize("count", [3, 9, 40])
def test_labels_of_ticks_do_not_overlap(tmp_path, axes_of, count):
    xs = [77.5e9 * 1.17**n for n in range(count)]
    lines_figure(
        tmp_path / "a.png", {"a": (xs, xs)}, x_label="bandwidth_bytes_per_s", y_label="b",
        title="t",
    )
    (axes,) = axes_of
    low, high = axes.get_xlim()
    boxes = sorted(
        (label.get_window_extent().x0, label.get_window_extent().x1)
        for label, at in zip(axes.get_xticklabels(), axes.get_xticks())
        if low <= at <= high and label.get_text()
    )
    assert len(boxes) >= 2
    assert all(end <= start for (_, end), (start, _) in pairwise(boxes))


def test_repeated_layers_have_one_label():
    blocks = [f"block{n}_{part}" for n in range(96) for part in ("qkv", "project")]
    labels = layer_labels(["embedding", *blocks, "output"])

    assert list(labels.values()) == ["embedding", "block0 to 95", "output"]
    assert labels[1 + (len(blocks) - 1) / 2] == "block0 to 95"
    assert list(layer_labels(["a", "b1"]).values()) == ["a", "b1"]
    assert len(layer_labels([f"{chr(97 + n % 26)}x{n}y" for n in range(300)])) <= 70


def test_collectives_have_no_empty_panels_and_long_runs_no_microseconds(tmp_path):
    topology = {"kind": "ring", "shape": [4], "bandwidth_bytes_per_s": 1e9}
    workload = {"collective": "all_reduce", "size_bytes": 1 << 25}
    run({"topology": topology, "workload": workload, "run": {"passes": 1}}).save(tmp_path)

    assert not (tmp_path / "layers.svg").exists()
    text = (tmp_path / "utilisation.svg").read_text()
    assert ">time (ms)<" in text and "compute units busy" not in text
    assert ">compute<" not in (tmp_path / "division.svg").read_text()


def test_texts_have_fonts_with_their_characters_where_the_system_has_them(tmp_path, caplog):
    rare = "\N{COMBINING ASTERISK BELOW}"  # matplotlib brings a font with it, of one weight
    for name in ("x" + rare, "日本"):  # a warning would be an error here
        path = tmp_path / f"{name}.svg"
        lines(path, {name: ([1.0, 2.0], [1.0, 2.0])}, x_names=[name, "b"])
        assert ("STIXGeneral" in path.read_text(encoding="utf-8")) is (rare in name)
    assert not caplog.records


def test_other_warnings_of_a_drawing_are_kept(tmp_path):
    class Told(Text):
        def draw(self, renderer):
            warnings.warn("told", UserWarning, stacklevel=1)

    with pytest.warns(UserWarning, match="told"), style.drawing(tmp_path / "a.svg", "日") as figure:
        figure.add_artist(Told())


def test_published_values_are_drawn_beside_ours(tmp_path):
    rows = [
        Row(setting="gain", ours=2.0, unit="x", target=Near(2.2, 0.2)),
        Row(setting="far off", ours=9.0, unit="GB/s", target=Near(3.0, 0.1)),
        Row(setting="shown", ours=1.0),
    ]
    drawn = draw_published(Figure(title="Fig. 1", rows=rows), tmp_path / "a")

    assert drawn == rows[:2]
    text = (tmp_path / "a.svg").read_text()
    assert ">2 for 2.2 x<" in text and ">9 for 3 GB/s<" in text and ">far off<" in text
    assert text.count(style.EXPOSED) >= 1
    assert draw_published(Figure(title="Fig. 2", rows=rows[2:]), tmp_path / "b") == []
    assert not re.findall("b.svg", str(list(tmp_path.iterdir())))
